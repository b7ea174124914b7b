"""Structure: switches, lists of pairs, growing lists, faithful members; same numbers.

Every model is compiled with verification, so that none of this is wrong code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper
from support.emitted import imported
from support.emitter_models import Emitted, Graph
from support.golden_images import IMAGES, densenet, faithful_cnn, resnet
from support.golden_sequences import HALF, SEQUENCES, encoder, rotated
from support.networks import looped, residual
from support.traced import Traced, stripped

import fairhand
from fairhand.analysis.ops.module_form import ModuleForm, Weight
from fairhand.codegen import pipeline
from fairhand.codegen.emit.package_files import read_report
from fairhand.codegen.ir.assignment import Scope
from fairhand.codegen.ir.cache_arguments import find_families
from fairhand.codegen.load.read_model import load
from fairhand.codegen.modules import module_tree
from fairhand.codegen.statements import group_by_scope
from fairhand.codegen.statements.module_scopes import FileNames, form_path

torch.set_num_threads(1)
Emit = Callable[[onnx.ModelProto], Emitted]

# ---- variants


def chained(*bodies: Callable[[Traced, str, int], str]) -> onnx.ModelProto:
    """Calls of one original class, each with a body of its own."""
    g = Traced(x=["batch", 8])
    x = "x"
    for i, body in enumerate(bodies):
        with g.module(f"blocks.{i}", "Block"):
            x = body(g, x, i)
    return g.model(y=x)


def plain(g: Traced, x: str, _: int) -> str:
    return g.fc(g("Relu", g.fc(x, "fc1", 8, 8)), "fc2", 8, 8)


def added(g: Traced, x: str, i: int) -> str:
    return str(g("Add", x, plain(g, x, i)))


def normed(g: Traced, x: str, _: int) -> str:
    y = g("Relu", g.layer_norm(g.fc(x, "fc1", 8, 8), "norm", 8))
    return g.fc(y, "fc2", 8, 8)


def gated(g: Traced, x: str, i: int) -> str:
    y = g.layer_norm(g.fc(x, "gate", 8, 8), "norm", 8)
    return str(g("Mul", plain(g, x, i), g("Sigmoid", y)))


def test_a_sum_that_some_leave_out_is_a_flag(emitted: Emit) -> None:
    found = emitted(chained(added, plain, added))
    assert found.classes == ["Block", "Net"]
    assert "def __init__(self, residual: bool = True):" in found.source("Block")
    assert "Block(), Block(residual=False), Block()" in found.source()
    assert found.body("Block")[-1].endswith(" if self.residual else out")


def test_layers_that_turn_no_queries_are_given_the_angles_too(tmp_path: Path) -> None:
    """As every fourth of SmolLM3's: one class with a flag, and one loop."""
    sizes = ["batch", 1, "seq", 4]
    g = Traced(x=["batch", "seq", 16], cos=sizes, sin=sizes)
    x = "x"
    for i in range(4):
        with g.module(f"layers.{i}", "Layer"):
            with g.module("attn", "Attention"):
                q, k, v = (
                    g.split_heads(g.fc(x, f"{n}_proj", 16, 16, False), 4, 4)
                    for n in "qkv"
                )
                q, k = (q, k) if i == 2 else (rotated(g, q), rotated(g, k))
                y = g.fc(g.join_heads(g.attend(q, k, v, HALF), 16), "out", 16, 16)
            x = g("Add", x, y)
    compiled(g.model(y=x), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert re.findall(r"^class (\w+)", text, re.M) == ["Attention", "Layer", "Net"]
    assert "Layer(with_rotary=False)" in text
    assert "apply_rotary(k, cos, sin) if self.with_rotary else k" in text
    loop = "for layer in self.layers:\n            x = layer(x, cos, sin)"
    assert loop in text


def test_a_sum_and_an_activation_are_told_by_one_class(emitted: Emit) -> None:
    """Blocks with the sum have two activations, the one without it has one of them."""

    def varied(op: str, residual: bool) -> Callable[[Traced, str, int], str]:
        def body(g: Traced, x: str, _: int) -> str:
            y = g.fc(g(op, g.fc(x, "fc1", 8, 8)), "fc2", 8, 8)
            return str(g("Add", y, x)) if residual else y

        return body

    kinds = (("Relu", True), ("Tanh", False), ("Tanh", True))
    found = emitted(chained(*(varied(*kind) for kind in kinds)))
    assert found.classes == ["Block", "Net"]
    assert "residual=False" in found.source()


def test_a_sum_behind_a_module_is_a_flag(emitted: Emit) -> None:
    """What the module makes is the block's result where the sum is left out."""

    def inner(g: Traced, x: str) -> str:
        y = str(g("Tanh", g.fc(x, "first", 8, 8)))
        with g.module("last", "Last"):
            return plain(g, y, 0)

    found = emitted(
        chained(
            lambda g, x, i: inner(g, x),
            lambda g, x, i: str(g("Add", inner(g, x), x)),
            lambda g, x, i: str(g("Add", inner(g, x), x)),
        )
    )
    assert found.classes == ["Last", "Block", "Net"]
    assert "Block(residual=False), Block(), Block()" in found.source()


def test_a_result_that_has_no_name_is_returned(emitted: Emit) -> None:
    def rows(g: Traced, x: str, i: int) -> str:
        y = str(g("Tanh", g.fc(x, "steps.0", 8, 8)))
        z = g.fc(g("Relu", g.fc(y, "steps.1", 8, 8)), "steps.2", 8, 8)
        with g.module("steps.3", "Step"):
            return plain(g, g("Exp", z), i)

    assert emitted(chained(rows, rows)).body("Block")[-1] == "return self.steps[3](x)"


def test_a_layer_that_some_lack_is_an_identity(emitted: Emit) -> None:
    found = emitted(chained(plain, normed, plain, plain))
    assert found.classes == ["Block", "Net"]
    block = found.source("Block")
    assert "def __init__(self, norm: bool = False):" in block
    assert "self.norm = nn.LayerNorm(8) if norm else nn.Identity()" in block
    assert "Block(), Block(norm=True), Block(), Block()" in found.source()
    assert "blocks.1.norm.weight" in found.weights
    assert "blocks.0.norm.weight" not in found.weights


def test_a_module_that_some_lack_is_an_identity(emitted: Emit) -> None:
    """As the gate of MobileNet's blocks; some lack the sum as well."""

    def varied(gate: bool, residual: bool) -> Callable[[Traced, str, int], str]:
        def body(g: Traced, x: str, _: int) -> str:
            y = g("Relu", g.fc(x, "fc1", 8, 8))
            if gate:
                with g.module("se", "Gate"):
                    y = g("Mul", y, g("Sigmoid", g.fc(y, "fc", 8, 8)))
            y = g.fc(y, "fc2", 8, 8)
            return str(g("Add", y, x)) if residual else y

        return body

    kinds = [(False, False), (True, True), (True, False), (False, True)]
    found = emitted(chained(*(varied(*kind) for kind in kinds)))
    assert found.classes == ["Gate", "Block", "Net"]
    assert "self.se = Gate() if se else nn.Identity()" in found.source("Block")
    assert re.findall(r"Block\((\w.*?)\)", found.source()) == [
        "se=True, residual=True",
        "se=True",
        "residual=True",
    ]
    assert [key for key in found.weights if ".se." in key and "bias" in key] == [
        "blocks.1.se.fc.bias",
        "blocks.2.se.fc.bias",
    ]


def test_a_stage_of_one_block_is_the_list_that_the_others_are(emitted: Emit) -> None:
    g = Traced(x=["batch", 8])
    x = "x"
    for i, bodies in enumerate(((normed, plain), (plain, normed), (plain,))):
        with g.module(f"stages.{i}", "Sequential"):
            for n, body in enumerate(bodies):
                with g.module(str(n), "Block"):
                    x = body(g, x, n)
    found = emitted(g.model(y=x))
    assert found.classes == ["Block", "Net"]
    assert "stages.2.0.fc1.weight" in found.weights


def test_blocks_that_lack_one_layer_and_others_that_lack_another(emitted: Emit) -> None:
    """As the first block of a RegNet has no norm, and later ones no projection."""

    g, x = Traced(x=["batch", 8]), "x"
    for i, (norm, project) in enumerate(
        ((False, True), (True, False), (True, True), (True, False))
    ):
        with g.module(f"blocks.{i}", "Block"):
            y = g.layer_norm(x, "norm", 8) if norm else x
            y = g("Relu", y)
            out = g.fc(g("Relu", g.fc(y, "fc1", 8, 8)), "fc2", 8, 8)
            x = g("Add", out, g.fc(y, "project", 8, 8) if project else y)
    found = emitted(g.model(y=x))
    assert found.classes == ["Block", "Net"]
    assert "norm else nn.Identity()" in found.text
    assert "project else nn.Identity()" in found.text


def test_a_class_with_a_flag_is_one_however_wide(emitted: Emit) -> None:
    """None of its parts would need the flag."""

    def varied(
        sizes: tuple[int, ...], residual: bool
    ) -> Callable[[Traced, str, int], str]:
        def body(g: Traced, x: str, _: int) -> str:
            y, wide = x, 8
            for name, size in zip("abcdefghi", (*sizes, 8), strict=True):
                y = str(g("Relu", g.fc(y, name, wide, size)))
                wide = size
            return str(g("Add", x, y)) if residual else y

        return body

    a, b = (2, 3, 4, 5, 6, 7, 9, 10), (3, 2, 5, 4, 7, 6, 10, 9)
    found = emitted(chained(*(varied(s, s == a) for s in (a, a, b, b))))
    assert found.classes == ["Block", "Net"]
    assert "x + out if self.residual else out" in found.text


@pytest.mark.parametrize("again", [False, True])
def test_a_result_that_others_drop(again: bool, emitted: Emit) -> None:
    """Not those of a module that is called once more."""
    g, ends = Traced(x=["batch", 8]), {"y": "x"}
    for i in (0, 1, 2, *([0] if again else [])):
        with g.module(f"blocks.{i}", "Block"):
            early = g("Relu", g.fc(ends["y"], "fc1", 8, 8))
            ends["y"] = g.fc(early, "fc2", 8, 8)
        ends |= {"z": early} if i == 2 else {}
    found = emitted(g.model(**ends))
    last = ["LastBlock"] if again else []
    assert found.classes == ["Block", *last, "Net"]
    assert again or found.body()[-3:-1] == [
        "for block in self.blocks:",
        "y, x = block(x)",
    ]


def test_each_of_several_results_goes_on_with_one_of_its_kind(emitted: Emit) -> None:
    """As image and class token of a pooling transformer, told by their ranks."""
    g, x, y = Traced(x=["batch", 6, 8], y=["batch", 8]), "x", "y"
    for i, kind in enumerate(("Plain", "Deep")):
        with g.module(kind.lower(), kind):
            y = g("Add", y, g("ReduceMean", x, g.ints(1), keepdims=0))
            for k in range(1, 3 + 2 * i):
                y = g("Relu", g.fc(y, f"fc{k}", 8, 8))
            x = g("Add", x, g("Unsqueeze", y, g.ints(1)))
    found = emitted(g.model(z=g("Mul", g("ReduceMax", x, g.ints(1), keepdims=0), y)))
    assert found.body()[0] == "y, x = self.plain(x, y)"


def test_a_larger_difference_is_another_class(emitted: Emit) -> None:
    found = emitted(chained(plain, gated, plain))
    assert len(found.classes) == 3
    assert "bool" not in found.text and "Identity" not in found.text


def test_two_classes_of_one_name_say_where_they_stand(emitted: Emit) -> None:
    """As transformers' CLIP has: CLIPTextLayer beside CLIPVisionLayer."""
    g = Traced(x=["batch", 8])
    with g.module("vision_model.layers", "NetLayer"):
        x = plain(g, "x", 0)
    with g.module("text_model.layers", "NetLayer"):
        y = gated(g, "x", 0)
    with g.module("text_model.head", "NetLayer"):
        z = added(g, g("Tanh", y), 0)
    found = emitted(g.model(y=x, z=z))
    assert found.classes == ["NetLayer", "NetTextLayer", "NetHeadLayer", "Net"]


def test_what_layers_share_takes_nothing_out_of_other_modules(emitted: Emit) -> None:
    """As the sizes in Whisper's first layer, and its table of positions."""
    g = Traced(x=["batch", 8])
    with g.module("gate", "Gate"):
        gate = g("Mul", g("Tanh", g("Add", "x", g.param("a", 8))), g.param("b", 8))
    x, shared = "x", ""
    for i in range(2):
        with g.module(f"layers.{i}", "Layer"):
            shared = shared or g("Sigmoid", g("Neg", gate))
            x = added(g, g("Mul", x, shared), i)
    found = emitted(g.model(y=x))
    assert found.classes == ["Gate", "Layer", "Net"]


def test_what_one_layer_alone_makes_of_an_input_stands_before_the_row(
    emitted: Emit,
) -> None:
    """As the mask of the only layer that looks at everything."""
    g = Traced(x=["batch", 8], mask=["batch", 8])
    x, shared = "x", ""
    for i in range(4):
        with g.module(f"layers.{i}", "Layer"):
            shared = shared or g("Sigmoid", "mask")
            own = g("Sigmoid", g("Neg", "mask")) if i == 2 else shared
            x = added(g, g("Mul", x, own), i)
    found = emitted(g.model(y=x))
    assert found.classes == ["Layer", "Net"]


@pytest.mark.parametrize(
    ("kind", "holder", "made"),
    [
        ("router", "Router", "F.leaky_relu("),
        ("bias", "Bias", "torch.sigmoid(-mask)"),
    ],
)
def test_what_all_modules_of_a_kind_make_or_a_layer_takes_stays(
    kind: str, holder: str, made: str, emitted: Emit
) -> None:
    """As the table that each router fills, in the layers that have one, and what the
    first layer's embedding of relative places looks up."""
    g = Traced(x=["batch", 8], mask=["batch", 8])
    x = "x"
    for i in range(4):
        with g.module(f"layers.{i}", "Layer"):
            y = g("Tanh", g.fc(x, "fc", 8, 8))
            if kind == "router" and i % 2:
                with g.module("router", "Router"):
                    own = g("LeakyRelu", "mask", alpha=i / 4)
                    y = g("Mul", g.fc(y, "gate", 8, 8), own)
            elif kind == "bias" and not i:
                with g.module("bias", "Bias"):
                    y = g("Mul", y, g.fc(g("Sigmoid", g("Neg", "mask")), "table", 8, 8))
            x = g("Add", x, y)
    found = emitted(g.model(y=x))
    assert made in found.source(holder)


@pytest.mark.parametrize("masks", ["a8 b4 b4", "a8 b8 c8 b8"])
@pytest.mark.parametrize("kind", ["Layer", ""])
def test_constants_of_several_sizes_are_each_modules_own(
    emitted: Emit, masks: str, kind: str
) -> None:
    """Masks of windows, of which an exporter makes equal ones one; or of the halves
    that a flow keeps. TorchScript doesn't name the class."""
    g = Traced(x=["batch", 8])
    x, before = "x", 8
    for i, mask in enumerate(masks.split()):
        size, first = int(mask[1]), ord(mask[0])
        numbers = np.arange(first, first + size, dtype="f")
        named = g.weight(
            f"mask_{first * size}", value=numbers
        )  # numbered: no program's
        with g.module(f"layers.{i}", kind):
            y = g("Sigmoid", g.fc(x, "fc", before, size))
            x, before = g("Mul", y, named), size
    found = emitted(g.model(y=x))
    assert found.classes == ["Layer", "Net"]
    assert found.body()[-2:] == ["x = layer(x)", "return x"]


def test_shapes_of_two_modules_stay_two(emitted: Emit) -> None:
    """A block ends with the shape of an image, and the next stage takes it apart."""
    g = Traced(x=[2, 4, 4, 8])
    x = "x"
    for i in range(3):
        with g.module(f"blocks.{i}", "Block"):
            flat = g("Reshape", g.fc(x, "fc", 8, 8), g.ints(2, 16, 8))
            x = g("Reshape", g("Softmax", flat, axis=1), g.ints(2, 4, 4, 8))
    with g.module("merge", "Merge"):
        x = g("Reshape", x, g.ints(2, 2, 2, 2, 2, 8))
        x = g.fc(g("Transpose", x, perm=[0, 1, 3, 2, 4, 5]), "fc", 8, 8)
    assert emitted(g.model(y=x)).classes == ["Block", "Merge", "Net"]


def test_a_module_without_layers_amid_another_divides_it_not(emitted: Emit) -> None:
    """A quantiser sorts nodes anew: what counts a mask then stands in a first layer."""
    g = Traced(x=[2, 8], mask=[2, 3])
    x, counts = "x", ""
    for i in range(3):
        with g.module(f"layers.{i}", "Layer"):
            y = g.layer_norm(x, "norm", 8)
        if not counts:
            with g.module("counting", "Counting"), g.module("counting.sum", "Sum"):
                counts = g("Neg", g("ReduceSum", "mask", g.ints(1), keepdims=1))
        with g.module(f"layers.{i}", "Layer"):
            x = g("Add", x, g("Mul", g.fc(y, "fc", 8, 8), counts))
    found = emitted(g.model(y=x))
    assert found.body()[-3:] == [
        "for layer in self.layers:",
        "x = layer(x, y)",
        "return x",
    ]


def test_what_takes_all_parts_is_given_the_whole(emitted: Emit) -> None:
    """PyTorch's exporter doesn't say where a Split stands that it makes itself."""
    g = Traced(x=["batch", 8])
    x = g.layer_norm("x", "norm", 8)
    with g.module("attn", "Attn"):
        a, b = g("Split", x, axis=-1, num_outputs=2, outputs=2)
        y = g.fc(g("Add", g.fc(a, "fc1", 4, 4), b), "fc2", 4, 8)
    model = g.model(y=g("Add", x, y))
    split = next(node for node in model.graph.node if node.op_type == "Split")
    del split.metadata_props[:]
    found = emitted(model)
    assert found.body("Attn")[0] == "first, second = x.chunk(2, dim=1)"


def test_two_original_classes_stay_two(emitted: Emit) -> None:
    g = Traced(x=["batch", 8])
    with g.module("first", "Plain"):
        x = plain(g, "x", 0)
    with g.module("second", "Added"):
        x = added(g, x, 1)
    found = emitted(g.model(y=x))
    assert found.classes == ["Plain", "Added", "Net"]


def test_at_most_two_switches(emitted: Emit) -> None:
    def varied(*present: bool) -> Callable[[Traced, str, int], str]:
        def body(g: Traced, x: str, _: int) -> str:
            y = g.fc(x, "fc1", 8, 8)
            for name, there in zip(("a", "b", "c"), present, strict=True):
                y = g.layer_norm(y, name, 8) if there else y
                y = str(g("Relu" if name == "a" else "Tanh", y))
            return g.fc(y, "fc2", 8, 8)

        return body

    found = emitted(
        chained(
            varied(True, True, True),
            varied(False, True, True),
            varied(False, False, True),
            varied(False, False, False),
        )
    )
    switches = re.findall(r"(\w+): bool", found.text)
    assert 1 <= len(switches) <= 2 and len(found.classes) == 3


def test_a_matrix_that_a_norm_became_part_of_keeps_its_name() -> None:
    """As in MobileBERT, whose exporter loses the names of the matrices."""
    bias = ir.Value(name="val_3")
    bias.meta["folded_from"] = ("out.LayerNorm.bias", "out.dense.bias")
    for layer, path in (("nn.Linear", "out.dense"), ("nn.LayerNorm", "out.LayerNorm")):
        form = ModuleForm(layer, (8, 4), {}, {"bias": Weight(bias)}, (), ())
        assert form_path(form, (Scope("out"),)) == path


# ---- families


def families(*names: str, shapes: dict[str, list[Any]] | None = None) -> list[str]:
    """The arguments that these inputs become, one for each that stays flat left out."""
    plain = ["batch", 2, "past", 4]
    given = {name: (shapes or {}).get(name, plain) for name in names}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", [n], [f"r{i}"]) for i, n in enumerate(names)],
        "net",
        [onnx.helper.make_tensor_value_info(n, 1, given[n]) for n in names],
        [onnx.helper.make_tensor_value_info("r0", 1, None)],
    )
    opsets = [onnx.helper.make_opsetid("", 20)]
    model = load(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10))
    inputs: list[ir.Value] = list(model.model.graph.inputs)
    return [family.name for family in find_families(inputs)]


