"""The source map: which ONNX nodes are behind a line of model.py, and the way back.

It is kept in provenance.json. "lines" lists the nodes that a line stands for, under the
path of each module that runs it; "calls" the modules that a line calls, whose nodes
stand behind their own lines; "elsewhere" the nodes that no line computes, by reason.
For the way back to ONNX "text" is what the lines are of, as it was written;
"operators" has the operator of each node, "attributes" a digest of what it says beside
defaults (options), "values" the node that a value comes from,
and "weights" and "classes" what the file calls weights and classes, by their keys and
names here, where these are others, "" of a weight that the file hasn't as it is.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ...analysis.errors import FairhandError
from ...analysis.graph.parameters import ALTERED
from ...analysis.graph.traversal import all_nodes
from ...analysis.literals import one_line
from ...rewrites.adapters.provenance import CLASSES, behind, last_of
from ...rewrites.engine.graph_editor import usual_attributes
from ...rewrites.engine.history import Application
from ..ir.package_plan import ClassPlan, PackagePlan, SourceNodes, WeightPlan
from .package_files import in_lines, read_report

CONSTANT, KNOWN, UNREAD, EDITED = "constant", "known", "unread", "edited"
REASONS = {
    CONSTANT: "is a constant, or was computed once and stored",
    KNOWN: "has a result that is known: a size, or its own input",
    UNREAD: "does nothing here, or nothing reads its result any more",
    EDITED: "was on lines that were edited",
}
_NO_OPTIONS = {ir.AttributeType[x] for x in ("GRAPH", "GRAPHS", "TENSOR", "TENSORS")}
LONGEST = 1000  # characters of a name that are shown


def source_map(
    text: str, plan: PackagePlan, model: ir.Model, history: Sequence[Application]
) -> dict[str, Any]:
    """For provenance.json; `text` is model.py's, `model` the rewritten graph."""
    places = {name: i for i, name in enumerate(model.meta["nodes"])}
    lines: dict[str, dict[str, list[str]]] = {}
    calls: dict[str, dict[str, list[str]]] = {}
    for span, found in _spans(text, plan.classes):
        if found.nodes:
            lines[span] = {
                path: sorted(set(names), key=places.__getitem__)
                for path, names in found.nodes.items()
            }
        if found.calls:
            calls[span] = found.calls
    seen = {n for groups in lines.values() for names in groups.values() for n in names}
    elsewhere: dict[str, list[str]] = {}
    reasons = _reasons(model, history)
    for name in places:
        if name not in seen:
            elsewhere.setdefault(reasons.get(name, UNREAD), []).append(name)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {
        "sha256": digest,
        "lines": lines,
        "calls": calls,
        "elsewhere": elsewhere,
        "text": text,
        "classes": {
            c.name: c.named for c in plan.classes if c.named not in ("", c.name)
        },
    }


def names_in_file(
    file: ir.Model, model: ir.Model, weights: Sequence[WeightPlan]
) -> dict[str, Any]:
    """The part of the map that says what the file calls what it holds; nodes have the
    names that origins have in `model`, the rewritten graph."""
    named = list(zip(model.meta["nodes"], all_nodes(file.graph), strict=True))
    held = {
        name: sorted(value.const_value.shape.numpy())
        for name, value in file.graph.initializers.items()
        if value.const_value is not None
    }
    stored = dict[str, str]()
    for plan in weights:
        if plan.weight is not None:
            value = plan.weight.value
            name = plan.origin or str(value.name)
            whole = held.get(name) == sorted(plan.weight.glance().shape)
            whole = whole and not value.meta.get(ALTERED)
            stored[plan.key] = name if whole else ""
    times = Counter(stored.values())
    said = any(CLASSES in node.metadata_props for _, node in named)
    return {
        **({} if said else {"names_classes": False}),
        "operators": {name: node.op_type for name, node in named},
        "attributes": {name: told for name, node in named if (told := options(node))},
        "values": {
            value.name: name
            for name, node in named
            for value in node.outputs
            if value.name
        },
        "weights": {k: n for k, n in stored.items() if k != n or times[n] > 1},
    }


def options(node: ir.Node) -> str:
    """A short digest of the attributes of a node that are not their defaults; empty if
    there are none."""
    defaults, told = usual_attributes(node.op_type, node.domain), []
    for name, attribute in sorted(node.attributes.items()):
        if attribute.is_ref() or attribute.type in _NO_OPTIONS:
            continue
        value = attribute.value
        if defaults.get(name) == value:
            continue
        told.append((name, [*value] if isinstance(value, Sequence) else value))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:8] if told else ""


def _reasons(model: ir.Model, history: Sequence[Application]) -> dict[str, str]:
    """What became of the nodes, should no line stand for them."""
    found = last_of([(f"rule {a.rule}", a.origins) for a in history])
    found |= dict.fromkeys(model.meta["constants"], CONSTANT)
    for node in model.graph:
        found |= dict.fromkeys(behind(node), KNOWN)
    return found


