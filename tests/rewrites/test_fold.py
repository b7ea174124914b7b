"""Folding computes the constant part, and only what is worth its memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.handmade import RNG
from support.stages import save_stage

from fairhand.analysis.graph.constants import uniform, uniform_element
from fairhand.analysis.graph.parameters import is_filler
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.folding.constant_folding import fold_constants
from fairhand.rewrites.folding.duplicate_constants import merge_constants
from fairhand.rewrites.normalise import normalise
from fairhand.rewrites.simplify import simplify

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
X = RNG.standard_normal((2, 3)).astype(np.float32)
BIG = RNG.standard_normal((256, 128)).astype(np.float32)


def parse(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    header = '<ir_version: 10, opset_import: ["" : 21, "com.x" : 1]>\n'
    proto = onnx.parser.parse_model(header + text)
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return proto


def folded(proto: onnx.ModelProto) -> tuple[ir.Model, int]:
    model = normalise(load(proto).model)
    return model, fold_constants(model)


def ops(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph.all_nodes()]


def constant(model: ir.Model, name: str) -> np.ndarray:
    tensor = model.graph.initializers[name].const_value
    assert tensor is not None
    return tensor.numpy()


def run(model: onnx.ModelProto | Path, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(data, options).run(None, feed)


def same(proto: onnx.ModelProto, folder: Path, **feed: np.ndarray) -> ir.Model:
    """The folded model, once it is clear that it computes what `proto` does."""
    model, _ = folded(proto)
    save_stage(model, folder / "after.onnx")
    expected, found = run(proto, feed), run(folder / "after.onnx", feed)
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    return model


CHAIN = """g (float[2, 3] x) => (float[2, 3] y)
{
    s = Shape(w)  zero = Constant<value_int = 0>()  one = Constant<value_int = 1>()
    n = Gather(s, zero)  end = Add(n, one)  r = Range(zero, end, one)
    total = ReduceSum<keepdims = 0>(r)  scale = Cast<to = 1>(total)  y = Mul(x, scale)
}"""


def test_chains_fold_to_their_end(tmp_path: Path) -> None:
    """A Range's size is known only after its limit is: this takes two rounds."""
    model = same(parse(CHAIN, w=BIG), tmp_path, x=X)
    assert ops(model) == ["Mul"] and list(model.graph.initializers) == ["scale"]
    assert constant(model, "scale") == 256 * 257 / 2


def test_a_range_of_floats_folds(tmp_path: Path) -> None:
    """Torch's exporter spells linspace so."""
    text = """g (float[3] x) => (float[3] y)
    { first = Constant<value_float = 0.0>()  step = Constant<value_float = 1.0>()
      end = Constant<value_float = 3.0>()  r = Range(first, end, step)
      y = Mul(x, r) }"""
    assert ops(same(parse(text), tmp_path, x=X[0])) == ["Mul"]


def test_what_is_folded_is_counted_and_named() -> None:
    proto = parse(
        """g (float[2, 256] x) => (float[2, 256] y)
        { t = Transpose(w)  p = MatMul(w, t)  half = Mul(p, h)
          y = MatMul(x, half) }""",
        **{"layer.weight": BIG, "h": np.array(0.5, np.float32)},
    )
    for node in proto.graph.node:
        node.input[:] = ["layer.weight" if i == "w" else i for i in node.input]
    proto.graph.node[2].metadata_props.add(key="scope", value="layer")
    model, count = folded(proto)
    assert count == 3 and ops(model) == ["MatMul"]
    value = model.graph.initializers["half"]
    assert value.meta["folded_from"] == ("layer.weight",)
    assert value.metadata_props == {"scope": "layer"}
    assert np.allclose(constant(model, "half"), BIG @ BIG.T / 2, atol=1e-4)


def test_zeros_of_a_weights_shape_are_made_of_no_weight() -> None:
    """As torch's exporter gives them to a convolution without a bias."""
    text = """g (float[2, 256] x) => (float[2, 256] y)
    { n = Shape<end = 1>(weight)  zero = Constant<value_float = 0.0>()
      val_1 = Expand(zero, n)  y = Add(x, val_1) }"""
    model, _ = folded(parse(text, weight=BIG))
    assert is_filler(model.graph.initializers["val_1"], 0)


