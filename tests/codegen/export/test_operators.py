"""What PyTorch's exporter has no form of, and packages need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from support.emitter_models import Graph
from torch import Tensor, nn

import fairhand


def on_onnxruntime(path: Path, *given: Tensor) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    names = [each.name for each in session.get_inputs()]
    feed = dict(zip(names, map(Tensor.numpy, given), strict=True))
    return [np.asarray(each) for each in session.run(None, feed)]


SCORES = """
    net (float[n, 3] x) => (int64[n] label, seq(map({keys}, float)) scores)
        <float[3, 2] w = {{1, 2, 3, 4, 5, 6.5}}> {{
        y = MatMul (x, w)
        label = ArgMax <axis = 1, keepdims = 0> (y)
        s = Softmax <axis = 1> (y)
        scores = ai.onnx.ml.ZipMap <classlabels_{kind} = {classes}> (s)
    }}"""


@pytest.mark.parametrize(
    ("keys", "kind", "classes"),
    [("int64", "int64s", "[3, 8]"), ("string", "strings", '["cat", "a dog"]')],
)
def test_maps_of_scores_come_back(
    keys: str, kind: str, classes: str, tmp_path: Path
) -> None:
    opsets = '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>'
    text = opsets + SCORES.format(keys=keys, kind=kind, classes=classes)
    first = fairhand.compile(onnx.parser.parse_model(text), tmp_path / "net")
    back = fairhand.export(first.path, None, tmp_path / "net.onnx")
    onnx.checker.check_model(back.path, full_check=True)
    session = onnxruntime.InferenceSession(back.path)
    kinds = [output.type for output in session.get_outputs()]
    assert kinds == ["tensor(int64)", f"seq(map({keys},tensor(float)))"]
    again = fairhand.compile(back.path, tmp_path / "again" / "net")
    one, other = ((p.path / "model.py").read_text("utf-8") for p in (first, again))
    assert one.partition("class Net")[2] == other.partition("class Net")[2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_bits_are_shifted(dtype: torch.dtype, tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor, by: Tensor) -> tuple[Tensor, ...]:
            return x << by, x >> by, x << 1, x >> 3

    numbers = [200, 129, 7, 0] if dtype == torch.uint8 else [-200, 2**30 + 5, 7, -1]
    given = torch.tensor(numbers, dtype=dtype), torch.tensor([0, 1, 2, 7], dtype=dtype)
    fairhand.export(Net(), given, tmp_path / "new.onnx")
    found = on_onnxruntime(tmp_path / "new.onnx", *given)
    for wanted, made in zip(Net()(*given), found, strict=True):
        assert wanted.numpy().dtype == made.dtype and (wanted.numpy() == made).all()


def test_truth_values_are_chosen(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return torch.where(x > y, x > 0, y > 1), torch.where(x > y, x, y)

    given = torch.randn(5, 1), torch.randn(1, 7)
    made = fairhand.export(Net(), given, tmp_path / "new.onnx")
    found = on_onnxruntime(made.path, *given)
    for wanted, ours in zip(Net()(*given), found, strict=True):
        assert (wanted.numpy() == ours).all()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_layers_of_few_bits_stay_so(bits: int, tmp_path: Path) -> None:
    """41 numbers in blocks of 16: the last one isn't full."""
    rng = np.random.default_rng(bits)
    g = Graph(x=("float32", ["n", 41]))
    weight = rng.integers(0, 256, (8, 3, 2 * bits)).astype(np.uint8)
    zeros = rng.integers(0, 256, 8 * -(-3 * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, 24).astype(np.float32)
    parts = {"weight": weight, "scales": scales, "zeros": zeros}
    names = [g.weight(f"fc.{name}", value=part) for name, part in parts.items()]
    names += ["", g.weight("fc.bias", value=scales[:8])]
    sizes = {"K": 41, "N": 8, "bits": bits, "block_size": 16}
    y = g("MatMulNBits", "x", *names, domain="com.microsoft", **sizes)
    fairhand.compile(g.model(y=y), tmp_path / "net")
    made = fairhand.export(tmp_path / "net", None, tmp_path / "new.onnx").path
    (node,) = onnx.load(made).graph.node
    assert node.op_type == "MatMulNBits"
    kept = {each.name: each.i for each in node.attribute}
    assert {key: kept[key] for key in sizes} == sizes


@pytest.mark.parametrize("wide, k", [(4, 2), (3, 3)])
def test_a_size_that_only_the_file_takes_is_left_out(
    wide: int, k: int, tmp_path: Path
) -> None:
    """TopK by PyTorch's exporter takes as many as there are, where these are fewer. And
    a size that is verified as 3 alone is traced as another than one that is fixed."""
    g = Graph(x=("float32", ["n", wide]))
    top, places = g("TopK", "x", g.ints(k), outputs=2, axis=0)
    fairhand.compile(g.model(top=top, places=places), tmp_path / "net")
    made = fairhand.export(tmp_path / "net", None, tmp_path / "new.onnx")
    x = torch.randn(5, wide)
    assert made.runs
    assert (on_onnxruntime(made.path, x)[0] == x.topk(k, dim=0).values.numpy()).all()


def test_numbers_are_quantised_when_they_come(tmp_path: Path) -> None:
    """PyTorch's exporter has no `x.amin()` of all axes."""
    g = Graph(x=("float32", ["n", 8]))
    made = g("DynamicQuantizeLinear", "x", outputs=3)
    names = dict(zip(("y", "scale", "zero"), made, strict=True))
    fairhand.compile(g.model(**names), tmp_path / "net")
    new = fairhand.export(tmp_path / "net", None, tmp_path / "new.onnx").path
    assert [n.op_type for n in onnx.load(new).graph.node] == ["DynamicQuantizeLinear"]


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("kind", ["truth", "given", "infinite", "finite"])
def test_a_query_that_sees_nothing_gets_zeros(
    kind: str, rank: int, tmp_path: Path
) -> None:
    class Net(nn.Module):
        def forward(self, q: Tensor, mask: Tensor) -> Tensor:
            shown = mask
            if kind in ("infinite", "finite"):
                hidden = float("-inf") if kind == "infinite" else -1e9
                shown = torch.where(mask, 0.0, hidden)
            return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=shown)

    q, mask = torch.randn(3, 5)[(None,) * (rank - 2)], torch.ones(3, 3).tril(-1) > 0
    assert not mask[0].any() and mask[1].any()
    given = torch.where(mask, 0.0, float("-inf")) if kind == "given" else mask
    made = fairhand.export(Net(), (q, given), tmp_path / "new.onnx")
    (found,) = on_onnxruntime(made.path, q, given)
    np.testing.assert_allclose(found, Net()(q, given).numpy(), atol=1e-6)
    operators = {node.op_type for node in onnx.load(made.path).graph.node}
    assert ("IsNaN" in operators) == (kind != "finite")


