"""Constants of the graph as expressions: equal to the bit, or none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from fairhand.codegen.classes.constant_texts import constant_text

WRITTEN: list[tuple[Any, str, str]] = [
    (2.5, "float32", "torch.tensor(2.5)"),
    (True, "bool", "torch.tensor(True)"),
    (7, "int32", "torch.tensor(7, dtype=torch.int32)"),
    ([0.485, 0.456, 0.406], "float32", "torch.tensor([0.485, 0.456, 0.406])"),
    (np.eye(2, 3), "float32", "torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])"),
    ([[1, 5], [2, 4]], "int64", "torch.tensor([[1, 5], [2, 4]])"),
    (np.zeros((2, 9)), "float32", "torch.zeros((2, 9))"),
    (np.ones(9), "int64", "torch.ones((9,), dtype=torch.int64)"),
    (np.ones(9), "bool", "torch.ones((9,), dtype=torch.bool)"),
    (np.full((3, 2), -0.0), "float32", "torch.full((3, 2), -0.0)"),
    (np.full(6, math.inf), "float16", None),
    (np.arange(12), "int64", "torch.arange(12)"),
    (np.arange(5, 50, 3), "int32", "torch.arange(5, 50, 3, dtype=torch.int32)"),
    (np.arange(9)[::-1], "int64", "torch.arange(8, -1, -1)"),
    (np.arange(8.0), "float32", "torch.arange(8, dtype=torch.float32)"),
    (np.arange(12).reshape(1, 12), "int64", "torch.arange(12).view(1, 12)"),
    (np.tri(5), "bool", None),
    (np.tri(5, 7, 2), "float32", None),
    (np.triu(np.full((1, 1, 6, 6), -np.inf), 1), "float32", None),
    (np.arange(40) % 7, "uint8", None),
]


@pytest.mark.parametrize(("value", "dtype", "text"), WRITTEN)
def test_texts_are_equal_to_the_bit(value: Any, dtype: str, text: str | None) -> None:
    array = np.array(value).astype(dtype)
    made = constant_text(array, dtype)
    if made is None:
        assert text is None and array.size > 32
        return
    assert text in (None, made)
    tensor = eval(made, {"torch": torch, "math": math})
    assert tensor.shape == array.shape
    assert str(tensor.dtype) == f"torch.{dtype}"
    assert tensor.numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array([math.nan, 1], np.float32),
        np.random.default_rng(0).normal(size=9).astype(np.float32),
        np.append(np.zeros(40), -0.0).astype(np.float32),
        np.append(np.arange(40), 7),
        np.tri(9)[::-1].astype(np.float32).copy(),
    ],
)
def test_others_have_none(array: np.ndarray) -> None:
    assert constant_text(array, array.dtype.name) is None


def test_floats_that_training_may_change_are_no_text() -> None:
    assert constant_text(np.float32([1, 2, 4]), "float32", listed=False) is None
    assert constant_text(np.float32([0.5]), "float32", listed=False) is None
    zeros = constant_text(np.zeros(3, np.float32), "float32", listed=False)
    assert zeros == "torch.zeros((3,))"
    whole = constant_text(np.int64([3, 1, 4]), "int64", listed=False)
    assert whole == "torch.tensor([3, 1, 4])"


def test_one_element_is_not_written_out_to_be_compared() -> None:
    for number in (0.0, 2.5):
        vast = np.broadcast_to(np.float32(number), (2**40, 3))
        assert str(2**40) in (constant_text(vast, "float32") or "")
    assert (
        constant_text(np.broadcast_to(np.float32(np.nan), (2**40,)), "float32") is None
    )
