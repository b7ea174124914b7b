"""Whether emitted networks behave like those that their ONNX files were exported from.

    python tests/tools/behaviour.py FOLDER [NAME ...] [--level 0] [--write PAGE.md]

Each network of originals.py is exported to FOLDER by each exporter, compiled, and
compared with the original in what the columns of the table say. An original that can't
do a thing itself isn't asked for it ("-").
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import logging
import pickle
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import torch
from drawn_originals import chosen
from onnx import numpy_helper
from originals import EXPORTERS, Original, files, original, tensors
from torch import Tensor, nn

import fairhand

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.emitted import imported

GRADIENTS = 1e-5  # of the largest gradient of a parameter
NUDGE = 1 + 1e-6


@dataclass
class Emitted:
    """A compiled network as a function of the original's inputs, in their order."""

    package: ModuleType
    order: list[int]  # which of the original's tensors each input of the file is

    def bare(self) -> nn.Module:
        """The network as its class makes it, without `load`."""
        return type(self.package.load())().eval()

    def arguments(self, given: list[Tensor]) -> list[Any]:
        """What forward takes: lists of tensors where it takes lists."""
        model = sys.modules[f"{self.package.__name__}.model"]
        feed = dict(zip(model.INPUTS, (given[i] for i in self.order), strict=True))
        nested = getattr(model, "NESTED", {}).values()
        lists = [rows for rows in nested if _flat(rows)[0] in feed]
        inside = {name for rows in lists for name in _flat(rows)}
        plain = [tensor for name, tensor in feed.items() if name not in inside]
        return [*plain, *(_filled(rows, feed) for rows in lists)]


def _flat(rows: Any) -> list[str]:
    return [rows] if isinstance(rows, str) else [x for row in rows for x in _flat(row)]


def _filled(rows: Any, feed: dict[str, Tensor]) -> Any:
    if isinstance(rows, str):
        return feed[rows]
    return type(rows)(_filled(row, feed) for row in rows)


@dataclass
class Findings:
    """What was compared of one file: "ok", "-", or what is wrong."""

    name: str
    exporter: str
    columns: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def column(self, title: str) -> Iterator[None]:
        """Run a comparison; what it raises is what is wrong."""
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({Path(place.filename).name})"
            self.columns[title] = " ".join(text.split())[:300]
        else:
            self.columns.setdefault(title, "ok")


def measure(name: str, exporter: str, path: Path, level: int, out: Path) -> Findings:
    """Compile one file and compare; a column that fails says what is wrong."""
    found = Findings(name, exporter)
    made = original(name)
    with found.column("compile"):
        shutil.rmtree(out, ignore_errors=True)
        fairhand.compile(path, out, level=level, verify=False)
    if found.columns["compile"] != "ok":
        return found
    given = tensors(made.inputs)
    package = imported(out)
    emitted = Emitted(package, _order(package, path, made))
    state = made.module.state_dict()
    if level == 0:
        with found.column("strict"):
            _load(emitted, state, path)
    strict = found.columns.get("strict") == "ok"
    with found.column("outputs"):
        _compare_outputs(emitted, made, given, state if strict else {})
    if level == 0:
        with found.column("gradients"):
            _compare_gradients(emitted, made, given, state)
    for title, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        with found.column(title):
            if not _tries(lambda d=dtype: _in_type(original(name), d)):
                found.columns[title] = "-"
                continue
            cast = [_cast(x, dtype) for x in given]
            module = package.load().to(dtype)
            for tensor in tensors(module(*emitted.arguments(cast))):
                assert tensor.isfinite().all() or level < 0, "not finite"
    for title, tool in TOOLS.items():
        with found.column(title):
            if not _tries(lambda t=tool: t(original(name).module, made.inputs)):
                found.columns[title] = "-"
                continue
            if title == "export" and not _is_dynamic(package):
                found.columns[title] = "-"
                continue
            again = [tensor.clone() for tensor in given]
            tool(package.load(), tuple(emitted.arguments(again)))
    return found


def _is_dynamic(package: ModuleType) -> bool:
    """Whether the file leaves the batch's size open, which some exporters can't."""
    inputs = sys.modules[f"{package.__name__}.model"].INPUTS.values()
    return any(isinstance(dim, str) for _, shape in inputs for dim in shape)


