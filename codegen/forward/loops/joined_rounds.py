"""What is joined of equal rounds, as a loop that collects it.

Rounds do the same, but for numbers that count on (`x[:, 3]`, `x[:, 4]`, ...) and states
that each takes over from the one before, as where a recurrence was unrolled; or for the
value that each begins with, as the maps of a pyramid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ....analysis.spelling.expr import (
    Expr,
    ExpressionList,
    Leaf,
    Name,
    Ref,
    exchange_texts,
    renamed,
    render,
    spell,
    substitute,
)
from ...classes.dense_concat import joined_list, joined_values
from ...ir.assignment import LayerRef
from ...ir.module_call import ModuleRef
from ...ir.naming import LEVEL
from ...ir.statement_tree import Statement, reads

MIN_STEPS = 4
MIN_LEVELS, MIN_STATEMENTS = 3, 2  # of rounds that begin with a value each

Makers = dict[ir.Value | None, Statement]
Column = tuple[ir.Value, ...]  # what stands in one place, in each round


def roll_joined(
    statements: list[Statement], listed: Collection[ir.Value]
) -> list[Statement]:
    """The statements with a loop for each join of rounds; `listed` are results that
    others collect, and stay as they are."""
    if any(s.bodies for s in statements):
        return statements
    found = statements
    for extent in (_made_since, _needed_alone):
        for join in statements:
            operands = joined_values(join)
            if operands is None or len(set(operands)) < len(operands):
                continue
            makers = _makers(found)
            new = extent(makers, operands, found)
            rounds = _matched(makers, operands, new) if new else None
            levels = extent is _needed_alone
            if rounds is None or bool(rounds.starts) != levels:
                continue
            if rounds.is_worth_it() and rounds.are_closed(found, join, listed):
                found = rounds.looped(found, join)
    return found


def _makers(statements: Sequence[Statement]) -> Makers:
    return {s.targets[0]: s for s in statements if len(s.targets) == 1 and not s.kind}


def _made_since(
    makers: Makers, operands: Sequence[ir.Value | None], _: Sequence[Statement]
) -> set[ir.Value | None]:
    """What the second operand needs and the first doesn't: all of a step."""
    first, second = operands[:2] if len(operands) >= MIN_STEPS else (None, None)
    return _ancestors(makers, second) - _ancestors(makers, first)


def _needed_alone(
    makers: Makers,
    operands: Sequence[ir.Value | None],
    statements: Sequence[Statement],
) -> set[ir.Value | None]:
    """What the second operand alone needs, back to a value that others read."""
    uses = Counter(v for s in statements for v in reads(s.expr))
    alone: Makers = {v: s for v, s in makers.items() if v and uses[v] == 1}
    return _ancestors(alone, operands[1]) if len(operands) >= MIN_LEVELS else set()


