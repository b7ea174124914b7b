"""Blocks found by what repeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.emitted import imported
from support.golden_images import resnet
from support.golden_sequences import encoder
from support.networks import residual
from support.repeated_items import chain, residuals, spans
from support.traced import stripped

import fairhand
from fairhand.analysis.repeats.find_blocks import Block, find_blocks, widen
from fairhand.analysis.repeats.repeat_counts import one_apart
from fairhand.analysis.repeats.single_entry_regions import Item

NAMES = ("layers", "blocks")

# ---- blocks


def test_blocks_between_cuts_are_found() -> None:
    blocks = find_blocks(residuals("S" + "ArB+" * 3 + "H"))
    assert spans(blocks) == [(1, 5), (5, 9), (9, 13)]
    assert len({block.kind for block in blocks}) == 1


def test_nothing_is_found_where_nothing_repeats() -> None:
    assert find_blocks(residuals("SArB+CtD+H")) == []
    assert find_blocks(chain("ABCDEFG")) == []
    assert find_blocks([]) == []


def test_a_block_that_lacks_one_item_is_of_the_frequent_kind() -> None:
    blocks = find_blocks(residuals("S" + "ArBC+" * 3 + "ArB+" + "ArBC+"))
    assert spans(blocks) == [(1, 6), (6, 11), (11, 16), (16, 20), (20, 25)]
    assert len({block.kind for block in blocks}) == 1


def test_a_block_that_differs_more_is_not() -> None:
    blocks = find_blocks(residuals("S" + "ArBC+" * 2 + "AtDEFG+" + "ArBC+"))
    assert spans(blocks) == [(1, 6), (6, 11), (18, 23)]


def test_a_part_that_repeats_gives_way_to_the_block_around_it() -> None:
    """Squeeze and excitation (m..*) is in every block; some blocks lack the sum."""
    body = "ArBmCsD*E"  # "*" also reads what "m" does
    items: list[Item] = [Item("S", (), (0,), True)]
    for summed in (True, False, True, True, False):
        start = len(items) - 1
        for word in body + "+" * summed:
            at = len(items)
            gate = at - 5 if word == "*" else start if word == "+" else at - 1
            items.append(Item(word, (at - 1, gate), (at,), word.isupper()))
    blocks = find_blocks(items)
    assert [b.end - b.start for b in blocks] == [10, 9, 10, 10, 9]
    assert len({block.kind for block in blocks}) == 1


@pytest.mark.parametrize("layers", [(5, 6, 7), (6, 9, 5, 7)])
def test_layers_that_read_all_before_them_are_found(layers: tuple[int, ...]) -> None:
    """Dense blocks: the first of a block has one operand, and joins nothing."""
    items: list[Item] = [Item("S", (), (0,), True)]
    for number in layers:
        given = [len(items) - 1]
        for i in range(number):
            for word in ["cat()"] * (i > 0) + list("NrArB"):
                at = len(items)
                first = word == ("cat()" if i else "N")
                reads = tuple(given) if first else (at - 1,)
                items.append(Item(word, reads, (at,), word.isupper()))
            given.append(len(items) - 1)
        at = len(items)
        items.append(Item("cat()", tuple(given), (at,), False))
        items.append(Item("T", (at,), (at + 1,), True))
    found = find_blocks(items)
    leaves = [leaf for block in found for leaf in block.inner or [block]]
    assert len(leaves) == sum(layers) and len({leaf.kind for leaf in leaves}) == 1


def test_kinds_in_turn_make_a_round() -> None:
    blocks = find_blocks(residuals("S" + ("QsKO+" + "FgD+") * 3 + "H"))
    assert spans(blocks) == [(1, 10), (10, 19), (19, 28)]
    assert spans(blocks[0].inner) == [(1, 6), (6, 10)]


def test_a_long_stretch_without_cuts_is_searched_for_what_comes_round() -> None:
    """Each item is read by the next one and by another behind it."""
    body = "ArB" * 16
    items = [
        Item(word, tuple(k for k in (i - 1, i - 4) if k >= 0), (i,), word.isupper())
        for i, word in enumerate(f"S{body}E")
    ]
    blocks = find_blocks(items)
    assert spans(blocks) == [(i, i + 3) for i in range(1, 49, 3)]


def branches(words: list[str]) -> list[Item]:
    """Straight lines that all begin with item 0, each joined with those before it."""
    items = [Item("S", (), (0,), True)]
    for line in words:
        last = len(items) - 1
        for i, word in enumerate(line):
            at = len(items)
            items.append(Item(word, (at - 1 if i else 0,), (at,), word.isupper()))
        at = len(items)
        items.append(Item("+", (at - 1, last), (at,), False))
    return items


def test_straight_lines_that_come_again_are_blocks() -> None:
    blocks = find_blocks(branches(["CrDr", "pCrDr", "CrDrT", "CrDr"]))
    assert [b.end - b.start for b in blocks] == [4, 4, 4, 4]
    assert len({block.kind for block in blocks}) == 1


def test_rows_of_one_layer_after_another_are_cut_nowhere() -> None:
    """Branches of one, two and three convolutions, and stages of two and three."""
    assert find_blocks(branches(["Cr", "CrCr", "CrCrCr", "CrCr", "Cr", "CrCr"])) == []
    assert find_blocks(chain("CrCrp" * 2 + "CrCrCrp" * 3)) == []


def test_lines_within_cells_are_parts_of_them() -> None:
    """A cell sums lines of what the two before it made, as in NASNet."""
    items = [Item("S", (), (0,), True), Item("S", (0,), (1,), True)]
    last, before = 1, 0
    for _ in range(8):
        ends = []
        for entry in (last, before, last, before):
            for i, word in enumerate("DPrDP"):
                at = len(items)
                items.append(Item(word, (at - 1 if i else entry,), (at,), word != "r"))
            ends.append(at)
        items.append(Item("cat()", (*ends, before), (at + 1,), False))
        last, before = at + 1, last
    blocks = find_blocks(items)
    assert [len(block.inner) for block in blocks] == [4] * 8
    assert {part.end - part.start for block in blocks for part in block.inner} == {5}


def test_what_stands_behind_every_block_ends_it() -> None:
    """As the norms of BERT: the one in front of the first block is not its own."""
    blocks = find_blocks(residuals("Sp" + ("ArB+p" + "CstD+p") * 3 + "H"))
    assert spans(blocks) == [(2, 13), (13, 24), (24, 35)]
    assert spans(blocks[0].inner) == [(2, 7), (7, 13)]


def test_what_leads_from_stage_to_stage_is_a_block() -> None:
    blocks = find_blocks(residuals("S" + ("ArB+" * 2 + "NDp") * 3 + "ArB+" * 2 + "H"))
    between = [(b.start, b.end) for b in blocks if b.is_between]
    assert between == [(9, 12), (20, 23), (31, 34)]
    assert len(blocks) == 11 and not any(block.inner for block in blocks)


@pytest.mark.parametrize("depths", [(1, 3), (1, 1, 3), (1, 1, 1, 2)])
def test_blocks_that_never_stand_apart_are_pairs(depths: tuple[int, ...]) -> None:
    """Kinds of attention take turns, with one kind of feed-forward, as in Swin."""
    words = "Np".join("QsKO+FgD+QtsKOt+FgD+" * depth for depth in depths)
    blocks = find_blocks(residuals("S" + words + "H"))
    assert [len(block.inner) for block in blocks] == [2] * 2 * sum(depths)
    assert len({block.kind for block in blocks}) == 2


def test_a_block_stands_in_rounds_everywhere_or_nowhere() -> None:
    """What leads to some of them belongs to none."""
    blocks = find_blocks(residuals("S" + "NpABr+" * 3 + "ArB+" * 3 + "H"))
    assert len({block.kind for block in blocks}) == 2
    blocks = find_blocks(residuals("S" + "NpArB+" * 3 + "ArB+" * 3 + "H"))
    assert [block.end - block.start for block in blocks] == [4] * 6


@pytest.mark.parametrize(
    ("depths", "last"),
    [((1, 3, 1, 2), "rB+"), ((2, 3), "rB+"), ((1, 2), "rB+"), ((2, 1, 3), "rB")],
)
def test_depth_is_a_number(depths: tuple[int, ...], last: str) -> None:
    """A row of residual blocks on one way, nothing on the other, and what joins them;
    the last row may lack the sums."""
    items: list[Item] = [Item("S", (), (0,), True)]

    def add(word: str, *reads: int) -> None:
        items.append(Item(word, reads, (len(items),), word.isupper()))

    for depth, tail in zip(depths, ["rB+"] * (len(depths) - 1) + [last], strict=True):
        start = len(items) - 1
        add("C", start)
        for _ in range(depth):
            entry = len(items) - 1
            add("A", entry)
            for word in tail:
                add(word, len(items) - 1, *([entry] if word == "+" else []))
        way = len(items) - 1
        add("D", start)
        add("cat(v...)", way, len(items) - 1)
        add("E", len(items) - 1)
        add("p", len(items) - 1)
    blocks = find_blocks(items)
    assert [len(block.inner) for block in blocks] == list(depths)
    assert len({block.kind for block in blocks}) == 1
    assert len({part.kind for block in blocks for part in block.inner}) == 1


@pytest.mark.parametrize(
    ("second", "begins"), [("v * v", (2, 6)), ("tanh(v)", (3, 7)), ("v + v", (3, 7))]
)
def test_parts_take_in_what_scales_their_input(
    second: str, begins: tuple[int, int]
) -> None:
    """As the norms without a mean of MobileBERT, in front of each of four parts."""
    words = ["S", "r", "v * v", "A", "B", "r", second, "A", "B", "H"]
    items = [
        Item(word, (i - 1,) if i else (), (i,), len(word) == 1)
        for i, word in enumerate(words)
    ]
    parts = [Block(3, 5, 1), Block(7, 9, 1)]
    widen([Block(1, 9, 0, parts)], items, {i: i + 1 for i in range(len(words))})
    assert tuple(part.start for part in parts) == begins


ITEMS = st.lists(
    st.tuples(
        st.sampled_from(["A", "B", "+", "r", "cat(v...)"]),
        st.lists(st.integers(1, 6), max_size=3),
    ),
    max_size=90,
)


def disjoint(blocks: list[Block], start: int, end: int) -> bool:
    """In order, none in another, all within [start, end); so are the inner ones."""
    at = start
    for block in blocks:
        if not at <= block.start < block.end <= end:
            return False
        if not disjoint(block.inner, block.start, block.end):
            return False
        at = block.end
    return True


@given(ITEMS, st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_blocks_are_disjoint_and_in_order(
    drawn: list[tuple[str, list[int]]], repeats: int
) -> None:
    words = (drawn * repeats)[:200]
    items = [
        Item(word, tuple(i - back for back in reads if back <= i), (i,), word in "AB")
        for i, (word, reads) in enumerate(words)
    ]
    blocks = find_blocks(items)
    assert disjoint(blocks, 0, len(items))
    kinds = [block.kind for outer in blocks for block in (outer, *outer.inner)]
    assert all(kinds.count(kind) > 1 for kind in kinds)


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_one_apart_is_one_edit(a: str, b: str) -> None:
    left, right = tuple(a), tuple(b)
    shorter, longer = sorted((left, right), key=len)
    removed = [longer[:i] + longer[i + 1 :] for i in range(len(longer))]
    changed = len(a) == len(b) and sum(map(str.__ne__, a, b)) == 1
    assert one_apart(left, right) == (changed or shorter in removed)


@pytest.mark.parametrize(
    ("make", "block", "count"),
    [
        (resnet, "BasicBlock", 6),
        (lambda: encoder(20, 3), "EncoderLayer", 3),
        (lambda: encoder(13, 2), "EncoderLayer", 2),
        (residual, "", 4),
    ],
    ids=["resnet", "encoder", "decomposed", "paths"],
)
def test_without_names_there_are_as_many_instances(
    make: Callable, block: str, count: int, tmp_path
) -> None:
    folder = tmp_path / "net"
    fairhand.compile(stripped(make()), folder, verify=False)
    module = imported(folder).load()
    (blocks,) = [m for name, m in module.named_children() if name in NAMES]
    assert len(blocks) == count and len({type(b) for b in blocks}) == 1
    if block:
        fairhand.compile(make(), folder, verify=False)
        named = [type(m).__name__ for m in imported(folder).load().modules()]
        assert named.count(block) == count