def test_constant_outputs_and_branches(tmp_path: Path) -> None:
    proto = parse(
        """g (float[2, 3] x, bool b) => (float[3] k, float[a, c] y)
        {
            k = Add(w, w)
            y = If (b) <
                then_branch = t () => (float r) { j = Mul(w, k)  r = Add(x, j) },
                else_branch = e () => (float r2) { r2 = Neg(w) }>
        }""",
        w=X[0],
    )
    model = same(proto, tmp_path, x=X, b=np.array(False))
    assert ops(model) == ["If", "Add"]
    assert "k" in model.graph.initializers


KEPT = {
    # What stays, and why.
    "a random result": "r = RandomNormalLike(w)  y = Add(x, r)",
    "another domain": "r = com.x.Neg(w)  y = Add(x, r)",
    "a node with no inputs": "r = RandomNormal<shape = [3]>()  y = Add(x, r)",
    "training": "r = Dropout(w, half, yes)  y = Add(x, r)",
    "a failing node": "r = Gather(w, far)  s = Add(w, r)  y = Add(x, s)",
    "a node without a kernel": "r = GlobalLpPool(i)  y = Add(x, r)",
}
WEIGHTS = {
    "w": X[0],
    "half": np.array(0.5, np.float32),
    "yes": np.array(True),
    "far": np.array(99),
    "i": np.ones((1, 1, 4), np.float32),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_can_not_be_folded_stays(case: str) -> None:
    body = KEPT[case]
    proto = parse(
        f"g (float[2, 3] x) => (float y) {{ k = Mul(w, w)  z = Add(k, x) {body} }}"
    )
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()
    )
    proto.graph.output.append(helper.make_tensor_value_info("z", 1, [2, 3]))
    model, count = folded(proto)
    assert count == 1 and len(model.graph) == 1 + body.count("=") - body.count("<")
    assert "k" in model.graph.initializers


