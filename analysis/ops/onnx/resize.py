"""Resize: F.interpolate where that reads the same pixels, else an exact helper.

ONNX names six coordinate modes and four roundings; F.interpolate knows the few that
PyTorch models have. Where sizes or scales are known, the places that both read are
computed and compared; where they are not, only what is known to agree is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ...graph.dims import Dim, same, simplify
from ...literals import shortest
from ..facts import cuts, sizes_movement
from ..helpers import resize as helpers
from ..node_view import NodeView
from ..operands import equal, front, size
from ..registry import ONE_TO_MANY, operator

# ---- the places that are read

Places = npt.NDArray[np.float32]

COORDINATES = (
    *("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric"),
    *("align_corners", "tf_crop_and_resize"),
)
ROUND: dict[str, Callable[[Places], Places]] = {
    "round_prefer_floor": lambda at: np.ceil(at - np.float32(0.5)),
    "round_prefer_ceil": lambda at: np.floor(at + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}
_LONGEST = 1 << 22  # positions of an axis, which are gone through one by one


@dataclass(frozen=True)
class Target:
    """One axis that changes: its old and new size, and the scale if that is given."""

    axis: int
    old: Dim
    new: Dim
    scale: float | None

    @property
    def ratio(self) -> float | None:
        """The factor, if it is sure whatever the size turns out to be."""
        if self.scale is not None:
            return self.scale
        for factor in range(2, 17):
            if same(self.new, simplify(self.old * factor)):
                return factor
        return None

    def samples(self) -> list[tuple[int, int, float]]:
        """Old size, new size and scale, to compare on; none if nothing is known."""
        if isinstance(self.old, int) and isinstance(self.new, int):
            if not self.old or not self.new:
                return []
            scale = self.new / self.old if self.scale is None else self.scale
            return [(self.old, self.new, scale)]
        ratio = self.ratio
        if ratio is None:
            return []
        counts = [(n, int(np.float32(ratio) * np.float32(n))) for n in range(1, 65)]
        return [(n, count, ratio) for n, count in counts if count]


def onnx_places(mode: str, length: int, count: int, scale: float) -> Places:
    """As ONNX Runtime computes them, in float32."""
    at: Places = np.arange(count, dtype=np.float32)
    step, half = np.float32(scale), np.float32(0.5)
    if mode == "asymmetric":
        at = at / step
    elif mode == "align_corners":
        at = at * np.float32(length - 1) / np.float32(max(count - 1, 1))
    elif mode == "pytorch_half_pixel" and count == 1:
        at = np.zeros_like(at)
    else:
        at = (at + half) / step - half
    if mode == "half_pixel_symmetric":
        lost = np.float32(1) - np.float32(count) / (step * np.float32(length))
        at = at + np.float32(length) / 2 * lost
    return at


def torch_places(mode: str, length: int, count: int, scale: float | None) -> Places:
    """What F.interpolate reads, before its clamping to the edges."""
    at: Places = np.arange(count, dtype=np.float32)
    step = np.float32(length / count if scale is None else 1 / scale)
    half = np.float32(0.5)
    if mode == "align_corners":
        at = at * np.float32((length - 1) / max(count - 1, 1))
    elif mode == "nearest":
        at = np.floor(at * step)
    elif mode == "nearest-exact":
        at = np.floor((at + half) * step)
    else:
        at = (at + half) * step - half
    return at


def _same_pixels(
    torch_mode: str, coordinates: str, rounding: str, target: Target
) -> bool:
    samples = target.samples()
    if not samples:
        known = {
            "nearest": [("asymmetric", "floor")],
            "nearest-exact": [("half_pixel", "round_prefer_ceil")],
        }
        return (coordinates, rounding) in known[torch_mode]
    for length, count, scale in samples:
        ours = ROUND[rounding](onnx_places(coordinates, length, count, scale))
        theirs = torch_places(torch_mode, length, count, target.ratio)
        if (ours.clip(0, length - 1) != theirs.clip(0, length - 1)).any():
            return False
    return True


def _same_places(coordinates: str, mode: str, target: Target) -> bool:
    centred = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
    aligned = coordinates == "align_corners"
    samples = target.samples()
    if not samples:  # a single new pixel of pytorch_half_pixel is not thought of
        return aligned or coordinates in centred
    for length, count, scale in samples:
        ours = onnx_places(coordinates, length, count, scale)
        kind = "align_corners" if aligned else mode
        theirs = torch_places(kind, length, count, target.ratio)
        if mode == "linear":
            ours, theirs = ours.clip(0, length - 1), theirs.clip(0, length - 1)
        if not np.allclose(ours, theirs, rtol=1e-6, atol=1e-5):
            return False
    return True


# ---- what the node asks for


def targets_of(n: NodeView) -> list[Target] | None:
    """The axes that change; None where scales or sizes are known only at run time, or
    the sizes that those to fit into are compared with."""
    rank = n.rank(0)
    axes = [front(axis, rank) for axis in n.attr("axes", range(rank))]
    old, new = n.dims(0), n.out_dims()
    scales = _scales(n)
    if scales is None and n.ints(3 if _is_given(n, 3) else 2) is None:
        return None
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        known = all(isinstance(old[axis], int) for axis in axes)
        return _keep_aspect_ratio(n, axes, policy) if known else None
    factors = [None] * len(axes) if scales is None else scales
    targets = [
        Target(axis, old[axis], new[axis], factor)
        for axis, factor in zip(axes, factors, strict=True)
    ]
    if n.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return targets
    return [
        target
        for target in targets
        if target.scale != 1 and (target.scale or not same(target.old, target.new))
    ]


def _is_given(n: NodeView, i: int) -> bool:
    """Whether an optional input is there; an empty tensor stands for none as well."""
    return n.has(i) and not equal(n.dims(i), (0,))


def _scales(n: NodeView) -> list[float] | None:
    known = n.const(2) if _is_given(n, 2) else None
    return None if known is None else [shortest(scale) for scale in known.flatten()]


def _keep_aspect_ratio(n: NodeView, axes: Sequence[int], policy: str) -> list[Target]:
    old = [n.size(0, axis) for axis in axes]
    asked = n.known_ints(3, "sizes")
    scale, new = sizes_movement.fitted(old, asked, policy)
    whole = all(b == scale * a for a, b in zip(old, new, strict=True))
    return [
        Target(axis, a, b, None if whole else scale)
        for axis, a, b in zip(axes, old, new, strict=True)
        if scale != 1
    ]


# ---- F.interpolate


def _interpolation(n: NodeView, targets: Sequence[Target]) -> dict[str, Any] | None:
    """The keywords of F.interpolate, or None if it would not give the same."""
    rank = n.rank(0)
    mode = n.attr("mode", "nearest")
    if not 3 <= rank <= 5 or min(target.axis for target in targets) < 2:
        return None
    if not (n.is_float(0) or n.dtype(0) == ir.DataType.UINT8):
        return None
    sampling = _sampling(n, mode, rank, targets)
    extent = _extent(n, targets)
    return None if sampling is None or extent is None else extent | sampling


def _sampling(
    n: NodeView, mode: str, rank: int, targets: Sequence[Target]
) -> dict[str, Any] | None:
    coordinates = n.attr("coordinate_transformation_mode", "half_pixel")
    excludes, antialias = n.attr("exclude_outside", 0), n.attr("antialias", 0)
    if mode == "nearest":
        rounding = n.attr("nearest_mode", "round_prefer_floor")
        for name in ("nearest", "nearest-exact"):
            if all(_same_pixels(name, coordinates, rounding, t) for t in targets):
                return {"mode": name}
        return None
    if antialias and (not excludes or coordinates != "half_pixel"):
        return None
    if mode == "cubic":
        a = float(n.attr("cubic_coeff_a", -0.75))
        if rank != 4 or bool(excludes) != bool(antialias):
            return None
        if a != (-0.5 if antialias else -0.75):
            return None
    if antialias and rank != 4:
        return None
    aligned = coordinates == "align_corners"
    if not all(_same_places(coordinates, mode, target) for target in targets):
        return None
    names = {3: "linear", 4: "bilinear", 5: "trilinear"}
    found: dict[str, Any] = {"mode": "bicubic" if mode == "cubic" else names[rank]}
    if aligned:
        found["align_corners"] = True
    if antialias:
        found["antialias"] = True
    return found


def _extent(n: NodeView, targets: Sequence[Target]) -> dict[str, Any] | None:
    """`scale_factor=2`, or `size=(h, w)`."""
    changed = {target.axis: target for target in targets}
    spatial = range(2, n.rank(0))
    ratios = [changed[axis].ratio if axis in changed else 1 for axis in spatial]
    if None not in ratios:
        factors = [
            int(ratio) if ratio == int(ratio) else ratio
            for ratio in cast("list[float]", ratios)
        ]
        if all(_is_sure(target) for target in targets):
            one = len(set(factors)) == 1
            return {"scale_factor": factors[0] if one else tuple(factors)}
    if any(target.scale is not None for target in targets):
        return None
    dims = [n.out_dims()[axis] for axis in spatial]
    return {"size": tuple(size(dim) for dim in dims)}


def _is_sure(target: Target) -> bool:
    """Whether PyTorch gets the same new size out of the factor."""
    ratio = target.ratio
    assert ratio is not None
    if isinstance(target.old, int):
        return same(target.new, math.floor(target.old * ratio)) is True
    return ratio * 8 == int(ratio * 8)


# ---- the operator


def _kernel(t: Any, n: NodeView, mode: str) -> tuple[Any, int]:
    if mode == "linear":
        return t.helper(helpers.linear_kernel), 1
    kernels = {-0.75: helpers.cubic_kernel, -0.5: helpers.smooth_cubic_kernel}
    a = float(n.attr("cubic_coeff_a", -0.75))
    if a not in kernels:
        n.refuse(
            f"Resize with cubic_coeff_a {a:g} is not supported",
            "supported are -0.75 and -0.5",
        )
    return t.helper(kernels[a]), 2


def _refuse_disputed(
    n: NodeView, coordinates: str, targets: Iterable[Target] | None
) -> None:
    """ONNX's own tests and ONNX Runtime align the corners of sizes that scales round
    down in different ways; the answer to give is not known.

    Scales known only at run time are taken as in ONNX's tests. Where that matters,
    verification finds that ONNX Runtime differs.
    """
    if coordinates not in ("align_corners", "tf_crop_and_resize"):
        return
    if targets is None and coordinates != "align_corners" and _is_given(n, 2):
        n.refuse(f"Resize with {coordinates} by scales known only at run time")
    for target in targets or ():
        known = isinstance(target.old, int)
        if target.scale and (known or coordinates != "align_corners"):
            exact = (target.old if known else 8) * np.float32(target.scale)
            if exact != int(exact):
                n.refuse(
                    f"Resize with {coordinates} of {target.old} by {target.scale:g}"
                    " is not supported: the new size is no whole number",
                    "give sizes instead of scales",
                )


def _explicit(
    t: Any,
    n: NodeView,
    targets: Sequence[Target] | None,
    x: Any,
    scales: Any,
    sizes: Any,
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The axes, and `sizes=` or `scales=` for the helpers."""
    if targets is None:
        rank = n.rank(0)
        axes = tuple(front(axis, rank) for axis in n.attr("axes", range(rank)))
        policy = n.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch" and _is_given(n, 3):
            larger = {} if policy == "not_larger" else {"larger": True}
            known = n.ints(3)
            room = sizes.tolist() if known is None else tuple(known)
            fitted = t.helper(helpers.fit)(x, axes, room, **larger)
            return axes, {"sizes": fitted[0], "scales": fitted[1]}
        if _is_given(n, 3):
            return axes, {"sizes": sizes.tolist()}
        return axes, {"scales": scales.tolist()}
    axes = tuple(target.axis for target in targets)
    extent: dict[str, Any] = {}
    factors = [target.scale for target in targets]
    if factors[0] is None or n.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        extent["sizes"] = tuple(size(target.new) for target in targets)
    if factors[0] is not None:
        extent["scales"] = tuple(factors)
    return axes, extent


