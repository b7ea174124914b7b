"""A module as a graph of ONNX, by the exporter of PyTorch."""

from __future__ import annotations

import itertools
import logging
import math
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    ExitStack,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import onnx
import onnx_ir as ir
import onnx_ir.passes.common as passes

from ...analysis.errors import FairhandError
from ...analysis.lazy import lazy
from ...analysis.literals import message_line, one_line
from ...analysis.ops.registry import ONE_TO_ONE, SHUFFLE, lookup
from ...analysis.spelling.expr import TORCH_DTYPES
from .branches import as_graphs
from .convolutions import whole_convolutions
from .interface import NUMBERS, Interface, unnamed
from .operators import as_operators
from .tables import MAP, MAPS, as_attributes

if TYPE_CHECKING:
    import onnxscript
    import torch
    from onnxscript.function_libs.torch_lib.ops import core
    from onnxscript.rewriter.rules import common
    from torch.export import _patches as patches
else:
    onnxscript, torch = lazy("onnxscript"), lazy("torch")
    common = lazy("onnxscript.rewriter.rules.common")
    core = lazy("onnxscript.function_libs.torch_lib.ops.core")
    patches = lazy("torch.export._patches")

# That the exporter writes by itself. From there to an older one leads `in_opset`, once
# names are restored: any conversion drops what they are restored by.
_OLDEST = 18

# Patterns of the exporter that change layers, or take rows of a layer apart.
_MERGING = ("FuseBatchNorm", "FuseConv", "RemoveOptionalBias", "SlicesSplit")
_SMALL = 1024  # elements of a constant that is made one with an equal one
_BOOL = ir.DataType.BOOL
Sizes = dict[str, int]


class Traced(NamedTuple):
    """The graph of a module, and sizes that PyTorch left out of those it is for."""

    model: ir.Model
    beyond: list[Sizes]  # what `len(x) < 100` was taken to be true for: 100


def traced(module: torch.nn.Module, known: Interface, opset: int) -> Traced:
    """The graph of a module, under its interface's names and with its open sizes.

    The opset is `opset`, or the nearest that the exporter has. Raises FairhandError
    for what can't be exported: the reason, and the line of model.py.
    """
    if find_spec("onnxscript") is None:
        raise FairhandError(
            "PyTorch's exporter needs onnxscript, which isn't installed",
            hint='pip install "fairhand[export]"',
        )
    with _silence():
        run_on(module, known, known.values)
    errors: dict[Any, Exception] = {}
    # As it is first, where nodes stand in the lines that they came from.
    for way, dims in itertools.product((nullcontext, as_graphs), _open_sizes(known)):
        try:
            with (
                _silence(),
                _of_any_length(),
                _one_version(),
                as_operators(module, known),
                way(module),
            ):
                graph = torch.export.export(
                    module,
                    known.arguments(known.values),
                    dynamic_shapes=known.arguments(dims),
                    strict=False,
                )
                program = torch.onnx.export(
                    graph,
                    dynamo=True,
                    opset_version=max(opset, _OLDEST),
                    input_names=known.taken,
                    verbose=False,
                    optimize=False,
                    custom_translation_table=_translations(),
                )
                assert program is not None
                _simplify(program.model, module)
        except Exception as reason:  # of whatever kind: it runs what a user wrote
            errors.setdefault(way, reason)
            continue
        _order(program.model.graph, known)
        _name_outputs(program.model.graph, known)
        try:
            _name_sizes(program.model.graph, module, known)
        except FairhandError:  # a loop over a size may have been written round by round
            if way is as_graphs:
                raise
            continue
        return Traced(program.model, _beyond(graph, known))
    raise _refusal(errors[as_graphs], known) from errors[as_graphs]


@contextmanager
def _one_version() -> Iterator[None]:
    """In here, functions within functions are of the version that their model has them
    in: the exporter writes another, and doesn't find them."""
    inline = passes.InlinePass.call

    def call(self: Any, model: ir.Model) -> Any:
        for function in model.functions.values():
            function.opset_imports.update(model.opset_imports)
        return inline(self, model)

    with patch.object(passes.InlinePass, "call", call):
        yield