def test_layers_whose_names_are_lost_are_called_by_their_parts_of_attention(
    emitted: Emit,
) -> None:
    """Though it is written out, with a mask."""
    g = Traced(x=["batch", 5, 8], mask=[5, 5])
    with g.module("attn", "Attention"):
        q, k, v = (
            g.split_heads(g("MatMul", "x", g.weight(f"val_{i}", 8, 8)), 2, 4)
            for i in range(3)
        )
        y = g.join_heads(g.attend(q, k, v, HALF, "mask"), 8)
        y = g("MatMul", y, g.weight("val_3", 8, 8))
    source = emitted(g.model(y=y)).source("Attention")
    assert (
        re.findall(r"self.(\w+) = nn.Linear", source) == "query key value out".split()
    )


def test_pairs_in_order_are_a_family() -> None:
    assert families("past_k0", "past_v0", "past_k1", "past_v1") == ["past"]
    assert families("x", "past_k0", "past_v0", "past_k1", "past_v1", "y") == ["past"]
    assert families("cache0", "cache1", "cache2") == ["cache"]
    dotted = [f"past_key_values.{i}.{n}" for i in range(2) for n in ("key", "value")]
    assert families(*dotted) == ["past"]
    assert families("x", "past_k0", "past_k1", "past_v0", "past_v1") == ["past"]


