"""The statements that If, Loop, Scan and SequenceMap become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir
import sympy

from ...analysis.ops.node_view import NodeView
from ...analysis.ops.registry import lookup
from ...analysis.spelling.expr import (
    Binary,
    Conditional,
    Expr,
    Name,
    Ref,
    Unary,
    leaves,
    spell,
)
from ..ir.identifiers import variable
from ..ir.naming import telling
from .control_flow import BlockBuilder
from .loop_state import Names, States, is_asked, number, source

ENDLESS = 2**31 - 1  # exporters write "as long as the condition holds" from here on


def write_if(p: BlockBuilder, n: NodeView, wanted: Sequence[ir.Value]) -> None:
    """An If as a block of two bodies, whose `wanted` outputs are read later."""
    compared = _compared(p, n.value(0))
    condition = Ref(n.value(0)) if compared is None else compared
    p.open("if", p.spelling.anchored(condition))
    for branch in ("then_branch", "else_branch"):
        graph = n.attr(branch)
        if branch == "else_branch":
            p.divide()
        results = [graph.outputs[out.index() or 0] for out in wanted]
        p.body(graph, results)
        pairs = zip(wanted, results, strict=True)
        p.copy([(out, number(p, x, is_asked(p, out), results)) for out, x in pairs])
    p.close()


# What a comparison is called with its sides exchanged.
_MIRRORED = {"==": "==", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _compared(p: BlockBuilder, value: ir.Value) -> Expr | None:
    """A comparison of sizes, or of an iteration's number, in Python's own numbers.

    Whether an optional value is there is one, too.
    """
    node = value.producer()
    if (optional := _optional(node)) is not None:
        return Binary(Ref(optional), spell(None), label="is not")
    op = lookup(node) if node is not None else None
    if node is None or op is None or op.torch is None or op.result != "mask":
        return None
    view = NodeView(node, p.shapes)
    sides = [view.ints(i) for i in (0, 1) if view.has(i)]
    if [len(side or ()) for side in sides] != [1, 1]:  # of two numbers
        return None
    left, right = (side[0] for side in sides if side is not None)
    spelled = op.torch(p.t, view, spell(left), spell(right))
    symbol = spelled.label if isinstance(spelled, Binary) else ""
    if symbol not in _MIRRORED:
        return None
    if isinstance(left, int) and not isinstance(right, int):
        left, right, symbol = right, left, _MIRRORED[symbol]
    return Binary(spell(left), spell(right), label=symbol)


def _optional(node: ir.Node | None) -> ir.Value | None:
    if node is None or (node.domain, node.op_type) != ("", "OptionalHasElement"):
        return None
    given = node.inputs[0] if node.inputs else None
    return given if given and isinstance(given.type, ir.OptionalType) else None


def _read(p: BlockBuilder, expr: Expr) -> list[ir.Value]:
    found = leaves(p.spelling.anchored(expr))
    return [leaf.value for leaf in found if isinstance(leaf, Ref)]


def write_loop(p: BlockBuilder, n: NodeView, wanted: Sequence[ir.Value]) -> None:
    """A Loop as `for` where it is counted alone, else as `while`.

    Raises Unsupported for what has no spelling.
    """
    body = n.attr("body")
    count = len(body.inputs) - 2
    columns = dict(zip(n.node.outputs[count:], body.outputs[1 + count :], strict=False))
    columns = {out: item for out, item in columns.items() if out in wanted}
    end = _End(n, body)
    roots = [*columns.values(), *([] if end.never else [end.going])]
    states = States(n, 2, body.inputs[2:], body.outputs[1 : 1 + count], wanted, roots)
    names, lists = states.enter(p), _lists(p, columns.values())
    names[body.inputs[1]] = p.t.tensor(True)
    counts = body.inputs[0] in states.reached
    counter = _counted(p, body.inputs[0], names) if counts else None
    if end.flag is not None and end.first is not True:
        begins = _compared(p, n.value(1)) if n.has(1) else None
        p.set(end.flag, end.initial if begins is None else begins, "running")
    if end.trips is None and counter is not None:
        p.set(counter, spell(0), "i")
    _open(p, end, counter)
    compared = None if end.never or end.flag is not None else _compared(p, end.going)
    if compared is not None and any(v is not counter for v in _read(p, compared)):
        compared = None  # of sizes that are others by then
    results = roots if compared is None else columns.values()
    p.body(body, [*states.results(), *results], names)
    for item, made in lists.items():
        p.call(Ref(made).append(names.get(item, Ref(item))))
    pairs = states.hand_on(p, names)
    if end.flag is not None:
        pairs.append((end.flag, names.get(end.going, Ref(end.going))))
    p.copy(pairs)
    if not end.never and (end.flag is None or end.first is True):
        condition = Ref(end.flag or end.going) if compared is None else compared
        p.leave(_denied(condition))
    if end.trips is None and counter is not None:
        p.copy([(counter, Ref(counter) + 1)])
    p.close()
    for out, item in columns.items():
        p.set(out, _stacked(p, item, lists[item], end.surely_runs))


def _counted(p: BlockBuilder, given: ir.Value, names: Names) -> ir.Value:
    """The number of the iteration, as a Python number and where a tensor is read."""
    number = ir.Value(name="i")
    number.meta["counter"] = True
    content = p.shapes.content(given)
    if content is not None and isinstance(content.flat[0], sympy.Symbol):
        p.spelling.counters[content.flat[0]] = Ref(number)
    whole = [Ref(number)] if p.shapes.rank(given) else Ref(number)
    names[given] = p.t.tensor(whole, device=p.t.device)
    return number


def _open(p: BlockBuilder, end: _End, number: ir.Value | None) -> None:
    """The line that begins a loop, and the look at a condition that comes first."""
    flag = Ref(end.flag) if end.flag is not None and end.first is not True else None
    if end.trips is None:
        p.open("while", spell(True) if flag is None else flag)
        return
    trips = spell(end.trips)
    if end.never and end.first is not True:
        trips = Conditional(trips, end.initial, spell(0))
    p.open("for", p.spelling.anchored(Name("range")(trips)), [number])
    if flag is not None:
        p.leave(_denied(flag))


class _End:
    """How a Loop ends: by its trip count, by its condition, or by both.

    `flag` carries the condition from one iteration to the next, where it can't be
    looked at in the place where it was computed.
    """

    def __init__(self, n: NodeView, body: ir.Graph) -> None:
        self.trips = _trips(n)
        self.first = _truth(n.value(1)) if n.has(1) else True
        self.initial = spell(self.first) if self.first is not None else Ref(n.value(1))
        self.going = body.outputs[0]
        origin = source(self.going)
        self.never = origin is body.inputs[1] or _truth(origin) is True
        if self.never and self.trips is None:
            n.refuse("a Loop that may never end is not supported")
        # A state has its next value by the time that the condition is looked at.
        carried = not self.never and origin in body.inputs
        asks = not self.never and self.first is not True
        self.flag = ir.Value(name="running") if carried or asks else None
        known = isinstance(self.trips, int) and self.trips > 0
        self.surely_runs = known and self.first is True


def _trips(n: NodeView) -> int | Expr | None:
    if not n.has(0):
        return None
    found = n.ints(0)
    if not found:
        return Name("int")(Ref(n.value(0)))
    return None if isinstance(found[0], int) and found[0] >= ENDLESS else found[0]


def _truth(value: ir.Value) -> bool | None:
    """What a constant condition says."""
    array = None if value.const_value is None else value.const_value.numpy()
    return bool(array.reshape(-1)[0]) if array is not None and array.size else None


# ----------------------------------------------------------------------------- Scan


def write_scan(p: BlockBuilder, n: NodeView, wanted: Sequence[ir.Value]) -> None:
    """A Scan as a loop over the positions of what it scans.

    Raises Unsupported for what has no spelling.
    """
    body = n.attr("body")
    scanned = n.attr("num_scan_inputs")
    count = len(body.inputs) - scanned
    items = dict(zip(n.node.outputs[count:], body.outputs[count:], strict=False))
    items = {out: item for out, item in items.items() if out in wanted}
    states = States(
        n, 0, body.inputs[:count], body.outputs[:count], wanted, items.values()
    )
    names, lists = states.enter(p), _lists(p, items.values())
    axes = n.attr("scan_input_axes") or [0] * scanned
    back = n.attr("scan_input_directions") or [0] * scanned
    slices = [k for k in range(scanned) if body.inputs[count + k] in states.reached]
    rows = []
    for k in slices or [0]:
        row: Expr = Ref(n.value(count + k))
        axis = axes[k] % n.rank(count + k)
        row = row.flip(axis) if back[k] else row
        rows.append(row.unbind(axis) if axis else row)
    targets = [body.inputs[count + k] for k in slices] or [None]
    p.open("for", p.spelling.anchored(_each(rows)), targets)
    p.body(body, [*states.results(), *items.values()], names)
    for item, made in lists.items():
        p.call(Ref(made).append(names.get(item, Ref(item))))
    p.copy(states.hand_on(p, names))
    p.close()
    length = n.dims(count)[axes[0] % n.rank(count)]
    axes = n.attr("scan_output_axes") or [0] * n.outputs
    back = n.attr("scan_output_directions") or [0] * n.outputs
    runs = isinstance(length, int) and length > 0
    for out, item in items.items():
        k = (out.index() or 0) - count
        rank = len(p.shapes.dims(item) or ()) + 1
        stack = _stacked(p, item, lists[item], runs, axes[k] % rank, bool(back[k]))
        p.set(out, stack)


def _each(rows: list[Expr]) -> Expr:
    return rows[0] if len(rows) == 1 else Name("zip")(*rows)


def _denied(condition: Expr) -> Expr:
    return Unary(condition, label="not ")


def write_sequence_map(
    p: BlockBuilder, n: NodeView, wanted: Sequence[ir.Value]
) -> None:
    """A SequenceMap as a loop over its lists."""
    body = n.attr("body")
    results = [body.outputs[out.index() or 0] for out in wanted]
    names: Names = {}
    rows: list[Expr] = []
    targets = []
    for i, given in enumerate(body.inputs):
        if isinstance(n.value(i).type, ir.SequenceType):
            rows.append(Ref(n.value(i)))
            targets.append(given)
        else:
            names[given] = Ref(n.value(i))
    for out in wanted:
        p.set(out, spell([]), telling(out.name))
    p.open("for", p.spelling.anchored(_each(rows)), targets)
    p.body(body, results, names)
    for out, result in zip(wanted, results, strict=True):
        p.call(Ref(out).append(names.get(result, Ref(result))))
    p.close()


# --------------------------------------------------------------- lists


def _lists(p: BlockBuilder, items: Iterable[ir.Value]) -> dict[ir.Value, ir.Value]:
    """An empty list for each value that is collected."""
    lists = {}
    for item in dict.fromkeys(items):
        word = telling(item.name)
        word = word if word.endswith("s") else f"{word}s" if word else "results"
        word = word if word == variable(word) else "results"  # those of `a` are `as`
        lists[item] = ir.Value(name=word)
        p.set(lists[item], spell([]), word)
    return lists


def _stacked(
    p: BlockBuilder,
    item: ir.Value,
    made: ir.Value,
    surely_runs: bool,
    axis: int = 0,
    back: bool = False,
) -> Expr:
    """A list as one tensor; of a loop that did not run, with sizes that are known."""
    items = Ref(made)[::-1] if back else Ref(made)
    text = item.dtype == ir.DataType.STRING
    over = {"axis" if text else "dim": axis} if axis else {}
    stacked: Expr = (p.t.np if text else p.t).stack(items, **over)
    if surely_runs:
        return stacked
    sizes = list(p.shapes.declared_sizes.get(item, ()))
    sizes.insert(axis, 0)
    if text:
        nothing = p.t.np.empty(sizes, dtype=Name("object"))
        return Conditional(stacked, Ref(made), nothing)
    options = {}
    if item.dtype not in (None, ir.DataType.FLOAT):
        options["dtype"] = p.t.dtype(item.dtype)
    empty = p.t.empty(*sizes, **options, device=p.t.device)
    return Conditional(stacked, Ref(made), empty)
