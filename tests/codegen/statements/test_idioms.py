"""What exporters write as several operators is written as torch's one.

Every model is compiled with verification, so that none of this is wrong code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.emitted import imported
from support.emitter_models import Graph
from support.traced import Traced

import fairhand
from fairhand.codegen.emit.package_files import read_report

INDEX = np.array([3, 0, 2, 1, 3, 3, 0, 2, 1])


def text_of(g: Graph, folder: Path, level: int = 1, **outputs: str) -> str:
    fairhand.compile(g.model(**outputs), folder / "net", level=level)
    return (folder / "net" / "model.py").read_text(encoding="utf-8")


def picked(g: Graph, x: str, place: int, axis: int = 0) -> str:
    index = g.weight(f"onnx::place_{place}", value=np.int64(place))
    return str(g("Gather", x, index, axis=axis))


@pytest.mark.parametrize(
    ("size", "read", "folds"), [(1, 3, True), (2, 3, False), (1, 1, False)]
)
def test_slices_that_lose_their_axis(
    size: int, read: int, folds: bool, tmp_path: Path
) -> None:
    """As TorchScript writes unbind."""
    g = Traced(parts=[3 * size, "batch", 4])
    sizes = g.ints(size, size, size)
    made = g("Split", "parts", sizes, axis=0, outputs=3)[:read]
    if size == 1:
        made = [g("Squeeze", part, g.ints(0)) for part in made]
    made = [
        g(act, part) for act, part in zip(("Tanh", "Relu", "Exp"), made, strict=False)
    ]
    text = text_of(g, tmp_path, y=g("Sum", *made))
    assert ("first, second, third = parts.unbind(0)" in text) == folds


@pytest.mark.parametrize(
    ("places", "line"),
    [
        ((0, 1, 2), "first, second, third = parts.unbind(0)"),
        ((1, -1, 0), "first, second, third = parts.unbind(0)"),
        ((0, 1), ""),
        ((0, 1, 1), ""),
    ],
)
def test_all_parts_of_a_value(
    places: tuple[int, ...], line: str, tmp_path: Path
) -> None:
    g = Traced(parts=[3, "batch", 4])
    acts = ("Tanh", "Relu", "Sigmoid")
    made = [g(act, picked(g, "parts", i)) for act, i in zip(acts, places, strict=False)]
    text = text_of(g, tmp_path, y=g("Sum", *made))
    assert line in text and ("unbind" in text) == bool(line)


@pytest.mark.parametrize(
    ("axes", "line"),
    [
        ((1, 1), "torch.stack([x.sin(), x.cos()], dim=1)"),
        ((-2, 1), "torch.stack([x.sin(), x.cos()], dim=1)"),
        ((2, 2), ""),  # an axis is added beside the one that is joined
        ((1, 0), ""),
    ],
)
def test_parts_joined_along_an_axis_of_their_own(
    axes: tuple[int, int], line: str, tmp_path: Path
) -> None:
    g = Traced(x=[3, 3])
    acts = zip(("Sin", "Cos"), axes, strict=True)
    wide = [g("Unsqueeze", g(act, "x"), g.ints(axis)) for act, axis in acts]
    if axes == (1, 0):
        wide[1] = g("Reshape", wide[1], g.ints(3, 1, 3, 1))
        wide[0] = g("Reshape", wide[0], g.ints(3, 1, 3, 1))
    text = text_of(g, tmp_path, y=g("Concat", *wide, axis=1))
    assert line in text and ("stack" in text) == bool(line)


def test_what_is_only_another_name_has_no_line(tmp_path: Path) -> None:
    g = Traced(x=[3, 4])
    made = g("Relu", "x")
    text = text_of(g, tmp_path, y=made, same=g("Identity", made))
    assert "same =" not in text


def rolled(g: Graph, x: str, axis: int, front: int, size: int) -> str:
    sizes = g.ints(front, size - front)
    a, b = g("Split", x, sizes, axis=axis, outputs=2)
    return str(g("Concat", b, a, axis=axis))


def test_parts_that_change_places_are_rolled(tmp_path: Path) -> None:
    g = Traced(x=["batch", 5, 7, 2])
    y = rolled(g, rolled(g, "x", 1, 2, 5), 2, 2, 7)
    y = rolled(g, g("Relu", y), 2, 5, 7)
    text = text_of(g, tmp_path, y=y)
    assert ".roll((-2, -2), dims=(1, 2))" in text
    assert ".roll(2, dims=2)" in text and "split" not in text
    report = read_report(tmp_path / "net")
    lines = json.dumps(report["source_map"])
    assert all(node.name in lines for node in g.nodes)


@pytest.mark.parametrize(
    ("perm", "line"),
    [
        ((0, 1, 3, 5, 2, 4), "F.pixel_unshuffle(image, 2)"),
        ((0, 1, 5, 3, 2, 4), ".permute(0, 1, 5, 3, 2, 4)"),
        ((0, 3, 5, 1, 2, 4), "space_to_depth(image, 2)"),
    ],
)
def test_blocks_of_pixels_to_channels(
    perm: tuple[int, ...], line: str, tmp_path: Path
) -> None:
    g = Traced(image=["batch", 3, 8, 6])
    x = g("Reshape", "image", g.ints(-1, 3, 4, 2, 3, 2))
    x = g("Reshape", g("Transpose", x, perm=perm), g.ints(-1, 12, 4, 3))
    assert line in text_of(g, tmp_path, y=g("Relu", x))


@pytest.mark.parametrize(
    ("norm", "bounded", "bounds", "level", "line"),
    [
        ("ReduceL2", "Clip", [1e-12], 0, "F.normalize(y, dim=-1)"),
        ("ReduceL2", "Clip", [1e-12], 1, "F.normalize(y, dim=-1)"),
        ("ReduceL2", "Max", [1e-12], 0, "F.normalize(y, dim=-1)"),
        ("ReduceL2", "Clip", [1e-6], 1, "F.normalize(y, dim=-1, eps=1e-6)"),
        ("ReduceL2", "Max", [1e-6], 1, "F.normalize(y, dim=-1, eps=1e-6)"),
        ("ReduceL2", "Clip", [0.1, 2.0], 0, ".clamp(0.1, 2)"),
        ("ReduceL2", "Max", [0.1, 2.0], 0, "clamp(min=2)"),
        ("ReduceL2", "Min", [2.0], 0, "clamp(max=2)"),
        ("ReduceSumSquare", "Clip", [1e-12], 1, ".clamp(min=1e-12)"),
    ],
)
def test_a_value_over_its_bounded_norm(
    norm: str,
    bounded: str,
    bounds: list[float],
    level: int,
    line: str,
    tmp_path: Path,
) -> None:
    g = Traced(y=["batch", 5, 8])
    ends = [g.weight(f"end_{i}", value=np.float32(x)) for i, x in enumerate(bounds)]
    least = g(bounded, g(norm, "y", g.ints(-1), keepdims=1), *ends)
    least = g("Expand", least, g("Shape", "y"))
    assert line in text_of(g, tmp_path, level, out=g("Div", "y", least))
    assert read_report(tmp_path / "net")["emission"]["validated"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "y.std(dim=-1, keepdim=True)"),
        ({"keepdims": 0}, "y.std(dim=-1)"),
        ({"axes": (0, -1), "by": 15.0}, "y.std(dim=(0, 2), keepdim=True)"),
        ({"summed": "ReduceMean", "by": None}, "correction=0)"),
        ({"centred": (2,), "read": True}, "y.std(dim=-1, keepdim=True)"),
        ({"axes": (-1,), "keepdims": 0, "again": -1}, "y.std(dim=-1, keepdim=True)"),
        ({"keepdims": 0, "again": 1}, "y.var(dim=-1)"),
        ({"centred": (1,)}, ""),  # the mean of others
        ({"by": 8.0}, ""),
        ({"by": 6.0}, ""),
        ({"by": [[[7.0]]], "keepdims": 0}, ""),  # which has more axes than the sum
        ({"divisor": "norm.count"}, ""),  # a parameter, and may be trained
        ({"mean": "ReduceMax"}, ""),
        ({"summed": "ReduceMax"}, ""),
        ({"summed": "ReduceSumSquare", "by": 7.0}, ""),  # the fourth powers
        ({"summed": "ReduceMean", "by": 7.0}, "correction=0)"),
    ],
)
@pytest.mark.parametrize("level", [0, 1])
def test_a_deviation(
    options: dict[str, Any], line: str, level: int, tmp_path: Path
) -> None:
    axes, by = options.get("axes", (-1,)), options.get("by", 7.0)
    g = Traced(y=[2, 5, 8])
    over = g.ints(*options.get("centred", axes))
    change = g("Sub", "y", g(options.get("mean", "ReduceMean"), "y", over, keepdims=1))
    square, keep = g("Mul", change, change), options.get("keepdims", 1)
    var = g(options.get("summed", "ReduceSum"), square, g.ints(*axes), keepdims=keep)
    divisor = np.array(by, np.float32)
    if by:
        var = g("Div", var, g.weight(options.get("divisor", "by"), value=divisor))
    var = g("Unsqueeze", var, g.ints(options["again"])) if "again" in options else var
    outputs = {"out": g("Sqrt", var)} | ({"z": change} if "read" in options else {})
    text = text_of(g, tmp_path, level, **outputs)
    assert line in text if line else ".std(" not in text and ".var(" not in text
    assert read_report(tmp_path / "net")["emission"]["validated"]


def test_axes_from_the_front_and_the_back_are_the_same(tmp_path: Path) -> None:
    g = Traced(y=[2, 5, 8])
    means = [g("ReduceMean", "y", g.ints(*axes)) for axes in ((-1, 1), (1, 2), (-2,))]
    text = text_of(g, tmp_path, out=g("Mul", *means[:2]), other=means[2])
    assert text.count(".mean(") == 2


@pytest.mark.parametrize(
    ("there", "back", "line"),
    [
        ((1, 0, 2), (1, 0, 2), "x[:, index]"),
        ((2, 0, 1), (1, 2, 0), "x[:, :, index]"),
        ((2, 1, 0), (2, 1, 0), "[index]"),  # the others change places, too
        ((2, 0, 1), (2, 1, 0), "[index]"),
    ],
)
def test_places_along_an_axis(
    there: tuple[int, ...], back: tuple[int, ...], line: str, tmp_path: Path
) -> None:
    g = Traced(x=["batch", 5, 4], index=("int64", ["n"]))
    column = g("Unsqueeze", "index", g.ints(-1))
    rows = g("GatherND", g("Transpose", "x", perm=there), column)
    most = g("ReduceMax", column, keepdims=0)  # reads it, too
    text = text_of(g, tmp_path, y=g("Transpose", rows, perm=back), most=most)
    assert line in text and ("[:, " in line) == ("[:, " in text)
    assert read_report(tmp_path / "net")["emission"]["validated"]


@pytest.mark.parametrize(
    ("gate", "parts", "line"),
    [
        (1, 2, "F.glu(F.relu(y), dim=1)"),
        (0, 2, "torch.sigmoid("),
        (1, 3, "torch.sigmoid("),  # what else reads the third
    ],
)
def test_half_of_a_value_gates_the_other(
    gate: int, parts: int, line: str, tmp_path: Path
) -> None:
    g = Traced(y=["batch", 6, 5])
    halves = g("Split", g("Relu", "y"), axis=1, num_outputs=parts, outputs=parts)
    gated = g("Mul", g("Sigmoid", halves[gate]), halves[1 - gate])
    gated = g("Add", gated, halves[2]) if parts > 2 else gated
    assert line in text_of(g, tmp_path, out=gated)
    assert read_report(tmp_path / "net")["emission"]["validated"]


@pytest.mark.parametrize(
    ("order", "line"),
    [
        ((0, 1, 2), "torch.cat(F.relu(y).chunk(3, dim=1))"),
        ((0, 2, 1), ""),
        ((0, 1), ""),
    ],
)
def test_all_parts_joined_along_another_axis(
    order: tuple[int, ...], line: str, tmp_path: Path
) -> None:
    """As heads stand behind each other in a Set Transformer's batch."""
    g = Traced(y=["batch", 6, 5])
    parts = g("Split", g("Relu", "y"), axis=1, num_outputs=3, outputs=3)
    text = text_of(g, tmp_path, out=g("Concat", *(parts[i] for i in order), axis=0))
    assert line in text and ("cat(F.relu" in text) == bool(line)
    assert read_report(tmp_path / "net")["emission"]["validated"]


