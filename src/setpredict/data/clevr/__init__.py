"""CLEVR's own formats: states, boxes, its camera and its scene files."""
