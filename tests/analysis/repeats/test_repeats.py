"""Blocks found by what repeats, and loops found in the statements of a body."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
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
from fairhand.analysis.repeats.block_boundaries import widen
from fairhand.analysis.repeats.find_blocks import Block, find_blocks
from fairhand.analysis.repeats.repeat_counts import one_apart
from fairhand.analysis.repeats.single_entry_regions import Item
from fairhand.analysis.spelling.expr import Expr, Leaf, Ref, spell
from fairhand.codegen.forward.loops.layer_loops import (
    RolledLoop,
    Statement,
    find_rows,
    roll_lines,
)
from fairhand.codegen.ir.module_call import ModuleCall
from fairhand.codegen.modules.members import Attribute

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


NAMES = ("layers", "blocks")

# ---- rows


class Place(Leaf):
    """Member `place` of a list."""

    __slots__ = ("attr", "place")

    def __init__(self, attr: str, place: int) -> None:
        super().__init__()
        self.attr, self.place = attr, place


def indexed(leaf: Leaf) -> tuple[str, int] | None:
    return (leaf.attr, leaf.place) if isinstance(leaf, Place) else None


class Lines:
    """Statements by the names of what they make and read: `l0(x)`, `x + y`."""

    def __init__(self) -> None:
        self.values: dict[str, ir.Value] = {}
        self.found: list[Statement] = []

    def value(self, name: str) -> ir.Value:
        return self.values.setdefault(name, ir.Value(name=name))

    def call(self, target: str, place: int, *reads: str, attr: str = "layers") -> None:
        args = [Ref(self.value(name)) for name in reads]
        self.add(target, Place(attr, place)(*args))

    def plus(self, target: str, a: str, b: str) -> None:
        self.add(target, Ref(self.value(a)) + Ref(self.value(b)))

    def add(self, target: str, expr: Expr) -> None:
        targets = (self.value(target),) if target else ()
        self.found.append(Statement(targets, expr, True))

    def done(self, *results: str) -> list[Statement | RolledLoop]:
        self.add("", spell(tuple(Ref(self.value(name)) for name in results)))
        return find_rows(self.found, indexed, set())


def rounds(lines: Lines, count: int, extra: str = "") -> None:
    """y_i = layers[i](x_i); x_i+1 = x_i + y_i, or `extra` in the place of x_i."""
    for i in range(count):
        lines.call(f"y{i}", i, f"x{i}")
        lines.plus(f"x{i + 1}", extra or f"x{i}", f"y{i}")


def test_a_row_carries_what_each_round_hands_on() -> None:
    lines = Lines()
    rounds(lines, 3)
    row, returned = lines.done("x3")
    assert isinstance(row, RolledLoop) and isinstance(returned, Statement)
    assert row.count == 3 and len(row.body) == 2
    assert row.carried == {lines.value("x0"): lines.value("x1")}
    assert row.twins[lines.value("x3")] is lines.value("x1")
    assert row.reads() == {lines.value("x0")}


def test_what_no_round_changes_goes_before_the_row() -> None:
    lines = Lines()
    lines.call("y0", 0, "x0", "mask2")
    lines.plus("x1", "x0", "y0")
    lines.plus("mask3", "mask", "mask")  # stands inside, needs nothing inside
    lines.call("y1", 1, "x1", "mask2")
    lines.plus("x2", "x1", "y1")
    mask, row, _ = lines.done("x2", "mask3")
    assert isinstance(mask, Statement) and mask.targets == (lines.value("mask3"),)
    assert isinstance(row, RolledLoop) and row.count == 2
    assert row.carried == {lines.value("x0"): lines.value("x1")}


@pytest.mark.parametrize("outside", ["y0", "y1", "x1"])
def test_no_row_where_an_earlier_round_is_read_outside(outside: str) -> None:
    lines = Lines()
    rounds(lines, 3)
    assert not [s for s in lines.done("x3", outside) if isinstance(s, RolledLoop)]


def test_what_the_last_round_makes_may_be_read() -> None:
    lines = Lines()
    rounds(lines, 3)
    assert isinstance(lines.done("x3", "y2")[0], RolledLoop)


@pytest.mark.parametrize(("count", "folds"), [(2, False), (3, True)])
def test_what_a_row_began_with_may_be_read_behind_it(count: int, folds: bool) -> None:
    lines = Lines()
    rounds(lines, count)
    assert isinstance(lines.done(f"x{count}", "x0")[0], RolledLoop) == folds


def test_no_row_where_rounds_read_different_things() -> None:
    lines = Lines()
    rounds(lines, 3)
    lines.found[3].expr = Ref(lines.value("other")) + Ref(lines.value("y1"))
    assert not [s for s in lines.done("x3") if isinstance(s, RolledLoop)]


def test_no_row_where_a_later_round_reads_what_the_first_began_with() -> None:
    lines = Lines()
    for i in range(3):
        lines.call(f"y{i}", i, f"x{i}", "x0")
        lines.plus(f"x{i + 1}", f"x{i}", f"y{i}")
    assert not [s for s in lines.done("x3") if isinstance(s, RolledLoop)]


def test_lists_go_together() -> None:
    lines = Lines()
    for i in range(2):
        lines.call(f"y{i}", i, f"x{i}", attr="norms")
        lines.call(f"x{i + 1}", i, f"y{i}", attr="layers")
    row, _ = lines.done("x2")
    assert isinstance(row, RolledLoop) and row.count == 2


def test_a_list_that_is_called_out_of_order_is_no_row() -> None:
    lines = Lines()
    for i, place in enumerate((0, 2, 1)):
        lines.call(f"y{i}", place, f"x{i}")
        lines.plus(f"x{i + 1}", f"x{i}", f"y{i}")
    assert not [s for s in lines.done("x3") if isinstance(s, RolledLoop)]


# ---- lines


def lines_of(first: str, rest: str = "") -> list[str]:
    calls = [f"x = self.layers[{i}](x{rest})" for i in range(1, 4)]
    members = [Attribute("layers", i, ModuleCall(f"layers.{i}")) for i in range(4)]
    folded = roll_lines([f"x = self.layers[0]({first})", *calls], members)
    return [line for line, _ in folded]


@pytest.mark.parametrize("given", ["image", "x + y", "f(x, y)[0]"])
def test_what_the_first_call_of_a_row_is_given_goes_before_it(given: str) -> None:
    head = [f"x = {given}", "for layer in self.layers:"]
    assert lines_of(given) == [*head, "    x = layer(x)"]
    assert lines_of(f"{given}, mask", ", mask") == [*head, "    x = layer(x, mask)"]


@pytest.mark.parametrize(
    ("given", "rest"),
    [("y, x", ", x"), ("a, b, c", ", c"), ("a", ", b"), ("f(y), g(x", "")],
)
def test_what_is_no_first_argument_stays_in_its_call(given: str, rest: str) -> None:
    first, *others = lines_of(given, rest)
    assert first == f"x = self.layers[0]({given})"
    assert others[0] == "for layer in self.layers[1:]:"
