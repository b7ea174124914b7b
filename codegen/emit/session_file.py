"""session.py of a package: what differs between models is which definitions it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ...analysis.literals import literal, short_literal
from ..ir.engine_plan import EnginePlan
from ..ir.package_plan import PackagePlan, TensorPlan
from .runtime_files import put_together

DOCSTRING = """\
Session: model.py's network with the interface of onnxruntime.InferenceSession.

The same names, NumPy in and out, and the same feeds accepted and refused; one that does
not fit is a ValueError or a TypeError that names the input. No line here depends on the
model but ENGINE and what comes with it: the rest is in model.py and report.json.
"""
# What NumPy's types with a name in ONNX are; all others come in and go out by a table.
PLAIN = frozenset(
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool "
    "complex64 complex128".split()
)
# What of templates/runtime/session/ a type of another kind is read and written by.
FROM_ARRAY = {"narrow": "from_narrow", "bits": "from_bits"}
TO_PLAIN = {"narrow": "to_wider", "bits": "to_bits"}
READERS = {
    "optional": "read_optional",
    "map": "read_python",
    "list": "read_list",
    "strings": "read_strings",
}
WRITERS = {
    "optional": "write_optional",
    "map": "write_python",
    "list": "write_list",
    "strings": "write_python",
}


def session_text(plan: PackagePlan, runs_on: EnginePlan) -> str:
    """The text of session.py."""
    takes, gives = _types(plan.interface.inputs), _types(plan.interface.outputs)
    tables = {
        "FROM_ARRAY": _rows(FROM_ARRAY, takes),
        "TO_PLAIN": _rows(TO_PLAIN, gives),
        "READERS": _rows(READERS, takes),
        "WRITERS": _rows(WRITERS, gives),
    }
    files = {
        "session.py": True,
        "alone.py": runs_on.alone,
        "nested.py": plan.interface.nested,
        "graphs.py": has_graphs(plan),
        "equal_sizes.py": plan.interface.equal_sizes,
        "images.py": runs_on.channels_last and not plan.kernels,  # which reorder them
        "read_only.py": runs_on.caches,
        "own_memory.py": runs_on.makes,
        "types.py": any(tables.values()),
        "typed_inputs.py": tables["FROM_ARRAY"],
        "typed_results.py": tables["TO_PLAIN"],
        "object_inputs.py": tables["READERS"],
        "object_results.py": tables["WRITERS"],
    }
    used = [f"session/{file}" for file, is_used in files.items() if is_used]
    given = {name: f"{name} = {{{rows}}}" for name, rows in tables.items()}
    given |= {"ENGINE": f'ENGINE = "{runs_on.name}"  # of those in engines.py'}
    given["EQUAL_SIZES"] = f"EQUAL_SIZES = [{plan.interface.equal_sizes}]"
    if runs_on.alone:
        given["ENGINE"] = 'ENGINE = "eager"'
        given["NO_OTHER"] = f"NO_OTHER = {short_literal(runs_on.refused)}"
    return put_together(DOCSTRING, used, ["Session"], given)


def has_graphs(plan: PackagePlan) -> bool:
    """Whether a Session may replay CUDA graphs: of kernels, from tensors to tensors."""
    kinds = {kind_of(t.dtype) for t in plan.interface.tensors}
    return (
        bool(plan.kernels)
        and not plan.interface.nested
        and kinds <= {"", "narrow", "bits"}
    )


def kind_of(dtype: str) -> str:
    """What values of a type are, as in READERS and TO_PLAIN; "" for plain tensors."""
    outer, _, inner = dtype.partition("(")
    if inner:
        return {"seq": "list"}.get(outer, outer)  # else map, or optional
    if dtype == "object":
        return "strings"
    if re.match(r"u?int[24]|float[46]_", dtype):
        return "narrow"
    return "" if dtype in PLAIN else "bits"


def _with_inner(dtype: str) -> Iterator[str]:
    yield dtype
    if kind_of(dtype) in ("optional", "list"):
        yield from _with_inner(dtype.partition("(")[2][:-1])


def _types(tensors: Iterable[TensorPlan]) -> list[str]:
    """Types of these values, and those inside of lists and the like."""
    return list(dict.fromkeys(t for each in tensors for t in _with_inner(each.dtype)))


def _rows(functions: dict[str, str], types: list[str]) -> str:
    found = ((t, functions.get(kind_of(t))) for t in types)
    return ", ".join(f"{literal(t)}: {name}" for t, name in found if name)
