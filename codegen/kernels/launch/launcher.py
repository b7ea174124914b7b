"""What stands around a kernel: its PyTorch twin, and the function that launches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ....analysis.ops.triton.elementwise import pointwise
from ....analysis.spelling.expr import (
    TORCH_DTYPES,
    Expr,
    HelperRef,
    Names,
    Ref,
    leaves,
    renamed,
    render,
    text_expr,
)
from ..program.optional_operands import either
from ..program.program import (
    Argument,
    KernelProgram,
    NoKernel,
    Operation,
    is_row_number,
)
from ..source.formulas import is_short
from ..source.indexed_kernel import IndexedSource
from ..source.long_rows import LoopedSource
from ..source.names import title
from ..source.row_kernel import Source

_TRUTH = frozenset(
    "And Equal Greater GreaterOrEqual Less LessOrEqual Not Or Xor".split()
)


@dataclass(frozen=True)
class KernelSource:
    """All that a kernel's source is made of, but for its name. Equal ones are one."""

    words: str
    arguments: tuple[str, ...]  # of the launcher, with types
    tensors: tuple[str, ...]
    names: tuple[str, ...]
    returns: str
    formula: tuple[str, ...]
    operators: str
    reference: tuple[str, ...]
    checks: tuple[tuple[str, str], ...]  # name, expected shape
    sizes: tuple[str, ...]
    copies: tuple[str, ...]  # of tensors that the kernel can't read as they lie
    fits: str
    results: tuple[tuple[str, str], ...]  # name, how it is allocated
    grid: str
    launch: tuple[str, ...]
    parameters: tuple[str, ...]  # of the kernel, with comments
    body: tuple[str, ...]
    helpers: tuple[Callable[..., Any], ...] = ()  # of the kernel
    functions: tuple[Callable[..., Any], ...] = ()  # of its twin
    made: tuple[str, ...] = ()  # what else is allocated
    after: tuple[str, ...] = ()  # what is launched behind it
    optional: tuple[str, ...] = ()  # tensors that may be None


