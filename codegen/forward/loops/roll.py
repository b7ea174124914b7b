"""Finds rounds that a loop can say, and puts the loop in their place.

Rounds follow each other, from the call of one member of a list to the call of the next,
or with the same statements again and again; or they stand behind the items of a list
that is joined, as the steps of a recurrence or the levels of a pyramid. `Rounds` says
whether they can be a loop, this file whether that is worth it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice

import onnx_ir as ir

from ....analysis.graph.traversal import reached
from ....analysis.spelling.expr import (
    Call,
    Expr,
    Leaf,
    List,
    Literal,
    Ref,
    callee,
    joined,
    leaves,
    nodes,
    own_label,
    renamed,
)
from ...ir.module_call import ModuleRef
from ...ir.naming import LEVEL, PARTED
from ...ir.statement_tree import Statement, flat, reads
from .rounds import MOST_BEGINS, Lists, NotAlike, Rounds, alike

MIN_STEPS = 4  # of a recurrence
MIN_LEVELS, MIN_STATEMENTS = 3, 2  # of rounds that begin with a value each
MAX_TRIES = 3  # at how long a round may be
MIN_LAYERS = 3  # that each take all there is, or that are not a whole list

# Statements by the one value that each makes.
Makers = Mapping[ir.Value, Statement]


@dataclass(frozen=True, eq=False)
class _Proposal:
    """Rounds, the statements that they are, and which one the loop stands before."""

    rounds: Rounds
    gone: Collection[Statement]
    before: Statement


class Roller:
    """Rolls the statements of one forward.

    `goes_on` says whether a value would be called as what a row of layers makes of it.
    """

    def __init__(
        self, lists: Lists, goes_on: Callable[[ir.Value, Makers], bool]
    ) -> None:
        self.lists, self.goes_on = lists, goes_on
        self.loops: dict[Statement, Rounds] = {}
        # A statement in a loop -> those that it stands for.
        self.columns: dict[Statement, tuple[Statement, ...]] = {}

    def roll(
        self, statements: list[Statement], around: Set[ir.Value] = frozenset()
    ) -> list[Statement]:
        """The statements with loops; `around` is what others read of them."""
        ways = self._recurrences, self._levels, self._growing, self._rows, self._chains
        for find in ways:
            found: list[Statement] | None = statements
            while found is not None:
                statements = found
                rolled = (
                    self._placed(proposal, statements, around)
                    for proposal in find(statements)
                )
                found = next((x for x in rolled if x is not None), None)
        blocks = [s for s in statements if s.bodies]
        readers = Counter(v for s in statements for v in _read(s)) if blocks else {}
        for s in blocks:
            own = _read(s)
            made = {t for inner in flat([s]) for t in inner.targets if t is not None}
            read = {v for v in made if v in around or readers[v] > (v in own)}
            s.bodies = [self.roll(body, read) for body in s.bodies]
        return statements

    def _placed(
        self, found: _Proposal, statements: list[Statement], around: Set[ir.Value]
    ) -> list[Statement] | None:
        """The statements with the loop in the rounds' place, if nobody needs those."""
        rounds = found.rounds
        gone = {id(s) for s in found.gone}
        first = next(i for i, s in enumerate(statements) if id(s) in gone)
        at = statements.index(found.before)
        between = [s for s in statements[first:at] if id(s) not in gone]
        if any(s.kind in ("copy", "call", "break") for s in between):
            return None
        outside = [s for s in statements if id(s) not in gone]
        alone = rounds.own.isdisjoint(around) and rounds.is_closed(outside)
        if not alone or not rounds.takes_whole_caches:
            return None
        early, late = _apart(between, rounds.own)
        late += [s for s in statements[at:] if id(s) not in gone]
        cut = _cut(rounds, statements)
        parts = rounds.go_through(cut.targets) if cut else {}
        loop = rounds.loop()
        made = {t for s in flat(late) for t in s.targets}
        if any(not made.isdisjoint(_read(s)) for s in loop) or cut in late:
            return None  # what a list begins with is made of what the rounds leave
        for s in flat(late):
            s.expr = rounds.outside(s.expr)
        if cut:
            cut.targets, cut.result = (rounds.parts,), "parts"
            cut.inlines = len(parts) == rounds.count
            for s in flat([*statements, *loop]):
                s.expr = renamed(s.expr, parts)
        self.loops[loop[-1]] = rounds
        self.columns |= rounds.columns
        return [*statements[:first], *early, *loop, *late]

    # ---- what is joined

    def _recurrences(self, statements: list[Statement]) -> Iterator[_Proposal]:
        """Steps that hand on a state: what the second needs and the first doesn't.

        One that begins with zeros may be shorter than the others, and stands alone, as
        may what is joined in front of them and behind.
        """
        makers = {t: s for s in statements if not s.kind for t in s.targets if t}
        for join, whole in _joined(statements, MIN_STEPS):
            ends = [(a, b) for b in (None, -1) for a in range(MOST_BEGINS + 1)]
            for items in (whole[a:b] for a, b in ends):
                if len(items) < MIN_STEPS:
                    continue
                first, second = (_ancestors(makers, item) for item in items[:2])
                new = {t for t in second if first.isdisjoint(makers[t].targets)}
                rounds = self._aligned(makers, items, new)
                if rounds is None or (rounds.levels and not _cut(rounds, statements)):
                    continue
                yield self._collecting(rounds, join, statements, "outputs")

    def _levels(self, statements: list[Statement]) -> Iterator[_Proposal]:
        """The same of each value: all that an item alone needs, back to that value."""
        counts = Counter(v for s in flat(statements) for v in reads(s.expr))
        makers = {v: s for v, s in _makers(statements).items() if counts[v] == 1}
        for join, items in _joined(statements, MIN_LEVELS):
            rounds = self._aligned(makers, items, _ancestors(makers, items[1]))
            if rounds is None or rounds.states or rounds.numbers:
                continue
            if len(rounds.levels) == 1 and len(rounds.body) >= MIN_STATEMENTS:
                yield self._collecting(rounds, join, [join], f"{LEVEL}s")

    def _collecting(
        self, rounds: Rounds, join: Statement, statements: list[Statement], word: str
    ) -> _Proposal:
        joins = [s for s, _ in _joined(statements, rounds.count)]
        rounds.collect(joins, dict.fromkeys(rounds.images[0], word))
        rounds.word = "state"
        gone = [s for column in rounds.columns.values() for s in column]
        return _Proposal(rounds, gone, join)

    def _aligned(
        self, makers: Makers, items: Sequence[ir.Value], new: Set[ir.Value]
    ) -> Rounds | None:
        """What makes the items, as rounds; `new` are the values of the second one."""
        images = [self._image(makers, new, items[1], item) for item in items]
        if not images[0] or not all(images):
            return None
        back = {image: value for value, image in images[0].items()}
        order = {makers[t]: back[t] for t in makers if t in back}.values()
        try:
            return Rounds(
                [[makers[image[t]] for t in order] for image in images], self.lists
            )
        except NotAlike:
            return None

    def _image(
        self, makers: Makers, new: Set[ir.Value], pattern: ir.Value, value: ir.Value
    ) -> dict[ir.Value, ir.Value]:
        """For each new value that makes `pattern` the one that makes `value`; {} if
        another round does something else."""
        found: dict[ir.Value, ir.Value] = {}
        todo = [(pattern, value)]
        while todo:
            x, y = todo.pop()
            if x not in new or found.get(x) is y:
                continue
            if x in found or y not in makers:
                return {}
            places = (makers[v].targets.index(v) for v in (x, y))
            if len({*places}) > 1 or not alike(makers[x], makers[y], self.lists):
                return {}
            found[x] = y
            pairs = (reads(makers[v].expr) for v in (x, y))
            todo += zip(*pairs, strict=True)
        return found

    # ---- what follows each other

    def _growing(self, statements: list[Statement]) -> Iterator[_Proposal]:
        """All layers, each taking what all before it made, joined (DenseNet)."""
        for lists in (self.lists, self.lists.of_children()):
            for start, s in enumerate(statements[:-2]):
                attr, at = lists.place(_block(s)) or ("", -1)
                size = lists.sizes.get(attr, 0)
                gone = statements[start : start + 2 * size - 1]
                if at != 0 or size < MIN_LAYERS or len(gone) < 2 * size - 1:
                    continue
                rounds = [list(p) for p in zip(gone[1::2], gone[2::2], strict=True)]
                first = _as_joined(s, gone[1])
                try:
                    grown = Rounds([first, *rounds], lists) if first else None
                except NotAlike:
                    continue
                if grown is not None and grown.collected:
                    grown.in_one_line()
                    yield _Proposal(grown, gone, gone[-1])

    def _rows(self, statements: list[Statement]) -> Iterator[_Proposal]:
        """The same done with each member of a list in turn."""
        places = [self._places(s) for s in statements]
        users: dict[str, list[int]] = {}
        for i, names in enumerate(places):
            for name in names:
                users.setdefault(name, []).append(i)
        for start, s in enumerate(statements):
            starts = _starts(places, users, start) if s.targets and not s.kind else []
            if len(starts) < 2:
                continue
            kept = self._kept(statements, places, start)
            at = [k for k, i in enumerate(kept) if i in set(starts)]
            length = at[1] - at[0]
            count = next((k for k, i in enumerate(at) if i != k * length), len(at))
            rounds = [
                [statements[i] for i in kept[k * length : (k + 1) * length]]
                for k in range(count)
            ]
            yield from self._longest(rounds, statements)

    def _chains(self, statements: list[Statement]) -> Iterator[_Proposal]:
        """The same done again and again to what was made so far, by no list."""
        forms = [_form(s) for s in statements]
        users: dict[object, deque[int]] = {}
        for i, form in enumerate(forms):
            users.setdefault(form, deque()).append(i)
        for start, s in enumerate(statements):
            calls = any(isinstance(x, ModuleRef) for x in leaves(s.expr))
            steps = MIN_LAYERS if calls else MIN_STEPS
            later = users[forms[start]]
            later.popleft()
            for length in [i - start for i in islice(later, MAX_TRIES)]:
                again = _again(forms, start, length)
                rounds = ([*statements[i : i + length]] for i in again)
                least = list(islice(rounds, steps))
                found = self._alike(least)
                if found is not None and found.count == steps:
                    yield from self._longest([*least, *rounds], statements)

    def _longest(
        self, rounds: list[list[Statement]], statements: list[Statement]
    ) -> Iterator[_Proposal]:
        """As many rounds as are alike, then those up to one that is read outside."""
        words = {family.rows[0][0]: family.name for family in self.lists.made}
        makers = _makers(statements)
        while (found := self._alike(rounds)) is not None:
            found.collect(statements, words)
            gone = [s for part in rounds[: found.count] for s in part]
            behind = statements[statements.index(gone[-1]) + 1 :]
            if self._is_worth_it(found, makers, behind):
                yield _Proposal(found, gone, gone[-1])
            inside = set(gone)
            end = found.first_read(s for s in statements if s not in inside)
            if end >= found.count:
                return
            rounds = rounds[:end]

    def _alike(self, rounds: Sequence[Sequence[Statement]]) -> Rounds | None:
        """The longest beginning of several rounds that can be a loop."""
        found, low, high = None, 1, len(rounds)
        while low < high:
            count = (low + high + 1) // 2
            try:
                found = Rounds(rounds[:count], self.lists)
                low = count
            except NotAlike:
                high = count - 1
        return found

    def _is_worth_it(
        self, rounds: Rounds, makers: Makers, behind: Sequence[Statement]
    ) -> bool:
        """Whether a row is shorter as a loop, and as easy to read."""
        if not (rounds.states or rounds.collected):
            return False
        if rounds.numbers:
            return not (rounds.begins or rounds.levels) and rounds.count >= MIN_STEPS
        if rounds.levels and not (rounds.takes_turns and len(rounds.items) == 1):
            return False
        if not rounds.is_whole and (len(rounds.body) > 1 or rounds.count < MIN_LAYERS):
            return False  # where some of a list are read like the others, and more
        if rounds.count >= MIN_LAYERS or rounds.collected:
            return True
        # A copy of what the first of two rounds begins with would be a line more.
        begins = {state.initial for state in rounds.states}
        read = {v for s in behind for v in _read(s)}
        if not rounds.begins or not begins.isdisjoint(read):
            return False
        if rounds.is_whole and begins <= makers.keys():
            return True
        variables = {s.variable for r in self.loops.values() for s in r.states}
        return len(rounds.body) > 1 or all(
            value in variables or self.goes_on(value, makers) for value in begins
        )

    def _places(self, statement: Statement) -> dict[str, int]:
        """The lists that it reads from, and where."""
        listed = (self.lists.place(leaf) for leaf in leaves(statement.expr))
        return dict(place for place in listed if place is not None)

    def _kept(
        self,
        statements: Sequence[Statement],
        places: Sequence[dict[str, int]],
        start: int,
    ) -> list[int]:
        """What needs something that a member computes, from `start` on."""
        made: set[ir.Value | None] = set()
        kept = []
        for i in range(start, len(statements)):
            s = statements[i]
            needs = not s.targets or not made.isdisjoint(_read(s))
            if places[i] or needs:
                made.update(s.targets)
                kept.append(i)
        return kept


