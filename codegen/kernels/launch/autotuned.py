"""`compile --autotune`: Triton's autotuner tries launches when a kernel first runs."""

from __future__ import annotations

import json
from dataclasses import replace

from .launcher import KernelSource
from .tuning import Options, candidates

# Of these a kernel's time depends on: for others the launches are tried again.
_SIZES = frozenset("n_elements n_rows n_cols n_keys depth".split())
_TILED = "**tile"
_STAGES = "num_stages="


def name_of(text: KernelSource) -> str:
    """What the constant with the launches that are tried is called."""
    if any(option.startswith("BLOCK_N=") for option in text.launch):
        return "KEYS_AND_WARPS"
    return "TILES" if _TILED in text.launch else "WARPS"


def launches_of(text: KernelSource) -> list[str]:
    """The arguments of triton.Config for each, which has `num_stages` in any case."""
    fixed = [option for option in text.launch if option.startswith(_STAGES)]
    tried = candidates(text)[1:]
    assert not (fixed and any("num_stages" in options for options in tried))
    return [", ".join([_config(options), *fixed]) for options in tried]


def _config(options: Options) -> str:
    blocks = {name: n for name, n in options.items() if name.startswith("BLOCK")}
    others = [f"{name}={n}" for name, n in options.items() if name not in blocks]
    return ", ".join([json.dumps(blocks), *others])


def sizes_of(text: KernelSource) -> list[str]:
    """The parameters of a kernel that launches are tried again for."""
    names = [line.partition(",")[0] for line in text.parameters]
    return [name for name in names if name in _SIZES]


def without_options(text: KernelSource) -> KernelSource:
    """Without what the autotuner chooses: a grid is then a function of the tile."""
    chosen = {f"{name}=" for options in candidates(text) for name in options}
    chosen.add(_STAGES)
    launch = [o for o in text.launch if not o.startswith(tuple(chosen))]
    if _TILED not in text.launch:
        return replace(text, launch=tuple(launch))
    sides = ", ".join(f'tile["{side}"]' for side in ("BLOCK_M", "BLOCK_N"))
    return replace(
        text,
        made=tuple(line for line in text.made if not line.startswith("tile = ")),
        launch=tuple(o for o in launch if o != _TILED),
        grid=f"lambda tile: {text.grid.replace(_TILED, sides)}",
    )
