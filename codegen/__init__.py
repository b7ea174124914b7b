"""Pipeline (compile, top to bottom) and cli."""
