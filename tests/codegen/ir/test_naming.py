"""The tables that say where names come from: each with emitted text that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairhand.codegen.ir import naming

ROOT = Path(__file__).parents[3]
TEXTS = [
    path.read_text("utf-8")
    for pattern in (
        "tests/goldens/*.*",
        "generated/*/model.py",
        "tests/codegen/*/*.py",  # which compare what is emitted with text
    )
    for path in sorted(ROOT.glob(pattern))
]
TABLES = {
    name: table
    for name, table in vars(naming).items()
    if isinstance(table, tuple) and isinstance(table[0], naming.NameSource)
}


@pytest.mark.parametrize("name", TABLES)
def test_every_source_of_names_has_an_example(name: str) -> None:
    rows = TABLES[name]
    assert len({row.source for row in rows}) == len(rows)
    assert [row for row in rows if not any(row.example in text for text in TEXTS)] == []


def test_the_first_source_that_has_a_name_gives_it() -> None:
    asked = {row.source: lambda: "" for row in naming.CLASSES}
    asked |= {"path": lambda: "Mlp", "layers": lambda: "Block"}
    assert naming.first_name(naming.CLASSES, asked) == "Mlp"
