"""Where forward takes or returns lists: NESTED of model.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..engines import make_engine
from ..model import INPUTS, NESTED, OUTPUTS
from . import session


class Session(session.Session):
    def prepare(self) -> None:
        """What run() calls, from the model as it is and where it is."""
        self.inputs_on = self.device
        self.runs_on = make_engine(self.engine, self.model, self.device)
        self.network = flat_network(self.runs_on)


def flat_network(network: Callable[..., Any]) -> Callable[..., Any]:
    """What takes values in the order of INPUTS, and returns them in that of OUTPUTS."""
    lists = [rows for rows in NESTED.values() if flat(rows)[0] in INPUTS]
    inside = set(flat(lists))

    def call(*values: Any) -> Any:
        feeds = dict(zip(INPUTS, values, strict=True))
        plain = [value for name, value in feeds.items() if name not in inside]
        outputs = named(network(*plain, *(pick(rows, feeds) for rows in lists)))
        results = [outputs[name] for name in OUTPUTS]
        return results[0] if len(results) == 1 else results

    return call


def pick(names: Any, feeds: Mapping[str, Any]) -> Any:
    """The values of these names, in lists and tuples as the names are."""
    if isinstance(names, str):
        return feeds[names]
    return type(names)(pick(name, feeds) for name in names)


def named(results: Any) -> dict[str, Any]:
    """What forward returned, by the names of OUTPUTS: lists of NESTED are opened."""
    starts = {flat(rows)[0]: flat(rows) for rows in NESTED.values()}
    inside = {name for names in starts.values() for name in names[1:]}
    names = [name for name in OUTPUTS if name not in inside]
    if len(names) == 1:
        results = (results,)
    found: dict[str, Any] = {}
    for name, value in zip(names, results, strict=True):
        if name in starts:
            found.update(zip(starts[name], flat(value), strict=True))
        else:
            found[name] = value
    return found


def flat(nested: Any) -> list[Any]:
    """What is in lists and tuples, in its order."""
    if not isinstance(nested, list | tuple):
        return [nested]
    return [leaf for item in nested for leaf in flat(item)]
