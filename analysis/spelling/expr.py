"""An expression of the emitted program, as a tree.

An operator is spelled once, as an ordinary function `spelling(t, n, *inputs)`. Given
PyTorch for `t` and tensors it computes; given `Printing()` and operands it builds the
tree of the same computation, whose leaves are graph values, sizes and layers. Questions
are put to the tree, with `match`, `callee` and `nodes`: its text is made last.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ..graph.dims import Dim
from ..literals import literal

# How tightly an expression binds, in Python's own order. LOWEST are conditionals.
LOWEST, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT = range(9)
ADD, MUL, UNARY, POWER, ATOM = range(9, 14)

_BINARY = {
    **{"or": OR, "and": AND},
    **dict.fromkeys(("<", ">", "<=", ">=", "==", "!=", "is", "is not"), COMPARE),
    **{"|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, "<<": SHIFT, ">>": SHIFT},
    **{"+": ADD, "-": ADD, "*": MUL, "/": MUL, "//": MUL, "%": MUL, "@": MUL},
    "**": POWER,
}
_UNARY = {**{"-": UNARY, "~": UNARY, "not ": NOT, "*": BIT_OR}}

_Operator = Callable[["Expr", Any], "Expr"]


def _binary(symbol: str) -> tuple[_Operator, _Operator]:
    """The method of an operator, and its reflected twin."""
    return (
        lambda self, other: Binary(self, spell(other), label=symbol),
        lambda self, other: Binary(spell(other), self, label=symbol),
    )


class Expr:
    """A node of the tree; immutable.

    `operands` are what it is made of, in the order of the text; `label` is what else
    there is to it: a symbol, a name, keywords. Operators, calls, attributes and
    subscripts build larger expressions.
    """

    __slots__ = ("_leaves", "label", "operands")
    __match_args__: tuple[str, ...] = ("operands", "label")
    __array_ufunc__ = None  # NumPy scalars on the left leave the operator to us
    binds = ATOM
    # How tightly the first operand, and each other one, must bind to stand bare.
    _bare = LOWEST, LOWEST

    def __init__(self, *operands: Expr, label: Any = None) -> None:
        self.operands, self.label = operands, label
        self._leaves: tuple[Leaf, ...] | None = None  # once they were asked for

    def _text(self, operands: list[str]) -> str:
        """The source text, of those of the operands."""
        return str(self.label)

    def _of(self, *operands: Expr) -> Expr:
        """The same of other operands."""
        return type(self)(*operands, label=self.label)

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(name)
        return Attribute(self, label=name)

    def __call__(self, *args: Any, **kwargs: Any) -> Expr:
        return Call(self, *map(spell, (*args, *kwargs.values())), label=tuple(kwargs))

    def __getitem__(self, key: Any) -> Expr:
        items = key if isinstance(key, tuple) else (key,)
        return Subscript(self, *map(_subscript, items))

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError("an Expr can't be unpacked; return it whole")

    def __bool__(self) -> bool:
        raise TypeError("an Expr has no truth value; decide on facts of the node")

    __add__, __radd__ = _binary("+")
    __sub__, __rsub__ = _binary("-")
    __mul__, __rmul__ = _binary("*")
    __truediv__, __rtruediv__ = _binary("/")
    __floordiv__, __rfloordiv__ = _binary("//")
    __mod__, __rmod__ = _binary("%")
    __matmul__, __rmatmul__ = _binary("@")
    __pow__, __rpow__ = _binary("**")
    __and__, __rand__ = _binary("&")
    __or__, __ror__ = _binary("|")
    __xor__, __rxor__ = _binary("^")
    __lshift__, __rlshift__ = _binary("<<")
    __rshift__, __rrshift__ = _binary(">>")
    __lt__, __gt__ = _binary("<")[0], _binary(">")[0]
    __le__, __ge__ = _binary("<=")[0], _binary(">=")[0]
    __eq__ = _binary("==")[0]  # type: ignore[assignment]
    __ne__ = _binary("!=")[0]  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __neg__(self) -> Expr:
        return Unary(self, label="-")

    def __invert__(self) -> Expr:
        return Unary(self, label="~")


class Name(Expr):
    """A name that the emitted file knows, dotted where a module has it: `F.relu`.

    In a kernel it may be finished source text, which binds less tightly than a name.
    """

    __slots__ = ("binds",)
    __match_args__ = ("label",)

    def __init__(self, text: str, binds: int = ATOM) -> None:
        super().__init__(label=text)
        self.binds = binds


class Literal(Expr):
    """The number, string, True, None or `...` that is its label; `text` is printed."""

    __slots__ = ("binds", "text")
    __match_args__ = ("label",)

    def __init__(self, value: Any) -> None:
        super().__init__(label=value)
        self.text = "..." if value is ... else literal(value)
        self.binds = UNARY if self.text[0] == "-" else ATOM

    def _text(self, operands: list[str]) -> str:
        return self.text


class Attribute(Expr):
    """`x.label`"""

    __slots__ = ()
    _bare = ATOM, ATOM

    def _text(self, operands: list[str]) -> str:
        return f"{operands[0]}.{self.label}"


class Call(Expr):
    """`function(*args, **options)`; the label has the names of the last operands."""

    __slots__ = ()
    _bare = ATOM, LOWEST

    def _text(self, operands: list[str]) -> str:
        for i, keyword in enumerate(self.label, len(operands) - len(self.label)):
            operands[i] = f"{keyword}={operands[i]}"
        return f"{operands[0]}({', '.join(operands[1:])})"


class Subscript(Expr):
    """`x[items]`"""

    __slots__ = ()
    _bare = ATOM, LOWEST

    def _of(self, *operands: Expr) -> Expr:
        """Axes that are added to a slice are added by the same brackets."""
        inner, *items = operands
        parts = inner.operands[1:] if isinstance(inner, Subscript) else ()
        is_sliced = parts and all(isinstance(part, Slice) for part in parts)
        whole = [isinstance(item, Slice) and not item.operands for item in items]
        added = [isinstance(item, Literal) and item.label is None for item in items]
        if not is_sliced or not all(map(operator.or_, whole, added)):
            return super()._of(*operands)
        left = iter(parts)
        both = [
            next(left, item) if is_whole else item
            for item, is_whole in zip(items, whole, strict=True)
        ]
        return Subscript(inner.operands[0], *both, *left)

    def _text(self, operands: list[str]) -> str:
        return f"{operands[0]}[{', '.join(operands[1:])}]"


class Slice(Expr):
    """`start:stop:step` in a subscript; the label says which of them are written."""

    __slots__ = ()

    def _text(self, operands: list[str]) -> str:
        todo = iter(operands)
        start, stop, step = (next(todo) if given else "" for given in self.label)
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


class Unary(Expr):
    """`-x`, `~x`, `not x`, `*x`"""

    __slots__ = ()

    @property
    def binds(self) -> int:  # type: ignore[override]
        """How tightly its symbol binds, in Python's order."""
        return _UNARY[self.label]

    @property
    def _bare(self) -> tuple[int, int]:  # type: ignore[override]
        return self.binds, self.binds

    def _text(self, operands: list[str]) -> str:
        return f"{self.label}{operands[0]}"

    def _of(self, *operands: Expr) -> Expr:
        return ~operands[0] if self.label == "~" else super()._of(*operands)


