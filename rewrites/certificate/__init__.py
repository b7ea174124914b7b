"""Stored proofs and the hash of a graph."""