BOMBS = {
    "Expand": "r = Expand(w, huge)  y = ReduceSum(r)",
    "Tile": "r = Tile(w, times)  y = ReduceSum(r)",
    "Range": "z = Constant<value_int = 0>()  o = Constant<value_int = 1>() "
    "t = Constant<value_int = 99999999999>()  r = Range(z, t, o)  y = ReduceSum(r)",
    "computed Range": "z = Constant<value_int = 0>()  o = Constant<value_int = 1>() "
    "p = ReduceProd<keepdims = 0>(huge)  r = Range(z, p, o)  y = ReduceSum(r)",
    "outer product": "r = MatMul(tall, wide)  y = ReduceSum(r)",
    "broadcast": "r = Add(tall, wide)  y = ReduceSum(r)",
    "OneHot": "r = OneHot(many, depth, pair)  y = ReduceSum(r)",
    "Pad": "r = Pad(w, pads)  y = ReduceSum(r)",
    "Resize": "r = Resize(square, , factors)  y = ReduceSum(r)",
    "doubling": " ".join(f"d{i + 1} = Concat<axis = 0>(d{i}, d{i})" for i in range(26))
    + " y = ReduceSum(d26)",
    "ConstantOfShape": "r = ConstantOfShape(huge)  t = Neg(r)  y = ReduceSum(t)",
    "EyeLike": "r = ConstantOfShape(huge)  t = EyeLike(r)  y = ReduceSum(t)",
}
FUSES = {
    "huge": np.array([40000, 40000]),
    "times": np.array([99999999]),
    "w": X[0],
    "tall": np.ones((40000, 1), np.float32),
    "wide": np.ones((1, 40000), np.float32),
    "many": np.zeros(90000, np.int64),
    "depth": np.array(90000),
    "pair": np.array([0, 1], np.float32),
    "pads": np.array([0, 2**40]),
    "square": np.ones((1, 1, 8, 8), np.float32),
    "factors": np.array([1, 1, 9999, 9999], np.float32),
    "d0": np.ones(1000, np.float32),
}
BOMB = """
import resource, sys
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.folding.constant_folding import fold_constants
from fairhand.rewrites.folding.duplicate_constants import merge_constants
from fairhand.rewrites.normalise import normalise
from fairhand.rewrites.simplify import simplify
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
for path in sys.argv[1:]:
    model = normalise(load(path).model)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fold_constants(model)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) // 1024, len(model.graph))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux does")
def test_bombs_do_not_go_off(tmp_path: Path) -> None:
    paths = []
    for name, body in BOMBS.items():
        proto = parse(f"g (float[2] x) => (float y) {{ {body} }}")
        used = {i for node in proto.graph.node for i in node.input} & set(FUSES)
        proto.graph.initializer.extend(
            numpy_helper.from_array(FUSES[key], key) for key in sorted(used)
        )
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(proto, paths[-1])
    command = [sys.executable, "-c", BOMB, *map(str, paths)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120
    )
    assert not done.returncode and not done.stderr
    for name, line in zip(BOMBS, done.stdout.splitlines(), strict=True):
        grown, left = map(int, line.split())
        assert left > 0, f"{name} is still there"
        assert grown < 600, f"{name} took {grown} MB"


def test_a_weight_needed_as_it_is_is_not_stored_twice() -> None:
    body = "e = Gather(w, i)  t = Transpose(w)  y = MatMul(e, t)"
    proto = parse(f"g (int64[2] i) => (float y) {{ {body} }}", w=BIG)
    model, count = folded(proto)
    assert count == 0 and ops(model) == ["Gather", "Transpose", "MatMul"]
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(BIG[:8, :8], "w"))
    assert folded(proto)[1] == 1  # not worth a second node


def test_quantised_weights_stay_quantised() -> None:
    body = "d = DequantizeLinear(q, s)  y = Mul(x, d)"
    proto = parse(f"g (float[64] x) => (float y) {{ {body} }}")
    weights = (
        np.ones((64, 64), np.int8),
        np.ones((4, 64), np.int8),
        np.ones(64, np.int8),
    )
    for array, count in zip(weights, (0, 0, 1), strict=True):
        del proto.graph.initializer[:]
        scale = numpy_helper.from_array(np.array(0.1, np.float32), "s")
        proto.graph.initializer.extend([numpy_helper.from_array(array, "q"), scale])
        assert folded(proto)[1] == count


# One number throughout

FILLS = {
    "r = ConstantOfShape(size)": (0.0, (2000, 3)),
    "r = ConstantOfShape<value = float[1] {2.5}>(size)": (2.5, (2000, 3)),
    "r = ConstantOfShape<value = int64[1] {7}>(size)": (7, (2000, 3)),
    "c = ConstantOfShape(size)  r = Unsqueeze(c, one)": (0.0, (2000, 1, 3)),
    "c = ConstantOfShape(size)  r = Reshape(c, minus)": (0.0, (6000,)),
    "c = ConstantOfShape(size)  r = Transpose(c)": (0.0, (3, 2000)),
    "c = ConstantOfShape<value = float[1] {2.5}>(size)  r = Cast<to = 7>(c)": (
        *(2, (2000, 3)),
    ),
    "r = Expand(half, size)": (0.5, (2000, 3)),
    "t = Add(size, size)  r = ConstantOfShape(t)": (0.0, (4000, 6)),
    "c = ConstantOfShape(vast)  r = Cast<to = 11>(c)": (0.0, (2**20, 2**20)),
}


@pytest.mark.parametrize("body", FILLS)
def test_fills_are_views(body: str) -> None:
    proto = parse(
        f"g (float[2] x) => (float y) {{ {body}  y = com.x.Use(x, r) }}",
        size=np.array([2000, 3]),
        vast=np.array([2**20, 2**20]),
        one=np.array([1]),
        minus=np.array([-1]),
        half=np.array([[0.5]], np.float32),
    )
    model, count = folded(proto)
    assert count == body.count(" = ") - body.count("value = ") - body.count("to = ")
    tensor = model.graph.initializers["r"].const_value
    element = uniform_element(tensor)
    assert element is not None and tensor is not None and tensor.name == "r"
    assert (element.item(), tensor.shape.numpy()) == FILLS[body]
    assert element.dtype == tensor.numpy().dtype == tensor.dtype.numpy()


def test_small_fills_are_ordinary() -> None:
    proto = parse(
        """g (float[2, 3] x) => (float y)
        { c = ConstantOfShape<value = float[1] {2}>(size)  d = Add(c, c)
          y = Add(x, d) }""",
        size=np.array([3]),
    )
    model, count = folded(proto)
    assert count == 2 and constant(model, "d").tolist() == [4, 4, 4]
    assert uniform_element(model.graph.initializers["d"].const_value) is None


def test_impossible_fills_stay() -> None:
    for size in ([-5], [2**62, 2**62]):
        proto = parse(
            """g (float[2] x) => (float y)
            { c = ConstantOfShape(s)  y = com.x.Use(x, c) }""",
            s=np.array(size),
        )
        assert ops(folded(proto)[0]) == ["ConstantOfShape", "Use"]


def test_uniform_element() -> None:
    half = np.array(0.5, np.float32)
    tensor = uniform(half, ir.DataType.FLOAT, (4, 5), "u")
    assert tensor.nbytes == 80 and tensor.numpy().strides == (0, 0)
    assert uniform_element(tensor) == half
    assert uniform_element(ir.Tensor(np.zeros((4, 5), np.float32))) is None
    assert uniform_element(None) is None


# Element types that ONNX Runtime takes from NumPy, and those it does not


def test_strings_fold(tmp_path: Path) -> None:
    proto = parse(
        "g (string[1] x) => (string[2] y) { c = Concat<axis = 0>(w, w)"
        "  s = Slice(c, o, e)  y = StringConcat(s, x) }",
        o=np.array([1]),
        e=np.array([3]),
    )
    text = helper.make_tensor("w", TensorProto.STRING, [2], ["a", "b"])
    proto.graph.initializer.append(text)
    model = same(proto, tmp_path, x=np.array(["!"], object))
    assert ops(model) == ["StringConcat"]


def test_little_bfloat16_is_computed_and_much_of_it_stays() -> None:
    """Each step rounded as the type does: the root of 1/8 is 0.353515625."""
    proto = parse(
        "g (float[2, 3] x) => (float[2, 3] y) { r = Sqrt(w) c = Cast<to = 1>(r)"
        " t = Transpose(big) b = Gather<axis = 0>(t, i) d = Cast<to = 1>(b)"
        " z = Add(x, d)  y = Add(z, c) }",
        i=np.array(0),
    )
    for name, shape in (("w", [3]), ("big", [3, 300_000])):
        data = np.full(shape, 0.125, ml_dtypes.bfloat16).tobytes()
        tensor = helper.make_tensor(name, TensorProto.BFLOAT16, shape, data, raw=True)
        proto.graph.initializer.append(tensor)
    model, _ = folded(proto)
    assert ops(model) == ["Transpose", "Gather", "Cast", "Add", "Add"]
    assert np.unique(constant(model, "c")) == [0.353515625]


def test_sums_of_bfloat16_are_left_to_the_network() -> None:
    """In Python a product of two matrices that a constant expands to takes hours."""
    proto = parse(
        "g (float[2, 3] x) => (float[3, 3] y) { e = Expand(w, s) t = Transpose(e)"
        " m = MatMul(e, t) y = Cast<to = 1>(m) }",
        s=np.array([3, 2]),
    )
    tensor = helper.make_tensor("w", TensorProto.BFLOAT16, [1, 2], [0.5, 2.0])
    proto.graph.initializer.append(tensor)
    assert ops(folded(proto)[0]) == ["MatMul", "Cast"]


# Whole models


def feed_of(path: Path) -> dict[str, np.ndarray]:
    (given,) = ort.InferenceSession(path).get_inputs()
    return {given.name: RNG.standard_normal(given.shape).astype(np.float32)}


QUICK = {"light_squeezenet", "light_shufflenet"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.stem, marks=[] if p.stem in QUICK else [pytest.mark.slow])
        for p in sorted(LIGHT.glob("*.onnx"))
    ],
)
def test_light_models(path: Path, tmp_path: Path) -> None:
    """Their weights are fills: folded, they are as small as they were."""
    model = normalise(load(path).model)
    count = fold_constants(model)
    assert count > 10 and "ConstantOfShape" not in ops(model)
    save_stage(model, tmp_path / "after.onnx")
    assert (tmp_path / "after.onnx").stat().st_size < 2 << 20
    feed = feed_of(path)
    (expected,), (found,) = run(path, feed), run(tmp_path / "after.onnx", feed)
    # From opset 19 on, ONNX Runtime has another kernel for AveragePool.
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_equal_masks_of_an_exporter_are_one() -> None:
    """TorchScript folds what it computes anew at each call; weights stay apart."""
    names = ("onnx::Where_1", "onnx::Where_2", "gain.a", "gain.b")
    ops = ("Where", "Where", "Mul", "Mul")
    nodes = [
        helper.make_node(op, ["c"] * (op == "Where") + [f"x{i}", name], [f"x{i + 1}"])
        for i, (op, name) in enumerate(zip(ops, names, strict=True))
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
        for name in ("x0", "x4")
    )
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [2, 3])
    stored = [numpy_helper.from_array(X[0], name) for name in names]
    model = ir.from_proto(
        helper.make_model(helper.make_graph(nodes, "g", [x, c], [y], stored))
    )
    assert merge_constants(model) == 1
    assert {"gain.a", "gain.b"} < model.graph.initializers.keys()


def test_layers_of_a_list_that_begin_alike_stay_apart() -> None:
    """As nn.TransformerEncoder's, copies of one; what layers share has one name."""
    names = ("layers.0.fc.weight", "layers.1.fc.weight", "wte.weight", "head.weight")
    names += ("first.weight", "second.weight")
    weight = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    nodes = [
        helper.make_node("MatMul", [f"x{i}", name], [f"x{i + 1}"])
        for i, name in enumerate(names)
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 128])
        for name in ("x0", "x6")
    )
    values = [weight, weight, weight + 1, weight + 1, weight * 0, weight * 0]
    stored = [numpy_helper.from_array(v, n) for v, n in zip(values, names, strict=True)]
    model = ir.from_proto(
        helper.make_model(helper.make_graph(nodes, "g", [x], [y], stored))
    )
    assert merge_constants(model) == 1
    assert set(model.graph.initializers) == {*names} - {"head.weight"}


