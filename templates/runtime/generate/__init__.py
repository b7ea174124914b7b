"""generate.py of a decoder's package, and what transformers generates with."""
