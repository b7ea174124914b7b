"""Sizes for a model's dynamic dimensions, small and plausible for what they count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from ...analysis.shapes.requirements import Requirements
from ...rewrites.adapters.cleanup import inlined
from .index_limits import length_limits
from .solve_sizes import Unknowns, dynamic_dims

# What a dimension counts -> its sizes in the first, second and third try. In the third,
# dimensions that count the same thing differ from each other by the last number.
_SIZES = {
    "batch": (1, 3, 2, 0),
    "past": (5, 9, 6, 2),
    "length": (16, 7, 10, 1),
    "total": (21, 16, 16, 0),  # past and length together
    "image": (64, 96, 64, 32),
    "signal": (512, 800, 640, 32),
}
_BY_NAME = (  # the first pattern found in the dimension's name decides
    ("total", r"total"),
    ("past", r"past|cache"),
    ("batch", r"batch|^(n|b|bs)$"),
    ("length", r"seq|tok|len|^(s|t|l)$"),
    ("image", r"height|width|^(h|w)$"),
    ("signal", r"sample|frame|^time"),
)
_WINDOWED = frozenset({"AveragePool", "Conv", "ConvTranspose", "MaxPool", "Resize"})


def dynamic_sizes(model: ir.Model) -> list[dict[str, int]]:
    """Sizes to try for the dynamic dimensions: one empty dict if there are none.

    Keys are dimension names, "<input>#<axis>" where there is none, and expressions such
    as "past + seq" where an input declares one. A third try is there only where two
    dimensions count the same thing: they differ in it, and in no other.
    """
    unknowns, model = _unknowns(model), inlined(model)
    kinds = size_kinds(model)
    if not kinds:
        return [{}]
    limits = length_limits(model.graph)
    wanted = [_try(column, kinds, limits) for column in range(2)]
    solved = [unknowns.solve(sizes) for sizes in wanted]
    fixed = {
        key: size
        for key, size in solved[0].items()
        if size == solved[1][key] and wanted[0][key] != wanted[1][key]
    }
    free = {key: kind for key, kind in kinds.items() if key not in fixed}
    counts = Counter(free.values())
    if any(counts[kind] > 1 for kind in ("past", "length", "image")):
        third = _try(2, free, limits) | fixed
        solved.append(unknowns.solve({key: third[key] for key in kinds}))
    found = [_with_expressions(model, sizes) for sizes in solved]
    return [sizes for i, sizes in enumerate(found) if sizes not in found[:i]]


def telling_sizes(model: ir.Model) -> list[dict[tuple[str, int], int]]:
    """Two tries in which dimensions have different primes, or what is nearest to them,
    and one of `dynamic_sizes`, which sets apart what primes may not.

    Keys are inputs' names and axes; one empty dict if no size is open.
    """
    unknowns, plain = _unknowns(model), inlined(model)
    keys = list(size_kinds(plain))
    if not keys:
        return [{}]
    limits = length_limits(plain.graph)
    most = 20 * (len(keys) + 4)
    primes = [n for n in range(3, most) if all(n % d for d in range(2, n))]
    tries = []
    for some in (primes, primes[max(5, len(keys)) :]):
        wanted = dict(zip(keys, some, strict=False))
        wanted = {k: max(1, min(n, limits.get(k, n))) for k, n in wanted.items()}
        tries.append(_with_expressions(plain, unknowns.solve(wanted)))
    tries.append(dynamic_sizes(model)[-1])
    return [
        {
            (str(value.name), axis): sizes[key]
            for value in free_inputs(plain)
            for axis, key in dynamic_dims(value)
        }
        for sizes in tries
    ]


def decoding_sizes(model: ir.Model) -> list[dict[str, int]]:
    """Those of a prompt, before anything is cached, and of one token after it.

    None for a model that has no dimension that counts what is cached.
    """
    unknowns, plain = _unknowns(model), inlined(model)
    kinds = size_kinds(plain)
    if "past" not in kinds.values():
        return []
    found = []
    # Of nothing cached, any sizes can be made: what else there is has those of a run.
    first = dynamic_sizes(model)[0]
    for new in ("length", "past"):
        given = {kind: sizes[0] for kind, sizes in _SIZES.items()}
        given |= {"past": 0, "length": 1} | {new: given[new]}
        given["total"] = given["past"] + given["length"]
        wanted = {
            key: given[kind] if kind in ("past", "length", "total") else first[key]
            for key, kind in kinds.items()
        }
        found.append(_with_expressions(plain, unknowns.solve(wanted)))
    return found


def _unknowns(model: ir.Model) -> Unknowns:
    """What is required of a model's sizes; kept with it, as it takes a while to see."""
    found = model.meta.get("unknowns")
    if not isinstance(found, Unknowns):
        found = Unknowns(model)
        model.meta["unknowns"] = found
    return found


