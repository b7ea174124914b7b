"""Ai.onnx.ml and Gradient as arithmetic."""
