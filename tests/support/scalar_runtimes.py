"""Scalar terms of the prover computed by NumPy, ONNX Runtime and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper

from fairhand.rewrites.proof.kernel.scalars import (
    Const,
    Element,
    NegInf,
    NegZero,
    Op,
    Scalar,
    Symbol,
)

Array = np.ndarray[Any, Any]
Apply = Callable[[str, Sequence[Array]], Array]

DTYPES: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
    "int8": np.int8,
    "int32": np.int32,
    "bool": np.bool_,
}

# A stand-in for any function: the same everywhere, and it tells the two zeros apart.
SIGMA = "recip"


def evaluate(
    term: Scalar, values: Mapping[str, Array], dtype: Any, apply: Apply
) -> Array:
    """The term at every point; constants of open type get this element type."""
    length = len(next(iter(values.values())))
    if isinstance(term, Element):
        return values[term.tensor]
    if isinstance(term, Symbol):
        return values[term.name]
    if isinstance(term, Const):
        return np.full(length, float(term.value), dtype)
    if isinstance(term, NegZero | NegInf):
        number = -0.0 if isinstance(term, NegZero) else -np.inf
        return np.full(length, number, dtype)
    assert isinstance(term, Op), term
    inside = dtype
    name = term.name
    if name.startswith("cast:"):
        inside = DTYPES[name.split(":")[1]]
    args = [evaluate(a, values, inside, apply) for a in term.args]
    if name == "square":
        return apply("mul", [*args, *args])
    return apply(SIGMA if name.startswith("sigma") else name, args)


def _numpy_clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


_NUMPY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "max": np.maximum,
    "min": np.minimum,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "clip": _numpy_clip,
    "where": np.where,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "sqrt": np.sqrt,
    "recip": lambda x: x.dtype.type(1) / x,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
}


def with_numpy(name: str, args: Sequence[Array]) -> Array:
    with np.errstate(all="ignore"):
        if name.startswith("cast:"):
            return args[0].astype(DTYPES[name.split(":")[2]])
        return _NUMPY[name](*args)


_ONNX = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "abs": "Abs",
    "max": "Max",
    "min": "Min",
    "relu": "Relu",
    "clip": "Clip",
    "where": "Where",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "equal": "Equal",
    "not": "Not",
    "and": "And",
    "or": "Or",
    "xor": "Xor",
    "sqrt": "Sqrt",
    "recip": "Reciprocal",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "shl": "BitShift",
    "shr": "BitShift",
}


@cache
def session(name: str, dtypes: tuple[Any, ...]) -> onnxruntime.InferenceSession:
    """One operator as a model, so that no operator is fused with its neighbour."""
    attributes: dict[str, Any] = {}
    if name in ("shl", "shr"):
        attributes["direction"] = "LEFT" if name == "shl" else "RIGHT"
    if name.startswith("cast:"):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[name.split(":")[2]]))
        attributes["to"] = to
    kind = "Cast" if name.startswith("cast:") else _ONNX[name]
    names = [f"x{k}" for k in range(len(dtypes))]
    node = helper.make_node(kind, names, ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(
            x,
            helper.np_dtype_to_tensor_dtype(dtype),
            [] if kind == "Clip" and k else ["n"],
        )
        for k, (x, dtype) in enumerate(zip(names, dtypes, strict=True))
    ]
    output = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph([node], "operator", inputs, [output])
    opset = helper.make_opsetid("", 18)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def with_onnx_runtime(name: str, args: Sequence[Array]) -> Array:
    found = session(name, tuple(x.dtype for x in args))
    if name != "clip":
        return found.run(None, {f"x{k}": x for k, x in enumerate(args)})[0]
    # The bounds of Clip are scalars: a run for each pair of them.
    result = np.empty_like(args[0])
    bounds = np.stack([bits(x) for x in args[1:]], 1)
    for pair in np.unique(bounds, axis=0):
        at = (bounds == pair).all(1)
        low, high = pair.view(args[0].dtype)
        feed = {"x0": args[0][at], "x1": np.array(low), "x2": np.array(high)}
        result[at] = found.run(None, feed)[0]
    return result


_TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "abs": torch.abs,
    "max": torch.maximum,
    "min": torch.minimum,
    "relu": torch.relu,
    "clip": torch.clamp,
    "where": torch.where,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "equal": torch.eq,
    "not": torch.logical_not,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "xor": torch.logical_xor,
    "sqrt": torch.sqrt,
    "recip": torch.reciprocal,
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
}


def with_torch(name: str, args: Sequence[Array]) -> Array:
    tensors = [_tensor(x) for x in args]
    if name.startswith("cast:"):
        return _array(tensors[0].to(getattr(torch, name.split(":")[2])))
    return _array(_TORCH[name](*tensors))


def _tensor(x: Array) -> torch.Tensor:
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x))


def _array(x: torch.Tensor) -> Array:
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def bits(x: Array) -> Array:
    """The bits of each element, as a whole number."""
    return x.view(f"u{x.dtype.itemsize}")
