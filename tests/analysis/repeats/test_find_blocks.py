"""Blocks of networks whose file names none: as many as where it names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.emitted import imported
from support.golden_images import densenet, senet
from support.repeated_items import chain, residuals, spans
from support.traced import Traced, stripped
from torch import nn

import fairhand
from fairhand.analysis.repeats.find_blocks import find_blocks
from fairhand.analysis.repeats.single_entry_regions import (
    Item,
    find_regions,
)

# ---- regions


def items_of(*lines: str) -> list[Item]:
    """`"C a b"`: an item named C, a layer, reads what items a and b made."""
    found: list[Item] = []
    for i, line in enumerate(lines):
        word, *reads = line.split()
        found.append(Item(word, tuple(map(int, reads)), (i,), word.isupper()))
    return found


def test_a_region_is_where_ways_part_and_meet() -> None:
    items = items_of("S", "A 0", "r 1", "B 2", "+ 0 3", "H 4")
    assert [(r.start, r.end) for r in find_regions(items, ())] == [(1, 5)]
    assert find_regions(chain("ABCDE"), ()) == []


def test_regions_are_within_each_other() -> None:
    items = items_of("S", "A 0", "B 1", "C 2", "+ 3 1", "D 4", "+ 5 0", "H 6")
    (outer,) = find_regions(items, ())
    assert [(r.start, r.end) for r in outer.all()] == [(1, 7), (2, 5)]


def test_a_cell_reads_what_the_last_two_made() -> None:
    """As those of NASNet; a last step that reads nothing else is a part of it."""
    cell = ["A {0}", "B {1}", "+ {2} {3}", "r {4}"]
    items, last = items_of("S", "T 0", "r 1"), [0, 2]
    for _ in range(3):
        at = len(items)
        lines = items_of(*(line.format(*last, at, at + 1, at + 2) for line in cell))
        items += [replace(item, outputs=(at + i,)) for i, item in enumerate(lines)]
        last = [last[1], at + 3]
    items.append(Item("H", tuple(last), (len(items),), True))
    (whole,) = find_regions(items, ())
    assert [(r.start, r.end) for r in whole.inner] == [(3, 7), (7, 11), (11, 15)]


def test_what_two_values_enter_or_leave_is_none() -> None:
    items = items_of("S", "T", "A 0", "+ 2 0 1", "D 3")
    assert find_regions(items, ()) == []
    entered = find_regions(items, {1})  # by a value that may enter any
    assert [(r.start, r.end) for r in entered] == [(2, 4)]


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), max_size=40))
def test_regions_have_one_exit(backs: list[list[int]]) -> None:
    """And one entry, or two: what the two parts before a cell made."""
    reads = [tuple(i - b for b in row if b <= i) for i, row in enumerate(backs)]
    items = [Item("a", row, (i,), True) for i, row in enumerate(reads)]
    for region in (r for outer in find_regions(items, ()) for r in outer.all()):
        inside = range(region.start, region.end)
        entries = {v for i in inside for v in reads[i] if v < region.start}
        exits = {v for i, row in enumerate(reads) if i >= region.end for v in row}
        made = exits & set(inside)
        assert len(made) <= 1 and len(entries) <= 2
        assert len(entries) < 2 or made == {region.end - 1}


# ---- blocks


def test_blocks_whose_results_are_read_far_behind_are_found() -> None:
    """As those of a backbone: a pyramid takes what every second one makes."""
    items = residuals("S" + "ArB+" * 6)
    taps = (8, 16, 24)
    items += [Item("L", (tap,), (25 + i,), True) for i, tap in enumerate(taps)]
    items.append(Item("++", (25, 26, 27), (28,), False))
    blocks = find_blocks(items)
    assert spans(blocks) == [(i, i + 4) for i in range(1, 25, 4)]


def test_no_block_ends_within_a_region() -> None:
    """S and A do what a block does without its sum; but A begins a longer one."""
    items = items_of("S", "r 0", "B 1", "r 2", "A 3", "r 4", "B 5", "+ 6 3", "D 7")
    items += [Item("A", (8,), (9,), True), Item("r", (9,), (10,), False)]
    items += [Item("B", (10,), (11,), True), Item("+", (11, 8), (12,), False)]
    assert spans(find_blocks(items)) == [(4, 8), (9, 13)]


# ---- networks


def csp() -> onnx.ModelProto:
    """Stages of a split, bottlenecks on one half, and a join; one has no residual."""
    g = Traced(image=["batch", 3, 8, 8])

    def conv(x: str, name: str, wide: int, out: int, kernel: int = 1) -> str:
        return g.relu(g.conv2d(x, name, (wide, out, kernel)), f"{name}_act")

    x, kept = g.conv2d("image", "stem", (3, 8, 3)), []
    for i, (blocks, summed) in enumerate([(1, True), (2, True), (1, False)]):
        with g.module(f"stage{i}", "CSP" if blocks == 1 else "LongCSP"):
            y = conv(x, "cv1", 8, 4)
            for k in range(blocks):
                with g.module(f"m.{k}", "Bottleneck"):
                    z = conv(conv(y, "cv1", 4, 4), "cv2", 4, 4, 3)
                    y = g("Add", y, z) if summed else z
            joined = g("Concat", y, conv(x, "cv2", 8, 4), axis=1)
            x = conv(joined, "cv3", 8, 8)
        kept.append(x)
    return g.model(features=g("Concat", *kept, axis=1))


BLOCKS = [  # activation, whether there is a gate, channels before and behind
    ("Relu", False, 8, 12),
    ("Relu", False, 12, 12),
    ("Relu", True, 12, 8),
    ("Relu", True, 8, 8),
    ("HardSwish", True, 8, 12),
    ("HardSwish", True, 12, 12),
]


def gated() -> onnx.ModelProto:
    """Inverted residuals of two kinds of activation; some have a gate, some a sum."""
    g = Traced(image=["batch", 3, 8, 8])
    x = g.conv2d("image", "stem", (3, 8, 3))
    for i, (act, gate, wide, out) in enumerate(BLOCKS):
        with g.module(f"blocks.{i}", "InvertedResidual"):
            y = g(act, g.conv2d(x, "conv1", (wide, 16, 1)))
            y = g(act, g.conv2d(y, "conv2", (16, 16, 3), groups=16))
            if gate:
                with g.module("se", "SqueezeExcitation"):
                    z = g("ReduceMean", y, g.ints(-1, -2), keepdims=1)
                    z = g.relu(g.conv2d(z, "fc1", (16, 4, 1)))
                    z = g("HardSigmoid", g.conv2d(z, "fc2", (4, 16, 1)))
                    y = g("Mul", z, y)
            y = g.conv2d(y, "conv3", (16, out, 1))
            x = g("Add", y, x) if wide == out else y
    return g.model(features=g.relu(x))


def cells() -> onnx.ModelProto:
    """Each cell reads what the two before it made; all take what it is behind ReLU."""
    g = Traced(image=["batch", 3, 8, 8])
    last = [g.relu(g.conv2d("image", f"stem{i}", (3, 8, 3))) for i in range(2)]
    for i in range(4):
        with g.module(f"cells.{i}", "Cell"):
            left, right = (
                g.conv2d(x, name, (8, 4, 1))
                for x, name in zip(last, ("prev", "conv"), strict=True)
            )
            ways = [left]
            for k, x in enumerate((left, right, left, right)):
                with g.module(f"branches.{k}", "Branch"):
                    y = g.conv2d(g.relu(x), "conv1", (4, 4, 3), groups=4)
                    y = g.relu(g.conv2d(y, "conv2", (4, 4, 1)))
                    y = g.conv2d(y, "conv3", (4, 4, 3), groups=4)
                    ways.append(g.conv2d(y, "conv4", (4, 4, 1)))
            sums = g("Add", ways[1], ways[2]), g("Add", ways[3], ways[4])
            joined = g("Concat", left, *sums, axis=1)
            with g.module("out", "Conv2d"):
                joined = g.conv2d(joined, "out", (12, 8, 1))
        last = [last[1], g.relu(joined)]
    return g.model(features=g("Add", *last))


@pytest.mark.parametrize("make", [csp, gated, senet, densenet, cells])
def test_without_names_there_are_as_many(make: Callable, tmp_path: Path) -> None:
    """The classes that occur again; the stripped modules are verified, too."""
    found = []
    for kind, model in [("named", make()), ("stripped", stripped(make()))]:
        folder = tmp_path / kind
        fairhand.compile(model, folder)
        found.append(instances(imported(folder).load()))
    named, without = found
    assert abs(named.total() - without.total()) <= 1
    assert abs(max(named.values()) - max(without.values())) <= 1


def instances(network: nn.Module) -> Counter[str]:
    """How often each class of the module occurs that does so more than once."""
    own = type(network).__module__
    names = [type(m).__name__ for m in network.modules() if type(m).__module__ == own]
    return Counter({name: n for name, n in Counter(names).items() if n > 1})
