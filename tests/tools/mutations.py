"""Mutations of emitted source: does validation catch each one that matters?

    python -m tests.tools.mutations MODEL.onnx ... [--each 100] [--seed 0]

Each package gets so many mutants, a change of one expression each, by its syntax tree.
Each runs against what the graph stands for (codegen/validate/), and on three random
inputs against ONNX Runtime, with the tolerances that packages are verified with. A line
per kind of change says how many there were; how many changed the function, as results
differ in a bit from the package's own, on these inputs or on wilder ones; how many of
those validation caught, and sampling missed. What validation doesn't catch makes the
same calls as the graph: it is the same function, and `escaped` counts those that
compute something else. `other calls` are caught though no result differed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

import fairhand
from fairhand.analysis.oracle.child import module_name
from fairhand.codegen.emit.package_files import WEIGHTS
from fairhand.codegen.load.read_model import load
from fairhand.codegen.pipeline import lower
from fairhand.codegen.plan.make_plan import source_plan
from fairhand.codegen.request.options import CompileOptions
from fairhand.codegen.validate.compare import compare
from fairhand.codegen.validate.network import called
from fairhand.codegen.validate.reference import reference
from fairhand.codegen.validate.verdict import is_of_fewer_sizes
from fairhand.codegen.verify.input_sizes import dynamic_sizes, telling_sizes
from fairhand.codegen.verify.inputs import make_inputs
from fairhand.codegen.verify.tolerances import compare_values

Change = Callable[[random.Random], None]  # of a copy of the tree, in place
_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
_SEEDS = 3
_FUNCTIONS = ("cos", "sin", "exp", "tanh", "relu", "gelu", "silu", "sigmoid", "sqrt")
_DTYPES = ("float32", "float16", "float64", "int64", "int32", "bool")


def changes(tree: ast.Module) -> Iterator[tuple[str, Change]]:
    """The kinds of change that classes and functions admit, and how each is made."""
    for part in tree.body:
        if getattr(part, "name", "load") == "load":
            continue
        members = sorted({n.attr for n in ast.walk(part) if _member(n)})
        for function in ast.walk(part):
            if isinstance(function, ast.FunctionDef):
                names = sorted({n.id for n in ast.walk(function) if _local(n)})
                for node in ast.walk(function):
                    yield from _of(node, members, names, function.name == "__init__")
                    yield from _of_statements(node, function.name == "__init__")
                    yield from _of_options(node)


def _member(node: ast.AST) -> bool:
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return own and node.value.id == "self" and node.attr != "register_buffer"


def _local(node: ast.AST) -> bool:
    known = {"self", "torch", "F", "nn", "math", "range", "zip", "super", "Tensor"}
    return (
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id not in known
        and node.id.islower()
    )


def _of(
    node: Any, members: list[str], names: list[str], making: bool
) -> Iterator[tuple[str, Change]]:
    """The changes of one node of a method; `making` in a constructor."""
    if isinstance(node, ast.Call):
        if len(node.args) > 1 and not making:
            yield "swapped arguments", lambda draw: _swap(node.args, draw)
        text = ast.unparse(node.func)
        if text == "range" and isinstance(node.args[-1], ast.Constant):
            yield "an iteration more", lambda draw: _add(node.args[-1], 1)
            yield "an iteration less", lambda draw: _add(node.args[-1], -1)
        if text.startswith("F.") and len(node.args) == 1 and not making:
            yield "a dropped activation", lambda draw: _become(node, node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "dim" and isinstance(keyword.value, ast.Constant):
                yield "a wrong axis", lambda draw, at=keyword.value: _add(at, 1)
        moves = isinstance(node.func, ast.Attribute)
        if moves and node.func.attr in ("transpose", "flatten", "unsqueeze"):
            for number in node.args:
                if isinstance(number, ast.Constant):
                    yield "a wrong axis", lambda draw, at=number: _add(at, 1)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OTHER and not making:
        yield "a changed operator", lambda draw: _operate(node)
        if isinstance(node.op, ast.Add):
            yield "a dropped residual", lambda draw: _become(node, node.left)
            yield "a dropped residual", lambda draw: _become(node, node.right)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "a changed constant", lambda draw: _add(node, draw.choice((1, -1, 0.5)))
    elif _member(node) and isinstance(node.ctx, ast.Load) and not making:
        others = [name for name in members if name != node.attr]
        if others:
            yield "another weight", lambda draw: _set(node, "attr", draw.choice(others))
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        yield "swapped outputs", lambda draw: _swap(node.value.elts, draw)
    elif isinstance(node, ast.Name) and _local(node) and not making:
        others = [name for name in names if name != node.id]
        if others:
            yield "another value", lambda draw: _set(node, "id", draw.choice(others))


def _of_statements(node: Any, making: bool) -> Iterator[tuple[str, Change]]:
    """The changes of what stands in order, is decided, or is left to a default."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and not making:
        for i in range(len(body) - 1):
            swapped = slice(i, i + 2)
            yield "another order", lambda draw, at=swapped: _turn(body, at)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "a changed branch", lambda draw: _deny(node)
    elif isinstance(node, ast.Compare):
        others = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
        kinds = [kind for kind in others if not isinstance(node.ops[0], kind)]
        yield "a changed branch", lambda draw: _compare(node, draw.choice(kinds))
    elif isinstance(node, ast.arguments):
        for at in node.defaults:
            if isinstance(at, ast.Constant) and type(at.value) in (int, float, bool):
                yield "a changed default", lambda draw, at=at: _default(at)


