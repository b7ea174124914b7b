"""The statements of one `forward`: what is inlined, what is named, what is a loop."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from ..analysis.shapes import Shapes
from ..analysis.spell import (
    ATOM,
    Expr,
    HelperRef,
    Leaf,
    Ref,
    depth,
    leaves,
    render,
    substitute,
)
from .kinds import Kind, Kinds
from .members import member_name
from .names import unused, variable
from .run import Run
from .steps import LayerRef, Step
from .wording import GENERIC, RunRef, callee_arguments, is_plain, steps_apart

WIDTH = 80  # what is left of 88 columns in a method
MAX_DEPTH = 3  # calls nested in each other
MAX_WORK = 5  # calls and operators in one expression
MAX_TEXT = 64  # columns of one inlined expression
MAX_TELLING = 24  # columns up to which a value with a telling name may lose it


@dataclass(eq=False)
class Statement:
    """`targets = expr`; the last one of a body is the return, with no targets."""

    targets: tuple[ir.Value | None, ...]
    expr: Expr
    inlines: bool
    result: str = ""


@dataclass(frozen=True)
class Body:
    """Finished text: argument names with their types, lines without indent."""

    arguments: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    returns: int
    helpers: tuple[object, ...]


class BodyWriter:
    """Writes the forward of one kind; names flow from caller to callee."""

    def __init__(
        self, kind: Kind, kinds: Kinds, shapes: Shapes, reserved: frozenset[str]
    ) -> None:
        self.reserved = reserved  # helpers, which no variable may hide
        self.kind, self.kinds, self.shapes = kind, kinds, shapes
        self.run = kind.run
        self.is_root = self.run is kinds.root.run
        self.texts = {m.what: m.text for m in kind.members}
        self.ints = set(self.run.ints)
        self.names: dict[ir.Value, str] = {}
        self.fixed: dict[ir.Value, str] = {}
        self.callees: list[tuple[Run, list[str]]] = []
        self.inlined: set[ir.Value] = set()
        self.sources: dict[ir.Value, list[ir.Value]] = {}  # of what is inlined
        self.commented: set[object] = set()

    def write(self, arguments: list[str], results: list[ir.Value]) -> Body:
        inputs = [*self.run.inputs, *self.run.sizes]
        for value, name in zip(inputs, arguments, strict=True):
            self.names[value] = name
        if self.is_root:
            self.fixed = _output_names(results, set(arguments))
        returned = Expr(*_commas([Ref(v) for v in results])) if results else Expr("()")
        if len(results) == 1:
            returned = Ref(results[0])
        statements = self.statements()
        statements.append(Statement((), returned, False))
        statements = self.inline(statements)
        lines = self.print(statements)
        helpers = [
            leaf.function
            for s in statements
            for leaf in leaves(s.expr)
            if isinstance(leaf, HelperRef)
        ]
        kinds = ["int" if v in self.ints else "Tensor" for v in inputs]
        named = tuple(zip(arguments, kinds, strict=True))
        return Body(named, tuple(lines), len(results), tuple(dict.fromkeys(helpers)))

    # ---- statements

    def statements(self) -> list[Statement]:
        found = []
        for item in self.run.items:
            if isinstance(item, Step):
                found.append(
                    Statement(item.outputs, item.expr, item.inlines, item.result)
                )
                continue
            source = item.shares or item
            target = RunRef(item, self.texts[source])
            call = target(*[Ref(v) for v in item.inputs], *item.size_args)
            found.append(Statement(tuple(item.outputs), call, True))
        return found

    def inline(self, statements: list[Statement]) -> list[Statement]:
        """Put each value that is read once where it is read, if a reader can follow."""
        reads: dict[ir.Value, int] = {}
        for statement in statements:
            for value in _reads(statement.expr):
                reads[value] = reads.get(value, 0) + 1
        ready: dict[ir.Value, Statement] = {}
        kept: list[Statement] = []
        for statement in statements:
            self.absorb(statement, ready)
            single = len(statement.targets) == 1 and statement.targets[0] is not None
            if single and statement.inlines:
                target = statement.targets[0]
                assert target is not None
                if reads.get(target) == 1 and target not in self.ints:
                    ready[target] = statement
            kept.append(statement)
        gone = {id(s) for s in kept if any(t in self.inlined for t in s.targets)}
        return [s for s in kept if id(s) not in gone]

    def tells(self, statement: Statement) -> bool:
        """Whether the value deserves a line of its own, under its own name."""
        if not self.hint(statement):
            return False
        return len(render(statement.expr, self.rough)) > MAX_TELLING

    def absorb(self, statement: Statement, ready: dict[ir.Value, Statement]) -> None:
        for value in dict.fromkeys(_reads(statement.expr)):
            source = ready.get(value)
            if source is None:
                continue
            if (
                not statement.targets
                and value in self.fixed
                and not _is_call(source.expr)
            ):
                continue
            if self.tells(source) and not self.stays(statement.expr, value):
                continue
            if depth(source.expr) and self.in_list(statement):
                continue  # so that the rows of a loop stay alike
            if self.repeats(source):
                continue

            def replace(
                leaf: Leaf, value: ir.Value = value, expr: Expr = source.expr
            ) -> Expr | None:
                return expr if isinstance(leaf, Ref) and leaf.value is value else None

            merged = substitute(statement.expr, replace)
            bare = isinstance(statement.expr, Ref) and not statement.targets
            if bare or self.readable(merged, bool(statement.targets)):
                statement.expr = merged
                self.inlined.add(value)
                if not _members(source.expr):
                    reads = [v for v in _reads(source.expr) if v not in self.texts]
                    self.sources[value] = reads

    def readable(self, expr: Expr, assigned: bool) -> bool:
        if not steps_apart(expr):
            return False
        text = render(expr, self.rough)
        work = text.count("(") + len(re.findall(r" [-+*/@&|<>=]+ ", text))
        longest = max((len(self.names.get(v, "")) for v in _reads(expr)), default=0)
        limit = min(MAX_TEXT, WIDTH - longest - 3) if assigned else MAX_TEXT + 4
        return depth(expr) <= MAX_DEPTH and work <= MAX_WORK and len(text) <= limit

    def rough(self, leaf: Leaf) -> str:
        """A stand-in of likely length before names are settled."""
        if isinstance(leaf, Ref):
            return self.texts.get(leaf.value) or self.names.get(leaf.value) or "xx"
        return self.name(leaf)

    def name(self, leaf: Leaf) -> str:
        if isinstance(leaf, LayerRef):
            return member_name(self.texts, leaf)
        if isinstance(leaf, RunRef):
            return leaf.text
        assert isinstance(leaf, Ref), type(leaf)
        if leaf.value in self.texts:
            return self.texts[leaf.value]
        return self.names[leaf.value]

    # ---- names

    def print(self, statements: list[Statement]) -> list[str]:
        last = _last_reads(statements)
        lines: list[str] = []
        for i, statement in enumerate(statements):
            self.note_callees(statement)
            text = render(statement.expr, self.name)
            if not statement.targets:
                lines.append(f"return {text}")
                break
            dying = [v for v in _reads(statement.expr) if last.get(v) == i]
            live = {
                name
                for v, name in self.names.items()
                if last.get(v, -1) >= i and v not in dying
            } | self.reserved
            targets = []
            for target in statement.targets:
                if target is None or (target not in last and target not in self.fixed):
                    targets.append("_")
                    continue
                name = self.choose(target, statement, dying, live)
                self.names[target] = name
                live.add(name)
                targets.append(name)
            line = f"{', '.join(targets)} = {text}"
            comment = self.comment(statement.targets[0])
            lines.append(line if len(line + comment) > WIDTH else line + comment)
        return lines

    def choose(
        self,
        target: ir.Value,
        statement: Statement,
        dying: list[ir.Value],
        live: set[str],
    ) -> str:
        """Re-bind along a chain; a new name where the meaning changes."""
        row = self.in_list(statement) or self.repeats(statement)
        if target in self.fixed and not row:
            return unused(self.fixed[target], live)
        if target in self.ints:
            return unused(variable(target.name or "size"), live)
        hint = self.hint(statement)
        main = next((v for v in dying if v in self.names and v not in self.ints), None)
        old = self.names[main] if main is not None else ""
        if old in GENERIC and old not in live and self.is_block(statement):
            return old
        if hint and len(statement.targets) == 1:
            return unused(hint, live)
        if old in GENERIC and old not in live:
            return old
        if old and old not in live and self.stays(statement.expr, main):
            return old
        return next((n for n in GENERIC if n not in live), "") or unused("x", live)

    def stays(self, expr: Expr, main: ir.Value | None) -> bool:
        """Whether a value keeps its meaning: reshaped or scaled, not joined."""
        if _members(expr):
            return False
        return {v for v in _reads(expr) if v not in self.texts} == {main}

    def repeats(self, statement: Statement) -> bool:
        """Whether a statement is one of several that a loop may fold."""
        shared = [x for x in leaves(statement.expr) if isinstance(x, RunRef)]
        return (self.in_list(statement) and bool(shared)) or any(
            sum(item.shares is x.run.shares for item in self.run.runs()) > 1
            for x in shared
            if x.run.shares is not None
        )

    def is_block(self, statement: Statement) -> bool:
        return any(isinstance(leaf, RunRef) for leaf in leaves(statement.expr))

    def in_list(self, statement: Statement) -> bool:
        """Whether a statement is one of a row of blocks, which a loop may fold."""
        text = render(statement.expr, self.rough)
        return re.match(r"self\.\w+\[\d+\]\(", text) is not None

    def hint(self, statement: Statement) -> str:
        """A telling name: the layer it comes from, or its operator's."""
        members = _members(statement.expr)
        text = render(statement.expr, self.rough)
        simple = text.startswith("self.") and statement.expr._binds == ATOM
        if len(members) == 1 and simple:
            attr = self.name(members[0]).removeprefix("self.")
            if re.fullmatch(r"[A-Za-z_]+", attr) and not is_plain(attr):
                return variable(attr)
        if text.startswith("torch.where(") and "torch.finfo(" in text:
            return "mask"
        return statement.result

    def note_callees(self, statement: Statement) -> None:
        for leaf in leaves(statement.expr):
            if isinstance(leaf, RunRef):
                outer = [self.called(v) for v in leaf.run.inputs]
                sizes = [variable(v.name or "size") for v in leaf.run.sizes]
                if outer and self.kinds.counts.get(leaf.run, 1) > 1:
                    outer[0] = ""  # one class for calls on different values
                self.callees.append((leaf.run, callee_arguments(outer) + sizes))

    def called(self, value: ir.Value) -> str:
        """A value's name, or of the only variable that its expression reads."""
        sources = self.sources.get(value, [])
        if value not in self.names and len(sources) == 1:
            return self.called(sources[0])
        return self.names.get(value, "")

    # ---- comments

    def comment(self, target: ir.Value | None) -> str:
        """Each shape of the network's own forward, where it is met first."""
        if not self.is_root or target is None or target in self.ints:
            return ""
        dims = self.shapes.dims(target)
        if dims is None or dims in self.commented:
            return ""
        self.commented.add(dims)
        from .plan import shape_text

        return f"  # {shape_text(dims)}"


def _output_names(results: Iterable[ir.Value], taken: set[str]) -> dict[ir.Value, str]:
    names: dict[ir.Value, str] = {}
    used = set(taken)
    for value in results:
        if value.producer() is None:
            continue
        names[value] = unused(variable(value.name or "output"), used)
        used.add(names[value])
    return names


def _reads(expr: Expr) -> list[ir.Value]:
    """Values in the order they are read, call targets and constants included."""
    return [leaf.value for leaf in leaves(expr) if isinstance(leaf, Ref)]


def _last_reads(statements: list[Statement]) -> dict[ir.Value, int]:
    last: dict[ir.Value, int] = {}
    for i, statement in enumerate(statements):
        for value in _reads(statement.expr):
            last[value] = i
    return last


def _members(expr: Expr) -> list[Leaf]:
    return [leaf for leaf in leaves(expr) if isinstance(leaf, (LayerRef, RunRef))]


def _is_call(expr: Expr) -> bool:
    return expr._weight > 0


def _commas(items: list[Expr]) -> list[str | tuple[Expr, int]]:
    pieces: list[str | tuple[Expr, int]] = []
    for i, item in enumerate(items):
        pieces += [", " if i else "", (item, 0)]
    return pieces