@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_attention_by_a_scale_that_has_no_root(scale: float, tmp_path: Path) -> None:
    """PyTorch's exporter gives the root of it to queries and keys."""

    class Net(nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q, scale=scale)

    q = torch.randn(1, 2, 3, 5)
    made = fairhand.export(Net(), (q,), tmp_path / "new.onnx")
    (found,) = on_onnxruntime(made.path, q)
    np.testing.assert_allclose(found, Net()(q).numpy(), atol=1e-6)


@pytest.mark.parametrize("image", [(8,), (8, 8)])
def test_layers_that_round_what_they_take_come_back(
    image: tuple[int, ...], tmp_path: Path
) -> None:
    """As ConvInteger and MatMulInteger: ONNX Runtime has no Conv of float64."""
    g, rng = Graph(x=["n", 3, *image]), np.random.default_rng(0)
    x, kernel = "x", (8, 3, *[3] * len(image))
    for i, (op, shape, scale) in enumerate(
        [
            ("ConvInteger", kernel, (8, *[1] * len(image))),
            ("MatMulInteger", (6, 5), (5,)),
        ]
    ):
        w = g.weight(f"w{i}", value=rng.integers(-127, 128, shape).astype(np.int8))
        s = g.weight(f"s{i}", value=rng.random(scale).astype(np.float32))
        q, sx, zx = g("DynamicQuantizeLinear", x, outputs=3)
        y = g("Cast", g(op, q, w, zx), to=1)
        x = g("Mul", y, g("Mul", sx, s))
    first = fairhand.compile(g.model(y=x), tmp_path / "net", cache=False)
    text = (first.path / "model.py").read_text("utf-8")
    assert (
        f"DynamicQuantizedConv{len(image)}d(" in text
        and "DynamicQuantizedLinear(" in text
    )
    back = fairhand.export(first.path, None, tmp_path / "net.onnx")
    again = fairhand.compile(back.path, tmp_path / "again" / "net", cache=False)
    other = (again.path / "model.py").read_text("utf-8")
    assert text.partition("class Net")[2] == other.partition("class Net")[2]


