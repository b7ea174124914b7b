"""What ONNX has no operator for, in its own operators."""
