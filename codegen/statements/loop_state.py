"""What the iterations of a loop hand on to each other, and what they begin with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ...analysis.graph.traversal import reached, reads_of
from ...analysis.ops.node_view import NodeView
from ...analysis.spelling.expr import TORCH_DTYPES, Expr, Name, Ref, spell
from ..ir.naming import telling
from .control_flow import BlockBuilder

Names = dict[ir.Value, Expr]


class States:
    """The values that each iteration hands to the next: those that somebody reads.

    `inputs` and `outputs` are the body's, `roots` what else is read of it; the initial
    values are the node's inputs from `start` on. In the text a state is one variable,
    before, in and after the loop: an output of the node.
    """

    def __init__(
        self,
        n: NodeView,
        start: int,
        inputs: Sequence[ir.Value],
        outputs: Sequence[ir.Value],
        wanted: Sequence[ir.Value],
        roots: Iterable[ir.Value],
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        given = list(n.node.outputs)[: len(inputs)]
        spare = [ir.Value() for _ in inputs[len(given) :]]
        self.variables = [*given, *spare]
        self.initial = [n.value(start + k) for k in range(len(inputs))]
        # What an iteration only hands on is what it was before the loop.
        self.fixed = {k for k, out in enumerate(outputs) if source(out) is inputs[k]}
        everything = range(len(inputs))
        kept = [k for k in everything if self.variables[k] in wanted]
        while True:
            self.reached = reached([*roots, *(outputs[k] for k in kept)], _behind)
            found = [k for k in everything if k in kept or inputs[k] in self.reached]
            if found == kept:
                break
            kept = found
        self.kept = kept
        self.moving = [k for k in kept if k not in self.fixed]
        items = {k: self._appended(k) for k in self.moving}
        self.asked: set[int] = set()  # truths that only conditions read
        # What lists grow by, one item with each iteration.
        self.appended = {k: item for k, item in items.items() if item is not None}

    def _appended(self, k: int) -> ir.Value | None:
        before, after = self.inputs[k], self.outputs[k]
        node = after.producer()
        if node is None or node.op_type != "SequenceInsert" or node.domain:
            return None
        given = [x for x in node.inputs if x is not None]
        grows = given[0] is before and len(given) == 2
        alone = len(before.uses()) == 1 and not after.uses()
        once = before not in self.outputs and list(self.outputs).count(after) == 1
        return given[1] if grows and alone and once else None

    def enter(self, p: BlockBuilder) -> Names:
        """Assign the initial values; returns what the body reads for its inputs."""
        names: Names = {}
        for k in self.kept:
            variable, given = self.variables[k], self.inputs[k]
            if is_asked(p, variable) and is_asked(p, given):
                self.asked.add(k)
            initial = number(p, self.initial[k], k in self.asked)
            if k in self.fixed:
                names[given] = initial
                p.alias(variable, initial)
                continue
            names[given] = Ref(variable)
            word = given.meta.get("word") or telling(given.name)
            if k in self.appended:
                initial = _fresh(self.initial[k], initial)
                word = word or "items"
            p.set(variable, initial, word or ("going" if k in self.asked else ""))
        return names

    def results(self) -> list[ir.Value]:
        """The values that the variables hold after an iteration."""
        return [self.appended.get(k, self.outputs[k]) for k in self.moving]

    def hand_on(self, p: BlockBuilder, names: Names) -> list[tuple[ir.Value, Expr]]:
        """Let the lists grow; returns the other variables with their new values."""
        pairs = []
        for k in self.moving:
            variable = self.variables[k]
            if k in self.appended:
                item = self.appended[k]
                p.call(Ref(variable).append(names.get(item, Ref(item))))
            else:
                output = self.outputs[k]
                asked = number(p, output, k in self.asked)
                pairs.append((variable, names.get(output, asked)))
        return pairs


_LISTS = ("SequenceConstruct", "SequenceEmpty", "SequenceInsert")


def _fresh(value: ir.Value, spelled: Expr) -> Expr:
    """A list that nobody else knows, and that may grow."""
    node = value.producer()
    made = node is not None and node.op_type in _LISTS and not value.is_graph_output()
    return spelled if made and len(value.uses()) == 1 else Name("list")(spelled)


def number(
    p: BlockBuilder,
    value: ir.Value,
    asked: bool = False,
    beside: Sequence[ir.Value] = (),
) -> Expr:
    """A value that is handed on, `beside` others; a constant number, or no number, is
    written out.

    A truth that is only `asked` for by `if` and `while` is Python's own.
    """
    const = value.const_value
    if const is None or const.dtype not in TORCH_DTYPES:
        return Ref(value)
    if const.size == 0:  # of the type that the network is cast to, where that is near
        sizes = tuple(const.shape.numpy())
        same = (x for x in beside if x.dtype == const.dtype and x.const_value is None)
        if (like := next(same, None)) is not None:
            return Ref(like).new_empty(sizes)
        return p.t.empty(sizes, dtype=p.t.dtype(const.dtype), device=p.t.device)
    if const.shape.rank():
        return Ref(value)
    if const.dtype == ir.DataType.BOOL and asked:
        return spell(bool(const.numpy()))
    if const.dtype in (ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL):
        options = {}
    elif const.dtype in _WHOLE:
        options = {"dtype": p.t.dtype(const.dtype)}
    else:
        return Ref(value)
    made: Expr = p.t.tensor(spell(const.numpy()[()]), **options, device=p.t.device)
    return made


_WHOLE = {ir.DataType[f"{sign}INT{bits}"] for sign in ("", "U") for bits in (8, 16, 32)}


def is_asked(p: BlockBuilder, value: ir.Value) -> bool:
    """Whether only the conditions of `if` and `while` read a value."""
    todo, seen = [value], set[ir.Value]()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        for node, index in value.uses():
            if node.domain or node.op_type not in ("If", "Loop", "Identity"):
                return False
            if node.op_type == "Identity":
                todo.append(node.outputs[0])
            elif node.op_type == "Loop" and index != 1:
                if index == 0:
                    return False
                body = node.attributes["body"].as_graph()
                todo += [body.inputs[index], node.outputs[index - 2]]
        for owner, place in p.spelling.ends.get(value, ()):
            if owner is None or owner.op_type not in ("If", "Loop") or owner.domain:
                return False
            if owner.op_type == "If":
                todo.append(owner.outputs[place])
            elif place:
                body = owner.attributes["body"].as_graph()
                if place + 1 >= len(body.inputs):
                    return False  # collected
                todo += [body.inputs[place + 1], owner.outputs[place - 1]]
    return True


def _behind(value: ir.Value) -> Iterable[ir.Value]:
    """What a value is computed from by one node."""
    node = value.producer()
    return reads_of(node) if node is not None else ()


def source(value: ir.Value) -> ir.Value:
    """What a chain of Identity begins with."""
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs[0]:
        value = node.inputs[0]
        node = value.producer()
    return value
