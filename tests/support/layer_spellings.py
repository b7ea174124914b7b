"""Spellings of normalisations of images and vectors, and of attention, drawn.

As in equivalent_spellings.py; attention is drawn by the choices that exporters make:
how heads are laid out, where the scale stands, which masks there are, how keys are
turned and repeated, how softmax is spelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.equivalent_spellings import NORMAL, Tree, Writer, drawn, model_of

_AFFINE = ("add", ("mul", "normal", "s"), "b")
_IMAGE = (2, 4, 3, 5)
_LENGTH = ("sqrt", ("sum", ("pow", "x", 2.0)))
_BATCH = (
    "add",
    ("mul", ("div", ("sub", "x", "m"), ("sqrt", ("add", "v", 1e-5))), "s"),
    "b",
)


def put(tree: Tree, old: str, new: Tree) -> Tree:
    """The tree with another one in the place of a leaf."""
    if tree == old:
        return new
    if isinstance(tree, tuple) and tree[0] != "reshape":
        return (tree[0], *(put(x, old, new) for x in tree[1:]))
    return tree


def _unmoved(tree: Tree) -> Tree:
    """The tree without transposes that cancel: of constants they aren't any."""
    if not isinstance(tree, tuple):
        return tree
    if tree[0] == "there_and_back":
        return _unmoved(tree[1])
    return (tree[0], *map(_unmoved, tree[1:]))


def instance_norm(family: str, r: Random) -> onnx.ModelProto:
    """Each channel of an image normalised, with a scale and a bias."""
    tree = drawn(put(_AFFINE, "normal", NORMAL), family, r)
    return model_of(tree, _IMAGE, Writer((2, 3), (4, 1, 1), 4, 15))


def group_norm(family: str, r: Random) -> onnx.ModelProto:
    """Two groups of channels of an image normalised, with a scale and a bias."""
    sizes, axes = r.choice((((2, 2, 30), (2,)), ((2, 2, 2, 3, 5), (2, 3, 4))))
    inner = put(drawn(NORMAL, family, r), "x", ("reshape", "x", sizes))
    outer = _unmoved(drawn(_AFFINE, family, r))
    tree = put(outer, "normal", ("reshape", inner, _IMAGE))
    return model_of(tree, _IMAGE, Writer(axes, (4, 1, 1), len(sizes), 30))


def l2_norm(family: str, r: Random) -> onnx.ModelProto:
    """Vectors over their lengths, which may be bounded from below."""
    length = r.choice((_LENGTH, ("max", _LENGTH, 1e-12)))
    return model_of(drawn(("div", "x", length), family, r))


def batch_norm(family: str, r: Random) -> onnx.ModelProto:
    """The mean, variance, scale and bias of each channel are constants."""
    tree = _unmoved(drawn(_BATCH, family, r))
    return model_of(tree, _IMAGE, Writer((), (4, 1, 1), 4, 1))


# Each with the operators that are to be left.
LAYERS: dict[str, tuple[Callable[[str, Random], onnx.ModelProto], set[str]]] = {
    "instance_norm": (instance_norm, {"InstanceNormalization"}),
    "group_norm": (group_norm, {"GroupNormalization"}),
    "l2_norm": (l2_norm, {"ReduceL2", "Clip", "Max", "Div"}),
    "batch_norm": (batch_norm, {"Mul", "Add"}),
}


# ---- attention

_BATCHES, _HEADS, _QUERIES, _KEYS, _SIZE, _VALUES = 2, 4, 5, 6, 8, 3
_SHARED = 2  # heads of keys, where they are fewer
_LOWEST = float(np.finfo(np.float32).min)
_MASKS = "none none add add2 bool not_bool one_minus scaled causal sub".split()
_SHAPES = ((2, 1, 5, 6), (2, 1, 1, 6), (1, 1, 5, 6), (2, 4, 5, 6), (5, 6))


