"""From a graph to the computations its outputs need, each spelled as an expression.

Spelling goes backwards from the outputs: a node is spelled only when some expression
reads its value. Shape arithmetic whose result is known symbolically is never read, so
it disappears without a pass that removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx_ir as ir
import sympy

from ...analysis.errors import MALFORMED, FairhandError, Unsupported
from ...analysis.graph.constants import is_number
from ...analysis.graph.parameters import (
    COMPUTED,
    has_name,
    is_parameter,
    is_saved,
    noted,
)
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes, trimmed
from ...analysis.literals import one_line
from ...analysis.ops.module_form import ModuleForm
from ...analysis.ops.node_view import NodeView, constant, describe, of_strings, placed
from ...analysis.ops.registry import OpDef, lookup
from ...analysis.ops.string_constants import string_array
from ...analysis.spelling.expr import DimOf, Expr, Leaf, Name, Printing, Ref, substitute
from ..ir.assignment import Assignment, LayerRef, Scope
from ..ir.size_expr import dim_expr
from .float_types import FloatTypes
from .inferred_scopes import (
    JOINS,
    ahead,
    behind,
    ends_integers,
    joining,
    module_of,
    parts,
    rounds,
)
from .module_scopes import (
    FileNames,
    common_scopes,
    form_path,
    scopes_of_weights,
    weight_scopes,
)

_Forms = dict[ir.Node, tuple[ir.Node, ModuleForm]]


class Spelling:
    """Turns nodes into assignments by the spellings of their operators."""

    def __init__(
        self, model: ir.Model, shapes: ShapeFacts, faithful: bool = False
    ) -> None:
        self.model, self.faithful = model, faithful
        self.shapes = shapes
        self.t = Printing()
        self.scopes = _all_scopes(model)
        self.floats = FloatTypes(model, self.scopes)
        self.missing: list[ir.Node] = []
        self.refused: list[tuple[ir.Node, Unsupported]] = []
        self.inputs = {
            symbol
            for value in model.graph.inputs
            for dim in shapes.dims(value) or ()
            if isinstance(dim, sympy.Expr)
            for symbol in dim.free_symbols
        }
        self.counters: dict[sympy.Symbol, Expr] = {}  # of the loops around

    def run(self, graph: ir.Graph, results: Iterable[ir.Value]) -> list[Assignment]:
        """The steps of a graph, the model's or a body, that `results` need."""
        forms = self.claim(graph)
        needed: set[ir.Value] = {v for v in results if v.producer()}
        done: set[ir.Node] = set()
        groups: list[list[Assignment]] = []
        for node in reversed(list(graph)):
            owner, form = forms.get(node, (node, None))
            outputs = form.outputs if form is not None else tuple(node.outputs)
            if node in done or not any(out in needed for out in outputs):
                continue
            steps = self.spell(owner, form, needed)
            if form is not None:
                done.update((owner, *form.absorbs))
            groups.append(steps)
            for step in steps:
                needed.update(v for v in step.reads() if v.producer())
        return [step for group in reversed(groups) for step in group]

    def claim(self, graph: ir.Graph) -> _Forms:
        """The owner and the layer, for each node whose work a layer does."""
        forms: _Forms = {}
        for node in graph:
            op = lookup(node)
            if op is None or op.module is None or node in forms:
                continue
            try:
                form = op.module(NodeView(node, self.shapes))
            except FairhandError as error:
                if op.torch is None and isinstance(error, Unsupported):
                    self.refused.append((node, error))
                continue  # else the functional spelling reports what is wrong
            except MALFORMED as error:
                self.refused.append((node, placed(error, node, self.shapes)))
                continue
            if form is not None and self.faithful and _alters(form):
                continue
            if form is not None:
                forms.update(dict.fromkeys((node, *form.absorbs), (node, form)))
        return self._without_products(forms) if self.faithful else forms

    def _without_products(self, forms: _Forms) -> _Forms:
        """Without layers whose tensors the program used as such: the weight of an
        nn.Embedding, as a codebook's, or of a module that has more than the layer, as
        the bias of F.multi_head_attention_forward or a router's correction."""
        held: dict[str, set[ir.Value]] = {}
        for name, value in self.model.graph.initializers.items():
            if "." in name and has_name(value) and value.uses():
                held.setdefault(name.rpartition(".")[0], set()).add(value)

        def place(form: ModuleForm, node: ir.Node) -> tuple[str, ir.Value | None]:
            weight = form.weights.get("weight")
            path = form_path(form, self.scopes[node], faithful=True)
            return path, None if weight is None else weight.value

        tables = {
            place(form, node)
            for node, form in forms.values()
            if form.layer == "nn.Embedding"
        }

        def is_apart(form: ModuleForm, node: ir.Node) -> bool:
            """Whether the module of a linear layer holds more than the layer does."""
            own = {given.value for given in form.weights.values()}
            more = held.get(place(form, node)[0], own) - own
            return form.layer == "nn.Linear" and bool(more)

        return {
            of: (node, form)
            for of, (node, form) in forms.items()
            if form.layer == "nn.Embedding"
            or not (place(form, node) in tables or is_apart(form, node))
        }

    def spell(
        self, node: ir.Node, form: ModuleForm | None, needed: set[ir.Value]
    ) -> list[Assignment]:
        """The assignments of a node or layer; Unsupported where it can't be spelled."""
        op = lookup(node)
        if form is not None:
            layer = LayerRef(form)
            values = [self._fed(value, form, layer) for value in form.inputs]
            made = form.call(self.t, layer, *values) if form.call else layer(*values)
            return self.steps(node, op, made, form.outputs, needed, form)
        strings = op.strings if op is not None and of_strings(node) else None
        spelling = strings or (op.torch if op is not None else None)
        if op is None or spelling is None:
            if not any(node is refused for refused, _ in self.refused):
                self.missing.append(node)
            return self.stand_in(node)
        view = NodeView(node, self.shapes, needed)
        try:
            operands = self.operands(view, op)
            if strings is None and not op.takes(len(operands)):  # an own one's schema
                view.refuse(f"{node.op_type} with {len(operands)} inputs")
            if like := self.floats.casts.get(node):
                made = Ref(view.value(0)).to(Ref(like).dtype)
            elif node in self.floats.idle:
                made = operands[0]
            else:
                made = spelling(self.t, view, *operands)
            for out in node.outputs if strings is None else ():
                if out in needed and out.dtype is not None:
                    view.out_dtype(out.index() or 0)
        except (Unsupported, *MALFORMED) as error:
            self.refused.append((node, placed(error, node, self.shapes)))
            return self.stand_in(node)
        return self.steps(node, op, made, tuple(node.outputs), needed, None)

    def own_faults(self) -> list[Unsupported]:
        """Refusals in the file's order, but for unknowns behind a missing operator."""
        behind: set[ir.Value | None] = set()
        for node in all_nodes(self.model.graph):
            if node in self.missing or not behind.isdisjoint(node.inputs):
                behind.update(node.outputs)
        return [
            error
            for node, error in reversed(self.refused)
            if behind.isdisjoint(node.inputs) or "unknown" not in error.what
        ]

    def stand_in(self, node: ir.Node) -> list[Assignment]:
        """Reads every input, so that the search goes on behind it."""
        inputs = tuple(Ref(v) for v in node.inputs if v is not None)
        return [Assignment((None,), Name("None")(*inputs), node)]

    def operands(self, view: NodeView, op: OpDef) -> list[Expr | np.generic | None]:
        """What the spelling is given: references, numbers, None for absent inputs."""
        found: list[Expr | np.generic | None] = []
        scalars = self._scalar_inputs(view, op)
        for i, value in enumerate(view.node.inputs):
            if value is None:
                found.append(None)
            elif i in scalars:
                found.append(scalars[i])
            elif value.const_value is not None and value.dtype == ir.DataType.STRING:
                found.append(string_array(self.t, value))
            else:
                like = self.floats.like(view.node, i)
                ref: Expr = Ref(value)
                found.append(ref if like is None else ref.to(Ref(like).dtype))
        return trimmed(found)

    def _fed(self, value: ir.Value, form: ModuleForm, layer: LayerRef) -> Expr:
        """An operand of a layer, of the type that its weights have."""
        is_float = "weight" in form.weights and form.source is None
        if is_float and value in self.floats.fixed:
            return Ref(value).to(layer.weight.dtype)
        return Ref(value)

    def _is_member(self, value: ir.Value) -> bool:
        """Whether a number is kept like any tensor: one that trains, and one that a
        module of the file has, for the keys of a faithful network."""
        named = ("." in (value.name or "") or noted(value)) and is_saved(value)
        return is_parameter(value) or (self.faithful and bool(named))

    def _scalar_inputs(self, view: NodeView, op: OpDef) -> dict[int, Expr | np.generic]:
        """Inputs that print as numbers without changing the result's shape or type."""
        numbers: dict[int, Expr | np.generic] = {}
        for i in op.scalars:
            if not view.has(i) or self._is_member(view.value(i)):
                continue
            stored = view.value(i).const_value
            if stored is not None and stored.size != 1:
                continue
            array = constant(view.value(i), self.shapes)
            if array is not None and array.size == 1 and is_number(array.dtype):
                numbers[i] = array.reshape(-1)[0]
            elif array is None and self.shapes.rank(view.value(i)) == 0:
                ints = view.ints(i)
                if ints is not None and isinstance(ints[0], Expr):
                    numbers[i] = ints[0]
        given = {i for i, v in enumerate(view.node.inputs) if v is not None}
        if given <= {*numbers}:  # one that is computed stays the tensor among them
            numbers = {i: x for i, x in numbers.items() if not isinstance(x, Expr)}
        tensors = sorted(given - {*numbers})
        ranks = [self.shapes.rank(view.value(i)) for i in tensors]
        out = self.shapes.rank(view.node.outputs[0])
        if not tensors or None in ranks or out is None:
            return {}
        if max(r for r in ranks if r is not None) != out:
            return {}
        # A number takes the type of the tensor beside it; one of the like must remain.
        like = [i for i in tensors if i in op.scalars or i == 0]
        return numbers if like else {}

    def steps(
        self,
        node: ir.Node,
        op: OpDef | None,
        made: object,
        outputs: tuple[ir.Value, ...],
        needed: set[ir.Value],
        form: ModuleForm | None,
    ) -> list[Assignment]:
        """The assignments that give outputs of what a spelling made."""
        if form is None and isinstance(made, Expr):
            made = self.floats.in_bounds(node, made)
        scopes = self.scopes[node]
        wanted = tuple(out if out in needed else None for out in outputs)
        for out, word in zip(outputs[1:], op.results if op else (), strict=False):
            out.meta.setdefault("word", word)
        common = dict(
            node=node,
            scopes=scopes,
            inlines=op.inlines if op is not None else True,
            result=op.result if op is not None else "",
            form=form,
            path=form_path(form, scopes, self.faithful) if form is not None else "",
        )
        if isinstance(made, tuple):
            return [
                Assignment((out,), self.anchored(expr), **common)  # type: ignore[arg-type]
                for out, expr in zip(wanted, made, strict=False)
                if out is not None and expr is not None
            ]
        assert isinstance(made, Expr), f"{node.op_type} spelled {type(made).__name__}"
        used = [i for i, out in enumerate(wanted) if out is not None]
        targets = wanted
        if len(used) == 1:
            targets = (wanted[used[0]],)
            # With output 0 alone in use, a spelling returns it; else all of them.
            made = made if used[0] == 0 else made[used[0]]
        return [Assignment(targets, self.anchored(made), **common)]  # type: ignore[arg-type]

    def anchored(self, expr: Expr) -> Expr:
        """Sizes that no graph input has are read off the value that first has them."""

        def replace(leaf: Leaf) -> Expr | None:
            if not isinstance(leaf, DimOf) or isinstance(leaf.dim, int):
                return None
            if leaf.dim.free_symbols <= self.inputs:
                return None
            return dim_expr(leaf.dim, self._read_off)

        return substitute(expr, replace)

    def _read_off(self, dim: sympy.Expr) -> Expr | None:
        if not isinstance(dim, sympy.Symbol):
            return None
        if dim in self.inputs:
            return DimOf(dim)
        if dim in self.counters:
            return self.counters[dim]
        anchor = self.shapes.anchor(dim)
        if anchor is None:
            raise Unsupported(f"size {dim} of the graph can't be read off any value")
        value, axis = anchor
        return Ref(value).shape[axis]