def test_an_exporters_transpose_of_a_weight_is_that_weights() -> None:
    """A tied head, whose matrix PyTorch's exporter folds: stored once, and trained."""
    text = "g (int64[2, 5] ids) => (float[2, 5, 96] y) "
    text += "{ x = Gather(table, ids) y = MatMul(x, val_143) }"
    table = RNG.standard_normal((96, 32)).astype(np.float32)
    turned = {"table": table, "val_143": np.ascontiguousarray(table.T)}
    model = normalise(load(parse(text, **turned)).model)
    assert ops(model) == ["Gather", "Transpose", "MatMul"]
    assert set(model.graph.initializers) == {"table"}
    others = turned | {"val_143": turned["val_143"] + 1}
    assert ops(normalise(load(parse(text, **others)).model)) == ["Gather", "MatMul"]


ENLARGED = """g (float[n, m] x, bool[n, 1, k] b) => (bool[n, m, k] y) {
    sizes = Shape(x) zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
    m = Gather(sizes, one) places = Range(zero, m, one)
    axes = Constant<value_ints = [0, 2]>() column = Unsqueeze(places, axes)
    sure = GreaterOrEqual(column, BOUND) y = OPERATOR(sure, b) }"""


@pytest.mark.parametrize(
    ("operator", "bound", "left"),
    [
        ("And", "zero", "Expand"),
        ("Or", "zero", "Or"),  # true throughout
        ("And", "one", "And"),  # the first is false
    ],
)
def test_what_decides_is_as_large_as_the_result(
    operator: str, bound: str, left: str
) -> None:
    text = ENLARGED.replace("BOUND", bound).replace("OPERATOR", operator)
    proto = parse(
        text.replace("y)", "z)")
        .replace("y =", "w =")
        .replace("b) }", "b) z = Not(w) }")
    )
    model = load(proto).model.clone()
    simplify(model, rules=())
    assert left in ops(model)
    for n, m, k in ((2, 3, 4), (1, 1, 1), (2, 0, 3), (0, 2, 1)):
        b = RNG.random((n, 1, k)) < 0.5
        feed = {"x": np.zeros((n, m), np.float32), "b": b}
        (expected,), (found,) = run(proto, feed), run(ir.to_proto(model), feed)
        assert np.array_equal(found, expected)