def _spans(
    text: str, classes: Iterable[ClassPlan]
) -> Iterator[tuple[str, SourceNodes]]:
    """The lines of the formatted text on which each planned line stands."""
    written = {
        node.name: {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }
    for plan in classes:
        methods = written[plan.name]
        for method in plan.methods:
            planned = list(_statements(ast.parse("\n".join(method.body)).body))
            # Formatting keeps the statements; what comes before them is the template's.
            found = methods.get(method.name)
            now = list(_statements(found.body if found is not None else []))
            for old, new in zip(planned, now[len(now) - len(planned) :], strict=True):
                yield _span(new), method.sources[old.lineno - 1]


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for part in ("body", "orelse"):
            yield from _statements(getattr(statement, part, []))


def _span(statement: ast.stmt) -> str:
    """'87', or '87-91'; of a loop, the lines of its head."""
    inner = getattr(statement, "body", None)
    last = inner[0].lineno - 1 if inner else statement.end_lineno
    first = statement.lineno
    return str(first) if last == first else f"{first}-{last}"


def same_lines(now: str, then: str) -> dict[int, int]:
    """Lines of a text, by their numbers, and those of an older one that they were."""
    matcher = difflib.SequenceMatcher(
        None, now.splitlines(), then.splitlines(), autojunk=False
    )
    return {
        block.a + i + 1: block.b + i + 1
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    }


# --------------------------------------------------------------------------- reading


class _Map:
    """The source map of a package, and the text that it is about."""

    def __init__(self, folder: Path) -> None:
        found = read_report(folder).get("source_map")
        if not isinstance(found, dict):
            raise FairhandError(
                f"{folder} has no source map", hint="compile the model again"
            )
        self.lines: Mapping[str, Mapping[str, list[str]]] = found.get("lines", {})
        self.calls: Mapping[str, Mapping[str, list[str]]] = found.get("calls", {})
        self.elsewhere: Mapping[str, list[str]] = found.get("elsewhere", {})
        text = in_lines((folder / "model.py").read_bytes()).decode("utf-8", "replace")
        self.text = text.splitlines()
        if text != found.get("text"):
            self._move(same_lines(str(found.get("text", "")), text))

    def _move(self, moved: Mapping[int, int]) -> None:
        """To an edited text's lines, of those of the text that was written."""

        def now(span: str) -> str:
            first, _, last = span.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            by = moved.get(numbers[0], 0) - numbers[0]
            is_whole = all(moved.get(n) == n + by for n in numbers)
            ends = dict.fromkeys((numbers[0] + by, numbers[-1] + by))
            return "-".join(map(str, ends)) if is_whole else ""

        gone = [of.values() for span, of in self.lines.items() if not now(span)]
        names = [name for groups in gone for group in groups for name in group]
        self.elsewhere = {**self.elsewhere, EDITED: names}
        self.lines, self.calls = (
            {new: of for span, of in table.items() if (new := now(span))}
            for table in (self.lines, self.calls)
        )

    def first(self, span: str) -> str:
        return self.text[int(span.partition("-")[0]) - 1].strip()

    def below(self, path: str) -> int:
        """How many nodes are behind the lines of a module and of those in it."""
        found = {
            name
            for groups in self.lines.values()
            for owner, names in groups.items()
            if owner == path or owner.startswith(f"{path}.")
            for name in names
        }
        return len(found)


def line_facts(folder: Path, line: str) -> dict[str, Any]:
    """`model.py:87` or `87`: the statements on that line with the nodes behind them and
    the modules that they call, by module; as docs/schemas/where.json says."""
    known = _Map(folder)
    file, _, number = line.rpartition(":")
    known_file = Path(file or "model.py").name == "model.py"
    if not (
        known_file and number.isascii() and number.isdecimal() and len(number) < 10
    ):
        raise FairhandError(
            f"{line!r} is no line of model.py", hint="write model.py:87"
        )
    if not 1 <= int(number) <= len(known.text):
        raise FairhandError(f"model.py has {len(known.text)} lines")
    spans = [s for s in {**known.lines, **known.calls} if _covers(s, int(number))]
    return {
        "lines": [
            {
                "line": span,
                "text": known.first(span),
                "nodes": dict(known.lines.get(span, {})),
                "calls": {
                    path: known.below(path)
                    for paths in known.calls.get(span, {}).values()
                    for path in paths
                },
            }
            for span in spans or [number]
        ]
    }


def node_facts(folder: Path, name: str) -> dict[str, Any]:
    """The lines that a node of the model is behind, by module, or why there is none."""
    known = _Map(folder)
    spelled = {n for n in _names(known) if name in (n, printed(n))}
    if not spelled:
        near = difflib.get_close_matches(name, [*_names(known)], 1)
        raise FairhandError(
            f"the model has no node {name!r}",
            hint=f"there is {printed(near[0])}" if near else "",
        )
    return {
        "node": name,
        "lines": [
            {"line": span, "text": known.first(span), "module": path}
            for span, groups in known.lines.items()
            for path, names in groups.items()
            if not spelled.isdisjoint(names)
        ],
        "elsewhere": [
            REASONS.get(reason, f"was rewritten by {reason}")
            for reason, names in known.elsewhere.items()
            if not spelled.isdisjoint(names)
        ],
    }


def _names(known: _Map) -> dict[str, None]:
    groups = [names for of in known.lines.values() for names in of.values()]
    return dict.fromkeys(
        n for names in (*groups, *known.elsewhere.values()) for n in names
    )


def _covers(span: str, number: int) -> bool:
    first, _, last = span.partition("-")
    return int(first) <= number <= int(last or first)


def printed(name: str) -> str:
    """The name of a node as it is shown: a line of text."""
    return one_line(name, LONGEST)