@contextmanager
def _of_any_length() -> Iterator[None]:
    """In here, an LSTM or a GRU is one operator or a loop, as in PyTorch's exporter.

    Else each step is written by itself, as many as the example has.
    """
    with ExitStack() as entered:
        with suppress(ImportError, AttributeError):  # an older PyTorch has none
            entered.enter_context(patches.register_lstm_while_loop_decomposition())
            entered.enter_context(patches.register_gru_while_loop_decomposition())
        yield


def in_opset(model: ir.Model, opset: int) -> None:
    """Convert a graph that the exporter couldn't write in so old an opset; it stays
    what it is where onnx has no way back for an operator, as for Pad from 18."""
    if model.opset_imports[""] <= opset:
        return
    metadata = {node.name: dict(node.metadata_props) for node in model.graph}
    noted = {n: dict(v.metadata_props) for n, v in model.graph.initializers.items()}
    shapes = [value.shape for value in model.graph.outputs]
    for node in (node for node in model.graph.all_nodes() if not node.domain):
        schema = onnx.defs.get_schema(node.op_type, model.opset_imports[""])
        for name, attribute in list(node.attributes.items()):
            default = schema.attributes[name].default_value
            known = ir.serde.deserialize_attribute(default) if default.type else None
            if known is not None and known.value == attribute.value:
                del node.attributes[name]  # an older operator may not have it
    with _silence():
        onnxscript.version_converter.convert_version(model, opset, fallback=True)
    for node in model.graph:
        node.metadata_props.update(metadata.get(node.name, {}))
    for name, value in model.graph.initializers.items():
        value.metadata_props.update(noted.get(name, {}))
    for value, shape in zip(model.graph.outputs, shapes, strict=True):
        value.shape = shape  # under the names that were said


def _rules() -> list[Any]:
    """The exporter's rules that leave layers and their weights apart: not those that
    put a norm or a pad into a convolution, or drop a bias which is zero as yet. Those
    that are called nothing take 1e-8 for 0, or leave out a slice of all."""
    rules = onnxscript.rewriter._DEFAULT_REWRITE_RULES
    named = [r for r in rules if r.name and not r.name.startswith(_MERGING)]
    return [*named, common.collapse_slice_rule, common.collapse_slice2_rule]


def _simplify(model: ir.Model, module: torch.nn.Module) -> None:
    """What the exporter does to a graph, except that equal weights stay apart: layers
    of the file would be tied, and names be lost."""
    passes.InlinePass()(model)
    whole_convolutions(model.graph)
    every = model.graph.all_nodes
    noted = {n.outputs[0].name: dict(n.metadata_props) for n in every()}
    own = module.state_dict().keys()

    def folds(node: ir.Node) -> bool | None:
        """Of a weight what lays it out, so that a layer has it; what else is computed
        of one stays, to train on."""
        op = lookup(node)
        lays_out = (
            op is not None and bool(op.carries) and op.mapping in (SHUFFLE, ONE_TO_ONE)
        )
        is_own = any(x is not None and x.name in own for x in node.inputs)
        return False if is_own and not lays_out else None

    fold = onnxscript.optimizer.fold_constants
    for _ in range(2):
        fold(model, onnx_shape_inference=True, should_fold=folds)
        onnxscript.rewriter.rewrite(model, _rules())
    for node in every():  # a list of parts became a Split of which nothing is noted
        of = (node.outputs[0].name or "").removesuffix("_split_0")
        node.metadata_props.update({} if node.metadata_props else noted.get(of, {}))
        if node.op_type == "Slice" and node.inputs[3:]:
            _pick_first(node)
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    for node in model.graph.all_nodes():  # conv3d's zeros for the bias that it hasn't
        bias = node.inputs[2] if node.op_type == "Conv" and node.inputs[2:] else None
        if bias is not None and bias.shape is not None and len(bias.shape) != 1:
            node.resize_inputs(2)
    passes.LiftSubgraphInitializersToMainGraphPass()(model)
    as_attributes(model.graph)
    first = dict[Any, ir.Value]()
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        if name in own or tensor is None or tensor.size > _SMALL:
            continue
        key = tensor.dtype, tuple(tensor.shape), tensor.tobytes()
        if (same := first.setdefault(key, value)) is not value:
            value.replace_all_uses_with(same)
            del model.graph.initializers[name]
    passes.CommonSubexpressionEliminationPass()(model)
    passes.OutputFixPass()(model)
    passes.NameFixPass()(model)


