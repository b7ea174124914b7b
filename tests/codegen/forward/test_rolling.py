"""Rounds of statements that become a loop, and those that don't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir
import pytest

from fairhand.analysis.spelling.expr import Expr, Leaf, List, Name, Ref, render, spell
from fairhand.codegen.forward.loops.roll import Roller
from fairhand.codegen.forward.loops.rounds import Lists
from fairhand.codegen.ir.module_call import ListItem, ModuleCall, ModuleRef
from fairhand.codegen.ir.statement_tree import Statement, reads


class Lines:
    """Statements by the names of what they make and read: `layers[0](x)`, `x + y`."""

    def __init__(self) -> None:
        self.values: dict[str, ir.Value] = {}
        self.modules: dict[tuple[str, int], ModuleCall] = {}
        self.found: list[Statement] = []

    def value(self, name: str) -> ir.Value:
        return self.values.setdefault(name, ir.Value(name=name))

    def call(self, target: str, place: int, *given: str, attr: str = "layers") -> None:
        """`target = attr[place](given)`; `block` is a module, and no list."""
        run = self.modules.setdefault((attr, place), ModuleCall(f"{attr}.{place}"))
        self.add(target, ModuleRef(run, attr)(*[Ref(self.value(x)) for x in given]))

    def plus(self, target: str, a: str, b: str) -> None:
        self.add(target, Ref(self.value(a)) + Ref(self.value(b)))

    def add(self, target: str, expr: Expr) -> None:
        self.found.append(Statement((self.value(target),), expr, True))

    def lists(self) -> Lists:
        places = {m: at for at, m in self.modules.items() if at[0] != "block"}
        return Lists(places, Counter(attr for attr, _ in places.values()))

    def rolled(self, *results: str) -> list[str]:
        """The lines, when these are returned."""
        returned = spell(tuple(Ref(self.value(name)) for name in results))
        end = Statement((), returned, False, kind="return")
        roller = Roller(self.lists(), lambda value, makers: value in makers)
        return list(lines_of(roller.roll([*self.found, end])))


def lines_of(statements: Iterable[Statement]) -> Iterable[str]:
    def name(leaf: Leaf) -> str:
        assert isinstance(leaf, Ref | ModuleRef)
        return leaf.text if isinstance(leaf, ModuleRef) else leaf.value.name or "?"

    for s in statements:
        names = ", ".join("_" if t is None else t.name or "?" for t in s.targets)
        text = render(s.expr, name)
        if s.kind == "for":
            yield f"for {names if reads_any(s) else '_'} in {text}:"
        else:
            yield f"{names} = {text}" if names else text
        for body in s.bodies:
            yield from (f"    {line}" for line in lines_of(body))


def reads_any(loop: Statement) -> bool:
    body = (v for s in loop.bodies[0] for v in reads(s.expr))
    return not set(loop.targets).isdisjoint(body)


def rounds(lines: Lines, count: int, extra: str = "", attr: str = "layers") -> None:
    """y_i = layers[i](x_i); x_i+1 = x_i + y_i, or `extra` in the place of x_i."""
    for i in range(count):
        lines.call(f"y{i}", 0 if attr == "block" else i, f"x{i}", attr=attr)
        lines.plus(f"x{i + 1}", extra or f"x{i}", f"y{i}")


LOOP = [
    "x0 = x0",
    "for layer in self.layers:",
    "    y0 = layer(x0)",
    "    x1 = x0 + y0",
    "    x0 = x1",
]


def test_a_row_hands_on_what_each_round_makes() -> None:
    lines = Lines()
    rounds(lines, 3)
    assert lines.rolled("x3") == [*LOOP, "(x0,)"]


def test_a_list_of_as_many_numbers_is_none_that_a_row_fills() -> None:
    lines = Lines()
    rounds(lines, 3)
    lines.add("sizes", Name("torch.tensor")(List(*[spell(2)] * 3)))
    assert lines.rolled("x3", "sizes")[:5] == LOOP


def test_a_module_that_is_called_again_and_again() -> None:
    lines = Lines()
    rounds(lines, 3, attr="block")
    again = [line.replace("layer(", "block(") for line in LOOP]
    again[1] = "for _ in range(3):"
    assert lines.rolled("x3") == [*again, "(x0,)"]


def test_what_no_round_changes_goes_before_the_row() -> None:
    lines = Lines()
    lines.call("y0", 0, "x0", "mask2")
    lines.plus("x1", "x0", "y0")
    lines.plus("mask3", "mask", "mask")  # stands inside, needs nothing inside
    lines.call("y1", 1, "x1", "mask2")
    lines.plus("x2", "x1", "y1")
    first, _, *loop, end = lines.rolled("x2", "mask3")
    assert first == "mask3 = mask + mask" and end == "(x0, mask3)"
    assert loop[:2] == ["for layer in self.layers:", "    y0 = layer(x0, mask2)"]


@pytest.mark.parametrize("outside", ["y0", "y1", "x1"])
def test_no_row_where_an_earlier_round_is_read_outside(outside: str) -> None:
    lines = Lines()
    rounds(lines, 3)
    assert LOOP[1] not in lines.rolled("x3", outside)


def test_what_the_last_round_makes_may_be_read() -> None:
    lines = Lines()
    rounds(lines, 3)
    assert lines.rolled("x3", "y2") == [*LOOP, "(x0, y0)"]


@pytest.mark.parametrize(("count", "folds"), [(2, False), (3, True)])
def test_what_a_row_began_with_may_be_read_behind_it(count: int, folds: bool) -> None:
    lines = Lines()
    rounds(lines, count)
    assert (LOOP[1] in lines.rolled(f"x{count}", "x0")) == folds


def test_no_row_where_rounds_read_different_things() -> None:
    lines = Lines()
    rounds(lines, 3)
    lines.found[3].expr = Ref(lines.value("other")) + Ref(lines.value("y1"))
    assert LOOP[1] not in lines.rolled("x3")


@pytest.mark.parametrize(
    ("turns", "over"),
    [
        ("abab", "[a, b] * 2"),
        ("aabaab", "[a, a, b] * 2"),
        ("abaab", "([a, b, a] * 2)[:5]"),
        ("aabb", "(a, a, b, b)"),
        ("abca", ""),  # too many others
    ],
)
def test_values_that_take_turns(turns: str, over: str) -> None:
    lines = Lines()
    for i, other in enumerate(turns):
        lines.call(f"x{i + 1}", i, f"x{i}", other)
    found = lines.rolled(f"x{len(turns)}")
    assert (f"turns = {over}" in found) is bool(over)
    head = "for layer, a in zip(self.layers, turns, strict=True):"
    assert bool(over) is (head in found) is ("    x1 = layer(x0, a)" in found)


def test_two_values_that_take_turns_together() -> None:
    lines = Lines()
    for i in range(4):
        lines.call(f"x{i + 1}", i, f"x{i}", "ab"[i % 2], "cd"[i % 2])
    found = lines.rolled("x4")
    assert "turns = [(a, c), (b, d)] * 2" in found
    assert "for layer, a, c in zip(self.layers, turns, strict=True):" in found


def test_no_row_where_what_takes_turns_is_read_in_every_round() -> None:
    lines = Lines()
    for i in range(4):
        lines.call(f"x{i + 1}", i, f"x{i}", "ab"[i % 2], "a")
    assert not any(line.startswith("for") for line in lines.rolled("x4"))


def test_a_later_round_may_read_what_the_first_began_with() -> None:
    lines = Lines()
    for i in range(3):
        lines.call(f"y{i}", i, f"x{i}", "start")
        lines.plus(f"x{i + 1}", f"x{i}", f"y{i}")
    lines.plus("x0", "start", "start")
    lines.found.insert(0, lines.found.pop())
    assert "    y0 = layer(x0, start)" in lines.rolled("x3")


def test_lists_go_together() -> None:
    lines = Lines()
    for i in range(2):
        lines.call(f"y{i}", i, f"x{i}", attr="norms")
        lines.call(f"x{i + 1}", i, f"y{i}", attr="layers")
    assert lines.rolled("x2")[1:4] == [
        "for i in range(2):",
        "    y0 = self.norms[i](x0)",
        "    x1 = self.layers[i](y0)",
    ]


def test_a_list_that_is_called_out_of_order_is_no_row() -> None:
    lines = Lines()
    for i, place in enumerate((0, 2, 1)):
        lines.call(f"y{i}", place, f"x{i}")
        lines.plus(f"x{i + 1}", f"x{i}", f"y{i}")
    assert not [line for line in lines.rolled("x3") if line.startswith("for")]


@pytest.mark.parametrize("count", [2, 3])
def test_a_list_of_which_the_first_is_given_more(count: int) -> None:
    lines = Lines()
    lines.call("x1", 0, "x0", "more")
    for i in range(count):
        lines.call(f"x{i + 2}", i + 1, f"x{i + 1}")
    found = lines.rolled(f"x{count + 1}")
    assert ("for layer in self.layers[1:]:" in found) == (count == 3)


def test_a_row_of_two_lines_begins_with_what_has_no_line_of_its_own() -> None:
    lines = Lines()
    for i in range(2):
        lines.call(f"x{i + 1}", i, f"x{i}")
    assert not [line for line in lines.rolled("x2") if line.startswith("for")]
    lines.found.insert(0, Statement((lines.value("x0"),), Name("f")(), True))
    assert LOOP[1] in lines.rolled("x2")


def test_a_step_of_a_recurrence_may_divide_values() -> None:
    """As the cell of a GRU does."""
    lines = Lines()
    for k in range(6):
        parts = lines.value(f"a{k}"), lines.value(f"b{k}"), None
        halves = Name("chunk")(Ref(lines.value(f"h{k}")))
        lines.found.append(Statement(parts, halves, False))
        lines.plus(f"h{k + 1}", f"b{k}", f"a{k}")
    items = List(*(Ref(lines.value(f"h{k}")) for k in range(1, 7)))
    lines.add("hs", Name("torch.stack")(items))
    found = lines.rolled("hs")
    assert "for _ in range(6):" in found and "    a0, b0, _ = chunk(h0)" in found


@pytest.mark.parametrize("begin", ["h0", "end"])
def test_a_recurrence_whose_first_step_is_another(begin: str) -> None:
    """Two lists get what each step makes, unless one begins with what the last left."""
    lines = Lines()
    lines.plus("h0", "x", "b")
    for k in range(1, 6):
        lines.plus(f"s{k}", f"h{k - 1}", "x")
        lines.plus(f"h{k}", f"s{k}", f"h{k - 1}")
        lines.plus(f"g{k}", f"h{k}", f"s{k}")
    lines.plus("end", "h5", "b")
    for target, first, word in (("hs", begin, "h"), ("gs", "x", "g")):
        names = [first, *(f"{word}{k}" for k in range(1, 6))]
        items = List(*(Ref(lines.value(name)) for name in names))
        lines.add(target, Name("torch.stack")(items))
    found = lines.rolled("hs", "gs")
    assert ("for _ in range(5):" in found) == (begin == "h0")
    if begin == "h0":
        assert "outputs = [h0]" in found and "outputs = [x]" in found
        assert "    s1 = h0 + x" in found


@pytest.mark.parametrize("last", [7, 8])
def test_parts_and_two_lists_are_gone_through_by_number(last: int) -> None:
    """As ECAPA-TDNN does: two parts are joined before what the rounds make."""
    lines = Lines()
    parts = tuple(lines.value(f"p{k}") for k in range(8))
    lines.found.append(Statement(parts, Ref(lines.value("x")).chunk(8), False))
    lines.call("h1", 0, "p1", attr="convs")
    lines.call("y1", 0, "h1", attr="norms")
    for k in range(2, last):
        lines.plus(f"s{k}", f"p{k}", f"y{k - 1}")
        lines.call(f"h{k}", k - 1, f"s{k}", attr="convs")
        lines.call(f"y{k}", k - 1, f"h{k}", attr="norms")
    names = ["p0", *(f"y{k}" for k in range(1, last)), *(["p7"] if last == 7 else [])]
    joined = List(*(Ref(lines.value(name)) for name in names))
    lines.add("out", Name("torch.cat")(joined))
    found = lines.rolled("out")
    start = found.index(f"for i in range(1, {last - 1}):")
    assert (
        found[0] == "parts = x.chunk(8)"
        and found[start - 1] == "outputs = [parts[0], y1]"
    )
    assert found[start + 1 : start + 3] == [
        "    s2 = parts[i + 1] + y1",
        "    h2 = self.convs[i](s2)",
    ]
    ends = "[*outputs, parts[7]]" if last == 7 else "outputs"
    assert f"out = torch.cat({ends})" in found


def test_members_of_a_list_that_a_loop_reaches_are_told_apart() -> None:
    """What stands in a loop already is looked at for loops, too."""
    lines = Lines()
    item = Ref(lines.value("layer"))
    for k in range(5):
        call = ModuleCall(f"layers.{k}")
        reached = ListItem(item, label=ModuleRef(call, "layers"))
        lines.plus(f"y{k}", f"x{k}", f"x{k}")
        lines.add(f"x{k + 1}", reached(Ref(lines.value(f"y{k}"))))
    assert lines.rolled("x5")[0] == "y0 = x0 + x0"