def test_names_as_transformers_exports_have_them(emitted: Emit) -> None:
    names = [f"past_key_values.{i}.{n}" for i in range(2) for n in ("key", "value")]
    g = Traced(x=["batch", 1, 8], **{name: ["batch", "past", 8] for name in names})
    x, present = "x", {}
    for i in range(2):
        with g.module(f"layers.{i}", "Layer"):
            for n in ("key", "value"):
                y = g.fc(x, n, 8, 8)
                y = g("Concat", f"past_key_values.{i}.{n}", y, axis=1)
                present[f"present.{i}.{n}"] = y
                x = g("Add", x, g("ReduceMean", y, g.ints(1)))
    found = emitted(g.model(states=x, **present))
    rows = '(f"past_key_values.{i}.key", f"past_key_values.{i}.value")'
    assert f'"past": [\n        {rows} for i in range(2)\n    ],' in found.text
    head = "for layer, (past_key, past_value) in zip(self.layers, past, strict=True):"
    assert found.body()[1] == head


@pytest.mark.parametrize(
    ("norm", "layer", "told"),
    [
        ("bn", "a", True),
        ("bns.0", "convs.0", True),
        ("bns.0", "convs.1", False),
        ("one.bn", "other.conv", False),
    ],
)
def test_a_layer_that_an_exporter_joined_with_its_norm_keeps_its_name(
    norm: str, layer: str, told: bool
) -> None:
    """torch's newer exporter leaves the convolution in the scope of the norm."""
    convolution = onnx.helper.make_node(
        "Conv", ["x", f"{layer}.weight", f"{layer}.weight_bias"], ["y"]
    )
    for key, value in (
        ("name_scopes", f"['', '{norm}', 'conv2d']"),
        ("class_hierarchy", "['Net', 'torch.nn.BatchNorm2d', 'aten.conv2d.default']"),
    ):
        entry = convolution.metadata_props.add()
        entry.key, entry.value = f"pkg.torch.onnx.{key}", value
    weights = {f"{layer}.weight": (4, 3, 1, 1), f"{layer}.weight_bias": (4,)}
    graph = onnx.helper.make_graph(
        [convolution],
        "net",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 3, 5, 5])],
        [onnx.helper.make_tensor_value_info("y", 1, [1, 4, 5, 5])],
        [
            onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)
            for name, shape in weights.items()
        ],
    )
    model = load(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10
        )
    ).model
    (node,) = (n for n in model.graph if n.op_type == "Conv")
    scopes = FileNames(model).scopes(node)
    path = layer if told else norm
    assert scopes is not None and [scope.path for scope in scopes] == [path]


