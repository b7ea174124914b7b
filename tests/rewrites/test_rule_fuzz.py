"""Random graphs mean the same after rewriting, on ONNX Runtime.

pytest tests/rewrites/test_rule_fuzz.py                       300 graphs, always the
same FAIRHAND_FUZZ=10000 pytest tests/rewrites/test_rule_fuzz.py   more
"""

from __future__ import annotations

import os

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_graphs import random_model
from support.rule_samples import run

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

COUNT = int(os.environ.get("FAIRHAND_FUZZ", "100"))


def feed(seed: int, model: ir.Model) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        str(value.name): random.standard_normal(value.shape.numpy()).astype(np.float32)
        for value in model.graph.inputs
    }


@pytest.mark.parametrize("exactness", ["bitwise", "real"])
@settings(
    max_examples=COUNT // 2,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**31 - 1))
def test_a_random_graph_means_the_same(exactness: str, seed: int) -> None:
    original = random_model(seed)
    if not original.graph.output:
        return
    loaded = load(original)
    model = loaded.model.clone()
    simplify(model, exactness)
    given_ = feed(seed, loaded.model)
    before = run(original, given_)
    after = run(ir.to_proto(model), given_)
    for info, a, b in zip(original.graph.output, before, after, strict=True):
        assert a.shape == b.shape, info.name
        if exactness == "bitwise":
            assert _same_bits(a, b), info.name
        elif all(np.isfinite(v).all() for v in before):
            scale = max(1.0, float(np.abs(a).max(initial=0)))
            np.testing.assert_allclose(b, a, rtol=0, atol=1e-3 * scale)


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """NaN is one value: which of its bit patterns comes out is left to the machine."""
    nan = np.isnan(a)
    return bool(
        np.array_equal(nan, np.isnan(b)) and a[~nan].tobytes() == b[~nan].tobytes()
    )


@pytest.mark.parametrize("seed", [5723, 8214])
def test_graphs_that_once_broke_the_matcher(seed: int) -> None:
    """A node of the same operator with fewer results beside the one that matched."""
    loaded = load(random_model(seed))
    simplify(loaded.model, "real")
