"""What stands around a kernel: its PyTorch twin, and the function that launches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ....analysis.ops.triton import KERNEL_OPS
from ....analysis.ops.triton.elementwise import pointwise
from ....analysis.spelling.expr import (
    TORCH_DTYPES,
    Expr,
    Name,
    Names,
    Ref,
    helpers,
    leaves,
    renamed,
    render,
)
from ..program.optional_operands import either
from ..program.program import (
    Argument,
    KernelProgram,
    NoKernel,
    Operation,
    is_row_number,
)
from ..source.indexed_kernel import IndexedSource
from ..source.long_rows import LoopedSource
from ..source.names import title
from ..source.row_kernel import Source, is_short


@dataclass(frozen=True)
class Parameter:
    """One of a kernel: its comment there, and what its launcher passes for it.

    Nothing is passed for one that a starred argument before it covers, or that an
    option sets. `constant` ones are known when the kernel is compiled.
    """

    name: str
    note: str = ""
    given: str = ""
    constant: bool = False

    def __str__(self) -> str:
        """Its line in the kernel."""
        kind = ": tl.constexpr" * self.constant
        return f"{self.name}{kind},{f'  # {self.note}' if self.note else ''}"


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
    programs: str  # how many, along each axis of the grid; {tile} is for its sides
    parameters: tuple[Parameter, ...]  # of the kernel
    options: tuple[tuple[str, str], ...]  # of the launch: warps, stages
    body: tuple[str, ...]
    helpers: tuple[Callable[..., Any], ...] = ()  # of the kernel
    functions: tuple[Callable[..., Any], ...] = ()  # of its twin
    allocated: tuple[str, ...] = ()  # beside the results
    tile: str = ""  # what gives the blocks and options of a product, as a dict
    starred: str = ""  # a dict of further options
    after: tuple[str, ...] = ()  # what is launched behind it
    optional: tuple[str, ...] = ()  # tensors that may be None

    @property
    def made(self) -> list[str]:
        """What the launcher makes beside the results, line by line."""
        return [*self.allocated, *([f"tile = {self.tile}"] if self.tile else [])]

    @property
    def grid(self) -> str:
        """How many programs there are, as the launch is given it."""
        return self.programs.format(tile="**tile")

    @property
    def keywords(self) -> list[tuple[str, str]]:
        """What is passed by name: constants of the kernel, and options."""
        constants = [(p.name, p.given) for p in self.parameters if p.constant]
        return [*((n, given) for n, given in constants if given), *self.options]

    @property
    def launch(self) -> list[str]:
        """The arguments of the launch."""
        plain = [p.given for p in self.parameters if p.given and not p.constant]
        named = [f"{name}={given}" for name, given in self.keywords]
        return [*plain, *named, *([f"**{self.starred}"] if self.starred else [])]


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
        """What writes the kernel; NoKernel where nothing can."""
        if program.indexed and program.columns is None:
            return IndexedSource(program)
        source = Source(program)
        if not source.layout.long:
            return source
        if any(a.optional for a in program.arguments.values()):
            raise NoKernel("a tensor that may be left out, and rows in parts")
        return LoopedSource(program)

    def text(self) -> KernelSource:
        """All of the kernel's source but for its name."""
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
            programs=self.grid(results[0][0]),
            parameters=tuple(self.parameters(numbers)),
            options=tuple(self.options().items()),
            body=tuple(self.body),
            helpers=tuple(self.source.helpers),
            functions=tuple(self.functions),
            allocated=tuple(self.allocated()),
            tile=self.tile(),
            starred="tile" if self.tile() else "",
            after=tuple(self.after()),
            optional=optional,
        )

    def allocated(self) -> list[str]:
        """What is made beside the results."""
        return []

    def tile(self) -> str:
        """What gives blocks and options as a dict; "" where each is given alone."""
        return ""

    def passed(self, argument: Argument) -> str:
        """The tensor that the kernel is given for an argument."""
        return self.names[argument.value]

    def after(self) -> list[str]:
        """What is launched behind the kernel."""
        return []

    def copies(self) -> list[str]:
        """Lines that copy tensors which the kernel can't read as they lie."""
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
        """Lines that read the sizes that the kernel is passed off the tensors."""
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
        """How many programs are launched, as a tuple; {tile} is for a tile's sides."""
        if not self.layout.rows:
            return f"(triton.cdiv({result}.numel(), ELEMENTS),)"
        whole = f"{self.names[self.base.value]}" if self.base else "shape"
        return f"({whole}.numel() // n_cols,)"

    def options(self) -> dict[str, str]:
        """Of the launch: how many warps a program has, and how far it loads ahead."""
        if not self.layout.rows:
            return {}
        return {"num_warps": "8" if self.layout.long else "warps(n_cols)"}

    def offset_type(self, result: str) -> str:
        """Of what type offsets are; "" where the kernel says itself."""
        if self.layout.rows or self.layout.sized:
            return ""
        whole = (a for a in self.layout.arguments if not a.optional)
        given = [self.names[a.value] for a in whole]
        return f"offset_type({', '.join([*given, result])})"

    def parameters(self, numbers: tuple[str, ...]) -> list[Parameter]:
        """Those of the kernel, with what the launcher passes for them."""
        layout, result = self.layout, self.names[self.program.results[0]]
        found = self.tensors()
        if not layout.rows:
            note = " * ".join(map(layout.letter, layout.axes))
            found.append(Parameter("n_elements", note, f"{result}.numel()"))
        found += self.size_parameters()
        found += [Parameter(s, note, s) for s, (_, note) in self.further.items()]
        found += [Parameter(label, "", label) for label in numbers]
        if offsets := self.offset_type(result):
            note = "tl.int32 where no tensor is large"
            found.append(Parameter("OFFSETS", note, offsets, constant=True))
        block, note = "ELEMENTS", "elements of one program"
        if layout.rows:
            block, note = "triton.next_power_of_2(n_cols)", "power of two, at least N"
        if layout.long:
            block, note = "PART", "elements of a row at a time"
        return [*found, Parameter("BLOCK", note, block, constant=True)]

    def tensors(self) -> list[Parameter]:
        """The tensors that the kernel reads, and those that it fills."""
        found = [
            Parameter(
                f"{self.names[a.value]}_ptr",
                f"{self.letters(a)} in{', or None' if a.optional else ''}",
                self.passed(a),
            )
            for a in self.layout.arguments
        ]
        return found + [
            Parameter(
                f"{self.names[r]}_ptr", f"{self.letters_of(r)} out", self.names[r]
            )
            for r in self.program.results
        ]

    def letters(self, argument: Argument) -> str:
        """The shape of a tensor as the kernel sees it: [M, N]."""
        return self.layout.letters(argument)

    def letters_of(self, result: ir.Value) -> str:
        """The shape of a result as the kernel sees it."""
        top = self.program.top(result)
        shown = self.layout.letters(None, rows_alone=self.layout.small(result))
        return f"[M, {top}]" if top else shown

    def size_parameters(self) -> list[Parameter]:
        """The sizes that the kernel is passed."""
        letter = self.layout.letter
        return [Parameter(s, letter(axis), s) for s, axis in self.sizes.items()]

    # ---- the twin

    def reference(self) -> list[str]:
        """What is short and read once stands where it is read."""
        operations, eps = self.program.operations, iter(self.source.eps)
        made = [self.twin(op, eps) for op in operations]
        self.functions |= dict.fromkeys(helpers(made))
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
            return op.row.twin(Names("F"), op.view, Name(next(eps)[0]), *operands)
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
        if isinstance(kind, ir.DataType):
            return f", dtype=torch.{TORCH_DTYPES[kind]}"
        return f", dtype={kind}.dtype"

    def types(self, value: ir.Value) -> list[str | ir.DataType]:
        """The tensors whose type a value has, or the type that it always has."""
        if value in self.program.arguments:
            return [] if self.program.arguments[value].optional else [self.names[value]]
        op = next(o for o in self.program.operations if value in o.results)
        kind = op.view.node.op_type
        known = KERNEL_OPS.get(kind)
        if known is not None and known.dtype is not None:
            return [known.dtype]
        if op.top and value.index() == 1:
            return [ir.DataType.INT64]
        tensors = [o for o in op.operands if isinstance(o, ir.Value)]
        if kind == "Where":
            tensors = tensors[1:]
        elif pointwise(op.view.node) is None:  # what follows has a type of its own
            tensors = tensors[:1]
        # One of another type is cast as it is read.
        tensors = [tensor for tensor in tensors if tensor.dtype == value.dtype]
        if kind == "Cast" or not tensors:  # of numbers the graph says the type
            assert value.dtype is not None
            return [value.dtype]
        return [kind for tensor in tensors for kind in self.types(tensor)]


def _operators(op: Operation) -> str:
    """As they are called in the graph."""
    if op.kept is not None:
        return f"optional {op.view.node.op_type}"
    return ", ".join(node.op_type for node in op.nodes)
