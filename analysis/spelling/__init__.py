"""Expr: one definition of an operator that runs or prints."""
