"""Every version of every operator in the table has a case, and means what it did.

A case of the table that a version's schema admits is computed as that version, and as
the newest one that it is brought to. Cases of adapters (support/older_models.py) are
for the versions that admit none.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator
from support import older_models, oldest_models
from support.one_operator import IR_VERSION, arrays, one_node
from support.operator_cases import cases_of

from fairhand.analysis.ops import OPS
from fairhand.codegen.verify.parity import oracle
from fairhand.codegen.verify.tolerances import compare_values
from fairhand.rewrites.adapters.opset_adapters import TARGET_OPSET
from fairhand.rewrites.normalise import normalise

DRAWN = {name for _, name in OPS if name.startswith(("Bern", "Multinom", "Random"))}
# They take optionals alone, which test_control_flow.py gives them.
OF_OPTIONALS = {("OptionalGetElement", 15), ("OptionalHasElement", 15)}
# Neither ONNX Runtime nor onnx's evaluator computes these and the newest version too.
UNCOMPUTED = {
    *(("BatchNormalization", 6), ("Clip", 1), ("Gemm", 1), ("Gemm", 6), ("RNN", 1)),
    *(("GlobalLpPool", 1), ("GlobalLpPool", 2), ("GlobalLpPool", 22)),
    *(("MaxRoiPool", 1), ("MaxRoiPool", 22)),
}
# Training was the default, and is refused (oldest_models.py).
REFUSED = {("Dropout", 1), ("Dropout", 6)}


@cache
def schemas() -> dict[str, list[int]]:
    """The versions of each operator of ai.onnx that the table has."""
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        known = not schema.domain and ("", schema.name) in OPS
        if known and schema.since_version <= TARGET_OPSET and not schema.deprecated:
            found.setdefault(schema.name, []).append(schema.since_version)
    return found


VERSIONS = sorted((op, v) for op, versions in schemas().items() for v in versions)


def spelled(op: str, index: int, version: int) -> onnx.ModelProto | None:
    """A case of the table in an older version, if that admits it."""
    entry = OPS["", op]
    model = one_node(entry, cases_of(entry)[index], arrays(entry, index))
    model.opset_import[0].version = version
    model.ir_version = IR_VERSION
    for info in model.graph.output:
        info.ClearField("type")
    try:
        context = onnx.checker.DEFAULT_CONTEXT
        context.opset_imports = {"": version}
        context.ir_version = IR_VERSION
        onnx.checker.check_node(model.graph.node[0], context)
        return onnx.shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True
        )
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None


@cache
def case_at(op: str, version: int) -> tuple[int, onnx.ModelProto] | None:
    for index in range(len(cases_of(OPS["", op]))):
        model = spelled(op, index, version)
        if model is not None:
            return index, model
    return None


@cache
def adapted() -> set[tuple[str, int]]:
    """The versions that cases of adapters are in."""
    cases = [
        *(older_models.CASES + [case for case, _ in older_models.REFUSED]),
        *(case for case, _ in oldest_models.CASES + oldest_models.REFUSED),
    ]
    return {
        (case.op, max((v for v in schemas()[case.op] if v <= case.opset), default=0))
        for case in cases
        if case.op in schemas()
    }


def test_every_version_has_a_case() -> None:
    missing = {(op, v) for op, v in VERSIONS if case_at(op, v) is None} - adapted()
    assert missing == OF_OPTIONALS
    newest = {(op, versions[-1]) for op, versions in schemas().items()}
    # As the version behind, but for types and for flags that count for nothing.
    alike = {("Gemm", 1), ("GlobalLpPool", 2), ("MaxRoiPool", 1)}
    assert UNCOMPUTED - adapted() - newest == alike


FOUND = [
    (op, v)
    for op, v in VERSIONS
    if op not in DRAWN and (op, v) not in UNCOMPUTED | REFUSED and case_at(op, v)
]


@pytest.mark.parametrize(("op", "version"), FOUND, ids=lambda x: str(x))
def test_a_version_means_what_it_did(op: str, version: int) -> None:
    found = case_at(op, version)
    assert found is not None
    index, model = found
    entry = OPS["", op]
    feed = {
        f"x{i}": list(x) if isinstance(x, tuple) else np.asarray(x)
        for i, x in enumerate(arrays(entry, index))
        if x is not None and i not in cases_of(entry)[index].constants
    }
    newest = ir.to_proto(normalise(ir.from_proto(model)))
    results = computed(model, feed), computed(newest, feed)
    for before, after in zip(*results, strict=True):
        same = compare_values(after, before)
        assert same, same.reason


def computed(model: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    try:
        return list(oracle(model.SerializeToString()).run(None, feed))
    except Exception:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, feed))
