"""Models and files that are none, by what is wrong, with what is said of it."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper
from support.handmade import floats, node

Change = Callable[[onnx.ModelProto], object]


def dims(*sizes: int) -> Change:
    return lambda m: m.graph.initializer[0].dims.__setitem__(slice(None), sizes)


def loops(made: onnx.ModelProto) -> None:
    made.graph.node.append(node("Relu", "h", "i", name="first"))
    made.graph.node.append(node("Neg", "i", "h", name="second"))


def calls_itself(made: onnx.ModelProto) -> None:
    call = node("F", "a", "b")
    call.domain = "local"
    made.functions.append(
        helper.make_function("local", "F", ["a"], ["b"], [call], made.opset_import)
    )


def calls_twice(made: onnx.ModelProto) -> None:
    imports = [*made.opset_import, helper.make_opsetid("local", 1)]
    for i in range(40):
        body = [node(f"F{i + 1}", "a", "c"), node(f"F{i + 1}", "c", "b")]
        for call in body:
            call.domain = "local" if i < 39 else ""
            call.op_type = call.op_type if i < 39 else "Relu"
        made.functions.append(
            helper.make_function("local", f"F{i}", ["a"], ["b"], body, imports)
        )
    made.graph.node.append(node("F0", "x", "z"))
    made.graph.node[-1].domain = "local"
    made.opset_import.append(imports[-1])


def branches_on_an_input(made: onnx.ModelProto) -> None:
    body = helper.make_graph([node("Neg", "z", "b")], "t", [floats("z", 2)], [])
    body.output.append(helper.make_empty_tensor_value_info("b"))
    made.graph.node.append(node("If", "x", "i", then_branch=body, else_branch=body))


def loops_on_one_input(made: onnx.ModelProto) -> None:
    body = helper.make_graph([node("Neg", "i", "b")], "t", [floats("i")], [])
    body.output.append(helper.make_empty_tensor_value_info("b"))
    made.graph.node.append(node("Loop", "x x x", "i", body=body))


def untyped(made: onnx.ModelProto) -> None:
    """Of an operator that no schema of ONNX's own checks."""
    call = node("QuickGelu", "x", "q", alpha=0.5)
    call.domain = "com.microsoft"
    call.attribute[0].ClearField("type")
    made.graph.node.append(call)


def of_another_type(made: onnx.ModelProto) -> None:
    """Of such an operator, as ONNX Runtime has it."""
    call = node("QuickGelu", "x", "q", alpha=[1, 2])
    call.domain = "com.microsoft"
    made.graph.node.append(call)