class Binary(Expr):
    """`left symbol right`: arithmetic, comparisons, `is`, `and`."""

    __slots__ = ()

    @property
    def binds(self) -> int:  # type: ignore[override]
        """How tightly its symbol binds, in Python's order."""
        return _BINARY[self.label]

    @property
    def _bare(self) -> tuple[int, int]:  # type: ignore[override]
        # Comparisons chain in Python (a < b < c), so neither side may hold a bare one;
        # powers are read from the right.
        if self.label == "**":
            return ATOM, UNARY
        return self.binds + (self.binds == COMPARE), self.binds + 1

    def __invert__(self) -> Expr:  # of numbers that are none, != is true too
        symbol = self.label
        return (
            Binary(*self.operands, label="!=")
            if symbol == "=="
            else Unary(self, label="~")
        )

    def _text(self, operands: list[str]) -> str:
        return f"{operands[0]} {self.label} {operands[1]}"


class Conditional(Expr):
    """`value if condition else other`: Conditional(value, condition, other)."""

    __slots__ = ()
    binds = LOWEST
    _bare = LOWEST + 1, LOWEST + 1

    def _text(self, operands: list[str]) -> str:
        value, condition, other = operands
        return f"{value} if {condition} else {other}"


class Tuple(Expr):
    """`(a, b)`"""

    __slots__ = ()

    def _text(self, operands: list[str]) -> str:
        inner = ", ".join(operands)
        return f"({inner},)" if len(operands) == 1 else f"({inner})"