NCHWC = "com.microsoft.nchwc"
NCHWC_HINT = (
    "ONNX Runtime wrote this file for one kind of processor, its weights in blocks; "
    "let it optimise up to the level 'extended', or compile the original"
)


def _alters(form: ModuleForm) -> bool:
    """Whether a weight would be stored otherwise or under another name, or /aa/Constant
    be saved, which TorchScript's forward makes.

    What was brought into the order of ONNX's recurrent operators is brought back.
    """
    return any(
        (not w.value.meta.get(COMPUTED) and (w.value.name or "").startswith("/"))
        or (w.how and is_parameter(w.value) and not w.value.meta.get(COMPUTED))
        or (has_name(w.value) and (w.value.name or "").rpartition(".")[2] != name)
        for name, w in form.weights.items()
    )


def _all_scopes(model: ir.Model) -> dict[ir.Node, tuple[Scope, ...]]:
    """The scopes of every node; one without its own stands between its neighbours."""
    names = FileNames(model)
    settled: dict[ir.Node, tuple[Scope, ...]] = {}
    if _names_are_lost(model, names):
        return dict.fromkeys(all_nodes(model.graph), ())
    _settle_scopes(model.graph, names, settled)
    known = {scopes[-1].path: scopes for scopes in settled.values() if scopes}
    for node, scopes in settled.items():
        settled[node] = scopes_of_weights(node, scopes, known)
    return settled


