"""Com.microsoft in ONNX's own operators."""
