"""generate.py and caches.py of a decoder's package."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...analysis.literals import short_literal
from ..emit.runtime_files import put_together
from ..emit.weights import float_types
from .decoder import Cache, Decoder

BLOCK = 64  # places
GENERATION = ("generate.py", "caches.py", "for_transformers.py")

_GENERATE = """\
Tokens, each from those before: greedy or drawn, in several rows at once.

    generate(load(), [[1, 2, 3]], 20, temperature=0.8, seed=7)

A tokenizer is the caller's to bring. The steps are caches.py's; nothing here depends on
the model.
"""
_CACHES = """\
Steps of the network with its caches, which are buffers that are written in place.

{room}
"""
_ROOM = {
    "before": "The network sees a multiple of BLOCK places, of which a mask hides those"
    " before a\nrow's first token: report.json says how little that changes.",
    "behind": "The network sees a multiple of BLOCK places, of which a mask hides those"
    " behind a\nrow's last token: report.json says how little that changes.",
    "counted": "The network sees a multiple of BLOCK places, and counts those in use:"
    " it compares\ntheir number with places, which hides the others.",
    "placed": "The network sees a multiple of BLOCK places, written where it is told.",
    "": "The network sees the places that are in use alone: {reason}.",
}


_CACHE_NOTE = """\
# Input -> the output that is the next one, and its sizes: "rows" of a batch, "places"
# of tokens; one without places is a state. CROSS are an encoder's, of the first step.\
"""
# What caches.py is told of a Decoder and a Layout.
_TOLD = """ids logits mask positions at branch given vocabulary most rows chunk together
    room""".split()
_NOTES = {
    "AT": "  # of new tokens in what is seen, the same for all rows",
    "BRANCH": "  # whether there is a past",
    "GIVEN": "  # inputs that are the caller's, and the same in every step",
    "WEIGHTS": "  # types of the floats that load() reads",
    "VOCABULARY": "  # tokens that there are",
    "ROWS": "  # that a batch must have; 0 for any number",
    "CHUNK": "  # tokens of a prompt that a step takes; 0 for all",
    "MOST": "  # tokens that there are places for; 0 for any number",
    "TOGETHER": "  # whether rows of unequal lengths share a step",
    "ROOM": '  # where places stand that are not in use; "" for nowhere',
    "BLOCK": "  # the network sees so many places, or a multiple; 1 for those in use",
}


@dataclass(frozen=True)
class Layout:
    """How generate.py calls a network, and what was tried of that."""

    chunk: int  # tokens of a prompt that a step takes; 0 for all
    rows: int  # that a batch must have; 0 for any number
    room: str = ""  # where more places may be shown: a key of _ROOM
    together: bool = False  # whether rows of unequal lengths share a step
    returned: bool = False  # whether caches are what the network gives back, as it is
    reason: str = "that more may be shown was not tried"  # where they may not
    certificate: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As report.json has it."""
        if not self.room:
            return {"room": "", "reason": self.reason}
        return {"room": self.room, "error": self.certificate["error"]}


def first_layout(decoder: Decoder) -> Layout:
    """What the network's inputs leave open, before anything is tried."""
    return Layout(decoder.chunk or (0 if decoder.branch else BLOCK), decoder.rows)


def write_generation(
    folder: Path, decoder: Decoder, layout: Layout, nested: bool
) -> None:
    """Put generate.py and the files that it needs into a package's folder, which has
    weights; `nested` tells whether forward takes lists."""
    weights = float_types(folder / "weights.safetensors")
    texts = generate_texts(decoder, layout, nested, weights)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def generate_texts(
    decoder: Decoder, layout: Layout, nested: bool, weights: tuple[str, ...]
) -> dict[str, str]:
    """The text of each file, where `weights` has floats of these types."""
    known = vars(decoder) | vars(layout)
    values = {name.upper(): known[name] for name in _TOLD}
    block = decoder.written or BLOCK
    values |= {"WEIGHTS": weights, "BLOCK": block if layout.room else 1}
    given = {
        name: f"{name} = {short_literal(value)}{_NOTES.get(name, '')}"
        for name, value in values.items()
    }
    given["CACHES"] = f"{_CACHE_NOTE}\nCACHES = {{{_rows(decoder.caches)}}}"
    given["CROSS"] = f"CROSS = {{{_rows(decoder.cross)}}}"
    room = _ROOM[layout.room].format(reason=layout.reason)
    files = {
        "caches.py": True,
        "returned.py": layout.returned,
        "behind.py": layout.room in ("behind", "counted", "placed"),
        "grouped.py": layout.room == "behind",
        "counted.py": layout.room == "counted",
        "placed.py": layout.room == "placed",
        "nested.py": nested,
    }
    used = [f"caches/{file}" for file, is_used in files.items() if is_used]
    names = ["Caches", "buffers", "check_fit", "converted", "fitting", "flat"]
    names += given
    docstring = _CACHES.format(room=room)
    adapter = "ForTransformers"
    return {
        "for_transformers.py": put_together(
            f"The network as transformers generates with it: {adapter}(load()).",
            ["generate/for_transformers.py"],
            [adapter],
            {},
        ),
        "generate.py": put_together(
            _GENERATE, ["generate/generate.py"], ["generate"], {}
        ),
        "caches.py": put_together(docstring, used, names, given),
    }


def _rows(caches: Sequence[Cache]) -> str:
    """Entries of CACHES; numbered ones that are alike are a comprehension."""
    alike: dict[tuple[str, str, tuple[int | str, ...]], list[Cache]] = defaultdict(list)
    for cache in caches:
        alike[_numbered(cache.input), _numbered(cache.output), cache.shape].append(
            cache
        )
    rows = []
    for (name, output, shape), members in alike.items():
        count = len(members)
        same = [
            (name.format(i=i), output.format(i=i)) == (cache.input, cache.output)
            for i, cache in enumerate(members)
        ]
        if count > 1 and all(same) and name != members[0].input:
            entry = f'f"{name}": (f"{output}", {short_literal(shape)})'
            rows.append(f"**{{{entry} for i in range({count})}}")
        else:
            rows += [
                f"{short_literal(c.input)}: {short_literal((c.output, c.shape))}"
                for c in members
            ]
    return ", ".join(rows)


def _numbered(name: str) -> str:
    """A name with {i} for its number, if an f-string can hold the rest."""
    if not re.fullmatch(r"[\w./:-]+", name, re.ASCII):
        return name.replace("{", "{{").replace("}", "}}")
    return re.sub(r"[0-9]+", "{i}", name, count=1)
