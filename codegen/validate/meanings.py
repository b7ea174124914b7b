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
from typing import Any

import torch

_AT = torch.ops.aten
# Options of calls that make tensors which say nothing of their numbers.
_IDLE = frozenset({"device", "layout", "pin_memory", "non_blocking"})
# Which say nothing of the dimensions where all are meant.
_WHOLE = {
    _AT.mean.default: _AT.mean.dim,
    _AT.sum.default: _AT.sum.dim_IntList,
}
# Each number is made of some of the elements, and no indices come with it.
_REDUCE = frozenset(
    {
        _AT.amax.default,
        _AT.amin.default,
        _AT.linalg_vector_norm.default,
        _AT.logsumexp.default,
        _AT.mean.dim,
        _AT.prod.dim_int,
        _AT.sum.dim_IntList,
    }
)
Options = dict[str, Any]


def _pool(given: Options) -> tuple[Any, Options]:
    same = list(given.get("stride", ())) == list(given["kernel_size"])
    return None, {k: v for k, v in given.items() if k != "stride" or not same}


def _clamp(given: Options) -> tuple[Any, Options]:
    low = given.get("min", None)
    if "max" in given or isinstance(low, torch.Tensor) or low is None or low != 0:
        return None, given
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
}


def meaning(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, Options]:
    """The operator that a call comes to, and by name what it is given but defaults."""
    declared = func._schema.arguments
    given = dict(zip((each.name for each in declared), args, strict=False)) | {**kwargs}
    named = {
        each.name: given[each.name]
        for each in declared
        if each.name in given and each.name not in _IDLE
        if not (each.has_default_value() and _is(given[each.name], each.default_value))
    }
    func = _WHOLE.get(func, func)
    first = next(iter(named.values()), None)
    if isinstance(first, torch.Tensor) and first.is_floating_point():
        for each in declared:  # nn.ReLU6 has 6.0 where F.relu6 has 6
            number = named.get(each.name)
            if type(number) is int and "number" in str(each.type):
                named[each.name] = float(number) if abs(number) < 2**53 else number
    if func in _REDUCE and isinstance(first, torch.Tensor):
        every = range(first.dim())
        dims = named.get("dim") or every
        dims = [dims] if isinstance(dims, int) else dims
        named["dim"] = sorted(_forward(dim, first.dim()) for dim in dims)
        named.pop("keepdim", None)
    elif isinstance(first, torch.Tensor) and type(named.get("dim")) is int:
        named["dim"] = _forward(named["dim"], first.dim())
    other, named = _MEANINGS.get(func, lambda given: (None, given))(named)
    return other or func, named


def reduced(func: Any, given: Options) -> tuple[torch.Tensor, int, Options] | None:
    """What a call of these options reduces, the dimensions that it keeps first, and how
    many they are, and its other options; None of one that puts nothing together."""
    if func not in _REDUCE:
        return None
    others = dict(given)
    tensor, dims = others.pop("self"), others.pop("dim")
    kept = [at for at in range(tensor.dim()) if at not in dims]
    return tensor.permute([*kept, *dims]), len(kept), others


def _forward(dim: int, rank: int) -> int:
    return dim % rank if rank else dim


def _is(given: object, default: object) -> bool:
    return type(given) is type(default) and bool(given == default)
