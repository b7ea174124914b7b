"""kernels.py: what its template is filled with."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....analysis.literals import literal, one_line
from ...emit.render import render_page, write_python
from ...ir.copied_source import helper_sources, names_read, picked
from ..layout.layout import MAX_ROW
from ..program.program import KernelProgram
from .launcher import KernelSource


@dataclass(frozen=True)
class Traffic:
    """Bytes of a kernel for the sizes in `shape`, and of the `calls` in PyTorch."""

    shape: str
    fused: int
    apart: int
    calls: int


@dataclass
class Entry:
    """A kernel, and the places that it would stand in."""

    text: KernelSource
    name: str = ""
    saved: float = 0.0
    sites: list[tuple[str, ...]] = field(default_factory=list)  # nodes at each place
    traffic: Traffic | None = None  # of one place
    taken: bool = False
    program: KernelProgram | None = None  # of the first place, with its numbers
    numbers: tuple[Any, ...] = ()
    options: dict[str, int] = field(default_factory=dict)  # of a launch, as tuned
    measured: str = ""  # what was measured, where something was


@dataclass(frozen=True)
class Page:
    """What stands in kernels.py; `gpu` is what it is tuned for, if it is."""

    entries: list[Entry]
    gpu: str = ""
    autotune: bool = False


Options = dict[str, int]  # of a launch, beside the heuristic's

WIDTH = 80  # columns of a docstring
_TILES = (
    (16, 32, 128, 4, 3),
    (32, 64, 64, 4, 3),
    (64, 64, 32, 4, 3),
    (64, 128, 32, 4, 4),
    (128, 64, 32, 4, 4),
    (128, 128, 32, 8, 3),
    (128, 256, 64, 8, 3),
)
_TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")

# Of these a kernel's time depends on: for others the launches are tried again.
_SIZES = frozenset("n_elements n_rows n_cols n_keys depth".split())
_STAGES = "num_stages"


def candidates(text: KernelSource) -> list[Options]:
    """What is tried; first of all what the heuristic says."""
    if text.tile:
        return [{}, *(dict(zip(_TILE, sizes, strict=True)) for sizes in _TILES)]
    if _has_keys(text):
        pairs = [(keys, warps) for keys in (32, 64, 128) for warps in (4, 8)]
        return [{}, *({"BLOCK_N": n, "num_warps": w} for n, w in pairs)]
    return [{}, *({"num_warps": warps} for warps in (1, 2, 4, 8, 16))]


def _has_keys(text: KernelSource) -> bool:
    """Whether it goes through the keys of attention, a block at a time."""
    return any(name == "BLOCK_N" for name, _ in text.keywords)


def _name_of(text: KernelSource) -> str:
    """What the constant with the launches that are tried is called."""
    if _has_keys(text):
        return "KEYS_AND_WARPS"
    return "TILES" if text.tile else "WARPS"


def _launches_of(text: KernelSource) -> list[str]:
    """The arguments of triton.Config for each, which has `num_stages` in any case."""
    fixed = [f"{name}={n}" for name, n in text.options if name == _STAGES]
    tried = candidates(text)[1:]
    assert not (fixed and any(_STAGES in options for options in tried))
    return [", ".join([_config(options), *fixed]) for options in tried]


def _config(options: Options) -> str:
    blocks = {name: n for name, n in options.items() if name.startswith("BLOCK")}
    others = [f"{name}={n}" for name, n in options.items() if name not in blocks]
    return ", ".join([json.dumps(blocks), *others])


def _without_options(text: KernelSource) -> KernelSource:
    """Without what the autotuner chooses: a grid is then a function of the tile."""
    chosen = {_STAGES}.union(*candidates(text))
    parameters = (
        replace(p, given="") if p.name in chosen else p for p in text.parameters
    )
    sides = ", ".join(f'tile["{side}"]' for side in ("BLOCK_M", "BLOCK_N"))
    programs = text.programs.format(tile=sides)
    return replace(
        text,
        parameters=tuple(parameters),
        options=tuple((name, n) for name, n in text.options if name not in chosen),
        tile="",
        starred="",
        programs=f"lambda tile: {programs}" if text.tile else programs,
    )


ON_CHIP = "elements of a row that one program keeps on chip"
TUNED = (
    "# Launches that were the fastest there, at the sizes in the kernels' docstrings."
)
# What kernels.py has whatever its kernels are, and what they may read of PyTorch.
ALWAYS = ("INTERPRETED", "is_supported", "runs_triton", "expect", "torch", "Tensor")
MODULES = {
    "F": ("torch.nn.functional", ""),
    "Any": ("typing", "Any"),
    "math": ("math", ""),
}


@dataclass(frozen=True)
class _KernelPlan:
    """One kernel as the template sees it; `doc` are the lines of its docstring."""

    name: str
    text: KernelSource
    doc: tuple[str, ...]
    returned: str
    autotuned: str = ""  # the arguments of its decorator


def write_kernels(folder: Path, page: Page, title: str, file: str) -> None:
    """Write kernels.py; `title` and `file`, which are printable, are the model's."""
    entries, gpu = page.entries, page.gpu
    tried = entries if page.autotune else []
    texts = [_without_options(e.text) if tried else e.text for e in entries]
    kernels = [
        render_page("kernel.py.jinja", kernel=_plan(entry, page)) for entry in entries
    ]
    functions = helper_sources(
        dict.fromkeys(f for text in texts for f in text.functions)
    )
    helpers = dict.fromkeys(h for text in texts for h in text.helpers)
    given = {"MAX_ROW": f"MAX_ROW = {MAX_ROW}  # {ON_CHIP}"}
    if gpu:
        rows = (f"{e.name!r}: {e.options},\n" for e in entries if e.options)
        options = "{" + "".join(rows) + "}"  # the last comma keeps a line for each
        given["GPU"] = f"GPU = {literal(gpu)}"
        given["TUNED"] = f"{TUNED}\nTUNED: dict[str, dict[str, int]] = {options}"
    found = picked(
        ["kernels/launch.py"],
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
            text.replace(": Any", "").replace(" -> Any", "")
            for text in helper_sources(helpers)
        ],
        launches={_name_of(e.text): _launches_of(e.text) for e in tried},
    )


def _plan(entry: Entry, page: Page) -> _KernelPlan:
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
    made = _KernelPlan(entry.name, text, tuple(doc), ", ".join(names))
    if not page.autotune:
        return made
    sizes = [p.name for p in text.parameters if p.name in _SIZES]
    arguments = f"{_name_of(text)}, {json.dumps(sizes)}"
    return replace(made, text=_without_options(text), autotuned=arguments)


def _tuned(entry: Entry) -> KernelSource:
    """The options of a launch, the tile of a product above all, looked up by name."""
    text, call = entry.text, f'tuned("{entry.name}", '
    if text.tile:
        return replace(text, tile=f"{call}**{text.tile})")
    named = ", ".join(f"{name}={given}" for name, given in text.keywords)
    parameters = (replace(p, given="") if p.constant else p for p in text.parameters)
    starred = f"{call}{named})"
    return replace(text, parameters=tuple(parameters), options=(), starred=starred)


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * indent)


def _amount(count: int) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"
