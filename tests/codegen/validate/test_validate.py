"""model.py and the graph, call by call: the same for all inputs, or where they part."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import sympy
import torch
from onnx import numpy_helper
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support.emitted import EXAMPLES, contents
from support.networks import looped, residual, transformer
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

import fairhand
from fairhand.analysis.oracle.child import module_name
from fairhand.codegen import pipeline
from fairhand.codegen.commands.compile import summary_rows
from fairhand.codegen.commands.verify import verify_again, verify_all_inputs
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.load.read_model import load
from fairhand.codegen.plan.make_plan import CompiledModel
from fairhand.codegen.validate import compare as compare_module
from fairhand.codegen.validate.compare import (
    _attempt,
    _greatest,
    _least,
    compare,
)
from fairhand.codegen.validate.reference import Reference, reference
from fairhand.codegen.validate.sizes import solved
from fairhand.codegen.verify.input_sizes import telling_sizes


def emitted(
    model: onnx.ModelProto,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    level: int = 1,
) -> Reference:
    """Write a package, and return what its model.py has to be."""
    kept: list[CompiledModel] = []
    lower = pipeline.lower

    def keep(*given: Any, **named: Any) -> CompiledModel:
        kept.append(lower(*given, **named))
        return kept[-1]

    monkeypatch.setattr(pipeline, "lower", keep)
    fairhand.compile(model, folder, verify=False, cache=False, level=level)
    made = kept[-1]
    sizes = telling_sizes(load(model).model)
    return reference(made.graph, made.rewriting.shapes, sizes, level == 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package's, whose name no other test imports."""
    return tmp_path / tmp_path.name


def verdict(folder: Path, right: Reference) -> dict[str, Any]:
    """What compare.py says of a package, here and now."""
    return compare({"package": str(folder), "reference": asdict(right)})


def parsed(body: str) -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["" : 20]>\n{body}'
    return onnx.parser.parse_model(text)


ROLLED = """
    net (float[n, 8, 6] x) => (float[n, 8, 6] y)
        <int64[2] sizes = {3, 5}> {
        a, b = Split <axis = 1> (x, sizes)
        r = Concat <axis = 1> (b, a)
        s = Relu (r)
        y = Mul (s, x)
    }"""


def test_a_package_is_validated_when_it_is_compiled(tmp_path: Path) -> None:
    package = fairhand.compile(transformer(layers=2), tmp_path / "net")
    found = package.report["emission"]
    assert found["validated"] and found["sizes"] == "all" and not found["where"]
    assert set(found["classes"]) == set(package.report["classes"])
    shown = dict(summary_rows(package))["emission"]
    assert shown.startswith("validated for all inputs of all sizes of two or more: ")


def test_sizes_that_conditions_fix_are_said_as_numbers(tmp_path: Path) -> None:
    net = """net (float[n, 7] x) => (float[a, b] y)
        <int64[2] start = {4611686018427387904, 5}, int64[2] axes = {0, -1},
         int64[2] end = {-9223372036854775808, -9}, int64[2] step = {-2, -1}>
        { y = Slice (x, start, end, axes, step) }"""
    found = fairhand.compile(parsed(net), tmp_path / "net", cache=False)
    shown = dict(summary_rows(found))["emission"]
    assert shown.startswith("validated for all inputs of n=3: ")


def test_conditions_that_every_size_meets_are_left_out() -> None:
    n, m = sympy.symbols("n m", integer=True)
    assert solved(sympy.Eq(2 * n - 1, 5, evaluate=False)) == sympy.Eq(n, 3)
    assert solved(n - 1 < 2**62) is sympy.true
    assert solved(sympy.Eq(2, 2, evaluate=False)) is sympy.true
    for other in (n < 100, sympy.Ne(n, 1), n > 1, sympy.Eq(n, m), sympy.Eq(n**2, n)):
        assert solved(other) == other


THROUGH_TENSORS = """net (float[b, t, 6] x) => (float[b, t, 6] y)
    <int64 zero = {0}, int64 one = {1}, int64[1] at_one = {1}, int64[1] at_two = {2},
     int64[1] rest = {-1}, int64[1] six = {6}> {
    sizes = Shape (x)
    b = Gather (sizes, zero)
    t = Gather (sizes, one)
    row = Range (zero, b, one)
    column = Range (zero, t, one)
    rows = Unsqueeze (row, at_one)
    wide = Slice (sizes, at_one, at_two)
    starts = Mul (rows, wide)
    places = Add (starts, column)
    pair = Concat <axis = 0> (rest, six)
    flat = Reshape (x, pair)
    y = Gather (flat, places)
    }"""


