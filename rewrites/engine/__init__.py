"""Matching, building, applying, and why it ends."""