class Launcher:
    """What is written around the kernel of one program."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self.source = self.make_source(program)
        self.body = self.source.body()  # first: it decides which sizes are passed
        self.layout, self.names = self.source.layout, self.source.names
        self.base = self.layout.base()
        self.sizes = self.layout.sizes()
        self.functions: dict[Callable[..., Any], None] = {}
        self.further = self.layout.counts(self.names)

    def make_source(self, program: KernelProgram) -> Source:
        if program.indexed and program.columns is None:
            return IndexedSource(program)
        source = Source(program)
        if not source.layout.long:
            return source
        if any(a.optional for a in program.arguments.values()):
            raise NoKernel("a tensor that may be left out, and rows in parts")
        return LoopedSource(program)

    def text(self) -> KernelSource:
        names, layout = self.names, self.layout
        tensors = tuple(names[a.value] for a in layout.arguments)
        numbers = tuple(label for label, _ in self.source.eps)
        results = tuple(map(self.result, self.program.results))
        optional = tuple(names[a.value] for a in layout.arguments if a.optional)
        types = {t: "Tensor | None" if t in optional else "Tensor" for t in tensors}
        typed = (
            *(f"{t}: {kind}" for t, kind in types.items()),
            *(f"{n}: float" for n in numbers),
        )
        checks = ((names[a.value], self.expected(a)) for a in layout.arguments)
        many = ", ".join(["Tensor"] * len(results))
        return KernelSource(
            words=title(self.program),
            arguments=typed,
            tensors=tensors,
            names=(*tensors, *numbers),
            returns="Tensor" if len(results) == 1 else f"tuple[{many}]",
            formula=tuple(self.source.formula()),
            operators=", ".join(map(_operators, self.program.operations)),
            reference=tuple(self.reference()),
            checks=tuple((name, shape) for name, shape in checks if shape),
            sizes=tuple(self.size_lines(tensors)),
            copies=tuple(self.copies()),
            fits=self.fits,
            results=results,
            grid=self.grid(results[0][0]),
            launch=(*self.given(results), *self.passed(results[0][0], numbers)),
            parameters=tuple(self.parameters(numbers)),
            body=tuple(self.body),
            helpers=tuple(self.source.helpers),
            functions=tuple(self.functions),
            made=tuple(self.made()),
            after=tuple(self.after()),
            optional=optional,
        )

    def made(self) -> list[str]:
        """What is allocated beside the results."""
        return []

    def given(self, results: tuple[tuple[str, str], ...]) -> list[str]:
        """The tensors that the kernel is given."""
        names = [self.names[a.value] for a in self.layout.arguments]
        return [*names, *(name for name, _ in results)]

    def after(self) -> list[str]:
        """What is launched behind the kernel."""
        return []

    def copies(self) -> list[str]:
        lines = []
        for argument in self.layout.arguments:
            name = self.names[argument.value]
            line = f"{name} = {name}.contiguous()"
            optional = [f"if {name} is not None:", f"    {line}"]
            lines += optional if argument.optional else [line]
        return lines

    @property
    def fits(self) -> str:
        """The condition that the kernel can be launched on tensors of these sizes."""
        if not self.layout.rows or self.layout.long:
            return ""
        top = max(op.top for op in self.program.operations)
        return f"{top} <= n_cols <= MAX_ROW" if top else "n_cols <= MAX_ROW"

    def expected(self, argument: Argument) -> str:
        """The shape that a tensor must have; "" where it is that of all others."""
        return self.layout.expected(argument, self.names)

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        lines = [
            f"{size} = {self.layout.size_text(axis, self.names)}"
            for size, axis in self.sizes.items()
        ]
        if self.base is None:
            shapes = ", ".join(f"{name}.shape" for name in tensors)
            text = f"torch.broadcast_shapes({shapes})"
            if self.further or self.program.indexed:
                text = f"torch.Size({self.layout.shape_text(self.names)})"
            lines.insert(0, f"shape = {text}")
        return lines + [f"{size} = {text}" for size, (text, _) in self.further.items()]

    def grid(self, result: str) -> str:
        if not self.layout.rows:
            return f"(triton.cdiv({result}.numel(), ELEMENTS),)"
        whole = f"{self.names[self.base.value]}" if self.base else "shape"
        return f"({whole}.numel() // n_cols,)"

    def passed(self, result: str, numbers: tuple[str, ...]) -> list[str]:
        """What the kernel is given after the tensors."""
        if not self.layout.rows:
            block = [*self.offset_type(result), "BLOCK=ELEMENTS"]
            sizes = [*self.sizes, *self.further]
            return [f"{result}.numel()", *sizes, *numbers, *block]
        if self.layout.long:
            return [*self.sizes, *numbers, "BLOCK=PART", "num_warps=8"]
        block = ["BLOCK=triton.next_power_of_2(n_cols)", "num_warps=warps(n_cols)"]
        return [*self.sizes, *self.further, *numbers, *block]

    def offset_type(self, result: str) -> list[str]:
        """Nothing where the kernel says itself, of what type offsets are."""
        if self.layout.rows or self.layout.sized:
            return []
        whole = (a for a in self.layout.arguments if not a.optional)
        given = [self.names[a.value] for a in whole]
        return [f"OFFSETS=offset_type({', '.join([*given, result])})"]

    def parameters(self, numbers: tuple[str, ...]) -> list[str]:
        layout, names = self.layout, self.names
        lines = [
            f"{names[a.value]}_ptr,  # {layout.letters(a)} in{or_none(a)}"
            for a in layout.arguments
        ]
        for result in self.program.results:
            shown = self.letters_of(result)
            lines.append(f"{names[result]}_ptr,  # {shown} out")
        if not layout.rows:
            lines.append(
                f"n_elements,  # {' * '.join(map(layout.letter, layout.axes))}"
            )
        lines += self.size_parameters()
        lines += [f"{size},  # {note}" for size, (_, note) in self.further.items()]
        lines += [f"{label}," for label in numbers]
        if self.offset_type(""):
            lines.append("OFFSETS: tl.constexpr,  # tl.int32 where no tensor is large")
        note = "power of two, at least N" if layout.rows else "elements of one program"
        note = "elements of a row at a time" if layout.long else note
        return [*lines, f"BLOCK: tl.constexpr,  # {note}"]

    def letters_of(self, result: ir.Value) -> str:
        top = self.program.top(result)
        shown = self.layout.letters(None, rows_alone=self.layout.small(result))
        return f"[M, {top}]" if top else shown

    def size_parameters(self) -> list[str]:
        return [f"{s},  # {self.layout.letter(a)}" for s, a in self.sizes.items()]

    # ---- the twin

    def reference(self) -> list[str]:
        """What is short and read once stands where it is read."""
        operations, eps = self.program.operations, iter(self.source.eps)
        made = [self.twin(op, eps) for op in operations]
        for expr in made:
            found = [e.function for e in leaves(expr) if isinstance(e, HelperRef)]
            self.functions.update(dict.fromkeys(found))
        read = [e.value for m in made for e in leaves(m) if isinstance(e, Ref)]
        inner: dict[ir.Value, Expr] = {}
        lines = []
        for op, plain in zip(operations, made, strict=True):
            expr = renamed(plain, inner)
            text = render(expr, self.source.name)
            single = len(op.results) == 1 and op.result not in self.program.results
            if single and read.count(op.result) == 1 and is_short(plain, text, inner):
                inner[op.result] = expr
                continue
            made_here = ", ".join(self.names[r] for r in op.results)
            lines.append(f"{made_here} = {text}")
        results = [self.names[r] for r in self.program.results]
        last, _, text = lines[-1].partition(" = ")
        if results == [last]:
            return [*lines[:-1], f"return {text}"]
        return [*lines, f"return {', '.join(results)}"]

    def twin(self, op: Operation, eps: Iterator[tuple[str, float]]) -> Expr:
        """An operator in PyTorch."""
        operands = [Ref(o) for o in op.operands if isinstance(o, ir.Value)]
        if op.lookup:
            return Names("F").embedding(*reversed(operands))
        if op.kept is not None:
            return either(op.view.node.op_type, op.kept, op.operands)
        if op.twin is not None:
            return op.twin(*operands)
        if op.row is not None and op.row.twin is not None:
            number = text_expr(next(eps)[0])
            return op.row.twin(Names("F"), op.view, number, *operands)
        return op.expr

    # ---- results

    def result(self, result: ir.Value) -> tuple[str, str]:
        """A result's name, and how it is allocated."""
        first = self.names[(self.base or self.layout.arguments[0]).value]
        kind = self.dtype(result, first)
        small = is_row_number(self.program, result)
        name, top = self.names[result], self.program.top(result)
        if self.base is not None and not small and not top:
            return name, f"torch.empty_like({first}{kind})"
        shape, axes = (f"{first}.shape" if self.base else "shape"), self.program.axes
        if top:
            shape = f"(*{shape}[:-1], {top})"
        elif small and len(self.program.dims(result)) == len(self.program.space):
            shape = f"(*{shape}[:-{axes}], {', '.join(['1'] * axes)})"
        elif small:
            shape = f"{shape}[:-{axes}]"
        return name, f"{first}.new_empty({shape}{kind})"

    def dtype(self, result: ir.Value, first: str) -> str:
        """The option that gives it its type; "" if `first` is a tensor of that type."""
        found = self.types(result)
        if first in found:
            return ""
        kind = found[0]
        return f", dtype={kind if kind.startswith('torch.') else f'{kind}.dtype'}"

    def types(self, value: ir.Value) -> list[str]:
        """The tensors whose type a value has, or the type that it always has."""
        if value in self.program.arguments:
            return [] if self.program.arguments[value].optional else [self.names[value]]
        op = next(o for o in self.program.operations if value in o.results)
        kind = op.view.node.op_type
        if kind in _TRUTH:
            return ["torch.bool"]
        if kind in ("ArgMax", "ArgMin") or (op.top and value.index() == 1):
            return ["torch.int64"]
        tensors = [o for o in op.operands if isinstance(o, ir.Value)]
        if kind == "Where":
            tensors = tensors[1:]
        elif pointwise(op.view.node) is None:  # what follows has a type of its own
            tensors = tensors[:1]
        if kind == "Cast" or not tensors:  # of numbers the graph says the type
            assert value.dtype is not None
            return [f"torch.{TORCH_DTYPES[value.dtype]}"]
        return [name for tensor in tensors for name in self.types(tensor)]


def or_none(argument: Argument) -> str:
    return ", or None" if argument.optional else ""


def _operators(op: Operation) -> str:
    """As they are called in the graph."""
    if op.kept is not None:
        return f"optional {op.view.node.op_type}"
    return ", ".join(node.op_type for node in op.nodes)
