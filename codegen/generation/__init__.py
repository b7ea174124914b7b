"""Decoders: their caches, and generate.py, which calls them token by token."""
