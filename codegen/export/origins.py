"""Names of the original file for what an exported graph has in common with it.

The exporter notes on which line of model.py a node was made, in which module. The
source map has the nodes of the original file behind that line, and a line that was
moved is found by what stands around it. What is left in lines that were changed is
compared by operators, their attributes and their order.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.parameters import note_kind
from ...analysis.graph.traversal import reads_of
from ...analysis.literals import strings_in
from ..emit.source_map import options, same_lines
from .interface import Interface

if TYPE_CHECKING:
    import torch

_TRACE, _SCOPES = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
_KEPT = (_SCOPES, _CLASSES, "namespace")
_MEMBER = re.compile(r"\s+self\.(\w+) = ")
_PLACE = re.compile(r'File "(.+)", line (\d+)')

_CHANGED = 0  # in the place of a line that the other text hasn't


def restore_names(graph: ir.Graph, module: torch.nn.Module, known: Interface) -> int:
    """Give nodes, values and weights the names that they had in the original file.

    No other one gets such a name; returns how many nodes do. What the exporter noted
    of where files lie is dropped, and of classes, if the file named none.
    """
    weights = keys = _weight_names(graph, module)
    found, pairs = known.report.get("source_map", {}), dict[ir.Node, str]()
    around = _around(found.get("weights", {}))
    paths = {scope for node in graph.all_nodes() for scope in _scopes(node)[1:-1]}
    numbers = _numbers(paths, found.get("weights", {}), around[-1:])
    if known.source is not None and "text" in found:
        lines = same_lines(known.source.read_text(encoding="utf-8"), found["text"])
        pairs, owners, near = _pairs(graph, found, str(known.source), lines)
        called = found["weights"]
        theirs = {*found["values"], *called.values()}
        # A new layer's may be called as something in the file: such keep no name.
        weights = {
            value: name
            for value, key in weights.items()
            if (name := called.get(key, key) or _in_file(key, numbers, around[-1:]))
            and (key in called or name not in theirs)
        }
        times = Counter(weights.values())  # of a matrix that became several
        weights = {v: n for v, n in weights.items() if times[n] == 1 or keys[v] == n}
        _rename(graph, pairs, weights, found)
        order = {name: i for i, name in enumerate(found["operators"])}
        places = {node: order[name] for node, name in pairs.items()}
        nodes = _reorder(list(graph), owners, places, near)
        graph.remove(nodes)
        graph.extend(nodes)
    for value, key in keys.items():
        other = (value.name or "").rpartition(".")[2] != key.rpartition(".")[2]
        if other and len(value.name or "") > 1:
            note_kind(value, "")  # the file's is the name of a result
    imported = type(module).__module__.rpartition(".")[0]
    folder = known.source.parent.name if known.source is not None else imported
    classes = found.get("classes", {})
    told = _KEPT if found.get("names_classes", True) else (_SCOPES,)
    written = re.compile(rf"\b{re.escape(imported)}\.model\.(\w+)")
    for node in graph.all_nodes():
        kept = {key: node.metadata_props.get(key, "") for key in _KEPT}
        if (scopes := _scopes(node))[:1] == [""]:
            kinds = strings_in(kept[_CLASSES])
            inside = [_in_file(scope, numbers, around[-1:]) for scope in scopes[1:-1]]
            kept[_SCOPES] = str(["", *around, *inside, scopes[-1]])
            kept[_CLASSES] = str([*kinds[:1] * len(around), *kinds])
        node.metadata_props.clear()
        for key in told:
            node.metadata_props[key] = written.sub(
                lambda m: f"{folder}.model.{classes.get(m[1], m[1])}", kept[key]
            )
    return len(pairs)


def _around(called: Mapping[str, str]) -> list[str]:
    """The modules of the file that the emitted network left out around itself:
    `model.norm.weight` of the file is its `norm.weight`."""
    more = Counter(
        name.removesuffix(key).rstrip(".")
        for key, name in called.items()
        if name.endswith(f".{key}") or name == key
    )
    words = more.most_common(1)[0][0].split(".") if more else [""]
    paths = [name.split(".") for name in called.values() if "." in name]
    if 2 * sum(path[: len(words)] == words for path in paths) <= len(paths):
        return []  # of a weight that others are equal to
    return [".".join(words[: i + 1]) for i in range(len(words))] if words[0] else []


def _numbers(
    paths: Set[str], called: Mapping[str, str], around: Sequence[str]
) -> dict[str, str]:
    """What the file's lists of modules have others for, by their paths: they may hold
    a dropout, which stands in no graph, so that later ones count on. One of which no
    weight tells stands where it is, or behind the one before it."""
    votes: dict[str, Counter[str]] = {}  # equal weights have one name
    for key, name in called.items():
        own = key.split(".")
        theirs = name.removeprefix(".".join([*around, ""])).split(".")
        pairs = [*zip(own, theirs, strict=False)]
        if len(own) == len(theirs) and all(
            a == b or (a + b).isdigit() for a, b in pairs
        ):
            for i, (a, b) in enumerate(pairs):
                if a != b:
                    votes.setdefault(".".join(own[: i + 1]), Counter())[b] += 1
    numbers = {path: found.most_common(1)[0][0] for path, found in votes.items()}
    for parent in {path.rpartition(".")[0] for path in numbers}:
        inside = (path.removeprefix(f"{parent}.") for path in paths)
        row, last = dict[str, int](), -1
        for number in sorted({int(word) for word in inside if word.isdigit()}):
            path = f"{parent}.{number}"
            row[path] = last = int(numbers.pop(path, max(number, last + 1)))
        counts = [*row.values()]
        if counts == sorted({*counts}):  # equal weights of several have one name
            numbers |= {path: str(number) for path, number in row.items()}
    return numbers


def _in_file(path: str, numbers: Mapping[str, str], around: Sequence[str]) -> str:
    """A module's path as the file has it."""
    words = path.split(".")
    paths = [".".join(words[: i + 1]) for i in range(len(words))]
    found = [numbers.get(one, word) for one, word in zip(paths, words, strict=True)]
    return ".".join([*around, *found])


