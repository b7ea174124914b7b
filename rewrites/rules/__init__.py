"""The rules, by what they simplify; catalogue.py lists them in their phases."""
