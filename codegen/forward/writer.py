"""The statements of one `forward`: what is inlined, what is named, what is a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import onnx_ir as ir

from ...analysis.spelling.expr import (
    Expr,
    ExpressionList,
    Ref,
    Tuple,
    depth,
    helpers,
    render,
    spell,
)
from ..classes.bodies import is_rolled
from ..classes.module_classes import ModuleClass
from ..classes.provenance import Sources
from ..ir.annotations import annotation
from ..ir.assignment import Assignment
from ..ir.cache_arguments import CacheArgument
from ..ir.control_flow import Action, Block
from ..ir.module_call import ModuleCall, ModuleRef
from ..ir.naming import REBOUND, is_passing, output_names
from ..ir.package_plan import ArgumentPlan, MethodPlan
from ..ir.statement_tree import (
    Line,
    Statement,
    flat,
    hand_over,
    overwritten,
    reads,
    trace,
)
from .control_flow_lines import PRINTED
from .inlining import WIDTH, Inlining
from .loops.roll import Makers, Roller
from .loops.rounds import Lists


@dataclass(frozen=True)
class Body:
    """Finished text: argument names with their types, lines without indent."""

    arguments: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]  # of the run's items, for each line
    returns: tuple[str, ...]  # types
    helpers: tuple[object, ...]


class BodyWriter(Inlining):
    """Writes the forward of one class; names flow from caller to callee."""

    def write(
        self,
        arguments: list[str],
        results: list[ir.Value],
        given: Sequence[CacheArgument] = (),
        made: Sequence[CacheArgument] = (),
        asked: Sequence[str] = (),
    ) -> Body:
        """`given` and `made` are caches among the arguments and the results, `asked`
        what the results are to be called."""
        inputs, self.results = self.inputs, results
        self.asked = dict(zip(results, asked, strict=False))
        self.names.update(zip(inputs, arguments, strict=True))
        nested = {v for family in given for row in family.rows for v in row}
        self.reserved |= {family.name for family in given}  # its items are read by it
        self.lists = self._lists(given, made)
        listed = self.lists.collected
        if self.is_root:
            plain = [v for v in results if v not in listed]
            own = {self.names[v] for v in inputs if v not in nested}
            taken = own | {family.name for family in (*given, *made)}
            self.fixed = output_names(plain, taken)
        for family in (*given, *made):
            for values in family.rows:
                labels = family.labels()
                if len(values) == 1:  # a flat list: what attention takes each as
                    labels = (values[0].meta.get("role", labels[0]),)
                self.wishes.update(zip(values, labels, strict=True))
                if family in given:
                    self.labels.update(zip(values, labels, strict=True))
        returned, types = self.returned(results, listed)
        end = Statement((), returned, False, kind="return")
        statements = self.rolled(hand_over([*self.statements(), end]))
        named = [
            (self.names[value], "int" if value in self.ints else annotation(value))
            for value in inputs
            if value not in nested
        ]
        named += [(family.name, family.annotation) for family in given]
        functions = tuple(helpers(s.expr for s in flat(statements)))
        lines = self.lines(self.inline(statements))
        return Body(
            tuple(named),
            tuple(line for line, _ in lines),
            tuple(places for _, places in lines),
            types,
            functions,
        )

    # ---- statements

    def statements(self) -> list[Statement]:
        """What the call does, in order; blocks with their bodies."""
        return self._statements(self.call.items, count())

    def _statements(
        self, items: Iterable[Assignment | ModuleCall], places: Iterator[int]
    ) -> list[Statement]:
        """`places` counts the call's contents on."""
        found = []
        for item in items:
            if isinstance(item, Block):
                found += self._statements(item.entry, places)
                found += self._statements([item.head], places)
                found[-1].bodies = [self._statements(b, places) for b in item.bodies]
                found += self._statements(item.exit, places)
            elif isinstance(item, Assignment):
                kind = item.kind if isinstance(item, Action) else ""
                how = item.inlines, item.result, (next(places),), kind
                found.append(Statement(item.outputs, item.expr, *how))
            else:
                target = ModuleRef(item, self.texts[item.shares or item])
                call = target(*[Ref(v) for v in item.inputs], *item.size_args)
                outputs, place = tuple(item.outputs), (next(places),)
                found.append(Statement(outputs, call, True, places=place))
        return found

    def returned(
        self, results: list[ir.Value], listed: set[ir.Value]
    ) -> tuple[Expr, tuple[str, ...]]:
        """What the body returns, families as lists, and the types."""
        items: list[Expr] = []
        types = []
        starts = {family.rows[0][0]: family for family in self.lists.made}
        for value in results:
            if value in starts:
                items.append(_nested(starts[value]))
                types.append(starts[value].annotation)
            elif value not in listed:
                items.append(Ref(value))
                types.append(annotation(value))
        if len(items) == 1:
            return items[0], tuple(types)
        return ExpressionList(*items) if items else spell(()), tuple(types)

    # ---- loops

    def _lists(
        self, given: Sequence[CacheArgument], made: Sequence[CacheArgument]
    ) -> Lists:
        """What stands in lists, and where."""
        places: dict[object, tuple[str, int]] = {}
        sizes: Counter[str] = Counter()
        owned = [member for member in self.cls.members if member.index is not None]
        alone = {attr for attr, n in Counter(m.attr for m in owned).items() if n == 1}
        for member in (m for m in owned if m.attr not in alone):
            form = member.what.form if isinstance(member.what, Assignment) else None
            places[(form and id(form)) or member.what] = member.attr, member.index or 0
            sizes[member.attr] += 1
        for family in given:
            for i, row in enumerate(family.rows):
                for j, value in enumerate(row):
                    places[value] = f"{family.name}.{j}", i
        plain = not any(m.inner or m.index is not None for m in self.cls.members)
        children = [m.what for m in self.cls.members] if plain else []
        lists = Lists(places, sizes, children, given, made)
        return lists.of_children() if is_rolled(self.classes, self.cls) else lists

    def rolled(self, statements: list[Statement]) -> list[Statement]:
        """The statements, what comes round as loops."""
        roller = Roller(self.lists, self._goes_on)
        statements = roller.roll(statements)
        self.columns, self.loops = roller.columns, roller.loops
        for rounds in self.loops.values():
            if not rounds.word:
                self.carriers |= {s.initial for s in rounds.states}
                self.carriers |= {s.variable for s in rounds.states}
                self.kept |= {s.initial for s in rounds.states}
                self.kept |= {s.value for s in rounds.states}
            if rounds.takes_turns:
                self.kept |= {v for values in rounds.levels for v in values}
        self.kept |= self.lists.collected
        self.note_attention(flat(statements))
        self.note_indices(flat(statements))
        self.note_modulation(flat(statements))
        if not self.is_root:
            self.note_arguments([*flat(statements)])
        return statements

    def _goes_on(self, value: ir.Value, makers: Makers) -> bool:
        """Whether a value would be called as what a row of layers makes of it, and not
        be written where the first of them reads it."""
        if value not in makers:
            argument = value in self.inputs and not self.is_root
            name = self.names.get(value, "")
            return argument or name in REBOUND or is_passing(name)
        return not self.hint(makers[value]) and _is_deep(value, makers)

    # ---- lines

    def lines(
        self, items: list[Statement], live: frozenset[ir.Value] = frozenset()
    ) -> list[Line]:
        """The lines of a body; the values in `live` are needed when it has ended."""
        trace(items, self.texts.keys(), live)
        self.note_branches(items)
        self.read.update(v for s in flat(items) for v in reads(s.expr))
        self.overwritten.update(overwritten(items))
        parts = [self.item(s) for s in items]
        if self._is_returned(items[-2:], parts[-2:]):
            (_, made), (_, end) = parts[-2][0], parts[-1][0]
            line = f"return {render(items[-2].expr, self.name)}"
            if len(line) <= WIDTH:
                parts[-2:] = [[(line, (*made, *end))]]
        return [line for part in parts for line in part]

    def _is_returned(
        self, items: Sequence[Statement], parts: Sequence[list[Line]]
    ) -> bool:
        """Whether the last statement returns what the one before it makes, if its name
        says nothing."""
        if [s.kind for s in items] != ["", "return"] or [*map(len, parts)] != [1, 1]:
            return False
        (made, end), ((line, _),) = items, parts[0]
        several = isinstance(end.expr, ExpressionList)
        returned = end.expr.operands if several else (end.expr,)
        values = [x.value for x in returned if isinstance(x, Ref)]
        plain = all(is_passing(self.names.get(v, "")) for v in values)
        return (
            values == list(made.targets)
            and len(values) == len(returned)
            and plain
            and not made.groups
            and not isinstance(made.expr, Tuple | ExpressionList)
            and line.partition("  #")[0]
            == f"{made.spelled([self.names[v] for v in values])} = "
            f"{render(made.expr, self.name)}"
        )

    def block(self, items: Iterable[Statement]) -> list[Line]:
        """The lines of several statements."""
        return [line for item in items for line in self.item(item)]

    def item(self, item: Statement) -> list[Line]:
        """The lines of a statement."""
        if item.kind in PRINTED:
            self.note_callees(item)
            return PRINTED[item.kind](self, item)
        returns = item.kind == "return"
        text = f"return {render(item.expr, self.name)}" if returns else ""
        lines = [(text, item.places)] if returns else self.assignment(item)
        self.note_callees(item)
        return lines

    def assignment(self, statement: Statement) -> list[Line]:
        """The line of a plain statement, whose targets get their names."""
        text = render(statement.expr, self.name)
        dying = [v for v in reads(statement.expr) if v not in statement.after]
        live = self.live(statement.after.difference(statement.targets))
        targets = []
        for target in statement.targets:
            wanted = target in self.read or target in statement.after
            if target is None or not (wanted or target in self.fixed):
                targets.append("_")
                continue
            name = self.choose(target, statement, dying, live)
            self.names[target] = name
            live.add(name)
            targets.append(name)
        if targets == [text]:
            return []
        line = f"{statement.spelled(targets)} = {text}"
        comment = self.comment(statement)
        whole = line if len(line + comment) > WIDTH else line + comment
        return [(whole, statement.places)]


def _is_deep(value: ir.Value, makers: Makers) -> bool:
    """Whether calls stand in an expression, or in those that it reads."""
    expr = makers[value].expr if value in makers else None
    if expr is None or depth(expr):
        return expr is not None
    return any(_is_deep(v, makers) for v in reads(expr))


def _nested(family: CacheArgument) -> Expr:
    """[(k0, v0), (k1, v1), ...]"""
    rows = [[Ref(value) for value in row] for row in family.rows]
    return spell([tuple(row) if len(row) > 1 else row[0] for row in rows])


# ---- a written body as the plan of a method


def method_plan(
    name: str, body: Body, cls: ModuleClass, sources: Sources
) -> MethodPlan:
    """The method, with what is behind each of its lines."""
    return MethodPlan(
        name,
        tuple(ArgumentPlan(n, t) for n, t in body.arguments),
        _returns(body.returns),
        body.lines,
        tuple(sources.behind(cls, places) for places in body.places),
    )


def _returns(classes: tuple[str, ...]) -> str:
    if len(classes) == 1:
        return classes[0]
    if len(classes) <= 4:
        return f"tuple[{', '.join(classes) or '()'}]"
    return f"tuple[{' | '.join(dict.fromkeys(classes))}, ...]"
