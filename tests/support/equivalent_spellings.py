"""Equivalent spellings of functions, drawn by identities that change a tree's shape.

A spelling is a tree: "x", "s" or "b" (a row of constants), a number, or (operator,
operand, ..). `drawn` applies identities at random places; two families of them are
kept apart, so that one may be looked at while the compiler is developed and the other
only counted. `model_of` writes a tree as a graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Tree: TypeAlias = Any
Identity: TypeAlias = Callable[[Tree, Random], Iterator[Tree]]
WIDTH = 8
ROOT_2, SLOPE = math.sqrt(2), math.sqrt(2 / math.pi)


def _centred(x: Tree) -> Tree:
    return ("sub", x, ("mean", x))


def _tanh_gelu(x: Tree) -> Tree:
    cubic = ("add", x, ("mul", 0.044715, ("pow", x, 3.0)))
    gate = ("add", 1.0, ("tanh", ("mul", SLOPE, cubic)))
    return ("mul", ("mul", 0.5, x), gate)


_SIXTH = ("clip", ("add", ("mul", "x", 1 / 6), 0.5), 0.0, 1.0)
_ERF = ("add", 1.0, ("erf", ("div", "x", ROOT_2)))
_EXP = ("exp", ("sub", "x", ("max_of", "x")))
_VARIANCE = ("mean", ("pow", _centred("x"), 2.0))
NORMAL = ("div", _centred("x"), ("sqrt", ("add", _VARIANCE, 1e-5)))
_RMS = ("div", "x", ("sqrt", ("add", ("mean", ("pow", "x", 2.0)), 1e-5)))

# What a spelling means, by the operator that is to be left.
FUNCTIONS: dict[str, tuple[Tree, str]] = {
    "gelu": (("mul", ("mul", 0.5, "x"), _ERF), "Gelu"),
    "gelu_tanh": (_tanh_gelu("x"), "Gelu"),
    "quick_gelu": (("mul", "x", ("sigmoid", ("mul", 1.702, "x"))), "Swish"),
    "silu": (("mul", "x", ("sigmoid", "x")), "Swish"),
    "sigmoid": (("sigmoid", "x"), "Sigmoid"),
    "tanh": (("tanh", "x"), "Tanh"),
    "softplus": (("softplus", "x"), "Softplus"),
    "mish": (("mul", "x", ("tanh", ("softplus", "x"))), "Mish"),
    "hard_sigmoid": (_SIXTH, "HardSigmoid"),
    "hard_swish": (("mul", "x", _SIXTH), "HardSwish"),
    "relu6": (("clip", "x", 0.0, 6.0), "Clip"),
    "relu": (("relu", "x"), "Relu"),
    "leaky_relu": (("max", "x", ("mul", 0.1, "x")), "LeakyRelu"),
    "softsign": (("div", "x", ("add", 1.0, ("abs", "x"))), "Softsign"),
}
NORMS: dict[str, tuple[Tree, str]] = {
    "softmax": (("div", _EXP, ("sum", _EXP)), "Softmax"),
    "log_softmax": (("sub", "x", ("log", ("sum", ("exp", "x")))), "LogSoftmax"),
    "layer_norm": (
        ("add", ("mul", NORMAL, "s"), "b"),
        "LayerNormalization",
    ),
    "rms_norm": (("mul", _RMS, "s"), "RMSNormalization"),
}


# ---- identities


def _shown(t: Tree, r: Random) -> Iterator[Tree]:
    """Orders, brackets, products multiplied out, and other forms of one operator."""
    op, *a = t
    if op in ("add", "mul"):
        yield (op, a[1], a[0])
        for i in (0, 1):
            if isinstance(a[i], tuple) and a[i][0] == op:
                yield (op, a[i][1], (op, a[i][2], a[1 - i]))
    if op == "mul":
        for i in (0, 1):
            if isinstance(a[i], tuple) and a[i][0] in ("add", "sub"):
                inner = a[i]
                both = [("mul", a[1 - i], term) for term in inner[1:]]
                yield (inner[0], *both)
        if a[0] == a[1]:
            yield ("pow", a[0], 2.0)
    if op == "div":
        if isinstance(a[1], float):
            yield ("mul", a[0], 1 / a[1])
        else:
            yield ("mul", a[0], ("recip", a[1]))
    if op == "pow" and a[1] == 2.0:
        yield ("mul", a[0], a[0])
    if op == "pow" and a[1] == 3.0:
        yield ("mul", a[0], ("mul", a[0], a[0]))
        yield ("mul", ("pow", a[0], 2.0), a[0])
    if op == "sub":
        yield ("add", a[0], ("neg", a[1]))
    if op == "sigmoid":
        yield ("div", 1.0, ("add", 1.0, ("exp", ("neg", a[0]))))
        yield ("mul", 0.5, ("add", 1.0, ("tanh", ("mul", 0.5, a[0]))))
    if op == "clip":
        yield ("min", ("max", a[0], a[1]), a[2])
    if op == "relu":
        yield ("max", a[0], 0.0)
    if op == "softplus":
        yield ("log", ("add", 1.0, ("exp", a[0])))
    if op == "mean":
        yield ("mul", ("sum", a[0]), ("one_over_count",))


def _held(t: Tree, r: Random) -> Iterator[Tree]:
    """Split numbers, roots and powers, definitions by other functions, movements."""
    op, *a = t
    for i, x in enumerate(a):
        if isinstance(x, float) and x and op in ("add", "mul"):
            k = r.choice((2.0, 3.0, 5.0))
            halves = (("add", x - k, k), ("mul", x / k, k))[op == "mul"]
            yield (op, (op, a[1 - i], halves[1]), halves[2])
    if op in ("add", "sub", "mul", "div", "exp", "sqrt") and _reads_x(t):
        yield ("there_and_back", t)
    if op == "mul" and isinstance(a[1], float) and a[1]:
        yield ("div", a[0], 1 / a[1])
    if op == "div" and isinstance(a[1], tuple):
        yield ("mul", a[0], ("pow", a[1], -1.0))
    if op == "sqrt":
        yield ("pow", a[0], 0.5)
    if op == "pow" and a[1] == 2.0:
        yield ("pow", ("neg", a[0]), 2.0)
    if op == "sub":
        yield ("neg", ("sub", a[1], a[0]))
    if op == "sigmoid":
        yield ("recip", ("add", ("exp", ("mul", -1.0, a[0])), 1.0))
        yield ("div", ("exp", a[0]), ("add", ("exp", a[0]), 1.0))
    if op == "tanh":
        yield ("sub", ("mul", 2.0, ("sigmoid", ("mul", 2.0, a[0]))), 1.0)
        up, down = ("exp", a[0]), ("exp", ("neg", a[0]))
        yield ("div", ("sub", up, down), ("add", up, down))
    if op == "clip":
        yield ("max", ("min", a[0], a[2]), a[1])
        if a[1] == 0.0:
            yield ("min", ("relu", a[0]), a[2])
    if op == "relu":
        yield ("mul", 0.5, ("add", a[0], ("abs", a[0])))
        yield ("where", ("less", a[0], 0.0), 0.0, a[0])
    if op == "abs":
        yield ("max", a[0], ("neg", a[0]))
        yield ("add", ("relu", a[0]), ("relu", ("neg", a[0])))
    if op == "max":
        yield ("where", ("less", a[0], a[1]), a[1], a[0])
    if op == "softplus":
        gate = ("exp", ("neg", ("abs", a[0])))
        yield ("add", ("relu", a[0]), ("log", ("add", 1.0, gate)))
    if op == "mean":
        yield ("div", ("sum", a[0]), ("count",))
    if op == "exp" and isinstance(a[0], tuple) and a[0][0] == "sub":
        yield ("div", ("exp", a[0][1]), ("exp", a[0][2]))


FAMILIES: dict[str, Identity] = {"shown": _shown, "held": _held}


def drawn(tree: Tree, family: str, r: Random) -> Tree:
    """The tree after one to four passes of the identities of a family, or "both"."""
    names = list(FAMILIES) if family == "both" else [family]
    for _ in range(r.randint(1, 4)):
        tree = _pass(tree, FAMILIES[r.choice(names)], r)
        if _size(tree) > 120:
            break
    return tree


def _pass(t: Tree, identity: Identity, r: Random) -> Tree:
    if not isinstance(t, tuple):
        return t
    t = (t[0], *(_pass(x, identity, r) for x in t[1:]))
    found = list(identity(t, r))
    return r.choice(found) if found and r.random() < 0.6 else t


def _size(t: Tree) -> int:
    return 1 + sum(map(_size, t[1:])) if isinstance(t, tuple) else 1


def spoiled(tree: Tree, r: Random) -> Tree | None:
    """A near miss: one number is another in its fourth digit; None if it has none."""
    numbers = [x for x in _numbers(tree) if x not in (0.0, 1e-5) and x != int(x)]
    if not numbers:
        return None
    wrong = r.choice(numbers)
    return _replaced(tree, wrong, wrong * (1 + r.choice((-1, 1)) * 3e-4))


def _reads_x(t: Tree) -> bool:
    return t == "x" or (isinstance(t, tuple) and any(map(_reads_x, t[1:])))


def _numbers(t: Tree) -> Iterator[float]:
    if isinstance(t, float):
        yield t
    for x in t[1:] if isinstance(t, tuple) else ():
        yield from _numbers(x)


def _replaced(t: Tree, old: float, new: float) -> Tree:
    if isinstance(t, tuple):
        return (t[0], *(_replaced(x, old, new) for x in t[1:]))
    return new if isinstance(t, float) and t == old else t


# ---- graphs

_OPERATORS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "neg": "Neg",
    "exp": "Exp", "log": "Log", "erf": "Erf", "sqrt": "Sqrt", "recip": "Reciprocal",
    "tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "relu": "Relu",
    "clip": "Clip", "max": "Max", "min": "Min", "abs": "Abs", "less": "Less",
    "where": "Where", "mean": "ReduceMean", "sum": "ReduceSum", "max_of": "ReduceMax",
}  # fmt: skip


class Writer:
    """Trees as nodes; reductions go over `axes`, constants have `sizes`.

    A mean is of `count` elements.
    """

    def __init__(
        self,
        axes: Sequence[int] = (-1,),
        sizes: Sequence[int] = (WIDTH,),
        rank: int = 3,
        count: int = WIDTH,
    ) -> None:
        self.axes, self.sizes, self.rank, self.count = axes, sizes, rank, count
        self.nodes: list[Any] = []
        self.constants: dict[Any, Any] = {}
        self.known: dict[Tree, str] = {}

    def write(self, t: Tree) -> str:
        """The name of the value of a tree."""
        if t == "x":
            return "x"
        if isinstance(t, str):
            row = np.random.default_rng(ord(t)).uniform(0.5, 1.5, self.sizes)
            return self.constant(t, row.astype(np.float32))
        if isinstance(t, float):
            return self.constant(t, np.array(t, np.float32))
        if t not in self.known:
            self.known[t] = self.node(t)
        return self.known[t]

    def constant(self, key: Any, array: np.ndarray) -> str:
        """The name of a constant."""
        name = f"onnx::c{key}"
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def node(self, t: Tree) -> str:
        """The name of what an operator makes of its operands."""
        op, *a = t
        if op == "there_and_back":
            swap = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
            turned = self.add("Transpose", [self.write(a[0])], perm=swap)
            return self.add("Transpose", [turned], perm=swap)
        if op in ("count", "one_over_count"):
            number = self.count if op == "count" else 1 / self.count
            return self.constant(op, np.array(number, np.float32))
        if op == "reshape":
            sizes = self.constant(a[1], np.array(a[1], np.int64))
            return self.add("Reshape", [self.write(a[0]), sizes])
        inputs = [self.write(x) for x in a]
        if op in ("mean", "sum", "max_of"):
            inputs.append(self.constant("axes", np.array(self.axes, np.int64)))
        return self.add(_OPERATORS[op], inputs)

    def add(self, op: str, inputs: list[str], **more: Any) -> str:
        """The name of the value of a new node."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **more))
        return name


def model_of(
    tree: Tree, shape: Sequence[int] = (2, 3, WIDTH), writer: Writer | None = None
) -> onnx.ModelProto:
    """A graph of one operand that computes the tree."""
    writer = writer or Writer()
    last = writer.write(tree)
    writer.nodes.append(helper.make_node("Identity", [last], ["y"]))
    graph = helper.make_graph(
        writer.nodes,
        "spelling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        list(writer.constants.values()),
    )
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10)