def _crop_and_resize(
    t: Any, n: NodeView, x: Any, roi: Any, sizes: Any, targets: Sequence[Target] | None
) -> Any:
    if n.attr("mode", "nearest") != "linear" or not n.is_float(0):
        n.refuse("Resize with tf_crop_and_resize is supported in mode linear only")
    known = n.const(1)
    region: Any = roi.tolist()
    if known is not None:
        region = tuple(shortest(part) for part in known.flatten())
    axes, extent = _explicit(t, n, targets, x, None, sizes)
    new: Any = extent.get("sizes")
    if new is None:
        new = tuple(size(target.new) for target in targets or ())
    value = n.attr("extrapolation_value", np.float32(0))
    outside = {"outside": shortest(np.float32(value))} if value else {}
    return t.helper(helpers.crop_and_resize)(x, axes, region, new, **outside)


@operator(
    "Resize",
    since=19,
    cut=cuts.along(0),
    mapping=ONE_TO_MANY,
    onnx_errs=True,  # 5 * 1.4 is 7 in float32, as ONNX Runtime counts
    result="resized",
)
def _resize(
    t: Any, n: NodeView, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None
) -> Any:
    mode = n.attr("mode", "nearest")
    plain = mode == "linear" and not n.attr("antialias", 0)
    if not (n.is_float(0) or mode == "nearest" or plain):
        n.refuse(f"Resize of {n.dtype(0).name.lower()} in mode {mode} is not supported")
    return _resized(t, n, mode, x, roi, scales, sizes)