def _pick_first(node: Any) -> None:
    """Gather, for a Slice of as many rows as another tensor has, of which PyTorch took
    for granted that they are there: of a Slice there may be fewer."""
    x, *rest = node.inputs
    if None in (x, *rest, x.shape, node.outputs[0].shape):
        return
    known = [ir.convenience.get_const_tensor(at) for at in rest]
    count, rows = rest[1].producer(), node.outputs[0].shape[:1]
    if [at and at.numpy().tolist() for at in known] != [[0], None, [0], [1]]:
        return
    if count is None or count.op_type != "Shape" or x.shape[:1] == rows:
        return
    axis = count.attributes.get_int("start", 0)
    if (count.inputs[0].shape or ())[axis : axis + 1] == rows:
        made = [ir.node("Constant", [], {"value_int": i}) for i in (0, 1)]
        made.insert(1, ir.node("Squeeze", [rest[1]]))
        made.append(ir.node("Range", [each.outputs[0] for each in made]))
        node.graph.insert_before(node, made)
        node.op_type = "Gather"
        node.resize_inputs(2)
        node.replace_input_with(1, made[-1].outputs[0])


# A bound above so many is a limit of numbers, and no branch of a program.
_LARGEST = 1 << 13


def _beyond(graph: torch.export.ExportedProgram, known: Interface) -> list[Sizes]:
    """The sizes next to the ends of each range that PyTorch took a size to be in."""
    symbols: dict[Any, str] = {}
    inputs = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
    inputs = inputs[len(inputs) - len(known.shapes) :]
    for tensor, name in zip(inputs, known.taken, strict=True):
        for size, dim in zip(tensor.shape, known.shapes[name], strict=True):
            if isinstance(dim, str) and isinstance(size, torch.SymInt):
                symbols.setdefault(size.node.expr, dim)
    found: list[Sizes] = []
    for symbol, span in graph.range_constraints.items():
        if symbol in symbols:
            ends = (span.lower - 1, span.upper + 1)
            found += [
                {symbols[symbol]: int(end)}
                for end in ends
                if end.is_Integer and 0 < end < _LARGEST
            ]
    return found


def _open_sizes(known: Interface) -> Iterator[dict[str, dict[int, Any]]]:
    """What torch.export is told of each input: first that equal names are equal sizes,
    as far as they are plain names; then that it finds out how they hang together."""
    export = torch.export
    open_sizes = [
        (name, axis, dim)
        for name, dims in known.shapes.items()
        for axis, dim in enumerate(dims)
        if isinstance(dim, str)
    ]
    names = list(dict.fromkeys(dim for _, _, dim in open_sizes))
    if all(d.isidentifier() or d == unnamed(n, i) for n, i, d in open_sizes):
        dims = {name: export.Dim(f"d{i}") for i, name in enumerate(names)}
        named: dict[str, dict[int, Any]] = {name: {} for name in known.shapes}
        for name, axis, dim in open_sizes:
            named[name][axis] = dims[dim]
        yield named
    found: dict[str, dict[int, Any]] = {name: {} for name in known.shapes}
    for name, axis, _ in open_sizes:
        found[name][axis] = export.Dim.AUTO
    if open_sizes:
        yield found


@contextmanager
def _silence() -> Iterator[None]:
    """The exporter's progress and advice are of no use to who reads our errors."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(None), redirect_stderr(None):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _refusal(error: Exception, known: Interface) -> FairhandError:
    """The first cause, in a line, and the last line of the network's source in it."""
    text, cause = str(error), error
    hint = "what a file of ONNX holds may not depend on values that only a run has"
    while True:
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            node = frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node):  # that it was about to translate
                hint = "write it with operators that ONNX has, or in another form"
                text += f"\n{node.meta.get('stack_trace', '')}"
        if cause.__cause__ is None:
            break
        cause = cause.__cause__  # type: ignore[assignment]
        text += f"\n{cause}"
    reason = next((line for line in str(cause).splitlines() if line.strip()), "")
    return FairhandError(
        f"PyTorch can't export this network: {one_line(reason.strip(), 300)}",
        place_of(error, known, text),
        hint,
    )


