"""Triton kernels: which operators share one, and its source."""