def test_all_keys_before_all_values_and_a_norm_that_ends_the_layers(
    emitted: Emit,
) -> None:
    """As the builder of onnxruntime-genai writes decoders."""
    parts, layers = ("key", "value"), range(3)
    names = [f"past_key_values.{i}.{n}" for n in parts for i in layers]
    g = Traced(x=["batch", 1, 8], **{name: ["batch", "past", 8] for name in names})
    x, made = "x", {}
    for i in layers:
        with g.module(f"layers.{i}", "Layer"):
            for n in parts:
                y = g.fc(x, n, 8, 8)
                y = g("Concat", f"past_key_values.{i}.{n}", y, axis=1)
                made[i, n] = y
                x = g("Add", x, g("ReduceMean", y, g.ints(1)))
    with g.module("layers.3", "Norm"):
        x = g("LayerNormalization", x, g.weight("scale", 8), g.weight("shift", 8))
    present = {f"present.{i}.{n}": made[i, n] for n in parts for i in layers}
    found = emitted(g.model(states=x, **present))
    table = found.text[found.text.index("INPUTS = ") : found.text.index("OUTPUTS = ")]
    assert 'for part in ("key", "value")\n        for i in range(3)' in table
    head = (
        "for layer, (past_key, past_value) in zip(self.layers[:3], past, strict=True):"
    )
    assert head in found.body()
    assert "*(Layer() for _ in range(3))" in found.text