def run_on(module: torch.nn.Module, known: Interface, given: Mapping[str, Any]) -> Any:
    """Its results. Raises FairhandError for one that fails without an exporter, too."""
    try:
        return module(*known.arguments(given))
    except Exception as error:  # of whatever kind: it runs what a user wrote
        kinds = ", ".join(f"{name} {[*value.shape]}" for name, value in given.items())
        reason = message_line(" ".join(str(error).split()), 300)
        raise FairhandError(
            f"the network can't run on {kinds}: {type(error).__name__}: {reason}",
            place_of(error, known),
            "INPUTS says what forward takes" if known.source else "",
        ) from error


def place_of(error: BaseException, known: Interface, text: str = "") -> str:
    """The last line of the network's source that led to an error, or is in `text`."""
    if known.source is None:
        return ""
    lines = re.findall(rf'File "{re.escape(str(known.source))}", line (\d+)', text)
    cause: BaseException | None = error
    while cause is not None:
        frames = traceback.extract_tb(cause.__traceback__)
        lines += [f.lineno for f in frames if f.filename == str(known.source)]
        cause = cause.__cause__
    return f"{known.source}:{lines[-1]}" if lines else str(known.source)


def _order(graph: ir.Graph, known: Interface) -> None:
    """Inputs and results as the interface has them, which forward may have in lists."""
    inputs = dict(zip(known.taken, graph.inputs, strict=True))
    for value in _values(graph):
        if value.name in inputs:  # of an input that is returned, too
            value.name = f"{value.name}_inside"
    for name, value in inputs.items():
        value.name = name
    graph.inputs[:] = [inputs[name] for name in known.shapes]
    graph.outputs[:] = known.in_order(list(graph.outputs))


def _name_outputs(graph: ir.Graph, known: Interface) -> None:
    """Give results the names of the interface. Raises FairhandError where there are
    more or fewer."""
    if known.outputs and len(known.outputs) != len(graph.outputs):
        raise FairhandError(
            f"the network returns {len(graph.outputs)} tensors, of which OUTPUTS names"
            f" {len(known.outputs)}",
            str(known.source or ""),
            "OUTPUTS has to name what forward returns, in its order",
        )
    said = [*known.outputs.values()]
    fits = [
        [dims is None or _fits(value, dims, kind) for value in graph.outputs]
        for dims, kind in zip(said, known.types.values(), strict=False)
    ]
    for i, name in enumerate(known.types):
        if not fits[i][i] and any(fits[i]):
            returned = list(known.types)[fits[i].index(True)]
            raise FairhandError(
                f"what OUTPUTS says of {name} is what forward returns for {returned}",
                str(known.source or ""),
                "OUTPUTS has to name what forward returns, in its order",
            )
    for value, (name, kind) in zip(graph.outputs, known.types.items(), strict=False):
        node = value.producer()
        if kind in MAPS and (node is None or node.op_type != MAP):
            raise FairhandError(f"output {name} is {kind}", hint=NUMBERS)
    taken = set(known.outputs)
    for value in _values(graph):
        if value.name in taken:
            value.name = f"{value.name}_inside"
    for value, name in zip(graph.outputs, known.outputs, strict=False):
        value.name = name


def _fits(value: ir.Value, dims: Sequence[int | str | None], kind: str) -> bool:
    """Whether a result has the type and the fixed sizes that were said of it."""
    if value.dtype is not None and TORCH_DTYPES.get(value.dtype, kind) != kind:
        return False
    sizes = [*(value.shape or ())]
    return len(sizes) == len(dims) and all(
        not isinstance(said, int) or not isinstance(size, int) or said == size
        for size, said in zip(sizes, dims, strict=True)
    )


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from [*graph.initializers.values()]  # which are by name
    for node in graph.all_nodes():
        yield from node.outputs