@dataclass
class _Graph:
    r: Random
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)

    def input(self, name: str, *shape: int, of: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, of, shape))
        return name

    def mask(self, of: int = TensorProto.FLOAT) -> str:
        return self.input("m", *self.r.choice(_SHAPES), of=of)

    def constant(self, content: Any, of: Any = np.float32) -> str:
        name = f"onnx::c{len(self.constants)}"
        array = np.asarray(content, of)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *content: int) -> str:
        return self.constant(content, np.int64)

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        made = helper.make_node(op, inputs, [name], name=name, **attributes)
        self.nodes.append(made)
        return name

    def added(self, a: str, b: str) -> str:
        return self.node("Add", *((a, b) if self.r.random() < 0.7 else (b, a)))

    def times(self, x: str, n: float) -> str:
        way = self.r.randrange(4)
        if way == 0:
            return self.node("Mul", x, self.constant(n))
        if way == 1:
            return self.node("Div", x, self.constant(1 / n))
        if way == 2:
            return self.node("Mul", self.constant(n), x)
        twice = self.node("Mul", x, self.constant(n * 2))
        return self.node("Mul", twice, self.constant(0.5))


class _Attention:
    def __init__(self, r: Random) -> None:
        self.g, self.r = _Graph(r), r
        self.layout = r.choice(("heads", "turned", "packed"))
        self.heads = _SHARED if r.random() < 0.25 else _HEADS
        usual = 1 / math.sqrt(_SIZE)
        self.scale = usual if r.random() < 0.7 else r.choice((1.0, 0.25, 0.1))
        self.place = r.choice(("scores", "queries", "keys", "roots", "roots"))
        self.early = r.random() < 0.5  # keys are scaled before they are turned
        self.einsum = r.random() < 0.12

    def model(self) -> onnx.ModelProto:
        g = self.g
        q = self.scaled(self.operand("q", _HEADS, _QUERIES, _SIZE), "queries")
        k = self.operand("k", self.heads, _KEYS, _SIZE)
        v = self.operand("v", self.heads, _KEYS, _VALUES)
        if self.heads != _HEADS:
            k, v = self.repeated(k, _SIZE), self.repeated(v, _VALUES)
        weights = self.softmax(self.masked(self.product(q, k)))
        if self.einsum and self.r.random() < 0.5:
            y = g.node("Einsum", weights, v, equation="bhst,bhte->bhse")
        else:
            y = g.node("MatMul", weights, v)
        shape = [_BATCHES, _HEADS, _QUERIES, _VALUES]
        if self.r.random() < 0.5:
            shape = [_BATCHES, _QUERIES, _HEADS * _VALUES]
            turned = g.node("Transpose", y, perm=[0, 2, 1, 3])
            y = g.node("Reshape", turned, g.ints(*shape))
        g.nodes.append(helper.make_node("Identity", [y], ["y"]))
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph(g.nodes, "attention", g.inputs, [result], g.constants)
        opset = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=opset, ir_version=10)

    def operand(self, name: str, heads: int, length: int, size: int) -> str:
        g = self.g
        if self.layout == "heads":
            return g.input(name, _BATCHES, heads, length, size)
        if self.layout == "turned":
            x = g.input(name, _BATCHES, length, heads, size)
        else:
            packed = g.input(name, _BATCHES, length, heads * size)
            first = self.r.choice((0, _BATCHES))
            x = g.node("Reshape", packed, g.ints(first, length, heads, size))
        return g.node("Transpose", x, perm=[0, 2, 1, 3])

    def repeated(self, x: str, size: int) -> str:
        g, times = self.g, _HEADS // _SHARED
        apart = g.node("Unsqueeze", x, g.ints(2))
        if self.r.random() < 0.6:
            wide = g.ints(_BATCHES, _SHARED, times, _KEYS, size)
            copies = g.node("Expand", apart, wide)
        else:
            copies = g.node("Tile", apart, g.ints(1, 1, times, 1, 1))
        return g.node("Reshape", copies, g.ints(_BATCHES, _HEADS, _KEYS, size))

    def scaled(self, x: str, place: str, root: bool = True) -> str:
        if self.place == place:
            return self.g.times(x, self.scale)
        if self.place == "roots" and root:
            return self.g.times(x, math.sqrt(self.scale))
        return x

    def product(self, q: str, k: str) -> str:
        g = self.g
        if self.einsum or self.early:
            k = self.scaled(k, "keys")
        if self.einsum:
            return g.node("Einsum", q, k, equation="bhsd,bhtd->bhst")
        if self.r.random() < 0.5:
            turned = g.node("Transpose", k, perm=[0, 1, 3, 2])
        else:
            flat = g.node("Reshape", k, g.ints(_BATCHES * _HEADS, _KEYS, _SIZE))
            flat = g.node("Transpose", flat, perm=[0, 2, 1])
            turned = g.node("Reshape", flat, g.ints(_BATCHES, _HEADS, _SIZE, _KEYS))
        if not self.early:
            turned = self.scaled(turned, "keys")
        return g.node("MatMul", q, turned)

    def masked(self, s: str) -> str:
        g, kind = self.g, self.r.choice(_MASKS)
        if kind == "scaled":
            s = g.added(s, g.mask())
        s = self.scaled(s, "scores", root=False)
        low = g.constant(self.r.choice((-np.inf, _LOWEST)))
        if kind in ("add", "add2"):
            s = g.added(s, g.mask())
        if kind == "add2":
            s = g.added(s, g.input("m2", _BATCHES, 1, 1, _KEYS))
        if kind == "bool":
            s = g.node("Where", g.mask(TensorProto.BOOL), s, low)
        if kind == "not_bool":
            hidden = g.mask(TensorProto.BOOL)
            if self.r.random() < 0.5:
                hidden = g.node("Not", hidden)
            s = g.node("Where", hidden, low, s)
        if kind in ("one_minus", "sub"):
            m = g.input("m", _BATCHES, 1, 1, _KEYS)
            if kind == "one_minus":
                hidden = g.node("Sub", g.constant(1.0), m)
                s = g.added(s, g.node("Mul", hidden, g.constant(-10000.0)))
            else:
                s = g.node("Sub", s, g.node("Mul", m, g.constant(10000.0)))
        if kind == "causal":
            above = np.triu(np.full((1, 1, _QUERIES, _KEYS), -np.inf), 1)
            s = g.added(s, g.constant(above))
        return s

    def softmax(self, s: str) -> str:
        g = self.g
        kind = self.r.choice("op op op exp shifted guarded log".split())
        if kind in ("op", "guarded"):
            p = g.node("Softmax", s, axis=self.r.choice((-1, 3)))
            if kind == "op":
                return p
            return g.node("Where", g.node("IsNaN", p), g.constant(0.0), p)
        if kind == "log":
            return g.node("Exp", g.node("LogSoftmax", s, axis=-1))
        if kind == "shifted":
            s = g.node("Sub", s, g.node("ReduceMax", s, g.ints(-1)))
        e = g.node("Exp", s)
        total = g.node("ReduceSum", e, g.ints(-1))
        if self.r.random() < 0.7:
            return g.node("Div", e, total)
        return g.node("Mul", e, g.node("Reciprocal", total))


def attention(r: Random) -> onnx.ModelProto:
    """A spelling of attention; a head of keys may serve several heads of queries."""
    return _Attention(r).model()


def operands(model: onnx.ModelProto, seed: Sequence[int] | int) -> dict[str, Any]:
    """Elements for its inputs; masks are 0 and 1, each at least once in every row."""
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for value in model.graph.input:
        of = value.type.tensor_type
        shape = [d.dim_value for d in of.shape.dim]
        if value.name[0] == "m":
            mask = random.random(shape) < 0.5
            mask[..., :2] = [False, True]
            of_bool = of.elem_type == TensorProto.BOOL
            found[value.name] = mask if of_bool else mask.astype(np.float32)
        else:
            found[value.name] = random.normal(size=shape).astype(np.float32)
    return found
