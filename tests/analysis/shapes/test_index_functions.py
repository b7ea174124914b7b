"""What places.py says of elements, against ONNX Runtime at every place."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.helper as oh
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import sympy
from onnx import TensorProto

import fairhand
from fairhand.analysis.ops import OPS
from fairhand.analysis.ops.facts.index_functions import Count, Natural, Rows
from fairhand.analysis.shapes.index_functions import Places
from fairhand.analysis.shapes.infer import infer
from fairhand.rewrites.simplify import simplify

GRAPHS = int(os.environ.get("FAIRHAND_FUZZ", "40"))
SIZES = [(2, 3), (3, 2), (1, 3), (2, 1), (1, 1), (0, 2), (3, 0), (0, 0)]
NUMBERS = (-1, 0, 1, 2)
OPSET = [oh.make_opsetid("", 20)]


class Maker:
    """Random nodes on ranges of the sizes a and b of an input."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[tuple[int, ...] | int, str] = {}
        self.ranks: dict[str, int] = {}  # of whole numbers
        self.truths: dict[str, int] = {}
        sizes = [self.node("Shape", ["x"], start=k, end=k + 1) for k in (0, 1)]
        self.sizes = [*sizes, self.number((1,)), self.number((2,))]
        scalars = [self.node("Squeeze", [size]) for size in sizes]
        for size in scalars:
            start, step = self.number(self.pick(NUMBERS)), self.number(1)
            made = self.node("Range", [start, size, step])
            self.ranks[made] = 1
        for _ in range(30):
            self.grow()

    def pick(self, options):  # type: ignore[no-untyped-def]
        return self.chance.choice(list(options))

    def number(self, value: tuple[int, ...] | int) -> str:
        return self.stored.setdefault(value, f"c{len(self.stored)}")

    def node(self, op: str, inputs: list[str], **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(oh.make_node(op, inputs, [name], **attributes))
        return name

    def grow(self) -> None:
        truth = bool(self.truths) and self.chance.random() < 0.3
        pool = self.truths if truth else self.ranks
        x = self.pick(pool)
        rank = pool[x]
        shaped = self.moved(x, rank)
        if shaped is not None:
            pool.update([shaped])
        elif truth:
            self.of_truths(x)
        else:
            self.of_numbers(x, rank)

    def moved(self, x: str, rank: int) -> tuple[str, int] | None:
        ops = "Unsqueeze Expand Transpose Slice Squeeze Trilu"
        op = self.pick([*ops.split(), ""])
        if op == "Trilu" and rank > 1:
            given = [x, *([self.number(self.pick((-1, 0, 1)))] * self.pick((0, 1)))]
            return self.node(op, given, upper=self.pick((0, 1))), rank
        if op == "Unsqueeze" and rank < 4:
            axis = self.number((self.chance.randrange(rank + 1),))
            return self.node(op, [x, axis]), rank + 1
        if op == "Expand" and rank:
            sizes = [self.pick(self.sizes) for _ in range(rank)]
            return self.node(op, [x, self.node("Concat", sizes, axis=0)]), rank
        if op == "Transpose" and rank > 1:
            perm = self.chance.sample(range(rank), rank)
            return self.node(op, [x], perm=perm), rank
        if op == "Slice" and rank:
            axis = self.number((self.chance.randrange(rank),))
            start = self.pick([self.number((k,)) for k in (0, 1, -1)])
            end = self.pick([*self.sizes, self.number((-1,)), self.number((10**9,))])
            step = self.number((self.pick([1, 1, 2, -1]),))
            return self.node(op, [x, start, end, axis, step]), rank
        if op == "Squeeze" and rank > 1:
            axis = self.number((self.chance.randrange(rank),))
            return self.node(op, [x, axis]), rank - 1
        return None

    def of_truths(self, x: str) -> None:
        other = self.pick(self.truths)
        op = self.pick(["Not", "And", "Or", "Cast"])
        if op == "Cast":
            self.ranks[self.node(op, [x], to=TensorProto.INT64)] = self.truths[x]
            return
        rank = max(self.truths[x], self.truths[other])
        inputs = [x] if op == "Not" else [x, other]
        self.truths[self.node(op, inputs)] = self.truths[x] if op == "Not" else rank

    def of_numbers(self, x: str, rank: int) -> None:
        other = self.pick([*self.ranks, *map(self.number, NUMBERS)])
        both = max(rank, self.ranks.get(other, 0))
        compare = ["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"]
        others = "Add Sub Mul CumSum Concat GatherND Cast Floats"
        op = self.pick([*compare, *others.split()])
        if op == "Floats":
            floats = [self.node("Cast", [y], to=TensorProto.FLOAT) for y in (x, other)]
            self.truths[self.node(self.pick(compare), floats)] = both
        elif op in compare:
            self.truths[self.node(op, [x, other])] = both
        elif op in ("Add", "Sub", "Mul"):
            self.ranks[self.node(op, [x, other])] = both
        elif op == "CumSum" and rank:
            axis = self.number(self.chance.randrange(rank))
            self.ranks[self.node(op, [x, axis])] = rank
        elif op == "Cast":
            to = self.pick([TensorProto.INT64, TensorProto.BOOL])
            made = self.node(op, [x], to=to)
            (self.truths if to == TensorProto.BOOL else self.ranks)[made] = rank
        elif op == "Concat" and rank and self.ranks.get(other) == rank:
            axis = self.chance.randrange(rank)
            self.ranks[self.node(op, [x, other], axis=axis)] = rank
        elif op == "GatherND" and rank in (1, 2):
            row = self.pick(y for y, r in self.ranks.items() if r == 1)
            # [n, 1], so that the places are [n, rank]
            wide = [self.node("Unsqueeze", [row, self.number((1,))])] * rank
            places = self.node("Concat", wide, axis=-1)
            self.ranks[self.node(op, [x, places])] = 1

    def model(self, nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
        stored = [
            onnx.numpy_helper.from_array(np.array(value, np.int64), name)
            for value, name in self.stored.items()
        ]
        x = oh.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"])
        outputs = [onnx.ValueInfoProto(name=node.output[0]) for node in nodes]
        graph = oh.make_graph(nodes, "g", [x], outputs, stored)
        return oh.make_model(graph, opset_imports=OPSET, ir_version=10)


Sizes = dict[sympy.Symbol, int]


def value(size: object, sizes: Sizes) -> int:
    return int(sympy.sympify(size).subs(sizes))


def at(count: Count, place: tuple[int, ...], sizes: Sizes) -> int:
    first = value(count.first, sizes)
    return first + sum(s * p for s, p in zip(count.steps, place, strict=True))


def agrees(found: object, array: np.ndarray, sizes: Sizes) -> bool:
    for place in np.ndindex(array.shape):
        if isinstance(found, Rows):
            said: object = at(found.counts[place[-1]], place, sizes)
        elif isinstance(found, Natural):
            said = found.number if at(found.count, place, sizes) >= 0 else 0
        else:
            said = at(found, place, sizes) if isinstance(found, Count) else found
        if said != array[place]:
            return False
    return True


def usable(maker: Maker) -> list[onnx.NodeProto]:
    """Those that ONNX Runtime computes where all sizes are 2, one by one."""
    kept: list[onnx.NodeProto] = []
    values: dict[str, np.ndarray] = {"x": np.zeros((2, 2), np.float32)}
    values |= {name: np.array(v, np.int64) for v, name in maker.stored.items()}
    for node in maker.nodes:
        if any(name not in values for name in node.input):
            continue
        given = {name: values[name] for name in node.input}
        infos = [
            oh.make_tensor_value_info(n, oh.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in given.items()
        ]
        out = [onnx.ValueInfoProto(name=node.output[0])]
        graph = oh.make_graph([node], "g", infos, out)
        model = oh.make_model(graph, opset_imports=OPSET, ir_version=10)
        try:
            (values[node.output[0]],) = run(model, given)
        except Exception:  # of any kind: shapes that don't fit, places outside
            continue
        kept.append(node)
    return kept


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feed))


def test_elements_are_what_onnx_runtime_computes() -> None:
    known: Counter[str] = Counter()
    compared = 0
    for seed in range(GRAPHS):
        maker = Maker(seed)
        nodes = usable(maker)
        try:
            model = ir.from_proto(maker.model(nodes))
            shapes = infer(model)
        except fairhand.FairhandError:
            continue  # sizes that never fit but where all are alike
        places = Places(shapes)
        found = {
            node.outputs[0].name: (node.op_type, places.of(node.outputs[0]))
            for node in model.graph
        }
        a, b = shapes.dims(model.graph.inputs[0]) or ()
        for sizes in SIZES:
            feed = {"x": np.zeros(sizes, np.float32)}
            try:
                arrays = run(maker.model(nodes), feed)
            except Exception:  # sizes that don't fit
                continue
            bound = {a: sizes[0], b: sizes[1]}
            for node, array in zip(model.graph, arrays, strict=True):
                dims = shapes.dims(node.outputs[0]) or ()
                for size, number in zip(dims, array.shape, strict=True):
                    bound.setdefault(size, number)
            for node, array in zip(nodes, arrays, strict=True):
                op, element = found[node.output[0]]
                if element is not None:
                    assert agrees(element, array, bound), (seed, node, sizes, element)
                    known[op] += 1
                    compared += array.size
    rare = {"Identity", "ConstantOfShape", "Reshape", "Flatten"}
    rare |= {"Split", "Tile", "Pad", "DepthToSpace", "SpaceToDepth"}  # by index maps
    followed = {op.name for op in OPS.values() if op.by_index is not None}
    assert followed - rare <= set(known) and compared > 50 * GRAPHS


PACKED = """
<ir_version: 10, opset_import: ["" : 23]>
decoder (float["batch", 2, "seq", 8] q, float["batch", 2, "seq", 8] k,
         float["batch", 2, "seq", 8] v) => (float["batch", 2, "seq", 8] y)
<int64 zero = {0}, int64 one = {1}, int64[1] zeros = {0}, int64[1] ones = {1},
 int64[1] last = {-1},
 int64[3] others = {1, 2, 3}, int64[3] columns = {0, 1, 3}, int64[2] inner = {1, 2},
 float none = {0.0}, float lowest = {-3.4028234663852886e38}>
{
    batches = Shape <start = 0, end = 1> (q)
    times = Shape <start = 2, end = 3> (q)
    batch = Squeeze (batches)
    time = Squeeze (times)
    counted = Range (zero, time, one)
    row = Unsqueeze (counted, zeros)
    grid = Concat <axis = 0> (batches, times)
    positions = Expand (row, grid)
    first = Slice (positions, zeros, ones, ones, ones)
    before = Sub (first, one)
    longer = Concat <axis = -1> (before, positions)
    more = Add (time, one)
    end = Reshape (more, ones)
    behind = Slice (longer, zeros, times, ones, ones)
    ahead = Slice (longer, ones, end, ones, ones)
    step = Sub (ahead, behind)
    next = Equal (step, one)
    begins = Not (next)
    number = Cast <to = 7> (begins)
    document = CumSum (number, one)
    samples = Range (zero, batch, one)
    sample = Unsqueeze (samples, others)
    query = Unsqueeze (counted, columns)
    wide = Max (sample, query)
    sizes = Shape (wide)
    sample2 = Expand (sample, sizes)
    query2 = Expand (query, sizes)
    sample3 = Unsqueeze (sample2, last)
    query3 = Unsqueeze (query2, last)
    places = Concat <axis = -1> (sample3, query3)
    mine = GatherND (document, places)
    theirs = Unsqueeze (document, inner)
    same = Equal (mine, theirs)
    at = GatherND (positions, places)
    there = Unsqueeze (positions, inner)
    earlier = LessOrEqual (there, at)
    seen = And (same, earlier)
    mask = Where (seen, none, lowest)
    y = Attention (q, k, v, mask)
}
"""


@pytest.mark.parametrize(
    ("element", "numbers"),
    [
        ("float", ("1.0", "0.0", "-3.4028234663852886e38")),
        ("float", ("1.0", "0.0", "-1.0")),
        ("bfloat16", ("16256", "0", "65407")),  # as bits
    ],
)
def test_a_triangle_of_ones_that_chooses_is_causal(
    element: str, numbers: tuple[str, str, str]
) -> None:
    """As PyTorch's exporter writes is_causal, for any length."""
    one, none, lowest = (f"{{{x}}}" for x in numbers)
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 23]>
        net ({element}[b, 2, t, 8] q, {element}[b, 2, t, 8] k, {element}[b, 2, t, 8] v)
            => ({element}[b, 2, t, 8] y)
            <{element} one = {one}, {element} none = {none},
             {element} lowest = {lowest}> {{
            length = Shape <start = 2, end = 3> (q)
            square = Concat <axis = 0> (length, length)
            ones = Expand (one, square)
            seen = Trilu <upper = 0> (ones)
            hidden = Equal (seen, none)
            mask = Where (hidden, lowest, none)
            keys = Transpose <perm = [0, 1, 3, 2]> (k)
            products = MatMul (q, keys)
            scores = Add (products, mask)
            shares = Softmax <axis = -1> (scores)
            y = MatMul (shares, v)
        }}""")
    found = ir.from_proto(model)
    simplify(found)
    (attention,) = (n for n in found.graph if n.op_type == "Attention")
    is_lowest = numbers[-1] != "-1.0"
    assert attention.attributes.get_int("is_causal", 0) == is_lowest


def test_a_mask_of_truths_has_no_lowest_number() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 23]>
        net (float[b, 2, t, 8] q, float[b, 2, t, 8] k, float[b, 2, t, 8] v,
             bool[t, t] mask) => (float[b, 2, t, 8] y) {
            y = Attention (q, k, v, mask)
        }""")
    found = ir.from_proto(model)
    simplify(found)
    assert [node.op_type for node in found.graph] == ["Attention"]


def test_a_mask_of_documents_in_a_row_that_are_one_is_causal(tmp_path: Path) -> None:
    """As transformers' decoders compute it: where positions step by more than 1, the
    next document begins, which sees nothing of the one before."""
    model = onnx.parser.parse_model(PACKED)
    done = simplify(ir_model := ir.from_proto(model))
    operators = [node.op_type for node in ir_model.graph]
    assert set(operators) <= {"Attention"} and done.counts()["attention_causal"]
    fairhand.compile(model, tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert "is_causal=True" in text and "arange" not in text
