"""ONNX Runtime and emitted packages, run in processes of their own."""
