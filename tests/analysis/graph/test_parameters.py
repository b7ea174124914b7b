"""Constants that train, and those that an exporter noted as buffers."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.traced import Traced

from fairhand.analysis.graph.constants import is_wave
from fairhand.analysis.graph.parameters import (
    COMPUTED,
    TRAINS,
    has_name,
    is_counted,
    is_filler,
    is_parameter,
    is_saved,
    mark_counted,
    note_kind,
)
from fairhand.rewrites.normalise import normalise
from fairhand.rewrites.simplify import simplify


def test_a_buffer_of_the_exporter_is_no_parameter() -> None:
    value = ir.Value(name="norm.weight", const_value=ir.tensor(np.ones(3, np.float32)))
    value.dtype = ir.DataType.FLOAT
    assert is_parameter(value)
    value.metadata_props["pkg.torch.export.graph_signature.InputSpec.kind"] = "BUFFER"
    assert not is_parameter(value)
    value.meta[TRAINS] = True  # by its uses, as a scale would be
    assert not is_parameter(value)


def test_what_the_exporter_notes_trains_unless_its_uses_say_otherwise() -> None:
    value = ir.Value(name="start", const_value=ir.tensor(np.ones(3, np.float32)))
    value.dtype = ir.DataType.FLOAT
    assert not is_parameter(value)
    note_kind(value, "PARAMETER")
    assert is_parameter(value)
    value.meta[TRAINS] = False
    assert not is_parameter(value)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (1, 0, 4), (0,)])
def test_an_empty_table_holds_no_waves(shape: tuple[int, ...]) -> None:
    assert not is_wave(ir.tensor(np.zeros(shape, np.float32)))


def test_what_state_dict_has() -> None:
    def saved(name: str, **noted: str) -> bool:
        start = "pkg.torch.export.graph_signature.InputSpec."
        props = {start + key: value for key, value in noted.items()}
        return is_saved(ir.Value(name=name, metadata_props=props))

    assert saved("blocks.0.attn.index") and saved("inv", persistent="True")
    assert saved("_norm.weight") and saved("_scale") and saved("block.constant")
    assert not saved("_to_copy_1") and not saved("block._tensor_constant0")
    assert not saved("blocks.0.index_3") and not saved("index")
    assert not saved("bitwise_and") and not saved("logical_or_2")
    assert not saved("zeros_like") and not saved("new_full_2") and saved("full_scale")
    assert not saved("inv", kind="BUFFER", persistent="False")
    computed = ir.Value(name="pad_2")
    computed.meta[COMPUTED] = True  # a result's name
    assert not is_saved(computed)


def _trained(g: Traced, y: str) -> set[str]:
    """What trains of a model, by names without the module's."""
    model = normalise(ir.from_proto(g.model(y=y)))
    held = model.graph.initializers.values()
    return {(v.name or "").rpartition(".")[2] for v in held if is_parameter(v)}


@pytest.mark.parametrize("mean", ["running_mean", "centre"])
@pytest.mark.parametrize("variance", ["running_var", "spread"])
def test_a_frozen_norm_written_out_does_not_train(mean: str, variance: str) -> None:
    g = Traced(x=["batch", 3, 4, 4])
    with g.module("norm", "FrozenBatchNorm2d"):
        names = ("weight", "bias", mean, variance)
        kept = (g("Reshape", g.param(n, 3), g.ints(1, -1, 1, 1)) for n in names)
        weight, bias, centre, spread = kept
        root = g("Sqrt", g("Add", spread, g.number(1e-5)))
        scale = g("Mul", weight, g("Div", g.number(1.0), root))
        shift = g("Sub", bias, g("Mul", centre, scale))
        y = g("Add", g("Mul", "x", scale), shift)
    assert not _trained(g, y)


def test_statistics_by_name_do_not_train_and_what_scales_the_normed_does() -> None:
    g = Traced(x=["batch", 3])
    h = g("Relu", "x")
    with g.module("norm", "Norm"):
        h = g("Sub", h, g.param("running_mean", 3))
        root = g("Sqrt", g("Add", g.param("running_var", 3), g.number(1e-5)))
        y = g("Add", g("Mul", g("Div", h, root), g.param("weight", 3)), g.param("b", 3))
    assert _trained(g, y) == {"weight", "b"}


def test_a_weight_that_statistics_are_folded_into_trains() -> None:
    g = Traced(x=["batch", 3])
    with g.module("fc", "LinearBn1d"):
        root = g("Sqrt", g("Add", g.param("running_var", 4), g.number(1e-5)))
        y = g("MatMul", "x", g("Div", g.param("weight", 3, 4), root))
    assert _trained(g, y) == {"weight"}


def test_what_an_operator_takes_for_a_layers_parameter_trains_without_a_path() -> None:
    g = Traced(x=["batch", 3])
    tied = g.param("weight", 4, 3)
    h = g("Gemm", "x", tied, g.param("visible", 4), transB=1)
    y = g("Gemm", g("Sigmoid", h), tied, g.param("hidden", 3))
    assert _trained(g, y) == {"weight", "visible", "hidden"}


@pytest.mark.parametrize("low", [0, -1])
def test_angles_of_both_signs_train(low: int) -> None:
    """Those of a class token are learned (MLCD), those of positions counted."""
    g = Traced(x=["batch", 3, 8])
    with g.module("embed", "Rotary"):
        angles = np.linspace(low, 2, 4, dtype=np.float32)[None]
        half = g.param("angles", 1, 4, value=angles)
        row = g("Concat", half, half, axis=-1)
        y = g("Add", g("Mul", "x", g("Cos", row)), g("Sin", row))
    assert _trained(g, y) == ({"angles"} if low else set())


