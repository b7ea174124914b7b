"""Random graphs of the operators that rules speak of, small and full of coincidences.

Shapes are few and constants are 0, 1, 2, -1 and 0.5 more often than not, so that
identities, inverses and common factors do occur.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

UNARY = (
    "Neg Abs Relu Sigmoid Tanh Exp Sqrt Reciprocal Floor Ceil Round Sign Erf Log "
    "Softplus HardSwish Identity".split()
)
BINARY = "Add Sub Mul Div Max Min Pow".split()
REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd".split()
NUMBERS = (0.0, 1.0, 2.0, -1.0, 0.5, -0.0, 3.0)


class Maker:
    """Builds one graph; every value has a known shape."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.inputs: dict[str, tuple[int, ...]] = {}
        for name in ("x", "y"):
            shape = [(2, 3, 4), (2, 3), (1, 4, 1), (2, 0, 3), (3, 4, 4, 2)]
            self.inputs[name] = shape[int(self.random.integers(len(shape)))]
        self.shapes.update(self.inputs)

    def pick(self, options: list | tuple):
        return options[int(self.random.integers(len(options)))]

    def value(self) -> str:
        """Recent values more often, so that nodes stand on each other."""
        names = list(self.shapes)
        return names[-1 - min(int(self.random.exponential(2)), len(names) - 1)]

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, inputs: list[str], shape, outputs: int = 1, **more) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"n_{name}", **more))
        self.shapes[name] = tuple(int(n) for n in shape)
        return name

    def step(self) -> None:
        kind = self.pick(
            [self.unary, self.binary, self.binary, self.with_number, self.move,
             self.move, self.reduce, self.product, self.layer, self.join]
        )  # fmt: skip
        kind(self.value())

    def unary(self, x: str) -> None:
        self.add(self.pick(UNARY), [x], self.shapes[x])

    def with_number(self, x: str) -> None:
        shape = self.shapes[x]
        size = self.pick([(), (1,), (1,) * len(shape), shape[-1:]])
        number = self.constant(np.full(size, self.pick(NUMBERS), np.float32))
        operands = [x, number] if self.random.random() < 0.7 else [number, x]
        if shape or size in ((), (1,)):
            result = np.broadcast_shapes(shape, size)
            self.add(self.pick(BINARY), operands, result)

    def binary(self, x: str) -> None:
        fitting = [y for y, s in self.shapes.items() if _fit(s, self.shapes[x])]
        y = self.pick(fitting)
        shape = np.broadcast_shapes(self.shapes[x], self.shapes[y])
        self.add(self.pick(BINARY), [x, y], shape)

    def move(self, x: str) -> None:
        shape = self.shapes[x]
        rank = len(shape)
        choice = self.pick(["transpose", "reshape", "unsqueeze", "squeeze", "slice",
                            "pad", "expand", "gather"])  # fmt: skip
        if choice == "transpose" and rank > 1:
            perm = [int(k) for k in self.random.permutation(rank)]
            self.add("Transpose", [x], [shape[k] for k in perm], perm=perm)
        elif choice == "reshape" and rank > 1 and 0 not in shape:
            k = int(self.random.integers(rank - 1))
            target = (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])
            self.add("Reshape", [x, self.numbers(*target)], target)
        elif choice == "unsqueeze" and rank < 4:
            k = int(self.random.integers(rank + 1))
            self.add("Unsqueeze", [x, self.numbers(k)], (*shape[:k], 1, *shape[k:]))
        elif choice == "squeeze" and 1 in shape:
            k = shape.index(1)
            self.add("Squeeze", [x, self.numbers(k)], (*shape[:k], *shape[k + 1 :]))
        elif choice in ("slice", "pad", "gather") and rank:
            self.cut(x, choice)
        elif choice == "expand" and rank:
            target = tuple(3 if n == 1 else n for n in shape)
            self.add("Expand", [x, self.numbers(*target)], target)

    def cut(self, x: str, choice: str) -> None:
        shape = list(self.shapes[x])
        k = int(self.random.integers(len(shape)))
        if choice == "pad":
            pads = [0] * (2 * len(shape))
            pads[k] = int(self.random.integers(3))
            shape[k] += pads[k]
            value = self.constant(np.array(self.pick(NUMBERS), np.float32))
            self.add("Pad", [x, self.numbers(*pads), value], shape)
        elif choice == "gather" and shape[k]:
            index = self.random.integers(0, shape[k], 2)
            shape[k] = 2
            self.add("Gather", [x, self.numbers(*index)], shape, axis=k)
        elif choice == "slice" and shape[k]:
            low, high = sorted(int(n) for n in self.random.integers(0, shape[k] + 1, 2))
            step = self.pick([1, 1, 2])
            rows = [self.numbers(n) for n in (low, high, k, step)]
            shape[k] = len(range(low, high, step))
            self.add("Slice", [x, *rows], shape)

    def reduce(self, x: str) -> None:
        shape = self.shapes[x]
        if not shape or 0 in shape:
            return
        k = int(self.random.integers(len(shape)))
        keep = int(self.random.integers(2))
        left = (*shape[:k], *([1] if keep else []), *shape[k + 1 :])
        op = self.pick(REDUCTIONS)
        self.add(op, [x, self.numbers(k)], left, keepdims=keep)

    def product(self, x: str) -> None:
        shape = self.shapes[x]
        if len(shape) < 2 or 0 in shape:
            return
        weight = self.random.standard_normal((shape[-1], 4)).astype(np.float32)
        y = self.add("MatMul", [x, self.constant(weight)], (*shape[:-1], 4))
        if self.random.random() < 0.5:
            bias = self.constant(self.random.standard_normal(4).astype(np.float32))
            self.add("Add", [y, bias], self.shapes[y])

    def layer(self, x: str) -> None:
        shape = self.shapes[x]
        if not shape or 0 in shape:
            return
        axis = int(self.random.integers(len(shape)))
        choice = self.pick(["Softmax", "Clip", "Where", "LogSoftmax"])
        if choice == "Clip":
            bounds = sorted(float(n) for n in self.random.choice(NUMBERS, 2))
            names = [self.constant(np.array(b, np.float32)) for b in bounds]
            self.add("Clip", [x, *names], shape)
        elif choice == "Where":
            zero = self.constant(np.array(0.0, np.float32))
            test = self.add("Less", [x, zero], shape)
            del self.shapes[test]  # of booleans: no operand for the others
            self.add("Where", [test, self.pick([x, zero]), x], shape)
        else:
            self.add(choice, [x], shape, axis=axis)

    def join(self, x: str) -> None:
        shape = self.shapes[x]
        if not shape:
            return
        k = int(self.random.integers(len(shape)))
        equal = [y for y, s in self.shapes.items() if s == shape]
        if self.random.random() < 0.5 and shape[k] < 8:
            total = (*shape[:k], 2 * shape[k], *shape[k + 1 :])
            self.add("Concat", [x, self.pick(equal)], total, axis=k)
        elif shape[k] > 1:
            sizes = (1, shape[k] - 1)
            names = [f"v{len(self.nodes)}_{i}" for i in range(2)]
            self.nodes.append(
                helper.make_node("Split", [x, self.numbers(*sizes)], names, axis=k)
            )
            for name, size in zip(names, sizes, strict=True):
                self.shapes[name] = (*shape[:k], size, *shape[k + 1 :])

    def model(self, steps: int) -> onnx.ModelProto:
        for _ in range(steps):
            self.step()
        used = {x for node in self.nodes for x in node.input}
        ends = [y for n in self.nodes for y in n.output if y not in used]
        outputs = [
            helper.make_tensor_value_info(y, TensorProto.FLOAT, self.shapes[y])
            for y in ends
            if y in self.shapes
        ]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in self.inputs.items()
        ]
        graph = helper.make_graph(self.nodes, "random", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _fit(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) <= 4
    except ValueError:
        return False


def random_model(seed: int, steps: int = 14) -> onnx.ModelProto:
    """A model with inputs x and y, all float32."""
    return Maker(seed).model(steps)
