"""Cases of analysis/ops/ml/trees.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases, f32

_ROWS = f32([[0.5, -1, 2], [3, 0, -2], [-1, 0.25, 0], [np.nan, 1, 1]])
_TREE: dict[str, Any] = {
    "n_targets": 1,
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 2, 0, 0, 0, 1, 0, 0],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
    "nodes_values": [0.5, 1.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0],
    "target_treeids": [0, 0, 0, 1, 1],
    "target_nodeids": [2, 3, 4, 1, 2],
    "target_ids": [0, 0, 0, 0, 0],
    "target_weights": [1.5, -2.25, 0.1, 7.0, 0.3],
}


def _kinds(first: str, second: str, third: str) -> list[str]:
    one, two, three = (f"BRANCH_{name}" for name in (first, second, third))
    return [one, two, "LEAF", "LEAF", "LEAF", three, "LEAF", "LEAF"]


cases(
    "TreeEnsembleRegressor",
    *[
        case(_ROWS, nodes_modes=_kinds(*modes), **_TREE)
        for modes in (
            ("LEQ", "LEQ", "LEQ"),
            ("LT", "LT", "LT"),
            ("GTE", "GTE", "GTE"),
            ("GT", "GT", "GT"),
            ("EQ", "EQ", "EQ"),
            ("NEQ", "NEQ", "NEQ"),
            ("LEQ", "GT", "NEQ"),
        )
    ],
    *[
        case(
            _ROWS,
            nodes_modes=_kinds(*modes),
            nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 1, 0, 0],
            **_TREE,
        )
        for modes in (("LEQ", "LEQ", "LEQ"), ("GTE", "LT", "NEQ"))
    ],
    *[
        case(
            _ROWS,
            nodes_modes=_kinds("LEQ", "LEQ", "LEQ"),
            aggregate_function=aggregate,
            **_TREE,
        )
        for aggregate in ("MIN", "MAX")
    ],
    case(
        _ROWS,
        nodes_modes=_kinds("LEQ", "LEQ", "LEQ"),
        **{**_TREE, "n_targets": 3, "target_ids": [0, 2, 1, 2, 0]},
    ),
    case(_ROWS.astype(np.float64), nodes_modes=_kinds("LEQ", "LT", "GT"), **_TREE),
    domain="ai.onnx.ml",
)

_SPLIT_TREE: dict[str, Any] = {
    "n_targets": 2,
    "tree_roots": [0, 2],
    "nodes_featureids": [0, 2, 1],
    "nodes_splits": f32([0.5, 1, 0.25]),
    "nodes_truenodeids": [1, 0, 0],
    "nodes_trueleafs": [0, 1, 1],
    "nodes_falsenodeids": [2, 1, 3],
    "nodes_falseleafs": [1, 1, 1],
    "leaf_targetids": [0, 1, 0, 1],
    "leaf_weights": f32([1.5, -2.25, 0.1, 7]),
}
cases(
    "TreeEnsemble",
    *[
        case(_ROWS, nodes_modes=np.array(modes, np.uint8), **_SPLIT_TREE)
        for modes in ([0, 0, 0], [1, 1, 1], [2, 3, 4], [5, 5, 5])
    ]
    + [
        case(
            f32([[1, 2, 3], [3, 0, 2], [2, 1, 1], [9, 3, 0], [0, 7, 8]]),
            nodes_modes=np.array([6, 0, 6], np.uint8),
            membership_values=f32([3, 1, np.nan, 1, 2, 7, np.nan]),
            **_SPLIT_TREE,
        ),
    ],
    domain="ai.onnx.ml",
)