BROKEN: dict[str, tuple[Change, list[str]]] = {
    "2**40 elements": (
        dims(2**40),
        ["initializer 'w' does not hold what it declares", "4,398,046,511,104 bytes"],
    ),
    "2**80 elements": (dims(2**40, 2**40), ["does not hold what it declares"]),
    "negative size": (dims(-1, 64), ["initializer 'w' has an impossible shape"]),
    "too many axes": (dims(*[1] * 70), ["impossible shape"]),
    "missing content": (
        lambda m: m.graph.initializer[0].ClearField("raw_data"),
        ["needs 4,096 entries, 0 are there"],
    ),
    "content twice": (
        lambda m: m.graph.initializer[0].float_data.append(1),
        ["keeps its content in the wrong field"],
    ),
    "no element type": (
        lambda m: setattr(m.graph.initializer[0], "data_type", 99),
        ["no usable element type", "data type 99"],
    ),
    "missing initializer": (
        lambda m: m.graph.ClearField("initializer"),
        ["value 'w' is used, but nothing defines it", "node 'the_MatMul' (MatMul)"],
    ),
    "undefined output": (
        lambda m: setattr(m.graph.output[0], "name", "z"),
        ["value 'z' is used, but nothing defines it", "the outputs of graph 'g'"],
    ),
    "no outputs": (
        lambda m: m.graph.ClearField("output"),
        ["the model has no outputs", "graph 'g'"],
    ),
    "value twice": (
        lambda m: m.graph.node.append(node("Relu", "x", "y")),
        ["value 'y' is defined twice", "an output of node 'the_Relu'"],
    ),
    "initializer twice": (
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        ["initializer 'w' is there twice"],
    ),
    "input twice": (
        lambda m: m.graph.input.append(m.graph.input[0]),
        ["value 'x' is defined twice", "an input of graph 'g'"],
    ),
    "cycle": (loops, ["the graph has a cycle", "node 'first' (Relu)"]),
    "input without type": (
        lambda m: m.graph.input[0].ClearField("type"),
        ["input 'x' has no type"],
    ),
    "negative dimension": (
        lambda m: m.graph.input[0].type.CopyFrom(floats("x", -7).type),
        ["value 'x' has a negative dimension", "-7"],
    ),
    "map": (
        lambda m: m.graph.input[0].type.map_type.SetInParent(),
        ["is a map with impossible keys"],
    ),
    "opset too new": (
        lambda m: setattr(m.opset_import[0], "version", 2**40),
        ["in an impossible version", "version 1099511627776"],
    ),
    "opset of tomorrow": (
        lambda m: setattr(m.opset_import[0], "version", 99),
        ["opset 99 is not known", f"opsets 1 to {onnx.defs.onnx_opset_version()}"],
    ),
    "opset too old": (
        lambda m: setattr(m.opset_import[0], "version", 0),
        ["in an impossible version", "version 0"],
    ),
    "opset of another domain": (
        lambda m: m.opset_import.append(helper.make_opsetid("com.x", 2**40)),
        ["imports 'com.x' in an impossible version", "version 1099511627776"],
    ),
    "IR version": (
        lambda m: setattr(m, "ir_version", 99),
        ["IR version 99 is not known", "IR versions 3 to"],
    ),
    "unknown operator": (
        lambda m: setattr(m.graph.node[0], "op_type", "MatNul"),
        ["No Op registered for MatNul", "node 'the_MatMul' (MatNul), opset 18"],
    ),
    "unknown domain": (
        lambda m: setattr(m.graph.node[0], "domain", "com.nobody"),
        ["No opset import for domain 'com.nobody'"],
    ),
    "unknown attribute": (
        lambda m: m.graph.node[0].attribute.append(helper.make_attribute("q", 1)),
        ["Unrecognized attribute: q", "the_MatMul"],
    ),
    "attribute without a type": (
        untyped,
        ["is required but missing", "QuickGelu"],
    ),
    "attribute of another type": (
        of_another_type,
        ["attribute 'alpha' has to be FLOAT, not INTS", "QuickGelu"],
    ),
    "a word that is no text": (
        lambda m: m.graph.node[0].attribute.append(
            helper.make_attribute("mode", b"\xff\xfe")
        ),
        ["attribute 'mode' of node 'the_MatMul' (MatMul) is not UTF-8"],
    ),
    "too few inputs": (
        lambda m: m.graph.node[0].input.pop(),
        ["has input size 1 not in range"],
    ),
    "recursive function": (calls_itself, ["function calls itself", "function 'F'"]),
    "exponential functions": (calls_twice, ["functions expand to 1,099,511,627,7"]),
    "branch of an input": (
        branches_on_an_input,
        ["graph 't' has 1 inputs, not 0", "node 'the_If' (If)", "a branch takes none"],
    ),
    "body of one input": (loops_on_one_input, ["graph 't' has 1 inputs, not 3"]),
    "no opset": (
        lambda m: m.ClearField("opset_import"),
        ["does not say which operators it means", "may be truncated"],
    ),
    "odd names": (
        lambda m: m.graph.node[0].input.__setitem__(1, "w\n\x1b[31m'" + "a" * 500),
        [r'value "w\n\x1b[31m' + "'aaa", 'aa..." is used, but nothing defines it'],
    ),
    "a name that is no text": (
        lambda m: m.MergeFromString(b"\x3a\x04\x12\x02\xff\xfe"),
        ["a name or text that is not UTF-8", "field graph.name"],
    ),
}


FILES: dict[str, tuple[bytes, list[str]]] = {
    "empty.onnx": (b"", ["the model file is empty"]),
    "text.onnx": (b"hello, world\n" * 9, ["is not an ONNX model", "another format"]),
    "zeros.onnx": (bytes(99), ["is not an ONNX model"]),
    "page.onnx": (b"<!DOCTYPE html><html></html>", ["not an ONNX model", "web page"]),
    "state.onnx": (b"PK\x03\x04" + bytes(99), ["not an ONNX model", "PyTorch"]),
    "own.ort": (b"\x18\0\0\0ORTM\0\0\0\0", ["ONNX Runtime's own format"]),
    "lfs.onnx": (b"version https://git-lfs.github.com/spec/v1\n", ["git lfs pull"]),
    "no_graph.onnx": (b"\x08\x09", ["is not an ONNX model", "it holds no graph"]),
    "endless_number.onnx": (b"\x08" + b"\xff" * 20, ["more than 64 bits"]),
    "group.onnx": (b"\x08\x09\x3b", ["no ONNX field begins with 0x3b"]),
    "bad.onnxtxt": (b"agraph (float[N] x) => {", ["not a model in ONNX's textual"]),
    "deep.onnxtxt": (b"({[<" * 99999, ["brackets more than 200 deep"]),
    "latin.onnxtxt": (b"\xff", ["can't be read", "utf-8"]),
}