def turned(g: Graph, x: str, cos: str, sin: str, swap: bool = False) -> str:
    """x * cos + rotate_half(x) * sin, as transformers writes it."""
    a, b = g("Split", x, axis=-1, num_outputs=2, outputs=2)
    parts = (g("Neg", a), b) if swap else (g("Neg", b), a)
    return str(g("Add", g("Mul", x, cos), g("Mul", g("Concat", *parts, axis=-1), sin)))


def turned_pairs(g: Graph, x: str, cos: str, sin: str, first: int = 0) -> str:
    """The same for neighbours, as GPT-J writes it."""
    parts = [
        g("Slice", x, *(g.ints(n) for n in (start, 2**62, -1, 2)))
        for start in (first, 1 - first)
    ]
    columns = [g("Unsqueeze", y, g.ints(-1)) for y in (g("Neg", parts[1]), parts[0])]
    rotated = g("Reshape", g("Concat", *columns, axis=-1), g.ints(0, 0, 8))
    return str(g("Add", g("Mul", rotated, sin), g("Mul", x, cos)))


def turned_halves(g: Graph, x: str, cos: str, sin: str, swap: bool = False) -> str:
    """The same with an angle for each pair, as GPT-OSS writes it."""
    a, b = g("Split", x, axis=-1, num_outputs=2, outputs=2)
    parts = [g("Mul", a, cos), g("Mul", b, sin)]
    less = g("Sub", *(parts[::-1] if swap else parts))
    more = g("Add", g("Mul", b, cos), g("Mul", a, sin))
    return str(g("Concat", less, more, axis=-1))


