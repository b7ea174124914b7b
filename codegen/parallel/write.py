"""The text of parallel.py, from a plan."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import groupby
from textwrap import TextWrapper
from typing import TypeVar

from ...analysis.cost.typical_sizes import Sizes
from ...analysis.literals import one_line
from ...analysis.partition.layers import Way, folded
from ..emit.render import formatted
from ..emit.runtime_files import put_together
from .network import Network
from .plan import (
    Plan,
    cuts_of,
    exchange_bytes,
    handed_on,
    parts_of,
    results_of,
    sent_bytes,
    sharings,
)

_HEAD = """\
{title} on several devices; model.py stays as it is.

    torchrun --nproc-per-node {world} -m PACKAGE.parallel --check
    network = load(make_mesh())       in a program that torchrun starts

{story}
"""
_COLLECTIVES = {"sum": "all_reduce", "gather": "all_gather_into_tensor"}
_SAID = {
    Way.COLUMNS: ("cut along their outputs", "no exchange"),
    Way.ROWS: ("cut along their inputs", "one sum each"),
    Way.GATHERED: ("cut along their outputs", "one gather each"),
    Way.VOCABULARY: ("cut along the words", "one sum each"),
    Way.ALONG: ("cut along an axis", "no exchange"),
}


_NOTES = {
    "MESH": "devices along each dimension",
    "HELD": "bytes of weights that a device holds, by stage",
    "EXCHANGES": "of a call, of a device of each stage; bytes of --check",
    "CROSSING": "arguments that each later stage is sent",
    "RESULTS": "that each stage makes, and gives",
    "BLOCKS": "sharded one by one",
    "TIES": "names -> that of the parameter they share",
    "SIZES": "with which --check runs",
}
_WAYS_NOTE = """\
# How layers are cut, and how many products lie side by side in their columns; tensors
# are cut along an axis.
"""
_PARTS_NOTE = """\
# Inputs and results of which a device takes and gives its part, and along which axis.
"""
_MAIN = """

if __name__ == "__main__":  # --check
    check()
"""


def page_text(network: Network, plan: Plan, others: Sequence[Plan] = ()) -> str:
    """The text of parallel.py; `others` are the runners-up."""
    package, degrees = network.compiled.plan, plan.degrees
    ties = {k: key for k, key in network.aliases.items() if k != key}
    parts = parts_of(network.units, plan.starts) if degrees.pp > 1 else []
    results = results_of(network, plan.starts) if parts else []
    blocks = _listed([u.path for u in network.units if u.crossing is not None])
    ways = [f'"{path}": {cut}' for path, cut in _ways(plan)] if degrees.tp > 1 else []
    count = degrees.dp * plan.batches
    part = Sizes(network.shapes, network.tried | dict.fromkeys(network.batch, 2))
    sent = count * sum(sent_bytes(network, plan, part))
    values = {
        "NETWORK": f'"{package.network}"',
        "MESH": degrees.mesh,
        "HELD": list(plan.held),
        "EXCHANGES": exchanges(network, plan) | ({"bytes sent": sent} if sent else {}),
        "WAYS": f"{{{', '.join(ways)}}}",
        "PARTS": _caches(network, plan),
        "STAGES": _lists([[unit.path for unit in part] for part in parts]),
        "CROSSING": [list(network.units[i].crossing or ()) for i in plan.starts],
        "RESULTS": _lists([sorted(names, key=_numbered) for names in results]),
        "BLOCKS": f"[{', '.join(blocks)}]",
        "TIES": ties,
        "BATCHES": plan.batches,
        "SIZES": part.taken | dict.fromkeys(network.batch, 2 * count),
    }
    types = {"WAYS": ": devices.Ways", "MESH": ": devices.Sizes"}
    types |= {"CROSSING": ": list[list[int]]", "BLOCKS": ": list[str]"}
    types |= dict.fromkeys(("STAGES", "RESULTS"), ": list[list[str]]")
    types |= {"TIES": ": dict[str, str]"}
    types |= dict.fromkeys(("SIZES", "EXCHANGES", "PARTS"), ": dict[str, int]")
    given = {
        name: f"{name}{types.get(name, '')} = {value}"
        + (f"  # {_NOTES[name]}" if name in _NOTES else "")
        for name, value in values.items()
    }
    given["WAYS"] = _WAYS_NOTE + given["WAYS"]
    given["PARTS"] = _PARTS_NOTE + given["PARTS"]
    told = "\n".join(story(network, plan, others))
    head = _HEAD.format(title=package.title, world=degrees.world, story=told)
    names = [*given, "make_mesh", "load", "pipeline", "fully_sharded", "save", "check"]
    text = put_together(head, ["parallel.py"], names, given)
    return formatted(text + _MAIN, "parallel.py")


def exchanges(network: Network, plan: Plan) -> dict[str, int]:
    """How many collectives of each name a call makes, of one device of each stage."""
    given = handed_on(network, plan)
    found = Counter({"gather": sum(len(values) for values, n in given if n > 1)})
    for sharing in sharings(network, plan):
        found.update(sharing.exchanges())
    return {_COLLECTIVES[name]: found[name] for name in _COLLECTIVES if found[name]}


def _ways(plan: Plan) -> list[tuple[str, str]]:
    """A line for each layer that is cut; one for a layer and its copies."""
    found = cuts_of(plan.sharing)
    said = {layer.path: found.get(layer) for layer in plan.sharing.ways}
    cut = _starred(said, folded).items()
    return [(path, f'("{named}", {count})') for path, (named, count) in cut]


def _caches(network: Network, plan: Plan) -> dict[str, int]:
    """The axes of what the network takes and gives in parts, by its names."""
    cut = {v: a for region in plan.sharing.regions for v, a in region.caches.items()}
    values = [*network.graph.inputs, *network.graph.outputs]
    axes = {value.name or "": cut.get(value) for value in values}
    return _starred(axes, lambda name: re.sub(r"\d+", "*", name))


T = TypeVar("T", bound=Hashable)


def _starred(
    values: Mapping[str, T | None], fold: Callable[[str], str]
) -> dict[str, T]:
    """All that are not None, those that are alike but for numbers as one."""
    alike: dict[str, set[T | None]] = {}
    for name, value in values.items():
        alike.setdefault(fold(name), set()).add(value)
    return {
        fold(name) if len(alike[fold(name)]) == 1 else name: value
        for name, value in values.items()
        if value is not None
    }


def _lists(names: Sequence[Sequence[str]]) -> str:
    return f"[{', '.join('[' + ', '.join(_listed(x)) + ']' for x in names)}]"


def _listed(paths: Sequence[str]) -> list[str]:
    """The paths as items of a list; those that are numbered in turn as one."""

    def key(pair: tuple[int, str]) -> tuple[str, str, int]:
        head, tail, number = _numbered(pair[1])
        return head, tail, number - pair[0]

    items: list[str] = []
    for (head, tail, _), run in groupby(enumerate(paths), key):
        found = [path for _, path in run]
        if len(found) < 3:
            items += map(repr, found)
            continue
        first, last = (_numbered(path)[2] for path in (found[0], found[-1]))
        items.append(f'*(f"{head}{{i}}{tail}" for i in range({first}, {last + 1}))')
    return items


def _numbered(name: str) -> tuple[str, str, int]:
    """What is before and behind a name's last number, and that; others have none."""
    match = re.fullmatch(
        r"((?:[\w.]*[A-Za-z_.])?)(0|[1-9]\d{0,5})([A-Za-z_.]*)", name, re.A
    )
    return (match[1], match[3], int(match[2])) if match else (name, "", -1)