def _order(package: ModuleType, path: Path, made: Original) -> list[int]:
    """Inputs by the name of the original's arguments, else by their places."""
    names = [
        value.name for value in onnx.load(path, load_external_data=False).graph.input
    ]
    flat = len(tensors(made.inputs)) == len(made.inputs)
    places = list(made.inputs) if flat else names
    taken = sys.modules[f"{package.__name__}.model"].INPUTS
    return [places.index(name) for name in taken]


def _load(emitted: Emitted, state: dict[str, Tensor], path: Path) -> nn.Module:
    """The original's weights in a bare network; raises for keys amiss.

    Keys whose tensors the file doesn't hold under any name are no module's to have, nor
    further keys of a tensor for which the file has one name only.
    """
    module = emitted.bare()
    own = module.state_dict()
    held, names = _held(path)
    shared = {state[key].data_ptr() for key in own if key in state}
    given = {
        key: tensor
        for key, tensor in state.items()
        if key in own
        or key in names
        or (_digest(tensor.numpy()) in held and tensor.data_ptr() not in shared)
    }
    module.load_state_dict(given, strict=True)
    return module


def _held(path: Path) -> tuple[set[bytes], set[str]]:
    """What tells each initializer of a file, and their names."""
    found, names = set[bytes](), set[str]()
    for tensor in onnx.load(path).graph.initializer:
        array = numpy_helper.to_array(tensor)
        found |= {_digest(array), _digest(array.T)}
        names.add(tensor.name)
    return found, names


def _digest(array: np.ndarray) -> bytes:
    if array.size < 2 or len(np.unique(array)) == 1:
        return array.tobytes() + repr(array.shape).encode()  # by chance
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()


def _filled_module(emitted: Emitted, state: dict[str, Tensor]) -> nn.Module:
    """A bare network with the original's weights by name, others from the file."""
    module = emitted.bare()
    own = {k: v for k, v in emitted.package.load().state_dict().items()}
    module.load_state_dict(own)
    same = {k: v for k, v in state.items() if k in own and v.shape == own[k].shape}
    module.load_state_dict(same, strict=False)
    return module


def _compare_outputs(
    emitted: Emitted, made: Original, given: list[Tensor], state: Any
) -> None:
    module = _filled_module(emitted, state) if state else emitted.package.load()
    with torch.no_grad():
        wanted = made.outputs()
        got = tensors(module(*emitted.arguments(given)))
        nudged = [x * NUDGE if x.is_floating_point() else x for x in given]
        moved = tensors(module(*emitted.arguments(nudged)))
    assert len(got) == len(wanted), f"{len(got)} outputs, {len(wanted)} expected"
    for a, b, c in zip(got, wanted, moved, strict=True):
        limit = 2e-5 * b.abs().max() + 10 * (a - c).abs().max()
        error = (a - b).abs().max()
        assert error <= limit, f"off by {error:.1e} of {b.abs().max():.1e}"


def _loss(outputs: list[Tensor]) -> Tensor:
    parts = [x for x in outputs if x.is_floating_point() and x.requires_grad]
    return sum(
        ((x * torch.linspace(0.5, 1.5, x.numel()).view(x.shape)).sum() for x in parts),
        torch.zeros(()),
    )


def _compare_gradients(
    emitted: Emitted, made: Original, given: list[Tensor], state: Any
) -> None:
    module = _filled_module(emitted, state).requires_grad_(False)
    for parameter in module.parameters():
        parameter.requires_grad_(True)
    _loss(made.outputs()).backward()
    _loss(tensors(module(*emitted.arguments(given)))).backward()
    wanted = {
        k: p.grad for k, p in made.module.named_parameters(remove_duplicate=False)
    }
    own = dict(module.named_parameters(remove_duplicate=False))
    wrong = [k for k in own if k not in wanted]
    noise = 1e-7 * max(float(g.abs().max()) for g in wanted.values() if g is not None)
    kept = module.state_dict()
    for key, gradient in wanted.items():
        if gradient is None or key not in kept:
            continue
        if key not in own:
            wrong.append(f"{key} is a buffer")
            continue
        got = own[key].grad
        largest = float(gradient.abs().max())
        if largest == 0:
            continue
        error = largest if got is None else float((got - gradient).abs().max())
        if error > GRADIENTS * largest + noise:
            wrong.append(f"{key} {error / largest:.0e}")
    assert not wrong, ", ".join(wrong)


