"""Which parts of a graph are the same: blocks, cycles, counts."""