def test_sizes_that_are_taken_for_equal_decide_nothing() -> None:
    """b's rows may be one: then the result has as many as the other operand."""
    proto = parse("""g (float[n, m] x, bool[k] b) => (bool[o] y) {
        sizes = Shape(x) zero = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
        m = Gather(sizes, one) places = Range(zero, m, one)
        sure = GreaterOrEqual(places, zero) w = And(b, sure) y = Not(w) }""")
    model = load(proto).model.clone()
    simplify(model, rules=())
    assert "And" not in ops(model)
    for m, k in ((3, 1), (3, 3), (1, 2), (0, 1)):
        feed = {"x": np.zeros((1, m), np.float32), "b": RNG.random(k) < 0.5}
        (expected,), (found,) = run(proto, feed), run(ir.to_proto(model), feed)
        assert np.array_equal(found, expected)


STRIDED = """g (float[n, 6, 1] x) => (float[n, p, q] y) <int64[1, 3, 2] offset> {
    sizes = Shape(x) zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
    n = Gather(sizes, zero) rows = Range(zero, n, one)
    step = Constant<value_int = STEP>() begins = Mul(rows, step)
    axes = Constant<value_ints = [1, 2]>() column = Unsqueeze(begins, axes)
    places = Add(column, offset) all = Constant<value_ints = [-1]>()
    flat = Reshape(x, all) h = Gather(flat, places) y = Neg(h) }"""


