"""A constant in emitted text is the constant of the graph, to the bit, and no more."""

from __future__ import annotations

import ast
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairhand.analysis.literals import float_literal, literal, one_line, string_literal

FLOATS: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
QUICK = settings(derandomize=True, deadline=None, max_examples=200, database=None)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 0.5, math.e, 1e4, 1e-4, 65504.0, 12345.678]
NAMED = [math.pi, math.sqrt(2), math.sqrt(0.5), math.sqrt(2 / math.pi), math.log(2)]


def value_of(text: str) -> Any:
    """What the text means in an emitted module."""
    return eval(text, {"__builtins__": {"float": float}, "math": math, "torch": torch})


def bits(value: Any, dtype: np.dtype[Any]) -> int:
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    return int(np.array(value).astype(dtype).reshape(1).view(unsigned)[0])


def from_bits(number: int, dtype: np.dtype[Any]) -> Any:
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    return np.array([number], unsigned).view(dtype)[0]


def assert_round_trip(value: Any, dtype: np.dtype[Any]) -> None:
    with np.errstate(over="ignore"):  # digits tried on the way to the largest number
        text = float_literal(value)
    back = value_of(text)
    assert isinstance(back, float), text
    if math.isnan(float(value)):
        assert math.isnan(back), text
    else:
        assert bits(back, dtype) == bits(value, dtype), text


# ---- numbers


@pytest.mark.parametrize("name", FLOATS)
@QUICK
@given(seed=st.integers(0, 2**64 - 1))
@example(seed=1)  # the smallest number above 0
@example(seed=0)
def test_floats_come_back_to_the_bit(name: str, seed: int) -> None:
    dtype = FLOATS[name]
    assert_round_trip(from_bits(seed % 2 ** (8 * dtype.itemsize), dtype), dtype)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_third_narrow_float_comes_back(name: str) -> None:
    dtype = FLOATS[name]
    for number in range(0, 2**16, 3):
        assert_round_trip(from_bits(number, dtype), dtype)


@pytest.mark.parametrize("name", FLOATS)
def test_special_values_come_back(name: str) -> None:
    dtype = FLOATS[name]
    info = ml_dtypes.finfo(dtype)
    ends = [info.max, info.min, info.tiny, info.eps, info.smallest_subnormal]
    for number in [*SPECIAL, *NAMED, *ends, math.inf, -math.inf, math.nan]:
        with np.errstate(over="ignore"):
            value = dtype.type(number)
        for near in (value, np.nextafter(value, dtype.type(2))):
            assert_round_trip(near, dtype)
            assert_round_trip(-near, dtype)


@QUICK
@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_no_shorter_literal_would_do(value: float) -> None:
    wanted = np.float32(value)
    text = float_literal(wanted)
    if text.startswith(("torch.", "math.", "-math.")):
        return
    digits = len(text.partition("e")[0].replace(".", "").strip("-0"))
    for fewer in range(1, digits):
        assert np.float32(f"{value:.{fewer}g}") != wanted, text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (np.float32(0.1), "0.1"),
        (np.float16(0.1), "0.1"),
        (np.float32(1e-12), "1e-12"),
        (1e-5, "1e-5"),
        (1e22, "1e22"),
        (np.float32(-1e9), "-1e9"),
        (-9e15, "-9e15"),
        (12e6, "12000000.0"),
        (np.float32(-0.0), "-0.0"),
        (2.0, "2.0"),
        (np.float32(np.sqrt(2)), "math.sqrt(2)"),
        (-math.pi, "-math.pi"),
        (np.float32(8**-0.5), "math.sqrt(1 / 8)"),
        (np.float32(-(48**0.5)), "-math.sqrt(48)"),
        (np.float16(48**0.5), "6.93"),  # by chance, in so few bits
        (np.float32(2 * np.pi), "math.tau"),
        (1.414, "1.414"),
        (np.float32(np.pi) + np.float32(1e-6), "3.1415937"),
        (np.finfo(np.float32).min, "torch.finfo(torch.float32).min"),
        (np.finfo(np.float16).max, "torch.finfo(torch.float16).max"),
        (ml_dtypes.bfloat16(-3.3895314e38), "torch.finfo(torch.bfloat16).min"),
        (float(np.finfo(np.float32).min), "-3.4028234663852886e38"),
        (math.inf, 'float("inf")'),
        (np.float32(-np.inf), 'float("-inf")'),
        (math.nan, 'float("nan")'),
        (3, "3"),
        (np.int64(-(2**63)), "-9223372036854775808"),
        (True, "True"),
        (np.bool_(False), "False"),
        (None, "None"),
        ((1,), "(1,)"),
        ((), "()"),
        ([1, (2.0, None)], "[1, (2.0, None)]"),
        ("it", '"it"'),
    ],
)
def test_literals_as_a_person_writes_them(value: Any, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize("value", [np.zeros(2), object(), {1: 2}, 1j, b"x", np.int8])
def test_what_has_no_literal_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError, match="no literal for"):
        literal(value)


SCALARS = st.one_of(
    st.integers(), st.booleans(), st.none(), st.text(), st.floats(allow_nan=False)
)
NESTED = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.lists(inner).map(tuple), max_leaves=8
)


@QUICK
@given(value=NESTED)
def test_nested_values_come_back_with_their_types(value: Any) -> None:
    assert repr(value_of(literal(value))) == repr(value)


# ---- text


HOSTILE = [
    '"',
    "'",
    "\\",
    '\\"',
    '"""',
    '" + exit() + "',
    "a\nb",
    "a\rb",
    "\u2028\u2029\x85\x0c\x1c",
    "\0\x7f\x80\xff",
    "{x} %s {{ y }} {% z %}",
    "\ud800",  # half a surrogate pair: no UTF-8 file could hold it
    "\U0001f600",
    "\\N{BULLET} \\x41 \\",
]
TEXTS = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(HOSTILE)


def is_printable_line(text: str) -> bool:
    return all(" " <= char <= "~" for char in text)


@QUICK
@given(text=TEXTS)
def test_no_string_breaks_out_of_its_literal(text: str) -> None:
    source = string_literal(text)
    assert is_printable_line(source)
    assert ast.literal_eval(source) == text
    # In the middle of other code it is still one constant, and nothing else.
    tree = ast.parse(f"f({source}, 1)  # end")
    call = tree.body[0].value  # type: ignore[attr-defined]
    assert [type(arg) for arg in call.args] == [ast.Constant, ast.Constant]
    assert call.args[0].value == text


@QUICK
@given(text=TEXTS, limit=st.integers(4, 80))
def test_no_text_breaks_out_of_a_docstring_or_comment(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert is_printable_line(line) and len(line) <= limit
    assert not set(line) & set("\\\"'")
    source = f'"""{line}"""\nx = 1  # {line}\n'
    tree = ast.parse(source)
    assert [type(node) for node in tree.body] == [ast.Expr, ast.Assign]
    assert ast.get_docstring(tree, clean=False) == line


def test_one_line_keeps_plain_text_and_marks_a_cut() -> None:
    assert one_line("conv1.weight [3, 3]") == "conv1.weight [3, 3]"
    assert one_line("caf\u00e9\n") == "caf??"
    assert one_line("x" * 100, 10) == "xxxxxxx..."
    assert one_line("x" * 10, 10) == "x" * 10
