"""Rules of wording: what may share a line, and which names tell something."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx_ir as ir

from ...analysis.graph.map_types import map_annotation, map_type
from ...analysis.spelling.expr import Expr, Leaf
from .assignment import LayerRef
from .identifiers import unused, variable
from .module_call import ModuleCall

GENERIC = ("x", "y", "z", "u", "v", "w", "s", "t")
LEVEL = "level"  # one map of a pyramid, in a loop over them
REBOUND = (*GENERIC, LEVEL)


class ModuleRef(Leaf):
    """A block of the module tree, printed `self.attention`."""

    __slots__ = ("run", "text")

    def __init__(self, run: ModuleCall, text: str) -> None:
        super().__init__()
        self.run, self.text = run, text


def annotation(value: ir.Value) -> str:
    """The Python type of a value in `forward`."""
    if value.meta.get("counter"):
        return "int"
    kind = map_type(value)
    return map_annotation(kind) if kind is not None else _annotated(value.type)


def _annotated(type_: ir.TypeProtocol | None) -> str:
    if isinstance(type_, ir.SequenceType):
        return f"list[{_annotated(type_.elem_type)}]"
    if isinstance(type_, ir.OptionalType):
        return f"{_annotated(type_.elem_type)} | None"
    is_text = isinstance(type_, ir.TensorType) and type_.dtype == ir.DataType.STRING
    return "np.ndarray" if is_text else "Tensor"


def steps_apart(expr: Expr, above: Leaf | None = None) -> bool:
    """Convolutions and blocks are steps of their own: one to a line."""
    callee = expr._pieces[0][0] if expr._pieces and expr._weight else None
    if isinstance(callee, (LayerRef, ModuleRef)):
        if above is not None:
            after = ("Norm", "FakeQuantize")
            normed = any(word in _layer_name(above) for word in after)
            normed = normed and "Conv" in _layer_name(callee)
            names = _layer_name(callee) + _layer_name(above)
            convolution = "Conv" in names and not normed
            blocks = isinstance(callee, ModuleRef) and isinstance(above, ModuleRef)
            if convolution or blocks:
                return False
        above = callee
    return all(
        steps_apart(piece[0], above)
        for piece in expr._pieces
        if isinstance(piece, tuple)
    )


def _layer_name(leaf: Leaf) -> str:
    return leaf.form.layer if isinstance(leaf, LayerRef) else ""


# Attribute names that say what a layer is, not what its result means.
_PLAIN = re.compile(
    r"(conv|bn|norm|ln|fc|linear|dense|proj|act|relu|pool|layer|block|out|head|emb|wte|wpe"
    r"|cv|m|drop|mlp|ffn|attention|attn|self|output|intermediate|encoder|decoder|body"
    r"|round|stem|features|classifier|backbone|model|net|transformer)[a-z_]*|[xyz]",
    re.IGNORECASE,
)


def is_plain(attr: str) -> bool:
    return _PLAIN.fullmatch(attr) is not None


def callee_arguments(outer: list[str]) -> list[str]:
    """Telling names are kept; the others become x, y, z in order."""
    taken = {name for name in outer if name and name not in GENERIC}
    names: list[str] = []
    for name in outer:
        if not name or name in GENERIC or name in names:
            name = next((n for n in GENERIC if n not in taken), "") or unused(
                "x", taken
            )
        taken.add(name)
        names.append(name)
    return names


def list_item(attr: str) -> str:
    """What one member of a list is called: layers -> layer."""
    word = variable(attr)
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > 2:
        return variable(word[:-1])
    return "block"


def telling(name: str | None) -> str:
    """A variable's name for a name in the file that is a word; '' for other names.

    TorchScript numbers the values of a variable: step.1, step.7 ...
    """
    word = re.fullmatch(r"([A-Za-z]{1,20}(_[A-Za-z]{1,12}){0,2})(\.\d+)?", name or "")
    return variable(word[1]) if word else ""


def output_names(results: Iterable[ir.Value], taken: set[str]) -> dict[ir.Value, str]:
    """What the results of the network are called: as in the file."""
    names: dict[ir.Value, str] = {}
    used = set(taken)
    for value in results:
        if value.producer() is None:
            continue
        names[value] = unused(variable(value.name or "output"), used)
        used.add(names[value])
    return names
