"""No operator changed between opset 1 and the newest without an adapter or a reason.

A version of an operator differs from the one before it in ways that its schema shows:
inputs, outputs, attributes and their defaults. Each such difference is undone by an
adapter, or stands below because the old spelling still means the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import onnx
import pytest

from fairhand.analysis.ops import OPS
from fairhand.analysis.ops.type_rules import EARLY
from fairhand.codegen.statements.from_graph import BODIES
from fairhand.rewrites.adapters.opset_adapters import EXTENSIONS
from fairhand.rewrites.lowering import load_all
from fairhand.rewrites.lowering.by_type import LOWERINGS
from fairhand.rewrites.normalise import ADAPTERS

load_all()
OLDEST = 1
Schema = onnx.defs.OpSchema

# Additions that do nothing unless they are used.
ADDED = """
    ArgMax-12:select_last_index ArgMin-12:select_last_index
    Attention-24:inputs Attention-25:left_window_size Attention-25:right_window_size
    AveragePool-7:count_include_pad AveragePool-10:ceil_mode AveragePool-19:dilations
    Cast-19:saturate Cast-24:round_mode CastLike-19:saturate CastLike-24:round_mode
    DepthToSpace-11:mode
    DequantizeLinear-13:axis DequantizeLinear-21:block_size
    DequantizeLinear-23:output_dtype
    Gemm-11:inputs GatherND-12:batch_dims GroupNormalization-21:stash_type
    GRU-3:linear_before_reset GRU-14:layout LSTM-14:layout RNN-14:layout
    LpPool-18:ceil_mode LpPool-18:dilations
    MaxPool-8:storage_order MaxPool-8:outputs MaxPool-10:ceil_mode MaxPool-10:dilations
    OptionalHasElement-18:inputs Pad-18:inputs
    QuantizeLinear-13:axis QuantizeLinear-19:saturate QuantizeLinear-21:block_size
    QuantizeLinear-21:output_dtype QuantizeLinear-23:precision
    Range-27:stash_type Reshape-14:allowzero Resize-18:antialias Resize-18:axes
    Resize-18:keep_aspect_ratio_policy
    ScatterElements-16:reduction ScatterND-16:reduction
    Shape-15:start Shape-15:end SpaceToDepth-28:mode TopK-11:largest TopK-11:sorted
""".split()

# All forms of Constant become initializers, whatever their version.
ELSEWHERE = """
    Constant-11:value Constant-11:sparse_value Constant-12:value_int
    Constant-12:value_ints Constant-12:value_float Constant-12:value_floats
    Constant-12:value_string Constant-12:value_strings
""".split()


def history() -> Iterator[tuple[Schema, Schema]]:
    """Each version of an operator that is in range, with the one before it."""
    versions: dict[str, dict[int, Schema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions.setdefault(schema.name, {})[schema.since_version] = schema
    for known in versions.values():
        numbers = sorted(known)
        for old, new in pairwise(numbers):
            if new > OLDEST:
                yield known[old], known[new]


def options(parameters: list[Schema.FormalParameter]) -> list[object]:
    return [parameter.option for parameter in parameters]


def differences(old: Schema, new: Schema) -> Iterator[str]:
    """What the schemas show, as `Op-version:what`."""
    before, after = old.attributes, new.attributes
    changed = set(before) ^ set(after)
    for name in set(before) & set(after):
        one, other = before[name], after[name]
        same = one.default_value == other.default_value and one.type == other.type
        if not same or one.required != other.required:
            changed.add(name)
    if options(old.inputs) != options(new.inputs):
        changed.add("inputs")
    if options(old.outputs) != options(new.outputs):
        changed.add("outputs")
    if new.deprecated:
        changed.add("deprecated")
    yield from (f"{new.name}-{new.since_version}:{what}" for what in sorted(changed))


CHANGES = [(old, new, what) for old, new in history() for what in differences(old, new)]


@pytest.mark.parametrize(
    "old, new, what", CHANGES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_every_change_is_adapted_or_harmless(
    old: Schema, new: Schema, what: str
) -> None:
    until = new.since_version - 1
    adapted = any(a.op == new.name and a.until >= until for a in ADAPTERS)
    assert adapted or what in ADDED or what in ELSEWHERE


def test_nothing_is_excused_twice() -> None:
    shown = {what for _, _, what in CHANGES}
    assert set(ADDED) | set(ELSEWHERE) <= shown


def test_adapters_end_where_the_change_is() -> None:
    """An adapter for versions up to 12 is there because version 13 exists."""
    changed = {(new.name, new.since_version - 1) for _, new, _ in CHANGES}
    # Modes and the meaning of an axis changed here without a trace in the schema.
    changed |= {("Resize", 18), ("GroupNormalization", 20), ("DFT", 19), ("PRelu", 6)}
    changed |= {*zip(EARLY, (16, 8, 9), strict=True)}  # not ONNX's before
    assert {(a.op, a.until) for a in ADAPTERS} <= changed


def test_every_operator_of_onnx_is_known() -> None:
    """In its own spelling, as others, as a statement, or as a constant."""
    known = {*OPS, *EXTENSIONS, *LOWERINGS, *(("", name) for name in BODIES)}
    known |= {("", adapter.op) for adapter in ADAPTERS} | {("", "Constant")}
    listed = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    # Its definition in other operators takes its place
    # (rewrites/adapters/function_operators.py).
    assert listed - known == {("ai.onnx.preview", "FlexAttention")}
