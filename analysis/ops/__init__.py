"""The operators, by family; importing this package fills the table."""

from __future__ import annotations

from importlib import import_module

from .table import OPS, OpDef, define, lookup

__all__ = ["FAMILIES", "OPS", "OpDef", "define", "lookup", "register"]

FAMILIES = (
    "elementwise",
    "activations",
    "casts",
    "logic",
    "reduce",
    "reshape",
    "movement",
    "slicing",
    "creation",
    "indexing",
    "scatter",
    "resize",
    "spatial",
    "matmul",
    "conv",
    "pool",
    "roi",
    "norms",
    "norms_by_size",
    "recurrent",
    "attention",
    "contrib_attention",
    "contrib_packed",
    "contrib_qlinear",
    "contrib_experts",
    "contrib_tensors",
    "contrib_words",
    "contrib_hashes",
    "losses",
    "signal",
    "linear_attention",
    "contrib_states",
    "quant",
    "quant_products",
    "sampling",
    "search",
    "training",
    "images",
    "strings",
    "trees",
    "ml",
    "sequences",
)

for _family in FAMILIES:
    import_module(f".{_family}", __name__)


registered: list[OpDef] = []  # by users


def register(op: OpDef) -> OpDef:
    """Enter a user's operator; one of a built-in operator's name replaces it."""
    registered.append(op)
    return define(op, override=True)