@dataclass
class _Rounds:
    """Statements of the first round, and what later rounds have in their places."""

    operands: Sequence[ir.Value | None]
    first: list[Statement]
    images: list[dict[ir.Value | None, ir.Value | None]]  # of the first step's values
    makers: Makers
    # The state that the first step hands on -> what it begins with.
    states: dict[ir.Value | None, ir.Value] = field(default_factory=dict)
    starts: Column = ()  # what each round begins with
    # (statement, place among its operands) -> the state that is read there, or a start
    taken: dict[tuple[Statement, int], ir.Value | None] = field(default_factory=dict)

    def is_worth_it(self) -> bool:
        """Whether the rounds are enough, and differ in no more than a loop can say."""
        if not self.starts:
            return len(self.operands) >= MIN_STEPS
        alike = all(
            len(set(column)) == 1 for s in self.first for column in self.numbers(s)
        )
        return alike and not self.states and len(self.first) >= MIN_STATEMENTS

    def numbers(self, statement: Statement) -> Iterator[tuple[str, ...]]:
        """What is written out in a statement, place by place, in each round."""
        others = [self.makers[image[statement.targets[0]]] for image in self.images]
        return zip(*(_numbers(s.expr) for s in others), strict=True)

    def are_closed(
        self,
        statements: list[Statement],
        join: Statement,
        listed: Collection[ir.Value],
    ) -> bool:
        """Whether only the next step, and the join, read what a step makes.

        The last state may be read by others too.
        """
        gone = {id(s) for s in self.gone()}
        made = {t for s in self.gone() for t in s.targets}
        read = {
            v
            for s in statements
            if id(s) not in gone and s is not join
            for v in reads(s.expr)
        }
        last = {self.images[-1][state] for state in self.states}
        return made.isdisjoint(listed) and not made & read - last

    def gone(self) -> Iterator[Statement]:
        for image in self.images:
            yield from (self.makers[image[s.targets[0]]] for s in self.first)

    def looped(self, statements: list[Statement], join: Statement) -> list[Statement]:
        """The statements with a loop in front of the join."""
        word = f"{LEVEL}s" if self.starts else "outputs"
        each = ir.Value(name=LEVEL if self.starts else "i")
        over = spell(tuple(map(Ref, self.starts)))
        if not self.starts:
            each.meta["counter"] = True
            over = Name("range")(len(self.operands))
        made = ir.Value(name=word)
        now = {state: ir.Value(name="state") for state in self.states}
        last = {self.images[-1][state]: value for state, value in now.items()}
        gone = {id(s) for s in self.gone()}
        body = [self.step(s, each, now) for s in self.first]
        given = self.operands[0]
        assert given is not None
        body.append(Statement((), Ref(made).append(Ref(given)), False, kind="call"))
        handed = ExpressionList(*(Ref(state) for state in now if state is not None))
        if now:
            body.append(Statement((*now.values(),), handed, False, kind="copy"))
        loop = [
            *(
                Statement((value,), Ref(self.states[state]), False, "state", kind="set")
                for state, value in now.items()
            ),
            Statement((made,), spell([]), False, word, kind="set"),
            Statement((each,), over, False, kind="for", bodies=[body]),
        ]
        join.expr = joined_list(join, Ref(made))
        at = statements.index(join)
        before, behind = _apart(
            [s for s in statements[:at] if id(s) not in gone], set(last)
        )
        for statement in [*behind, *statements[at:]]:
            statement.expr = renamed(statement.expr, last)
        return [*before, *loop, *behind, *statements[at:]]

    def step(
        self, statement: Statement, each: ir.Value, now: dict[ir.Value | None, ir.Value]
    ) -> Statement:
        """A statement of the loop: numbers counted, states and starts by variables."""
        (target,) = statement.targets
        others = [self.makers[image[target]] for image in self.images]
        statement.places = tuple(place for s in others for place in s.places)
        place = -1

        def state(leaf: Leaf) -> Expr | None:
            nonlocal place
            place += isinstance(leaf, Ref)
            taken = (statement, place) in self.taken and isinstance(leaf, Ref)
            read = self.taken[statement, place] if taken else None
            return Ref(now.get(read, each)) if taken else None

        expr = substitute(statement.expr, state)
        counted = iter([_counted(column, each) for column in self.numbers(statement)])
        statement.expr = exchange_texts(expr, lambda text: next(counted))
        return statement


def _apart(
    statements: list[Statement], made: set[ir.Value | None]
) -> tuple[list[Statement], list[Statement]]:
    """Those that need nothing of what is made, and those that do."""
    before: list[Statement] = []
    behind: list[Statement] = []
    for statement in statements:
        needs = not made.isdisjoint(reads(statement.expr))
        made |= set(statement.targets) if needs else set()
        (behind if needs else before).append(statement)
    return before, behind


