"""Index maps against ONNX Runtime: an element of a result is the one that is read."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from support.one_operator import arrays, one_node
from support.operator_cases import cases_of

from fairhand.analysis.graph.shape_facts import NodeFacts
from fairhand.analysis.ops.facts.index_maps import Piece, Place
from fairhand.analysis.ops.registry import OPS, OpDef
from fairhand.analysis.shapes.infer import infer

MOVES = [op for op in OPS.values() if op.index_map is not None and not op.domain]
MOST = 1000  # elements of a result that are looked at


def pieces_of(op: OpDef, model: ir.Model, output: int) -> list[Piece]:
    (node,) = model.graph
    assert op.index_map is not None
    results = NodeFacts(node, infer(model)).ask(op.index_map)
    return list(results[output].pieces) if results else []


@pytest.mark.parametrize("op", MOVES, ids=lambda op: op.name)
def test_what_is_read_is_what_comes_out(op: OpDef) -> None:
    seen: Counter[bool] = Counter()
    for index, case in enumerate(cases_of(op)):
        inputs = arrays(op, index)
        proto = one_node(op, case, inputs)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        names = {f"x{i}" for i in case.constants}
        feed = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
        feed = {name: x for name, x in feed.items() if name not in names}
        try:
            session = ort.InferenceSession(proto.SerializeToString(), options)
            results = session.run(None, feed)
        except Exception:  # no kernel for the type: test_operators.py has those
            continue
        for output, result in enumerate(map(np.asarray, results)):
            pieces = pieces_of(op, ir.from_proto(proto), output)
            if not pieces or not all(piece.is_told for piece in pieces):
                continue
            fill = np.zeros(1, result.dtype)
            if inputs[2:3] and op.name == "Pad" and inputs[2] is not None:
                fill = inputs[2]
            for place in list(np.ndindex(result.shape))[:MOST]:
                own = tuple(Place(0, 0, k) for k in place)
                piece = next((p for p in pieces if p.meets(own)), None)
                found = fill.reshape(-1)[0]
                if piece is not None:
                    operand = inputs[piece.operand]
                    assert operand is not None
                    found = operand[piece.at(place)]
                assert np.array_equal(result[place], found), (case, place)
                seen[piece is not None] += 1
    assert seen[True]
    assert op.name != "Pad" or seen[False]
