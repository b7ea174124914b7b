"""Is model.py, as it was written, the graph? Answered for all inputs, by structure."""