@pytest.mark.parametrize("level", [0, 1])
def test_rotations_share_a_helper(level: int, tmp_path: Path) -> None:
    g = Traced(q=["batch", 5, 8], k=["batch", 5, 12], times=["batch", 5, 4])
    angles = g("Concat", "times", "times", axis=-1)
    cos, sin = g("Cos", angles), g("Sin", angles)
    part, rest = g("Split", "k", g.ints(8, 4), axis=-1, outputs=2)
    k = g("Concat", turned(g, part, cos, sin), rest, axis=-1)
    text = text_of(g, tmp_path, level, y=turned(g, "q", cos, sin), z=k)
    assert text.count("def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor)") == 1
    assert "apply_rotary(q, cos, sin)" in text
    assert "torch.cat([apply_rotary(first, cos, sin), second], dim=-1)" in text
    assert "angles = torch.cat([times, times], dim=-1)" in text
    report = read_report(tmp_path / "net")
    lines = json.dumps(report["source_map"])
    assert all(node.name in lines for node in g.nodes)


def test_tables_of_a_rotation_are_called_cos_and_sin(tmp_path: Path) -> None:
    g = Traced(q=["batch", 5, 8], k=["batch", 5, 8])
    tables = [g.weight(f"val_{i}", 5, 8) for i in range(2)]
    made = {x: turned_pairs(g, x, *tables) for x in ("q", "k")}
    text = text_of(g, tmp_path, y=made["q"], z=made["k"])
    assert "apply_interleaved_rotary(q, self.cos, self.sin)" in text
    assert text.count("stack") == 1
    emission = read_report(tmp_path / "net")["emission"]
    assert emission["validated"], "pairs are joined and added in another order"