class List(Expr):
    """`[a, b]`, or `[a] * 4` of one value four times"""

    __slots__ = ()

    def _text(self, operands: list[str]) -> str:
        meant = {x.meant if isinstance(x, Ref) else x for x in self.operands}
        if len(operands) > 3 and len(meant) == 1:
            return f"[{operands[0]}] * {len(operands)}"
        return f"[{', '.join(operands)}]"


class ExpressionList(Expr):
    """`a, b`, to the right of `return` and `=`; one alone is itself."""

    __slots__ = ()

    def _text(self, operands: list[str]) -> str:
        return ", ".join(operands)


class Leaf(Expr):
    """What a rendering must name, or a planner may exchange."""

    __slots__ = ()
    operands, label = (), None

    def __init__(self) -> None:
        pass  # what all leaves have stands above

    @property
    def meant(self) -> object:
        """What it stands for, as others of its type may."""
        return self


class Ref(Leaf):
    """A value of the graph: a variable, an inlined producer, or a member."""

    __slots__ = ("value",)

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    @property
    def meant(self) -> object:
        return self.value


class DimOf(Leaf):
    """A symbolic size, e.g. `batch` or `past + 1`; read off a tensor when used."""

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self.dim = dim


class DeviceOf(Leaf):
    """The device the function works on: that of its first tensor argument."""

    __slots__ = ()


class HelperRef(Leaf):
    """A function that is copied into the emitted module when used."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @property
    def meant(self) -> object:
        return self.function


@dataclass(frozen=True)
class Function:
    """A function of PyTorch as a value, which is equal to itself: F.relu."""

    text: str


def spell(value: Any) -> Expr:
    """An Expr as it is; anything else as a literal, tuples and lists item by item."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Function):
        return Name(value.text)
    if isinstance(value, (tuple, list)):
        return (List if isinstance(value, list) else Tuple)(*map(spell, value))
    return Literal(value)


def _subscript(item: Any) -> Expr:
    if not isinstance(item, slice):
        return spell(item)
    bounds = item.start, item.stop, item.step
    written = (spell(bound) for bound in bounds if bound is not None)
    return Slice(*written, label=tuple(bound is not None for bound in bounds))


def nodes(expr: Expr) -> Iterator[Expr]:
    """The expression and all that it is made of, from left to right, with repeats."""
    todo = [expr]
    while todo:
        expr = todo.pop()
        yield expr
        todo += expr.operands[::-1]


def leaves(expr: Expr) -> tuple[Leaf, ...]:
    """The leaves from left to right, with repeats."""
    if isinstance(expr, Leaf):
        return (expr,)
    if expr._leaves is None:
        expr._leaves = tuple([x for x in nodes(expr) if isinstance(x, Leaf)])
    return expr._leaves


def helpers(exprs: Iterable[Expr]) -> dict[Callable[..., Any], str]:
    """The functions that expressions call, with their names, in order."""
    found = (leaf for expr in exprs for leaf in leaves(expr))
    called = [leaf.function for leaf in found if isinstance(leaf, HelperRef)]
    return {function: function.__name__ for function in called}


def callee(expr: Expr) -> str:
    """What is called: `F.relu`, a helper's name, `.roll` of x.roll(1); else ''."""
    match expr:
        case Call((Name(text), *_)):
            return str(text)
        case Call((Attribute(_, name), *_)):
            return f".{name}"
        case Call((HelperRef() as helper, *_)):
            return str(helper.function.__name__)
    return ""


def callees(expr: Expr) -> list[str]:
    """What is called anywhere in an expression, each as `callee` writes it."""
    return [name for node in nodes(expr) if (name := callee(node))]


def same(a: Expr, b: Expr) -> bool:
    """Whether two expressions do the same with what their leaves stand for."""

    def hole(column: tuple[Expr, ...]) -> Expr | None:
        x, y = column
        leaves = isinstance(x, Leaf) and isinstance(y, Leaf) and type(x) is type(y)
        return x if leaves and x.meant is y.meant else None

    return a is b or generalised((a, b), hole) is not None


def uncast(expr: Expr) -> Expr:
    """What `.to(dtype)` or `.half()` is called on, or the expression itself."""
    called = expr.operands[0] if isinstance(expr, Call) else expr
    is_cast = isinstance(called, Attribute) and called.label in ("to", "half")
    return called.operands[0] if is_cast else expr