def _names_are_lost(model: ir.Model, names: FileNames) -> bool:
    """Whether most matrices are read by nodes that a quantiser made, without scopes.

    The few nodes that kept theirs would then make modules of norms and sums alone.
    """
    lost = [
        names.scopes(node) is None and weight_scopes(node) is None
        for node in model.graph
        if any(len(value.shape or ()) > 1 for value in _constants(node))
    ]
    return sum(lost) * 2 > len(lost)


def _constants(node: ir.Node) -> Iterator[ir.Value]:
    """What a node reads that is stored, quantised or not."""
    if node.op_type == "DequantizeLinear" and not node.domain:
        return  # those who read its result are asked
    for value in node.inputs:
        maker = value.producer() if value is not None else None
        if maker is not None and maker.op_type == "DequantizeLinear":
            value = maker.inputs[0]
        if value is not None and value.const_value is not None:
            yield value


def _settle_scopes(
    graph: ir.Graph,
    names: FileNames,
    settled: dict[ir.Node, tuple[Scope, ...]],
    owner: ir.Node | None = None,
) -> None:
    """The body of `owner` stands in the modules around it, whatever its nodes say."""
    if owner is None:
        found = {node: names.scopes(node) for node in graph}
    else:
        found = {node: names.inside_of(owner, node) for node in graph}
    around = () if owner is None else settled[owner]
    for node, scopes in found.items():
        scopes = weight_scopes(node) if scopes is None else scopes
        if scopes is None and rounds(node):
            scopes = behind(node, settled)
        elif scopes is None and node.op_type in JOINS:
            scopes = joining(node, settled)
        elif scopes is None:
            after = [x for n in node.successors() if (x := found.get(n)) is not None]
            near = [module_of(n, settled) for n in node.predecessors() if n in settled]
            if ends_integers(node):
                after = ahead(node, found)
            elif after and parts(node):
                near = []  # whoever takes all parts is given the whole
            scopes = common_scopes([*near, *after])
        settled[node] = scopes if scopes[: len(around)] == around else around
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _settle_scopes(attribute.as_graph(), names, settled, node)