def _pairs(
    graph: ir.Graph, found: Mapping[str, Any], source: str, lines: Mapping[int, int]
) -> tuple[dict[ir.Node, str], dict[ir.Node, str], dict[ir.Node, int]]:
    """The nodes that stand for one of the original file, with its name; all nodes with
    the module that they belong to; and where the file has what stands for none of its
    nodes, as those that are left of its line."""
    operators: dict[str, str] = found["operators"]
    place = {name: i for i, name in enumerate(operators)}
    spans = list(_spans(found["lines"], set(lines.values())))
    paths = {path for _, _, groups in spans for path in groups}
    members = dict(_members(found["text"]))
    were: dict[tuple[str, int | str], dict[str, None]] = {}
    for first, _, groups in spans:
        for path, names in groups.items():
            key = path, members.get(first, first)
            were.setdefault(key, {}).update(dict.fromkeys(names))
    are: dict[tuple[str, int | str], list[ir.Node]] = {}
    owners: dict[ir.Node, str] = {}
    for node in graph:
        line = lines.get(_line(node, source), _CHANGED)
        first = min(
            (span for span in spans if span[0] <= line <= span[1]),
            key=lambda span: span[1] - span[0],
            default=(_CHANGED,),
        )[0]
        scopes = [scope for scope in _scopes(node)[:-1] if scope in paths]
        owners[node] = owner = max(scopes, key=len, default="")
        inside = _scopes(node)[-2:-1] or [""]  # of a layer, that its owner has
        layer = inside[0].removeprefix(owner).lstrip(".").partition(".")[0]
        for key in ((owner, layer), (owner, first)):
            are.setdefault(key, []).append(node)
    pairs, near = dict[ir.Node, str](), dict[ir.Node, int]()
    for key in sorted(
        are, key=lambda key: (isinstance(key[1], int), key[1] == _CHANGED)
    ):
        nodes = [node for node in are[key] if node not in pairs]
        names = sorted({*were.get(key, ())} - {*pairs.values()}, key=place.__getitem__)
        told = found.get("attributes") if key[1] == _CHANGED else None
        then = [(operators[n], (told or {}).get(n, "")) for n in names]
        now = [(n.op_type, "" if told is None else options(n)) for n in nodes]
        matcher = difflib.SequenceMatcher(None, now, then, autojunk=False)
        for i, j, n in matcher.get_matching_blocks():
            pairs |= zip(nodes[i : i + n], names[j : j + n], strict=True)
        taken = {*pairs.values()}
        left = [place[name] for name in names if name not in taken]
        rest = [node for node in nodes if node not in pairs]
        near |= zip(rest, left + left[-1:] * len(rest), strict=False)
    return pairs, owners, near


