"""The mapping types of DNNFusion's tables 2 and 3."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairhand.analysis import ops
from fairhand.analysis.dataflow.mapping_types import (
    CELLS,
    Cell,
    Verdict,
    cell,
    mapping_type,
    most_complex,
)
from fairhand.analysis.ops.registry import (
    MANY_TO_MANY,
    ONE_TO_MANY,
    ONE_TO_ONE,
    OPAQUE,
    OPS,
    REORGANIZE,
    SHUFFLE,
    MappingType,
)
from fairhand.analysis.shapes.infer import infer

assert ops  # importing it fills the table

# As printed in the paper, but for names: there is no Upsample now, and GEMM is two.
TABLE_2 = {
    ONE_TO_ONE: """Add Asin BatchNormalization Cast Ceil Clip Concat Cos Erf Exp Greater
        LeakyRelu Log Not PRelu Reciprocal Relu Round Sigmoid Sin Slice Split Sqrt Tanh
        Where""",
    ONE_TO_MANY: "Expand Gather Resize",
    MANY_TO_MANY: """AveragePool Conv ConvTranspose CumSum Einsum Gemm MatMul
        InstanceNormalization MaxPool ReduceProd ReduceMean ReduceSum Softmax""",
    REORGANIZE: "Flatten Reshape Squeeze Unsqueeze",
    SHUFFLE: "DepthToSpace SpaceToDepth Transpose",
}
# Row: first operator. The colours are those that the paper's text speaks of.
G, Y = Verdict.FUSE, Verdict.PROFILE
COLUMNS = (ONE_TO_ONE, ONE_TO_MANY, MANY_TO_MANY, REORGANIZE, SHUFFLE)
TABLE_3 = {
    ONE_TO_ONE: (
        (ONE_TO_ONE, G), (ONE_TO_MANY, G), (MANY_TO_MANY, G), (REORGANIZE, G),
        (SHUFFLE, G),
    ),
    ONE_TO_MANY: (
        (ONE_TO_MANY, G), (ONE_TO_MANY, Y), None, (ONE_TO_MANY, Y), (ONE_TO_MANY, Y),
    ),
    MANY_TO_MANY: (
        (MANY_TO_MANY, G), (MANY_TO_MANY, Y), None, (MANY_TO_MANY, Y),
        (MANY_TO_MANY, Y),
    ),
    REORGANIZE: (
        (REORGANIZE, G), (ONE_TO_MANY, Y), (MANY_TO_MANY, Y), (REORGANIZE, G),
        (REORGANIZE, G),
    ),
    SHUFFLE: (
        (SHUFFLE, G), (ONE_TO_MANY, Y), (MANY_TO_MANY, Y), (REORGANIZE, G),
        (SHUFFLE, G),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mapping", TABLE_2, ids=lambda m: m.value)
def test_operators_have_the_types_of_table_2(mapping: MappingType) -> None:
    names = TABLE_2[mapping].split()
    assert {name: OPS["", name].mapping for name in names} == dict.fromkeys(
        names, mapping
    )


def test_pairs_are_those_of_table_3() -> None:
    for first, row in TABLE_3.items():
        for second, expected in zip(COLUMNS, row, strict=True):
            found = cell(first, second)
            assert found == (Cell(*expected) if expected else cell(OPAQUE, OPAQUE))


def test_there_are_23_rules_of_code_generation_and_two_breaks() -> None:
    verdicts = [found.verdict for found in CELLS.values()]
    assert len(verdicts) == 25
    assert verdicts.count(Verdict.BREAK) == 2
    assert verdicts.count(Verdict.FUSE) == 13
    assert verdicts.count(Verdict.PROFILE) == 10


@pytest.mark.parametrize("other", MappingType, ids=lambda m: m.value)
def test_nothing_fuses_with_an_opaque_operator(other: MappingType) -> None:
    assert cell(OPAQUE, other).verdict is Verdict.BREAK
    assert cell(other, OPAQUE).verdict is Verdict.BREAK


def test_the_result_is_the_stronger_type_but_reorganize_hides_shuffle() -> None:
    for (first, second), found in CELLS.items():
        if found.verdict is not Verdict.BREAK:
            pair = {first, second}
            strongest = REORGANIZE if pair == {REORGANIZE, SHUFFLE} else None
            assert found.result is (strongest or most_complex(first, second))


def test_the_more_complex_type_counts() -> None:
    order = [ONE_TO_ONE, REORGANIZE, SHUFFLE, ONE_TO_MANY, MANY_TO_MANY]
    for i, mapping in enumerate(order):
        assert most_complex(*order[: i + 1]) is mapping
        assert most_complex(*reversed(order[: i + 1])) is mapping


# ---- what shapes decide


def classified(op: str, *shapes: tuple[int | str, ...], **attrs: object) -> MappingType:
    """The type of a node on inputs of these shapes; a list stands for a constant."""
    inputs, weights = [], []
    for i, shape in enumerate(shapes):
        if isinstance(shape, list):
            array = np.ones(shape, np.float32)
            weights.append(numpy_helper.from_array(array, f"x{i}"))
        else:
            inputs.append(
                helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape)
            )
    node = helper.make_node(op, [f"x{i}" for i in range(len(shapes))], ["y"], **attrs)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", inputs, [result], weights)
    opset = [helper.make_opsetid("", 20)]
    model = ir.from_proto(helper.make_model(graph, opset_imports=opset))
    shapes_found = infer(model)
    return mapping_type(model.graph[0], shapes_found)


@pytest.mark.parametrize(
    ("op", "shapes", "expected"),
    [
        ("Add", [(2, 3), (2, 3)], ONE_TO_ONE),
        ("Add", [("n", 3), ("n", 3)], ONE_TO_ONE),
        ("Add", [(2, 3), (3,)], ONE_TO_MANY),
        ("Add", [(2, 3), (1, 2, 3)], ONE_TO_ONE),
        ("Add", [(2, 3), (2, 1)], ONE_TO_MANY),
        ("Add", [("n", 3), ("m", 3)], ONE_TO_MANY),  # n may be 1
        ("Add", [(2, 3), [3]], ONE_TO_ONE),  # a parameter
        ("Add", [(3,), [2, 3]], ONE_TO_MANY),
        ("Relu", [(2, 3)], ONE_TO_ONE),
        ("Concat", [(2, 3), (4, 3)], ONE_TO_ONE),
        ("MatMul", [(2, 3), (3, 4)], MANY_TO_MANY),
        ("BatchNormalization", [(2, 3), [3], [3], [3], [3]], ONE_TO_ONE),
    ],
)
def test_shapes_decide(op: str, shapes: list, expected: MappingType) -> None:
    attrs = {"axis": 0} if op == "Concat" else {}
    assert classified(op, *shapes, **attrs) is expected


def test_statistics_of_a_batch_are_many_to_many() -> None:
    shapes = [(2, 3), [3], [3], [3], [3]]
    found = classified("BatchNormalization", *shapes, training_mode=1)
    assert found is MANY_TO_MANY


def test_unknown_operators_are_opaque() -> None:
    node = ir.node("Mystery", [ir.Value(name="x")], domain="some.where")
    assert mapping_type(node, infer(empty())) is OPAQUE


def empty() -> ir.Model:
    return ir.from_proto(helper.make_model(helper.make_graph([], "g", [], [])))