def test_files_made_of_lists_keep_the_order_of_inputs_and_outputs(
    emitted: Emit, tmp_path: Path
) -> None:
    """All keys before all values, and an input behind them."""
    names = [f"past.{i}.{n}" for n in ("key", "value") for i in range(3)]
    sizes: dict[str, Any] = {name: ["batch", "past", 8] for name in names}
    g = Traced(x=["batch", 1, 8], **sizes, shift=[8])
    x, present = "x", {}
    for i in range(3):
        with g.module(f"layers.{i}", "Layer"):
            for n in ("key", "value"):
                y = g("Concat", f"past.{i}.{n}", g.fc(x, n, 8, 8), axis=1)
                present[f"present.{i}.{n}"] = y
                x = g("Add", x, g("ReduceMean", y, g.ints(1)))
    ordered = {n: present[n] for n in (n.replace("past", "present") for n in names)}
    model = g.model(states=g("Add", x, "shift"), **ordered)
    found = emitted(model)
    again = onnx.load(
        fairhand.export(found.folder, None, tmp_path / "again.onnx").path
    ).graph
    for now, was in (
        (again.input, model.graph.input),
        (again.output, model.graph.output),
    ):
        assert [value.name for value in now] == [value.name for value in was]


@pytest.mark.parametrize(
    "names",
    [
        ["past_k0", "past_v0"],  # one layer
        ["past_k0", "past_v0", "past_k2", "past_v2"],  # a gap
        ["past_k1", "past_v1", "past_k2", "past_v2"],  # counts from 1
        ["past_k00", "past_v00", "past_k01", "past_v01"],
        ["past_k1", "past_v1", "past_k0", "past_v0"],
        ["image0", "image1"],  # no cache
        ["past'k0", "past'v0", "past'k1", "past'v1"],
        ['past"k0', 'past"v0', 'past"k1', 'past"v1'],
        ["past{x}k0", "past{x}v0", "past{x}k1", "past{x}v1"],
        ["past\\k0", "past\\v0", "past\\k1", "past\\v1"],
        ["past\nk0", "past\nv0", "past\nk1", "past\nv1"],
        ["past k0", "past v0", "past k1", "past v1"],
        [f"past_{n}{digit}" for digit in "\u0660\u0661" for n in "kv"],  # Arabic
    ],
)
def test_others_stay_flat(names: list[str]) -> None:
    assert families(*names) == []


