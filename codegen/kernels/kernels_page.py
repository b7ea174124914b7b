"""kernels.py: what its template is filled with."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

from ...analysis.literals import one_line
from ..emit.render import write_python
from ..plan.make_plan import helper_sources
from .kernel_set import Entry, Page
from .launch.autotuned import launches_of, name_of, sizes_of, without_options
from .launch.launcher import KernelSource
from .layout.layout import MAX_ROW

WIDTH = 80  # columns of a docstring


@dataclass(frozen=True)
class KernelPlan:
    """One kernel as the template sees it; `doc` are the lines of its docstring."""

    name: str
    text: KernelSource
    doc: tuple[str, ...]
    returned: str
    autotuned: str = ""  # the arguments of its decorator


def write_kernels(folder: Path, page: Page, title: str, file: str) -> None:
    """`title` and `file`, which are printable, are those of the model."""
    entries, gpu = page.entries, page.gpu
    kernels = [_plan(entry, page) for entry in entries]
    tried = entries if page.autotune else []
    texts = [without_options(e.text) if tried else e.text for e in entries]
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
        optional=any(text.optional for text in texts),
        rows=any("MAX_ROW" in text.fits for text in texts),
        warps=any("warps(n_cols)" in o for text in texts for o in text.launch),
        elements=any("ELEMENTS" in text.grid for text in texts),
        offsets=any("OFFSETS=" in o for text in texts for o in text.launch),
        parts=any("BLOCK=PART" in text.launch for text in texts),
        columns=any("MAX_DEPTH" in text.fits for text in texts),
        precise=any("PRECISION=precision()" in text.launch for text in texts),
        convolves_pixels=any(
            "PRECISION=conv_precision()" in text.launch for text in texts
        ),
        attends=any("query_tile(" in text.grid for text in texts),
        convolves=any("*stride" in text.launch for text in texts),
        decodes=any("n_each" in text.launch for text in texts),
        products=any("**tile" in text.launch for text in texts),
        tiled=any("tile_count(" in text.grid for text in texts),
        launches={name_of(e.text): launches_of(e.text) for e in tried},
        functions=helper_sources(
            dict.fromkeys(f for text in texts for f in text.functions)
        ),
        max_row=MAX_ROW,
        gpu=gpu,
        tuned={entry.name: entry.options for entry in entries if entry.options},
    )


def _plan(entry: Entry, page: Page) -> KernelPlan:
    traffic = entry.traffic
    assert traffic is not None
    count = len(entry.sites)
    first = one_line(entry.sites[0][0] if entry.sites[0] else "?", 40)
    places = f"at {count} places, first {first}" if count > 1 else f"at {first}"
    replaces = f"Replaces  {entry.text.operators}, {places}"
    launches = "2 launches" if entry.text.after else "1 launch"
    counted = (
        f"{_amount(traffic.fused)} in {launches} for {traffic.shape};"
        f" op by op {_amount(traffic.apart)} in {traffic.calls}"
    )
    doc = [
        *(line for text in entry.text.formula for line in _wrapped(text, 4)),
        "",
        *_wrapped(replaces, 10),
        *_wrapped(f"Traffic   {counted}", 10),
    ]
    names = [name for name, _ in entry.text.results]
    text = _tuned(entry) if page.gpu else entry.text
    made = KernelPlan(entry.name, text, tuple(doc), ", ".join(names))
    if not page.autotune:
        return made
    arguments = f"{name_of(text)}, {json.dumps(sizes_of(text))}"
    return replace(made, text=without_options(text), autotuned=arguments)


def _tuned(entry: Entry) -> KernelSource:
    """The options of a launch, the tile of a product above all, looked up by name."""
    text, call = entry.text, f'tuned("{entry.name}", '
    if "**tile" in text.launch:
        made = (re.sub(r"^tile = (.*)", rf"tile = {call}**\1)", s) for s in text.made)
        return replace(text, made=tuple(made))
    options = [o for o in text.launch if re.match(r"[A-Za-z_]+=", o)]
    launch = [o for o in text.launch if o not in options]
    launch.append(f"**{call}{', '.join(options)})")
    return replace(text, launch=tuple(launch))


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * indent)


def _amount(count: int) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"
