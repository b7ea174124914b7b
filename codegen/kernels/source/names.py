"""What kernels and the values in them are called."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ....analysis.graph.traversal import trimmed
from ....analysis.ops.triton import KERNEL_OPS
from ....analysis.ops.triton.elementwise import FLOATS, POINTWISE, KernelOp, Pointwise
from ...ir.identifiers import unused
from ..layout.layout import Layout
from ..program.attention_form import ROLES
from ..program.program import KernelProgram, Operation

# Kernels by their operators, in alphabetical order.
TITLES = {
    "add concat mul mul neg split": "rotate_halves",
    "add concat mul mul neg split transpose": "rotate_halves",
    "cast concat cos mul sin": "rotary_angles",
    "concat cos mul sin": "rotary_angles",
}
# What a reader takes no notice of.
_UNSAID = frozenset("flatten identity reshape squeeze unsqueeze".split())
# Names that kernels use themselves.
_TAKEN = frozenset(
    """BLOCK F clip col cols eps expect finite gelu_tanh i j k larger mask math n_cols
    n_elements n_pixels offsets order_of p q row runs_triton shape smaller softplus tanh
    times tl torch triton warps y""".split()
)
_TAKEN_BY_COLUMNS = frozenset("block columns depth outer start tiles".split())
_TAKEN_BY_PRODUCTS = frozenset(
    """across batch block depth down inside number rows start tile zero""".split()
)
_TAKEN_BY_ATTENTION = frozenset(
    """base batch columns depth first group head heads inside inside_k inside_q k keys
    larger largest last mask n_batches n_each n_heads n_keys n_rows n_shared pair parts
    powers program q rows scale scores shared shrink start sums tile tiles total v
    v_depth width""".split()
)
_TAKEN_BY_WINDOWS = frozenset(
    """HEIGHT WIDTH at_col at_row block channel factor height image inside n_channels
    n_cols n_rows padding pixel pixels plane sample stride sums tap tiles width
    window""".split()
)


class Wording:
    """`names` of all values of a program; `free` gives further ones."""

    def __init__(self, program: KernelProgram, layout: Layout) -> None:
        self.program, self.layout = program, layout
        self.taken = set(_TAKEN)
        self.names: dict[ir.Value, str] = {}
        if program.attention is not None:
            self.taken |= _TAKEN_BY_ATTENTION
            *before, attention = program.operations
            for role, operand in zip(ROLES, attention.operands, strict=False):
                assert isinstance(operand, ir.Value)
                self.names[operand] = role
                source = _source_of(operand, before)
                if "word" not in source.meta:  # q before its rotation is q too
                    self.names.setdefault(source, role)
            self.names[attention.result] = "y"
            if not before:
                return
        product = program.product
        if product is not None and product.product is not None:
            self.taken |= _TAKEN_BY_PRODUCTS
            self.taken |= {"scale"} if product.product.per_block else set()
            for factor in product.operands[1:]:
                assert isinstance(factor, ir.Value)
                self.names[factor] = self.free(program.arguments[factor].role)
        if any(op.taps for op in program.operations):
            self.taken |= _TAKEN_BY_WINDOWS
        if program.columns is not None:
            self.taken |= _TAKEN_BY_COLUMNS
        self._name_arguments()
        self._name_results()

    def free(self, name: str) -> str:
        """The first of name, name2 ... that nothing in the kernel has; it is taken."""
        name = unused(name, self.taken)
        self.taken.add(name)
        return name

    def _name_arguments(self) -> None:
        arguments = self.program.arguments
        wishes: dict[ir.Value, str] = {}
        if title(self.program) == "rotary_angles":
            wishes = self._angles()
        seen: set[object] = set()
        for op in self.program.operations:
            operands = trimmed(op.operands)
            for operand, role in zip(operands, self._roles(op), strict=False):
                if role and operand in arguments and operand not in seen:
                    wishes.setdefault(operand, role)
            seen.update(operands)
        free = [v for v in arguments if not (v in self.names or arguments[v].role)]
        free = [v for v in free if not v.meta.get("word")]
        if free and all(v in wishes for v in free):  # one of them is the main one
            sides = {op.beside[0] for op in POINTWISE.values() if op.beside}
            main = next((v for v in free if wishes[v] in sides), None)
            wishes.pop(main, None)  # type: ignore[arg-type]
        letters = [*"xuvw"]
        for value in (v for v in arguments if v not in self.names):
            wish = arguments[value].role or value.meta.get("word") or wishes.get(value)
            if wish is None:
                wish = next((c for c in letters if c not in self.taken), "x")
            self.names[value] = self.free(wish)

    def _angles(self) -> dict[ir.Value, str]:
        """Of rotary embeddings: whole numbers, and what they are multiplied by."""
        return {
            value: "frequencies" if value.dtype in FLOATS else "positions"
            for value in self.program.arguments
        }

    def _roles(self, op: Operation) -> tuple[str, ...]:
        """What operands are called by what is done to them; "" for the main one."""
        spelling, operands = _known(op), trimmed(op.operands)
        beside = spelling.beside if isinstance(spelling, Pointwise) else None
        if op.kept is not None and beside is not None:
            return tuple("" if o is op.kept else beside[0] for o in operands)
        if op.lookup:
            return ("table", "indices")
        if op.gathers:
            return ("", "places")
        if op.row is not None:
            return ("", *op.row.names)
        if not isinstance(spelling, Pointwise):
            return ("",)
        if spelling.gates and self._gates(op):
            return ("gate",)
        if beside is not None and len(operands) == 2:
            return self._beside(beside, operands)
        return spelling.names

    def _gates(self, op: Operation) -> bool:
        """Whether another tensor is multiplied by the result, or by x * sigmoid(x)."""
        if op.view.node.op_type == "SwiGLU":
            return True
        own: set[object] = {*op.results, *op.operands}
        for reader in self.program.operations:
            if reader.view.node.op_type == "Mul" and not own.isdisjoint(
                reader.operands
            ):
                others = set(reader.operands) - own
                if others:
                    return not others.isdisjoint(self.program.arguments)
                own.update(reader.results)
        return False

    def _beside(
        self, roles: tuple[str, str], operands: Sequence[object]
    ) -> tuple[str, ...]:
        full, narrow = roles
        both = all(o in self.program.arguments for o in operands)
        found = []
        for i, operand in enumerate(operands):
            main = self._is_narrow_value(operands[1 - i]) or (i == 0 and both)
            role = narrow if self._is_narrow_value(operand) else "" if main else full
            found.append(role)
        return tuple(found)

    def _is_narrow_value(self, value: object) -> bool:
        found = self.program.arguments.get(value)  # type: ignore[call-overload]
        return found is not None and self.layout.narrow(found)

    def _name_results(self) -> None:
        last = self.program.operations[-1]
        for op in self.program.operations:
            kind = op.view.node.op_type
            for result in (r for r in op.results if r not in self.names):
                alone = op.row is not None or len(self.program.results) == 1
                plain = op is last and len(op.results) == 1 and alone
                wish = _result_of(op)
                if op.top and result.index() == 1:
                    wish = "indices"
                if kind == "Split" and len(op.results) == 2:
                    wish = ("front", "back")[op.results.index(result)]
                self.names[result] = "y" if plain else self.free(wish)


def _source_of(value: ir.Value, operations: Sequence[Operation]) -> ir.Value:
    """What is worked on to get a value: the first operand's source."""
    makers = {r: op for op in operations for r in op.results}
    while value in makers:
        value = next(o for o in makers[value].operands if isinstance(o, ir.Value))
    return value


