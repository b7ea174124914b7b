"""Whatever text a model holds, what comes out is a safe, telling identifier."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Callable

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from fairhand.codegen.emit.model_file import model_text
from fairhand.codegen.ir.identifiers import (
    LONGEST_CLASS,
    MAX_LENGTH,
    attribute,
    class_name,
    class_of_path,
    identifier,
    package_name,
    unused,
    variable,
)
from fairhand.codegen.ir.package_plan import (
    ClassPlan,
    InterfacePlan,
    MethodPlan,
    PackagePlan,
    SourcePlan,
    StatePlan,
)

MAKERS = (identifier, variable, attribute, class_name, package_name)
QUICK = settings(derandomize=True, deadline=None, max_examples=300, database=None)

# Text that has broken out of generated code before, and text that nearly is a name.
HOSTILE = [
    'x"""; import os',
    "x\nimport os",
    "x\r\n    pass",
    "__class__",
    "__init__",
    "a.b:0/c-d",
    "9lives",
    "",
    "_",
    "\0",
    "\u0661\u0662",  # digits, but not 0 to 9
    "\uff26",  # a letter that Python's parser turns into F
    "na\u00efve",
    "\u202edlrow",
    "x" * 10_000,
    "self",
    "True",
    "match",
]
WORDS = st.sampled_from(
    [
        *keyword.kwlist,
        *keyword.softkwlist,
        *dir(builtins),
        *dir(nn.Module),
        *HOSTILE,
        *("torch nn F np math Tensor Path safe_open load Model Session".split()),
        *("WEIGHTS MODEL_SHA256 INPUTS OUTPUTS annotations".split()),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=60), WORDS, st.tuples(WORDS, st.text(max_size=3)).map("".join)
)


def module_names() -> set[str]:
    """What an emitted model.py binds at its top level, besides classes and helpers."""
    body = ("return F.relu(torch.ones(1)) * math.pi",)
    only = ClassPlan(
        "Only",
        MethodPlan("__init__", (), "None", ()),
        MethodPlan("forward", (), "Tensor", body),
    )
    plan = PackagePlan(
        title="Only",
        source=SourcePlan("only.onnx", 20, 1, "0", "1"),
        rewrites="",
        interface=InterfacePlan((), (), (), (), (), ()),
        helpers=(),
        classes=(only,),
        network="Only",
        state=StatePlan(0, False, False, False, (), False),
    )
    text = model_text(plan)
    bound = set(re.findall(r"^(?:def |class )?(\w+)(?:\(| = )", text, re.MULTILINE))
    for line in re.findall(r"^(?:from .* )?import (.*)$", text, re.MULTILINE):
        bound |= {name.split(" as ")[-1].split(".")[0] for name in line.split(", ")}
    return bound - {"Only"}


TAKEN = module_names()


def test_the_emitted_module_was_read() -> None:
    wanted = {"torch", "F", "nn", "math", "Path", "load", "WEIGHTS"}
    assert wanted <= TAKEN


@pytest.mark.parametrize("make", MAKERS)
@QUICK
@given(text=TEXTS)
@example(text="Model")
@example(text="model")
@example(text="Session")
@example(text="F")
def test_any_text_becomes_an_identifier(make: Callable[[str], str], text: str) -> None:
    name = make(text)
    assert name.isidentifier() and name.isascii()
    assert unicodedata.normalize("NFKC", name) == name
    assert not keyword.iskeyword(name) and not name.startswith("__")
    if make is not attribute:  # which stands behind a dot, and hides nothing
        assert not name.startswith("_")
        assert not keyword.issoftkeyword(name) and name not in dir(builtins)
        assert name not in TAKEN | {"self"}
    longest = LONGEST_CLASS if make is class_name else MAX_LENGTH
    assert len(name) <= longest + 8  # room for a prefix and an underscore
    assert make(text) == name


@QUICK
@given(text=TEXTS)
def test_an_attribute_hides_nothing_of_a_module(text: str) -> None:
    name = attribute(text)
    assert not hasattr(nn.Module, name)
    module = nn.Module()
    assert not hasattr(module, name)
    setattr(module, name, nn.Identity())
    module.register_buffer(f"{name}_b", torch.zeros(1))
    assert name in dict(module.named_children())


@QUICK
@given(text=TEXTS)
def test_spelling_follows_what_is_named(text: str) -> None:
    assert variable(text) == variable(text).lower()
    assert variable(variable(text)) == variable(text)
    assert class_name(text)[0].isupper()


@pytest.mark.parametrize(
    ("make", "text", "name"),
    [
        (identifier, "conv:0", "conv_0"),
        (identifier, "class", "class_"),
        (identifier, "/layer1/conv1/Conv_output_0", "layer1_conv1_Conv_output_0"),
        (identifier, "  --  ", "x"),
        (identifier, "3d", "x_3d"),
        (variable, "inputIDs", "input_ids"),
        (variable, "Input", "input_"),
        (variable, "past_key_values.0.key", "past_key_values_0_key"),
        (attribute, "layer norm", "layer_norm"),
        (attribute, "0", "layer_0"),
        (attribute, "forward", "forward_"),
        (attribute, "type", "type_"),
        (attribute, "a__b", "a__b"),
        (attribute, "_p", "_p"),
        (attribute, "B_", "B_"),
        (attribute, "__p", "p"),
        (attribute, "_modules", "_modules_"),
        (attribute, "class", "class_"),
        (class_name, "resnet50", "Resnet50"),
        (class_name, "digits_cnn", "DigitsCnn"),
        (class_name, "BertLayer", "BertLayer"),
        (class_name, "C3_2", "C3_2"),
        (class_name, "50 nets", "Net_50Nets"),
        (class_name, "ModelWithHead", "ModelWithHead"),
        (class_name, "model", "Net"),
        (class_name, "Session", "Session_"),
        (package_name, "My Model.v2", "my_model_v2"),
        (package_name, "模型", "u6a21_u578b"),
        (class_name, *["NemotronAsrStreamingEncoderRelPositionalEncoding"] * 2),
    ],
)
def test_names_that_a_reader_expects(
    make: Callable[[str], str], text: str, name: str
) -> None:
    assert make(text) == name


def test_long_names_are_cut_without_a_loose_end() -> None:
    name = identifier("layer_" * 100)
    assert len(name) <= MAX_LENGTH and not name.endswith("_")


def test_unused_counts_from_two() -> None:
    assert unused("x", []) == "x"
    assert unused("x", ["x"]) == "x2"
    assert unused("x", iter(["x", "x2"])) == "x3"
    assert unused("conv1", {"conv1"}) == "conv1_2"  # not conv12
    assert unused("conv1", {"conv1": 0, "conv1_2": 0}) == "conv1_3"


@QUICK
@given(taken=st.lists(st.sampled_from(["x", "x2", "x3", "y1", "y1_2"])))
def test_unused_is_unused(taken: list[str]) -> None:
    for name in ("x", "y1"):
        assert unused(name, taken) not in taken


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("layers.0", "Layer"),
        ("blocks_token_only.0", "TokenOnlyBlock"),
        ("net.attn_in", "Attn"),
        ("net.attn_out", "Attn"),
        ("down", "Down"),
        ("net.pre_post", "Pre"),
    ],
)
def test_a_side_is_no_class(path: str, name: str) -> None:
    assert class_of_path(path) == name
