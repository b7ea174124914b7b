"""Every rule of the catalogue: it applies to its samples, and ONNX Runtime agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from support.rule_samples import feeds, run, sample_model

from fairhand.analysis.shapes.infer import infer
from fairhand.rewrites.certificate.proof_store import proven
from fairhand.rewrites.engine.apply import Rewriter
from fairhand.rewrites.engine.worklist import Worklist
from fairhand.rewrites.language.exactness import Exactness
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.rules.catalogue import RULES

CASES = [
    pytest.param(rule, sample, id=f"{rule.name}-{i}")
    for rule in RULES
    for i, sample in enumerate(rule.samples)
]
CLASSES = proven(RULES)


@pytest.mark.parametrize(("rule", "sample"), CASES)
def test_a_sample_is_rewritten_and_means_the_same(
    rule: Rule, sample: dict[str, Any]
) -> None:
    original = sample_model(rule, sample)
    model = ir.from_proto(original)
    exactness = CLASSES.get(rule.name, Exactness.REAL)
    rewriter = Rewriter(model, infer(model), {rule.name: exactness})
    engine = Worklist(rewriter, [(rule.when, [rule])])
    engine.run()
    rewriter.finish()
    assert [a.rule for a in engine.history], "the rule did not apply"
    rewritten = ir.to_proto(model)
    for seed in range(3):
        feed = feeds(original, seed)
        for a, b in zip(run(original, feed), run(rewritten, feed), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            if exactness is Exactness.BITWISE:
                assert a.tobytes() == b.tobytes()
            else:
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_every_rule_has_samples_and_mutants() -> None:
    assert [rule.name for rule in RULES if not rule.samples] == []
    assert [rule.name for rule in RULES if not rule.mutants] == []


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