def test_a_size_that_the_file_fixes_stays_as_it_was(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]>
        net (float[n, c, 8, 8] x) => (float[n, 4, 6, 6] y)
        <float[4, 3, 3, 3] w = {WEIGHTS}> { y = Conv (x, w) }"""
    numbers = ", ".join(str(k % 7 - 3) for k in range(108))
    model = onnx.parser.parse_model(text.replace("WEIGHTS", numbers))
    package = fairhand.compile(model, tmp_path / "net", cache=False).path
    back = fairhand.export(package, None, tmp_path / "net.onnx")
    dims = onnx.load(back.path).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["n", "c", 8, 8]
    page = package / "model.py"
    page.write_text(page.read_text("utf-8") + "\n# edited\n", "utf-8")
    with pytest.raises(fairhand.FairhandError, match="size c of input x is fixed to 3"):
        fairhand.export(package, None, tmp_path / "new.onnx")


def test_a_network_that_rounds_coarsely_is_compared_with_that(tmp_path: Path) -> None:
    """A sum that cancels is off by what its terms were rounded by, in any program."""

    class Cancels(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x + 1000).mean(-1) - 1000

    back = fairhand.export(Cancels(), (torch.ones(2, 64),), tmp_path / "net.onnx")
    assert back.worst > 1e-4  # five times what is allowed else


@pytest.mark.parametrize(("both", "kinds"), [(False, []), (True, ["Tanh", "Relu"])])
def test_recurrent_layers_of_integers_come_back(
    both: bool, kinds: list[str], tmp_path: Path
) -> None:
    """Of which PyTorch would ask what their weights add up to."""
    g, rng = Graph(x=["t", 1, 3]), np.random.default_rng(0)
    ways, wide = (2, 4) if both else (1, 4)
    integers = [
        g.weight(f"w{i}", value=rng.integers(-9, 9, (ways, k, 16)).astype(np.int8))
        for i, k in enumerate((3, wide))
    ]
    scale = g.weight("s", value=rng.random(ways).astype(np.float32) / 9)
    zero = g.weight("z", value=np.zeros(ways, np.int8))
    bias = g.weight("b", ways, 8 * wide)
    y = g(
        "DynamicQuantizeLSTM",
        *("x", *integers, bias, "", "", "", "", scale, zero, scale, zero),
        domain="com.microsoft",
        hidden_size=wide,
        direction="bidirectional" if both else "forward",
        **({"activations": ["Sigmoid", *kinds] * ways} if kinds else {}),
    )
    model = g.model(y=y)
    model.opset_import.add(domain="com.microsoft", version=1)
    first = fairhand.compile(model, tmp_path / "net", cache=False)
    back = fairhand.export(first.path, None, tmp_path / "net.onnx")
    again = fairhand.compile(back.path, tmp_path / "again" / "net", cache=False)
    one, other = ((p.path / "model.py").read_text("utf-8") for p in (first, again))
    assert one.partition("class Net")[2] == other.partition("class Net")[2]


@pytest.mark.parametrize("zero", [None, 3])
def test_integers_that_are_convolved_in_double_precision(
    zero: int | None, tmp_path: Path
) -> None:
    """Which ONNX Runtime has no Conv for: as ConvInteger, where it is no layer."""
    g, rng = Graph(x=["n", 2, 8, 8]), np.random.default_rng(0)
    w = g.weight("w", value=rng.integers(0, 255, (4, 2, 3, 3)).astype(np.uint8))
    q, _, zx = g("DynamicQuantizeLinear", "x", outputs=3)
    given = [] if zero is None else [g.weight("z", value=np.uint8(zero))]
    y = g("ConvInteger", q, w, zx, *given, strides=[2, 1], pads=[1, 0, 1, 0])
    model = g.model(y=y)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    first = fairhand.compile(model, tmp_path / "net", cache=False)
    assert ".double()" in (first.path / "model.py").read_text("utf-8")
    back = fairhand.export(first.path, None, tmp_path / "net.onnx")
    ops = [node.op_type for node in onnx.load(back.path).graph.node]
    assert ops == ["DynamicQuantizeLinear", "ConvInteger"] and back.worst == 0


def test_a_result_may_be_called_like_a_weight(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]>
        net (float[n, 3] x) => (float[n, 3] gain)
        <float[3] weight = {1, 2, 3}> { gain = Mul (x, weight) }"""
    package = fairhand.compile(onnx.parser.parse_model(text), tmp_path / "net").path
    page = package / "model.py"
    page.write_text(page.read_text("utf-8").replace("self.weight", "self.gain"))
    weights = package / "weights.safetensors"
    with safe_open(weights, "pt") as file:
        kept, said = file.get_tensor("weight"), file.metadata()
    save_file({"gain": kept}, weights, said)
    back = fairhand.export(package, None, tmp_path / "new.onnx")
    assert [each.name for each in onnx.load(back.path).graph.output] == ["gain"]