def test_neighbours_that_an_axis_takes_apart(tmp_path: Path) -> None:
    """x1, x2 = x.unflatten(-1, (4, 2)).unbind(-1), as TorchScript exports it."""
    g = Traced(q=["batch", 5, 8])
    cos, sin = (g.weight(f"val_{i}", 5, 8) for i in range(2))
    apart = g("Reshape", "q", g.ints(0, 5, 4, 2))
    a, b = g("Split", apart, axis=-1, num_outputs=2, outputs=2)
    turned = g("Reshape", g("Concat", g("Neg", b), a, axis=-1), g.ints(0, 5, 8))
    y = g("Add", g("Mul", "q", cos), g("Mul", turned, sin))
    text = text_of(g, tmp_path, y=y)
    assert "apply_interleaved_rotary(q, self.cos, self.sin)" in text
    assert read_report(tmp_path / "net")["emission"]["validated"]


def test_what_parts_of_a_row_are_turned_by(tmp_path: Path) -> None:
    """torch.cat([rest, a * cos - b * sin, b * cos + a * sin]), whatever a and b are."""
    g = Traced(a=["batch", 4], b=["batch", 4], rest=["batch", 3])
    cos, sin = (g.weight(f"val_{i}", 4) for i in range(2))
    less = g("Sub", g("Mul", "a", cos), g("Mul", "b", sin))
    more = g("Add", g("Mul", "b", cos), g("Mul", "a", sin))
    text = text_of(g, tmp_path, y=g("Concat", "rest", less, more, axis=-1))
    assert "a * self.cos - b * self.sin" in text


