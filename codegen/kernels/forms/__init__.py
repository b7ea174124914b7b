"""Kernels of a form of their own: what they go through, their text, their launch."""
