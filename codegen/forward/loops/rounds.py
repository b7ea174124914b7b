"""Rounds of statements that differ in little, as one loop.

Rounds are generalised, expression by expression, to the one that all are instances of.
What differs says which loop it is: the next module of a list, the next pair of a cache,
the next of several values or of some that take turns is what it goes over; numbers that
count on are its counter; what the round before made is a variable that it hands on; and
a list of all that was made so far is one that grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ....analysis.spelling.expr import (
    Expr,
    ExpressionList,
    Leaf,
    List,
    Literal,
    Name,
    Ref,
    Unary,
    exchange,
    generalised,
    nodes,
    renamed,
    same,
    spell,
    substitute,
)
from ...ir.assignment import LayerRef
from ...ir.cache_arguments import CacheArgument
from ...ir.module_call import ListItem, ModuleCall, ModuleRef
from ...ir.naming import LEVEL, list_item
from ...ir.statement_tree import Statement, flat, reads

MOST_BEGINS = 2  # of a list, in front of what the rounds make
CHILDREN = "children()"  # the list of all members, where each has a name of its own


class NotAlike(Exception):
    """Rounds that are no loop."""


@dataclass(frozen=True)
class Lists:
    """What stands in lists: members of a module, and caches that it takes and returns.

    `places` has for each module, layer's form and value the list, and where it stands
    there; `sizes` how many members the lists of modules have.
    """

    places: Mapping[object, tuple[str, int]]
    sizes: Mapping[str, int]
    children: Sequence[object] = ()  # all members, if each has a name of its own
    given: Sequence[CacheArgument] = ()
    made: Sequence[CacheArgument] = ()

    def of_children(self) -> Lists:
        """As if all members stood in one list."""
        places = {child: (CHILDREN, i) for i, child in enumerate(self.children)}
        return replace(self, places=places, sizes={CHILDREN: len(places)})

    def place(self, leaf: Expr) -> tuple[str, int] | None:
        """The list that a leaf stands in, and where."""
        match leaf:
            case ModuleRef():
                return self.places.get(leaf.call.shares or leaf.call)
            case LayerRef():
                return self.places.get(id(leaf.form))
            case Ref():
                return self.places.get(leaf.value)
        return None

    @property
    def collected(self) -> set[ir.Value]:
        """The results that are returned in lists."""
        return {v for family in self.made for row in family.rows for v in row}


@dataclass(frozen=True, eq=False)
class _State:
    """A variable that holds in each round what `value` was in the one before."""

    value: ir.Value  # of the first round
    initial: ir.Value
    variable: ir.Value


@dataclass(frozen=True, eq=False)
class _Collected:
    """A list that holds `begins` and gets `item` from each round; outside it is
    `whole`, with its `ends`."""

    whole: Expr
    begins: tuple[Expr, ...]
    ends: tuple[Expr, ...]
    item: Expr
    variable: ir.Value

    @property
    def filled(self) -> Expr:
        """How it is read behind the loop."""
        made = Ref(self.variable)
        return List(Unary(made, label="*"), *self.ends) if self.ends else made


class Rounds:
    """Statements that do the same in each round; `body` are the generalised ones.

    Values in it are those of the first round. Raises NotAlike where the rounds differ
    in more than a loop can say, or are not all as long as the first.
    """

    def __init__(self, rounds: Sequence[Sequence[Statement]], lists: Lists) -> None:
        self.count, self.lists = len(rounds), lists
        # What each round makes, by what the first makes.
        self.images: list[dict[ir.Value, ir.Value]] = [{} for _ in rounds]
        self.own: set[ir.Value] = set()
        self.begins: dict[str, int] = {}  # lists that the loop goes over, from where on
        self.items: dict[str, ir.Value] = {}  # the variables for members of lists
        self.states: list[_State] = []
        # Values that the rounds read in turn -> the variable that is each.
        self.levels: dict[tuple[ir.Value, ...], ir.Value] = {}
        self.turns = ir.Value(name="turns")
        self.parts = ir.Value(name="parts")
        # What they go through, in place of the levels, and where in it they begin.
        self.through: Expr | None = None
        self.first_part: tuple[int, ...] = ()
        self.counter = ir.Value(name="i")
        self.counter.meta["counter"] = True
        self.first = 0  # of the counter
        # Numbers that count on, by where they start and their step.
        self.numbers: dict[tuple[int, int], ir.Value] = {}
        self.collected: list[_Collected] = []
        self.places: tuple[int, ...] = ()  # of the line that fills a list
        self.word = ""  # what the variables of the loop are called
        if len({len(statements) for statements in rounds}) > 1:
            raise NotAlike
        columns = list(zip(*rounds, strict=True))
        for column in columns:
            self._pair(column)
        self.body = [
            replace(
                column[0],
                expr=self._generalised([s.expr for s in column]),
                places=tuple(place for s in column for place in s.places),
            )
            for column in columns
        ]
        self.columns = dict(zip(self.body, columns, strict=True))

    def _pair(self, column: Sequence[Statement]) -> None:
        """Note what stands in each round for what the first one makes."""
        first = column[0]
        unread = [t is None for t in first.targets]
        for image, s in zip(self.images, column, strict=True):
            plain = not (s.kind or s.bodies or s.groups)
            if not plain or s.inlines != first.inlines:
                raise NotAlike
            if [t is None for t in s.targets] != unread:
                raise NotAlike
            pairs = zip(first.targets, s.targets, strict=True)
            made = {a: b for a, b in pairs if a is not None and b is not None}
            image.update(made)
            self.own.update(made.values())

    def _generalised(self, exprs: Sequence[Expr]) -> Expr:
        found = generalised(exprs, self._hole)
        if found is None:
            raise NotAlike
        return found

    # ---- what differs

    def _hole(self, column: tuple[Expr, ...]) -> Expr | None:
        """What stands in the loop where the rounds have these."""
        first = column[0]
        if all(same(first, x) for x in column):
            return None if isinstance(first, Ref) and first.value in self.own else first
        if self.lists.place(first) is not None:
            return self._item(column)
        if all(isinstance(x, Ref) for x in column):
            return self._value([x.value for x in column if isinstance(x, Ref)])
        if all(isinstance(x, Literal) for x in column):
            return self._number([x.text for x in column if isinstance(x, Literal)])
        return self._grown(column) if isinstance(first, List) else None

    def _item(self, column: Sequence[Expr]) -> Expr | None:
        """The next module of a list, or the next value of a cache."""
        first, places = column[0], [self.lists.place(x) for x in column]
        attr, start = places[0] or ("", 0)
        if places != [(attr, start + k) for k in range(self.count)]:
            return None
        if self.begins.setdefault(attr, start) != start:
            return None
        if isinstance(first, Ref):
            return first
        if len({x.form.layer if isinstance(x, LayerRef) else "" for x in column}) > 1:
            return None  # blocks, and a layer that others go on with
        others = [x.call for x in column[1:] if isinstance(x, ModuleRef)]
        return self._reached(first, attr, others)

    def _reached(
        self, first: Expr, attr: str, others: Sequence[ModuleCall] = ()
    ) -> Expr:
        if isinstance(first, ModuleRef):
            first = ModuleRef(first.call, first.text, tuple(others))
        name = "layer" if attr == CHILDREN else list_item(attr)
        item = self.items.setdefault(attr, ir.Value(name=name))
        return ListItem(Ref(item), label=first)

    def _value(self, values: Sequence[ir.Value]) -> Expr | None:
        """What a round makes, takes over from the one before it, or begins with."""
        first, second = values[:2]
        if first in self.images[0]:
            return Ref(first) if self._are_images(first, values) else None
        made = next((u for u, v in self.images[0].items() if v is second), None)
        if made is not None and self._are_images(made, values[1:]):
            return Ref(self._state(made, first).variable)
        if not self.own.isdisjoint(values):
            return None
        word = LEVEL if len(set(values)) == self.count else first.name
        return Ref(self.levels.setdefault(tuple(values), ir.Value(name=word)))

    def _are_images(self, first: ir.Value, values: Iterable[ir.Value]) -> bool:
        """Whether values are what the rounds, in turn, have for one of the first's."""
        pairs = zip(self.images, values, strict=False)
        return all(image[first] is value for image, value in pairs)

    def _state(self, value: ir.Value, initial: ir.Value) -> _State:
        for state in self.states:
            if state.value is value and state.initial is initial:
                return state
        self.states.append(_State(value, initial, ir.Value(name=initial.name)))
        return self.states[-1]

    def _number(self, texts: Sequence[str]) -> Expr | None:
        """A number that counts on evenly."""
        if not all(map(str.isdecimal, texts)):
            return None
        start, step = int(texts[0]), int(texts[1]) - int(texts[0])
        even = [start + step * k for k in range(self.count)]
        if step <= 0 or list(map(int, texts)) != even:
            return None
        return Ref(self.numbers.setdefault((start, step), ir.Value(name="n")))

    def _grown(self, column: Sequence[Expr]) -> Expr | None:
        """[f], [f, f0], [f, f0, f1]: a list of all that the rounds before made."""
        begins, *made = column[-1].operands
        values = [x.value for x in made if isinstance(x, Ref)]
        item = next((u for u, v in self.images[0].items() if values[:1] == [v]), None)
        if item is None or not self._are_images(item, values):
            return None
        if len(values) < len(made) or not all(
            len(x.operands) == k and all(map(same, x.operands, column[-1].operands[:k]))
            for k, x in enumerate(column, 1)
        ):
            return None
        whole = List(begins, *(Ref(image[item]) for image in self.images))
        for known in self.collected:
            if same(known.whole, whole):
                return Ref(known.variable)
        variable = ir.Value(name="features")
        self.collected.append(_Collected(whole, (begins,), (), Ref(item), variable))
        return Ref(variable)

    # ---- what is outside

    def collect(
        self, outside: Iterable[Statement], words: Mapping[ir.Value, str]
    ) -> None:
        """Lists outside of what each round makes are filled by the loop.

        Those whose first value has one of the `words` are called like that. Items more,
        in front, are what the list begins with.
        """
        for whole in [x for s in flat(outside) for x in nodes(s.expr)]:
            items = whole.operands if isinstance(whole, List) else ()
            for start in range(min(MOST_BEGINS, len(items) - self.count) + 1):
                end = start + self.count
                item = generalised(items[start:end], self._image)
                read = reads(item) if item is not None else []
                word = words.get(read[0], "") if read else ""
                if item is not None and word:
                    made, ends = ir.Value(name=word), (items[:start], items[end:])
                    self.collected.append(_Collected(whole, *ends, item, made))
                    break

    def _image(self, column: tuple[Expr, ...]) -> Expr | None:
        values = [x.value for x in column if isinstance(x, Ref)]
        whole = len(values) == self.count and values[0] in self.images[0]
        return column[0] if whole and self._are_images(values[0], values) else None

    def is_closed(self, outside: Iterable[Statement]) -> bool:
        """Whether others read of what is made no more than the last round leaves."""
        read = {v for s in flat(outside) for v in reads(self._filled(s.expr))}
        return self.own.isdisjoint(read.difference(self.images[-1].values()))

    def first_read(self, outside: Iterable[Statement]) -> int:
        """How many rounds there are up to the first of which others read something."""
        read = {v for s in flat(outside) for v in reads(self._filled(s.expr))}
        ends = (k for k, x in enumerate(self.images, 1) if read & set(x.values()))
        return next(ends, self.count)

    def _filled(self, expr: Expr) -> Expr:
        def other(node: Expr) -> Expr | None:
            lists = (c for c in self.collected if isinstance(node, List))
            return next((c.filled for c in lists if same(c.whole, node)), None)

        return exchange(expr, other) if self.collected else expr

    def outside(self, expr: Expr) -> Expr:
        """An expression that stands behind the loop."""
        left: dict[ir.Value, ir.Value | Expr]
        left = {last: first for first, last in self.images[-1].items()}
        left |= {self.images[-1][s.value]: s.variable for s in reversed(self.states)}
        return renamed(self._filled(expr), left)

    def inside(self, expr: Expr) -> Expr:
        """An expression of the first round, as it stands in the loop."""

        def item(leaf: Leaf) -> Expr | None:
            attr, at = self.lists.place(leaf) or ("", -1)
            listed = self.begins.get(attr) == at and not isinstance(leaf, Ref)
            return self._reached(leaf, attr) if listed else None

        named: dict[ir.Value, ir.Value | Expr] = {
            state.initial: state.variable for state in self.states
        }
        named |= {values[0]: variable for values, variable in self.levels.items()}
        found = substitute(expr, item)
        if self.is_numbered:
            named |= self._by_number()
        return renamed(found, named)

    # ---- the loop

    @property
    def is_whole(self) -> bool:
        """Whether it goes over no part of a list of modules."""
        sizes = self.lists.sizes
        return all(sizes.get(x, self.count) == self.count for x in self.begins)

    @property
    def takes_whole_caches(self) -> bool:
        """Whether it goes over no part of a cache."""
        whole = all(len(family.rows) == self.count for family in self._caches())
        return whole and not any(self.begins[x] for x in self.begins if "." in x)

    def in_one_line(self) -> None:
        """Let what a list gets be computed where it gets it."""
        makers = {s.targets[0]: s.expr for s in self.body}
        places = tuple(place for s in self.body for place in s.places)
        (grown,) = self.collected
        item = grown.item
        while any(v in makers for v in reads(item)):
            item = renamed(item, makers)
        self.collected = [replace(grown, item=item)]
        self.body, self.columns, self.places = [], {}, places

    def loop(self) -> list[Statement]:
        """What stands before the loop, and the loop."""
        entry = [
            Statement((s.variable,), Ref(s.initial), False, self.word, kind="set")
            for s in self.states
        ]
        lines = [*self.body]
        for made in self.collected:
            name = made.variable.name or ""
            start = List(*made.begins)
            entry.append(Statement((made.variable,), start, False, name, kind="set"))
            call = Ref(made.variable).append(made.item)
            lines.append(Statement((), call, False, "", self.places, "call"))
        if self.states:
            handed = ExpressionList(*(Ref(s.value) for s in self.states))
            variables = tuple(s.variable for s in self.states)
            lines.append(Statement(variables, handed, False, kind="copy"))
        if self.takes_turns:
            (item,) = self.items.values()
            word = f"{item.name}_inputs"
            entry.append(Statement((self.turns,), self._in_turn(), False, word))
        return [*entry, self._head(lines)]

    def _head(self, body: list[Statement]) -> Statement:
        """The line that begins the loop."""
        parts: list[tuple[tuple[ir.Value | None, ...], Expr]] = [
            (family.rows[0], Name(family.name)) for family in self._caches()
        ]
        if self.levels and not (self.is_numbered and self.first_part):
            each = Ref(self.turns) if self.takes_turns else self.through
            each = self._in_turn() if each is None else each
            parts.append((tuple(self.levels.values()), each))
        if self.is_numbered or not (self.items or parts):
            starts = [self.begins[attr] for attr in self.items]
            starts += [start for start, step in self.numbers if step == 1]
            self.first = 0 if parts else min([*starts, *self.first_part], default=0)
            i = Ref(self.counter)
            body[:0] = (Statement(v, x[i], False, kind="set") for v, x in parts)
            for s in body:
                s.expr = renamed(s.expr, self._by_number())
            last = self.first + self.count
            ends = (self.first, last) if self.first else (last,)
            parts = [((self.counter,), Name("range")(*ends))]
        elif self.items:
            ((attr, item),) = self.items.items()
            parts.insert(0, ((item,), self._over(attr)))
        targets = tuple(value for values, _ in parts for value in values)
        over = [over for _, over in parts]
        if len(over) == 1:
            return Statement(targets, over[0], False, kind="for", bodies=[body])
        expr = Name("zip")(*over, strict=True)
        groups = tuple(len(values) for values, _ in parts)
        return Statement(targets, expr, False, kind="for", bodies=[body], groups=groups)

    def _in_turn(self) -> Expr:
        """What each round reads: (a, b, c), [a, b] * 2, ([(a, b), (c, d)] * 2)[:3]."""
        rows = [*zip(*self.levels, strict=True)]
        items = [tuple(map(Ref, row)) if row[1:] else Ref(row[0]) for row in rows]
        for turn in range(1, (self.count + 1) // 2 + 1):
            times = -(-self.count // turn)
            if (rows[:turn] * times)[: self.count] == rows:
                said = spell(items[:turn]) * times
                return said[: self.count] if self.count % turn else said
        return spell(tuple(items))

    def go_through(
        self, parts: Sequence[ir.Value | None]
    ) -> dict[ir.Value, ir.Value | Expr]:
        """Go through some of a tensor's parts; how all of them are read then."""
        ((values, variable),) = self.levels.items()
        first, made = parts.index(values[0]), Ref(self.parts)
        last = first + self.count
        ends = first or None, last if last < len(parts) else None
        self.first_part, variable.name = (first,), "part"
        self.through = made[slice(*ends)] if any(ends) else made
        return {part: made[k] for k, part in enumerate(parts) if part}

    @property
    def takes_turns(self) -> bool:
        """Whether what the rounds read in turn are few values, each several times."""
        plain = {v for s in self.body for v in reads(s.expr)}
        firsts = {values[0] for values in self.levels} - plain
        few = all(2 * len({*values}) <= self.count for values in self.levels)
        return few and 0 < len(firsts) == len(self.levels)

    @property
    def is_numbered(self) -> bool:
        """Whether members of lists are reached by the counter."""
        return bool(self.numbers) or len(self.items) > 1

    def _by_number(self) -> dict[ir.Value, ir.Value | Expr]:
        """Members of lists, parts and numbers, as the loop's counter reaches them."""

        def at(start: int, step: int = 1) -> Expr:
            count = step * Ref(self.counter) if step > 1 else Ref(self.counter)
            more = start - step * self.first
            return count + more if more > 0 else count - -more if more else count

        found: dict[ir.Value, ir.Value | Expr] = {
            item: Name(f"self.{attr}")[at(self.begins[attr])]
            for attr, item in self.items.items()
        }
        for start in self.first_part:
            part = Ref(self.parts)[at(start)]
            found |= dict.fromkeys(self.levels.values(), part)
        return found | {value: at(*n) for n, value in self.numbers.items()}

    def _caches(self) -> Iterator[CacheArgument]:
        """The caches that the loop goes through."""
        used = {attr.partition(".")[0] for attr in self.begins if "." in attr}
        return (family for family in self.lists.given if family.name in used)

    def _over(self, attr: str) -> Expr:
        start, size = self.begins[attr], self.lists.sizes[attr]
        stop = start + self.count
        members: Expr = Name(f"self.{attr}")
        if self.count == size:
            return members
        return members[start or None : stop if stop < size else None]


def alike(a: Statement, b: Statement, lists: Lists) -> bool:
    """Whether two statements may do the same in two rounds."""

    def hole(column: tuple[Expr, ...]) -> Expr | None:
        x, y = column
        places = lists.place(x), lists.place(y)
        listed = places[0] and places[1] and places[0][0] == places[1][0]
        values = isinstance(x, Ref) and isinstance(y, Ref)
        numbers = isinstance(x, Literal) and isinstance(y, Literal)
        plain = values or (numbers and x.text.isdecimal() and y.text.isdecimal())
        return x if listed or plain or same(x, y) else None

    fits = a.inlines == b.inlines and a.kind == b.kind == ""
    return fits and generalised((a.expr, b.expr), hole) is not None