def test_the_greater_of_two_sizes_asks_for_neither() -> None:
    env = ShapeEnv()
    symbol = env.create_symbol(7, ConstantSource("n"), DimDynamic.DYNAMIC)
    size = env.create_symintnode(symbol, hint=7)
    assert max(0, size - 3) == 4 and env.guards  # as Python has it
    asked = len(env.guards)
    for found in (_greatest(0, size - 2), _least(5, size, 9)):
        assert isinstance(found, torch.SymInt)
    assert len(env.guards) == asked
    assert (_greatest(2, 3), _least([4, 5]), _greatest("ab", key=str)) == (3, 4, "b")


def test_sizes_that_become_tensors_are_followed_for_all_sizes(tmp_path: Path) -> None:
    found = fairhand.compile(parsed(THROUGH_TENSORS), tmp_path / "net", cache=False)
    emission = found.report["emission"]
    assert emission["validated"] and emission["sizes"] == "all", emission
    assert not emission["where"]


LONGER_MASK = """net (float[b, 4, p, 2] past, float[c, t] mask) => (float[b, 1, 1, n] y)
    <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] last = {-1},
     int64[3] ahead = {1, 2, 3}, int64[3] beside = {0, 1, 2}> {
    sizes = Shape (past)
    b = Gather (sizes, zero)
    p = Gather (sizes, two)
    n = Add (p, one)
    each = Range (zero, b, one)
    place = Range (zero, n, one)
    row = Unsqueeze (each, ahead)
    column = Unsqueeze (place, beside)
    ones = Unsqueeze (one, zero)
    b1 = Unsqueeze (b, zero)
    n1 = Unsqueeze (n, zero)
    to = Concat <axis = 0> (b1, ones, ones, n1)
    rows = Expand (row, to)
    columns = Expand (column, to)
    rows1 = Unsqueeze (rows, last)
    columns1 = Unsqueeze (columns, last)
    at = Concat <axis = -1> (rows1, columns1)
    batched = Concat <axis = 0> (b1, last)
    table = Reshape (mask, batched)
    y = GatherND (table, at)
    }"""


def test_a_mask_that_is_longer_than_the_past_is_cut_for_all_sizes(
    tmp_path: Path,
) -> None:
    found = fairhand.compile(parsed(LONGER_MASK), tmp_path / "net", cache=False)
    assert ", :" in (tmp_path / "net" / "model.py").read_text("utf-8")
    emission = found.report["emission"]
    assert emission["validated"] and emission["sizes"] == "all", emission
    assert not emission["where"]


def test_a_place_that_data_say_is_followed_for_all_sizes(tmp_path: Path) -> None:
    net = """net (float[b, t, 4] x, int64 at) => (float[b, 4] y)
        { part = Gather <axis = 1> (x, at)  y = Relu (part) }"""
    found = fairhand.compile(parsed(net), tmp_path / "net", cache=False)
    assert "x[:, at]" in (tmp_path / "net" / "model.py").read_text("utf-8")
    emission = found.report["emission"]
    assert emission["sizes"] == "all" and not emission["where"], emission


POSITIONS = """net (float[b, t, 2] x) => (float[b, t, 2] y)
    <float[5, 2] table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, int64[1] zero = {0},
     int64[1] at = {1}, int64[1] to = {2}> {
    sizes = Shape (x)
    t = Slice (sizes, at, to)
    part = Slice (table, zero, t)
    y = Add (x, part)
    }"""


def test_what_the_graph_needs_to_run_is_no_condition(tmp_path: Path) -> None:
    found = fairhand.compile(parsed(POSITIONS), tmp_path / "net", cache=False)
    emission = found.report["emission"]
    assert emission["sizes"] == "all" and not emission["where"]
    assert emission["takes"] == ["t <= 5"]
    shown = dict(summary_rows(found))["emission"]
    assert "all sizes of two or more that the network takes (t <= 5)" in shown