def _name_sizes(graph: ir.Graph, module: torch.nn.Module, known: Interface) -> None:
    """Open sizes under the names of the interface. Raises FairhandError where one of
    them is fixed by what the network does."""
    names: dict[str, str] = {}
    none = {unnamed(n, i) for n, dims in known.shapes.items() for i in range(len(dims))}
    for value, dims in zip(graph.inputs, known.shapes.values(), strict=True):
        for traced_dim, dim in zip(value.shape or (), dims, strict=True):
            if isinstance(dim, int):
                continue
            # Of a size that it fixed the exporter makes a symbol that is called "3".
            if isinstance(traced_dim, int) or str(traced_dim.value).isdigit():
                place = _where_fixed(module, known, dim)
                if place and known.is_as_written:
                    continue  # the file it came from fails there, too
                few = str(traced_dim) in ("0", "1")  # which PyTorch never leaves open
                more = "give an example of two or more, or "
                raise FairhandError(
                    f"size {dim} of input {value.name} is fixed to {traced_dim} by "
                    f"{'its example, or by ' * few}what the network does",
                    place or str(known.source or ""),
                    f"{more * few}write {traced_dim} in its place, or read the size off"
                    " the input, as in x.shape[0]: PyTorch takes len(x) for a fixed"
                    " number",
                )
            names.setdefault(str(traced_dim.value), "" if dim in none else dim)
    for value in [*graph.outputs, *_values(graph)]:
        if value.shape is not None:
            value.shape = ir.Shape(_renamed(dim, names) for dim in value.shape)
    for value, dims in zip(graph.inputs, known.shapes.values(), strict=True):
        value.shape = ir.Shape(None if dim in none else dim for dim in dims)
    own = {dim for dims in known.shapes.values() for dim in dims}
    for value, said in zip(graph.outputs, known.outputs.values(), strict=False):
        if (
            value.shape is not None
            and said is not None
            and len(said) == len(value.shape)
        ):
            value.shape = ir.Shape(
                (
                    name
                    if isinstance(name, str)
                    and not (isinstance(dim, int) and name in own)
                    else dim
                )
                for dim, name in zip(value.shape, said, strict=True)
            )


def _where_fixed(module: torch.nn.Module, known: Interface, dim: str) -> str:
    """The line of the network's source that fails where a size is another one; "" if
    none does."""
    values = {
        name: torch.zeros(
            [
                size + (said == dim)
                for size, said in zip(value.shape, known.shapes[name], strict=True)
            ],
            dtype=value.dtype,
        )
        for name, value in known.values.items()
    }
    try:
        module(*known.arguments(values))
    except Exception as error:  # of whatever kind: it runs what a user wrote
        return place_of(error, known)
    return ""


def _renamed(dim: Any, names: Mapping[str, str]) -> Any:
    """A size as the interface calls it; None where that would be no expression."""
    if isinstance(dim, int) or dim.value is None:
        return dim
    if dim.value in names:
        return names[dim.value] or None
    parts = set(re.findall(r"[A-Za-z_]\w*", dim.value)) & set(names)
    if not all(names[part].isidentifier() for part in parts):
        return None
    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), dim.value)


def _translations() -> dict[Any, Callable[..., Any]]:
    """Operators of PyTorch as the exporter doesn't write them."""
    return {
        # What it sorts by, TopK, has the first of equals first.
        torch.ops.aten.sort.stable: core.aten_sort,
        torch.ops.aten.amax.default: _reduced(core.aten_amax),
        torch.ops.aten.amin.default: _reduced(core.aten_amin),
        torch.ops.aten.div.Tensor_mode: _divided,
        torch.ops.aten.remainder.Scalar: _remainder,
        torch.ops.aten.index.Tensor: _picked,
        torch.ops.aten.unbind.int: _parted,
        torch.ops.aten.where.self: _chosen,
        torch.ops.aten.__lshift__.Scalar: _shifted("left"),
        torch.ops.aten.__lshift__.Tensor: _shifted("left"),
        torch.ops.aten.__rshift__.Scalar: _shifted("right"),
        torch.ops.aten.__rshift__.Tensor: _shifted("right"),
        torch.ops.aten.scaled_dot_product_attention.default: _attended,
    }


