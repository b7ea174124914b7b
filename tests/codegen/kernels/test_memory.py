"""Kernels of all kinds on random sizes, and that no address is outside of a tensor.

FAIRHAND_FUZZ is the number of kernels and sizes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="kernels run in Triton's interpreter")
import triton
import triton.language as tl
from support.kernel_models import attention, columns, elements, products, rows
from support.kernel_models.elements import group_model
from support.triton_kernels import Compiled, close, compiled, examples

# A group of some kind, and the module that it is of.
KINDS: dict[Any, Any] = {
    build: module
    for module, builds in (
        (elements, elements.GROUPS),
        (attention, attention.KINDS),
        (columns, columns.GROUPS),
        (products, products.GROUPS),
        (rows, rows.KINDS),
    )
    for build in builds
}


@cache
def kernel_of(build: Any, folder: Path) -> Compiled:
    own = folder / f"{KINDS[build].__name__}_{build.__name__}"
    own.mkdir()
    return compiled(getattr(KINDS[build], "model_of", group_model)(build), own)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


SIZES = st.sampled_from([0, 1, 2, 3, 5, 7, 13, 17, 67])


@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # NumPy's, of what is divided by 0
@settings(max_examples=examples(8), derandomize=True, deadline=None, database=None)
@given(build=st.sampled_from(list(KINDS)), sizes=st.tuples(SIZES, SIZES, SIZES))
def test_random_sizes(build: Any, sizes: tuple[int, int, int], folder: Path) -> None:
    kernel = kernel_of(build, folder)
    feed = {n: torch.tensor(x) for n, x in KINDS[build].feed_for(build, sizes).items()}
    try:
        wanted = kernel.reference(feed)
    except (RuntimeError, ValueError, IndexError):  # PyTorch refuses some empty ones
        reject()
    before, got = kernel.launches[0], kernel.kernel(feed)
    assert kernel.launches[0] == before + all(x.numel() for x in feed.values())
    assert all(close(a, b, 32) for a, b in zip(got, wanted, strict=True))


@triton.jit
def copied(x_ptr, y_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    cols = tl.arange(0, BLOCK)
    tl.store(y_ptr + cols, tl.load(x_ptr + cols, mask=cols < n), mask=cols < n)


@pytest.mark.parametrize(("read", "written"), [(4, 6), (6, 4)])
def test_an_address_outside_is_noticed(read: int, written: int) -> None:
    """Behind the end of a part of a tensor, where other numbers lie."""
    x, y = torch.arange(6.0), torch.zeros(6)
    copied[(1,)](x[:5], y[:5], 5, 8)
    assert y.tolist() == [0, 1, 2, 3, 4, 0]
    with pytest.raises(Exception, match="1 addresses are in no tensor of the launch"):
        copied[(1,)](x[:read], y[:written], 5, 8)


def test_lanes_outside_of_a_mask_hold_garbage() -> None:
    x, y = torch.ones(8), torch.zeros(8)

    @triton.jit
    def halved(x_ptr, y_ptr, BLOCK: tl.constexpr):  # type: ignore
        cols = tl.arange(0, BLOCK)
        tl.store(y_ptr + cols, tl.load(x_ptr + cols, mask=cols < 4))

    halved[(1,)](x, y, 8)
    assert y[:4].tolist() == [1, 1, 1, 1] and bool(y[4:].isnan().all())
