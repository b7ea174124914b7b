"""kernels.py of a package, but for the kernels."""
