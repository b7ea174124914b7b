"""Small models as exporters write them, and what fairhand makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import fairhand

from .emitted import imported

Shape = Sequence[int | str]


class Graph:
    """Nodes named by paths, as by TorchScript, or with metadata of torch's exporter.

    `at="layers.0/fc1"` names a node /layers.0/fc1/MatMul; `scopes` are (attribute path,
    class) pairs from the network inwards.
    """

    opset = 20

    def __init__(self, **inputs: Shape | tuple[str, Shape]) -> None:
        self.inputs = [_info(name, *_typed(given)) for name, given in inputs.items()]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self.random = np.random.default_rng(0)
        self.made = 0

    def weight(self, name: str, *shape: int, value: Any = None) -> str:
        """A constant; small random numbers of `shape` where no `value` is given."""
        if value is None:
            value = self.random.normal(0, 0.3, shape).astype(np.float32)
        self.weights[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def ints(self, *values: int) -> str:
        return self.weight(f"onnx::ints_{values}", value=np.array(values, np.int64))

    def __call__(
        self,
        op: str,
        *inputs: str,
        at: str = "",
        scopes: Sequence[tuple[str, str]] | None = None,
        out: str = "",
        outputs: int = 1,
        **attrs: Any,
    ) -> Any:
        """Add a node; returns its output's name, or a list of several."""
        self.made += 1
        prefix = f"/{at}/" if at else ("/" if scopes is None else "node_")
        name = f"{prefix}{op}_{self.made}"
        made = [out or f"{name}_output_{i}" for i in range(outputs)]
        node = helper.make_node(op, inputs, made, name=name, **attrs)
        if scopes is not None:
            paths = ["", *(path for path, _ in scopes), f"val_{self.made}"]
            classes = ["__main__.Net", *(f"__main__.{c}" for _, c in scopes), "aten.op"]
            for key, words in (("name_scopes", paths), ("class_hierarchy", classes)):
                node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=repr(words))
        self.nodes.append(node)
        return made if outputs > 1 else made[0]

    def linear(self, x: str, path: str, wide: int, out: int, **place: Any) -> str:
        """y = x @ W + b as exporters write nn.Linear on more than two axes."""
        known = f"{path}.weight" in self.weights  # a layer that is called again
        weight, bias = f"{path}.weight", f"{path}.bias"
        if not known:
            self.weight(weight, wide, out)
            self.weight(bias, out)
        return self("Add", self("MatMul", x, weight, **place), bias, **place)

    def conv(
        self,
        x: str,
        path: str,
        sizes: tuple[int, int, int],
        stride: int = 1,
        at: str = "",
    ) -> str:
        """A convolution of (in, out, kernel) that keeps the picture's size."""
        wide, out, k = sizes
        weights = (
            self.weight(f"{path}.weight", out, wide, k, k),
            self.weight(f"{path}.bias", out),
        )
        form = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [k // 2] * 4}
        return self("Conv", x, *weights, at=at, **form)

    def norm(self, x: str, path: str, size: int, **place: Any) -> str:
        weights = self.weight(f"{path}.weight", size), self.weight(f"{path}.bias", size)
        return self("LayerNormalization", x, *weights, axis=-1, **place)

    def size(self, x: str, axis: int, at: str = "") -> str:
        """One of x's sizes as a vector of one element, as exporters compute it."""
        index = self.weight(f"onnx::axis_{axis}", value=np.int64(axis))
        return self(
            "Unsqueeze",
            self("Gather", self("Shape", x, at=at), index, axis=0, at=at),
            self.ints(0),
            at=at,
        )

    def reshape(self, x: str, *sizes: str, at: str = "") -> str:
        return self("Reshape", x, self("Concat", *sizes, axis=0, at=at), at=at)

    def model(self, **outputs: str) -> onnx.ModelProto:
        """Outputs by name; each is the value given, under a name of its own."""
        for name, value in outputs.items():
            for node in self.nodes:
                node.input[:] = [name if x == value else x for x in node.input]
                node.output[:] = [name if x == value else x for x in node.output]
        graph = helper.make_graph(
            self.nodes,
            "net",
            self.inputs,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            list(self.weights.values()),
        )
        opsets = [helper.make_opsetid("", self.opset)]
        domains = {node.domain for node in self.nodes if node.domain}
        opsets += [helper.make_opsetid(domain, 1) for domain in sorted(domains)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return onnx.shape_inference.infer_shapes(made, data_prop=True)


def _typed(given: Shape | tuple[str, Shape]) -> tuple[str, Shape]:
    if isinstance(given, tuple):
        return given[0], given[1]  # type: ignore[return-value]
    return "float32", given


def _info(name: str, dtype: str, shape: Shape) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, code, shape)


@dataclass(frozen=True)
class Emitted:
    """A package that verified: its text, its classes, and the imported module."""

    folder: Path
    text: str
    module: ModuleType
    report: Mapping[str, Any]

    @property
    def weights(self) -> dict[str, Any]:
        return dict(self.module.load().state_dict())

    @property
    def classes(self) -> list[str]:
        return re.findall(r"^class (\w+)", self.text, re.MULTILINE)

    def source(self, name: str = "") -> str:
        """The text of a class, without indent; of the network by default."""
        name = name or self.classes[-1]
        found = re.search(rf"^class {name}\(.*?(?=^\S)", self.text, re.M | re.S)
        assert found is not None, f"no class {name} among {self.classes}"
        lines = [line.strip() for line in found[0].splitlines()]
        return "\n".join(line for line in lines if line)

    def body(self, name: str = "") -> list[str]:
        """The statements of a class's forward, comments left out."""
        text = self.source(name).partition("def forward(")[2]
        lines = text.partition(":\n")[2].splitlines()
        return [line.partition("  #")[0] for line in lines]

    def arguments(self, name: str = "") -> list[str]:
        found = re.search(r"def forward\(self, ?(.*?)\)", self.source(name), re.S)
        assert found is not None
        return [a.strip() for a in found[1].split(",") if a.strip()]


def emit(model: onnx.ModelProto, folder: Path) -> Emitted:
    # Without rewrites: these tests are about how a graph is written, whatever it is.
    package = fairhand.compile(model, folder, rules=())
    assert package.report["verification"]["cases"]
    text = (folder / "model.py").read_text(encoding="utf-8")
    return Emitted(folder, text, imported(folder), package.report)


def run_here(
    package: Path,
    feeds: list[Mapping[str, np.ndarray]],
    engine: str = "",
    then: object = None,
) -> list[list[np.ndarray]]:
    """As codegen.verify.run_package, without the seconds that a new process takes.

    What is to be done in that process isn't.
    """
    chosen = {"engine": engine} if engine else {}
    session = imported(package).Session(**chosen)
    names = [tensor.name for tensor in session.get_inputs()]
    return [
        session.run(None, dict(zip(names, feed.values(), strict=True)))
        for feed in feeds
    ]