@pytest.mark.parametrize("largest", [1, 2])
def test_a_factor_of_zeros_and_ones_chooses_and_does_not_train(largest: int) -> None:
    """As what a coupling of RealNVP leaves; its weight may begin with these, too."""
    g = Traced(x=["batch", 4])
    with g.module("layer", "Coupling"):
        chosen = g.param("chosen", 4, value=np.float32([0, 1, 0, largest]))
        rest = g("Sub", g.number(1.0), chosen)
        weight = g.param("weight", 4, 4, value=np.eye(4, dtype=np.float32))
        kept = g("MatMul", g("Mul", "x", chosen), weight)
        y = g("Add", kept, g("Mul", g("Relu", kept), rest))
    assert _trained(g, y) == {"weight", *(["chosen"] if largest > 1 else [])}


def test_a_mask_that_is_called_bias_does_not_train() -> None:
    """As that of nanoGPT's attention, which is asked where it is 0."""
    g = Traced(x=["batch", 4, 4])
    with g.module("attn", "Attention"):
        x = g.fc("x", "fc", 4, 4)
        seen = g.param("bias", 4, 4, value=np.tri(4, dtype=np.float32))
        hidden = g("Equal", seen, g.number(0.0))
        y = g("Where", hidden, g.number(-np.inf), x)
    model = normalise(ir.from_proto(g.model(y=y)))
    held = model.graph.initializers
    assert not is_parameter(held["attn.bias"]) and is_parameter(held["attn.fc.bias"])


def test_a_table_that_is_resized_trains() -> None:
    g = Traced(x=["batch", 3, 8, 8])
    scales = g.weight("val_3", value=np.float32([1, 1, 2, 2]))
    table = g("Resize", g.param("pos_embed", 1, 3, 4, 4), "", scales, mode="linear")
    y = g("Add", "x", table)
    assert _trained(g, y) == {"pos_embed"}


def test_what_a_branch_hands_on_trains() -> None:
    """TorchScript's check of the number of repeats, before it repeats a table."""
    made = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 20]>
        g (float[n, 4] x, bool few) => (float[n, 4] y) <float[4] table = {1, 2, 3, 4}> {
            same = If(few) <then_branch = a () => (float[4] t) { t = Identity(table) },
                            else_branch = b () => (float[4] f) { f = Neg(table) }>
            y = Add(x, same) }""")
    model = normalise(ir.from_proto(made))
    assert is_parameter(model.graph.initializers["table"])


def test_a_number_between_the_newer_exporters_nodes_does_not_train() -> None:
    """`const` is no word of TorchScript's, where nodes know the calls they come of."""
    g = Traced(x=["batch", 3])
    with g.module("act", "Softplus"):
        one = g("CastLike", g.weight("const", value=np.float32(1)), "x")
        y = g("CastLike", g("Log", g("Add", g("Exp", "x"), one)), "x")
    proto = g.model(y=y)
    proto.producer_name = "pytorch"
    model = ir.from_proto(proto)
    simplify(model)
    assert [node.op_type for node in model.graph] == ["Softplus"]


def test_a_letter_that_the_exporter_notes_is_a_parameters_name() -> None:
    value = ir.Value(name="T", const_value=ir.tensor(np.ones(3, np.float32)))
    value.metadata_props["pkg.torch.export.graph_signature.InputSpec.kind"] = (
        "PARAMETER"
    )
    assert has_name(value)


@pytest.mark.parametrize(
    ("name", "filler"),
    [
        ("/norm/Constant_output_0", True),  # nn.InstanceNorm2d's ones, which it hasn't
        ("val_3", True),
        ("onnx::Mul_37", False),  # an untrained nn.GroupNorm's weight
        ("norm.weight", False),
    ],
)
def test_what_an_exporter_put_in_for_no_parameter(name: str, filler: bool) -> None:
    ones = ir.tensor(np.ones(4, np.float32))
    value = ir.Value(name=name, const_value=ones)
    assert is_filler(value, 1) is filler and not is_filler(value, 0)
    made = ir.Value(name="made", const_value=ones)
    made.meta.update(made=True, folded_from=(name,))
    assert is_filler(made, 1) is filler


@pytest.mark.parametrize(
    ("names", "counted"),
    [
        ("w1 w2 b1 b2 w3", False),
        ("w0 w2 scale7", False),  # one may be left out
        ("v3 v20 v57", True),
        ("const_fold_opt__9 const_fold_opt__71", True),
        ("fc.w3 fc.w20 fc.w57", False),
        (" ".join(f"const_{k}" for k in range(1, 30)), True),
    ],
)
def test_numbers_that_an_exporter_counts_are_no_names(
    names: str, counted: bool
) -> None:
    values = [ir.Value(name=name) for name in names.split()]
    mark_counted(values)
    assert {is_counted(value) for value in values} == {counted}
    noted = ir.Value(name="v3")
    noted.metadata_props["pkg.torch.export.graph_signature.InputSpec.kind"] = (
        "PARAMETER"
    )
    mark_counted([noted, *(ir.Value(name=f"v{k}") for k in (20, 57))])
    assert not is_counted(noted)
