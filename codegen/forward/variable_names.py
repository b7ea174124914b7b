"""What the values of a body are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import is_invented
from ...analysis.graph.element_types import is_whole
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.spelling.expr import (
    ATOM,
    Binary,
    Call,
    Expr,
    Leaf,
    List,
    Literal,
    Ref,
    Tuple,
    Unary,
    callee,
    callees,
    nodes,
    spell,
    uncast,
)
from ..classes.module_classes import ClassTable, ModuleClass
from ..ir.assignment import LayerRef, sized
from ..ir.identifiers import unused, variable
from ..ir.module_call import ModuleCall, ModuleRef, member, members
from ..ir.naming import (
    BRANCHES,
    GENERIC,
    PARTED,
    PASSING,
    REBOUND,
    VARIABLES,
    callee_arguments,
    first_name,
    is_passing,
    is_plain,
    size_name,
)
from ..ir.package_plan import shape_text
from ..ir.statement_tree import Statement, flat, reads
from ..modules.members import looked_up, member_name
from .loops.rounds import Lists, Rounds
from .roles import ORDINALS, PUT_TOGETHER, role, viewed

_TRUTH = ir.DataType.BOOL
_ORDERS = ("<", "<=", ">", ">=")
_LOCAL = "local_mask"
_PLACES = ("positions", "rows", "columns")
_SAYS = r"(?!constant)[A-Za-z_]+"  # an attribute that is called after what it is


class Callee(NamedTuple):
    """A call, and what its arguments and its results are to be called inside."""

    call: ModuleCall
    arguments: list[str]
    results: list[str]


class Subject(NamedTuple):
    """The class whose body is written, and what is around it."""

    cls: ModuleClass
    classes: ClassTable
    shapes: ShapeFacts
    reserved: frozenset[str]  # helpers, which no variable may hide


class Naming:
    """The names of one body, and what decides them; they flow from caller to callee."""

    def __init__(self, of: Subject) -> None:
        cls, self.classes, self.shapes, self.reserved = of
        self.subject, self.cls = of, cls
        self.call = cls.call
        self.inputs = [*self.call.inputs, *self.call.sizes]
        self.is_root = self.call is self.classes.root.call
        self.texts = {m.what: m.text for m in cls.members}
        self.ints = set(self.call.ints)
        self.names: dict[ir.Value, str] = {}
        self.fixed: dict[ir.Value, str] = {}  # results of the network
        self.wishes: dict[ir.Value, str] = {}  # by the part a value plays
        self.branches: dict[ir.Value, str] = {}  # what stands on one -> BRANCHES
        self.carriers: set[ir.Value] = set()  # variables of loops over layers
        self.kept: set[ir.Value] = set()  # what has a line of its own
        self.overwritten: dict[ir.Value, set[ir.Value]] = {}  # see statement_tree.py
        # A value that becomes another one's value at the end of a block takes its name.
        self.preferred: dict[ir.Value, ir.Value] = {}
        self.read: set[ir.Value] = set()
        self.labels: dict[ir.Value, str] = {}  # of what stands in the caller's lists
        self.asked: dict[ir.Value, str] = {}  # what the caller calls its results
        self.callees: list[Callee] = []
        self.sources: dict[ir.Value, list[ir.Value]] = {}  # of what is inlined
        self.takers: dict[ir.Value, set[str]] = {}  # of q, k, v, what each is made of
        self.moved: set[ir.Value] = set()  # into the one line that reads it
        self.commented: set[object] = set()
        self.lists = Lists({}, {})
        # A statement of a loop that was rolled -> those that it stands for.
        self.columns: Mapping[Statement, Sequence[Statement]] = {}
        self.loops: Mapping[Statement, Rounds] = {}

    def rough(self, leaf: Leaf) -> str:
        """A stand-in of likely length before names are settled."""
        if isinstance(leaf, Ref):
            return self.texts.get(leaf.value) or self.names.get(leaf.value) or "xx"
        return self.name(leaf)

    def name(self, leaf: Leaf) -> str:
        """The text of a leaf, once the values that it reads have names."""
        if isinstance(leaf, LayerRef):
            return member_name(self.texts, leaf)
        if isinstance(leaf, ModuleRef):
            return leaf.text
        assert isinstance(leaf, Ref), type(leaf)
        if leaf.value in self.texts:
            return self.texts[leaf.value]
        return self.names[leaf.value]

    def choose(
        self,
        target: ir.Value,
        statement: Statement,
        dying: list[ir.Value],
        live: set[str],
    ) -> str:
        """The name of a statement's target, none of those in `live`, by VARIABLES.

        `dying` are the values that nobody reads after the statement.
        """
        live = live | self.live(self.overwritten.get(target, ()))

        def free(name: str) -> str:
            return "" if name in live else name

        alone = len(statement.targets) == 1
        rank, dims = self.shapes.rank, self.shapes.dims
        ended = [v for v in dying if v in self.names and v not in self.ints]
        if not alone:  # each of several goes on with one of its kind
            others = [dims(v) for v in statement.targets if v and v is not target]
            ended = [
                v for v in ended if dims(v) == dims(target) or dims(v) not in others
            ]
            ended.sort(key=lambda v: rank(v) != rank(target))
        main = next(iter(ended), None)
        old = free(self.names[main]) if main is not None else ""
        letter = next((n for n in GENERIC if n not in live), "x")
        passing = old if old in REBOUND or is_passing(old) else letter
        expr, again = statement.expr, old if old in REBOUND else ""
        parted = not alone and callee(expr) in PARTED
        said, known = statement.result, "role" in target.meta or self.is_mask(target)
        tells = parted or known or is_whole(target) or letter != "x"
        ask: dict[str, Callable[[], str]] = {
            "becomes": lambda: free(self.becomes(target)),
            "set by bodies": lambda: said if statement.kind == "set" else "",
            "result": lambda: self.result(target, statement),
            "size": lambda: size_name(target) if target in self.ints else "",
            "state": lambda: passing if target in self.carriers else "",
            "part": lambda: self.wishes.get(target, ""),
            "known word": lambda: target.meta.get("word", ""),
            "truth": lambda: free(self.mask(expr) if self.is_mask(target) else ""),
            "inside": lambda: "" if alone else self.inside(target, statement),
            "module": lambda: again if self.is_block(statement) else "",
            "layer or operator": lambda: self.hint(statement) if alone else "",
            "caller": lambda: self.asked.get(target, ""),
            "branch": lambda: free(self.branches.get(target, "")),
            "chain": lambda: "" if parted or known else again,
            "same meaning": lambda: self.same_meaning(expr, main, old) if alone else "",
            "view": lambda: free(self.view(statement)) if alone else "",
            "role": lambda: self.role(target, statement, live) if tells else "",
            "letter": lambda: letter,
        }
        return unused(first_name(VARIABLES, ask), live)

    def is_mask(self, target: ir.Value) -> bool:
        """Whether it holds truths of elements, not one of all."""
        return target.dtype == _TRUTH and bool(target.shape is None or target.shape)

    def mask(self, expr: Expr) -> str:
        """What a mask is called: a window's compares sums with a number of places."""
        compared = [x for x in nodes(expr) if x.label in _ORDERS]
        pairs = [[x for x in nodes(c) if isinstance(x, Binary)] for c in compared]
        sides = [
            x.label for p in pairs if len(p) > 1 for term in p for x in term.operands
        ]
        is_wide = any(isinstance(n, int | np.integer) and n > 1 for n in sides)
        said = map(self.called, reads(expr))
        return _LOCAL if is_wide or _LOCAL in said else "mask"

    def becomes(self, target: ir.Value) -> str:
        """The name of the variable whose value it is at the end of a body."""
        other = self.preferred.get(target)
        return self.names.get(other, "") if other is not None else ""

    def turn(self, target: ir.Value, statement: Statement) -> str:
        """The word of the values that take turns in a loop, but for their numbers."""
        loop = self.loops.get(statement)
        turns = loop.levels.items() if loop is not None and loop.takes_turns else ()
        names = {self.called(v) for values, x in turns if x is target for v in values}
        words = {name.rstrip("0123456789") for name in names}
        words = {"mask"} if words == {"mask", _LOCAL} else words
        return words.pop() if len(words) == 1 and words.isdisjoint(PASSING) else ""

    def result(self, target: ir.Value, statement: Statement) -> str:
        """What the network returns is called as in the file, but in a row of layers."""
        row = self.in_list(statement) or self.repeats(statement)
        return "" if row else self.fixed.get(target, "")

    def view(self, statement: Statement) -> str:
        """The last word of what is still called so, in another form."""
        value = viewed(statement.expr)
        words = self.called(value).split("_")
        word = words[-1] if len(words) > 1 else ""
        return word if word and variable(word) == word else ""  # seq_len: no len

    def role(self, target: ir.Value, statement: Statement, live: set[str]) -> str:
        """After what makes it; a part of what is taken apart after its place."""
        truth = self.mask(statement.expr) if self.is_mask(target) else ""
        name = target.meta.get("role", truth)
        if not name and len(statement.targets) == 1:
            name = role(statement.expr)
        dims = self.shapes.dims(target) or ()
        if self.called(viewed(statement.expr)) in _PLACES:  # [1, n] is often one batch
            name = "positions" if len(dims) > 2 or dims[-1:] == (1,) else name
        if name == "positions" and name in live:  # those of a mask, along either side
            *_, high, wide = 1, 1, *dims
            name = "columns" if wide != 1 else "rows" if high != 1 else ""
        if name == "total" and is_whole(target) and ".sum" in callees(statement.expr):
            name = "counts"  # of a mask's ones, which layers are given
        if callee(statement.expr) in PARTED:
            called = {self.names.get(value, "") for value in reads(statement.expr)}
            called.update(map(self.name, members(statement.expr)))
            whole = any("qkv" in name.rpartition(".")[2].lower() for name in called)
            parts = "qkv" if whole else ORDINALS
            name = dict(zip(statement.targets, parts, strict=False)).get(target, "")
        return name

    def live(self, values: Iterable[ir.Value]) -> set[str]:
        """The names of these values, and those that are taken everywhere."""
        return {self.names[v] for v in values if v in self.names} | self.reserved

    def stays(self, expr: Expr, main: ir.Value | None) -> bool:
        """Whether a value keeps its meaning: reshaped or scaled, not put together, nor
        compared for a choice among others."""
        called, sources = callees(expr), self._sources(expr) - self.ints
        if members(expr) or sources != {main} or PUT_TOGETHER.intersection(called):
            return False
        choices = [x.operands for x in nodes(expr) if callee(x) == "torch.where"]
        compared = [x for x in choices if any(y.label in _ORDERS for y in nodes(x[1]))]
        return all(main in reads(y) for x in compared for y in x[2:])

    def same_meaning(self, expr: Expr, main: ir.Value | None, old: str) -> str:
        """What keeps its meaning keeps its name. `old` is that of `main`; a stored
        tensor is called as its attribute."""
        if self.stays(expr, main):
            return old if old.isidentifier() else ""
        if members(expr) or self._sources(expr):
            return ""
        stored = {self.texts[v] for v in reads(expr) if v in self.texts}
        attr = stored.pop().removeprefix("self.") if len(stored) == 1 else ""
        says = re.fullmatch(_SAYS, attr) and variable(attr) == attr
        return attr if says else ""

    def repeats(self, statement: Statement) -> bool:
        """Whether a statement calls a block of a list, or one that is called again."""
        shared = [x for x in members(statement.expr) if isinstance(x, ModuleRef)]
        return (self.in_list(statement) and bool(shared)) or any(
            sum(item.shares is x.call.shares for item in self.call.calls()) > 1
            for x in shared
            if x.call.shares is not None
        )

    def is_block(self, statement: Statement) -> bool:
        """Whether a block of the module tree is called."""
        return any(isinstance(x, ModuleRef) for x in members(statement.expr))

    def in_list(self, statement: Statement) -> bool:
        """Whether a statement begins with the call of one of a list."""
        called = _leading(statement.expr)
        return called is not None and self.lists.place(called) is not None

    def hint(self, statement: Statement) -> str:
        """A telling name: the layer it comes from, or its operator's."""
        found, expr = members(statement.expr), statement.expr
        if len(found) == 1 and expr.binds == ATOM and _leading(expr) is found[0]:
            attr = self.name(found[0]).removeprefix("self.")
            if re.fullmatch(r"[A-Za-z_]+", attr) and not is_plain(attr):
                return variable(re.sub(r"\b([qkv])_proj", r"\1", attr))
        return self.mask(expr) if _masks(expr) else statement.result

    def inside(self, target: ir.Value, statement: Statement) -> str:
        """After the member of a module behind one of several results, or `mask`, which
        it may be; "" if it is the module's own, or that of others too."""
        called = member(statement.expr.operands[0]) if statement.expr.operands else None
        if not isinstance(called, ModuleRef):
            return ""
        makers = {out: s for s in called.call.steps() for out in s.outputs}
        words: dict[ir.Value | None, str] = {}
        for out in statement.targets:
            step = makers.get(out)
            cast = step and next((makers[v] for v in step.reads() if v in makers), None)
            if any(one and _masks(one.expr) for one in (step, cast)):
                words[out] = "mask"
                continue
            while step is not None and step.form is None:  # back to what it is made of
                step = next((makers[v] for v in step.reads() if v in makers), None)
            word = _word_within(step.path, called.call.path) if step else ""
            words[out] = f"{word}_out" if word and is_plain(word) else word
        word = words.get(target, "")
        return word if [*words.values()].count(word) == 1 else ""

    def note_callees(self, statement: Statement) -> None:
        """Note what the arguments of the blocks that it calls are called there, and the
        results, if the statement does nothing else."""
        for node in nodes(statement.expr):
            found = member(node.operands[0]) if isinstance(node, Call) else None
            if isinstance(found, ModuleRef):
                whole = node is statement.expr
                names = [v and self.names.get(v) for v in statement.targets]
                made = [name or "" for name in names if whole]
                self._note_callee(found, node.operands[1:], made)

    def _note_callee(
        self, block: ModuleRef, operands: Sequence[Expr], made: list[str]
    ) -> None:
        call = block.call
        pairs = zip(call.inputs, operands, strict=False)
        outer = [
            (
                self.called(x.value)
                if isinstance(x, Ref)
                else self.wishes.get(v) or self.called(v)
            )
            for v, x in pairs
        ]
        own = outer and f"self.{outer[0]}" in self.texts.values()
        if outer and (own or self.classes.counts.get(call, 1) > 1):
            outer[0] = ""  # one class for calls on different values; or after its maker
        names = callee_arguments(outer)
        for size in call.sizes:
            names.append(unused(size_name(size), names))
        told = {*self.wishes.values()}
        results = [
            "" if is_passing(name) and name not in told else name for name in made
        ]
        self.callees += [Callee(r, names, results) for r in (call, *block.others)]

    def note_attention(self, statements: Iterable[Statement]) -> None:
        """What attention takes are q, k and v, before and after they change shape."""
        whole = list(statements)
        statements = [s for s in whole if not s.kind]
        made = {s.targets[0]: s for s in statements if len(s.targets) == 1}
        several = {t: s for s in statements if len(s.targets) > 1 for t in s.targets}
        several |= {t: s for s in whole if s.kind == "copy" for t in s.targets}
        for statement in statements:
            operands = statement.expr.operands
            if callee(statement.expr).endswith("attention"):
                taken = operands[1:4]
            elif statement.expr.label == "@":
                probs = _back_to(operands[0], ".softmax", made)
                scores = _back_to(probs, "@", made) if probs is not None else None
                taken = (*scores.operands, operands[1]) if scores is not None else ()
            else:
                continue
            for operand, word in zip(taken, "qkv", strict=False):
                self.note_role(operand, word, made, several)

    def note_arguments(self, statements: Iterable[Statement]) -> None:
        """Call an argument by no letter where the body says what it is: keys and values
        are made of it, or it is added once, to what a layer makes."""
        exprs = [s.expr for s in statements]
        makers = {t: s.expr for s in statements for t in s.targets}
        read = [value for expr in exprs for value in reads(expr)]
        added = set[ir.Value]()
        pairs = [x for e in exprs for x in nodes(e) if isinstance(x, Binary)]
        for total in (x for x in pairs if x.label == "+"):
            for made, other in permutations(total.operands):
                made = makers.get(made.value, made) if isinstance(made, Ref) else made
                if isinstance(other, Ref) and members(made):
                    added.add(other.value)
        for value in self.inputs[1:]:
            is_added = value in added and read.count(value) == 1
            is_context = self.takers.get(value) == {"k", "v"}
            word = "residual" if is_added else "context" if is_context else ""
            if word and self.names[value] in GENERIC:
                self.names[value] = unused(word, self.live(self.inputs))

    def note_indices(self, statements: Iterable[Statement]) -> None:
        """What comes to an embedding is called after it, where nothing else tells."""
        made = [s for s in statements if not s.kind and not s.result]
        whole = [t for s in made for t in s.targets if t is not None and is_whole(t)]
        for target in whole:
            if word := looked_up(target, self.classes.readers, counted=False):
                self.wishes.setdefault(target, word)

    def note_role(
        self,
        operand: Expr,
        role: str,
        made: Mapping[ir.Value | None, Statement],
        several: Mapping[ir.Value | None, Statement],
    ) -> None:
        """Note for a part of attention what it is made of, back to what is split."""
        while True:
            sources = [v for v in reads(operand) if v not in self.texts]
            sources = [v for v in sources if v in made or v in several]
            sources = [v for v in sources if not v.meta.get("word")]  # cos, sin
            if len(sources) != 1:
                return
            (value,) = sources
            if value in several:
                self.wishes.setdefault(value, role)
                return
            statement = made[value]
            layers = members(statement.expr)
            if statement.result or not all(map(_is_norm, layers)):
                for read in reads(statement.expr):
                    self.takers.setdefault(read, set()).add(role)
                return  # it has a name of its own, or is what a layer makes
            self.wishes.setdefault(value, role)
            operand = statement.expr

    def note_modulation(self, statements: Iterable[Statement]) -> None:
        """Parts of one value by which another is changed, x * (scale + 1) + shift, are
        called so, and `gate` what is a factor of those beside them; hidden * f(gate).
        """
        made: dict[ir.Value, Expr] = {}
        parts: dict[ir.Value, ir.Value] = {}  # what is made of one alone -> that one
        beside: dict[ir.Value, Statement] = {}
        sums: list[Expr] = []
        factors: dict[Expr, list[ir.Value | None]] = {}

        def part(expr: Expr) -> ir.Value | None:
            sources = [] if members(expr) else [*self._sources(expr) - self.ints]
            return parts.get(sources[0]) if len(sources) == 1 else None

        def whole(expr: Expr) -> Expr:
            return made.get(expr.value, expr) if isinstance(expr, Ref) else expr

        for statement in (s for s in statements if not s.kind):
            for node in (x for x in nodes(statement.expr) if isinstance(x, Binary)):
                if node.label == "*":
                    factors[node] = [*map(part, node.operands)]
                elif node.label == "+":
                    sums.append(node)
            targets = [target for target in statement.targets if target is not None]
            if statement.targets[1:]:
                parts |= zip(targets, targets, strict=True)
                beside |= dict.fromkeys(targets, statement)
            else:
                made |= dict.fromkeys(targets, statement.expr)
                if source := part(statement.expr):
                    parts |= dict.fromkeys(targets, source)
        modulated = set[Statement]()
        for left, right in (total.operands for total in sums):
            for product, other in ((left, right), (right, left)):
                shift = part(other)
                for scale in factors.get(whole(product), ()):
                    if not (scale and shift) or scale is shift:
                        continue
                    if beside[scale] is beside[shift]:
                        self.wishes |= {scale: "scale", shift: "shift"}
                        modulated.add(beside[scale])
        for product, both in factors.items():
            operands = product.operands[::-1]
            for value, gate, by in zip(both, both[::-1], operands, strict=True):
                if value and beside[value] in modulated:
                    self.wishes.setdefault(value, "gate")
                elif value and gate and {value, gate} == {*beside[value].targets}:
                    called = {value: "hidden", gate: "gate"}
                    self.wishes |= {} if isinstance(whole(by), Ref) else called

    def note_branches(self, statements: Sequence[Statement]) -> None:
        """Note what stands between a value and where that comes back as an operand."""
        all_of_them = list(flat(statements))
        made = {t: s for s in all_of_them if not s.kind for t in s.targets}
        for statement in all_of_them:
            for node in nodes(statement.expr):
                name = BRANCHES.get(node.label) if isinstance(node, Binary) else None
                if name is None:
                    continue
                left, right = node.operands
                for kept, other in ((left, right), (right, left)):
                    if name == "gate" and members(kept):
                        continue  # what a layer makes is gated, or gates
                    start = self._sources(kept)
                    between = self._between(start, other, made, name == "gate")
                    self.branches |= dict.fromkeys(between, name)

    def _sources(self, expr: Expr) -> set[ir.Value]:
        """The variables that an expression reads, but those whose sizes alone."""
        return {v for v in reads(sized(expr)) if v not in self.texts}

    def _between(
        self,
        kept: set[ir.Value],
        operand: Expr,
        made: Mapping[ir.Value | None, Statement],
        alone: bool,
    ) -> list[ir.Value]:
        """The variables between what is kept, one value or what is computed of it, and
        an operand with a layer on its way, if only one way leads there, from that value
        `alone` or beside others."""
        between = list[ir.Value]()
        layers = len(members(operand))
        while len(kept) == 1:
            if isinstance(operand, Call) and member(operand.operands[0]) is not None:
                operand = spell(operand.operands[:2])  # what it is called on
            sources = self._sources(operand)
            if kept <= sources:
                return between if layers and not (alone and kept < sources) else []
            if len(sources) != 1:
                break
            value = sources.pop()
            if value not in made or value in between:
                break
            between.append(value)
            operand = made[value].expr
            layers += len(members(operand))
        return []

    def called(self, value: ir.Value | None) -> str:
        """A value's name, or of the only variable that its expression reads."""
        if value is None:
            return ""
        sources = self.sources.get(value, [])
        if value not in self.names and len(sources) == 1:
            return self.called(sources[0])
        member = self.texts.get(value, "").removeprefix("self.")
        own = member if member.isidentifier() else ""
        return self.labels.get(value) or self.names.get(value, own)

    # ---- comments

    def comment(self, statement: Statement) -> str:
        """Each shape of the network's own forward, where it is met first; in a loop,
        where it is that of all rounds."""
        if not self.is_root or not statement.targets:
            return ""
        column = self.columns.get(statement, (statement,))
        first, *others = [self._shape(s.targets[0]) for s in column]
        return first if not any(others) else ""

    def _shape(self, target: ir.Value | None) -> str:
        if target is None or target in self.ints or target in self.labels:
            return ""
        dims = self.shapes.dims(target)
        if not dims or dims in self.commented or any(map(is_invented, dims)):
            return ""
        self.commented.add(dims)
        return f"  # {shape_text(dims)}"