@pytest.mark.parametrize(
    ("step", "offset", "left"),
    [
        (6, np.arange(6).reshape(1, 3, 2), False),
        (6, np.arange(6).reshape(1, 2, 3).transpose(0, 2, 1), True),  # turned
        (6, np.arange(6)[::-1].reshape(1, 3, 2), True),
        (0, np.arange(6).reshape(1, 3, 2), True),  # the first row again
        (2, np.arange(6).reshape(1, 3, 2), True),  # rows that overlap
    ],
)
def test_a_row_that_is_read_in_its_order_is_reshaped(
    step: int, offset: np.ndarray, left: bool
) -> None:
    proto = parse(STRIDED.replace("STEP", str(step)), offset=offset)
    model = load(proto).model.clone()
    simplify(model, rules=())
    made = {node.outputs[0].name: node.op_type for node in model.graph}
    assert made["h"] == ("Gather" if left else "Reshape")
    for n in (1, 2, 0):
        feed = {"x": RNG.standard_normal((n, 6, 1)).astype(np.float32)}
        (expected,), (found,) = run(proto, feed), run(ir.to_proto(model), feed)
        assert np.array_equal(found, expected)


PAIRS = """g (float[n, t] mask, float[n, past, 4] p, float[n, new, 4] x)
        => (float[n, 1, 1, k] y, float[n, new, w] z) {
    zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
    n = Shape<start = 0, end = 1>(x) new = Shape<start = 1, end = 2>(x)
    past = Shape<start = 1, end = 2>(p) k = Add(past, new)
    n0 = Squeeze(n) k0 = Squeeze(k) rows = Range(zero, n0, one)
    columns = Range(zero, k0, one) three = Constant<value_ints = [1, 2, 3]>()
    row = Unsqueeze(rows, three) single = Constant<value_ints = [1]>()
    wide = Concat<axis = 0>(n, single, single, k) i = Expand(row, wide)
    j = Expand(columns, wide) last = Constant<value_ints = [-1]>()
    READ y = Neg(h)
    END }"""
READ = """i1 = Unsqueeze(i, last) j1 = Unsqueeze(j, last)
    at = Concat<axis = -1>(i1, j1) h = GatherND(mask, at)"""
FLAT = """t = Shape<start = 1, end = 2>(mask) flat = Flatten<axis = 2>(mask)
    above = Mul(row, t) at = Add(above, columns) h1 = Gather(flat, at)
    h = Squeeze(h1, last)"""
