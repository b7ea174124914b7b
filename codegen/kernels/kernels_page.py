"""kernels.py: what its template is filled with."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

from ...analysis.literals import literal, one_line
from ..emit.render import render_page, write_python
from ..ir.copied_source import helper_sources, names_read, picked
from .kernel_set import Entry, Page
from .launch.autotuned import launches_of, name_of, sizes_of, without_options
from .launch.launcher import KernelSource
from .layout.layout import MAX_ROW

WIDTH = 80  # columns of a docstring
ON_CHIP = "elements of a row that one program keeps on chip"
TUNED = (
    "# Launches that were the fastest there, at the sizes in the kernels' docstrings."
)
# What kernels.py has whatever its kernels are, and what they may read of PyTorch.
ALWAYS = ("INTERPRETED", "is_supported", "runs_triton", "expect", "torch", "Tensor")
MODULES = {"F": ("torch.nn.functional", ""), "Any": ("typing", "Any")}


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
    tried = entries if page.autotune else []
    texts = [without_options(e.text) if tried else e.text for e in entries]
    kernels = [
        render_page("kernel.py.jinja", kernel=_plan(entry, page)) for entry in entries
    ]
    functions = helper_sources(
        dict.fromkeys(f for text in texts for f in text.functions)
    )
    helpers = dict.fromkeys(h for text in texts for h in text.helpers)
    given = {"MAX_ROW": f"MAX_ROW = {MAX_ROW}  # {ON_CHIP}"}
    if gpu:
        options = {e.name: e.options for e in entries if e.options}
        given["GPU"] = f"GPU = {literal(gpu)}"
        given["TUNED"] = f"{TUNED}\nTUNED: dict[str, dict[str, int]] = {options}"
    files = ["launch.py"] + ["optional.py"] * any(text.optional for text in texts)
    found = picked(
        [f"kernels/{name}" for name in files],
        [*ALWAYS, *(["Any"] if tried else []), *names_read([*kernels, *functions])],
        given,
        MODULES,
    )
    write_python(
        folder / "kernels.py",
        "kernels.py.jinja",
        title=title,
        file=file,
        imports=found.imports,
        constants=found.constants,
        definitions=[*found.definitions, *functions],
        kernels=kernels,
        helpers=[
            inspect.getsource(h).replace(": Any", "").replace(" -> Any", "").strip()
            for h in helpers
        ],
        launches={name_of(e.text): launches_of(e.text) for e in tried},
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