def _of_options(node: Any) -> Iterator[tuple[str, Change]]:
    """The changes of what is said beside operands: by how much, how far, which way."""
    if isinstance(node, ast.Call):
        for at in node.keywords:
            yield "a dropped option", lambda draw, at=at: node.keywords.remove(at)
            if isinstance(at.value, ast.Constant) and type(at.value.value) is bool:
                yield "a flipped option", lambda draw, at=at: _default(at.value)
        method = isinstance(node.func, ast.Attribute) and not node.args
        if method and not isinstance(node.func.value, ast.Call):
            yield "a dropped call", lambda draw: _become(node, node.func.value)
    elif isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS + _DTYPES:
        kind = _FUNCTIONS if node.attr in _FUNCTIONS else _DTYPES
        others = [name for name in kind if name != node.attr]
        what = "another function" if kind is _FUNCTIONS else "another type"
        yield what, lambda draw: _set(node, "attr", draw.choice(others))
    elif isinstance(node, ast.Constant) and type(node.value) is float:
        by = (1.1, 1 + 1e-4, 1 - 1e-6)
        yield "a nudged constant", lambda draw: _times(node, draw.choice(by))
    elif isinstance(node, ast.Slice):
        yield "a slice off by one", lambda draw: _shift(node, draw)
    elif isinstance(node, ast.For):
        yield "a part of a loop", lambda draw: _some(node, draw)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "a dropped sign", lambda draw: _become(node, node.operand)


def _times(node: Any, by: float) -> None:
    node.value = node.value * by


def _shift(node: Any, draw: random.Random) -> None:
    """One end of a slice is one further in."""
    end, default = draw.choice((("lower", 1), ("upper", -1)))
    old, new = getattr(node, end), ast.Constant(default)
    if old is not None:
        new = ast.BinOp(old, ast.Add(), new)
    setattr(node, end, new)


def _some(node: Any, draw: random.Random) -> None:
    """A loop goes over less, or the other way round."""
    text = ast.unparse(node.iter)
    to = draw.choice(("list({})[1:]", "list({})[:-1]", "list({})[::-1]"))
    node.iter = ast.parse(to.format(text), mode="eval").body


def _turn(body: list[Any], at: slice) -> None:
    body[at] = body[at][::-1]


def _deny(node: Any) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _compare(node: Any, kind: Any) -> None:
    node.ops[0] = kind()


def _default(node: Any) -> None:
    node.value = not node.value if type(node.value) is bool else node.value + 1


def _swap(items: list[Any], draw: random.Random) -> None:
    i, j = draw.sample(range(len(items)), 2)
    items[i], items[j] = items[j], items[i]


def _add(node: Any, step: float) -> None:
    whole = isinstance(node.value, int) and step == int(step)
    node.value = node.value + int(step) if whole else node.value * 1.5


def _set(node: Any, field: str, value: str) -> None:
    setattr(node, field, value)


def _operate(node: Any) -> None:
    node.op = _OTHER[type(node.op)]()


def _become(node: Any, other: Any) -> None:
    """What stands there is `other`, as an argument that is not changed."""
    kept = copy.deepcopy(other)
    node.__class__ = kept.__class__
    node.__dict__ = kept.__dict__


def mutants(
    text: str,
    count: int,
    seed: int,
    changes: Callable[[ast.Module], Iterable[tuple[str, Change]]] = changes,
) -> Iterator[tuple[str, str]]:
    """So many different texts that differ from this one, and what was changed."""
    draw, seen = random.Random(seed), {ast.unparse(ast.parse(text))}
    for _ in range(20 * count):
        tree = ast.parse(text)
        by_kind: dict[str, list[Change]] = {}
        for kind, change in changes(tree):
            by_kind.setdefault(kind, []).append(change)
        if not by_kind or count <= 0:
            return
        kind = draw.choice(sorted(by_kind))
        draw.choice(by_kind[kind])(draw)
        made = ast.unparse(ast.fix_missing_locations(tree))
        if made not in seen:
            seen.add(made)
            count -= 1
            yield kind, made


@dataclass(frozen=True)
class Judged:
    """What was found of a mutant."""

    kind: str
    validation: bool  # caught
    sampling: bool
    changed: bool
    text: str = ""


