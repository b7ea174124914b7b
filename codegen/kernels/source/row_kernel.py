"""The kernel of a program, operator by operator, and the formula that it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from ....analysis.graph.traversal import trimmed
from ....analysis.ops.helpers import triton as helpers_triton
from ....analysis.ops.triton.elementwise import FLOATS, Language, number, pointwise
from ....analysis.ops.triton.rows import reduced_axes
from ....analysis.spelling.expr import (
    ATOM,
    Binary,
    Call,
    Expr,
    HelperRef,
    Name,
    Ref,
    helpers,
    leaves,
    renamed,
    render,
    same,
)
from ..layout.channel_groups import GroupLayout
from ..layout.layout import Layout
from ..layout.permuted import OrderedLayout
from ..layout.reshaped import ReshapedLayout
from ..program.column_reductions import is_transpose
from ..program.optional_operands import either
from ..program.program import Argument, KernelProgram, NoKernel, Operation
from .names import Wording

SHORT = 36  # columns of what is spelled where it is read


def is_short(plain: Expr, text: str, inner: Mapping[ir.Value, Expr]) -> bool:
    """Whether it is spelled where it is read: no call of a call is."""
    read = [leaf.value for leaf in leaves(plain) if isinstance(leaf, Ref)]
    nested = isinstance(plain, Call) and any(value in inner for value in read)
    return len(text) <= SHORT and not nested


def _over_what(program: KernelProgram, op: Operation) -> str:
    """What a norm of channels goes over, or a reduction of axes apart."""
    if program.columns is not None and program.columns.apart:
        *axes, last = map(str, reduced_axes(op.view) or ())
        return f"axes {', '.join(axes)} and {last}"
    if not program.groups:
        return ""
    if program.groups == 1:
        return "all channels of a sample"
    one_each = program.groups == program.space[1]
    return (
        "each channel" if one_each else f"each of {program.groups} groups of channels"
    )


WIDTH = 76  # columns of a line in a kernel
LEAST = "-(2**31)"  # below the order of all floats


def as_stored(name: str, text: str) -> str:
    """A float as it is read again from the tensor that it is stored in."""
    return f"{text}.to({name}_ptr.dtype.element_ty).to(tl.float32)"


class KernelBody:
    """The body of a kernel as it grows; what operators over rows see of it."""

    def __init__(self, source: Source) -> None:
        self.tl = Language("tl.")
        self.count = Name("n_cols")
        self.eps = Name("eps")
        self.source = source
        self.lines: list[str] = []
        self.zero: set[str] = set()  # rows whose lanes past the end are 0
        self.down: dict[str, Any] = {"axis": 0}  # how a reduction goes

    def define(self, name: str, text: str, note: str = "") -> None:
        """A line that names a value."""
        self.lines.append(f"{name} = {text}" + f"  # {note}" * bool(note))

    def turn(self, name: str, value: str) -> None:
        """Say that a value is stored in another order of axes."""
        self.define(name, value, "Transpose")

    def let(self, name: str, value: Expr, zeroed: bool = False) -> Expr:
        """Name a value by a line of its own; `zeroed` past the end of the row."""
        name = self.source.wording.free(name)
        if zeroed:
            value = self.tl.where(Name("mask"), value, 0.0)
            self.zero.add(name)
        self.define(name, self.source.text(value))
        return Name(name)

    def sum(self, x: Expr) -> Expr:
        """The sum of a row."""
        return self.tl.sum(self.summed(x), **self.down)

    def summed(self, x: Expr) -> Expr:
        """A row, or its square, whose lanes past the end hold 0."""
        match x:
            case Binary((a, b), "*") if same(a, b):
                row = a
            case _:
                row = x
        if not row.operands and self.source.text(row) in self.zero:
            return x
        return self.tl.where(Name("mask"), x, 0.0)

    def max(self, x: Expr) -> Expr:
        """The largest of a row, of which none is NaN."""
        return self.tl.max(self.masked(x, 'float("-inf")'), **self.down)

    def largest(self, x: Expr) -> Expr:
        """The largest of a row; NaN if one is."""
        return self._combined(helpers_triton.larger, x, 'float("-inf")', "largest")

    def smallest(self, x: Expr) -> Expr:
        """The smallest of a row; NaN if one is."""
        return self._combined(helpers_triton.smaller, x, 'float("inf")', "smallest")

    def prod(self, x: Expr) -> Expr:
        """The product of a row."""
        return self._combined(helpers_triton.times, x, "1.0", "product")

    def cumsum(self, x: Expr, **options: bool) -> Expr:
        """The sums up to each element of a row; `options` are tl.cumsum's."""
        x = self.tl.where(Name("mask"), x, 0.0)
        return self.tl.cumsum(x, axis=0, **options)

    def argmax(self, order: Expr) -> Expr:
        """The place of the largest; `order` are integers that are ordered alike."""
        order = self.tl.where(Name("mask"), order, Name(LEAST))
        return self.tl.argmax(order, axis=0)

    def _combined(
        self, function: Callable[..., Any], x: Expr, start: str, name: str
    ) -> Expr:
        """Of numbers that a function joins, from `start` on; `name` is the result's."""
        combined = {**self.down, "combine_fn": HelperRef(function)}
        return self.tl.reduce(self.masked(x, start), **combined)

    def masked(self, x: Expr, start: str) -> Expr:
        """A row whose lanes past the end hold `start`."""
        return self.tl.where(Name("mask"), x, Name(start))