def _resized(
    t: Any, n: NodeView, mode: str, x: Any, roi: Any, scales: Any, sizes: Any
) -> Any:
    coordinates = n.attr("coordinate_transformation_mode", "half_pixel")
    if coordinates not in COORDINATES:
        n.refuse(f"Resize with coordinate mode {coordinates!r} is not supported")
    targets = targets_of(n)
    if 0 in n.out_dims() and 0 not in n.dims(0):
        n.refuse("Resize to no elements is not supported")
    if any(isinstance(size, int) and size > _LONGEST for size in n.out_dims()):
        n.refuse(f"Resize to an axis of more than {_LONGEST} is not supported")
    _refuse_disputed(n, coordinates, targets)
    if coordinates == "tf_crop_and_resize":
        return _crop_and_resize(t, n, x, roi, sizes, targets)
    if targets is not None and all(same(each.old, each.new) for each in targets):
        return x
    whole = mode == "linear" and not n.is_float(0)
    if targets is not None and not whole:
        keywords = _interpolation(n, targets)
        if keywords is not None:
            return t.F.interpolate(x, **keywords)
    axes, extent = _explicit(t, n, targets, x, scales, sizes)
    places = t.helper(getattr(helpers, coordinates))
    if mode == "nearest":
        if coordinates == "half_pixel_symmetric":
            n.refuse(f"Resize in mode nearest with {coordinates} is not supported")
        rounding = {
            "round_prefer_floor": lambda: t.helper(helpers.half_down),
            "round_prefer_ceil": lambda: t.helper(helpers.half_up),
            "floor": lambda: t.floor,
            "ceil": lambda: t.ceil,
        }[n.attr("nearest_mode", "round_prefer_floor")]()
        return t.helper(helpers.resize_nearest)(x, axes, places, rounding, **extent)
    if whole:
        rank = n.rank(0)
        last = rank == 4 and axes[0] == 1 and axes[-1] < 3
        over = (1, 2) if last else tuple(range(rank - 2 - rank % 2, rank))
        return t.helper(helpers.resize_whole)(x, axes, places, over, **extent)
    kernel, reach = _kernel(t, n, mode)
    options = {
        name: True for name in ("antialias", "exclude_outside") if n.attr(name, 0)
    }
    if mode == "linear" and not n.attr("antialias", 0):
        options = {}  # a kernel of two pixels reads the edge either way
    return t.helper(helpers.resize)(
        x, axes, places, kernel, reach=reach, **extent, **options
    )
