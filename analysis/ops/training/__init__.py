"""Ai.onnx.preview.training."""
