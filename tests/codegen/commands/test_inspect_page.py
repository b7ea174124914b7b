"""The page of `fairhand inspect --html`, and the stacks that it shows."""

from __future__ import annotations

import html
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.emitted import EXAMPLES
from support.handmade import model, node, save

from fairhand.analysis.repeats.repeat_counts import SAVING, Stack, stacks
from fairhand.codegen.cli import main

TRANSFORMER = EXAMPLES / "digits_transformer.onnx"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

# What somebody does on the page, and what is then to be seen.
USED = """<script>
const seen = {}, note = (what) => {
  const pixels = new Uint32Array(element("graph").getContext("2d").getImageData(
    0, 0, element("graph").width, element("graph").height).data.buffer);
  seen[what] = [new Set(pixels).size, nodes.length, element("legend").textContent];
};
const choose = (id, value) => {
  element(id).value = value; element(id).dispatchEvent(new Event("change"));
};
note("first");
choose("colour", "mapping"); note("mapping");
choose("view", "fused"); note("fused");
choose("view", "file"); note("file");
choose("view", "rewritten");
toggle(view.boxes[0]); note("opened");
toggle(view.boxes[0]); note("closed");
element("stacked").click(); note("open");
element("search").value = "gelu";
element("search").dispatchEvent(new Event("input"));
seen.found = [hits.size, element("found").textContent, chosen];
document.querySelector("#groups tbody tr").click();
seen.view = element("view").value;
element("found").textContent = JSON.stringify(seen);
</script>"""


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
    assert data["summary"][0].startswith("fusion dnnfusion: 83 operators in 6 groups")


def test_repeated_layers_are_stacked(page: str) -> None:
    """The transformer of the example has two equal blocks."""
    [[_, period, count]] = data_of(page)["views"]["rewritten"]["stacks"]
    assert (period, count) == (35, 2)


def test_names_cannot_end_the_data(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><!--"
    made = node("Relu", "x", "y", name=hostile)
    path = save(model(made), tmp_path)
    page = page_of(path, tmp_path)
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!--" not in page
    assert data_of(page)["plan"]["operators"][0]["name"] == hostile


def in_browser(page: str, folder: Path, *options: str) -> str:
    path = folder / "page.html"
    path.write_text(page, "utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--virtual-time-budget=3000", *options, path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout


@needs_chromium
def test_the_page_works_in_a_browser(page: str, tmp_path: Path) -> None:
    shown = in_browser(page, tmp_path, "--dump-dom")
    shown = re.sub(r"<script.*?</script>", "", shown, flags=re.DOTALL)
    assert "83 operators in 6 groups" in shown
    assert shown.count("<tbody>") == 2
    fusion = data_of(page)["plan"]["fusion"]
    assert shown.count("<tr>") == 2 + len(fusion["groups"]) + len(fusion["edges"])


@needs_chromium
def test_somebody_uses_the_page(page: str, tmp_path: Path) -> None:
    shown = in_browser(page + USED, tmp_path, "--dump-dom", "--window-size=1200,900")
    found = re.search(r'<output id="found">(.*?)</output>', shown)
    assert found is not None
    seen, data = json.loads(html.unescape(found[1])), data_of(page)
    sizes = {name: len(view["labels"]) for name, view in data["views"].items()}
    assert seen["first"][1] == sizes["rewritten"] - 38, "the second block is hidden"
    assert seen["closed"][1] == sizes["rewritten"] - 38
    assert seen["open"][1] == seen["opened"][1] == sizes["rewritten"]
    assert all(seen[which][0] > 20 for which in ("first", "mapping", "fused", "file"))
    assert "Many-to-Many" in seen["mapping"][2]
    assert seen["first"][2] == seen["file"][2] == ""
    gelu = [op["type"] for op in data["plan"]["operators"]].index("Gelu")
    assert seen["found"][1:] == ["2 found", gelu]
    assert seen["view"] == "fused"


TIMED = """<script>
const times = ["build", "fit", "search", "lanes"].map((name) => {
  element("search").value = "op77";
  const start = performance.now();
  window[name]();
  return performance.now() - start;
});
const middles = [];
for (const n of nodes) (middles[n.row] ??= []).push(n.x);
const far = middles.map((xs) => Math.abs(xs.reduce((a, b) => a + b) / xs.length));
const result = [nodes.length, hits.size, times, Math.max(...far)];
element("found").textContent = JSON.stringify(result);
</script>"""


@needs_chromium
def test_ten_thousand_nodes_are_usable(page: str, tmp_path: Path) -> None:
    chance, data = random.Random(0), data_of(page)
    count, plan = 10_000, data["plan"]
    edges = [[max(0, i - chance.randint(1, 9)), i] for i in range(1, count)]
    named = [plan["operators"][0] | {"name": f"op{i}"} for i in range(count)]
    plan["operators"] = named
    plan["fusion"]["groups"] = [
        {"operators": [i], "mapping": "One-to-One", "intensive": False}
        for i in range(count)
    ]
    tasks = [[i, i % 2, i / count, (i + 1) / count] for i in range(count)]
    plan["lanes"] |= {"lanes": [list(range(count)), []], "tasks": tasks, "seconds": 1}
    view = {"labels": ["Relu"] * count, "edges": edges, "stacks": []}
    data["views"] |= {"rewritten": view, "fused": view}
    start, end = page.index('id="data">') + len('id="data">'), page.index("</script>")
    shown = in_browser(
        page[:start] + json.dumps(data) + page[end:] + TIMED, tmp_path, "--dump-dom"
    )
    found = re.search(r'<output id="found">(.*?)</output>', shown)
    assert found is not None
    nodes, hits, times, far = json.loads(found[1])
    assert far < 2000, "rows wander off to one side: what fits is too small to read"
    assert (nodes, hits) == (count, 111)  # 77, 770 to 779, and 7700 to 7799
    assert max(times) < 1000, f"{times} ms to build, fit, search and draw lanes"


@needs_chromium
def test_a_screenshot_shows_more_than_a_frame(page: str, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    in_browser(page, tmp_path, f"--screenshot={picture}", "--window-size=1200,900")
    assert picture.stat().st_size > 30_000, "a blank page has 9,000 bytes"


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
