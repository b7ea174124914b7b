"""Forwards that fork; groups of a fusion plan as functions."""
