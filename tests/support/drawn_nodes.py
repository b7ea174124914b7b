"""Models of one node, drawn around known ones, before and after normalising."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.node_variations import varied

from fairhand.analysis.errors import FairhandError
from fairhand.analysis.oracle.process import Limits, RunFailed, Session
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.tolerances import compare
from fairhand.rewrites.normalise import normalise

from .stages import save_stage

LIMITS = Limits(20, 1 << 30)
Feed = dict[str, Any]
Known = tuple[onnx.ModelProto, Feed]  # the last node is the one to vary


def by_operator(known: Iterable[Known]) -> dict[str, list[Known]]:
    """The models by the operator of their last node."""
    found: dict[str, list[Known]] = {}
    for model, feed in known:
        found.setdefault(model.graph.node[-1].op_type, []).append((model, feed))
    return found


def compared(
    name: str,
    known: Sequence[Known],
    wanted: int,
    folder: Path,
    sizes: Sequence[int] = (1, 2, 3, 5, 8),
    exact: bool = False,
) -> int:
    """How many of the nodes drawn ONNX Runtime ran: at most `wanted`, all compared.

    Normalised they compute the same: to the bit if `exact`, else within the tolerance
    of verification. `sizes` are those that inputs may come to have.
    """
    pool = [_attributes(model) for model, _ in known]
    count = 0
    for number in range(8 * wanted):
        draw = random.Random(zlib.crc32(f"{name} {number}".encode()))
        drawn = _another(*draw.choice(known), pool, sizes, draw)
        count += drawn is not None and _same(*drawn, folder, exact)
        if count == wanted:
            break
    return count


def _attributes(model: onnx.ModelProto) -> dict[str, Any]:
    node = model.graph.node[-1]
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _another(
    model: onnx.ModelProto,
    feed: Feed,
    pool: list[dict[str, Any]],
    sizes: Sequence[int],
    draw: random.Random,
) -> Known | None:
    """Another model; None if it is no model at all."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    stored = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    names = [*feed, *stored]
    given = [np.asarray(x) for x in (*feed.values(), *stored.values())]
    attributes, arrays = varied(_attributes(made), given, pool, sizes, draw)
    node = made.graph.node[-1]
    del node.attribute[:], made.graph.initializer[:]
    try:
        node.attribute.extend(
            helper.make_attribute(key, value) for key, value in attributes.items()
        )
    except (TypeError, ValueError):
        return None
    found = dict(zip(names, arrays, strict=True))
    made.graph.initializer.extend(
        numpy_helper.from_array(found.pop(key), key) for key in stored
    )
    for info in made.graph.input:
        dims = info.type.tensor_type.shape.dim
        for dim, size in zip(dims, found[info.name].shape, strict=False):
            if dim.HasField("dim_value"):
                dim.dim_value = size
    return made, found


def _same(model: onnx.ModelProto, feed: Feed, folder: Path, exact: bool) -> bool:
    """Whether ONNX Runtime takes the model; it computes the same when normalised."""
    try:
        _run(_with_sizes(model, feed).SerializeToString(), feed)
        before = _run(model.SerializeToString(), feed)
    except (RunFailed, ValueError, TypeError):
        return False
    try:
        graph = normalise(load(model).model)
    except FairhandError:
        return False  # it is refused, in words
    save_stage(graph, folder / "after.onnx")
    try:
        after = _run(str(folder / "after.onnx"), feed)
    except RunFailed as reason:
        if "is not a registered function" in str(reason):
            return False  # a step of fairhand's own
        # ONNX Runtime lacks Swish, and masks of some shapes.
        lowered = onnx.load(folder / "after.onnx")
        after = list(ReferenceEvaluator(lowered).run(None, feed))
    for one, other in zip(map(np.asarray, before), map(np.asarray, after), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape, _said(model)
        if exact or one.dtype.kind != "f":
            same = np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        else:
            same = bool(compare(other, one))
        assert same, _said(model)
    return True


def _with_sizes(model: onnx.ModelProto, feed: Feed) -> onnx.ModelProto:
    """The model with all sizes, by which more is checked."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for info in made.graph.input:
        shape = info.type.tensor_type.shape
        del shape.dim[:]
        for size in np.asarray(feed[info.name]).shape:
            shape.dim.add().dim_value = size
    return made


def _said(model: onnx.ModelProto) -> str:
    return onnx.printer.to_text(model.graph.node[-1])


def _run(model: str | bytes, feed: Feed) -> list[Any]:
    return Session(model, 1, LIMITS).run(None, feed)