def _matched(
    makers: Makers,
    operands: Sequence[ir.Value | None],
    new: set[ir.Value | None],
) -> _Rounds | None:
    """What makes the operands, if it is one round after another.

    `new` are the values of the second round.
    """
    work = [_work(makers[v].expr) if v in makers else "" for v in operands]
    if not work[0] or len(set(work)) > 1:
        return None
    images: list[dict[ir.Value | None, ir.Value | None]] = []
    bounds: list[list[tuple[Statement, int, ir.Value]]] = []
    for operand in operands:
        walk = _Walk(makers, new)
        if not walk.follow(operands[1], operand):
            return None
        images.append(walk.pairs)
        bounds.append(walk.bounds)
    back = {image: value for value, image in images[0].items()}
    order = [s for t, s in makers.items() if t in back]
    rounds = _Rounds(operands, order, [_through(back, m) for m in images], makers)
    made = [t for image in images for t in image.values()]
    if len(set(made)) < len(made):
        return None  # a round that does what another does
    for places in zip(*bounds, strict=True):
        statement, place, _ = places[0]
        column = tuple(value for _, _, value in places)
        if len(set(column)) == 1:
            continue
        state = images[0].get(column[2])
        before = zip(rounds.images[:-1], column[1:], strict=True)
        if state is None or any(image.get(state) is not v for image, v in before):
            if rounds.starts not in ((), column):
                return None
            rounds.starts, state = column, None
        elif rounds.states.setdefault(state, column[0]) is not column[0]:
            return None
        rounds.taken[statement, place] = state
    columns = (column for s in order for column in rounds.numbers(s))
    return None if any(_progress(column) is None for column in columns) else rounds


def _through(
    back: dict[ir.Value | None, ir.Value | None],
    image: dict[ir.Value | None, ir.Value | None],
) -> dict[ir.Value | None, ir.Value | None]:
    """A round's values by those of the first one, not of the second."""
    return {first: image[second] for first, second in back.items()}


class _Walk:
    """Two rounds side by side, from what they give to what they begin with."""

    def __init__(self, makers: Makers, new: set[ir.Value | None]) -> None:
        self.makers, self.new = makers, new
        self.pairs: dict[ir.Value | None, ir.Value | None] = {}
        self.bounds: list[tuple[Statement, int, ir.Value]] = []

    def follow(self, pattern: ir.Value | None, value: ir.Value | None) -> bool:
        """Pair what makes a value of the second round with what makes another's."""
        if pattern in self.pairs:
            return self.pairs[pattern] is value
        if value not in self.makers:
            return False
        a, b = self.makers[pattern], self.makers[value]
        if _work(a.expr) != _work(b.expr) or a.inlines != b.inlines:
            return False
        self.pairs[pattern] = value
        for i, (x, y) in enumerate(zip(reads(a.expr), reads(b.expr), strict=True)):
            if x not in self.new:
                self.bounds.append((b, i, y))
            elif not self.follow(x, y):
                return False
        return True


def _ancestors(makers: Makers, value: ir.Value | None) -> set[ir.Value | None]:
    """A value, and what it is made of, as far as one statement makes one value."""
    found: set[ir.Value | None] = set()
    todo = [value]
    while todo:
        value = todo.pop()
        if value in makers and value not in found:
            found.add(value)
            todo += reads(makers[value].expr)
    return found


def _work(expr: Expr) -> str:
    """What a statement does, numbers aside."""

    def name(leaf: Leaf) -> str:
        if isinstance(leaf, ModuleRef):
            return f"run{id(leaf.run.shares or leaf.run)}"
        if isinstance(leaf, LayerRef):
            return f"layer{id(leaf.form)}"
        return "v" if isinstance(leaf, Ref) else f"leaf{id(leaf)}"

    counted = exchange_texts(expr, lambda x: Name("#") if x.isdigit() else None)
    return render(counted, name)


def _numbers(expr: Expr) -> list[str]:
    found: list[str] = []
    exchange_texts(expr, found.append)  # which exchanges nothing
    return found


def _progress(texts: Sequence[str]) -> tuple[int, int] | None:
    """Where numbers begin and how far apart they are, if they count on evenly."""
    if len(set(texts)) == 1:
        return 0, 0
    if not all(map(str.isdigit, texts)):
        return None
    start, step = int(texts[0]), int(texts[1]) - int(texts[0])
    even = [int(text) for text in texts] == [
        start + step * k for k in range(len(texts))
    ]
    return (start, step) if even and step > 0 else None


def _counted(texts: Sequence[str], i: ir.Value) -> Expr | None:
    start, step = _progress(texts) or (0, 0)
    if not step:
        return None
    count: Expr = Ref(i) if step == 1 else step * Ref(i)
    return count + start if start else count
