"""Models as ONNX files, which run without Python: traced, translated, with their loops and a description."""
