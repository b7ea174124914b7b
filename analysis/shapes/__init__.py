"""Sizes and small integer values of every tensor; one entry, infer(model)."""
