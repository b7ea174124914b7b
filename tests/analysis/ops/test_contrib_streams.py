"""ONNX Runtime's operators of residual streams, against its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.contrib_models import Arrays, call, check, emitted, model, normal
from support.drawn_nodes import Known, by_operator, compared

from fairhand.analysis.errors import Unsupported

STREAMS, FLAT, BLOCK = normal(2, 3, 4, 8), normal(2, 3, 32), normal(2, 3, 8)
GATES = {
    "one": normal(2, 3, 4),
    "column": normal(2, 3, 4, 1),
    "features": normal(2, 3, 4, 8),
    "flat": normal(2, 3, 32),
}
MIX = normal(2, 3, 4, 4)
PRE, POST = "HyperConnectionPreMix", "HyperConnectionPostMix"
FOUR: dict[str, Any] = {"num_branches": 4}


def halves(feeds: Arrays) -> Arrays:
    return {name: x.astype(np.float16) for name, x in feeds.items()}


MEMORY: Arrays = {
    "k": STREAMS,
    "q": normal(2, 3, 4, 8),
    "v": BLOCK,
    "a": normal(4, 8),
    "b": normal(4, 8),
    "c": normal(4, 8),
}
CASES: dict[str, tuple[onnx.NodeProto, Arrays]] = {
    "gate": (call("EngramGate", "k q v a b"), MEMORY),
    "gate-both": (call("EngramGate", "k q v a b c", "y z", epsilon=1e-3), MEMORY),
    "gate-half": (call("EngramGate", "k q v a b c", "y z"), halves(MEMORY)),
    **{
        f"pre-{name}": (call(PRE, "x g"), {"x": STREAMS, "g": gates})
        for name, gates in GATES.items()
        if name != "flat"
    },
    **{
        f"pre-flat-{name}": (
            call(PRE, "x g", reduction_scale=0.5, **FOUR),
            {"x": FLAT, "g": gates},
        )
        for name, gates in GATES.items()
    },
    "pre-half": (
        call(PRE, "x g", **FOUR),
        {"x": FLAT.astype(np.float16), "g": GATES["one"]},
    ),
    **{
        f"post-{name}": (
            call(POST, "x b g"),
            {"x": STREAMS, "b": BLOCK, "g": gates},
        )
        for name, gates in GATES.items()
        if name != "flat"
    },
    "post-mix": (
        call(POST, "x b g m"),
        {"x": STREAMS, "b": BLOCK, "g": GATES["one"], "m": MIX},
    ),
    "post-flat": (
        call(POST, "x b g m", **FOUR),
        {"x": FLAT, "b": BLOCK, "g": GATES["column"], "m": MIX},
    ),
    "post-flat-half": (
        call(POST, "x b g m", **FOUR),
        halves({"x": FLAT, "b": BLOCK, "g": GATES["one"], "m": MIX}),
    ),
}


def known(name: str) -> Known:
    node, feeds = CASES[name]
    used = {v: feeds[v] for v in node.input}
    return model([node], used, None, " ".join(node.output)), used


@pytest.mark.parametrize("name", CASES)
def test_against_onnx_runtime(name: str, tmp_path: Path) -> None:
    check(*known(name), tmp_path)


# Of all operators of ONNX Runtime that have a kernel for a CPU, those that stay out.
OUT = {
    "AttnLSTM": "a recurrent layer that no exporter in use writes",
    "MatMulFpQ4": "its weights are packed as one processor's kernel takes them",
    "MaxpoolWithMask": "its documentation is: for internal use",
    "SparseToDenseMatMul": "sparse tensors as inputs",
    "VarlenNGramHashMapping": "it serves several requests in one batch",
}

DRAWN = by_operator(map(known, CASES))


@pytest.mark.parametrize("op", DRAWN)
def test_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    assert compared(op, DRAWN[op], 4, tmp_path) == 4


@pytest.mark.slow
@pytest.mark.parametrize("op", DRAWN)
def test_many_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    assert compared(op, DRAWN[op], 200, tmp_path) >= 100


def test_all_others_with_a_kernel_are_there() -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    from fairhand.analysis.ops import OPS
    from fairhand.analysis.ops.registry import DOMAIN
    from fairhand.rewrites.lowering import load_all
    from fairhand.rewrites.normalise import EXTENSIONS

    load_all()
    kernels = {k.op_name for k in state.get_all_opkernel_def() if k.domain == DOMAIN}
    known = {name for domain, name in (*OPS, *EXTENSIONS) if domain == DOMAIN}
    assert kernels - known == set(OUT)


@pytest.mark.parametrize("op", OUT)
def test_the_rest_is_refused_by_name(op: str, tmp_path: Path) -> None:
    node = call(op, "x x x x")
    with pytest.raises(Unsupported, match=op):
        emitted(model([node], {"x": BLOCK}), tmp_path)