def story(network: Network, plan: Plan, others: Sequence[Plan]) -> list[str]:
    """What a plan cuts, holds and exchanges, with the time of others beside its own."""
    degrees = plan.degrees
    lines = [f"Plan    {degrees}: {_devices(plan)}"]
    named = cuts_of(plan.sharing) if degrees.tp > 1 else {}
    for way, (cut, cost) in _SAID.items():
        found = (layer for layer, (name, _) in named.items() if name == way.value)
        leaves = (folded(x.path).rpartition("*.")[2] or x.path for x in found)
        if names := dict.fromkeys(leaves):
            lines += _wrapped(f"{', '.join(names)}: {cut}, {cost}")
    if any(region.sums for region in plan.sharing.regions):
        lines.append("        what experts give: one sum each")
    if named:
        if caches := _caches(network, plan):
            text = ", ".join(one_line(name, 20) for name in caches)
            lines += _wrapped(f"{text}: taken and given in parts, no exchange")
        rest = "        the rest: whole on every device"
        lines += [rest, "Degrees tp may be " + ", ".join(map(str, network.degrees))]
    if degrees.pp > 1:
        starts = [network.units[i].path for i in plan.starts]
        text = f"stages begin at {', '.join(starts)}; {plan.batches} parts of a batch"
        lines += _wrapped(text)
    whole = sum(network.held.values())
    least, most = min(plan.held), max(plan.held)
    each = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    lines += ["", f"Weights  {each} bytes a device, of {whole:,}"]
    if named:
        made = [f"{n} {name}" for name, n in exchanges(network, plan).items()]
        most = max(exchange_bytes(network, x) for x in sharings(network, plan))
        text = f" in a call, {most:,} bytes a device{_at(network)}"
        lines += _wrapped((" and ".join(made) or "none") + text, "Exchange ")
    if degrees.pp > 1:
        sizes = ", ".join(f"{n:,}" for n in sent_bytes(network, plan, network.sizes))
        text = f"{sizes} bytes to the next stage, each once{_at(network)}"
        sliced = ", in a slice for each device, which are gathered"
        lines += _wrapped(text + sliced * (degrees.tp > 1), "Between  ")
    if degrees.pp > 1 and network.rows.joined:
        lines += _wrapped(f"a batch runs whole: {network.rows.joined}", "Batch    ")
    for other in others[:3]:
        lines += _wrapped(
            f"{other.degrees}, {other.seconds / plan.seconds:.2f} times the time",
            "Next     ",
        )
    law = "rows of a batch are computed apart"
    if named:
        law = (
            "columns of a product are the product with columns (to the bit, but for the"
            " order of sums); a product of cut rows is the sum of its parts"
        )
    elif degrees.pp > 1:
        law = "each stage computes what the whole does, to the bit"
    return [*lines, *_wrapped(law, "Law      ")]


def _at(network: Network) -> str:
    """The sizes that amounts are of."""
    taken = network.sizes.taken.items()
    sizes = ", ".join(f"{one_line(k, 20)} {n}" for k, n in taken)
    return f" ({sizes})" if sizes else ""


def _devices(plan: Plan) -> str:
    degrees = plan.degrees
    said = []
    if degrees.pp > 1:
        said.append(f"{degrees.pp} stages")
    if degrees.dp > 1:
        said.append(f"{degrees.dp} parts of a batch")
    if degrees.tp > 1:
        said.append(f"layers in {', '.join(map(str, degrees.each or [degrees.tp]))}")
    return " x ".join(said)


def _wrapped(text: str, head: str = "        ") -> list[str]:
    """Lines of at most 85 characters, the later ones indented."""
    wrapper = TextWrapper(85, head, " " * len(head), break_long_words=False)
    wrapper.break_on_hyphens = False
    return wrapper.wrap(text)
