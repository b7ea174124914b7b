"""parallel.py of a package beside its certificate: the same layers, bytes, exchanges
and stages, and every operator cut as it is claimed (check_plan.py)."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from sympy import sympify

from ...analysis.graph.dims import symbol
from ...analysis.shapes.infer import infer
from ...analysis.shapes.one_batch import one_batch
from .check_plan import ClaimedCuts, read_pieces, refuse

_AXIS = {"columns": 0, "gathered": 0, "vocabulary": 0, "rows": 1}  # of what is stored
_EXCHANGE = {"columns": "", "gathered": "gather", "vocabulary": "sum", "rows": "sum"}
_NAMED = {"sum": "all_reduce", "gather": "all_gather_into_tensor"}


@dataclass(frozen=True)
class Stored:
    """A tensor of the package's weights, and where its bytes begin in their file."""

    shape: tuple[int, ...]
    nbytes: int
    start: int = 0


def check_parallel(folder: Path, model: ir.Model, claims: Mapping[str, Any]) -> str:
    """Whether the plan of a package is what its certificate says, and that is right.

    `model` has the graph that was written. Raises FairhandError where not.
    """
    values = read_values((folder / "parallel.py").read_text(encoding="utf-8"))
    with (folder / "weights.safetensors").open("rb") as file:
        first = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(first - 8))
        header.pop("__metadata__", None)
        stored = {
            key: Stored(tuple(entry["shape"]), end - begin, first + begin)
            for key, entry in header.items()
            for begin, end in [entry["data_offsets"]]
        }

        def tensor(key: str) -> np.ndarray:
            found = stored[key]
            file.seek(found.start)
            size = found.nbytes // max(prod(found.shape), 1)
            data = np.frombuffer(file.read(found.nbytes), f"u{size}")
            return data.reshape(found.shape)

        return check_values(values, model, claims, stored, tensor)


