"""Two networks, each a package or an ONNX file, and what tells them apart."""
