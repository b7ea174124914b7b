"""Com.microsoft and the decoding steps: an optional package, loaded when a model has
them.
"""