SOLVED = "shape = Concat<axis = 0>(n, new, last) z = Reshape<allowzero = 1>(x, shape)"


@pytest.mark.parametrize("read", [READ, FLAT])
@pytest.mark.parametrize("rows", ["n", "n, r"])
@pytest.mark.parametrize("solved", [True, False])
def test_no_batch_is_empty_where_a_size_is_solved_for_beside_it(
    solved: bool, rows: str, read: str
) -> None:
    """With none, places aren't looked for, and a mask of fewer columns would do; of
    fewer rows, too, where it may have others, unless they follow each other."""
    text = PAIRS.replace("END", SOLVED if solved else "z = Neg(x)")
    mask = rows.split(", ")[-1]
    text = text.replace("READ", read).replace("[n, t] mask", f"[{mask}, t] mask")
    proto = parse(text)
    model = load(proto).model.clone()
    simplify(model, rules=())
    known = solved and (mask == "n" or read == READ)
    assert (not {"Gather", "GatherND"} & {*ops(model)}) == known
    for n, t, k in ((3, 5, 4), (1, 2, 2)):
        feed = {
            "mask": RNG.standard_normal((n, t)).astype(np.float32),
            "p": np.zeros((n, k - 1, 4), np.float32),
            "x": np.zeros((n, 1, 4), np.float32),
        }
        expected, found = run(proto, feed), run(ir.to_proto(model), feed)
        assert all(map(np.array_equal, found, expected))


WRITTEN = """g (float[n, k] x, float[n, k] new) => (float[n, k] y) {
    zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
    shape = Shape(x) n = Shape<start = 0, end = 1>(x) k = Shape<start = 1, end = 2>(x)
    n0 = Squeeze(n) k0 = Squeeze(k) rows = Range(FIRST, n0, one)
    columns = Range(zero, k0, one) last = Constant<value_ints = [-1]>()
    row = Unsqueeze(rows, last) i = Expand(row, shape) j = Expand(columns, shape)
    i1 = Unsqueeze(i, last) j1 = Unsqueeze(j, last)
    at = Concat<axis = -1>(i1, j1) before = Neg(x) values = Abs(new)
    written = ScatterND<HOW>(before, at, values) y = Neg(written) }"""


@pytest.mark.parametrize(
    ("first", "how", "goes"),
    [("zero", "", True), ("zero", 'reduction = "add"', False), ("one", "", False)],
)
def test_what_is_written_everywhere_is_what_is_written(
    first: str, how: str, goes: bool
) -> None:
    text = WRITTEN.replace("FIRST", first).replace("<HOW>", how and f"<{how}>")
    proto = parse(text)
    model = load(proto).model.clone()
    simplify(model)
    assert ("ScatterND" in ops(model)) != goes
    if goes:
        feed = {n: RNG.standard_normal((3, 4)).astype(np.float32) for n in ("x", "new")}
        expected, found = run(proto, feed), run(ir.to_proto(model), feed)
        assert all(map(np.array_equal, found, expected))


