"""Assignments -> the tree of modules they came from."""