def note_requirements(model: ir.Model, found: Requirements) -> None:
    """Keep what was seen of a model while a copy of it was rewritten."""
    model.meta.setdefault("unknowns", Unknowns(model, found))


def first_sizes(model: ir.Model) -> dict[str, int]:
    """The sizes of the first try: those of a typical run."""
    return dynamic_sizes(model)[0]


def _try(
    column: int, kinds: Mapping[str, str], limits: Mapping[str, int]
) -> dict[str, int]:
    met: Counter[str] = Counter()
    sizes = {}
    for key, kind in kinds.items():
        size = _SIZES[kind][column]
        if column == 2:
            size += _SIZES[kind][3] * met[kind]
            met[kind] += 1
        if key in limits:
            size = max(1, min(size, limits[key] - (column == 1)))
        sizes[key] = size
    return sizes


def free_inputs(model: ir.Model) -> Iterator[ir.Value]:
    """The inputs that have no default."""
    for value in model.graph.inputs:
        if value.name not in model.graph.initializers:
            yield value


def size_kinds(model: ir.Model) -> dict[str, str]:
    """Key of each independent dynamic dimension -> what it counts."""
    named = {
        key
        for value in free_inputs(model)
        for _, key in dynamic_dims(value)
        if key.isidentifier()
    }
    kinds: dict[str, str] = {}
    for value in free_inputs(model):
        for axis, key in dynamic_dims(value):
            if key not in kinds and not _symbols(key, named):
                kinds[key] = _kind(value, axis, key)
    if "past" in kinds.values():
        kinds |= {x: "total" for x in _of_masks(model) if kinds.get(x) == "length"}
    return kinds


def _of_masks(model: ir.Model) -> set[str]:
    """Keys of what masks alone have: in a decoder, what is cached and what is new."""
    found: tuple[set[str], set[str]] = set(), set()
    for value in free_inputs(model):
        is_mask = re.match(r"(?!.*(encoder|cross)).*mask", str(value.name), re.I)
        found[is_mask is None].update(key for _, key in dynamic_dims(value))
    return found[0] - found[1]


def _symbols(key: str, named: set[str]) -> frozenset[str]:
    """The dimensions that an expression such as "past + seq" is made of, or none."""
    if key.isidentifier() or len(key) > 100 or "**" in key or "#" in key:
        return frozenset()
    try:
        symbols = ir.SymbolicDim(key).free_symbols()
    except Exception:  # any text may stand there
        return frozenset()
    return symbols if symbols <= named else frozenset()


def _with_expressions(model: ir.Model, sizes: dict[str, int]) -> dict[str, int]:
    """`sizes`, and those of the dimensions declared as expressions of the others."""
    full = dict(sizes)
    for value in free_inputs(model):
        for _, key in dynamic_dims(value):
            if key not in full:
                size = ir.SymbolicDim(key).evaluate(sizes)
                full[key] = max(0, size) if isinstance(size, int) else 1
    return full


def complete(model: ir.Model, sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes`, and the sizes of the first try for the dimensions that it leaves out."""
    first = dynamic_sizes(model)[0]
    independent = {key: sizes.get(key, first[key]) for key in size_kinds(model)}
    return _with_expressions(model, independent) | dict(sizes)


def _kind(value: ir.Value, axis: int, key: str) -> str:
    """What a dimension counts, by its name, then by the input and the axis."""
    rank = len(value.shape or ())
    found = (kind for kind, name in _BY_NAME if re.search(name, key, re.IGNORECASE))
    kind = "" if "#" in key else next(found, "")
    if not kind and axis == 0 and rank > 1:
        return "batch"
    if not kind and re.search("past|cache", str(value.name), re.IGNORECASE):
        return "past"
    if kind in ("", "length") and _reaches_window(value):
        return "image" if rank > 3 else "signal"
    return kind or "length"


def _reaches_window(value: ir.Value) -> bool:
    """Whether the first operators that an input meets lead to a convolution or pool."""
    if value.dtype is None or value.shape is None:
        return False
    if value.dtype.is_integer() and len(value.shape) < 3:  # tokens
        return False
    waiting, seen = [value], {value}
    while waiting and len(seen) < 64:
        for node, _ in waiting.pop(0).uses():
            if node.op_type in _WINDOWED:
                return True
            fresh = [out for out in node.outputs if out not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
    return False
