"""Nodes -> assignments and blocks, each spelled as an Expr."""
