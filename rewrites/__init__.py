"""Laws, their proofs, and what applies them to a graph."""