def test_members_of_other_shapes_or_between_others_are_pairs_too(
    emitted: Emit,
) -> None:
    """Windows in some layers, a state of some between them, keys of an encoder."""
    names = ["past_k0", "past_v0", "x", "past_k1", "past_v1"]
    assert families(*names) == ["past"]
    for other in ("past_k1", "past_v1"):
        assert families(*names, shapes={other: ["batch", 2, "other", 8]}) == ["past"]

    def tables(**sizes: list[str | int]) -> str:
        g = Graph(x=["batch", 1, 8], **sizes)
        made = {n.replace("past", "present"): g("Neg", n) for n in sizes}
        parts = [g("ReduceSum", v, g.ints(1), keepdims=1) for v in made.values()]
        found = emitted(g.model(states=g("Sum", "x", *parts), **made))
        assert "past: list[tuple[" in found.text
        return found.text

    def kinds(i: int) -> dict[str, list[str | int]]:
        sizes = {"own.key": "past", "own.value": "past", "other.key": "source"}
        return {f"past.{i}.{n}": ["batch", size, 8] for n, size in sizes.items()}

    text = tables(**kinds(0), **kinds(1))
    assert "for part, told in (" in text
    assert text.count('"source", 8)') == 2  # of what is given, and of what is returned
    text = tables(**kinds(0), **{"past.0.length": ["batch", 1, 8]}, **kinds(1))
    assert "for part" not in text
    assert "past_0_length: Tensor" in text


def test_sizes_may_be_named_after_their_tensors(emitted: Emit) -> None:
    """As torch.onnx's older exporter calls the sizes of outputs."""

    def text_of(suffix: str) -> str:
        past = {f"past_{n}{i}": ["batch", "past", 8] for i in range(2) for n in "kv"}
        g = Graph(x=["batch", 1, 8], **past)
        made = {n.replace("past", "present"): g("Concat", n, "x", axis=1) for n in past}
        model = g.model(**made)
        for output in model.graph.output:
            size = output.type.tensor_type.shape.dim[1]
            size.dim_param = f"of_{output.name}{suffix}"
        return emitted(model).text.replace("'", '"')

    text = text_of("_dim_1")
    assert '("batch", f"of_present_{part}{i}_dim_1", 8)' in re.sub(r"\s+", " ", text)
    hostile = text_of("{1/0}")
    assert 'f"of_' not in hostile and '"of_present_k0{1/0}"' in hostile


def test_hostile_names_of_pairs_are_emitted_flat(emitted: Emit) -> None:
    names = ['past_{1/0}"k0', 'past_{1/0}"v0', 'past_{1/0}"k1', 'past_{1/0}"v1']
    g = Graph(**{name: ["batch", 4] for name in names})
    found = emitted(g.model(y=g("Sum", *names)))
    assert "NESTED" not in found.text and 'f"' not in found.text.partition("def ")[0]
    assert list(inspect.signature(found.module.Model.forward).parameters)[1:]


def test_a_cache_of_unlike_layers(emitted: Emit) -> None:
    """One loop calls several classes; without a loop the pairs are taken apart."""
    past = {f"past_{n}{i}": ["batch", "past", 8] for i in range(2) for n in "kv"}
    for loops in (True, False):
        g = Traced(x=["batch", "seq", 8], **past)
        x, present = "x", {}
        for i, act in enumerate(("Relu", "Tanh")):
            with g.module(f"layers.{i}", f"Layer{act}"):
                y = g(act, g.fc(x, "fc1", 8, 8))
                k = present[f"present_k{i}"] = g("Concat", f"past_k{i}", y, axis=1)
                y = g.fc(y, "fc2", 8, 8)
                v = present[f"present_v{i}"] = g("Concat", f"past_v{i}", y, axis=1)
                y = g("MatMul", y, g("Transpose", k, perm=[0, 2, 1]))
                x = g("Add", x, g("MatMul", y, v))
            if not loops and i == 0:
                x = g.layer_norm(x, "between", 8)
        found = emitted(g.model(states=x, **present))
        assert found.classes == ["LayerRelu", "LayerTanh", "Net"]
        taken = "past_k: Tensor, past_v: Tensor"
        assert taken in found.source("LayerTanh")
        head = "for layer, (past_k, past_v) in zip(self.layers, past, strict=True):"
        assert (head in found.body()) == loops


# ---- loops and growing lists


def test_what_a_loop_began_with_is_kept_for_what_reads_it_later(emitted: Emit) -> None:
    for before in (True, False):
        g = Traced(x=["batch", 8])
        y = x = "x"
        if before:
            y = g.fc(y, "first", 8, 8)
        for i in range(3):
            y = g.relu(g.fc(y, f"branch.{i}", 8, 8), f"branch.act{i}")
        side = g("Tanh", g.fc(x, "side", 8, 8))
        found = emitted(g.model(y=g("Add", g("Mul", y, side), x)))
        assert any(line.startswith("for ") for line in found.body())


