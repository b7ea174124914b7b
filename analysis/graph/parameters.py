"""Which constants of a file are parameters of the original network."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx_ir as ir

from .constants import uniform_number
from .element_types import is_float

# Exporters name what they fold after the operator, a letter, or a number.
_MADE_UP = re.compile(
    r"val_\d|onnx|_output(_|$)|(?<!\.)constant|constant(?!$)|^node_|^.$|lifted_tensor"
    r"|^scalar_tensor|^_(adaptive|cdist|conj|fft|log_softmax|native|reshape|scaled_dot|softmax|to_copy"
    r"|unsafe|upsample|weight_norm)"
    r"|(^|\.(?=\w+_\d+$))(add|arange|cat|clone|div|expand|index|mul|permute|reshape"
    r"|select|slice|squeeze|stack|sub|transpose|tri[lu]|unsqueeze|view|where"
    r"|(bitwise|logical)_(and|not|or)"
    r"|(new_)?(full|ones|zeros)(_like)?)(_\d+)?$",
    re.IGNORECASE,
)
# Exporters name numbers of their own after the module they are used in.
_BOUNDS = re.compile(r"\b(min|max)_val\b", re.IGNORECASE)


# In a value's `meta`: whether its uses say that it trains, where they say anything.
TRAINS = "trains"
# And whether it was computed, so that its name is a result's.
COMPUTED = "computed"
# And whether by more than moving a weight's numbers.
ALTERED = "altered"
# And whether an exporter numbered it.
_COUNTED = "counted"
_MANY = 12  # that nobody numbers by hand


def noted(value: ir.Value) -> str:
    """PARAMETER or BUFFER, if torch's exporter says so of a constant."""
    kind = value.metadata_props.get(_KIND, "")
    return kind if kind in ("PARAMETER", "BUFFER") else ""


def note_kind(value: ir.Value, kind: str) -> None:
    """Note PARAMETER or BUFFER, as torch's exporter does."""
    value.metadata_props[_KIND] = kind


def mark_counted(values: Iterable[ir.Value]) -> None:
    """Note which constants have numbers of all that an exporter named: v20, v57, v71.

    A program's own follow each other, as w1, w2 and w3, and are few.
    """
    alike: dict[str, list[tuple[int, ir.Value]]] = {}
    for value in values:
        found = re.fullmatch(r"([A-Za-z_]+)(\d{1,9})", value.name or "")
        if found and not noted(value):
            alike.setdefault(found[1], []).append((int(found[2]), value))
    for group in alike.values():
        numbers = [number for number, _ in group]
        gaps = max(numbers) - min(numbers) >= 2 * len(group) > 2
        if gaps or len(group) >= _MANY:
            for _, value in group:
                value.meta[_COUNTED] = True


def is_counted(value: ir.Value) -> bool:
    """Whether a constant's name is no word, but a number of an exporter's."""
    return bool(value.meta.get(_COUNTED))


def has_name(value: ir.Value) -> bool:
    """Whether a constant's name is the original program's, not an exporter's."""
    name = value.name or ""
    made_up = not noted(value) and (_MADE_UP.search(name) or _BOUNDS.search(name))
    return bool(re.fullmatch(r"[A-Za-z_][\w.-]*", name)) and not made_up


def is_saved(value: ir.Value) -> bool:
    """Whether the original's state_dict has a constant, as far as the file tells.

    Its name isn't a result's, and torch's exporter doesn't call it non-persistent.
    """
    if value.meta.get(COMPUTED) or value.metadata_props.get(_PERSISTENT) == "False":
        return False
    return has_name(value)


def names_member(value: ir.Value) -> bool:
    """Whether a constant's name says where it is kept: no result's, which an exporter
    counts, unless that is a weight that was computed."""
    return has_name(value) and (is_parameter(value) or not value.meta.get(COMPUTED))


def is_made_up(value: ir.Value) -> bool:
    """Whether a constant is an exporter's or this compiler's, and no program's."""
    return bool(value.meta.get("made")) or _is_made_up(value.name or "")


def is_filler(value: ir.Value, number: float) -> bool:
    """Whether an exporter put in zeros or ones for a parameter that a layer hasn't.

    `onnx::Conv_9` is what TorchScript's made of parameters: an untrained norm's.
    """
    names = value.meta.get("folded_from", ())
    if not (is_made_up(value) and all(map(_is_made_up, names))):
        return False
    if any(name.startswith("onnx::") for name in (value.name or "", *names)):
        return False
    return uniform_number(value.const_value) == number


def _is_made_up(name: str) -> bool:
    made_up = _MADE_UP.search(name) or _BOUNDS.search(name)
    return name.startswith("/") or made_up is not None


def is_derived(value: ir.Value) -> bool:
    """Whether an exporter computed a norm's scale, as a sum's name or TorchScript's
    numbers tell: of 1 + weight, what a state_dict calls weight is something else. Or a
    program has it under that name, as a package does then."""
    if noted(value) and (value.name or "").endswith(".scale"):
        return True
    names = (value.name or "", *value.meta.get("folded_from", ()))
    return any(map(_DERIVED.search, names))


_DERIVED = re.compile(r"^onnx::|(^|/)add(_\d+)?(_output_\d+)?$", re.IGNORECASE)


# What torch's exporter says of an initializer.
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_PERSISTENT = "pkg.torch.export.graph_signature.InputSpec.persistent"


def is_parameter(value: ir.Value) -> bool:
    """A float constant that trains: no buffer that the exporter noted; by its uses,
    else by that note, or a name like norm.weight."""
    if noted(value) == "BUFFER":
        return False
    if value.const_value is None or value.meta.get(TRAINS) is not None:
        return value.const_value is not None and bool(value.meta[TRAINS])
    name = value.name or ""
    named = "." in name and not _is_made_up(name)
    return is_float(value) and (named or bool(noted(value)))
