"""The statements of one `forward`: what is inlined, what is named, what is a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import onnx_ir as ir

from ...analysis.spelling.expr import (
    Expr,
    ExpressionList,
    HelperRef,
    Leaf,
    List,
    Ref,
    exchange,
    leaves,
    render,
    spell,
)
from ..classes.dense_concat import Growth, find_growth, joined_list
from ..classes.module_classes import ModuleClass
from ..classes.provenance import Sources
from ..ir.annotations import annotation
from ..ir.assignment import Assignment, LayerRef
from ..ir.cache_arguments import CacheArgument
from ..ir.control_flow import Action, Block
from ..ir.identifiers import unused
from ..ir.module_call import ModuleCall, ModuleRef
from ..ir.naming import GENERIC, list_item, output_names
from ..ir.package_plan import ArgumentPlan, MethodPlan
from ..ir.statement_tree import (
    Line,
    RolledLoop,
    Statement,
    flat,
    hand_over,
    overwritten,
    reads,
    trace,
)
from .control_flow_lines import PRINTED
from .inlining import WIDTH, Inlining, fitting
from .loops.joined_rounds import roll_joined
from .loops.layer_loops import find_rows, roll_lines, without_comment


@dataclass(frozen=True)
class Body:
    """Finished text: argument names with their types, lines without indent."""

    arguments: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]  # of the run's items, for each line
    returns: tuple[str, ...]  # types
    helpers: tuple[object, ...]


class BodyWriter(Inlining):
    """Writes the forward of one kind; names flow from caller to callee."""

    def write(
        self,
        arguments: list[str],
        results: list[ir.Value],
        given: Sequence[CacheArgument] = (),
        made: Sequence[CacheArgument] = (),
    ) -> Body:
        """`given` and `made` are families among the arguments and the results."""
        inputs = self.inputs
        self.given, self.made = given, made
        self.place_members()
        self.names.update(zip(inputs, arguments, strict=True))
        nested = {v for family in given for row in family.rows for v in row}
        named = [
            (name, "int" if value in self.ints else annotation(value))
            for value, name in zip(inputs, arguments, strict=True)
            if value not in nested
        ]
        named += [(family.name, family.annotation) for family in given]
        listed = {v for family in made for row in family.rows for v in row}
        if self.is_root:
            plain = [v for v in results if v not in listed]
            taken = {name for name, _ in named} | {family.name for family in made}
            self.fixed = output_names(plain, taken)
        for family in made:
            for values in family.rows:
                self.wishes.update(zip(values, family.labels(), strict=True))
        returned, types = self.returned(results, listed)
        end = Statement((), returned, False, kind="return")
        statements = roll_joined(hand_over([*self.statements(), end]), listed)
        self.note_attention(flat(statements))
        growth = find_growth(statements, self.kind.members)
        if growth is not None:
            return self.grown(growth, statements, named, types)
        lines = self.lines(self.inline(self.rows(statements, listed)))
        helpers = [
            leaf.function
            for s in flat(statements)
            for leaf in leaves(s.expr)
            if isinstance(leaf, HelperRef)
        ]
        return Body(
            tuple(named),
            tuple(line for line, _ in lines),
            tuple(places for _, places in lines),
            types,
            tuple(dict.fromkeys(helpers)),
        )

    # ---- statements

    def statements(self) -> list[Statement]:
        """What the call does, in order; blocks with their bodies."""
        return self._statements(self.run.items, count())

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
        starts = {family.rows[0][0]: family for family in self.made}
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

    def grown(
        self,
        found: tuple[int, int, Growth],
        statements: list[Statement],
        named: list[tuple[str, str]],
        types: tuple[str, ...],
    ) -> Body:
        """A body whose layers each take all that the ones before have made."""
        start, end, growth = found
        maps = Ref(ir.Value(name="features"))
        for statement in growth.layers:
            self.note_callees(statement)
        joined = growth.joined
        joined.expr = joined_list(joined, maps)
        first = frozenset([growth.first])
        before = self.lines(self.inline(statements[:start]), first)
        self.names[maps.value] = "features"
        grow = render(joined.expr, self.name)
        loop: list[Line] = [
            (f"features = [{self.names[growth.first]}]", ()),
            (f"for layer in {growth.over}:", ()),
            (f"    features.append(layer({grow}))", growth.places),
        ]
        after = self.lines(self.inline(statements[end:]))
        lines = [*before, *loop, *after]
        text, places = zip(*lines, strict=True)
        return Body(tuple(named), text, places, types, ())

    # ---- loops

    def place_members(self) -> None:
        """Note what stands in lists, and where."""
        self.places: dict[object, tuple[str, int]] = {}
        for member in self.kind.members:
            if member.index is not None:
                form = member.what.form if isinstance(member.what, Assignment) else None
                self.places[(form and id(form)) or member.what] = (
                    member.attr,
                    member.index,
                )
        for family in self.given:
            for i, row in enumerate(family.rows):
                self.labels.update(zip(row, family.labels(), strict=True))
                for j, value in enumerate(row):
                    self.places[value] = (f"{family.name}.{j}", i)

    def indexed(self, leaf: Leaf) -> tuple[str, int] | None:
        """The list that a leaf stands in, and where."""
        if isinstance(leaf, ModuleRef):
            return self.places.get(leaf.run.shares or leaf.run)
        if isinstance(leaf, LayerRef):
            return self.places.get(id(leaf.form))
        return self.places.get(leaf.value) if isinstance(leaf, Ref) else None

    def rows(
        self, statements: list[Statement], listed: set[ir.Value]
    ) -> list[Statement | RolledLoop]:
        """Fold what comes round."""
        rows = find_rows(statements, self.indexed, listed)
        for row in rows:
            if isinstance(row, RolledLoop):
                self.settle(row, statements, listed)
        return rows

    def settle(
        self, row: RolledLoop, statements: list[Statement], listed: set[ir.Value]
    ) -> None:
        """What a round hands on: to the next, to the results, to what follows."""
        for same in zip(*row.rounds, strict=True):
            same[0].places = tuple(place for s in same for place in s.places)
            calls = [
                [x.run for x in leaves(s.expr) if isinstance(x, ModuleRef)]
                for s in same
            ]
            row.called.update(
                (first, rest) for first, *rest in zip(*calls, strict=True)
            )
        inside = {id(s) for statements in row.rounds for s in statements}
        after = {v for s in statements if id(s) not in inside for v in reads(s.expr)}
        made = {v for v in row.made() if v in listed}
        row.collected = {row.twins.get(v, v) for v in made}
        last = {t for s in row.rounds[-1] for t in s.targets if t in after}
        row.handed_on = {
            *row.carried.values(),
            *row.collected,
            *(row.twins[v] for v in last if v is not None),
        }
        self.carriers.update(row.carried)
        for family in self.made:
            if set(family.rows[0]) <= row.collected:
                row.lists.append(family)
                whole = Ref(ir.Value(name=family.name))
                self.names[whole.value] = family.name
                _replace_nested(statements[-1], family, whole)

    def row(self, row: RolledLoop) -> list[Line]:
        """The lines of a loop."""
        before = [f"{family.name} = []" for family in row.lists]
        kept: dict[ir.Value, str] = {}
        reserved = self.reserved
        for first, handed in row.carried.items():
            text = self.texts.pop(first, "") or self.names[first]
            if first in row.after or not text.isidentifier():
                kept[first] = text
                self.reserved = self.reserved | {text}  # no other may take its name
                self.names[first] = self.free_name()
                before.append(f"{self.names[first]} = {text}")
            self.rebinds[handed] = self.names[first]
        head, unpacked = self.head(row, self.live(row.before))
        inner: list[Line] = [(line, ()) for line in unpacked]
        known = len(self.callees)
        inner += self.block(row.body)
        self.reserved = reserved
        for run, names in self.callees[known:]:  # a list may hold several classes
            self.callees += [(other, names) for other in row.called.get(run, ())]
        inner = [(fitting(line), places) for line, places in inner]
        for family in row.lists:
            given = ", ".join(self.names[v] for v in family.rows[0])
            pair = f"({given})" if len(family.rows[0]) > 1 else given
            inner.append((f"{family.name}.append({pair})", ()))
        for first, handed in row.carried.items():
            if self.names[handed] != self.names[first]:
                inner.append((f"{self.names[first]} = {self.names[handed]}", ()))
            self.names[handed] = self.names[first]
        for value, twin in row.twins.items():
            if twin in self.names:
                self.names[value] = self.names[twin]
        self.names.update(kept)
        outer: list[Line] = [(line, ()) for line in (*before, head)]
        return outer + [(f"    {line}", places) for line, places in inner]

    def head(self, row: RolledLoop, taken: set[str]) -> tuple[str, list[str]]:
        """The line that begins a loop, and those that take from the lists."""
        used: dict[str, None] = {}
        for statement in row.body:
            for leaf in leaves(statement.expr):
                found = self.indexed(leaf)
                if found is not None:
                    used.setdefault(found[0].partition(".")[0])
        families = [f for f in self.given if f.name in used]
        lists = [attr for attr in used if all(attr != f.name for f in families)]
        counts = [sum(m.attr == attr for m in self.kind.members) for attr in lists]
        labels = {f.name: _labels(f, taken) for f in families}
        for family in families:
            self.names.update(zip(family.rows[0], labels[family.name], strict=True))
        if len(lists) == 1 and counts == [row.count]:
            item = unused(list_item(lists[0]), taken)
            self.rename(row, {lists[0]: item})
            if not families:
                return f"for {item} in self.{lists[0]}:", []
            items = [item, *(_tuple(labels[f.name]) for f in families)]
            values = [f"self.{lists[0]}", *(f.name for f in families)]
            return (
                f"for {', '.join(items)} in zip({', '.join(values)}, strict=True):",
                [],
            )
        i = unused("i", taken)
        self.rename(row, {attr: f"self.{attr}[{i}]" for attr in lists})
        unpacked = [f"{', '.join(labels[f.name])} = {f.name}[{i}]" for f in families]
        return f"for {i} in range({row.count}):", unpacked

    def rename(self, row: RolledLoop, texts: dict[str, str]) -> None:
        """In the body of a loop, the members of a list are called by these texts."""
        for member in self.kind.members:
            if member.attr in texts and member.index == 0:
                self.texts[member.what] = texts[member.attr]
        for statement in row.body:
            for leaf in leaves(statement.expr):
                found = self.indexed(leaf) if isinstance(leaf, ModuleRef) else None
                if isinstance(leaf, ModuleRef) and found and found[0] in texts:
                    leaf.text = texts[found[0]]

    # ---- lines

    def lines(
        self,
        items: list[Statement | RolledLoop],
        live: frozenset[ir.Value] = frozenset(),
    ) -> list[Line]:
        """The lines of a body; the values in `live` are needed when it has ended."""
        carried = {
            v for row in items if isinstance(row, RolledLoop) for v in row.carried
        }
        trace(items, self.texts.keys() - carried, live)
        self.read.update(v for s in flat(items) for v in reads(s.expr))
        self.overwritten.update(overwritten(items))
        return self.block(items)

    def block(self, items: Sequence[Statement | RolledLoop]) -> list[Line]:
        lines: list[Line] = []
        for item in items:
            if isinstance(item, RolledLoop):
                lines += self.row(item)
                continue
            self.note_callees(item)
            if item.kind == "return":
                lines.append((f"return {render(item.expr, self.name)}", item.places))
            elif item.kind in PRINTED:
                lines += PRINTED[item.kind](self, item)
            else:
                lines += self.assignment(item)
        return lines

    def assignment(self, statement: Statement) -> list[Line]:
        text = render(statement.expr, self.name)
        dying = [v for v in reads(statement.expr) if v not in statement.after]
        live = self.live(statement.after)
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
        comment = self.comment(statement.targets[0])
        whole = line if len(line + comment) > WIDTH else line + comment
        return [(whole, statement.places)]

    def free_name(self) -> str:
        taken = {*self.names.values(), *self.reserved}
        return next((n for n in GENERIC if n not in taken), "") or unused("x", taken)


def _labels(family: CacheArgument, taken: set[str]) -> list[str]:
    labels: list[str] = []
    for label in family.labels():
        labels.append(unused(label, {*taken, *labels}))
    return labels


def _tuple(labels: list[str]) -> str:
    return f"({', '.join(labels)})" if len(labels) > 1 else labels[0]


def _nested(family: CacheArgument) -> Expr:
    """[(k0, v0), (k1, v1), ...]"""
    rows = [[Ref(value) for value in row] for row in family.rows]
    return spell([tuple(row) if len(row) > 1 else row[0] for row in rows])


def _replace_nested(statement: Statement, family: CacheArgument, whole: Ref) -> None:
    """In the return statement, the list that a loop fills stands for the family."""
    first = family.rows[0][0]

    def other(expr: Expr) -> Expr | None:
        own = isinstance(expr, List) and first in reads(expr)
        return whole if own else None

    statement.expr = exchange(statement.expr, other)


# ---- a written body as the plan of a method


def method_plan(
    name: str, body: Body, kind: ModuleClass, sources: Sources
) -> MethodPlan:
    """Lines that do the same to one layer after another become loops."""
    lines = _returned(roll_lines(list(body.lines), kind.members))
    return MethodPlan(
        name,
        tuple(ArgumentPlan(n, t) for n, t in body.arguments),
        _returns(body.returns),
        tuple(line for line, _ in lines),
        tuple(
            sources.behind(kind, [p for i in rows for p in body.places[i]])
            for _, rows in lines
        ),
    )


def _returned(lines: list[tuple[str, range]]) -> list[tuple[str, range]]:
    """What the last line but one makes is returned there, if its name says nothing."""
    if len(lines) < 2:
        return lines
    *before, (made, rows), (last, end) = lines
    names = last.removeprefix("return ")
    text = made.removeprefix(f"{names} = ")
    plain = all(name in GENERIC for name in names.split(", "))
    if not plain or made == text or without_comment(made) != made or _is_tuple(text):
        return lines
    line = f"return {text}"
    whole = range(rows.start, end.stop)
    return lines if len(line) > WIDTH else [*before, (line, whole)]


def _is_tuple(text: str) -> bool:
    return isinstance(ast.parse(text, mode="eval").body, ast.Tuple)


def _returns(kinds: tuple[str, ...]) -> str:
    if len(kinds) == 1:
        return kinds[0]
    if len(kinds) <= 4:
        return f"tuple[{', '.join(kinds) or '()'}]"
    return f"tuple[{' | '.join(dict.fromkeys(kinds))}, ...]"
