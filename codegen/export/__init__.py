"""The way back: a module, edited or trained on, as an ONNX file."""
