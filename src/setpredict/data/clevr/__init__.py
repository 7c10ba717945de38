"""CLEVR's formats: object states, boxes, the camera and the scene files."""