def _members(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text that make a layer or a weight, and what it is called."""
    for number, line in enumerate(text.splitlines(), 1):
        if made := _MEMBER.match(line):
            yield number, made[1]


def _spans(
    lines: Mapping[str, Mapping[str, Sequence[str]]], kept: set[int]
) -> Iterator[tuple[int, int, Mapping[str, Sequence[str]]]]:
    """First and last line of each statement, and the nodes behind it by module; those
    of which no line is left stand together."""
    for span, groups in lines.items():
        first, _, last = span.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        if kept.isdisjoint(numbers):
            yield _CHANGED, _CHANGED, groups
        else:
            yield numbers[0], numbers[-1], groups


def _line(node: ir.Node, source: str) -> int:
    """The innermost line of the source that made a node."""
    places = _PLACE.findall(node.metadata_props.get(_TRACE, ""))
    return next((int(n) for file, n in reversed(places) if file == source), _CHANGED)


def _scopes(node: ir.Node) -> list[str]:
    return strings_in(node.metadata_props.get(_SCOPES))


def _rename(
    graph: ir.Graph,
    pairs: Mapping[ir.Node, str],
    weights: Mapping[ir.Value, str],
    found: Mapping[str, Any],
) -> None:
    outputs: dict[str, list[str]] = {}
    for value, node in found["values"].items():
        outputs.setdefault(node, []).append(value)
    fixed = {value.name for value in (*graph.inputs, *graph.outputs)}
    names, held = dict(weights), {*weights.values()}
    for node, name in pairs.items():
        old = outputs.get(name, ())
        if len(old) == len(node.outputs):
            pairs_of = zip(node.outputs, old, strict=True)
            free_of = (p for p in pairs_of if p[1] not in held)
            names |= {v: n for v, n in free_of if not {v.name, n} & fixed}
    values = [*graph.initializers.values()]
    values += [value for node in graph.all_nodes() for value in node.outputs]
    free = [v for v in values if v not in names and v.name not in fixed]
    taken = {*found["values"], *found["weights"].values(), *names.values(), *fixed}
    for value in free:
        value.name = _unused(value.name or "value", taken)
    # In two steps, as one may have the name that another one is to get.
    for i, value in enumerate(names):
        value.name = f"fairhand.{i}"
    for value, name in names.items():
        value.name = name
    taken = {*found["operators"]}
    for node in graph.all_nodes():
        node.name = pairs.get(node) or _unused(node.name or node.op_type, taken)


def _reorder(
    nodes: Sequence[ir.Node],
    owners: Mapping[ir.Node, str],
    places: Mapping[ir.Node, int],
    near: Mapping[ir.Node, int],
    path: str = "",
) -> list[ir.Node]:
    """What a module computes in the order of the original file, as far as what nodes
    read admits: source may compute in another order. What is inside of another module
    stays together. What the file hasn't stays behind what is computed before it, and
    in front of what reads it."""
    paths, items = {*owners.values()}, list[list[ir.Node]]()
    inner = {node: _inner(path, owners[node], paths) for node in nodes}
    for _, run in groupby(nodes, lambda node: inner[node] or node):
        items.append([*run])
    item_of = {node: i for i, item in enumerate(items) for node in item}
    readers: list[set[int]] = [set() for _ in items]
    rank, waits, last = list[int](), list[int](), -1
    for i, item in enumerate(items):
        reads = (value.producer() for node in item for value in reads_of(node))
        before = {item_of[node] for node in reads if node in item_of} - {i}
        for other in before:
            readers[other].add(i)
        known = [places[node] for node in item if node in places]
        guessed = [near[node] for node in item[:1] if node in near]
        rank.append(min(known) if known else max([last, *guessed]))
        last = max(last, rank[i])
        waits.append(len(before))
    for i, item in reversed([*enumerate(items)]):
        if readers[i] and places.keys().isdisjoint(item):
            first = min(rank[k] for k in readers[i])
            rank[i] = first if rank[i] < 0 else min(rank[i], first)
    done, ready = list[ir.Node](), [(rank[i], i) for i, n in enumerate(waits) if not n]
    heapify(ready)
    while ready:
        _, i = heappop(ready)
        under = inner[items[i][0]]
        done += _reorder(items[i], owners, places, near, under) if under else items[i]
        for reader in readers[i]:
            waits[reader] -= 1
            if not waits[reader]:
                heappush(ready, (rank[reader], reader))
    return done


def _inner(path: str, owner: str, paths: Set[str]) -> str:
    """The outermost module inside of one that a node of `owner` is in; "" if none."""
    words = owner.split(".")
    every = (".".join(words[:i]) for i in range(1, len(words) + 1))
    return next((p for p in every if p in paths and len(p) > len(path)), "")


def _unused(name: str, taken: set[str | None]) -> str:
    """The name, or the first with a number behind it that is free; it is taken now."""
    number, found = 1, name
    while found in taken:
        number, found = number + 1, f"{name}_{number}"
    taken.add(found)
    return found


def _weight_names(graph: ir.Graph, module: torch.nn.Module) -> dict[ir.Value, str]:
    """The first keys of a module's tensors that initializers are, as they are or, as
    the exporter lays out those of linear layers, transposed."""
    state = module.state_dict(keep_vars=True)
    first = {id(tensor): key for key, tensor in reversed(state.items())}
    laid_out = {
        _fingerprint(ir.tensor(tensor.detach().T.cpu()).numpy()): first[id(tensor)]
        for tensor in state.values()
        if tensor.ndim == 2
    }
    found: dict[str, ir.Value] = {}
    for value in graph.initializers.values():
        tensor = value.const_value
        key = first[id(state[value.name])] if value.name in state else None
        if key is None and tensor is not None and len(tensor.shape) == 2:
            key = laid_out.get(_fingerprint(tensor.numpy()))
        if key is not None:
            found.setdefault(key, value)
    return {value: key for key, value in found.items()}


def _fingerprint(matrix: np.ndarray) -> tuple[Sequence[int], bytes, bytes]:
    """Shape, first row and first column: no two trained weights share them."""
    return matrix.shape, matrix[:1].tobytes(), matrix[:, :1].tobytes()
