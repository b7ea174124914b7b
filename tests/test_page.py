"""The page of `fairhand inspect --html`, and the stacks that it shows."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from emitted import EXAMPLES
from handmade import model, node, save

from fairhand.analysis.stacks import SAVING, Stack, stacks
from fairhand.codegen.cli import main

TRANSFORMER = EXAMPLES / "digits_transformer.onnx"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def page_of(path: Path, folder: Path) -> str:
    assert main(["inspect", str(path), "--html", str(folder / "page.html")]) == 0
    return (folder / "page.html").read_text("utf-8")


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(TRANSFORMER, tmp_path_factory.mktemp("page"))


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    assert not re.search(r"https?:|\bsrc=|<link|@import|\bfetch\(|\bimport\(", page)
    assert "innerHTML" not in page


def test_the_page_holds_every_node_and_decision(page: str) -> None:
    data = data_of(page)
    views, plan = data["views"], data["plan"]
    assert len(views["rewritten"]["labels"]) == len(plan["operators"])
    assert len(views["fused"]["labels"]) == len(plan["fusion"]["groups"])
    assert len(views["file"]["labels"]) == len(views["file"]["names"])
    assert len(views["rewritten"]["edges"]) == len(plan["fusion"]["edges"])
    assert all(a < b for view in views.values() for a, b in view["edges"])
    assert data["summary"][0].startswith("fusion dnnfusion: 88 operators in 15 groups")


def test_repeated_layers_are_stacked(page: str) -> None:
    """The transformer of the example has two equal blocks."""
    [[_, period, count]] = data_of(page)["views"]["rewritten"]["stacks"]
    assert (period, count) == (38, 2)


def test_names_cannot_end_the_data(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><!--"
    made = node("Relu", "x", "y", name=hostile)
    path = save(model(made), tmp_path)
    page = page_of(path, tmp_path)
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!--" not in page
    assert data_of(page)["plan"]["operators"][0]["name"] == hostile


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_works_in_a_browser(page: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page, "utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--virtual-time-budget=3000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    shown = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)
    assert "88 operators in 15 groups" in shown
    assert shown.count("<tbody>") == 2
    edges = len(data_of(page)["plan"]["fusion"]["edges"])
    assert shown.count("<tr>") == 2 + 16 + edges


# ---- stacks


def test_stacks_are_equal_runs_that_do_not_overlap() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        block = [chance.randrange(3) for _ in range(chance.randint(1, 6))]
        tokens = [chance.randrange(3) for _ in range(chance.randint(0, 10))]
        tokens += block * chance.randint(1, 6)
        tokens += [chance.randrange(3) for _ in range(chance.randint(0, 10))]
        end = 0
        for stack in stacks(tokens):
            assert stack.start >= end
            end = stack.start + stack.period * stack.count
            copies = [
                tokens[i : i + stack.period]
                for i in range(stack.start, end, stack.period)
            ]
            assert len(copies) == stack.count > 1
            assert all(copy == copies[0] for copy in copies)
            assert stack.period * (stack.count - 1) >= SAVING


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("abcdefgh", []),
        ("xabcabcabcy", [Stack(1, 3, 3)]),
        ("ababab", []),  # hides 4 elements: not worth it
        ("aaaaaaaaaa", [Stack(0, 2, 5)]),
        ("abcdabcdabcdxyzxyzxyz", [Stack(0, 4, 3), Stack(12, 3, 3)]),
    ],
)
def test_known_stacks(text: str, found: list[Stack]) -> None:
    assert stacks(text) == found


def test_a_stack_starts_where_least_is_cut() -> None:
    text = "bcabcabcabca"
    assert stacks(text) == [Stack(0, 3, 4)]
    text = "bcabcabcabcab"
    assert stacks(text, [9] * len(text)) == [Stack(0, 3, 4)]
    assert stacks(text, [1 if c == "c" else 9 for c in text]) == [Stack(1, 3, 4)]