def exchange(expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """The same with each node exchanged where `replace` returns an Expr.

    It sees outer nodes before what they are made of, and that from left to right.
    """
    found = replace(expr)
    if found is not None:
        return found
    operands = [exchange(operand, replace) for operand in expr.operands]
    if all(map(operator.is_, operands, expr.operands)):
        return expr
    return expr._of(*operands)


def generalised(
    exprs: Sequence[Expr], hole: Callable[[tuple[Expr, ...]], Expr | None]
) -> Expr | None:
    """The least general expression that all of these are instances of.

    Where they part, and in the place of leaves, stands what `hole` makes of the parts,
    from left to right; None if it makes nothing of some.
    """
    first = exprs[0]
    own = {(type(e), len(e.operands), own_label(e)) for e in exprs}
    if len(own) > 1 or isinstance(first, Leaf):
        return hole(tuple(exprs))
    operands = []
    for column in zip(*(e.operands for e in exprs), strict=True):
        operand = generalised(column, hole)
        if operand is None:
            return None
        operands.append(operand)
    if all(map(operator.is_, operands, first.operands)):
        return first
    return first._of(*operands)


def own_label(expr: Expr) -> object:
    """What tells an expression from another one of the same operands."""
    if isinstance(expr, Literal):
        return expr.text
    return id(expr.label) if isinstance(expr.label, Expr) else expr.label


def substitute(expr: Expr, replace: Callable[[Leaf], Expr | None]) -> Expr:
    """The same expression with each leaf exchanged where `replace` returns an Expr."""
    return exchange(expr, lambda x: replace(x) if isinstance(x, Leaf) else None)


def renamed(expr: Expr, values: Mapping[Any, ir.Value | Expr]) -> Expr:
    """The same with another value, or an expression, for those that have one."""

    def other(leaf: Leaf) -> Expr | None:
        found = values.get(leaf.value) if isinstance(leaf, Ref) else None
        return found if found is None or isinstance(found, Expr) else Ref(found)

    return substitute(expr, other)


def joined(expr: Expr, by: Collection[str] = ("torch.cat",)) -> tuple[Expr, ...]:
    """The items of the list that `torch.cat` joins; none of other expressions."""
    match expr:
        case Call((Name(), List() as whole, *_)) if callee(expr) in by:
            return whole.operands
    return ()


def depth(expr: Expr) -> int:
    """How many calls are nested in each other at the deepest place."""
    return isinstance(expr, Call) + max(map(depth, expr.operands), default=0)


def render(expr: Expr, name: Callable[[Leaf], str] | None = None) -> str:
    """Source text; `name` gives the text of every leaf but a HelperRef."""
    if isinstance(expr, Leaf):
        if isinstance(expr, HelperRef):
            return expr.function.__name__
        if name is None:
            raise ValueError("this expression holds graph values that have no name yet")
        return name(expr)
    texts = []
    least, others = expr._bare
    for operand in expr.operands:
        text = render(operand, name)
        texts.append(text if operand.binds >= least else f"({text})")
        least = others
    return expr._text(texts)


_SAME = """float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64
bool complex64 complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz
float8_e5m2fnuz""".split()
# ONNX element type -> name in torch. What is missing has no torch dtype. Types of less
# than 8 bits are held by the smallest type that has all their numbers.
TORCH_DTYPES: dict[ir.DataType, str] = {
    **{ir.DataType[name.upper().replace("_", "")]: name for name in _SAME},
    **{ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"},
    ir.DataType.FLOAT8E8M0: "float8_e8m0fnu",
    **dict.fromkeys((ir.DataType.INT4, ir.DataType.INT2), "int8"),
    **dict.fromkeys((ir.DataType.UINT4, ir.DataType.UINT2), "uint8"),
    **dict.fromkeys((ir.DataType.FLOAT4E2M1, ir.DataType.FLOAT6E2M3), "float8_e4m3fn"),
    ir.DataType.FLOAT6E3M2: "float8_e4m3fn",
}


class Names:
    """Stands in for a module: Names("F").relu(x) prints F.relu(x)."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Expr:
        return Name(f"{self._prefix}.{name}")


class Printing(Names):
    """`t` of a spelling that prints: t.relu is `torch.relu`, t.F.gelu is `F.gelu`."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.F, self.math, self.np = Names("F"), Names("math"), Names("np")

    @property
    def device(self) -> Expr:
        """That of the first tensor argument of the function that is written."""
        return DeviceOf()

    def dtype(self, dtype: ir.DataType) -> Expr:
        """`torch.float32`; raises KeyError for a type that torch lacks."""
        return Name(f"torch.{TORCH_DTYPES[dtype]}")

    def helper(self, function: Callable[..., Any]) -> Any:
        """The function by its name; it is copied into the emitted module."""
        return HelperRef(function)