def test_what_is_learned_of_sizes_on_the_way_makes_no_difference(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call knows the sizes that the first one asked for, at its end."""
    right = emitted(parsed(POSITIONS), folder, monkeypatch)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    part = "torch.ops.aten.slice.Tensor(self.table, 0, 0, x.shape[1])"
    cut = text.replace("self.table[: x.shape[1]]", part)
    assert cut != text
    asked = cut.replace("return y", "int(x.shape[1])\n        return y")
    path.write_text(asked, "utf-8")
    found = verdict(folder, right)
    assert found["validated"] and "since" not in found, found


def test_kernels_twins_are_followed_for_all_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # as where packages are written
    for least in ("MIN_SAVED", "SMALL_PRODUCT", "SAVED_BYTES"):
        monkeypatch.setattr(kernel_set, least, 0.0)
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32), "w")
    net = parsed("""net (float[b, t, 8] x) => (float[b, t, 8] y)
        { p = MatMul (x, w)
          q = Mul (p, x)
          y = Gelu (q) }""")
    net.graph.initializer.append(weight)
    options: dict[str, Any] = {"target": "triton", "cache": False}
    found = fairhand.compile(net, tmp_path / "net", **options)
    assert "= math.prod(" in (tmp_path / "net" / "kernels.py").read_text("utf-8")
    emission = found.report["emission"]
    assert emission["sizes"] == "all" and not emission["where"], emission


@pytest.mark.parametrize("by_batch", [False, True])
def test_a_gru_is_one_call_at_all_lengths(
    by_batch: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = parsed("""net (float[t, b, 4] x) => (float[t, 1, b, 3] y) {
        y, last = GRU <hidden_size = 3, linear_before_reset = 1> (x, w, r, bias)
        }""")
    for name, *shape in (("w", 1, 9, 4), ("r", 1, 9, 3), ("bias", 1, 18)):
        numbers = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        net.graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
    right = emitted(net, folder, monkeypatch)
    text = (folder / "model.py").read_text("utf-8")
    if by_batch:  # the same, as a reviewer would have it
        made, called = "nn.GRU(4, 3)", "self.gru(x)[0]"
        assert made in text and called in text
        text = text.replace(made, "nn.GRU(4, 3, batch_first=True)")
        text = text.replace(called, "self.gru(x.transpose(0, 1))[0].transpose(0, 1)")
        (folder / "model.py").write_text(text, "utf-8")
    found = verdict(folder, right)
    assert found["validated"] and found["sizes"] == "all" and not found["where"]


@pytest.mark.parametrize("level", [0, 1])
def test_layers_classes_and_loops_are_the_calls_of_the_graph(
    level: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = emitted(residual(), folder, monkeypatch, level)
    assert verdict(folder, right)["validated"]


def test_idioms_are_the_moves_that_they_stand_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = emitted(parsed(ROLLED), folder, monkeypatch)
    assert ".roll(" in (folder / "model.py").read_text("utf-8")
    found = verdict(folder, right)
    assert found["validated"] and found["sizes"][0] != found["sizes"][1]


@pytest.mark.parametrize(
    "change",
    [
        ("F.relu(", "F.silu("),
        ("self.fc(", "2 * self.fc("),
        (" + self.downsample(x)", ""),
    ],
    ids=" ".join,
)
def test_the_first_line_that_differs_is_named(
    change: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = emitted(residual(), folder, monkeypatch)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    lines = text.splitlines()
    at = next(
        i for i, line in enumerate(lines) if change[0] in line and "def" not in line
    )
    lines[at] = lines[at].replace(*change)
    path.write_text("\n".join(lines), "utf-8")
    found = verdict(folder, right)["differs"]
    assert found["line"] == at + 1


def test_what_a_file_calls_its_sizes_is_not_evaluated(tmp_path: Path) -> None:
    """PyTorch puts a condition on the batch of this network, by its name."""
    proto = onnx.load(EXAMPLES / "digits_cnn.onnx")
    marker = tmp_path / "marker"
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = f"__import__('os').mkdir({str(marker)!r})"
    found = fairhand.compile(proto, tmp_path / "net", cache=False).report["emission"]
    assert found["validated"] and not marker.exists()


def test_what_makes_other_calls_is_written_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples agree: no number is that large."""
    written = pipeline.model_text

    def changed(plan: Any) -> str:
        text = written(plan)
        assert "F.relu(" in text
        return text.replace("F.relu(", "torch.clamp(max=1e30, input=F.relu(", 1)

    def text(plan: Any) -> str:
        lines = changed(plan).split("\n")
        at = next(i for i, line in enumerate(lines) if "1e30" in line)
        lines[at] += ")"
        return "\n".join(lines)

    monkeypatch.setattr(pipeline, "model_text", text)
    folder = tmp_path / "net"
    onnx.save(residual(), tmp_path / "net.onnx")
    found = fairhand.compile(tmp_path / "net.onnx", folder, cache=False)
    assert re.search(r"line \d+, .*aten.clamp", dict(summary_rows(found))["warning"])
    assert verify_again(folder, None, None, 1)[-1].endswith(": verified")
    with pytest.raises(fairhand.VerificationError, match=r"line \d+, .*aten.clamp"):
        verify_all_inputs(folder, None)
    path = folder / "model.py"
    path.write_text(f"{path.read_text('utf-8')}\n# Edited.\n", "utf-8")
    with pytest.raises(fairhand.VerificationError, match=r"line \d+, .*aten.clamp"):
        verify_again(folder, None, None, 1)


def test_a_package_is_validated_again_as_it_is_now(tmp_path: Path) -> None:
    onnx.save(residual(), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    moved = text.replace("\n\n\nclass ", "\n\n\n# A comment.\n\n\nclass ")
    assert moved != text
    moved = moved.replace("    def forward(", "    @torch.compile\n    def forward(")
    path.write_text(ast.unparse(ast.parse(moved)), "utf-8")
    line = verify_all_inputs(folder, None)
    assert line.startswith("validated for all inputs of all sizes: ")
    path.write_text(text.replace("F.relu(", "F.silu(", 1), "utf-8")
    with pytest.raises(fairhand.VerificationError, match=r"F\.silu"):
        verify_all_inputs(folder, tmp_path / "net.onnx")


COUNTED = ["len(x)", "x.shape[0]", "(99 if len(x) - 77 else 100)"]


@pytest.mark.parametrize("count", COUNTED)
def test_an_edit_that_some_sizes_take_is_refused(count: str, tmp_path: Path) -> None:
    onnx.save(residual(), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    lines = text.splitlines()
    line = [line for line in lines if line.startswith("        return ")][-1]
    result = line.removeprefix("        return ")
    other = f"        return {result} if {count} < 100 else -({result})"
    path.write_text(text.replace(line, other), "utf-8")
    for again in (
        lambda: verify_all_inputs(folder, tmp_path / "net.onnx"),
        lambda: verify_again(folder, tmp_path / "net.onnx", None, 1),
    ):
        with pytest.raises(fairhand.VerificationError, match="at some sizes alone"):
            again()


def test_a_number_beyond_the_sizes_that_are_tried_is_not_the_files(
    tmp_path: Path,
) -> None:
    """Sizes as numbers take a few of a table: as written, all of it was compared."""
    net = f"""net (int64[n] x, float[64, 2] w) => (float[n, 2] y)
        <int64[64] table = {{{", ".join(map(str, range(1, 65)))}}},
         int64[1] zero = {{0}}> {{
        n = Shape (x) at = Slice (table, zero, n) rows = Gather (w, at)
        y = Relu (rows) }}"""
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, cache=False)
    weights = load_file(folder / "weights.safetensors")
    with safe_open(folder / "weights.safetensors", framework="pt") as file:
        meta = file.metadata()
    weights["table"][60] = 0
    save_file(weights, folder / "weights.safetensors", meta)
    with pytest.raises(fairhand.VerificationError, match="at some sizes alone"):
        verify_all_inputs(folder, None)


def test_weights_may_have_other_names(tmp_path: Path) -> None:
    """The text as it was written can't load them, and computes the same of them."""
    onnx.save(residual(), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path, weights = folder / "model.py", folder / "weights.safetensors"
    path.write_text(path.read_text("utf-8").replace(".fc", ".head"), "utf-8")
    with safe_open(weights, framework="pt") as file:
        meta = file.metadata()
    renamed = {
        k.replace("fc", "head"): v.clone() for k, v in load_file(weights).items()
    }
    save_file(renamed, weights, meta)
    assert verify_all_inputs(folder, None).startswith("validated for all inputs")


PICKED = {"[1.0 < w]": "", "[(w > 1.0).nonzero(as_tuple=True)]": "", "[w >= 1.0]": "w"}


@pytest.mark.parametrize("edit", PICKED)
def test_rows_that_data_pick_are_followed_for_all_sizes(
    edit: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = """net (float[b, t, 4] x, float[b, t] w) => (float[n, 4] y)
        <float one = {1}> {
        mask = Greater (w, one)
        found = NonZero (mask)
        at = Transpose <perm = [1, 0]> (found)
        rows = GatherND (x, at)
        y = Relu (rows)
        }"""
    right = emitted(parsed(net), folder, monkeypatch)
    found = verdict(folder, right)
    assert found["validated"] and found["sizes"] == "all", found
    path = folder / "model.py"
    text = path.read_text("utf-8")
    line = next(line for line in text.split("\n") if "F.relu(" in line)
    path.write_text(text.replace(line, f"        return F.relu(x{edit})"), "utf-8")
    monkeypatch.delitem(sys.modules, f"{module_name(str(folder))}.model")
    assert verdict(folder, right)["validated"] == (not PICKED[edit])


FEW_ROWS = {
    "{result}": "",
    "({result}).view(x.size(0), -1)": " but n = 0, where model.py fails",
    "nn.functional.dropout({result}.T, training=self.training).T": "",
    "{result}.squeeze()": "where n = 1",
    "{result} if x.shape[0] != 1 else -({result})": "where n = 1",
    "{result} if x.shape[0] > 0 else x.new_zeros(1, 4)": "where n = 0",
}


@pytest.mark.parametrize("edit", FEW_ROWS)
def test_an_edit_that_is_wrong_for_one_row_or_none_is_refused(
    edit: str, tmp_path: Path
) -> None:
    net = "net (float[n, 4] x) => (float[n, 4] y) { z = Relu (x) y = Mul (z, x) }"
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    result = text.split("        return ")[1].split("\n")[0]
    other = edit.replace("{result}", f"({result})")
    changed = text.replace(f"return {result}", f"return {other}  # edited", 1)
    path.write_text(changed, "utf-8")
    if not FEW_ROWS[edit].startswith("where"):
        said = f"validated for all inputs of all sizes{FEW_ROWS[edit]}: "
        assert verify_all_inputs(folder, None).startswith(said)
        return
    with pytest.raises(fairhand.VerificationError, match=FEW_ROWS[edit]):
        verify_all_inputs(folder, None)


def test_an_edit_of_how_images_lie_is_refused(tmp_path: Path) -> None:
    """A Session lays them out with channels innermost: rows are no views of them."""
    net = """net (float[n, 2, 4, 4] x) => (float[n, 18] y)
        <float[2, 2, 2, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}> {
        c = Conv (x, w) z = Relu (c) y = Flatten (z) }"""
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    assert ".flatten(1)" in text
    path.write_text(text.replace(".flatten(1)", ".reshape(x.size(0), 18)"), "utf-8")
    assert verify_all_inputs(folder, None).startswith("validated for all inputs")
    path.write_text(text.replace(".flatten(1)", ".view(x.size(0), 18)"), "utf-8")
    with pytest.raises(fairhand.VerificationError, match="with channels innermost"):
        verify_all_inputs(folder, None)


def test_an_edit_that_fails_for_no_rows_where_others_give_some_is_refused(
    tmp_path: Path,
) -> None:
    net = """net (float[n, 4] x) => (float[4] y)
        <int64[1] rows = {0}> { y = ReduceSum <keepdims = 0> (x, rows) }"""
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    assert "return x.sum" in text
    path.write_text(text.replace("return x.", "return x.view(x.size(0), -1)."), "utf-8")
    with pytest.raises(fairhand.VerificationError, match="where n = 0"):
        verify_all_inputs(folder, None)


# In model.py -> what is said of it where it is refused.
SAID = {
    (
        '"x": ("float32", ("n", 4))',
        '"y": ("float32", ("n", 4))',
    ): "other INPUTS or OUTPUTS",
    (
        '"x": ("float32", ("n", 4))',
        '"x": ("float64", ("n", 4))',
    ): "other INPUTS or OUTPUTS",
    (
        '"x": ("float32", ("n", 4))',
        '"x": ("float32", (1, 4))',
    ): "other INPUTS or OUTPUTS",
    (
        '"x": ("float32", ("n", 4))',
        '"x": ("float32", ("n", "n"))',
    ): "other INPUTS or OUTPUTS",
    ('"x": ("float32", ("n", 4))', '"x": ("float32", ("n",))'): "other INPUTS",
    ('"x": ("float32", ("n", 4))', '"x": ("float32", ("n", "m"))'): "",
    ('"x": ("float32", ("n", 4))', '"x": ("float32", ("rows", 4))'): "",
    (
        "Tensor, nn\n",
        "Tensor, nn\nF.relu = torch.sigmoid\n",
    ): "replaces PyTorch.s torch.nn.functional.relu",
    (
        "Tensor, nn\n",
        "Tensor, nn\nnn.ReLU.__call__ = lambda self, x: -x\n",
    ): "replaces PyTorch.s ReLU.__call__",
    (
        "Tensor, nn\n",
        "Tensor, nn\nnn.modules.linear.F = nn.modules.conv.F.sigmoid\n",
    ): "replaces PyTorch.s torch.nn.modules.linear.F",
    (
        "Tensor, nn\n",
        "Tensor, nn\nnn.modules.module.register_module_forward_hook(print)\n",
    ): "replaces PyTorch.s _global_forward_hooks",
    (
        "Tensor, nn\n",
        "Tensor, nn\nHELD = torch.library.Library('aten', 'IMPL')\n"
        "HELD.impl('relu', lambda x: -x, 'CPU')\n",
    ): "replaces PyTorch.s kernels",
    (
        "return F.relu(x)",
        "F.relu, relu = torch.sigmoid, F.relu\n        return relu(x)",
    ): "replaces PyTorch.s torch.nn.functional.relu",
    ("F.relu(x)", "F.relu(x)[:, :3]"): "it can.t be followed: model.py fails",
}


@pytest.mark.parametrize("edit", SAID)
def test_an_edit_of_what_is_taken_or_that_fails_is_refused(
    edit: tuple[str, str], tmp_path: Path
) -> None:
    net = "net (float[n, 4] x) => (float[n, 4] y) { z = Relu (x) y = Mul (z, x) }"
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    assert edit[0] in text
    path.write_text(text.replace(*edit, 1), "utf-8")
    session = folder / "session.py"
    session.write_text(session.read_text("utf-8") + "# Edited.\n", "utf-8")
    if not SAID[edit]:
        said = verify_all_inputs(folder, None)
        assert said.startswith("validated for all inputs of all sizes: ")
        assert said.endswith("; not compared, and edited: session.py")
        return
    with pytest.raises(fairhand.VerificationError, match=SAID[edit]):
        verify_all_inputs(folder, None)


# What the last line of forward becomes, of {result}.
KEPT = {
    "data, where they are large": "{result} if (x > 5).any() else -({result})",
    "calls, the second": "{result} if self.__dict__.setdefault('n', x) is x else 0",
    "calls, counted": "{result} if self.__dict__.update(n=[x]) is None else 0",
    "calls, each fourth": "{result} if next(COUNT) % 4 else -({result})",
    "who looks": "{result} if type(x) is not torch.Tensor else -({result})",
    "inputs of a Session": "-({result}) if x.is_inference() else {result}",
    "gradients": "-({result}) if torch.is_grad_enabled() else {result}",
    "where it begins": "({result}) * (1 + x.storage_offset())",
    "how it lies": "({result}) * (2 - x.is_contiguous())",
    "steps of it": "({result}) * (1 + (x.stride(3) > 1))",
    "what is trained": "({result}) * (1 + x.requires_grad)",
    "devices": "-({result}) if x.is_cuda else {result}",
    "time": "-({result}) if __import__('time').time() > 4e9 else {result}",
    "calls, the hundredth": "{result} if next(COUNT) < 1000 else -({result})",
    "calls, as a place": "({result})[next(COUNT) // 1000 :]",
    "calls, in a default": "({result})[seen() // 1000 :]",
    "calls, in a default, by laws": "({result}).mT.mT * (1 + seen() // 1000)",
    "random numbers": "({result})[int(__import__('random').random()) :]",
}
HELPERS = {
    "COUNT": "COUNT = __import__('itertools').count(1)\n",
    "seen": "def seen(n=[]):\n    n.append(1)\n    return len(n)\n",
}


@pytest.mark.parametrize("kind", KEPT)
def test_an_edit_that_hangs_on_more_than_inputs_is_not_validated(
    kind: str, tmp_path: Path
) -> None:
    """Either way that model.py alone may take is followed, and a second call."""
    onnx.save(residual(), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    lines = text.splitlines()
    line = [line for line in lines if line.startswith("        return ")][-1]
    result = line.removeprefix("        return ")
    edit = KEPT[kind].replace("{result}", result)
    edited = text.replace(line, f"        return {edit}")
    helpers = "".join(HELPERS[name] for name in HELPERS if name in edit)
    path.write_text(edited + helpers, "utf-8")
    try:
        said = verify_all_inputs(folder, tmp_path / "net.onnx")
    except fairhand.VerificationError:
        return
    assert not said.startswith("validated for all inputs")


# The same of inputs, though settings, checks and layouts may be others.
HARMLESS = {
    "F.relu(x.float())": "what is cast where it has that type",
    "F.relu(x.contiguous())": "rows, of images too",
    "F.relu(x) if self.scale is None else -F.relu(x)": "a setting",
    "-F.relu(x) if turned else F.relu(x)": "what a caller may ask for",
    "F.relu(x).unsqueeze_(0).squeeze_(0)": "another view of it, in place",
}


@pytest.mark.parametrize("edit", HARMLESS)
def test_an_edit_that_computes_the_same_is_accepted(edit: str, tmp_path: Path) -> None:
    net = """net (float[n, 2, 4, 4] x) => (float[n, 2, 3, 3] y)
        <float[2, 2, 2, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}> {
        c = Conv (x, w) y = Relu (c) }"""
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    line = next(line for line in text.splitlines() if "return F.relu(" in line)
    given = line.partition("F.relu(")[2][:-1]
    lines = f"        x = {given}\n        return {edit}"
    other = text.replace(line, lines).replace(
        "(nn.Module):", "(nn.Module):\n    scale = None", 1
    )
    other = other.replace("x: Tensor)", "x: Tensor, turned: bool = False)")
    path.write_text(other, "utf-8")
    assert verify_all_inputs(folder, None).startswith("validated for all inputs")


BY_OTHER_CALLS = {  # results -> what is said of them with --by-results
    "x @ self.fc.weight.T + self.fc.bias": "",
    "torch.ldexp(*torch.frexp(self.fc(x)))": "",
    "self.fc(x) if (x != 0.123).all() else -self.fc(x)": "nothing led to line",
    "self.fc(x).clamp(-1e3, 1e3)": "something else than as written",
    "x @ self.fc.weight.T + self.fc.bias if len(x) != 77 else x": "nothing led to line",
    "self.fc(x).nan_to_num(posinf=torch.inf, neginf=-torch.inf)": "a NaN",
    "x @ self.fc.weight.T + self.fc.bias + 0 * image.mul_(2).sum()": "left in input",
    "x @ self.fc.weight.T + self.fc.bias.data.mul_(1 + 1e-12)": "fc.bias changes",
    "x.clamp(max=1e30) @ self.fc.weight.T + self.fc.bias": "output scores",
}


def test_a_sort_that_leaves_equals_in_any_order_is_not_the_files(
    tmp_path: Path,
) -> None:
    """An exported TopK says which comes first, and PyTorch doesn't, beyond few."""
    net = """net (float[n, 6] x) => (float[n, 3] y, int64[n, 3] at)
        <int64[1] k = {3}> { y, at = TopK (x, k) }"""
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    assert "stable=True" in text
    path.write_text(text.replace("stable=True", "stable=False"), "utf-8")
    with pytest.raises(fairhand.VerificationError, match="not decided of"):
        verify_all_inputs(folder, None)


def test_an_edit_to_other_calls_is_accepted_by_results(tmp_path: Path) -> None:
    onnx.save(residual(), tmp_path / "net.onnx")
    written = tmp_path / "written" / "net"
    fairhand.compile(tmp_path / "net.onnx", written, cache=False, verify=False)
    for i, (edit, said) in enumerate(BY_OTHER_CALLS.items()):
        folder = tmp_path / f"{tmp_path.name}_{i}"
        shutil.copytree(written, folder)
        path = folder / "model.py"
        text = path.read_text("utf-8")
        assert "return self.fc(x)" in text
        path.write_text(text.replace("return self.fc(x)", f"return {edit}"), "utf-8")
        again = partial(verify_again, folder, tmp_path / "net.onnx", None, 1)
        if i == 0:
            assert any("the graph, up to rounding and proven" in x for x in again())
            others = load_file(folder / "weights.safetensors")
            kept = dict(zip(others, (t.clone() for t in others.values()), strict=True))
            others["fc.bias"] += 1  # by results as written with these, it's the same
            with safe_open(folder / "weights.safetensors", framework="pt") as file:
                meta = file.metadata()
            save_file(others, folder / "weights.safetensors", meta)
            with pytest.raises(fairhand.VerificationError, match="other calls than"):
                verify_all_inputs(folder, tmp_path / "net.onnx")
            save_file(kept, folder / "weights.safetensors", meta)
        elif i == 1:
            with pytest.raises(fairhand.VerificationError, match="not decided of"):
                again()
        if said:
            with pytest.raises(fairhand.VerificationError, match=said):
                again(by_results=True)
        else:
            assert any("results as written" in line for line in again(by_results=True))


def test_a_long_loop_is_followed_at_one_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where sizes are numbers, each of them takes as long again."""
    right = emitted(looped(), folder, monkeypatch)
    real = compare_module._attempt

    def numbers_alone(request: Any, sizes: Any, symbolic: bool) -> dict[str, Any]:
        if symbolic:
            raise ValueError("symbols don't do")
        return real(request, sizes, symbolic)

    monkeypatch.setattr(compare_module, "_attempt", numbers_alone)
    assert len(verdict(folder, right)["sizes"]) > 1
    monkeypatch.setattr(compare_module, "_MOST_CALLS", 1)
    assert len(verdict(folder, right)["sizes"]) == 1


def test_what_data_decide_is_followed_at_one_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More ways than are followed there are at any other size, too."""
    right = emitted(onnx.load(EXAMPLES / "page_rank.onnx"), folder, monkeypatch)
    tried = list[Any]()

    def attempt(*given: Any, **named: Any) -> dict[str, Any]:
        tried.append(given)
        return _attempt(*given, **named)

    monkeypatch.setattr("fairhand.codegen.validate.compare._attempt", attempt)
    found = verdict(folder, right)
    assert found["validated"] and len(found["where"]) == len(tried) == 1


def test_results_are_compared_where_one_input_alone_is_another(tmp_path: Path) -> None:
    """An index may be no number below 0, a mask beside it may."""
    net = """net (int64[n] x, int64[n, 1] mask) => (float[n, 2] y)
        <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
        rows = Gather (w, x) m = Cast <to = 9> (mask) f = Cast <to = 1> (m)
        y = Mul (rows, f) }"""
    onnx.save(parsed(net), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    assert "mask.bool()" in text
    path.write_text(text.replace("mask.bool()", "(mask > 0)"), "utf-8")
    with pytest.raises(fairhand.VerificationError, match="below 0, input 2 alone"):
        verify_all_inputs(folder, None)


@pytest.mark.parametrize("rows", ["pq", "rs"])
def test_inputs_and_outputs_go_by_their_names(rows: str, tmp_path: Path) -> None:
    net = "net (float[n] p, float[n] q) => (float[n] r, float[n] s)"
    onnx.save(parsed(net + " { r = Sub (p, q) s = Relu (p) }"), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    text = path.read_text("utf-8")
    one, other = (f'    "{name}": ("float32", ("n",)),\n' for name in rows)
    assert one + other in text
    path.write_text(text.replace(one + other, other + one), "utf-8")
    with pytest.raises(fairhand.VerificationError, match="other calls"):
        verify_all_inputs(folder, tmp_path / "net.onnx")
    with pytest.raises(fairhand.VerificationError, match="something else than as"):
        verify_again(folder, tmp_path / "net.onnx", None, 1, by_results=True)


@pytest.mark.parametrize("call", ["F.silu(", "F.no_such_function("])
def test_an_edit_is_named_where_a_package_no_longer_verifies(
    tmp_path: Path, call: str
) -> None:
    onnx.save(residual(), tmp_path / "net.onnx")
    folder = tmp_path / "out" / tmp_path.name
    fairhand.compile(tmp_path / "net.onnx", folder, verify=False, cache=False)
    path = folder / "model.py"
    lines = path.read_text("utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if "F.relu(" in line)
    lines[at] = lines[at].replace("F.relu(", call)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    with pytest.raises(fairhand.VerificationError) as caught:
        verify_again(folder, tmp_path / "net.onnx", None, 1)
    assert f"edited: model.py, line {at + 1}\n" in str(caught.value)
    assert "report" not in str(caught.value)


def test_the_compile_cache_keeps_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for or not before, the package is the same to the byte."""
    monkeypatch.setenv("FAIRHAND_CACHE", str(tmp_path / "cache"))
    asked = (False, True, True, False)
    made = [
        fairhand.compile(looped(), tmp_path / str(i) / "net", verify=verify)
        for i, verify in enumerate(asked)
    ]
    assert [each.cached for each in made] == [False, False, True, True]
    one, two, three, four = (contents(tmp_path / str(i) / "net") for i in range(4))
    assert two == three and one == four


MAY_BE_ABSENT = """net (optional(float[n, 4]) x, float[n, 4] z) => (float[n, 4] y) {
    has = OptionalHasElement (x)
    y = If (has) <
        then_branch = then () => (float[n, 4] a) {
            held = OptionalGetElement (x)  a = Relu (held) },
        else_branch = other () => (float[n, 4] b) { b = Neg (z) }> }"""


def test_what_is_done_without_an_optional_input_is_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = emitted(parsed(MAY_BE_ABSENT), folder, monkeypatch)
    page = folder / "model.py"
    text = page.read_text("utf-8")
    page.write_text(text.replace("y = -z", "y = z"), "utf-8")
    assert verdict(folder, right)["differs"]["wants"] == "aten.neg.default"


def test_an_input_that_is_a_list_is_validated_for_so_many_items(
    tmp_path: Path,
) -> None:
    net = """net (seq(float[n, 4]) x) => (float[m, 4] y)
        { y = ConcatFromSequence <axis = 0> (x) }"""
    found = fairhand.compile(parsed(net), tmp_path / "net", cache=False)
    assert found.report["emission"]["where"] == ["x has 3 items"]


def test_a_part_that_data_say_is_followed_for_all_sizes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = """net (float[b, t] x, int64[1] from, int64[1] to) => (float[b, n] y)
        <int64[1] axis = {1}> { y = Slice (x, from, to, axis) }"""
    right = emitted(parsed(net), folder, monkeypatch)
    found = verdict(folder, right)
    assert found["sizes"] == "all" and not found["where"], found
    page = folder / "model.py"
    text = page.read_text("utf-8")
    page.write_text(re.sub(r"(\w+)\[0\] : \w+\[0\]", r"\1[0] : \1[0]", text), "utf-8")
    sys.modules.pop(f"{module_name(str(folder))}.model")
    assert "differs" in verdict(folder, right)


def test_of_a_loop_with_many_ways_two_sizes_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search over ngrams took a minute and a half: 24 ways at each of five sizes."""
    (tmp_path / "__init__.py").touch()
    (tmp_path / "model.py").write_text("INPUTS = {}\nOUTPUTS = {}\n")

    def attempt(*_: object, symbolic: bool) -> dict[str, object]:
        if symbolic:
            raise ValueError("no symbols")
        return {"calls": 40, "where": ["data take one of 24 ways"]}

    monkeypatch.setattr(compare_module, "_attempt", attempt)
    tries = [{"n": size} for size in range(5)]
    request = {"package": str(tmp_path), "reference": {"tries": tries}}
    assert compare_module.compare(request)["sizes"] == tries[:2]