def test_angles_for_pairs_of_halves(tmp_path: Path) -> None:
    g = Traced(q=["batch", 5, 8], times=["batch", 5, 4])
    y = turned_halves(g, "q", g("Cos", "times"), g("Sin", "times"))
    text = text_of(g, tmp_path, y=y)
    assert "apply_half_rotary(q, times.cos(), times.sin())" in text
    assert read_report(tmp_path / "net")["emission"]["validated"]


@pytest.mark.parametrize(
    ("axis", "line"),
    [(2, "x.repeat_interleave(3, dim=1)"), (1, ".flatten(1, 2)")],
)
def test_keys_for_groups_of_queries(axis: int, line: str, tmp_path: Path) -> None:
    """Each head several times; all heads several times are no such."""
    g = Traced(x=["batch", 2, "seq", 8])
    sizes = [1, 1, 1, 1, 1]
    sizes[axis] = 3
    wide = g("Expand", g("Unsqueeze", "x", g.ints(axis)), g.ints(*sizes))
    y = g("Reshape", wide, g.ints(0, 6, -1, 8))
    text = text_of(g, tmp_path, y=g("Relu", y))
    assert line in text
    assert read_report(tmp_path / "net")["emission"]["validated"]


@pytest.mark.parametrize(
    "other",
    [
        lambda g: turned_halves(g, "x", "c4", "s4", swap=True),
        lambda g: turned(g, "x", "c", "s", swap=True),
        lambda g: turned_pairs(g, "x", "c", "s", first=1),
        lambda g: g("Concat", turned(g, "x", "c", "s"), g.nodes[0].output[0], axis=-1),
        lambda g: g("Mul", turned(g, "x", "c", "s"), g.nodes[-1].input[0]),
    ],
)
def test_what_is_no_rotation_is_written_out(other: Any, tmp_path: Path) -> None:
    """The other half negated, the other neighbour, and parts that others read."""
    g = Traced(x=["batch", 5, 8], c=[5, 8], s=[5, 8], c4=[5, 4], s4=[5, 4])
    text = text_of(g, tmp_path, y=other(g))
    assert "rotary" not in text


def test_a_part_that_is_read_elsewhere_is_not_rolled(tmp_path: Path) -> None:
    g = Traced(x=["batch", 5])
    a, b = g("Split", "x", g.ints(2, 3), axis=1, outputs=2)
    y = g("Concat", g("Relu", b), g("Relu", a), axis=1)
    text = text_of(g, tmp_path, y=g("Concat", b, a, axis=1), z=y)
    assert "split" in text and "roll" not in text


