"""Errors and literals: what everything may import."""
