"""Layers that engines put in the place of others."""
