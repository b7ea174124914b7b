"""Thousands of files that are wrong or ask too much: compiled or refused, in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hostile_files import cases
from tools.hostile import COMPILED, REFUSED, outcome

from fairhand.analysis.errors import FairhandError
from fairhand.codegen.load.read_model import load

CASES = cases()
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_read(group: int, tmp_path: Path) -> None:
    """As far as a file is untrusted."""
    for number, name in enumerate([*CASES][group::GROUPS]):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            load(CASES[name](folder))
        except FairhandError as error:
            assert str(error)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES][::12])
def test_compiled_or_refused(name: str) -> None:
    kind, words = outcome(CASES[name], verify=True)
    assert kind in (COMPILED, REFUSED), words