def unsupported(
    model: ir.Model, missing: Iterable[ir.Node], refused: list[Unsupported]
) -> Unsupported:
    """One error for all operators that are missing or were refused."""
    by_kind: dict[tuple[str, str, int | None], list[ir.Node]] = {}
    opsets = model.graph.opset_imports
    for node in missing:
        version = node.version or opsets.get(node.domain)
        by_kind.setdefault((node.domain, node.op_type, version), []).append(node)
    lines = []
    for (domain, name, version), nodes in sorted(
        by_kind.items(), key=lambda item: (-len(item[1]), item[0][1])
    ):
        first = describe(nodes[-1])
        label = one_line(f"{domain}.{name}" if domain else name)
        lines.append(f"  {label} (opset {version}) x{len(nodes)}, first at {first}")
    if not lines and len(refused) == 1:
        return refused[0]
    reasons: dict[str, list[Unsupported]] = {}
    for error in refused:
        reasons.setdefault(error.what, []).append(error)
    details = []
    for errors in reasons.values():
        first, *others = str(errors[0]).splitlines()
        times = f" x{len(errors)}, first" if len(errors) > 1 else ""
        details += [f"  {first}{times}", *(f"  {line}" for line in others)]
    count = len(by_kind) + len(reasons)
    plural = "s" if count > 1 else ""
    head = f"{count} operator{plural} can't be compiled; nothing was written"
    hint = "an operator of your own can be given with --ops my_ops.py"
    hint = hint if by_kind else ""
    if any(domain == NCHWC for domain, _, _ in by_kind):
        hint = NCHWC_HINT
    return Unsupported("\n".join([head, *lines, *details]), hint=hint)
