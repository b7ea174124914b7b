"""Whether an edited model.py computes what it did as written; run beside a package.

Both run in double precision, where what is one function up to rounding agrees to some
fourteen digits, and a constant that is another one in float32 doesn't. This is called
by its name in a process that has the package loaded (child.py).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast
from unittest.mock import patch

import numpy as np
import torch

from .network import called, later, leaves, page, state, takes_as_much
from .reached import missed, noted

# Of an element, and of the largest one beside it: two units in float32's last place,
# which a constant has that was rounded another way, and what is left of cancellation.
_MOST, _FLOOR = 2.0**-22, 2.0**-30
_PATIENCE_S = 120
_UNKNOWN = {"does": "may compute", "differs": "what isn't tried here"}
# What is done to the inputs of some kinds, beside leaving them as they are.
_Change: TypeAlias = Callable[[np.ndarray], np.ndarray]
_CHANGES: dict[str, tuple[str, _Change]] = {
    ", whole numbers below 0": ("i", lambda x: ~x),
    ", whole numbers x 1001": ("i", lambda x: x * np.asarray(1001, x.dtype)),
    ", beyond 32 bits": (
        "i",
        lambda x: x + np.asarray(2**31, np.int64).astype(x.dtype),
    ),
    ", a NaN": ("f", lambda x: _with_ends(x, np.nan, 1)),
    ", infinite": ("f", lambda x: _with_ends(x, -np.inf, np.inf)),
}


def _scaled(scale: float) -> tuple[str, _Change]:
    return "f", lambda x: x * np.asarray(scale, x.dtype)


_CHANGES |= {f" x {k:g}": _scaled(k) for k in (50, -1, 1e4, 1e-3, 0, 1e35)}


def _laid(x: np.ndarray) -> np.ndarray:
    """Images as a Session lays them out."""
    return np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1) if x.ndim == 4 else x


def _with_ends(x: np.ndarray, first: float, last: float) -> np.ndarray:
    """A copy, with another first and last element."""
    made = np.array(x)
    if made.size:
        made.flat[-1], made.flat[0] = last, first
    return made


def agree(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare model.py of the folder `package` with its `text` as it was written.

    `feeds` are lists of inputs, by a label each; they are tried at several scales too,
    with numbers that aren't finite, negative or large, and `images` in other order.
    What a call leaves in its inputs is compared too, and no weight may change.

    The answer has how many "inputs" were tried in which "precision", the "worst"
    difference of an element, relative to it, what "keeps" something, and where results
    are others, "why" and on what it "differs": or may be, as a part never ran.
    """
    warnings.simplefilter("ignore")
    found, end = 0, time.monotonic()
    edited, written = (page(request["package"], x) for x in ("", request["text"]))
    if not takes_as_much(edited, written):
        return {"differs": "other INPUTS or OUTPUTS", "why": "they have to be the same"}
    source, ran, built = Path(str(edited.__file__)), set[Any](), set[Any]()
    with noted(str(source), built):
        network = edited.load()
    try:
        sides = [(written, _as_written(written, network)), (edited, network)]
    except Exception as error:  # what it would be compared with is gone
        return {**_UNKNOWN, "why": f"its text as written fails: {str(error)[:200]}"}
    cases = list(_cases(request))
    cases += cases[:1]  # by now, a network that keeps something may do something else
    double = all(_runs_in_double(*side, cases[0][1]) for side in sides)
    if double:
        for _, network in sides:
            network.double()
    worst, begun = 0.0, state(*sides[1])
    for label, feed in cases:
        if time.monotonic() > end + _PATIENCE_S:
            break
        try:
            right = _outputs(sides[0], feed, double, written)
        except Exception:
            continue  # of sizes or numbers that the network isn't for
        try:
            with noted(str(source), ran):
                ours = _outputs(sides[1], feed, double, written)
        except Exception as error:
            if not any(x.size for x in leaves(right[: len(written.OUTPUTS)])):
                continue  # there is nothing to be given
            return {"differs": label, "why": f"it fails: {str(error)[:200]}"}
        names = [f"output {name}" for name in written.OUTPUTS]
        given = zip(written.INPUTS, feed, strict=True)
        names += [f"what is left in input {name}" for name, x in given if _holds(x)]
        for name, off in zip(names, map(_apart, right, ours), strict=True):
            if not off <= _MOST:
                return {"differs": label, "why": f"{name} by {off:.2g}"}
            worst = max(worst, off)
        found += 1
    if name := _changed(sides[1][1], edited.load(), double):
        return {"differs": "all of these", "why": f"{name} changes in a call"}
    if line := missed(source.read_bytes(), request["text"], ran, built):
        return {**_UNKNOWN, "why": f"nothing led to line {line}"}
    precision = "double precision" if double else "its own precision"
    keeps = later(begun, *sides[1])
    return {"inputs": found, "worst": worst, "precision": precision, "keeps": keeps}


