"""Whether an edited model.py computes what it did as written; run beside a package.

Both run in double precision, where what is one function up to rounding agrees to some
fourteen digits, and a constant that is another one in float32 doesn't. This is called
by its name in a process that has the package loaded (child.py).
"""

from __future__ import annotations

import importlib
import sys
import time
import types
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .compare import called

# Of an element, and of the largest one beside it: two units in float32's last place,
# which a constant has that was rounded another way, and what is left of cancellation.
_MOST, _FLOOR = 2.0**-22, 2.0**-30
_PATIENCE_S = 120
_SCALES = {"": 1.0, " x 50": 50.0, " x -1": -1.0, " x 1e4": 1e4, " x 1e-3": 1e-3}
_SCALES |= {" x 0": 0.0}


def agree(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare model.py of the folder `package` with its `text` as it was written.

    `feeds` are lists of inputs, by a label each; floats of them are tried at several
    scales. The answer has how many "inputs" were tried in which "precision", the
    "worst" difference of an element, relative to it, and where results are others,
    which "output" on which "differs".
    """
    warnings.simplefilter("ignore")
    folder, found, end = Path(request["package"]).resolve(), 0, time.monotonic()
    if str(folder.parent) not in sys.path:
        sys.path.insert(0, str(folder.parent))
    edited = importlib.import_module(f"{folder.name}.model")
    written = types.ModuleType("as_written")
    vars(written).update(__file__=str(folder / "model.py"), __package__=folder.name)
    sys.modules[written.__name__] = written  # where dataclasses look for it
    exec(compile(request["text"], "as written", "exec"), vars(written))
    sides = [(module, module.load()) for module in (written, edited)]
    cases = list(_cases(request["feeds"]))
    double = _runs_in_double(sides[0], cases[0][1])
    if double:
        for _, network in sides:
            network.double()
    worst = 0.0
    for label, feed in cases:
        if time.monotonic() > end + _PATIENCE_S:
            break
        try:
            right = _outputs(sides[0], feed, double)
        except Exception:
            continue  # of sizes or numbers that the network isn't for
        try:
            ours = _outputs(sides[1], feed, double)
        except Exception as error:
            return {"differs": label, "why": f"it fails: {str(error)[:200]}"}
        for name, one, other in zip(written.OUTPUTS, right, ours, strict=True):
            off = _apart(one, other)
            if not off <= _MOST:
                return {"differs": label, "why": f"output {name} by {off:.2g}"}
            worst = max(worst, off)
        found += 1
    precision = "double precision" if double else "its own precision"
    return {"inputs": found, "worst": worst, "precision": precision}


def _cases(feeds: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, list[Any]]]:
    for note, scale in _SCALES.items():
        for label, feed in feeds.items():
            if note and not any(map(_is_float, feed)):
                continue
            yield label + note, [
                value * np.asarray(scale, value.dtype) if _is_float(value) else value
                for value in feed
            ]


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _runs_in_double(side: tuple[Any, Any], feed: Sequence[Any]) -> bool:
    """Whether the network does as doubles what it does else."""
    module, _ = side
    try:
        _outputs((module, module.load().double()), feed, True)
    except Exception:
        return False
    return True


def _outputs(
    side: tuple[Any, Any], feed: Sequence[Any], double: bool
) -> list[np.ndarray]:
    module, network = side
    torch.manual_seed(0)
    with torch.inference_mode():
        made = called(module, network, [_tensor(value, double) for value in feed])
    flat = [x.double() if x.is_floating_point() else x for x in _flat(made)]
    return [x.numpy() for x in flat]


def _tensor(value: Any, double: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_tensor(each, double) for each in value]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiubc":
        return value
    made = torch.from_numpy(np.array(value))
    return made.double() if double and made.is_floating_point() else made


def _flat(made: Any) -> list[torch.Tensor]:
    if isinstance(made, torch.Tensor):
        return [made]
    return [leaf for each in made for leaf in _flat(each)]


def _apart(right: np.ndarray, ours: np.ndarray) -> float:
    """The largest difference of an element, relative to it; infinite between others."""
    if right.shape != ours.shape or right.dtype != ours.dtype:
        return np.inf
    if right.dtype.kind not in "fc" or not right.size:
        return 0.0 if np.array_equal(right, ours) else np.inf
    known = np.isfinite(right)
    if not np.array_equal(right[~known], ours[~known], equal_nan=True):
        return np.inf
    one, other = right[known], ours[known]
    if not one.size:
        return 0.0
    size = np.abs(one)
    return float(np.max(np.abs(one - other) / np.maximum(size, size.max() * _FLOOR)))