def _divided(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """A quotient; of whole numbers exactly, where the exporter goes through float32."""
    if rounding_mode == "trunc" and self.dtype.is_integer():
        return onnxscript.opset18.Div(self, other)
    if rounding_mode == "floor" and self.dtype.is_integer():
        return core.aten_floor_divide(self, other)
    return core.aten_div_mode(self, other, rounding_mode)


def _reduced(along: Callable[..., Any]) -> Callable[..., Any]:
    """Of all axes as well, where the exporter asks for some."""

    def reduced(self: Any, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
        return along(self, dim or [*range(len(self.shape))], keepdim)

    return reduced


def _remainder(self: Any, other: Any) -> Any:
    """By a size as well, where the exporter takes a number for one that it knows."""
    return core.aten_remainder(self, onnxscript.opset18.CastLike(other, self))


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    """Of truth values, too, for which ONNX Runtime has no Where."""
    op: Any = onnxscript.opset18
    if x.dtype != _BOOL:
        return core.aten_where(condition, x, y)
    return op.Or(op.And(condition, x), op.And(op.Not(condition), y))


def _picked(x: Any, places: Any) -> Any:
    """Along one axis by Gather, where the exporter makes rows of places first."""
    (axis, at), *others = ((i, at) for i, at in enumerate(places) if at is not None)
    if others or at.dtype == _BOOL:
        return core.aten_index(x, places)
    return onnxscript.opset18.Gather(x, at, axis=axis)


def _parted(x: Any, dim: int = 0) -> Any:
    """Each part by its place, where the exporter splits and drops the axis."""
    op: Any = onnxscript.opset18
    return [
        op.Gather(x, op.Constant(value_int=i), axis=dim) for i in range(x.shape[dim])
    ]


def _shifted(to: str) -> Callable[[Any, Any], Any]:
    """Of numbers without a sign as they are, which the exporter makes signed."""

    def shifted(self: Any, other: Any) -> Any:
        by = onnxscript.opset18.CastLike(other, self)
        if self.dtype.is_signed():
            by.dtype = self.dtype
            return getattr(core, f"aten_bitwise_{to}_shift")(self, by)
        return onnxscript.opset18.BitShift(self, by, direction=to.upper())

    return shifted


def _attended(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """By its definition, of any axes and any scale; where a row may be left without a
    place PyTorch gives 0 of it."""
    rank, last = len(q.shape), len(k.shape) - 1
    empty = mask is not None and _may_hide_all(mask)
    op: Any = onnxscript.opset18
    if enable_gqa and (times := q.shape[-3] // k.shape[-3]) > 1:
        wide, heads = [1] * (rank - 2) + [times, 1, 1], op.Shape(q, start=-3, end=-2)
        each = (op.Expand(op.Unsqueeze(x, [rank - 2]), wide) for x in (k, v))
        ends = ((op.Shape(x, end=-3), op.Shape(x, start=-2)) for x in (k, v))
        k, v = (
            op.Reshape(x, op.Concat(lead, heads, end, axis=0))
            for x, (lead, end) in zip(each, ends, strict=True)
        )
    least = op.CastLike(-math.inf, q)
    scale = op.CastLike(q.shape[-1] ** -0.5 if scale is None else scale, q)
    turned = op.Transpose(k, perm=[*range(last - 1), last, last - 1])
    scores = op.MatMul(op.Mul(q, scale), turned)
    if causal:
        sizes = op.Concat(*(op.Shape(x, start=-2, end=-1) for x in (q, k)), axis=0)
        mask = op.Trilu(op.Expand(least, sizes), 1, upper=1)
    if mask is not None and mask.dtype == _BOOL:
        scores = op.Where(mask, scores, least)
    elif mask is not None:
        scores = op.Add(scores, mask)
    weights = op.Softmax(scores, axis=-1)
    if empty:
        weights = op.Where(op.IsNaN(weights), op.CastLike(0.0, q), weights)
    return op.MatMul(weights, v)


def _may_hide_all(mask: Any) -> bool:
    """Whether a row of a mask may leave no key: of truth values, or with an infinity
    or a caller's own numbers among what it is made of."""
    made, todo = {}, [mask]
    while todo:
        value = todo.pop()
        made[value] = known = ir.convenience.get_const_tensor(value)
        node = value.producer()
        if known is None and node is None and value.dtype.is_floating_point():
            return True
        if known is not None and not np.isfinite(known.numpy()).all():
            return True
        read = node.inputs if node else ()
        todo += [x for x in read if x is not None and x not in made]
    return bool(mask.dtype == _BOOL)
