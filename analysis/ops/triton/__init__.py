"""How operators are spelled inside a kernel."""
