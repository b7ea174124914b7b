"""kernels.py: what its template is filled with."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass
from pathlib import Path

from ...analysis.literals import one_line
from ..emit import write_python
from ..planner import helper_sources
from .collection import Entry
from .launcher import KernelText
from .layout import MAX_ROW

WIDTH = 80  # columns of a docstring


@dataclass(frozen=True)
class KernelPlan:
    """One kernel as the template sees it; `doc` are the lines of its docstring."""

    name: str
    text: KernelText
    doc: tuple[str, ...]
    returned: str


def write_kernels(folder: Path, entries: list[Entry], title: str, file: str) -> None:
    """`title` and `file` are those of the model, printable."""
    kernels = [_plan(entry) for entry in entries]
    texts = [kernel.text for kernel in kernels]
    helpers = dict.fromkeys(h for text in texts for h in text.helpers)
    functional = any("F." in line for text in texts for line in text.reference)
    write_python(
        folder / "kernels.py",
        "kernels.py.jinja",
        title=title,
        file=file,
        kernels=kernels,
        helpers=[
            inspect.getsource(h).replace(": Any", "").replace(" -> Any", "").strip()
            for h in helpers
        ],
        uses_functional=functional,
        rows=any("MAX_ROW" in text.fits for text in texts),
        elements=any("ELEMENTS" in text.grid for text in texts),
        parts=any("BLOCK=PART" in text.launch for text in texts),
        columns=any("MAX_DEPTH" in text.fits for text in texts),
        precise=any("PRECISION=precision()" in text.launch for text in texts),
        attends=any("BLOCK_M=query_tile(n_rows)" in text.launch for text in texts),
        products=any("**tile" in text.launch for text in texts),
        functions=helper_sources(
            dict.fromkeys(f for text in texts for f in text.functions)
        ),
        max_row=MAX_ROW,
    )


def _plan(entry: Entry) -> KernelPlan:
    shape, fused, apart = entry.example
    count = len(entry.sites)
    first = one_line(entry.sites[0][0] if entry.sites[0] else "?", 40)
    places = f"at {count} places, first {first}" if count > 1 else f"at {first}"
    replaces = f"Replaces  {entry.text.operators}, {places}"
    traffic = f"{_amount(fused)} for {shape}; {_amount(apart)} operator by operator"
    doc = [
        *(line for text in entry.text.formula for line in _wrapped(text, 4)),
        "",
        *_wrapped(replaces, 10),
        *_wrapped(f"Traffic   {traffic}", 10),
    ]
    names = [name for name, _ in entry.text.results]
    return KernelPlan(entry.name, entry.text, tuple(doc), ", ".join(names))


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * indent)


def _amount(count: int) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"
