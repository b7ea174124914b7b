"""Parity with ONNX Runtime, its inputs and tolerances, bisection, the report."""
