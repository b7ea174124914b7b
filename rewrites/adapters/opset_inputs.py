"""Adapters for operators whose attributes became inputs, and for small changes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .opset_adapters import AdapterSite, adapter
from .provenance import take_over

_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax"),
    *("ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare"),
)


@adapter("Squeeze", "Unsqueeze", "ReduceSum", until=12)
@adapter(*_REDUCTIONS, until=17)
def axes(site: AdapterSite) -> None:
    """`axes` became the second input. Without it, Squeeze and Reduce take them all."""
    found = site.take_ints("axes")
    if found:
        site.set_inputs([site.data, site.ints("axes", found)])
        rank = None if site.data.shape is None else len(site.data.shape)
        if rank is not None and site.node.op_type != "Unsqueeze":
            wrong = [axis for axis in found if not -rank <= axis < rank]
            if wrong:  # ONNX Runtime takes them for a tensor that is empty
                raise site.unsupported(
                    f"axes {wrong} are outside a tensor of rank {rank}"
                )


@adapter("Slice", until=9)
def slice_(site: AdapterSite) -> None:
    """`starts`, `ends` and `axes` became inputs; by default the axes are 0, 1, ..."""
    starts, ends = site.take_ints("starts") or [], site.take_ints("ends") or []
    axes = site.take_ints("axes")
    if len(starts) != len(ends) or (axes and len(axes) != len(starts)):
        raise site.unsupported("starts, ends and axes differ in length")
    site.set_inputs(
        [
            site.data,
            site.ints("starts", starts),
            site.ints("ends", ends),
            site.ints("axes", axes) if axes else None,
        ]
    )


@adapter("Split", until=12)
def split_by_attribute(site: AdapterSite) -> None:
    """`split` became the second input; equal parts are counted by `num_outputs`."""
    sizes = site.take_ints("split")
    if sizes:
        site.set_inputs([site.data, site.ints("split", sizes)])
    else:
        site.set("num_outputs", len(site.node.outputs))


@adapter("Split", until=17)
def split_evenly(site: AdapterSite) -> None:
    """Equal parts used to need no attribute; now `num_outputs` says how many."""
    if site.input(1) is None:
        site.set("num_outputs", len(site.node.outputs))


@adapter("TopK", until=9)
def top_k(site: AdapterSite) -> None:
    """`k` became the second input, of shape [1]."""
    site.set_inputs([site.data, site.ints("k", [site.take_int("k", 1)])])


@adapter("Clip", until=10, types=True)
def clip(site: AdapterSite) -> None:
    """`min` and `max` became scalar inputs. Without one, the type's limit counts."""
    bounds = [site.take("min"), site.take("max")]
    values = [
        scalar_like(site, name, bound.as_float()) if bound is not None else None
        for name, bound in zip(("min", "max"), bounds, strict=True)
    ]
    site.set_inputs([site.data, *values])


@adapter("Pad", until=10, types=True)
def pad(site: AdapterSite) -> None:
    """`pads` and `value` became inputs; without the latter the padding is 0."""
    pads = site.ints("pads", site.take_ints("pads") or [])
    value = site.take_float("value", 0.0)
    fill = scalar_like(site, "value", value) if value != 0 else None
    site.set_inputs([site.data, pads, fill])


def scalar_like(site: AdapterSite, name: str, number: float) -> ir.Value:
    """A float attribute as a scalar of the type of the data."""
    dtype = site.data.dtype
    scalar = np.array(number, np.float32)
    if dtype is None:
        return site.before("CastLike", [site.constant(name, scalar), site.data], name)
    with np.errstate(over="ignore"):
        return site.constant(name, scalar.astype(dtype.numpy()))


@adapter("Dropout", until=11)
def dropout(site: AdapterSite) -> None:
    """`ratio` became an input. The mask was undefined outside of training."""
    site.take("ratio")
    if len(site.node.outputs) > 1:
        mask = site.node.outputs[1]
        if mask.uses() or mask.is_graph_output():
            raise site.unsupported(
                "the mask has no defined value before opset 12",
                "export the model with opset 12 or newer, or without the mask",
            )
        site.node.resize_outputs(1)


@adapter("Scatter", until=10)
def scatter(site: AdapterSite) -> None:
    """Scatter was renamed."""
    site.node.op_type = "ScatterElements"


@adapter("DFT", until=19)
def dft(site: AdapterSite) -> None:
    """`axis` became the third input, and its default moved from 1 to -2."""
    axis = site.ints("axis", site.take_int("axis", 1))
    site.set_inputs([site.data, site.input(1), axis])


@adapter("GridSample", until=19)
def grid_sample(site: AdapterSite) -> None:
    """The modes were renamed when the operator learned to sample volumes."""
    mode = site.take_string("mode", "bilinear")
    site.set("mode", {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


@adapter("RoiAlign", until=15)
def roi_align(site: AdapterSite) -> None:
    """Boxes used to be aligned to corners of pixels; by default it is centres now."""
    site.set("coordinate_transformation_mode", "output_half_pixel")


@adapter("Scan", until=8, types=True)
def scan(site: AdapterSite) -> None:
    """Scan of opset 8 looped over a batch as well: now one of another."""
    if site.input(0) is not None:
        raise site.unsupported(
            "the lengths of sequences, of opset 8, are not supported",
            "export the model with opset 9 or newer",
        )
    body = site.node.attributes["body"].as_graph()
    scans = site.take_int("num_scan_inputs", 0)
    directions = site.take_ints("directions")
    sequences = [site.need(i) for i in range(1, len(site.inputs))]
    rows = [_row(value, site.name("row")) for value in sequences]
    site.become("Scan", sequences, num_scan_inputs=len(rows))
    inner = ir.node(
        "Scan",
        rows,
        {"body": body, "num_scan_inputs": scans},
        num_outputs=len(body.outputs),
        name=site.name("row"),
    )
    if directions:
        inner.attributes.add(ir.AttrInt64s("scan_input_directions", directions))
    take_over([inner], [site.node])
    for i, output in enumerate(inner.outputs):
        output.name = site.name(f"result_{i}")
    graph = ir.Graph(rows, inner.outputs, nodes=[inner], name=site.name("batch"))
    site.node.attributes.add(ir.AttrGraph("body", graph))


def _row(value: ir.Value, name: str) -> ir.Value:
    """What `value` holds for one element of the batch."""
    shape = None if value.shape is None else ir.Shape(list(value.shape)[1:])
    return ir.Value(name=name, type=value.type, shape=shape)