def _tries(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception:
        return False
    return True


def _cast(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def _in_type(made: Original, dtype: torch.dtype) -> None:
    def cast(value: Any) -> Any:
        if isinstance(value, Tensor):
            return _cast(value, dtype)
        return [cast(item) for item in value]

    inputs = {name: cast(value) for name, value in made.inputs.items()}
    for tensor in tensors(made.module.to(dtype)(**inputs)):
        assert tensor.isfinite().all()


# ---- tools of PyTorch: a module, and its arguments by name or by place


def _call(module: nn.Module, inputs: Any) -> list[Tensor]:
    with torch.no_grad():
        named = isinstance(inputs, dict)
        return tensors(module(**inputs) if named else module(*inputs))


def _same(got: list[Tensor], wanted: list[Tensor]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True), "differs"


def _deepcopied(module: nn.Module, inputs: Any) -> None:
    _same(_call(copy.deepcopy(module), inputs), _call(module, inputs))


def _pickled(module: nn.Module, inputs: Any) -> None:
    _same(_call(pickle.loads(pickle.dumps(module)), inputs), _call(module, inputs))


def _dynamic(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {0: torch.export.Dim.DYNAMIC}
    items = value.values() if isinstance(value, dict) else value
    shapes = [_dynamic(item) for item in items]
    return dict(zip(value, shapes, strict=True)) if isinstance(value, dict) else shapes


def _larger(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.cat([value, value[:1]])
    if isinstance(value, dict):
        return {name: _larger(item) for name, item in value.items()}
    return [_larger(item) for item in value]


def _exported(module: nn.Module, inputs: Any) -> None:
    named = isinstance(inputs, dict)
    shapes = _dynamic(inputs) if named else tuple(_dynamic(inputs))
    program = torch.export.export(
        module,
        () if named else inputs,
        inputs if named else None,
        dynamic_shapes=shapes,
    )
    more = _larger(inputs)
    _same(_call(program.module(), more), _call(module, more))


def _compiled(module: nn.Module, inputs: Any) -> None:
    torch._dynamo.reset()
    whole = torch.compile(module, fullgraph=True, backend="eager")
    _same(_call(whole, inputs), _call(module, inputs))


def _traced(module: nn.Module, inputs: Any) -> None:
    _same(_call(torch.fx.symbolic_trace(module), inputs), _call(module, inputs))


def _onnx(module: nn.Module, inputs: Any) -> None:
    named = isinstance(inputs, dict)
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(
            module,
            () if named else inputs,
            Path(folder) / "again.onnx",
            kwargs=inputs if named else None,
            dynamo=True,
            verbose=False,
        )


TOOLS: dict[str, Callable[[nn.Module, Any], None]] = {
    "deepcopy": _deepcopied,
    "pickle": _pickled,
    "export": _exported,
    "compile_whole": _compiled,
    "fx": _traced,
    "onnx": _onnx,
}


def main() -> None:
    """Compare all that is named and print what is wrong; a table with --write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--exporters", nargs="*", default=EXPORTERS)
    parser.add_argument("--tools", nargs="*", default=list(TOOLS))
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    for name in set(TOOLS) - set(given.tools):
        del TOOLS[name]
    rows: list[Findings] = []
    for name, exporter, path in files(
        given.folder, chosen(given.names), given.exporters
    ):
        out = given.folder / f"O{given.level}" / f"{name}_{exporter}"
        out.parent.mkdir(exist_ok=True)
        rows.append(measure(name, exporter, path, given.level, out))
        wrong = {k: v for k, v in rows[-1].columns.items() if v not in ("ok", "-")}
        print(name, exporter, "ok" if not wrong else "", flush=True)
        for title, text in wrong.items():
            print(f"    {title}: {text}", flush=True)
    titles = list(dict.fromkeys(title for row in rows for title in row.columns))
    counts = {}
    for title in titles:
        said = [row.columns.get(title, "") for row in rows]
        counts[title] = f"{said.count('ok')} of {sum(x not in ('-', '') for x in said)}"
    print(counts)
    if given.write is not None:
        given.write.write_text(_page(rows, titles, counts), encoding="utf-8")


def _page(rows: list[Findings], titles: list[str], counts: dict[str, str]) -> str:
    head = ["network", "exporter", *titles]
    lines = [head, ["---"] * len(head), ["", "", *counts.values()]]
    for row in rows:
        said = (row.columns.get(title, "-") for title in titles)
        short = ("" if s == "ok" else "-" if s == "-" else "no" for s in said)
        lines.append([row.name, row.exporter, *short])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