def _bits(array: np.ndarray) -> np.ndarray:
    """The elements as numbers without a sign: NumPy has no names for some types."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def read_values(text: str) -> dict[str, Any]:
    """The data of a parallel.py, which is not run. Raises FairhandError for other
    expressions than data."""
    found = {}
    try:
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
                at: Any = statement
                target = at.target if isinstance(at, ast.AnnAssign) else at.targets[0]
                assert isinstance(target, ast.Name)
                found[target.id] = _value(statement.value)
    except (SyntaxError, ValueError, AssertionError, RecursionError) as error:
        refuse(f"parallel.py is no plan: {type(error).__name__} {error}")
    return found


def _value(node: ast.expr) -> Any:
    """Data; a list may have f"h.{i}" for a range of i."""
    if isinstance(node, ast.List):
        items: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                items += _numbered(item.value)
            else:
                items.append(_value(item))
        return items
    return ast.literal_eval(node)


def _numbered(node: ast.expr) -> list[str]:
    match = re.fullmatch(
        r"\(f'([\w.]*)\{i\}([\w.]*)' for i in range\((\d{1,6}), (\d{1,6})\)\)",
        ast.unparse(node),
    )
    if match is None:
        raise ValueError(f"{ast.unparse(node)[:60]} is no list of names")
    return [f"{match[1]}{i}{match[2]}" for i in range(int(match[3]), int(match[4]))]


def check_values(
    values: Mapping[str, Any],
    model: ir.Model,
    claims: Mapping[str, Any],
    stored: Mapping[str, Stored],
    tensor: Any,
    known: dict[Any, bool] | None = None,
) -> str:
    """The same, of values that were read; `tensor` gives the weight of a name, `known`
    what was evaluated before."""
    try:
        return _Checked(values, model, claims, stored, tensor, known).check()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        refuse(f"it can't be read: {type(error).__name__} {error}")


class _Checked:
    def __init__(
        self,
        values: Mapping[str, Any],
        model: ir.Model,
        claims: Mapping[str, Any],
        stored: Mapping[str, Stored],
        tensor: Any,
        known: dict[Any, bool] | None,
    ) -> None:
        self.values, self.model, self.claims = values, model, claims
        self.known = {} if known is None else known
        self.stored, self.tensor, self.graph = stored, tensor, model.graph
        self.shapes, self.rows = one_batch(model, infer(model))
        self.mesh = dict(values["MESH"])
        tp, stages = self.mesh.get("tp", 1), self.mesh.get("pp", 1)
        self.tps: list[int] = tp if isinstance(tp, list) else [tp] * stages
        self.owner: dict[str, int] = {}  # the stage of each node that is in one
        self.made: dict[Any, Any] = {v.name: v for n in model.graph for v in n.outputs}
        self.layers: Mapping[str, Any] = {
            path: (way, read_pieces(pieces), name)
            for path, (way, pieces, name) in claims.get("layers", {}).items()
        }

    def check(self) -> str:
        if list(self.mesh.items()) != list(self.claims["degrees"].items()):
            refuse(f"the mesh is {self.mesh}, claimed for {self.claims['degrees']}")
        if (ties := self.values["TIES"]) != self.claims["ties"]:
            refuse(f"one tensor is what {ties} name, claimed is {self.claims['ties']}")
        known = {"pp", "dp", "tp"}
        sizes = self.mesh | ({"tp": max(self.tps)} if "tp" in self.mesh else {})
        if (
            not set(sizes) <= known
            or any(type(n) is not int or n < 2 for n in sizes.values())
            or any(type(n) is not int or n < 1 for n in self.tps)
            or len(self.tps) != sizes.get("pp", 1)
        ):
            refuse(f"{self.mesh} is no mesh")
        batches = self.values["BATCHES"]
        if type(batches) is not int or batches < 1:
            refuse(f"a batch has no {batches!r} parts")
        compared = alone = 0
        for cuts, found, exchanges, parts in self._parts():
            cuts.check(found, exchanges, parts)
            compared += cuts.compared
            alone += cuts.alone
            if exchanges or cuts.held:
                self._check_layers(cuts.held)
        self._check_stages()
        self._check_exchanges()
        self._check_held()
        devices = self.mesh.get("dp", 1) * sum(self.tps)
        text = f"a plan for {devices} devices: {compared} claims by values"
        return text + (f", {alone} by their law alone" if alone else "")

    def _parts(self) -> Iterable[tuple[ClaimedCuts, Any, Any, dict[str, int]]]:
        claims, batches = self.claims, self.values["BATCHES"]
        for tp in sorted({*self.tps} - {1}):
            made = ClaimedCuts(self.graph, self.shapes, tp, frozenset(), self.known)
            yield made, claims["cuts"], claims["exchanges"], self._ends()
        parts = self.mesh.get("dp", 1) * batches
        if parts > 1:
            if not self.rows:
                refuse("an input has no open size that comes first")
            made = ClaimedCuts(self.graph, self.shapes, parts, self.rows, self.known)
            first = self.graph.outputs if batches > 1 else ()  # they are put together
            yield made, claims["rows"], {}, {v.name or "": 0 for v in first}

    def _ends(self) -> dict[str, int]:
        """The axes of what the network takes and gives in parts, as claimed."""
        said, found = self.values["PARTS"], {}
        for value in (*self.graph.inputs, *self.graph.outputs):
            name = value.name or ""
            axis = said.get(name, said.get(re.sub(r"\d+", "*", name)))
            if axis is not None:
                found[name] = axis
        if found != self.claims["parts"]:
            refuse(f"in parts are {found}, claimed are {self.claims['parts']}")
        return found

    def _check_layers(self, held: Mapping[ir.Value, Any]) -> None:
        """parallel.py cuts the matrices that are claimed to be cut, as is claimed."""
        constants = {v.name: v for v in held}
        for path, (way, pieces, name) in self.layers.items():
            value = constants.get(name)
            array = None if value is None else self.graph.initializers[name].const_value
            if value is None or array is None:
                refuse(f"nothing is claimed of the matrix of {path}")
            axis, own, _ = held[value]
            if way == "along":
                same = np.array_equal(_bits(self.tensor(path)), _bits(array.numpy()))
                if not same or (axis, own) != (pieces, 1):
                    refuse(f"{path} is cut along {pieces}, not as {name} is")
                continue
            key = self.values["TIES"].get(f"{path}.weight", f"{path}.weight")
            mine, theirs = _bits(self.tensor(key)), _bits(array.numpy())
            if np.array_equal(mine, theirs):
                turned = axis
            elif np.array_equal(mine, theirs.T):
                turned = 1 - axis
            else:
                refuse(f"{key} is not {name}")
            if turned != _AXIS[way] or own != pieces:
                refuse(f"{path} is cut by {way}, {pieces}, not as {name} is")
            if not any(self._exchange(n) == _EXCHANGE[way] for n, _ in value.uses()):
                refuse(f"{path} is cut by {way}, and exchanged otherwise")
        ways = self.values["WAYS"]
        owners = {*self.stored, *self.values["TIES"]}
        owners |= {key.rpartition(".")[0] for key in owners}
        for path in owners:
            starred = re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)
            found = ways.get(path) or ways.get(starred)
            wanted = self.layers.get(path)
            if (found and tuple(found)) != (wanted and tuple(wanted[:2])):
                refuse(f"{path} is cut as {found}, claimed as {wanted and wanted[:2]}")
        if unknown := set(self.layers) - owners:
            refuse(f"there is no layer {min(unknown)}")

    def _exchange(self, node: ir.Node) -> str:
        """What is exchanged behind a product: of its result, or with the bias added."""
        exchanges = self.claims["exchanges"]
        found = exchanges.get(node.outputs[0].name, "")
        users = [user for user, _ in node.outputs[0].uses()]
        if node.op_type == "Transpose":  # of the weight itself
            return self._exchange(users[0])
        if not found and len(users) == 1:
            found = exchanges.get(users[0].outputs[0].name, "")
        return str(found)

    def _check_exchanges(self) -> None:
        """Of one device of each stage, with what stages gather that was handed on."""
        found: Counter[str] = Counter()
        for name, kind in self.claims.get("exchanges", {}).items():
            place = self.owner.get(self.made[name].producer().outputs[0].name)
            here = self.tps if place is None else [self.tps[place]]
            found[_NAMED[kind]] += sum(n > 1 for n in here)
        count = self.mesh.get("dp", 1) * self.values["BATCHES"]
        taken = {
            symbol(name): n // (count if symbol(name) in self.rows else 1)
            for name, n in self.values["SIZES"].items()
        }
        for given, n in zip(self.claims.get("crossing", []), self.tps[1:], strict=True):
            found[_NAMED["gather"]] += len(given) if n > 1 else 0
            for value in [self.made[name] for name in given.values()]:
                dims = (sympify(x).subs(taken) for x in self.shapes.dims(value) or ())
                # Each byte once, in equal slices.
                size = int(prod(dims)) * value.dtype.bitwidth // 8
                found["bytes sent"] += count * -(-size // n) * n
        if dict(+found) != self.values["EXCHANGES"]:
            refuse(f"{self.values['EXCHANGES']} exchanges, claimed are {dict(+found)}")

    # ---- stages

    def _check_stages(self) -> None:
        stages, count = self.values["STAGES"], self.mesh.get("pp", 1)
        crossing = self.values["CROSSING"]
        if count == 1:
            others = stages, crossing, self.values["RESULTS"]
            if any(others) or self.values["BATCHES"] != 1:
                refuse("there are stages, and no devices for them")
            return
        units, claimed = self.claims["units"], self.claims["crossing"]
        if len(stages) != count or [u for s in stages for u in s] != list(units):
            refuse("the stages are not the units in their order, each once")
        if [[int(p) for p in c] for c in claimed] != crossing or len(
            claimed
        ) != count - 1:
            refuse("other arguments cross over than is claimed")
        results = self.claims["results"]
        if len(results) != count or sorted(n for s in results for n in s) != sorted(
            value.name or "" for value in self.graph.outputs
        ):
            refuse("the results are not those of the stages, each once")
        if list(map(sorted, results)) != list(map(sorted, self.values["RESULTS"])):
            refuse("stages give other results than is claimed")
        number = {unit: i for i, stage in enumerate(stages) for unit in stage}
        owner = self.owner
        every = {node.outputs[0].name for node in self.graph}
        for unit, names in units.items():
            for name in names:
                if name in owner or name not in every:
                    refuse(
                        f"{unit} has a node {name}, which isn't there or not its own"
                    )
                owner[name] = number[unit]
        for stage in range(count):
            given = set(claimed[stage - 1].values()) if stage else set()
            there = self._computed(owner, stage, given)
            later = claimed[stage].values() if stage + 1 < count else ()
            if missing := {*results[stage], *later} - there - given:
                refuse(f"stage {stage} doesn't have {min(map(str, missing))}")

    def _computed(
        self, owner: Mapping[str, int], stage: int, given: set[str]
    ) -> set[str]:
        """The values that a stage can compute. What crosses over is there for the
        modules that the stage has, and for no other statement; sizes always are."""
        there = {
            v.name or ""
            for v in (*self.graph.inputs, *self.graph.initializers.values())
        }
        given = set(given)
        for node in self.graph:
            place = owner.get(node.outputs[0].name or "")
            made = {v.name or "" for v in node.outputs}
            taken = {v.name or "" for v in node.inputs if v is not None}
            sized = all(self.shapes.content(v) is not None for v in node.outputs)
            own = there | given if place is not None else there
            if (place in (None, stage) and taken <= own) or sized:
                there |= made
            elif place == stage:
                refuse(f"stage {stage} has not all that {node.name} takes")
            elif place is None and taken <= there | given and self._is_same(node):
                given |= made
        return there

    def _is_same(self, node: ir.Node) -> bool:
        """Whether no statement is said to do a node, which gives what it takes."""
        if node.outputs[0].name not in self.claims["same"]:
            return False
        return ClaimedCuts(self.graph, self.shapes, 2, self.rows, {}).is_same(node)

    def _check_held(self) -> None:
        """Bytes of a device of each stage: cut tensors in part, each once."""
        stages = self.values["STAGES"] or [[]]
        every = {unit for stage in stages for unit in stage}
        ties = self.values["TIES"]
        found = []
        for stage, tp in zip(stages, self.tps, strict=True):
            absent = every - set(stage)
            sizes = {}
            for key in [*self.stored, *ties]:
                if any(key == unit or key.startswith(f"{unit}.") for unit in absent):
                    continue
                owner, _, leaf = key.rpartition(".")
                way = self.layers.get(key, self.layers.get(owner, [None]))[0]
                own = way in ("columns", "gathered", "along") or leaf == "weight"
                size = self.stored[ties.get(key, key)].nbytes
                sizes[ties.get(key, key)] = size // tp if way and own else size
            found.append(sum(sizes.values()))
        if found != self.values["HELD"]:
            refuse(f"a device holds {found} bytes, said are {self.values['HELD']}")
