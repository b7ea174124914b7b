"""Calls of PyTorch by what they mean, so that other texts of one call get one name.

Rules are PyTorch's own: options that have their default are left out, dimensions count
from the front, what reduces says which elements it puts together and not whether it
keeps their dimensions, and one operator that ATen computes by another is that other
one. They are true to the bit, but for the scale of attention, which is the default if
it differs in the last place of a float32 alone: rounding made it, in the file or here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

_AT = torch.ops.aten
# Options of calls that make tensors which say nothing of their numbers.
_IDLE = frozenset({"device", "layout", "pin_memory", "non_blocking"})
# By other names: of all dimensions where none is said, or of numbers alone.
_WHOLE = {
    _AT.max.default: _AT.amax.default,
    _AT.mean.default: _AT.mean.dim,
    _AT.min.default: _AT.amin.default,
    _AT.sum.default: _AT.sum.dim_IntList,
} | {
    getattr(_AT, name).Scalar: getattr(_AT, name).Tensor
    for name in ("add", "div", "mul", "sub")
}
# Each number is made of some of the elements: of them all, or of the first that is so.
_REDUCE = frozenset(
    {
        _AT.amax.default,
        _AT.amin.default,
        _AT.argmax.default,
        _AT.argmin.default,
        _AT.linalg_vector_norm.default,
        _AT.logsumexp.default,
        _AT.mean.dim,
        _AT.prod.dim_int,
        _AT.sum.dim_IntList,
    }
)
# Each number is made of those along one dimension.
_ROWS = frozenset({_AT._log_softmax.default, _AT._softmax.default})
# What each result of a call of several is.
PARTS = {
    _AT.max.dim: (_AT.amax.default, _AT.argmax.default),
    _AT.min.dim: (_AT.amin.default, _AT.argmin.default),
}
# Calls that give one number everywhere, which is this operand or this number.
_FILLS: dict[Any, str | int] = {
    getattr(_AT, name).default: number
    for number, names in (
        (0, "new_zeros zero zeros zeros_like"),
        (1, "new_ones ones ones_like"),
        ("fill_value", "full full_like new_full"),
        ("s", "scalar_tensor"),
    )
    for name in names.split()
} | {_AT.fill.Scalar: "value"}
# Of truths alone these are the same.
_OF_TRUTHS = {
    getattr(_AT, f"logical_{name}").default: getattr(_AT, f"bitwise_{name}").Tensor
    for name in ("and", "or", "xor")
} | {_AT.logical_not.default: _AT.bitwise_not.default}
# What compares -> what that is of the operands turned round, or denied.
_COMPARE = {
    getattr(getattr(_AT, name), kind): (getattr(_AT, other).Tensor, turned, denied)
    for name, other, turned, denied in (
        ("eq", "eq", False, False),
        ("ge", "le", True, False),
        ("gt", "lt", True, False),
        ("le", "le", False, False),
        ("lt", "lt", False, False),
        ("ne", "eq", False, True),
    )
    for kind in ("Scalar", "Tensor")
}
_MIXED = frozenset(
    getattr(_AT, name).Tensor for name in "add div eq le lt mul sub".split()
) | {_AT.maximum.default, _AT.minimum.default}
Options = dict[str, Any]


class Opposite(NamedTuple):
    """What a tensor is with its numbers negated, or its truths denied."""

    of: torch.Tensor


def _pool(given: Options) -> tuple[Any, Options]:
    same = list(given.get("stride", ())) == list(given["kernel_size"])
    return None, {k: v for k, v in given.items() if k != "stride" or not same}


def _clamp(given: Options) -> tuple[Any, Options]:
    low = given.get("min", None)
    if "max" in given or isinstance(low, torch.Tensor) or low is None or low != 0:
        return _AT.clamp.default, given
    return _AT.relu.default, {"self": given["self"]}


def _hardtanh(given: Options) -> tuple[Any, Options]:
    low, high = given.get("min_val", -1.0), given.get("max_val", 1.0)
    return _AT.clamp.default, {"self": given["self"], "min": low, "max": high}


def _attention(given: Options) -> tuple[Any, Options]:
    size, scale = given["query"].shape[-1], given.get("scale")
    if scale is None or not isinstance(size, int):
        return None, given
    usual = abs(scale * math.sqrt(size) - 1) <= 2**-23
    return None, {k: v for k, v in given.items() if k != "scale" or not usual}


def _square(given: Options) -> tuple[Any, Options]:
    x = given["self"]
    if x is not given["other"] or not x.is_floating_point():
        return None, given
    return _AT.pow.Tensor_Scalar, {"self": x, "exponent": 2.0}


# An operator, or None for the same one, and its options.
_MEANINGS: Mapping[Any, Callable[[Options], tuple[Any, Options]]] = {
    _AT._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _AT.avg_pool2d.default: _pool,
    _AT.avg_pool3d.default: _pool,
    _AT.clamp.default: _clamp,
    _AT.clamp_min.default: _clamp,
    _AT.hardtanh.default: _hardtanh,
    _AT.max_pool2d_with_indices.default: _pool,
    _AT.max_pool3d_with_indices.default: _pool,
    _AT.mul.Tensor: _square,
    _AT.square.default: lambda given: (
        _AT.pow.Tensor_Scalar,
        {**given, "exponent": 2.0},
    ),
}


def meaning(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, Options]:
    """The operator that a call comes to, and by name what it is given but defaults."""
    declared = func._schema.arguments
    given = dict(zip((each.name for each in declared), args, strict=False)) | {**kwargs}
    first = next(iter(given.values()), None)
    floats = isinstance(first, torch.Tensor) and first.is_floating_point()
    named: Options = {}
    for each in declared:
        if each.name not in given or each.name in _IDLE:
            continue
        value, kind = given[each.name], str(each.type)
        usual = each.default_value if each.has_default_value() else ...
        if floats and ("number" in kind or kind == "Tensor"):
            value, usual = _float(value), _float(usual)  # nn.ReLU6 has 6.0, F.relu6 6
        if type(value) is not type(usual) or value != usual:
            named[each.name] = value
    func = _WHOLE.get(func, func)
    if func in _REDUCE and isinstance(first, torch.Tensor):
        every = range(first.dim())
        dims = every if named.get("dim") in (None, []) else named["dim"]
        dims = [dims] if isinstance(dims, int) else dims
        named["dim"] = sorted(_forward(dim, first.dim()) for dim in dims)
        named.pop("keepdim", None)
    elif isinstance(first, torch.Tensor) and type(named.get("dim")) is int:
        named["dim"] = _forward(named["dim"], first.dim())
    other, named = _MEANINGS.get(func, lambda given: (None, given))(named)
    return other or func, named


def plain(func: Any, given: Options) -> tuple[Any, Options, bool]:
    """The call of fewer operators that computes the same to the bit, and whether its
    result is the opposite of what this one says."""
    tensors = [x for x in given.values() if isinstance(x, torch.Tensor)]
    kinds = {x.dtype for x in tensors}
    if kinds == {torch.bool}:
        func = _OF_TRUTHS.get(func, func)
    x: Any = given.get("self")
    other: Any = given.get("other")
    if func is _AT._to_copy.default and given.get("dtype") is torch.bool:
        return (
            _AT.eq.Tensor,
            {"self": x, "other": 0.0 if x.is_floating_point() else 0},
            True,
        )
    if func in _COMPARE:
        func, turned, denied = _COMPARE[func]
        both = {"self": other, "other": x} if turned else {"self": x, "other": other}
        return func, both, denied
    if func is _AT.isnan.default:
        return _AT.eq.Tensor, {"self": x, "other": x}, True
    if func is _AT.masked_fill.Scalar or func is _AT.masked_fill.Tensor:
        if len(kinds - {torch.bool}) > 1:
            return func, given, False
        return _AT.where.self, _where(given["mask"], given["value"], x), False
    if func is _AT.index_put.default:
        return *_put(func, given), False
    if func is _AT.copy.default and x is not None and len(kinds) == 1:
        return _AT.clone.default, {"self": given["src"].expand(x.shape)}, False
    if isinstance(x, torch.Tensor) and len(kinds) == 1 and kinds != {torch.bool}:
        return *_sum(*_product(func, given)), False
    return func, given, False


def cast(func: Any, given: Options) -> Options:
    """The operands of a call of the type in which it computes, where that is another:
    PyTorch takes numbers of two types as those of one, and adds truths as numbers."""
    x: Any = given.get("self")
    other: Any = given.get("other")
    if func is _AT.sum.dim_IntList and "dtype" not in given:
        real = x.is_floating_point() or x.is_complex()
        return given if real else {**given, "self": _as(x, torch.int64)}
    pair = isinstance(x, torch.Tensor) and isinstance(other, torch.Tensor)
    if func not in _MIXED or not pair:
        return given
    kind = torch.result_type(x, other)
    return {**given, "self": _as(x, kind), "other": _as(other, kind)}


def _as(x: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    return x if x.dtype is kind else _AT._to_copy.default(x, dtype=kind)


def _where(mask: torch.Tensor, value: Any, x: Any) -> Options:
    return {"condition": mask, "self": value, "other": x}


def _put(func: Any, given: Options) -> tuple[Any, Options]:
    """One number in the places of truths, as a choice."""
    x, indices, values = given["self"], given["indices"], given["values"]
    if len(indices) != 1 or indices[0].dtype != torch.bool or values.dim():
        return func, given
    mask = indices[0]
    if "accumulate" in given or mask.shape != x.shape[: mask.dim()]:
        return func, given
    index = (..., *[None] * (x.dim() - mask.dim()))
    return _AT.where.self, _where(mask[index], values, x)


def _product(func: Any, given: Options) -> tuple[Any, Options]:
    """A product or a quotient by a number that changes the sign at most, or by a power
    of two, whose quotients are products to the bit."""
    x, by = given["self"], given.get("other")
    if func not in (_AT.mul.Tensor, _AT.div.Tensor) or len(given) != 2:
        return func, given
    if not x.is_floating_point() or type(by) is not float:
        return func, given
    if by in (1.0, -1.0):
        return (_AT.clone if by == 1 else _AT.neg).default, {"self": x}
    is_power = 2**-14 <= abs(by) <= 2**14 and abs(math.frexp(by)[0]) == 0.5
    if func is _AT.div.Tensor and is_power:
        return _AT.mul.Tensor, {"self": x, "other": 1 / by}
    return func, given


def _sum(func: Any, given: Options) -> tuple[Any, Options]:
    """A difference as a sum with what is negated; other calls as they are."""
    one, other = given["self"], given.get("other")
    sign = given.get("alpha", 1)
    if func is _AT.rsub.Scalar or func is _AT.rsub.Tensor:
        one, other, func = other, one, _AT.sub.Tensor
    if func not in (_AT.add.Tensor, _AT.sub.Tensor) or sign not in (1, -1):
        return func, given
    whole = not given["self"].is_floating_point()
    if whole and (type(one) is float or type(other) is float):
        return func, given  # of which some are negated as others than as floats
    if (func is _AT.sub.Tensor) == (sign == 1):
        if isinstance(other, torch.Tensor):
            other = Opposite(other)
        elif isinstance(other, int | float):
            other = -other
        else:
            return func, given
    return _AT.add.Tensor, {"self": one, "other": other}


def filled(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The number that a call gives everywhere; None if that can't be told."""
    found = _FILLS.get(func)
    if isinstance(found, str):
        names = (each.name for each in func._schema.arguments)
        found = {**dict(zip(names, args, strict=False)), **kwargs}[found]
    return found if isinstance(found, int | float) else None


def functional(func: Any) -> Any:
    """The operator that gives what this one writes into its first operand; or None."""
    name, tags = func._schema.name, func.tags
    if not name.endswith("_") or not func._schema.is_mutable:
        return None
    if torch.Tag.inplace_view in tags or torch.Tag.nondeterministic_seeded in tags:
        return None
    found = getattr(getattr(_AT, name[6:-1], None), func._overloadname, None)
    same = [[each.name for each in f._schema.arguments] for f in (func, found) if f]
    return found if len(same) == 2 and same[0] == same[1] else None


def reduced(
    func: Any, given: Options
) -> tuple[torch.Tensor, Sequence[int], Options] | None:
    """What a call of these options reduces, or takes row by row, the dimensions that
    it puts together, and its other options; None of one that does neither."""
    if func not in _REDUCE and func not in _ROWS:
        return None
    others = dict(given)
    tensor, dims = others.pop("self"), others.pop("dim")
    dims = [dims] if isinstance(dims, int) else dims
    return tensor, dims if tensor.dim() else [], others


def _forward(dim: int, rank: int) -> int:
    return dim % rank if rank else dim


def _float(number: Any) -> Any:
    return float(number) if type(number) is int and abs(number) < 2**53 else number
