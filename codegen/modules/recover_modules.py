"""Modules for a model whose file names none, found by what repeats (find_blocks.py)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from ...analysis.repeats.cycles import Block
from ...analysis.repeats.find_blocks import find_blocks
from ...analysis.repeats.single_entry_regions import Item
from ...analysis.spelling.expr import Binary, Expr, Leaf, Ref, callee, callees, render
from ..ir.assignment import Assignment, LayerRef, Scope, readers_of
from ..ir.control_flow import inside, laid_out
from ..ir.identifiers import variable

_NUMBER = re.compile(r"\b\d[\d.e+-]*")
# What a layer or a pooling pads is a number as well.
_PADDED = re.compile(r"(?<=\()F\.pad\(v, \([^()]*\)(, value=\S+)?\)|, padding=#")


def find_scopes(steps: list[Assignment]) -> None:
    """Give the steps of a model without scopes those of its repeated parts."""
    if any(step.scopes for step in steps):
        return
    _hoist(steps)
    items = [_item(step) for step in steps]
    blocks = find_blocks(items)
    roles = _roles(steps, blocks)
    base = "layers" if "Layer" in roles.values() else "blocks"
    told = [_told(steps[block.start : block.end]) for block in blocks]
    for i, block in enumerate(blocks):
        if told[i] and told.count(told[i]) == 1:
            _enter(steps, block, Scope(told[i]), roles, named=True)
            continue
        path = f"{base}.{i}" if len(blocks) > 1 else "block"
        _enter(steps, block, Scope(path, roles[block.kind]), roles)


def _roles(steps: list[Assignment], blocks: list[Block]) -> dict[int, str]:
    """What the class of each kind of block is called."""
    roles: dict[int, str] = {}
    for block in blocks:
        plain = "Transition" if block.is_between else "Block"
        roles[block.kind] = "Layer" if _attends(steps, block) else plain
    for part in _parts(blocks):
        roles[part.kind] = max(_role(steps, part), roles.get(part.kind, ""))
    return roles


def _parts(blocks: list[Block]) -> Iterator[Block]:
    for block in blocks:
        yield from block.inner
        yield from _parts(block.inner)


def _role(steps: list[Assignment], part: Block) -> str:
    if _attends(steps, part):
        return "Attention"
    within = steps[part.start : part.end]
    if not any("Conv" in step.form.layer for step in within if step.form):
        return "Mlp"
    if callee(within[0].expr) == ".mean" and _is_product(within[-1].expr):
        return "SqueezeExcitation"
    forms = [step.form for step in within if step.form is not None]
    convs = [form for form in forms if "Conv" in form.layer]
    kernels = [form.positional[2] for form in convs]
    grouped = [form.keywords["groups"][0] > 1 for form in convs]
    if grouped == [True, False] * (len(convs) // 2) and set(kernels[1::2]) == {1}:
        return "Separable"
    narrow = len(kernels) < 4 and kernels[0] == 1 != max(kernels)
    return "Bottleneck" if narrow else "Part"


def _told(steps: list[Assignment]) -> str:
    """The module that the names of all weights of a block share: layers.0."""
    paths = [step.path.split(".")[:-1] for step in steps if step.form is not None]
    shared = [words[0] for words in zip(*paths, strict=False) if len(set(words)) == 1]
    return ".".join(shared) if paths and shared == paths[0][: len(shared)] else ""


def _hoist(steps: list[Assignment]) -> None:
    """Begin with what needs no layer: masks, which exporters leave in the first use.

    What takes its type alone from what a layer gives stands right behind that layer.
    """
    late: dict[ir.Value, int] = {}  # what layers have to do with, by its step
    behind: dict[ir.Value, int] = {}  # what stands right behind one of them
    first: list[Assignment] = []
    rest: list[list[Assignment]] = []
    for step in steps:
        outputs = [out for out in step.outputs if out is not None]
        if _owns(step) or not late.keys().isdisjoint(step.operands()):
            late.update(dict.fromkeys(outputs, len(rest)))
            rest.append([step])
            continue
        after = [(late | behind)[v] for v in step.reads() if v in late or v in behind]
        if after:
            behind.update(dict.fromkeys(outputs, max(after)))
        (rest[max(after)] if after else first).append(step)
    steps[:] = _close(first + [step for group in rest for step in group])


def _owns(step: Assignment) -> bool:
    return any(inner.form is not None for inner in inside(step))


def _close(steps: list[Assignment]) -> list[Assignment]:
    """With what alone reads a value, and nothing else, right behind what makes it."""
    readers = readers_of(steps)
    alone: set[Assignment] = set()  # what reads one computed value, and owns no layer
    for step in steps:
        values = set(step.reads())
        if sum(v.const_value is None for v in values) == 1 and not _owns(step):
            alone.add(step)
    found: dict[Assignment, None] = {}

    def only_reader(step: Assignment) -> Assignment | None:
        outputs = [out for out in step.outputs if out in readers]
        if len(outputs) != 1 or len(readers[outputs[0]]) != 1:
            return None
        (reader,) = readers[outputs[0]]
        return reader if reader in alone else None

    for step in steps:
        following: Assignment | None = step
        while following is not None and following not in found:
            found[following] = None
            following = only_reader(following)
    return list(found)


def _enter(
    steps: list[Assignment],
    block: Block,
    scope: Scope,
    roles: dict[int, str],
    named: bool = False,
) -> None:
    for step in steps[block.start : block.end]:
        for inner in inside(step):
            inner.scopes = (*inner.scopes, scope)
            if inner.form is not None and not named:
                inner.path = scope.path
    if named:
        return
    met: Counter[str] = Counter()
    counts = Counter(roles[part.kind] for part in block.inner)
    for part in block.inner:
        role = roles[part.kind]
        name = variable(role)
        if part.in_row or counts[role] > 1:
            name = f"{name}s.{met[role]}"
        met[role] += 1
        path = f"{scope.path}.{name}"
        if part.in_row:
            row = Scope(path.rpartition(".")[0], "Sequential")
            for step in steps[part.start : part.end]:
                step.scopes = (*step.scopes, row)
        _enter(steps, part, Scope(path, role), roles)


def _is_product(expr: Expr) -> bool:
    match expr:
        case Binary((Ref(), Ref()), "*"):
            return True
    return False


def _attends(steps: list[Assignment], block: Block) -> bool:
    names = (
        name
        for step in laid_out(steps[block.start : block.end])
        for name in callees(step.expr)
    )
    return any(name.endswith(("attention", "softmax")) for name in names)


def _item(step: Assignment) -> Item:
    def name(leaf: Leaf) -> str:
        if not isinstance(leaf, LayerRef):
            return "v"
        return f"{leaf.form.layer}<{', '.join(leaf.form.weights)}>"

    outputs = tuple(out for out in step.outputs if out is not None)
    reads = tuple(v for v in step.operands() if v.const_value is None)
    whole = list(laid_out([step]))
    texts = (render(inner.expr, name) for inner in whole)
    signature = _NUMBER.sub("#", "; ".join(texts))
    signature = _PADDED.sub(lambda found: "v" if "F" in found[0] else "", signature)
    signature = re.sub(r"v(, v)+", "v...", signature)  # however many are joined
    layers = any(inner.form is not None for inner in whole)
    return Item(signature, reads, outputs, layers)