def _as_written(written: ModuleType, edited: torch.nn.Module) -> torch.nn.Module:
    """The network of the text as it was written; with the weights of the edited one in
    their order, where these have other names by now."""
    load, own = torch.nn.Module.load_state_dict, edited.state_dict().values()

    def given(network: torch.nn.Module, state: Any, **how: Any) -> None:
        if {*state} != {*(names := network.state_dict())}:
            state = dict(zip(names, own, strict=True))
        load(network, state, **how)

    with patch.object(torch.nn.Module, "load_state_dict", given):
        return cast(torch.nn.Module, written.load())


def _cases(request: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    feeds = request["feeds"]
    yield from ((label, list(feed)) for label, feed in feeds.items())
    laid = {" with channels innermost": ("f", _laid)} if request["images"] else {}
    for note, (kind, change) in (_CHANGES | laid).items():
        for label, feed in feeds.items():
            arrays = {i: x for i, x in enumerate(feed) if isinstance(x, np.ndarray)}
            at = [i for i, x in arrays.items() if x.dtype.kind == kind]
            alone = (
                [[i] for i in at] if len(at) > 1 else []
            )  # as ids forbid what masks may
            for places in [at, *alone] if at else []:
                of = f", input {places[0] + 1} alone" if places is not at else ""
                made = [change(x) if i in places else x for i, x in enumerate(feed)]
                yield label + note + of, made


def _changed(used: torch.nn.Module, fresh: torch.nn.Module, double: bool) -> str:
    """The first of a network's tensors that isn't as it was loaded; '' if all are."""
    before = (fresh.double() if double else fresh).state_dict()
    for name, tensor in used.state_dict().items():
        if name not in before or _apart(before[name].numpy(), tensor.numpy()):
            return name
    return ""


def _runs_in_double(module: Any, network: torch.nn.Module, feed: Sequence[Any]) -> bool:
    """Whether the network does as doubles what it does else."""
    try:
        _outputs((module, deepcopy(network).double()), feed, True, module)
    except Exception:
        return False
    return True


def _outputs(
    side: tuple[Any, Any], feed: Sequence[Any], double: bool, written: Any
) -> list[Any]:
    """The results, and the inputs as they are then, in the order of the `written`."""
    module, network = side
    torch.manual_seed(0)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else usual)  # what it makes, too
    try:
        with torch.inference_mode():  # as a Session makes them, too
            given = [_tensor(value, double) for value in feed]
            made = called(module, network, given, [*written.INPUTS], [*written.OUTPUTS])
    finally:
        torch.set_default_dtype(usual)
    kept = [x for x in given if isinstance(x, torch.Tensor)]
    return [*map(_numbers, [*made, *kept])]


def _numbers(value: Any) -> Any:
    """An array, of doubles where it is of floats, or a list of such; a map is its keys
    and its values."""
    if isinstance(value, list | tuple):
        return [*map(_numbers, value)]
    if isinstance(value, dict):
        return [np.array([*value], dtype=object), np.array([*value.values()])]
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    return (value.double() if value.is_floating_point() else value).numpy()


def _tensor(value: Any, double: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_tensor(each, double) for each in value]
    if not _holds(value):
        return value
    made = torch.from_numpy(np.array(value))
    return made.double() if double and made.is_floating_point() else made


def _holds(value: Any) -> bool:
    """Whether a tensor can hold it."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiubc"


def _apart(right: Any, ours: Any) -> float:
    """The largest difference of an element, relative to it; infinite between others."""
    if isinstance(right, list):
        if not isinstance(ours, list) or len(right) != len(ours):
            return np.inf
        return max(map(_apart, right, ours), default=0.0)
    if isinstance(ours, list):
        return np.inf
    if right.shape != ours.shape or right.dtype != ours.dtype:
        return np.inf
    if right.dtype.kind not in "fc" or not right.size:
        return 0.0 if np.array_equal(right, ours) else np.inf
    known = np.isfinite(right)
    if not np.array_equal(right[~known], ours[~known], equal_nan=True):
        return np.inf
    one, other = right[known], ours[known]
    off = np.abs(one - other)
    if not off.any():
        return 0.0
    size = np.abs(one)
    return float(np.max(off / np.maximum(size, size.max() * _FLOOR)))