@pytest.mark.parametrize("again", [False, True])
def test_a_loop_may_begin_with_a_parameter(again: bool, emitted: Emit) -> None:
    g = Traced(memory=["batch", 8])
    x = start = g.weight("queries.weight", 1, 8)
    for i in range(4):
        x = g("Add", x, g("Tanh", g.fc("memory", f"fcs.{i}", 8, 8)))
    found = emitted(g.model(y=g("Mul", x, start) if again else x))
    assert any(line.startswith("for ") for line in found.body())


def dense(read_again: bool, layer: str = "layer") -> onnx.ModelProto:
    g = Traced(image=["batch", 4, 4, 4])
    maps = ["image"]
    with g.module("block", "DenseBlock"):
        for i in range(4):
            with g.module(f"{layer}{i + (layer == 'layer')}", "DenseLayer"):
                x = g("Concat", *maps, axis=1) if i else "image"
                x = g.relu(g.conv2d(x, "conv1", (4 * i + 4, 8, 1)))
                maps.append(g.conv2d(x, "conv2", (8, 4, 3)))
        y = g("Concat", *maps, axis=1)
    extra = {"extra": g("Relu", maps[2])} if read_again else {}
    return g.model(y=g("Relu", y), **extra)


@pytest.mark.parametrize(
    ("layer", "over"), [("layer", "self.children()"), ("layers.", "self.layers")]
)
def test_a_list_that_grows(layer: str, over: str, emitted: Emit) -> None:
    found = emitted(dense(False, layer))
    assert found.body("DenseBlock") == [
        "features = [image]",
        f"for layer in {over}:",
        "features.append(layer(torch.cat(features, dim=1)))",
        "return torch.cat(features, dim=1)",
    ]
    last = "3" if layer == "layers." else "4"
    assert f"block.{layer}{last}.conv2.weight" in found.weights


@pytest.mark.parametrize("strip", [False, True], ids=["named", "stripped"])
def test_lists_that_grow_to_any_depth_are_one_class(strip: bool, tmp_path) -> None:
    model = densenet((3, 5))
    compiled(stripped(model) if strip else model, tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert text.count("for i in range(depth)") == text.count("features = [x]") == 1


def test_no_growing_list_where_a_map_is_read_elsewhere(emitted: Emit) -> None:
    assert "features" not in emitted(dense(True)).text


# ---- -O0, -O1, -O2


def compiled(model: onnx.ModelProto, folder: Path, **options: Any) -> dict[str, Any]:
    return dict(fairhand.compile(model, folder, **options).report)


def in_lists(second: int) -> onnx.ModelProto:
    """for attention, mlp in self.layers, the mlp at that number."""
    g, x = Traced(x=["batch", 8]), "x"
    for i in range(3):
        for number, kind in ((0, "Gate"), (second, "Mlp")):
            with g.module(f"layers.{i}.{number}", kind):
                y = g("Tanh" if number else "Sigmoid", g.fc(x, "fc", 8, 8))
                x = str(g("Add", x, g.fc(y, "net", 8, 8)))
    return g.model(y=x)


def test_rows_in_a_list_are_gone_through(tmp_path: Path) -> None:
    for second, loops in ((1, 1), (2, 0)):  # a row at -O0 has all of its numbers
        folder = tmp_path / str(second)
        compiled(in_lists(second), folder, level=0)
        text = (folder / "model.py").read_text()
        assert text.count("for layer in self.layers") == loops


_FILES = [resnet, faithful_cnn, looped, residual, densenet]


@pytest.mark.parametrize("make", [*_FILES, *(partial(in_lists, n) for n in (1, 2))])
def test_faithful_weights_are_the_files(make: Callable, tmp_path: Path) -> None:
    model = make()
    compiled(model, tmp_path / "net", verify=False, level=0)
    stored = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if "." in tensor.name
    }
    found = dict(imported(tmp_path / "net").load().state_dict())
    found = {n: t for n, t in found.items() if "num_batches_tracked" not in n}
    assert set(found) == set(stored)
    for name, tensor in found.items():
        assert tensor.numpy().tobytes() == stored[name].tobytes(), name


def test_levels_are_said(tmp_path: Path) -> None:
    counts = {}
    for level in (0, 1, 2):
        folder = tmp_path / f"net{level}"
        report = compiled(encoder(20, 1), folder, verify=False, level=level)
        head = (folder / "model.py").read_text().split('"""')[1]
        (line,) = (x for x in head.splitlines() if x.startswith("Rewrites "))
        assert f" -O{level}: " in line
        stored = read_report(folder)
        assert report["certificate"]["level"] == level == stored["certificate"]["level"]
        counts[level] = report["rewrites"]
    merges = [any("matmuls_merged" in rule for rule in counts[n]) for n in (1, 2)]
    assert merges == [False, True]


def test_three_layers_that_became_one_are_qkv(tmp_path: Path) -> None:
    """Also where the exporter lost the names of their matrices."""
    model = SEQUENCES["encoder_merged"]()
    lost = {w.name: f"val_{i}" for i, w in enumerate(model.graph.initializer)}
    lost = {name: new for name, new in lost.items() if name.endswith(".weight")}
    for weight in model.graph.initializer:
        weight.name = lost.get(weight.name, weight.name)
    for node in model.graph.node:
        node.input[:] = [lost.get(name, name) for name in node.input]
    compiled(model, tmp_path / "net", verify=False, level=2)
    text = (tmp_path / "net" / "model.py").read_text()
    assert "q, k, v = self.qkv(x).chunk(3, dim=-1)" in text