class Source:
    """The lines of a kernel that has rows, or elements one by one."""

    def __init__(self, program: KernelProgram, wording: Wording | None = None) -> None:
        self.program, self.layout = program, self.make_layout(program)
        self.wording = wording or Wording(program, self.layout)
        self.names = self.wording.names
        self.helpers: dict[Callable[..., Any], None] = {}
        self.eps: list[tuple[str, float]] = []
        self.held: dict[ir.Value, str] = {}  # what loads tensors that may be None

    def make_layout(self, program: KernelProgram) -> Layout:
        """Where the elements of this program's tensors lie."""
        if program.columns is not None:
            return OrderedLayout(program)
        if program.reshapes:
            return ReshapedLayout(program)
        return GroupLayout(program) if program.groups else Layout(program)

    def name(self, leaf: Any) -> str:
        """The variable that holds a value; NoKernel where there is none."""
        if isinstance(leaf, Ref) and leaf.value in self.names:
            return self.names[leaf.value]
        raise NoKernel("an operand that has no name in a kernel")

    def text(self, expr: Expr) -> str:
        """An expression as Python; helpers that it calls are noted for the page."""
        self.helpers |= dict.fromkeys(helpers([expr]))
        return render(expr, self.name)

    # ---- the kernel

    def _operands(self, op: Operation) -> list[Any]:
        return [
            None if o is None else Ref(o) if isinstance(o, ir.Value) else number(o)
            for o in trimmed(op.operands)
        ]

    def body(self) -> list[str]:
        """The lines of the kernel; NoKernel where some operator can't be written."""
        lines = KernelBody(self)
        plain = [a for a in self.layout.arguments if a.role != "table"]
        loads = [(a, self.layout.offset(a)) for a in plain]
        for argument, offset in loads:
            load = self._load(argument, offset, lines)
            if argument.optional:
                self.held[argument.value] = load
            else:
                lines.lines.append(load)
        self._operations(lines)
        indices = self.layout.index_lines([*(o for _, o in loads), *self._places()])
        return [*self._start(), *indices, *lines.lines, *self._stores()]

    def _places(self) -> list[str]:
        """Where results are stored, but for those that are as they are found."""
        results = self.program.results
        return [self.layout.stored(r) for r in results if not self.program.top(r)]

    def _operations(self, lines: KernelBody) -> None:
        """One after another; a Transpose only says in which order axes are stored."""
        own = dict(self.names)
        for op in self.program.operations:
            if not is_transpose(op):
                self._operation(op, lines)
                continue
            operand = op.operands[0]
            assert isinstance(operand, ir.Value)
            if op.result in self.program.results:
                lines.turn(self.names[op.result], self.names[operand])
            else:
                self.names[op.result] = self.names[operand]
        self.names = own

    def _start(self) -> list[str]:
        if not self.layout.rows:
            kind = "tl.int64" if self.layout.sized else "OFFSETS"
            where = f"tl.program_id(0){f'.to({kind})' if self.layout.wide else ''}"
            return [
                f"offsets = {where} * BLOCK + tl.arange(0, BLOCK)",
                "mask = offsets < n_elements",
            ]
        return [
            "row = tl.program_id(0).to(tl.int64)  # row * N can exceed 2**31",
            "cols = tl.arange(0, BLOCK)",
            "mask = cols < n_cols",
        ]

    def _load(self, argument: Argument, offset: str, lines: KernelBody) -> str:
        name = self.names[argument.value]
        where = f"{name}_ptr + {offset}" if offset else f"{name}_ptr"
        is_float = argument.value.dtype in FLOATS
        masked = self.layout.loads_row(argument) if self.layout.rows else bool(offset)
        options = ", mask=mask" if masked else ""
        if masked and self.layout.rows:
            options += ", other=0.0" if is_float else ", other=0"
            lines.zero.add(name)
        cast = ".to(tl.float32)" if is_float else ""
        if argument.role == "indices":
            cast = ".to(tl.int64)"  # times the size of a row
        return f"{name} = tl.load({where}{options}){cast}"

    def _operation(self, op: Operation, lines: KernelBody) -> None:
        kind, name = op.view.node.op_type, self.names[op.result]
        before = len(lines.lines)
        if op.top:
            self._top_k(op, lines)
            return
        made = self._made(op, lines)
        if op.kept is not None:
            self._optional(op, op.kept, made, lines)
            return
        text = self.text(made)
        if self._keeps_zero(op, lines):
            lines.zero.add(name)
        note = kind
        if self._is_read_on(op):
            text = as_stored(name, text if made.binds == ATOM else f"({text})")
            note = f"{kind}, rounded as it is stored"
        line = f"{name} = {text}"
        alone = len(lines.lines) == before and len(f"{line}  # {note}") <= WIDTH
        if alone:
            lines.lines.append(f"{line}  # {note}")
        else:
            lines.lines.insert(before, f"\n# {note}")
            lines.lines.append(line)

    def _optional(
        self, op: Operation, kept: ir.Value, made: Expr, lines: KernelBody
    ) -> None:
        """What is computed where the other tensor is one, and not None."""
        (other,) = (o for o in op.operands if isinstance(o, ir.Value) and o is not kept)
        name = self.names[op.result]
        lines.lines += [
            f"{name} = {self.names[kept]}",
            f"if {self.names[other]}_ptr is not None:",
            f"    {self.held[other]}",
            f"    {name} = {self.text(made)}  # {op.view.node.op_type}",
        ]
        if self._keeps_zero(op, lines):
            lines.zero.add(name)
        if self._is_read_on(op):
            rounded = as_stored(name, name)
            lines.lines.append(f"{name} = {rounded}  # as it is stored")

    def _is_read_on(self, op: Operation) -> bool:
        """Whether a float is stored, and read too."""
        read = any(op.result in o.operands for o in self.program.operations)
        stored = op.result in self.program.results
        return stored and read and op.result.dtype in FLOATS

    def _made(self, op: Operation, lines: KernelBody) -> Expr:
        operands = self._operands(op)
        if op.lookup:
            return self._found(op, lines)
        if op.row is not None:
            if op.row.eps is not None:
                lines.eps = Name(self._eps(op))
            return op.row.lines(lines, op.view, *operands)
        spelling = pointwise(op.view.node)
        assert spelling is not None
        made: Expr = spelling.spell(lines.tl, op.view, *operands)
        return made

    def _found(self, op: Operation, lines: KernelBody) -> Expr:
        """A row of a table; of one outside of the table nothing is read."""
        table, at = (self.names[o] for o in trimmed(op.operands))
        where = f"{table}_ptr + {at} * n_cols + cols"
        inside = f"({at} >= 0) & ({at} < n_{table})"
        count = self.wording.free("n_found")
        lines.lines.append(f"{count} = tl.where({inside}, n_cols, 0)")
        lines.zero.add(self.names[op.result])
        cast = ".to(tl.float32)" if op.result.dtype in FLOATS else ""
        return Name(f"tl.load({where}, mask=cols < {count}, other=0){cast}")

    def _top_k(self, op: Operation, lines: KernelBody) -> None:
        """Stores each as it is found; the first of equals comes first."""
        assert op.row is not None
        (x,) = (o for o in op.operands if isinstance(o, ir.Value))
        lines.lines.append("")
        order = self.text(op.row.lines(lines, op.view, Ref(x)))
        free = self.wording.free
        left, at, place = free("left"), free("at"), free("place")
        largest, found = free("largest"), free("found")
        value = f"tl.sum(tl.where(cols == {at}, {self.names[x]}, 0.0), axis=0)"
        stored = {0: value, 1: at}
        lines.lines += [
            f"{left} = mask",
            f"for {place} in range({op.top}):  # TopK: the largest of what is left",
            f"    {largest} = tl.max(tl.where({left}, {order}, {LEAST}), axis=0)",
            f"    {found} = {left} & ({order} == {largest})",
            f"    {at} = tl.min(tl.where({found}, cols, n_cols), axis=0)",
            *(
                f"    tl.store({self.names[r]}_ptr + row * {op.top} + {place},"
                f" {stored[r.index() or 0]})"
                for r in op.results
            ),
            f"    {left} = {left} & (cols != {at})",
        ]

    def _keeps_zero(self, op: Operation, lines: KernelBody) -> bool:
        names = [self.names[o] for o in op.operands if isinstance(o, ir.Value)]
        zero = [name in lines.zero for name in names]
        tensors = len(names) == len(trimmed(op.operands))
        spelling = pointwise(op.view.node)
        keeps = spelling is not None and spelling.zero
        return keeps and tensors and all(zero)

    def _eps(self, op: Operation) -> str:
        label = "eps" if not self.eps else self.wording.free("eps")
        self.eps.append((label, op.eps))
        return label

    def _stores(self) -> list[str]:
        results = (r for r in self.program.results if not self.program.top(r))
        lines = [self._store(result) for result in results]
        return ["", *lines] if lines else []

    def _store(self, result: ir.Value) -> str:
        name = self.names[result]
        where = " + ".join(filter(None, (f"{name}_ptr", self.layout.stored(result))))
        options = "" if self.layout.small(result) else ", mask=mask"
        return f"tl.store({where}, {name}{options})"

    # ---- around it

    def formula(self) -> list[str]:
        """One line per result; what is read once stands where it is read."""
        lines, inner = [], dict[ir.Value, Expr]()
        language = Language("")
        for op in self.program.operations:
            uses = sum(o.operands.count(op.result) for o in self.program.operations)
            operands = [
                inner.get(e.value, e) if isinstance(e, Ref) else e
                for e in self._operands(op)
            ]
            if op.lookup:
                table, at = (self.names[o] for o in trimmed(op.operands))
                inner[op.result] = Name(f"{table}[{at}]")
                continue
            if op.taps is not None and op.twin is not None:
                made = op.twin(*(e for e in operands if e is not None))
                lines.append(f"{self.names[op.result]} = {self.text(made)}")
                continue
            if op.kept is not None:
                made = either(op.view.node.op_type, op.kept, op.operands)
                lines.append(f"{self.names[op.result]} = {self.text(made)}")
                continue
            if op.pieces or op.gathers:
                results = ", ".join(self.names[r] for r in op.results)
                made = renamed(op.expr, inner)
                text = render(made, self.name)
                alone = uses == 1 and len(op.results) == 1
                if alone and is_short(op.expr, text, inner):
                    inner[op.result] = made
                else:
                    lines.append(f"{results} = {text}")
                continue
            if op.product is not None:
                text = self.product_formula(op, self.text(operands[0]))
                made = Name(text, ATOM if op.product.pixels else 0)
            elif op.row is not None:
                names = [self.text(e) for e in operands if e is not None]
                plain = [n if n.isidentifier() else f"({n})" for n in names]
                formula = op.row.formula.format(*plain)
                if len(plain) > 2:
                    formula += f" + {plain[2]}"
                made = Name(formula, binds=0)
            else:
                spelling = pointwise(op.view.node)
                assert spelling is not None
                made = spelling.spell(language, op.view, *operands)
            text = self.text(made)
            repeated = uses == 1 and self._reads_twice(op)
            over = _over_what(self.program, op) if op.row is not None else ""
            short = len(text) <= SHORT and not repeated and not over
            if op.top:
                results = ", ".join(self.names[r] for r in op.results)
                lines.append(f"{results} = {text.removesuffix(')')}, {op.top})")
            elif uses == 1 and short and op.result not in self.program.results:
                inner[op.result] = made
            else:
                lines.append(f"{self.names[op.result]} = {text}")
            if over:
                lines.append(f"    over {over}")
        return lines

    def product_formula(self, op: Operation, x: str) -> str:
        """The product of `x` with the weight, as the docstring has it."""
        raise NoKernel("a product in a kernel of another kind")

    def _reads_twice(self, op: Operation) -> bool:
        """Whether the reader's own formula names its operand more than once."""
        reader = next(o for o in self.program.operations if op.result in o.operands)
        spelling = pointwise(reader.view.node)
        twice = spelling is not None and spelling.repeats
        return twice or reader.row is not None or reader.kept is not None