class Judge:
    """Runs mutants of one package, which is emitted into `folder`."""

    def __init__(self, model: str | Path, folder: Path) -> None:
        loaded = load(model)
        made = lower(loaded, CompileOptions(), source_plan(loaded), "Network")
        fairhand.compile(model, folder, verify=False, cache=False)
        sizes, self.folder = telling_sizes(loaded.model), folder
        right = reference(made.graph, made.rewriting.shapes, sizes)
        self.reference = asdict(right)
        self.text = (folder / "model.py").read_text("utf-8")
        own, self.found = self.validated(self.text)
        assert own is not None and self.found["validated"], "as it is"
        tried = dynamic_sizes(loaded.model) * _SEEDS
        self.feeds = [make_inputs(loaded.model, i, tried[i]) for i in range(_SEEDS)]
        session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        self.expected = [session.run(None, feed) for feed in self.feeds]
        self.wild = self.feeds + [
            {k: 50 * v if v.dtype.kind == "f" else v for k, v in feed.items()}
            for feed in self.feeds
        ]
        self.own = [self.run(own, feed) for feed in self.wild]

    def validated(self, text: str) -> tuple[types.ModuleType | None, dict[str, Any]]:
        """This as model.py, if it can be loaded, and the verdict on it."""
        with tempfile.TemporaryDirectory() as at:
            package = Path(at) / Path(at).name
            package.mkdir()
            for path in self.folder.iterdir():
                (package / path.name).symlink_to(path.resolve())
            (package / "model.py").unlink()
            (package / "model.py").write_text(text, "utf-8")
            request = {"package": str(package), "reference": self.reference}
            if text != self.text:  # as verify --all-inputs does of an edited package
                request |= {"ends": True, "written": self.text}
            try:
                found = compare(request)
            except Exception as error:  # it can't be imported, or loaded
                found = {"validated": False, "reason": str(error)}
        name = module_name(str(package))
        sys.modules.pop(name, None)
        module = sys.modules.pop(f"{name}.model", None)
        if module is not None:
            vars(module)["load"].__defaults__ = (self.folder / WEIGHTS, "cpu")
        return module, found

    def run(self, module: Any, feed: Mapping[str, Any]) -> list[np.ndarray] | None:
        """What a model.py computes; None if it fails."""
        try:
            torch.manual_seed(0)  # some networks draw
            flat = [torch.from_numpy(np.asarray(v)) for v in feed.values()]
            with torch.inference_mode():
                made = called(module, module.load(), flat)
            return [np.asarray(x) for x in made]
        except Exception:
            return None

    def judge(self, kind: str, text: str) -> Judged:
        """Whether validation and sampling catch a mutant, and whether they should."""
        module, found = self.validated(text)
        caught = not found["validated"] or is_of_fewer_sizes(found, self.found)
        results = [self.run(module, feed) for feed in self.wild]
        sampled = any(
            _off(got, wanted)
            for got, wanted in zip(results, self.expected, strict=False)
        )
        changed = not all(map(_same, results, self.own))
        return Judged(kind, caught, sampled, changed, text)


def _off(got: list[np.ndarray] | None, wanted: Sequence[Any]) -> bool:
    if got is None or len(got) != len(wanted):
        return True
    return any(compare_values(a, b)[1] for a, b in zip(got, wanted, strict=True))


def _same(a: list[np.ndarray] | None, b: list[np.ndarray] | None) -> bool:
    if a is None or b is None or len(a) != len(b):
        return a is b
    return all(
        x.shape == y.shape
        and x.dtype == y.dtype
        and np.array_equal(x, y, x.dtype.kind in "fc")
        for x, y in zip(a, b, strict=True)
    )


def table(found: Sequence[Judged]) -> list[str]:
    """A line per kind of change, and one of all."""
    lines = [
        f"{'':22}  mutants  changed  caught  sampling misses  escaped  other calls"
    ]
    for kind in [*sorted({one.kind for one in found}), "all"]:
        some = [one for one in found if kind in (one.kind, "all")]
        changed = [one for one in some if one.changed]
        counts = (
            len(some),
            len(changed),
            sum(one.validation for one in changed),
            sum(not one.sampling for one in changed),
            sum(not one.validation for one in changed),
            sum(one.validation for one in some if not one.changed),
        )
        lines.append(f"{kind:22}  " + "  ".join(f"{n:7}" for n in counts))
    return lines


def main() -> None:
    """Print the table for the models on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--each", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: list[Judged] = []
    with tempfile.TemporaryDirectory() as folder:
        for i, model in enumerate(given.models):
            judge = Judge(model, Path(folder) / f"mutated_{i}")
            made = mutants(judge.text, given.each, given.seed + i)
            some = [judge.judge(kind, text) for kind, text in made]
            found += some
            print(Path(model).name, table(found)[-1], flush=True)
            for one in some:
                if one.changed and not one.validation:
                    print(f"escaped, {one.kind}:\n{one.text}", file=sys.stderr)
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
