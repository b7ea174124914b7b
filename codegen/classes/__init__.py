"""Calls that do the same -> one class, its parameters, its weights."""