def test_bodies_read_in_order_too_by_names_of_their_own() -> None:
    branch = "w = If(first) <then_branch = yes () => (float[a, b, c, d] w1) {"
    branch += " inner = GatherND(mask, at) w1 = Neg(inner) }, else_branch = no () =>"
    branch += " (float[a, b, c, d] w2) { w2 = Identity(y) }>"
    text = PAIRS.replace("READ", READ).replace("END", f"{SOLVED} {branch}")
    text = text.replace("float[n, past, 4] p", "bool first, float[n, past, 4] p")
    text = text.replace("[n, new, w] z", "[n, new, w] z, float[a, b, c, d] w")
    model = load(parse(text)).model.clone()
    simplify(model, rules=())
    nodes = list(model.graph.all_nodes())
    names = [value.name for node in nodes for value in node.outputs]
    assert "GatherND" not in ops(model)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("sizes", "zeros", "ops"),
    [
        ("n,4", "s = Shape(x) z = ConstantOfShape(s)", {"Relu"}),
        ("2,4", "z = Identity(zeros)", {"Relu"}),
        (
            "n,4",
            "s = Shape(x) o = Constant<value_float=0.0>() z = Expand(o, s)",
            {"Relu"},
        ),
        ("n,4", "s = Shape<end=1>(x) z = ConstantOfShape(s)", {"Max"}),
        ("n,4", "s = Shape(w) z = ConstantOfShape(s)", {"Max"}),
        ("n,4", "z = com.x.Expand(x)", {"Max"}),
        ("n,4", "z = com.x.Expand()", {"Max"}),
        ("2,4", "z = Identity(seen)", {"Max"}),
        ("1,4", "z = Identity(zeros)", {"Max"}),
    ],
)
def test_a_number_stands_for_what_has_anothers_sizes(
    sizes: str, zeros: str, ops: set[str]
) -> None:
    """But for one that is wider, or may be, and a buffer that the original saves."""
    array = np.zeros((2, 4), np.float32)
    model = parse(
        f"g (float[{sizes}] x, float[m,4] w) => (float[k,4] y) "
        f"{{ {zeros} y = Max(x, z) }}",
        **{"zeros" if "(zeros)" in zeros else "seen": array},
    )
    simplified = load(model).model
    simplify(simplified)
    assert ops <= {*(found := [n.op_type for n in simplified.graph])}, found


@pytest.mark.parametrize(
    ("sizes", "wanted", "kept"),
    [
        ("b, t", "b, 24", [0, 24]),
        ("b, t", "b, 4, 6", [0, 4, 6]),
        ("t, b", "t, b, 6", None),  # it leaves two sizes open
        ("b", "b, 24", [-1, 24]),
    ],
)
def test_open_sizes_that_stay_need_not_be_asked_for(
    sizes: str, wanted: str, kept: list[int] | None
) -> None:
    """Whatever they are, 0 included."""
    asked = {"b": "0", "t": "1"}
    shape = {"b, t": "[b,4,6]", "t, b": "[b,t,6]", "b": "[2,b,12]"}[sizes]
    asked["b"] = "1" if sizes == "b" else "0"
    parts = ", ".join(asked.get(n, f"k{n}") for n in wanted.split(", "))
    numbers = " ".join(
        f"k{n} = Constant<value_ints = [{n}]>()" for n in ("4", "6", "24")
    )
    gathered = " ".join(f"n{k} = Slice(s, k_{k}, k_{k + 1})" for k in (0, 1))
    ends = " ".join(f"k_{k} = Constant<value_ints = [{k}]>()" for k in (0, 1, 2))
    named = ", ".join(f"n{p}" if p in "01" else p for p in parts.split(", "))
    model = parse(
        f"g (float{shape} x) => (float y) {{ {numbers} {ends} s = Shape(x) {gathered} "
        f"t = Concat<axis = 0>({named}) y = Reshape(x, t) }}"
    )
    simplified = load(model).model
    simplify(simplified)
    (node,) = (n for n in simplified.graph if n.op_type == "Reshape")
    array = None if node.inputs[1] is None else node.inputs[1].const_value
    assert (None if array is None else array.numpy().tolist()) == kept
    # A size of 0 that was asked for would mean the operand's size at that place.
    for size in (0, 1, 2, 5) if kept != [-1, 24] else (1, 2, 5):
        dims = [int(n) if n.isdigit() else size for n in shape[1:-1].split(",")]
        feed = {"x": np.ones(dims, np.float32)}
        before, after = (run(m, feed)[0] for m in (model, ir.to_proto(simplified)))
        assert before.shape == after.shape


def test_a_stored_shape_takes_no_name_that_there_is() -> None:
    model = parse(
        "g (float[b,4,6] x) => (float[b,24] y, float[b,4,6] z) "
        "{ k = Constant<value_ints = [24]>() s = Shape<start = 0, end = 1>(x) "
        "t = Concat<axis = 0>(s, k) y = Reshape(x, t) z = Div(y_sizes, x) }",
        y_sizes=np.full(6, 2, np.float32),
    )
    simplified = load(model).model
    simplify(simplified)
    feed = {"x": np.ones((2, 4, 6), np.float32)}
    assert [a.shape for a in run(ir.to_proto(simplified), feed)] == [(2, 24), (2, 4, 6)]