def _known(op: Operation) -> KernelOp:
    return KERNEL_OPS.get(op.view.node.op_type, KernelOp())


def _result_of(op: Operation) -> str:
    """What a reader calls what an operator computes."""
    if op.taps is not None or (op.product is not None and op.product.pixels):
        return "conv"
    if op.product is not None:
        return "product"
    if op.lookup or op.gathers:
        return "found"
    return _known(op).result or _word_of(op)


def _word_of(op: Operation) -> str:
    """What an operator is called in the name of a kernel."""
    if op.attention is not None:
        causal, masked = op.attention.causal, bool(op.attention.mask)
        return "causal_attention" if causal else "masked_" * masked + "attention"
    if op.taps is not None:
        return "depthwise_conv"
    if op.product is None:
        return _known(op).word or op.view.node.op_type.removeprefix("Reduce").lower()
    if op.product.pixels:
        return "pointwise_conv"
    if op.product.per_block:
        return f"int{op.product.bits}_linear"
    if op.product.bits:
        return "int8_linear"
    return "linear" if op.product.flipped else "matmul"


def title(program: KernelProgram) -> str:
    """The words that a kernel is named by, joined by underscores."""
    words = [_word_of(op) for op in program.operations]
    said = [w for w in words if w not in _UNSAID]
    words = said or words
    if program.attention is not None and len(words) > 1:
        turned = {"concat", "neg", "split"} <= set(words)
        return f"{'rotary' if turned else words[0]}_{words[-1]}"
    known = TITLES.get(" ".join(sorted(words)))
    if known is not None:
        return known
    if words[:1] == ["gather"]:  # tables, whose rows are found and worked on
        words = ["embed", *(w for w in words[-1:] if w != "gather")]
    if len(words) > 4:
        words = [*words[:2], "to", words[-1]]
    return "_".join(words)