def test_indices_that_the_file_names_stay_a_buffer(tmp_path: Path) -> None:
    """The table of position biases of Swin."""
    g = Traced(x=["batch", 9, 2])
    with g.module("attn", "Attention"):
        table = g.param("bias_table", 4, 2)
        index = g.weight("attn.position_index", value=INDEX)
        column = g("Unsqueeze", index, g.ints(-1))
        bias = g("GatherND", table, column)
        x = g.fc(g("Add", "x", bias), "proj", 2, 2)
    text = text_of(g, tmp_path, level=0, y=x)
    assert "self.bias_table[self.position_index]" in text
    state = imported(tmp_path / "net").load().state_dict()
    assert sorted(state) == [
        *("attn.bias_table", "attn.position_index"),
        *("attn.proj.bias", "attn.proj.weight"),
    ]
    assert state["attn.position_index"].tolist() == INDEX.tolist()


def test_a_part_of_named_counts_is_computed(tmp_path: Path) -> None:
    """position_ids of a language model, which its state_dict doesn't hold."""
    g = Traced(x=["batch", 3, 2])
    counts = g.weight("embeddings.position_ids", value=np.arange(8))
    part = g("Slice", counts, g.ints(0), g.ints(3))
    text = text_of(
        g, tmp_path, level=0, y=g("Add", "x", g("Gather", g.weight("a.b", 8, 2), part))
    )
    assert "position_ids" not in text


def _entry(g: Graph, x: str) -> str:
    return str(g("Gather", g.weight("book", 5, 4), g("ArgMax", x, axis=-1, keepdims=0)))


@pytest.mark.parametrize(
    ("made", "passes"),
    [
        (_entry, True),
        (lambda g, x: g("Round", x), True),
        (lambda g, x: g("Tanh", x), False),
        (lambda g, x: g.weight("c", 1, 4), False),
        (lambda g, x: g("Add", _entry(g, x), g("Sigmoid", x)), False),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_gradients_pass_what_leaps(
    made: Any, passes: bool, first: bool, tmp_path: Path
) -> None:
    """x + (rounded - x).detach(), as programs quantise what they train."""
    g = Traced(x=["batch", 4])
    change = g("Sub", made(g, "x"), "x")
    text_of(g, tmp_path, level=0, y=g("Add", *(("x", change)[:: 1 if first else -1])))
    x = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(imported(tmp_path / "net").load()(x).sum(), x)
    assert gradient.equal(torch.ones(3, 4)) == passes


def test_what_stands_amid_a_module_and_needs_nothing_of_it_goes_ahead(
    tmp_path: Path,
) -> None:
    g = Traced(x=["batch", 4, 8], near=("bool", ["batch", 1, 8]))
    hidden = "x"
    for i in range(3):
        with g.module(f"layers.{i}", "Layer"):
            inner = g.relu(g.fc(hidden, "fc1", 8, 8))
            if not i:
                kept = g("Where", "near", g.number(1.0), g.number(0.0))
        if not i:  # as a rewrite leaves it that moves an Expand
            wide = g("Expand", kept, g("Shape", "x"))
        with g.module(f"layers.{i}", "Layer"):
            hidden = g.relu(g.fc(g("Mul", inner, wide), "fc2", 8, 8))
    text = text_of(g, tmp_path, y=hidden)
    assert "nn.ModuleList(Layer() for _ in range(3))" in text


@pytest.mark.parametrize("rows", [False, True])
def test_what_a_mask_picks(rows: bool, tmp_path: Path) -> None:
    """`x[mask]` as torch.onnx writes it; of another mask's size it stays as it is."""
    g = Graph(x=["n", 4], y=["m" if rows else "n", 4])
    mask = g("Greater", "y", g.weight("zero", value=np.float32(0)))
    places = g("Transpose", g("NonZero", mask), perm=[1, 0])
    if rows:
        text = text_of(g, tmp_path, places=places)
        assert "return (y > 0.0).nonzero()" in text
    else:
        text = text_of(g, tmp_path, z=g("GatherND", "x", places))
        assert "return x[y > 0.0]" in text


@pytest.mark.parametrize("kind", ["bool", "int64"])
def test_places_of_a_number(kind: str, tmp_path: Path) -> None:
    """Which ONNX counts as one of a vector, and PyTorch as having no axis."""
    g = Traced(y=(kind, []))
    text = text_of(g, tmp_path, out=g("Transpose", g("NonZero", "y"), perm=[1, 0]))
    assert "return y.unsqueeze(0).nonzero()\n" in text