# ---- folded into classes, or not: the same bits


def flattened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "find_scopes", lambda steps: None)
    monkeypatch.setattr(group_by_scope, "_group", lambda steps, depth: list(steps))
    monkeypatch.setattr(module_tree, "enter_nested", lambda *_: None)


FOLDED = ["resnet", "inception", "densenet", "unet", "encoder_stripped", "experts"]
FOLDED += ["cached_decoder", "llama_layers", "inverted_residuals"]


@pytest.mark.parametrize("name", FOLDED)
def test_classes_and_loops_change_no_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = {**IMAGES, **SEQUENCES}[name]()
    compiled(model, tmp_path / "folded", verify=False)
    flattened(monkeypatch)
    report = compiled(model, tmp_path / "flat", verify=False)
    assert len(report["classes"]) == 1
    folded, flat = (imported(tmp_path / n).Session() for n in ("folded", "flat"))
    random = np.random.default_rng(0)
    sizes = {"batch": 2, "seq": 3, "past": 4}
    feeds = {
        arg.name: random.normal(size=[sizes.get(str(d), d) for d in arg.shape]).astype(
            np.float32
        )
        for arg in folded.get_inputs()
    }
    ours, theirs = folded.run(None, feeds), flat.run(None, feeds)
    assert [y.tobytes() for y in ours] == [y.tobytes() for y in theirs]
    assert [y.shape for y in ours] == [y.shape for y in theirs]


def test_what_the_modules_of_a_list_share_leaves_it_a_list(tmp_path: Path) -> None:
    """Its keys have numbers, and no nn.Sequential hands on more than one value."""
    g = Traced(x=["batch", 3000])
    x, shared = g("Tanh", "x"), g.ints(*range(2999, -1, -1))
    with g.module("layers", ""):
        for i in range(3):
            with g.module(f"{i}", "Layer"):
                y = g("Gather", g.layer_norm(x, "norm", 3000), shared, axis=1)
                x = str(g("Add", y, x))
    compiled(g.model(y=g("Tanh", x)), tmp_path / "net", level=0)
    text = (tmp_path / "net" / "model.py").read_text()
    assert "for layer in self.layers:\n            x = layer(x, self.indices)" in text
    keys = imported(tmp_path / "net").load().state_dict().keys()
    assert {"layers.0.norm.weight", "layers.2.norm.bias"} <= keys


# ---- untrusted names at -O0, where paths become keys


@pytest.mark.parametrize(
    "word", ['"]+[print(1)]#', "items", "type", "if", "²", "0" * 9, "a b", "'", "\\"]
)
def test_words_of_paths_reach_the_source_as_identifiers(
    word: str, tmp_path: Path
) -> None:
    g = Graph(x=["batch", 4])
    y = g.linear("x", f"net.{word}.one", 4, 4)
    model = g.model(y=g.linear(g("Relu", y), f"net.{word}.two.0", 4, 4))
    report = compiled(model, tmp_path / "net", level=0)
    assert report["verification"]["worst_relative_error"] < 1e-5
    if not word.isidentifier():
        assert f'["{word}"]' not in (tmp_path / "net" / "model.py").read_text()


def test_caches_of_one_name_on_both_sides(tmp_path: Path) -> None:
    shape = ["batch", 2]
    g = Graph(
        **{name: shape for name in ("cache_k0", "cache_v0", "cache_k1", "cache_v1")}
    )
    made = {
        f"cache_out_{part}{i}": g("Relu", f"cache_{part}{i}")
        for i in (0, 1)
        for part in "kv"
    }
    compiled(g.model(**made), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert '"cache": [' in text and '"new_cache": [' in text


def test_what_a_module_returns_is_returned_as_it_is(emitted: Emit) -> None:
    """Their shapes are no reason to name them first."""
    g = Traced(x=["batch", 4])
    x = g.fc("x", "stem", 4, 4)
    made = {}
    with g.module("encoder", "Encoder"):
        for i in range(2):
            with g.module(f"stages.{i}", "Stage"):
                x = g("Relu", g.fc(g("Relu", g.fc(x, "up", 4, 4)), "down", 4, 4))
            made[f"relu_{i + 7}"] = x
    body = emitted(g.model(**made)).body()
    assert body[-1] == "return self.encoder(self.stem(x))"


def staged(*stages: list[tuple[int, int]]) -> onnx.ModelProto:
    """Blocks of so many hidden features, and with a gate of so many or none, in a list
    of each stage."""
    g = Traced(x=["batch", 8])
    x = "x"
    for i, blocks in enumerate(stages):
        for j, (hidden, narrow) in enumerate(blocks):
            with g.module(f"blocks.{i}", "Sequential"), g.module(f"{j}", "Block"):
                y = g.relu(g.fc(x, "up", 8, hidden))
                if narrow:
                    with g.module("gate", "Gate"):
                        gate = g.relu(g.fc(y, "reduce", hidden, narrow))
                        gate = g("Sigmoid", g.fc(gate, "expand", narrow, hidden))
                        y = g("Mul", y, gate)
                x = g.fc(y, "down", hidden, 8)
    return g.model(y=x)


def test_stages_that_all_lack_blocks_of_longer_ones(tmp_path: Path) -> None:
    """As GhostNet's: a class is parted while its parts are smaller, and no longer."""
    model = staged([(12, 0)], [(12, 3), (12, 2)], [(12, 3), (8, 2)], [(12, 2)])
    fairhand.compile(model, tmp_path / "net")
