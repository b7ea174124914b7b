"""The left side of a rule as an ONNX model, from one of the rule's samples.

A sample gives a number, tuple, set or word for each symbol, and for each leaf a shape
as a list (random elements) or the elements themselves, as a tuple, an array or, with
no axes, a float. Tensors listed in "positive" get positive elements, leaves in
"unsigned" are unsigned integers, "types" names the ONNX types of others. Leaves that
the law fixes to a number take the shape () unless the sample says otherwise. A
`Pointwise` symbol is given as (operator, attributes); a `Many` as a list of shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

from fairhand.analysis.graph.shape_facts import ShapeFacts
from fairhand.rewrites.engine.bindings import Binding, evaluate
from fairhand.rewrites.engine.build import Builder
from fairhand.rewrites.engine.graph_editor import GraphEditor
from fairhand.rewrites.engine.match import Match
from fairhand.rewrites.language.facts import Facts
from fairhand.rewrites.language.pattern import Leaf, Many, Pointwise, Var, leaves
from fairhand.rewrites.language.rule import Law, Rule
from fairhand.rewrites.language.terms import Sizes

OPSET = 26
POSITIVE = "positive"  # the description of an input that takes positive numbers
Elements: TypeAlias = Callable[[tuple[int, ...], Any], np.ndarray]
KINDS = {"": np.float32, "float": np.float32, "int": np.int64, "bool": np.bool_}


def sample_model(
    rule: Rule,
    sample: dict[str, Any],
    dtypes: Mapping[str, Any] = KINDS,
    elements: Elements | None = None,
) -> onnx.ModelProto:
    """The left side of the law as a model.

    `dtypes` are the element types of leaves by their kind ("" where they name none),
    `elements` draws those of constants that the sample gives a shape for.
    """
    law = rule.law
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name=rule.name)
    model = ir.Model(graph, ir_version=12)
    facts = Facts(ShapeFacts())
    binding = Binding(facts)
    random = elements or partial(_random, np.random.default_rng(7))
    for name, symbol in law.symbols.items():
        given = sample.get(name)
        if isinstance(symbol, Pointwise):
            binding.symbols[name] = _function(given)
        elif not isinstance(symbol, Var) and given is not None:
            sizes = isinstance(symbol, Sizes) or isinstance(given, list)
            binding.symbols[name] = tuple(given) if sizes else given
    used = leaves(law.left)
    for leaf in used:
        given = sample.get(leaf.name)
        if isinstance(given, list) and given and isinstance(given[0], list):
            members = []
            for j, shape in enumerate(given):
                one = Binding(facts)
                name = f"{leaf.name}{j}"
                dtype = dtypes[leaf.kinds]
                value = _leaf(leaf, name, shape, random, graph, binding, dtype)
                one.values[leaf] = value
                members.append(one)
            binding.members[leaf.name] = members
        else:
            dtype = dtypes[leaf.kinds]
            dtype = np.uint64 if leaf.name in sample.get("unsigned", ()) else dtype
            if leaf.name in sample.get("types", {}):
                dtype = ir.DataType[sample["types"][leaf.name]].numpy().type
            value = _leaf(leaf, leaf.name, given, random, graph, binding, dtype)
            if leaf.name in sample.get("positive", ()):
                value.doc_string = POSITIVE
            binding.values[leaf] = value
    _build(model, facts, binding, rule)
    return ir.to_proto(model)


def _function(given: Any) -> ir.Node:
    op, attributes = given if isinstance(given, tuple) else (given, {})
    placeholder = ir.Value(name="placeholder")
    return ir.node(op, [placeholder], attributes=attributes)


def _leaf(
    leaf: Var,
    name: str,
    given: Any,
    elements: Elements,
    graph: ir.Graph,
    binding: Binding,
    dtype: Any,
) -> ir.Value:
    # A number for any tensor: a size that the model knows.
    constant = leaf.kind is not Leaf.TENSOR or isinstance(given, int)
    if isinstance(given, np.ndarray | tuple | float | int):
        array = np.array(given).astype(dtype)
    elif leaf.number is not None:
        number = float(evaluate(leaf.number, binding))
        array = np.full(given or (), number).astype(dtype)
    else:
        array = elements(tuple(given or ()), dtype)
    if constant:
        value = ir.Value(
            name=name,
            type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
            shape=ir.Shape(array.shape),
            const_value=ir.tensor(array, name=name),
        )
        graph.register_initializer(value)
        return value
    value = ir.Value(
        name=name,
        type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
        shape=ir.Shape(array.shape),
    )
    graph.inputs.append(value)
    binding.facts.shapes.learn_dims(value, array.shape)
    return value


def _random(
    random: np.random.Generator, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    if dtype is np.bool_:
        return random.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 5, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def _build(
    model: ir.Model,
    facts: Facts,
    binding: Binding,
    rule: Rule,
) -> None:
    law = rule.law
    side = Law(symbols=law.symbols, left=law.left, right=law.left)
    probe = Rule(rule.name, rule.family, rule.build, side, rule.statement)
    builder = Builder(Match(probe, (), binding))
    results = builder.results()
    graft = GraphEditor(model, facts)
    first = ir.node("Identity", [next(iter(_values(binding)))], name="first")
    model.graph.append(first)
    made = graft.add(builder.drafts, [first])
    for i, result in enumerate(results):
        value = graft.value(result, made)
        assert value is not None
        # A rule may not take away an output of the model, so none is one.
        node = ir.node("Identity", [value])
        model.graph.append(node)
        node.outputs[0].name = f"result{i}"
        node.outputs[0].type = value.type
        model.graph.outputs.append(node.outputs[0])
    model.graph.remove(first, safe=True)
    model.graph.sort()


def _values(binding: Binding) -> list[ir.Value]:
    found = list(binding.values.values())
    for members in binding.members.values():
        found += [v for member in members for v in member.values.values()]
    return found


def feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs, with the values where arithmetic is odd among them."""
    random = np.random.default_rng(seed)
    found = {}
    for info in model.graph.input:
        shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        drawn = _random(random, shape, dtype.type)
        found[info.name] = drawn
        if info.doc_string == POSITIVE:
            found[info.name] = np.abs(drawn) + np.asarray(0.1, drawn.dtype)
    return found


__all__ = ["Many", "feeds", "sample_model"]


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime, or else the reference, computes."""
    values = (*model.graph.input, *model.graph.output)
    if any(v.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for v in values):
        # ONNX Runtime's Python interface has no arrays of that type.
        return list(ReferenceEvaluator(model).run(None, feed))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except NotImplemented:  # Swish: ONNX Runtime has no kernel for it
        return list(ReferenceEvaluator(model).run(None, feed))
    return session.run(None, feed)
