"""Files beside model.py in a package, as Python: copied whole or by definition."""
