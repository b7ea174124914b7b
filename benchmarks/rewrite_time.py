"""How long the rewriting of a graph takes, and whether that is linear in its nodes.

    python benchmarks/rewrite_time.py 1000 10000 100000 --profile

Graphs are made of blocks as exporters spell them. "dense" ones have much to rewrite:
decomposed LayerNorm, GELU and attention, Conv and BatchNormalization, transposes that
cancel, reshapes of reshapes, steps that do nothing. "sparse" ones hold the layers that
those become, with nothing left to do for most rules. "pairs" are scales and shifts by
constant vectors, "chain" sums of constants, "diamonds" sums of two products of one
value, "grid" operators of two neighbours each, "wide" a Split into a Concat. A run is
`simplify`, whole: it normalises, folds, and applies the catalogue until nothing
changes.

    nodes           of the graph before
    after           nodes that are left
    applications    rules that were applied
    engine          CPU seconds of the engine: sharing equal nodes, matching, applying,
                    searching; the median with --repeat; the machine may be shared
    cpu             the same of `simplify`, whole
    us/node         the latter in microseconds, per node before
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from fairhand.rewrites import simplify as simplifying
from fairhand.rewrites.simplify import simplify

WIDTH, HEADS, TOKENS, SIDE = 8, 2, 4, 6
COLUMNS = ("graph", "nodes", "after", "applications", "engine", "cpu", "us/node")


class Builder:
    """A graph that grows by one node at a time."""

    def __init__(self, batch: int | str) -> None:
        self.batch = batch
        self.random = np.random.default_rng(0)
        self.graph = ir.Graph([], [], nodes=[], opset_imports={"": 20}, name="blocks")
        self.count = 0

    def input(self, name: str, *dims: int) -> ir.Value:
        float32 = ir.TensorType(ir.DataType.FLOAT)
        value = ir.Value(name=name, type=float32, shape=ir.Shape([self.batch, *dims]))
        self.graph.inputs.append(value)
        return value

    def node(self, op: str, *inputs: ir.Value, **attributes: object) -> ir.Value:
        made = ir.node(op, inputs, attributes=attributes, name=f"{op}_{self.count}")
        made.outputs[0].name = f"v{self.count}"
        self.count += 1
        self.graph.append(made)
        return made.outputs[0]

    def constant(self, array: np.ndarray) -> ir.Value:
        name = f"c{len(self.graph.initializers)}"
        tensor = ir.tensor(array, name=name)
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape)
        )
        value.const_value = tensor
        self.graph.register_initializer(value)
        return value

    def number(self, x: float) -> ir.Value:
        return self.constant(np.array(x, np.float32))

    def numbers(self, *x: int) -> ir.Value:
        return self.constant(np.array(x, np.int64))

    def weight(self, *shape: int) -> ir.Value:
        return self.constant(self.random.uniform(0.1, 1, shape).astype(np.float32))

    def output(self, value: ir.Value) -> None:
        value.type = ir.TensorType(ir.DataType.FLOAT)
        self.graph.outputs.append(value)


def linear(b: Builder, x: ir.Value) -> ir.Value:
    return b.node("Add", b.node("MatMul", x, b.weight(WIDTH, WIDTH)), b.weight(WIDTH))


def layer_norm(b: Builder, x: ir.Value) -> ir.Value:
    axis = b.numbers(-1)
    centred = b.node("Sub", x, b.node("ReduceMean", x, axis))
    square = b.node("Pow", centred, b.number(2))
    variance = b.node("Add", b.node("ReduceMean", square, axis), b.number(1e-5))
    normal = b.node("Div", centred, b.node("Sqrt", variance))
    return b.node("Add", b.node("Mul", normal, b.weight(WIDTH)), b.weight(WIDTH))


def gelu(b: Builder, x: ir.Value) -> ir.Value:
    erf = b.node("Erf", b.node("Div", x, b.number(2**0.5)))
    product = b.node("Mul", x, b.node("Add", erf, b.number(1)))
    return b.node("Mul", product, b.number(0.5))


def attention(b: Builder, x: ir.Value) -> ir.Value:
    split = b.numbers(0, TOKENS, HEADS, WIDTH // HEADS)
    q, k, v = (
        b.node("Transpose", b.node("Reshape", linear(b, x), split), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = b.node("Div", b.node("MatMul", q, k), b.number((WIDTH // HEADS) ** 0.5))
    mixed = b.node("MatMul", b.node("Softmax", scores, axis=-1), v)
    mixed = b.node("Transpose", mixed, perm=[0, 2, 1, 3])
    return linear(b, b.node("Reshape", mixed, b.numbers(0, TOKENS, WIDTH)))


def idle(b: Builder, x: ir.Value) -> ir.Value:
    """Steps that do nothing, as careless exporters write them."""
    x = b.node("Transpose", b.node("Transpose", x, perm=[0, 2, 1]), perm=[0, 2, 1])
    x = b.node("Reshape", x, b.numbers(0, TOKENS, HEADS, WIDTH // HEADS))
    x = b.node("Reshape", x, b.numbers(0, TOKENS * WIDTH))
    x = b.node("Reshape", x, b.numbers(0, TOKENS, WIDTH))
    x = b.node("Add", b.node("Mul", x, b.number(1)), b.number(0))
    return b.node(
        "Unsqueeze",
        b.node("Squeeze", b.node("Unsqueeze", x, b.numbers(1)), b.numbers(1)),
        b.numbers(1),
    )


def transformer(b: Builder, x: ir.Value) -> ir.Value:
    x = b.node("Add", x, attention(b, layer_norm(b, x)))
    y = linear(b, gelu(b, linear(b, layer_norm(b, x))))
    y = b.node("Squeeze", idle(b, y), b.numbers(1))
    return b.node("Add", x, y)


def norm_of(b: Builder, x: ir.Value) -> ir.Value:
    return b.node("BatchNormalization", x, *(b.weight(WIDTH) for _ in range(4)))


def conv(b: Builder, x: ir.Value) -> ir.Value:
    weight = b.weight(WIDTH, WIDTH, 3, 3)
    return b.node("Conv", x, weight, pads=[1, 1, 1, 1])


def residual(b: Builder, x: ir.Value) -> ir.Value:
    y = b.node("Relu", norm_of(b, conv(b, x)))
    y = norm_of(b, conv(b, b.node("Relu", y)))
    y = b.node("Transpose", y, perm=[0, 2, 3, 1])
    y = b.node("Transpose", b.node("Relu", y), perm=[0, 3, 1, 2])
    return b.node("Relu", b.node("Add", y, x))


def plain_transformer(b: Builder, x: ir.Value) -> ir.Value:
    def norm(x: ir.Value) -> ir.Value:
        weights = b.weight(WIDTH), b.weight(WIDTH)
        return b.node("LayerNormalization", x, *weights, axis=-1)

    x = b.node("Add", x, attention(b, norm(x)))
    return b.node("Add", x, linear(b, b.node("Gelu", linear(b, norm(x)))))


def plain_residual(b: Builder, x: ir.Value) -> ir.Value:
    weight, bias = b.weight(WIDTH, WIDTH, 3, 3), b.weight(WIDTH)
    y = b.node("Relu", b.node("Conv", x, weight, bias, pads=[1, 1, 1, 1]))
    return b.node("Relu", b.node("Add", conv(b, y), x))


Block = Callable[[Builder, ir.Value], ir.Value]


def blocks(b: Builder, nodes: int, on_tokens: Block, on_image: Block) -> None:
    """Blocks one below the other, a kind on tokens and one on an image."""
    tokens = b.input("tokens", TOKENS, WIDTH)
    image = b.input("image", WIDTH, SIDE, SIDE)
    while b.count < nodes:
        tokens = on_tokens(b, tokens)
        for _ in range(3):
            image = on_image(b, image)
    b.output(tokens)
    b.output(image)


def steps(b: Builder, nodes: int, step: Block) -> None:
    """The same step, one below the other."""
    x = b.input("x", WIDTH)
    while b.count < nodes:
        x = step(b, x)
    b.output(x)


def pair(b: Builder, x: ir.Value) -> ir.Value:
    return b.node("Add", b.node("Mul", x, b.weight(WIDTH)), b.weight(WIDTH))


def diamond(b: Builder, x: ir.Value) -> ir.Value:
    return b.node("Add", *(b.node("Mul", x, b.weight(WIDTH)) for _ in range(2)))


def grid(b: Builder, nodes: int) -> None:
    """Rows of operators that each read the one above and the one to the left."""
    side = math.isqrt(nodes)
    row = [b.input(f"x{i}", WIDTH) for i in range(side)]
    for i in range(side):
        left = b.weight(WIDTH)
        for j, above in enumerate(row):
            left = row[j] = b.node("Add" if (i + j) % 2 else "Mul", above, left)
    for value in row:
        b.output(value)


def wide(b: Builder, nodes: int) -> None:
    """A Split into as many parts as there are, a Concat of what they become."""
    operand, sizes = [b.input("x", nodes)], {"axis": -1, "num_outputs": nodes}
    node = ir.node("Split", operand, attributes=sizes, num_outputs=nodes, name="split")
    b.graph.append(node)
    for i, value in enumerate(node.outputs):
        value.name = f"part{i}"
    parts = [b.node("Mul", part, b.weight(1)) for part in node.outputs]
    b.output(b.node("Concat", *parts, axis=-1))


KINDS: dict[str, Callable[[Builder, int], None]] = {
    "dense": partial(blocks, on_tokens=transformer, on_image=residual),
    "sparse": partial(blocks, on_tokens=plain_transformer, on_image=plain_residual),
    "pairs": partial(steps, step=pair),
    "chain": partial(steps, step=lambda b, x: b.node("Add", x, b.weight(WIDTH))),
    "diamonds": partial(steps, step=diamond),
    "grid": grid,
    "wide": wide,
}


def graph_of(kind: str, nodes: int, batch: int | str) -> ir.Model:
    """A graph of about so many nodes."""
    b = Builder(batch)
    KINDS[kind](b, nodes)
    return ir.Model(b.graph, ir_version=10)


@contextmanager
def engine_seconds() -> Iterator[list[float]]:
    """The CPU seconds of each sweep in here."""
    spent: list[float] = []
    sweep = simplifying._sweep

    def timed(*arguments: Any) -> bool:
        start = time.process_time()
        try:
            return sweep(*arguments)
        finally:
            spent.append(time.process_time() - start)

    simplifying._sweep = timed
    try:
        yield spent
    finally:
        simplifying._sweep = sweep


def measure(
    kind: str, nodes: int, batch: int | str, repeat: int, profile: bool
) -> tuple[str, ...]:
    seconds, engine = [], []
    for _ in range(repeat):
        model = graph_of(kind, nodes, batch)
        before = len(model.graph)
        profiler = cProfile.Profile() if profile else None
        # As in `compile`, where rewriting isn't the last thing to be done.
        with engine_seconds() as spent, simplifying.no_garbage_collection():
            start = time.process_time()
            done = profiler.runcall(simplify, model) if profiler else simplify(model)
            seconds.append(time.process_time() - start)
        engine.append(sum(spent))
        if profiler:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    cpu = statistics.median(seconds)
    return (
        kind,
        str(before),
        str(len(model.graph)),
        str(len(done.history)),
        f"{statistics.median(engine):.2f}",
        f"{cpu:.2f}",
        f"{cpu / before * 1e6:.0f}",
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="+", type=int, metavar="nodes")
    parser.add_argument("--kind", choices=[*KINDS], action="append", help="all")
    parser.add_argument("--batch", default="1", help="a number, or a name")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs each")
    parser.add_argument("--profile", action="store_true", help="slows it down")
    options = parser.parse_args(arguments)
    batch = int(options.batch) if options.batch.isdigit() else options.batch
    simplify(graph_of("dense", 1, batch))  # reads the proofs, fills caches
    rule = tuple("---" if i == 0 else "---:" for i in range(len(COLUMNS)))
    for cells in (COLUMNS, rule):
        print(f"| {' | '.join(cells)} |")
    for kind in options.kind or KINDS:
        for size in options.sizes:
            cells = measure(kind, size, batch, options.repeat, options.profile)
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
