"""A ray tracer for scenes like CLEVR's: sampling, shapes, light, materials, images and files."""
