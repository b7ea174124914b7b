"""Whether model.py makes the calls that the graph stands for; run beside a package.

Both run on the same fake inputs, whose sizes are symbols, or numbers that all differ,
and the names of what they return are compared (recorder.py). This is called by its name
in a process that has the package loaded (child.py).
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import itertools
import linecache
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import cached_property, reduce
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import GuardSource, Source
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import _config as symbol_config
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from . import recorder
from .memory import CannotFollow, Opaque
from .network import (
    Given,
    called,
    is_same,
    later,
    leaves,
    page,
    state,
    takes_as_much,
    whole,
)
from .recorder import COUNTS, Recorded, Recorder, Whole
from .sizes import MIN, in_words, normal, nothing_above, solved

# Calls are followed as they are for sizes in general: PyTorch tells 0 and 1 apart, and
# does the same to them by shorter ways.
_GENERAL = symbol_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
# Where data decide what is done: ways that are followed, calls after which no other is,
# and no other sizes.
_MOST_WAYS, _MOST_CALLS = 24, 5000
_FEW = 2  # sizes, of which all that are one or none are followed together
_BY_DATA = "data take one of"
_WORDS = "strings are one letter long"  # of the sizes that functions of them give
# What no other sizes mend.
_OF_DATA = {"DataDependentOutputException", "GuardOnDataDependentSymNode"}
_RANKS = ("aten.sort.default", "aten.sort.stable", "aten.topk.default")
_REFERENCE = "<the graph, node by node>"
# Where calls of PyTorch are made, and what they ask of sizes.
_CALLS = (str(Path(torch.__file__).parent), str(Path(recorder.__file__)))


class _Side(NamedTuple):
    """What one side made: names of its outputs, its calls, the lines behind them."""

    outputs: list[object]
    calls: list[Recorded]
    lines: set[int]


class Differs(Exception):
    """The two sides are not the same; `found` says where they part."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found)
        self.found = found


class Fails(Differs):
    """Model.py fails where the graph's side doesn't."""