def _starts(
    places: Sequence[Mapping[str, int]],
    users: Mapping[str, Sequence[int]],
    start: int,
) -> list[int]:
    """Where rounds would begin: with the next of a list that the first begins with."""
    lists = places[start]
    if len(set(lists.values())) != 1:
        return []
    low = min(lists.values())
    found = [start]
    for i in sorted({i for name in lists for i in users[name] if i > start}):
        if any(places[i].get(name) == low + len(found) for name in lists):
            found.append(i)
    return found


def _again(forms: Sequence[object], start: int, length: int) -> Iterator[int]:
    """Where what stands at the start, of that length, stands once more behind it."""
    for i in range(start, len(forms), length):
        if forms[i : i + length] != forms[start : start + length]:
            return
        yield i


def _form(statement: Statement) -> object:
    """What a statement does, whatever to; one of its own where that is no round's."""
    if statement.kind or statement.bodies or not statement.targets:
        return statement
    return tuple(
        (type(x), isinstance(x, Leaf | Literal) or own_label(x), len(x.operands))
        for x in nodes(statement.expr)
    )


def _block(statement: Statement) -> Expr:
    """The block that a statement calls on one value, and no more; else the whole."""
    match statement.expr:
        case Call((ModuleRef() as block, Ref()), ()) if len(statement.targets) == 1:
            return block
    return statement.expr


