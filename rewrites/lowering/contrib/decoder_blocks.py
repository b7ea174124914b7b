"""What ONNX Runtime fuses in the newest decoders: gates, norms, places in images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...adapters.opset_adapters import AdapterSite, extension
from .attention import last_size

_FLOAT = ir.DataType.FLOAT
_AXES = ("time", "height", "width")


def real(site: AdapterSite, x: ir.Value, name: str) -> ir.Value:
    """`x` in float32, in which these operators compute."""
    if x.dtype == _FLOAT:
        return x
    return site.before("Cast", [x], name, to=int(_FLOAT))


def become_rounded(
    site: AdapterSite, op: str, inputs: Sequence[ir.Value], like: ir.Value, **attrs: int
) -> None:
    """Make the node `op`, with a result of the type of `like`."""
    if like.dtype == _FLOAT:
        site.become(op, inputs, **attrs)
    else:
        y = site.before(op, inputs, "wide_result", **attrs)
        site.become("CastLike", [y, like])


@extension("GatedAdd")
def _gated_add(site: AdapterSite) -> None:
    product = site.before("Mul", [site.need(1), site.need(2)], "gated")
    site.become("Add", [site.data, product])


@extension("ScaledSiLU", attrs="alpha")
def _scaled_silu(site: AdapterSite) -> None:
    x, alpha, scale = site.data, site.take_float("alpha", 1.0), site.input(1)
    if scale is not None:
        x = site.before("Mul", [real(site, x, "wide"), scale], "scaled")
    elif alpha != 1:
        factor = site.constant("alpha", np.array(alpha, np.float32))
        x = site.before("Mul", [real(site, x, "wide"), factor], "scaled")
    if x is not site.data and site.data.dtype != _FLOAT:
        x = site.before("CastLike", [x, site.data], "rounded")
    site.become("Swish", [x])


@extension("LinearAttentionGate")
def linear_attention_gate(site: AdapterSite) -> None:
    """How much a state fades, and how much of what is new it takes in."""
    x, bias, scale = site.data, site.need(1), site.need(2)
    total = site.before("Add", [real(site, x, "wide"), bias], "biased")
    rate = site.before("Softplus", [total], "rate")
    if site.wants(1):
        site.give(1, site.before("Sigmoid", [site.need(3)], "beta"))
    site.node.resize_outputs(1)
    become_rounded(site, "Mul", [rate, scale], x)


@extension("GatedRMSNorm", attrs="activation epsilon")
def gated_rms_norm(site: AdapterSite) -> None:
    """A norm of groups as long as its scale, times an activation of the gate."""
    x, scale, gate = site.data, site.need(1), site.need(2)
    activation = site.take_string("activation", "silu")
    if activation not in ("silu", "swish", "sigmoid"):
        raise site.unsupported(f"the activation {activation[:40]!r} is not supported")
    groups = last_size(site, x) // last_size(site, scale)
    gate = real(site, gate, "wide_gate")
    opened = site.before("Sigmoid" if activation == "sigmoid" else "Swish", [gate], "g")
    y = real(site, x, "wide")
    if groups > 1:
        y = _in_groups(site, y, groups)
    epsilon = site.take_float("epsilon", 1e-5)
    scale = real(site, scale, "wide_scale")
    y = site.before("RMSNormalization", [y, scale], "norm", axis=-1, epsilon=epsilon)
    if groups > 1:
        y = site.before("Reshape", [y, site.ints("flat", _flat(site, x))], "joined")
    become_rounded(site, "Mul", [y, opened], x)


def _in_groups(site: AdapterSite, x: ir.Value, groups: int) -> ir.Value:
    shape = [0] * (site.rank(site.data) - 1) + [groups, -1]
    return site.before("Reshape", [x, site.ints("groups", shape)], "grouped")


def _flat(site: AdapterSite, x: ir.Value) -> list[int]:
    return [0] * (site.rank(x) - 1) + [-1]


@extension("BranchwiseRMSNorm", attrs="epsilon num_branches")
def branchwise_rms_norm(site: AdapterSite) -> None:
    """A norm of each branch, which may stand in a row."""
    x, scale, count = site.data, site.input(1), site.take_int("num_branches", 0)
    epsilon = site.take_float("epsilon", 1e-5)
    y = real(site, x, "wide")
    if count:
        y = _in_groups(site, y, count)
    elif site.rank(x) < 2:
        raise site.unsupported("it needs an axis of branches")
    size = last_size(site, x) // max(count, 1)
    shape = [-1, size] if scale is not None and last_size(site, scale) != size else None
    one = site.constant("one", np.ones(size, np.float32))
    norm = site.before("RMSNormalization", [y, one], "norm", axis=-1, epsilon=epsilon)
    operands = [norm]
    if scale is not None:
        scale = real(site, scale, "wide_scale")
        if shape is not None and site.rank(scale) == 1:
            scale = site.before("Reshape", [scale, site.ints("scales", shape)], "scale")
        operands.append(scale)
    if not count:
        become_rounded(site, "Mul" if scale else "Identity", operands, x)
        return
    y = site.before("Mul", operands, "scaled") if scale else norm
    become_rounded(site, "Reshape", [y, site.ints("flat", _flat(site, x))], x)


@extension(
    "MRotaryEmbedding",
    attrs="interleaved is_packed_batching mrope_layout mrope_section num_heads "
    "rotary_embedding_dim scale",
)
def m_rotary_embedding(site: AdapterSite) -> None:
    """Each word has a place in time, height and width; each turns some of its parts."""
    if site.take_int("is_packed_batching", 0) or site.take_float("scale", 1.0) != 1:
        raise site.unsupported("packed batches, or a scale other than 1")
    x, places, cos, sin = (site.need(i) for i in range(4))
    sizes, layout = site.take_ints("mrope_section"), site.take_int("mrope_layout", 0)
    if sizes is None or len(sizes) != 3 or min(sizes) < 0 or layout not in (0, 1):
        raise site.unsupported("it needs three sections, in one of two layouts")
    named = [(cos, "cos"), (sin, "sin")]
    if layout:
        column = np.arange(sum(sizes))
        turns = [(column % 3 == i) & (column < 3 * sizes[i]) for i in (1, 2)]
        masks = [
            site.constant(f"is_{a}", t) for a, t in zip(_AXES[1:], turns, strict=True)
        ]
        tables = [_mixed(site, table, places, masks, name) for table, name in named]
    else:
        tables = [_joined(site, table, places, sizes, name) for table, name in named]
    heads, width = (
        site.take_int(name, 0) for name in ("num_heads", "rotary_embedding_dim")
    )
    options = {"interleaved": site.take_int("interleaved", 0)}
    if width:
        options["rotary_embedding_dim"] = width
    if site.rank(x) == 3:
        options["num_heads"] = heads or last_size(site, x) // (2 * sum(sizes))
    site.become("RotaryEmbedding", [x, *tables], **options)


def _joined(
    site: AdapterSite,
    table: ir.Value,
    places: ir.Value,
    sizes: Sequence[int],
    name: str,
) -> ir.Value:
    """The first columns of the rows for the time, the next for the height, ..."""
    rows = site.before("Gather", [table, places], f"{name}_rows")
    names = [f"{name}_{axis}" for axis in _AXES]
    lengths = site.ints(f"{name}_sizes", sizes)
    parts = site.parts("Split", [rows, lengths], [f"{n}_3" for n in names], axis=-1)
    chosen = [
        site.before("Gather", [part, site.ints(f"{n}_i", i)], n, axis=0)
        for i, (part, n) in enumerate(zip(parts, names, strict=True))
    ]
    return site.before("Concat", chosen, name, axis=-1)


def _mixed(
    site: AdapterSite,
    table: ir.Value,
    places: ir.Value,
    masks: Sequence[ir.Value],
    name: str,
) -> ir.Value:
    """The columns of the rows for the time, but for those of the height and width."""
    rows = []
    for i, axis in enumerate(_AXES):
        place = site.before("Gather", [places, site.ints(f"{name}_i", i)], axis, axis=0)
        rows.append(site.before("Gather", [table, place], f"{name}_{axis}"))
    y = rows[0]
    for mask, own in zip(masks, rows[1:], strict=True):
        y = site.before("Where", [mask, own, y], f"{name}_mixed")
    return y