def _leading(expr: Expr) -> LayerRef | ModuleRef | None:
    """The layer or block with whose call the text of an expression begins."""
    while member(expr) is None and expr.operands:
        if isinstance(expr, Unary | List | Tuple):
            return None
        expr = expr.operands[0]
    return member(expr)


def _word_within(path: str, holder: str) -> str:
    """decoder, of model.decoder.norm in model."""
    start = f"{holder}." if holder else ""
    word = path.removeprefix(start).partition(".")[0] if path.startswith(start) else ""
    return variable(word) if re.fullmatch(r"[A-Za-z_]{2,}", word) else ""


def _back_to(
    expr: Expr, wanted: str, made: Mapping[ir.Value | None, Statement]
) -> Expr | None:
    """What an operand was made by that calls this or has this symbol, along what stands
    first."""
    for _ in range(10):
        statement = next((made[v] for v in reads(expr) if v in made), None)
        if statement is None or members(statement.expr):
            return None
        expr = statement.expr
        if wanted in (callee(expr), expr.label):
            return expr
    return None


def _is_norm(member: LayerRef | ModuleRef) -> bool:
    if isinstance(member, ModuleRef):
        return "norm" in member.text.rpartition(".")[2].lower()
    return "Norm" in member.form.layer


def _masks(expr: Expr) -> bool:
    """Whether it is what attention adds to its scores."""
    return callee(uncast(expr)) == "torch.where" and _has_lowest(expr)


def _has_lowest(expr: Expr) -> bool:
    """Whether the lowest number of a type stands in an expression."""
    if "torch.finfo" in callees(expr):
        return True
    numbers = (x.label for x in nodes(expr) if isinstance(x, Literal))
    floats = (x for x in numbers if isinstance(x, np.floating))
    return any(x == np.finfo(x.dtype).min for x in floats)