def _cut(rounds: Rounds, statements: Sequence[Statement]) -> Statement | None:
    """What cuts a tensor in parts of which the rounds go through some in a row."""
    parts = next(iter(rounds.levels), ()) if len(rounds.levels) == 1 else ()
    for s in statements:
        if parts and parts[0] in s.targets and callee(s.expr) in PARTED:
            at = s.targets.index(parts[0])
            return s if s.targets[at : at + len(parts)] == parts else None
    return None


def _as_joined(layer: Statement, join: Statement) -> list[Statement] | None:
    """The first of the layers that grow, as if what it is given were joined, too."""
    match layer.expr.operands:
        case [_, Ref() as given, *_] if joined(join.expr):
            function, _, *options = join.expr.operands
        case _:  # it reads a member of a list, and calls none
            return None
    value = ir.Value()
    whole = Call(function, List(given), *options, label=join.expr.label)
    return [
        replace(join, targets=(value,), expr=whole, places=()),
        replace(layer, expr=renamed(layer.expr, {given.value: value})),
    ]


def _joined(
    statements: Sequence[Statement], least: int
) -> Iterator[tuple[Statement, list[ir.Value]]]:
    """Statements that join values, each another one, and those values."""
    for s in statements:
        items = joined(s.expr, ("torch.cat", "torch.stack"))
        values = [x.value for x in items if isinstance(x, Ref)]
        if least <= len(values) == len(items) == len(set(values)):
            yield s, values


def _makers(statements: Sequence[Statement]) -> dict[ir.Value, Statement]:
    single = (s for s in statements if len(s.targets) == 1 and not s.kind)
    return {s.targets[0]: s for s in single if s.targets[0] is not None}


def _ancestors(makers: Makers, value: ir.Value) -> set[ir.Value]:
    """A value, and what it is made of, as far as the makers are known."""
    made = reached([value], lambda v: reads(makers[v].expr) if v in makers else ())
    return made.keys() & makers.keys()


def _read(statement: Statement) -> set[ir.Value]:
    return {v for s in flat([statement]) for v in reads(s.expr)}


def _apart(
    statements: Sequence[Statement], made: Set[ir.Value]
) -> tuple[list[Statement], list[Statement]]:
    """Those that need nothing of what is made, and those that do."""
    early: list[Statement] = []
    late: list[Statement] = []
    needed: set[ir.Value | None] = set(made)
    for s in statements:
        needs = not needed.isdisjoint(_read(s))
        needed.update(t for inner in flat([s]) for t in inner.targets if needs)
        (late if needs else early).append(s)
    return early, late