def compare(request: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on the package in the folder `package`, to be what `reference` is.

    `reference` is reference.py's as a dict; its `tries` are numbers for open sizes. The
    answer has "validated" and, of what was, "calls", "classes" and "sizes": "all", of
    "least" or more, with the conditions "where" that held of them, or the tries,
    "since" symbols didn't do, or the only ones that the conditions leave.
    Else it has the "reason" why nothing could be compared, or "differs", which says
    where the sides part first, and "where" as above if symbols did for both,
    and calls tell all that model.py may do.
    With "ends" sizes of one and of none are compared too, where `written`, if model.py
    was edited, is its text before that.
    """
    warnings.simplefilter("ignore")
    both = [page(request["package"], text) for text in ("", request.get("written", ""))]
    if not takes_as_much(*both):
        part = {"line": 0, "calls": "other INPUTS or OUTPUTS", "text": ""}
        return {"validated": False, "differs": part}
    tries = request["reference"]["tries"]
    found: dict[str, Any] = {}
    since, parts = "", dict[str, Any]()
    for sizes in (tries[-1], *tries[:2]):  # say what is done where symbols don't
        try:
            made = _attempt(request, sizes, symbolic=True)
        except Exception as error:  # what symbols can't tell, numbers may
            since = since or _reason(error)
            parts = parts or getattr(error, "found", parts)
            if type(error).__name__ in _OF_DATA:
                break
            continue
        if not found or len(made["where"]) < len(found["where"]):
            found = made
        if all(text.startswith(_BY_DATA) for text in found["where"]):
            break
    if found:
        at_ends = "ends" in request and found.get("least")
        return _with_ends(request, tries[-1], found) if at_ends else found
    ran = []
    for sizes in tries:
        try:
            found = _attempt(request, sizes, symbolic=False)
            ran.append(sizes)
            cut = f"{_BY_DATA} {_MOST_WAYS}"  # of a loop, which has as many elsewhere
            many = ran[1:] and any(text.startswith(cut) for text in found["where"])
            if found["calls"] > _MOST_CALLS or many:  # minutes for all of them
                break
        except Fails as error:  # these may be sizes that the network isn't for
            since = _reason(error)
        except Differs as error:
            return {"validated": False, "differs": {**parts, **error.found}}
        except Exception as error:
            return {"validated": False, "reason": _reason(error)}
    if not ran:
        return {"validated": False, "reason": since}
    return {**found, "sizes": ran, "since": since} if ran[0] else found


def _with_ends(
    request: Mapping[str, Any], sizes: Mapping[str, int], found: dict[str, Any]
) -> dict[str, Any]:
    """The verdict on sizes of two or more, and on those that PyTorch tells apart: each
    of one and of none, where there are few with each other. An edit that parts there
    from the graph differs, if what was written didn't; one that only fails where
    nothing is to be given, as `x.view(x.size(0), -1)`, "fails" there."""
    names, shown = list(request["reference"]["sizes"]), True
    fails: list[str] = []
    for ends in itertools.product((None, 1, 0), repeat=len(names)):
        at = {name: end for name, end in zip(names, ends, strict=True) if end in (0, 1)}
        if not at or (len(names) > _FEW and len(at) > 1 and len({*ends}) > 1):
            continue
        try:
            parts = _only_by_edit(request, {**sizes, **at})
        except Exception:
            shown = False
            continue
        where = ", ".join(f"{name} = {end}" for name, end in at.items())
        if parts and not parts.get("empty"):
            parts["calls"] += f" where {where}"
            return {"validated": False, "differs": parts}
        if parts and not any(text in where for text in fails):
            fails.append(where)
    least = 0 if len(names) <= _FEW else 1
    return {**found, **({"least": least, "fails": fails} if shown else {})}


def _only_by_edit(
    request: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """How an edited model.py parts from the graph at these sizes, where it didn't as it
    was written; {} if it doesn't. Raises what `_attempt` does of both."""
    try:
        _attempt(request, sizes, symbolic=True)
    except Differs as error:
        _attempt({**request, "text": request["written"]}, sizes, symbolic=True)
        return error.found
    return {}


def _reason(error: Exception) -> str:
    if isinstance(error, Fails):
        did, text, calls = (error.found[key] for key in ("did", "text", "calls"))
        return f"model.py {did} at {text}: {calls}"[:300]
    if isinstance(error, Differs):
        return f"other calls, as symbols tell: {error.found['text'] or 'one left out'}"
    text = str(error) if isinstance(error, CannotFollow) else ""
    return (text or f"{type(error).__name__}: {error}").partition("\n")[0][:300]


def _attempt(
    request: Mapping[str, Any], sizes: Mapping[str, int], symbolic: bool
) -> dict[str, Any]:
    """Compare on each way that data may take. Raises Differs, CannotFollow, and what
    the graph's side does."""
    both = Both(request, sizes, symbolic)
    inputs = both.inputs()
    waiting = both.starts()
    lines, calls, ways, made = set[int](), 0, 0, 0
    where, again = list[str](), False
    while waiting and ways < _MOST_WAYS and made < _MOST_CALLS:
        choices = waiting.pop(0)
        rows = zip(inputs, both.reference["inputs"], strict=True)
        given = [None if row["name"] in choices else x for x, row in rows]
        try:
            right = both.graph(given, choices)
        except Exception as error:
            of_data = type(error).__name__ in _OF_DATA
            if again or not ways or of_data or isinstance(error, CannotFollow):
                raise
            continue  # nothing is asked of what the graph can't do
        asked = both.recorder.chosen
        ours = both.emitted(given, choices)
        again = ours.outputs != right.outputs and both.learned()
        if again:
            waiting.insert(0, choices)
            continue
        if ours.outputs != right.outputs:
            is_told = symbolic and _left_open(ours) <= _left_open(right)
            said = {"where": _stated(both.conditions())} if is_told else {}
            raise Differs({**both.difference(right, ours), **said})
        # Ways that model.py alone may take are followed too: the graph does the same.
        asked = {**asked, **both.recorder.chosen}
        if not ways:
            both.check_again(given, choices, right)
        taken = {name: kinds[0] for name, kinds in asked.items()}
        for i, (name, kinds) in enumerate(asked.items()):
            if kinds is COUNTS:
                where.append(f"numbers that data decide are 0 to {max(COUNTS)}")
            before = dict(list(taken.items())[:i])
            waiting += [{**choices, **before, name: kind} for kind in kinds[1:]]
        lines |= ours.lines
        ways, calls = ways + 1, max(calls, len(ours.calls))
        made += len(ours.calls)
    if waiting:
        where.append(f"{_BY_DATA} {ways} ways, those of the fewest rounds")
    known = both.conditions()
    stated = _stated(known)
    where = [*both.taken, *stated, *dict.fromkeys(where)]
    only = both.only_sizes([*known, *both.takes()])
    return {
        "validated": True,
        "sizes": [only] if only else "all",
        **({"least": 2} if both.symbols and not only else {}),
        "where": [text for text in where if text not in stated] if only else where,
        "takes": [] if only else _stated(both.takes()),
        "calls": calls,
        "classes": both.classes(lines),
    }


def _stated(conditions: Iterable[sympy.Basic]) -> list[str]:
    """In words, those that no limit among them implies."""
    known = list(conditions)
    limits = [c for c in known if isinstance(c, sympy.Le) and c.rhs.is_Integer]
    lesser = {least(c.lhs, c.rhs): c.lhs for c in limits for least in MIN}
    left = [c.xreplace(lesser) for c in known]
    return [*dict.fromkeys(in_words(c) for c in left if c is not sympy.true)]


class _Named(Source):
    """Where a size comes from: an input's dimension of this name."""

    def __init__(self, name: str) -> None:
        self._text = name

    @property
    def _name_template(self) -> str:
        return self._text

    @cached_property
    def guard_source(self) -> GuardSource:
        return GuardSource.CONSTANT


class Both:
    """The two networks, and inputs and weights that both are given."""

    def __init__(
        self, request: Mapping[str, Any], sizes: Mapping[str, int], symbolic: bool
    ) -> None:
        self.reference = request["reference"]
        self.sizes = sizes
        self.symbols: dict[str, str] = {}
        self.taken: list[str] = []  # for granted, of sizes
        self.known = set[sympy.Basic]()
        # Without open sizes nobody waits for what stands behind a ShapeEnv to load.
        # What a call needs to run at all is kept apart from what it decides by.
        later: dict[str, Any] = {"prefer_deferred_runtime_asserts_over_guards": True}
        self.env = ShapeEnv(**later) if symbolic and sizes else None
        self.needed: dict[sympy.Basic, None] = {}  # of sizes, for the graph to run
        self.empty = False  # what was last given, all of it
        self.fake = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        if self.env is not None:  # our own is for functions (repeats.py)
            self.fake.cache_enabled = False
        self.recorder = Recorder(self.fake, elements=not symbolic)
        self.imports: dict[str, Any] = {
            name: reduce(getattr, path.split("."), importlib.import_module(module))
            for name, (module, path) in self.reference["imports"].items()
        }
        self.take(page(request["package"], request.get("text", "")))

    def take(self, module: ModuleType) -> None:
        """Let this be model.py."""
        self.module, self.source = module, str(module.__file__)
        if "run_lanes" in vars(module):  # one after the other, in this thread
            vars(module)["run_lanes"] = lambda *calls: [
                f(*given) for f, *given in calls
            ]
        for name, thing in self.imports.items():
            if isinstance(thing, FunctionType) and is_same(module, name, thing):
                ours = inspect.unwrap(vars(module)[name])
                vars(module)[name] = whole(ours, self.recorder)
        self.network = module.load()
        for part in self.network.modules():  # of the type that the graph's side has
            for held in (part._parameters, part._buffers):
                for name, tensor in held.items():
                    if tensor is not None:
                        held[name] = self.recorder.lend(tensor)
        self.loaded = state(self.module, self.network)

    # ------------------------------------------------------------------------ inputs

    def inputs(self) -> list[Any]:
        """A fake tensor for each input, or a list of them."""
        known: dict[str, Any] = {}
        for name, short in self.reference["sizes"].items():
            size = self.sizes[name]
            if self.env is None or size < 2:  # which PyTorch takes for a number
                known[short] = size
                self.taken += [f"{name} = {size}"] if self.env else []
            else:
                known[short] = self._symbol(name, size)
        return [
            self._input(i, given, known)
            for i, given in enumerate(self.reference["inputs"])
        ]

    def _symbol(self, name: str, size: int) -> Any:
        assert self.env is not None  # else sizes are numbers
        source = _Named(name)
        with _GENERAL:
            symbol = self.env.create_symbol(size, source, DimDynamic.DYNAMIC)
        self.symbols[str(symbol)] = name
        return self.env.create_symintnode(symbol, hint=size, source=source)

    def _input(self, i: int, given: Mapping[str, Any], known: dict[str, Any]) -> Any:
        if not given["dtype"]:
            raise CannotFollow(f"input {given['name']} is no tensor of numbers")
        if given["dims"] is None:
            raise CannotFollow(f"input {given['name']} has no rank")
        dims = [
            eval(d, dict(known)) if isinstance(d, str) else d for d in given["dims"]
        ]
        if given["dtype"] == "object":
            if self.env is not None:
                raise CannotFollow("strings are followed at sizes that are numbers")
            self.taken = [*dict.fromkeys([*self.taken, _WORDS])]
            return Opaque(f"input {i}", np.full(dims, "a", dtype=object))
        is_list = "list" in given["wraps"]
        self.taken += [f"{given['name']} has 3 items"] if is_list else []
        dtype = getattr(torch, given["dtype"])
        with self.fake:
            made = [torch.empty(dims, dtype=dtype) for _ in range(3 if is_list else 1)]
        for k, tensor in enumerate(made):
            self.recorder.given(tensor, f"input {i}.{k}")
        return made if is_list else made[0]

    def starts(self) -> list[Mapping[str, object]]:
        """Which inputs are left out, of those that may be: first none."""
        may = [g["name"] for g in self.reference["inputs"] if "optional" in g["wraps"]]
        some = itertools.product((False, True), repeat=len(may))
        few = itertools.islice(some, _MOST_WAYS + 1)
        return [dict.fromkeys(itertools.compress(may, one)) for one in few]

    # -------------------------------------------------------------------------- runs

    def emitted(
        self,
        inputs: Sequence[Any],
        choices: Mapping[str, object] | None = None,
        grad: bool = False,
    ) -> _Side:
        """Run model.py, `choices` as in `Recorder.begin`. Raises Fails if it does,
        CannotFollow."""
        takes = [given["name"] for given in self.reference["inputs"]]
        names = takes, self.reference["outputs"]
        try:
            return self._run(
                lambda: called(self.module, self.network, inputs, *names),
                self.source,
                choices,
                grad,
            )
        except CannotFollow:
            raise
        except Exception as error:
            is_by_data = bool(choices or self.recorder.chosen)
            raise Fails(self.failure(error, is_by_data)) from None

    def check_again(
        self, inputs: Sequence[Any], choices: Mapping[str, object], right: _Side
    ) -> None:
        """That model.py does the same in a second call, and where gradients are wanted.
        Raises CannotFollow."""
        if self.emitted(inputs, choices, grad=True).outputs != right.outputs:
            if self.learned():
                right = self.graph(inputs, choices)
                return self.check_again(inputs, choices, right)
            is_same = self.emitted(inputs, choices).outputs == right.outputs
            way = "where gradients are wanted" if is_same else "in a second call"
            raise CannotFollow(f"model.py does something else {way}")
        if name := later(self.loaded, self.module, self.network):
            raise CannotFollow(f"{name} keeps something from call to call")

    def graph(
        self, inputs: Sequence[Any], choices: Mapping[str, object] | None = None
    ) -> _Side:
        """Run the reference, likewise; raises what PyTorch does."""
        text = self.reference["text"]
        linecache.cache[_REFERENCE] = len(text), None, text.splitlines(True), _REFERENCE
        space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        space |= {"math": math, "np": np, "nn": torch.nn}
        for name, thing in self.imports.items():
            is_function = isinstance(thing, FunctionType)
            space[name] = whole(thing, self.recorder) if is_function else thing
        for name, held in self.reference["constants"].items():
            space[name] = self._held(held)
        for name, layer in self.reference["layers"].items():
            space[name] = self._layer(layer, space)
        exec(compile(text, _REFERENCE, "exec"), space)  # our own, from names we made
        before = self._asserted()
        made = self._run(lambda: space["run"](*inputs), _REFERENCE, choices)
        new = (expr for expr in self._asserted() if expr not in before)
        self.needed |= dict.fromkeys(new)
        return made

    def _asserted(self) -> dict[sympy.Basic, None]:
        """What PyTorch found that has to be true of open sizes for a call to run."""
        if self.env is None:
            return {}
        found = itertools.chain(*self.env.deferred_runtime_asserts.values())
        open_sizes = self.symbols.keys()
        return {
            each.expr: None
            for each in found
            if {str(s) for s in each.expr.free_symbols} <= open_sizes
        }

    def _held(self, held: Mapping[str, Any]) -> Any:
        if "array" in held:
            return held["array"]
        dtype, real = getattr(torch, held["dtype"]), None
        with self.fake:
            made = torch.empty(held["shape"], dtype=dtype)
        if "numbers" in held:
            real = torch.tensor(held["numbers"], dtype=dtype).reshape(held["shape"])
        return self.recorder.given(made, held["digest"], real)

    def _layer(self, layer: Mapping[str, Any], space: dict[str, Any]) -> Any:
        with torch.device("meta"):
            made = eval(layer["text"], space)  # as in `graph`
        state = {name: self._held(held) for name, held in layer["holds"].items()}
        made.load_state_dict(state, assign=True)
        wrapped = made.state_dict(keep_vars=True)
        for name, tensor in state.items():
            self.recorder.memory.claim(wrapped[name], [tensor])
        return made.eval().requires_grad_(False)

    def _run(
        self,
        call: Callable[[], list[Any]],
        source: str,
        choices: Mapping[str, object] | None,
        grad: bool = False,
    ) -> _Side:
        self.recorder.begin(source, choices)
        # Without it what is composed of other operators takes numbers alone for sizes.
        composed = enable_python_dispatcher() if self.env is not None else nullcontext()
        plain = torch.backends.nnpack.flags(enabled=False)  # which asks for batches
        whole = Whole(self.recorder) if self.env is not None else nullcontext()
        ends = patch.multiple(builtins, max=_greatest, min=_least)
        # What is compiled makes the calls that it makes uncompiled.
        is_loaded = "torch._dynamo" in sys.modules
        eager = torch.compiler.set_stance("force_eager") if is_loaded else nullcontext()
        ways = plain, composed, _GENERAL, self.fake, self.recorder, whole, ends, eager
        with torch.set_grad_enabled(grad), ExitStack() as entered:
            for way in (*ways, Given(source)):
                entered.enter_context(way)
            made = call()
        given = [leaf for leaf in leaves(made) if isinstance(leaf, torch.Tensor)]
        self.empty = all(0 in [d for d in x.shape if type(d) is int] for x in given)
        outputs = [self.recorder.name(output) for output in made]
        return _Side(outputs, self.recorder.calls, self.recorder.lines)

    # ---------------------------------------------------------------------- verdicts

    def conditions(self) -> list[sympy.Basic]:
        """What PyTorch took for granted of open sizes while it ran, by their names,
        unless it holds of every size that there is, or that the graph runs at."""
        guards = self.env.guards if self.env is not None else ()
        asked = [guard.expr for guard in guards if not _is_of_one(guard)]
        needed = set(map(nothing_above, self.takes()))
        found = self._named([*asked, *self._asserted()])
        return [expr for expr in found if nothing_above(expr) not in needed]

    def takes(self) -> list[sympy.Basic]:
        """What has to be true of open sizes, by their names, for the graph to run."""
        return self._named(self.needed)

    def _named(self, found: Iterable[sympy.Basic]) -> list[sympy.Basic]:
        names = {
            symbol: sympy.Symbol(
                self.symbols.get(str(symbol), str(symbol)), **symbol.assumptions0
            )
            for expr in found
            for symbol in expr.free_symbols
        }
        named = (solved(expr.xreplace(names)) for expr in found)
        return [expr for expr in dict.fromkeys(named) if expr is not sympy.true]

    def only_sizes(self, known: Sequence[sympy.Basic]) -> dict[str, int]:
        """The number that conditions leave for each open size; {} if any has more."""
        equal = [e for e in known if isinstance(e, sympy.Eq) and e.lhs.is_Symbol]
        fixed = {str(e.lhs): int(e.rhs) for e in equal if e.rhs.is_Integer}
        return fixed if set(self.symbols.values()) == fixed.keys() else {}

    def learned(self) -> bool:
        """Whether more is known of sizes than when this was last asked. What was told
        before is forgotten then, and sizes are equal that have to be for PyTorch to go
        on: equal ones may be written in other ways where less is known of them."""
        guards = [guard.expr for guard in (self.env.guards if self.env else ())]
        known, self.known = self.known, {*guards, *self._asserted()}
        if self.known <= known:
            return False
        for expr in self.known - known:
            if not isinstance(expr, sympy.Eq):
                continue
            simple, other = sorted(map(normal, expr.args), key=sympy.count_ops)
            if other.is_number:  # of a size
                simple, other = other, simple
            if other.is_Symbol or not simple.is_number:
                self.recorder.equal[other] = simple
        self.recorder.again.forget()
        return True

    def classes(self, lines: set[int]) -> list[str]:
        """The classes of model.py that some of the lines are in."""
        tree = ast.parse(Path(self.source).read_bytes())
        return [
            part.name
            for part in tree.body
            if isinstance(part, ast.ClassDef)
            and not lines.isdisjoint(range(part.lineno, (part.end_lineno or 0) + 1))
        ]

    def failure(self, error: Exception, is_by_data: bool) -> dict[str, Any]:
        """That model.py fails where the graph's side didn't, or can't be followed;
        `is_by_data` says that it may as data decide."""
        line, trace = 0, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.source:
                line = trace.tb_lineno
            trace = trace.tb_next
        text, kind = str(error).partition("\n")[0][:200], type(error).__name__
        calls, did = f"{kind}: {text}" if text else kind, "fails"
        if kind in _OF_DATA or kind == "DynamicOutputShapeException":
            calls, did = "it goes by numbers that data decide", "cannot be followed"
        elif is_by_data:
            calls += ", on a way that data decide"
        return {**self._at(line), "calls": calls, "did": did, "empty": self.empty}

    def difference(self, right: _Side, ours: _Side) -> dict[str, Any]:
        """The first call of model.py that the graph's side doesn't make, and back."""
        known, made = ({call.name for call in side.calls} for side in (right, ours))
        mine = next((call for call in ours.calls if call.name not in known), None)
        other = next((call for call in right.calls if call.name not in made), None)
        found = self._at(mine.line if mine is not None else 0)
        same = "" if other is not None else "other results of the same calls"
        found["calls"] = mine.operator if mine is not None else same
        found["wants"] = other.operator if other is not None else ""
        if mine is not None and other is not None and found["calls"] == found["wants"]:
            apart = set(mine.options) ^ set(other.options)
            found["calls"] += _listed(o for o in mine.options if o in apart)
            found["wants"] += _listed(o for o in other.options if o in apart)
        if other is not None:
            found["node"] = self.reference["nodes"].get(str(other.line), "")
        return found

    def _at(self, line: int) -> dict[str, Any]:
        lines = Path(self.source).read_text(encoding="utf-8").splitlines()
        return {"line": line, "text": lines[line - 1].strip(" :") if line else ""}


def _left_open(side: _Side) -> int:
    """How many calls leave open which of equal elements comes first: in ONNX one does,
    so that what is exported isn't all that model.py may do."""
    return sum(
        call.operator in _RANKS and "stable=True" not in call.options
        for call in side.calls
    )


def _is_of_one(guard: Any) -> bool:
    """Whether PyTorch itself asked if a size that is made of others is 0 or 1: as of
    those, it does the same to it by shorter ways."""
    if not isinstance(guard.expr, sympy.Ne):
        return False
    times = guard.expr.lhs.as_coeff_Mul()[0]  # 16 n and 16, where strides are compared
    if guard.expr.rhs not in (0, 1, times):
        return False
    return getattr(guard.sloc.framework_loc, "filename", "").startswith(_CALLS)


def _listed(options: Iterable[str]) -> str:
    """Options that another call of the same operator hasn't, behind its name."""
    text = ", ".join(options)
    return f" with {text}" if text else " of other tensors, or without options"


def _of_sizes(builtin: Any, symbolic: Callable[[Any, Any], Any]) -> Any:
    """Python's max or min, which of open sizes is another size, and asks for none."""

    def found(*given: Any, **options: Any) -> Any:
        symbols = [x for x in given if isinstance(x, torch.SymInt)]
        if not symbols or not all(isinstance(x, int | torch.SymInt) for x in given):
            return builtin(*given, **options)
        return reduce(symbolic, given)

    return found


_greatest, _least = _of_sizes(max, torch.sym_max), _of_sizes(min, torch.sym_min)
