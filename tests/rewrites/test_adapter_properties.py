"""Each adapter over the space of its attributes: nodes drawn around the known cases.

pytest tests/rewrites/test_adapter_properties.py            a few of each
pytest -m slow tests/rewrites/test_adapter_properties.py    many
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from support.adapter_cases import Case
from support.drawn_nodes import Known, compared
from support.older_models import CASES

from fairhand.rewrites.normalise import ADAPTERS


def adapter_of(case: Case) -> str:
    """The name of the adapter that a node of that opset goes through."""
    fitting = [a for a in ADAPTERS if a.op == case.op and case.opset <= a.until]
    found = min(fitting, key=lambda a: a.until, default=None)
    return "" if found is None else f"{found.op} until {found.until}"


SIZES = (0, 1, 2, 3, 5, 8)
BY_ADAPTER: dict[str, list[Known]] = defaultdict(list)
for known in CASES:
    given = {f"x{i}": x for i, x in enumerate(known.inputs) if x is not None}
    feed = {k: x for k, x in given.items() if int(k[1:]) not in known.constant}
    BY_ADAPTER[adapter_of(known)].append((known.model(), feed))
BY_ADAPTER.pop("", None)


@pytest.mark.parametrize("name", BY_ADAPTER)
def test_drawn_nodes_compute_the_same(name: str, tmp_path: Path) -> None:
    assert compared(name, BY_ADAPTER[name], 6, tmp_path, SIZES, True) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_ADAPTER)
def test_many_drawn_nodes_compute_the_same(name: str, tmp_path: Path) -> None:
    assert compared(name, BY_ADAPTER[name], 300, tmp_path, SIZES, True) >= 200
