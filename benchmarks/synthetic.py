"""Decoders of any size, as exporters spell them, for what a whole zoo is too small for.

    python benchmarks/synthetic.py big.onnx --layers 5 --width 4096     # 4 GB
    python benchmarks/synthetic.py deep.onnx --nodes 10000              # small weights

Blocks are those of Llama: RMSNorm in six nodes, rotary embedding, attention with a
mask, and a gated MLP; 52 nodes a block. Weights lie in a file beside the model, in the
pieces in which they are made: no more than one of them is ever in memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS = 4
VOCABULARY = 64


class Decoder:
    """A graph that grows by one node at a time, and its file of weights."""

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width, self.size = path, width, width // HEADS
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.data = path.with_name(f"{path.name}.data").open("wb")

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        made = helper.make_node(op, inputs, [name], name=f"{op}_{name}", **attributes)
        self.nodes.append(made)
        return name

    def weight(self, name: str, *shape: int) -> str:
        array = self.random.standard_normal(shape, np.float32)
        array *= shape[0] ** -0.5
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        place = {
            "location": Path(self.data.name).name,
            "offset": str(self.data.tell()),
            "length": str(array.nbytes),
        }
        for key, value in place.items():
            tensor.external_data.add(key=key, value=value)
        self.initializers.append(tensor)
        self.data.write(array.data)
        return name

    def constant(self, value: object, dtype: type) -> str:
        name = f"c{len(self.initializers)}"
        array = np.array(value, dtype)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def number(self, value: float) -> str:
        return self.constant(value, np.float32)

    def norm(self, x: str, name: str) -> str:
        square = self.node("Pow", x, self.number(2))
        mean = self.node("ReduceMean", square, self.numbers(-1), keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.number(1e-5)))
        normal = self.node("Div", x, root)
        return self.node("Mul", self.weight(f"{name}.weight", self.width), normal)

    def linear(self, x: str, name: str, out: int, to: int) -> str:
        return self.node("MatMul", x, self.weight(f"{name}.weight", out, to))

    def heads(self, x: str) -> str:
        split = self.numbers(1, -1, HEADS, self.size)
        return self.node("Transpose", self.node("Reshape", x, split), perm=[0, 2, 1, 3])

    def rotated(self, x: str) -> str:
        """x * cos + rotate_half(x) * sin, with the halves cut by Slice."""
        half, axis, step = self.size // 2, self.numbers(-1), self.numbers(1)
        begin, middle, end = (self.numbers(n) for n in (0, half, self.size))
        low = self.node("Slice", x, begin, middle, axis, step)
        high = self.node("Slice", x, middle, end, axis, step)
        turned = self.node("Concat", self.node("Neg", high), low, axis=-1)
        return self.node(
            "Add", self.node("Mul", x, "cos"), self.node("Mul", turned, "sin")
        )

    def attention(self, x: str, name: str) -> str:
        q, k, v = (
            self.heads(self.linear(x, f"{name}.{part}_proj", self.width, self.width))
            for part in "qkv"
        )
        k = self.node("Transpose", self.rotated(k), perm=[0, 1, 3, 2])
        scores = self.node("MatMul", self.rotated(q), k)
        scores = self.node("Div", scores, self.number(self.size**0.5))
        scores = self.node("Add", scores, "mask")
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        mixed = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = self.node("Reshape", mixed, self.numbers(1, -1, self.width))
        return self.linear(mixed, f"{name}.o_proj", self.width, self.width)

    def mlp(self, x: str, name: str) -> str:
        inner = self.width * 8 // 3
        gate = self.linear(x, f"{name}.gate_proj", self.width, inner)
        up = self.linear(x, f"{name}.up_proj", self.width, inner)
        gated = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
        return self.linear(gated, f"{name}.down_proj", inner, self.width)

    def block(self, x: str, name: str) -> str:
        attended = self.attention(
            self.norm(x, f"{name}.input_layernorm"), f"{name}.self_attn"
        )
        x = self.node("Add", x, attended)
        after = self.norm(x, f"{name}.post_attention_layernorm")
        return self.node("Add", x, self.mlp(after, f"{name}.mlp"))

    def write(self, x: str) -> None:
        x = self.norm(x, "model.norm")
        logits = self.linear(x, "lm_head", self.width, VOCABULARY)
        self.nodes[-1].output[0] = logits = "logits"
        self.data.close()
        table = (1, 1, "tokens", self.size)
        mask = (1, 1, "tokens", "tokens")
        graph = helper.make_graph(
            self.nodes,
            "decoder",
            [
                helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"]),
                *(
                    helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                    for name, shape in (("cos", table), ("sin", table), ("mask", mask))
                ),
            ],
            [
                helper.make_tensor_value_info(
                    logits, TensorProto.FLOAT, [1, "tokens", VOCABULARY]
                )
            ],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", 20)]
        onnx.save(
            helper.make_model(graph, opset_imports=opsets, ir_version=10), self.path
        )


def write_decoder(
    path: Path, width: int = 16, layers: int | None = None, nodes: int = 0
) -> int:
    """Blocks as many as `layers`, or as `nodes` take; returns the nodes written."""
    made = Decoder(path, width)
    table = made.weight("model.embed_tokens.weight", VOCABULARY, width)
    x, i = made.node("Gather", table, "ids"), 0
    while len(made.nodes) < nodes if layers is None else i < layers:
        x = made.block(x, f"model.layers.{i}")
        i += 1
    made.write(x)
    return len(made.nodes)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="model.onnx")
    parser.add_argument("--width", type=int, default=16, help="a multiple of 8")
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--layers", type=int)
    either.add_argument("--nodes", type=int)
    options = parser.parse_args(arguments)
    if options.width % (2 * HEADS):
        parser.error(f"--width must be a multiple of {2 * HEADS}")
    count = write_decoder(
        options.model, options.width, options.layers, options.nodes or 0
    )
    print(f"{options.model}: {count} nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
