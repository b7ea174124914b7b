"""How emitted networks read beside those that their ONNX files were exported from.

    python tests/tools/reading.py FOLDER [NAME ...] [--exporters dynamo script]

Each network of originals.py is exported to FOLDER, compiled at -O1, and counted: lines
of its classes beside the original's `__init__` and `forward`, classes that end in a
digit, local variables of one letter, statements that come again, and numbers that are a
root, a fraction or a multiple of pi but don't say so.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import logging
import math
import shutil
import statistics
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drawn_originals import chosen
from originals import files, original
from torch import nn

import fairhand

# Names of one letter that say what they are: along a residual chain, and of attention.
SAID = frozenset("xqkv_")
MOST = 4  # times that a statement may stand in one function


@dataclass
class Reading:
    """What was counted of one `model.py`."""

    lines: int
    original: int
    classes: list[str]
    known: set[str]
    local: Counter[str] = field(default_factory=Counter)
    repeated: list[str] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)

    @property
    def numbered(self) -> list[str]:
        """Classes whose names end in a digit, but those that the original has too."""
        return [c for c in self.classes if c[-1].isdigit() and c not in self.known]


def read(text: str, module: nn.Module) -> Reading:
    """Count what the source of a network says, beside the original it came of."""
    tree = ast.parse(text)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    lines = sum((c.end_lineno or 0) - c.lineno + 1 for c in classes)
    known = {type(m).__name__ for m in module.modules()}
    found = Reading(lines, lines_of(module), [c.name for c in classes], known)
    for kind in classes:
        for function in kind.body:
            if not isinstance(function, ast.FunctionDef):
                continue
            stored = {
                node.id
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            found.local.update(stored)
            said = Counter(map(ast.unparse, _statements(function)))
            found.repeated += [s for s, times in said.items() if times > MOST]
            found.numbers += filter(_is_unexplained, _floats(function))
    return found


def _statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Statements that hold no others; names of what they assign and read count."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return):
            yield node


def _floats(function: ast.FunctionDef) -> Iterator[float]:
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield abs(node.value)


def _is_unexplained(number: float) -> bool:
    """Whether a number of many digits is a simple root, fraction or multiple of pi."""
    if not 1e-6 < number < 1e6 or len(f"{number:.9g}".replace(".", "").strip("0")) < 5:
        return False
    values = (number, number**2, number / math.pi, number**2 / math.pi)
    return any(
        abs(x - round(x)) < 1e-6 * x and round(x) <= 4096
        for value in values
        for x in (value, 1 / value)
    )


def lines_of(module: nn.Module) -> int:
    """Lines of `__init__` and `forward` of the original's classes, but PyTorch's."""
    total = 0
    for kind in {type(m) for m in module.modules()}:
        if kind.__module__.startswith("torch.nn"):
            continue
        for name in ("__init__", "forward"):
            if name in vars(kind):
                source = textwrap.dedent(inspect.getsource(vars(kind)[name]))
                total += len(source.splitlines())
    return total


def report(rows: dict[str, Reading]) -> str:
    """The figures of all networks, and what is behind those that are missed."""
    classes = [name for row in rows.values() for name in row.classes]
    numbered = [name for row in rows.values() for name in row.numbered]
    names = Counter[str]()
    for row in rows.values():
        names.update(row.local)
    named = {name: n for name, n in names.items() if name not in SAID}
    letters = sum(n for name, n in named.items() if len(name) == 1)
    ratios = {name: row.lines / max(1, row.original) for name, row in rows.items()}
    long = {name: f"{r:.2f}" for name, r in ratios.items() if r > 1}
    middle, most = statistics.median(ratios.values()), max(ratios.values())
    again = {name: row.repeated for name, row in rows.items() if row.repeated}
    numbers = {name: row.numbers for name, row in rows.items() if row.numbers}
    return "\n".join(
        [
            f"{len(rows)} networks, {sum(row.lines for row in rows.values())} lines",
            f"lines beside the original's: median {middle:.2f}, largest {most:.2f}",
            f"classes that end in a digit: {len(numbered)} of {len(classes)}",
            f"variables of one letter: {letters} of {sum(named.values())}",
            f"statements more than {MOST} times: {sum(map(len, again.values()))}",
            f"numbers that don't say what they are: {sum(map(len, numbers.values()))}",
            f"longer: {long}",
            *(
                f"{name}: {' '.join(row.numbered)}"
                for name, row in rows.items()
                if row.numbered
            ),
            *(f"{name}: {said}" for name, said in (again | numbers).items()),
        ]
    )


def main() -> None:
    """Compile and count all that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--exporters", nargs="*", default=["dynamo"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    rows: dict[str, Reading] = {}
    for name, exporter, path in files(
        given.folder, chosen(given.names), given.exporters
    ):
        out = given.folder / "O1" / f"{name}_{exporter}"
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(exist_ok=True)
        try:
            fairhand.compile(path, out, verify=False)
        except fairhand.FairhandError as error:
            print(name, exporter, "refused:", str(error)[:200], flush=True)
            continue
        text = (out / "model.py").read_text(encoding="utf-8")
        rows[f"{name}.{exporter}"] = row = read(text, original(name).module)
        print(name, exporter, row.lines, row.original, *row.numbered, flush=True)
    print(report(rows))


if __name__ == "__main__":
    main()
