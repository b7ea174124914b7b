"""What a module owns, and under which attribute: layers, blocks, constant tensors."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ...analysis.graph.element_types import is_float
from ...analysis.graph.parameters import (
    has_name,
    is_counted,
    is_derived,
    is_made_up,
    is_parameter,
    names_member,
)
from ...analysis.graph.traversal import reached
from ...analysis.ops.module_form import ModuleForm
from ...analysis.ops.quant_layers import QUANTIZED_CONVS, QUANTIZED_LINEARS
from ...analysis.spelling.expr import (
    Binary,
    Call,
    Expr,
    Function,
    Ref,
    Subscript,
    callee,
    callees,
    joined,
    leaves,
    nodes,
)
from ..ir.assignment import Assignment, LayerRef, Readers, readers_of
from ..ir.identifiers import LONGEST_KEY, attribute, unused, variable
from ..ir.module_call import ModuleCall
from ..ir.naming import ATTRIBUTES, TENSORS, VIEWS, first_name
from ..ir.package_plan import Item, MemberPath, path_text

# What a layer is called where the file has no name for it.
ROLES = {
    "FakeQuantize": "round",
    "QLinearAdd": "add",
    "QLinearMul": "mul",
    "PackedLinear": "linear",
    **dict.fromkeys(QUANTIZED_CONVS, "conv"),
    **dict.fromkeys(QUANTIZED_LINEARS, "linear"),
    "Trees": "trees",
    "MixedTrees": "trees",
    "nn.Linear": "linear",
    "nn.Embedding": "embedding",
    "nn.PReLU": "prelu",
}


_ONE_OF_THREE = re.compile(r"(q|k|v|query|key|value)(_proj|_lin)?")


class ConstructorValue(ir.Value):
    """A member that is a number or a function in which instances of a class differ, or
    that says whether one does what others leave."""

    def __init__(self, name: str, value: bool | float | Function | None) -> None:
        super().__init__(name=name)
        self.value = value


def is_switch(value: object) -> bool:
    """Whether a member says if an instance does what others leave."""
    return isinstance(value, ConstructorValue) and isinstance(value.value, bool)


def constructed(what: object) -> Any:
    """The layer or module that a member is, or in whose place it stands."""
    return (what.lacks or what.form) if isinstance(what, Assignment) else what


@dataclass(eq=False)
class Attribute:
    """`self.attr` or `self.attr[index]`: a layer, a block, or a constant tensor."""

    attr: str
    index: int | None
    what: Assignment | ModuleCall | ir.Value
    inner: tuple[str | int, ...] = ()  # keys of dictionaries and lists in `attr`

    @property
    def is_flagged(self) -> bool:
        """Whether some instances of the class have what others lack."""
        what = self.what
        return isinstance(what, ConstructorValue) or (
            not isinstance(what, ir.Value) and what.optional
        )

    @property
    def is_buffer(self) -> bool:
        """Whether it is a tensor that isn't trained."""
        what = self.what
        if not isinstance(what, ir.Value) or isinstance(what, ConstructorValue):
            return False
        return not is_parameter(what)

    @property
    def is_deep_buffer(self) -> bool:
        """Whether it is a buffer of a dictionary of modules, made by a line of its
        own."""
        return bool(self.inner) and self.is_buffer

    @property
    def path(self) -> MemberPath:
        """From the module that owns it: ("layers", Item(0))."""
        if self.is_deep_buffer:
            return self.attr, *map(Item, self.inner[:-1]), str(self.inner[-1])
        keys = self.inner if self.index is None else (self.index,)
        return self.attr, *map(Item, keys)

    @property
    def text(self) -> str:
        """The member as source: self.layers[0]."""
        return path_text(self.path)

    @property
    def key(self) -> str:
        """The attribute path that state_dict uses."""
        if self.index is not None:
            return f"{self.attr}.{self.index}"
        return ".".join((self.attr, *map(str, self.inner)))


# In a value's `meta`: the name of a constant without a module that isn't written.
PLACE = "place"


def tensor_path(value: ir.Value) -> str:
    """The member that a constant's name says it is, among the modules as written."""
    return str(value.meta.get(PLACE, value.name or ""))


def member_name(texts: dict[Any, str], leaf: LayerRef) -> str:
    """The text that stands for a layer, of those given for members."""
    return next(
        text
        for what, text in texts.items()
        if isinstance(what, Assignment) and what.form is leaf.form
    )


def assign_members(call: ModuleCall, faithful: bool = False) -> list[Attribute]:
    """Attribute names for what a call owns, in the order of first use.

    If `faithful`, they are the file's, through lists and dictionaries where it has
    numbers with gaps, or modules that are no class here.
    """
    owned: list[tuple[Assignment | ModuleCall | ir.Value, str]] = [*_modules(call)]
    owned += [(value, tensor_path(value)) for value in call.constants]
    readers = readers_of(call.steps())
    if faithful:
        paths = [(what, _inside(path, call.path)) for what, path in owned]
        return _faithful(paths, readers)
    holder = holder_of(call)
    roles = {**_shortcut_role(call), **_matrix_roles(call)}
    wishes = [
        (what, *_wish(what, path, holder, readers, roles)) for what, path in owned
    ]
    return _number(wishes)


def holder_of(call: ModuleCall) -> str:
    """The path of the module that holds the layers and blocks of a call."""
    return _holder(call.path, [path for _, path in _modules(call)])


def _modules(call: ModuleCall) -> Iterator[tuple[Assignment | ModuleCall, str]]:
    forms: list[ModuleForm] = []
    for item in call.contents():
        if isinstance(item, ModuleCall):
            if item.shares is None:
                yield item, item.path
        elif item.form is not None and item.form not in forms:
            forms.append(item.form)
            yield item, item.path


def _inside(path: str, holder: str) -> list[str]:
    if holder and not path.startswith(f"{holder}."):
        return [] if path == holder else path.split(".")[-1:]  # shared with elsewhere
    return [word for word in path.removeprefix(f"{holder}.").split(".") if word]


def _faithful(owned: list[tuple[Any, list[str]]], readers: Readers) -> list[Attribute]:
    """Members by the words of their paths; what has none, or a taken one, gets one."""
    placed: list[tuple[Any, tuple[str, ...]]] = []
    paths = [tuple(words) for _, words in owned]
    taken: set[tuple[str, ...]] = set()
    for what, words in owned:
        named = not isinstance(what, ir.Value) or names_member(what)
        path = tuple(words) if named and words else (_role(what),)
        if isinstance(what, ir.Value) and not named:
            path = (_tensor_role(what, readers),)
        elif path[-1].isdigit() and isinstance(what, ir.Value):
            # No list has buffers.
            path = path if is_parameter(what) else ("_".join(path),)
        if isinstance(what, ir.Value) and len(path) > 1 and not path[-1].isdigit():
            path = (*path[:-1], attribute(path[-1], LONGEST_KEY))
        path = (attribute(path[0], LONGEST_KEY), *map(_dictionary_key, path[1:]))
        if any(other[: len(path)] == path != other for other in paths):
            path = (*path, _role(what))  # a dictionary of the others
        if path in taken:
            path = (unused(path[0], {p[0] for p in taken}), *path[1:])
        taken.add(path)
        placed.append((what, path))
    return _in_lists(placed)


def _in_lists(placed: list[tuple[Any, tuple[str, ...]]]) -> list[Attribute]:
    """Members in lists where the words under a path are 0, 1, 2 ..., else in
    dictionaries."""
    within: dict[tuple[str, ...], set[str]] = {}
    for _, path in placed:
        for n in range(1, len(path)):
            within.setdefault(path[:n], set()).add(path[n])
    deep = {path[0] for _, path in placed if len(path) > 2}
    found: list[Attribute] = []
    for what, path in placed:
        inner = tuple(
            int(path[n]) if words == set(map(str, range(len(words)))) else path[n]
            for n in range(1, len(path))
            for words in (within[path[:n]],)
        )
        listed = bool(inner) and isinstance(inner[0], int) and path[0] not in deep
        if listed and not isinstance(what, ir.Value):  # what a loop goes through
            found.append(Attribute(path[0], int(inner[0]), what))
        else:
            found.append(Attribute(path[0], None, what, inner))
    attrs = [member.attr for member in found]
    return sorted(found, key=lambda m: (attrs.index(m.attr), m.index or 0))


# What nn.ModuleDict and nn.ParameterDict have besides what every module has.
_OF_DICTIONARIES = frozenset(
    "clear copy fromkeys get items keys pop popitem setdefault update values".split()
)


def _dictionary_key(word: str) -> str:
    """A word of an untrusted path, as the key of a dictionary of modules: it need be no
    identifier, as the `block1-0` of torchvision's RegNet."""
    key = attribute(word, LONGEST_KEY)
    hides = key == f"{word}_" and not keyword.iskeyword(word)
    plain = re.fullmatch(r"[0-9]{1,6}|(?!__|[0-9]+$)\w[\w -]{0,99}", word, re.ASCII)
    key = word if plain and not hides else key
    return f"{key}_" if key in _OF_DICTIONARIES else key


def _holder(path: str, members: list[str]) -> str:
    """The module that holds all members: `path`, or a wrapper inside it."""
    holders = [member.split(".")[:-1] for member in members]
    if len(holders) < 2:
        return path
    common = []
    for words in zip(*holders, strict=False):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    if common and any(m.split(".")[len(common)].isdigit() for m in members):
        common.pop()  # the numbers that follow need it for a name
    found = ".".join(common)
    inside = found.startswith(f"{path}.") if path else bool(found)
    return found if inside else path


def _wish(
    what: object, path: str, holder: str, readers: Readers, roles: dict[int, str]
) -> tuple[str, int | None]:
    """The attribute and list index that a path asks for: layers.0 -> layers, 0."""
    inside = path.removeprefix(f"{holder}.") if holder else path
    if path == holder:
        inside = ""  # the module's own scope names nothing in it
    if holder and inside == path != holder:  # elsewhere, as equal vectors that are one
        alone = isinstance(what, ir.Value) and len(what.shape or ()) != 1
        inside = "" if alone else path.rpartition(".")[2]
    words = [w for w in inside.split(".") if w]
    role = roles.get(id(what.form), "") if isinstance(what, Assignment) else ""
    if isinstance(what, ir.Value):
        telling = re.fullmatch(r"[\w.]*[A-Za-z]{3}[\w.]*", inside) and has_name(what)
        learned = is_parameter(what) and not is_made_up(what)
        wanted = inside and (learned or telling) and not is_counted(what)
        words = words if wanted else []
    elif words and words[-1].isdigit():
        return attribute("_".join(words[:-1]) or "layers"), int(words[-1][:6])
    elif words and role == "qkv" and _ONE_OF_THREE.fullmatch(words[-1]):
        words[-1] = role  # three layers that became one
    setting = what.name or "" if isinstance(what, ConstructorValue) else ""
    ask: dict[str, Callable[[], str]] = {
        "setting": lambda: attribute(setting) if setting else "",
        "file": lambda: attribute("_".join(words)) if words else "",
        "part": lambda: (
            _tensor_role(what, readers) if isinstance(what, ir.Value) else role
        ),
        "type": lambda: _role(what),
    }
    return first_name(ATTRIBUTES, ask), None


def _role(what: object) -> str:
    form = constructed(what)
    if isinstance(form, ModuleForm):
        layer = form.layer
        word = re.sub(r"\d?d?$", "", layer.removeprefix("nn.")).lower()
        word = "conv" if word.startswith("conv") else word
        return ROLES.get(layer, "norm" if "norm" in word else word)
    return "block"


def _number(wishes: list[tuple[Any, str, int | None]]) -> list[Attribute]:
    """Settle clashes; list indices count from 0 without holes, in the file's order."""
    lists: dict[str, list[tuple[int, Any]]] = {}
    for what, attr, index in wishes:
        if index is not None:
            lists.setdefault(attr, []).append((index, what))
    plain = Counter(attr for _, attr, index in wishes if index is None)
    repeated = {attr for attr, count in plain.items() if count > 1}
    numbered = {attr for attr in repeated if f"{attr}1" not in plain}
    counts = dict.fromkeys(numbered, 0)
    taken: set[str] = set(lists)
    members: dict[int, Attribute] = {}
    for what, attr, index in wishes:
        if index is not None:
            continue
        if attr in numbered:
            while (name := f"{attr}{counts[attr] + 1}") in taken:
                counts[attr] += 1
        else:
            name = unused(attr, taken)
        taken.add(name)
        members[id(what)] = Attribute(name, None, what)
    for attr, entries in lists.items():
        entries.sort(key=lambda entry: entry[0])
        for i, (_, what) in enumerate(entries):
            listed = len(entries) > 1 or isinstance(what, ModuleCall)
            members[id(what)] = Attribute(attr, i if listed else None, what)
    ordered: dict[str, list[Attribute]] = {}
    for what, _, _ in wishes:
        member = members[id(what)]
        ordered.setdefault(member.attr, []).append(member)
    return [
        member
        for group in ordered.values()
        for member in sorted(group, key=lambda m: m.index or 0)
    ]


# ---- a layer without a name in the file: by the part that it plays

_MATRIX = re.compile(r"(nn\.|Packed|Quantized)Linear")


def _matrix_roles(call: ModuleCall) -> dict[int, str]:
    """query, key, value, out; gate, up, down; or qkv: for the layers' identities.

    A module of several attentions, or of several pairs of matrices, has none.
    """
    flow = _Flow([item for item in call.contents() if isinstance(item, Assignment)])
    if len(flow.attentions) == 1:
        return flow.attention(*flow.attentions)
    named = any(s.path not in ("", call.path) for s in flow.steps if _is_matrix(s))
    return {} if flow.attentions or named else flow.feed_forward()


def _shortcut_role(call: ModuleCall) -> dict[int, str]:
    """The layer that changes what is added to the result of a block's other layers."""
    steps = [item for item in call.contents() if isinstance(item, Assignment)]
    flow = _Flow(steps)
    for step in steps:
        added = {v for v in step.reads() if v.const_value is None}
        makers = [flow.makers.get(v) for v in added]
        if step.node is None or step.node.op_type != "Add" or len(makers) != 2:
            continue
        for near, far in (makers, makers[::-1]):
            if near is None or near.form is None or near.reads() != call.inputs:
                continue
            if flow.layers(far) > 1:
                return {id(near.form): "shortcut"}
    return {}


def _is_matrix(step: Assignment) -> bool:
    return step.form is not None and _MATRIX.match(step.form.layer) is not None


class _Flow:
    """What is computed from what in one module."""

    def __init__(self, steps: list[Assignment]) -> None:
        self.steps = steps
        self.makers = {out: step for step in steps for out in step.outputs}
        # What attends, and to what: queries, keys, values.
        attending = ((step, self._attended(step)) for step in steps if not step.form)
        self.attentions = {step: taken for step, taken in attending if len(taken) == 3}

    def _attended(self, step: Assignment) -> list[ir.Value]:
        """Written out it is a product with a softmax of a product."""
        taken = [x.value for x in leaves(step.expr) if isinstance(x, Ref)][:3]
        if any(name.endswith("attention") for name in callees(step.expr)):
            return taken
        if step.expr.label != "@":
            return []
        weights = self.nearest(taken[:1], lambda s: callee(s.expr).endswith("softmax"))
        scored = [value for s in weights for value in s.reads()]
        scores = self.nearest(scored, lambda s: s.expr.label == "@")
        return [*scores[0].reads(), *taken[1:]] if len(scores) == 1 else []

    def behind(self, values: Iterable[ir.Value]) -> list[Assignment]:
        """The nearest matrices and attentions that values are computed with."""
        return self.nearest(values, lambda s: _is_matrix(s) or s in self.attentions)

    def nearest(
        self, values: Iterable[ir.Value], wanted: Callable[[Assignment], bool]
    ) -> list[Assignment]:
        """The nearest steps that values are computed with, not beyond a matrix."""
        found: dict[Assignment, None] = {}
        todo = dict.fromkeys(values)  # in the order of finding, each once
        for value in (queue := [*todo]):
            step = self.makers.get(value)
            if step is None:
                continue
            if wanted(step):
                found[step] = None
            elif not _is_matrix(step):
                queue += (new := {v: None for v in step.reads() if v not in todo})
                todo |= new
        return list(found)

    def layers(self, step: Assignment | None) -> int:
        """How many layers a step's result is computed with."""
        found = reached(
            [step], lambda one: map(self.makers.get, one.reads()) if one else ()
        )
        return sum(one is not None and one.form is not None for one in found)

    def attention(self, step: Assignment) -> dict[int, str]:
        sources = [self.behind([value]) for value in self.attentions[step]]
        if any(len(found) != 1 for found in sources):
            return {}
        layers = [id(found[0].form) for found in sources]
        if len(set(layers)) not in (1, 3):
            return {}
        same = len(set(layers)) == 1
        words = ("qkv",) if same else ("query", "key", "value")
        roles = dict(zip(dict.fromkeys(layers), words, strict=True))
        for other in filter(_is_matrix, self.steps):
            if self.behind(other.reads()) == [step]:
                return {**roles, id(other.form): "out"}
        return roles

    def feed_forward(self) -> dict[int, str]:
        """A matrix that widens, or a pair of them, and one back."""
        matrices = [step for step in self.steps if _is_matrix(step)]
        last = matrices.pop() if 2 <= len(matrices) <= 3 else None
        if last is None or set(self.behind(last.reads())) != set(matrices):
            return {}
        if any(not _widens(step) for step in matrices) or _widens(last):
            return {}
        roles = {id(last.form): "down", id(matrices[0].form): "up"}
        if len(matrices) == 2:
            up = [step for step in matrices if self._is_factor(step)]
            if len(up) != 1:
                return {}
            roles.update((id(step.form), "gate") for step in matrices)
            roles[id(up[0].form)] = "up"
        return roles

    def _is_factor(self, step: Assignment) -> bool:
        """Whether a product reads what a layer gives as it is."""
        readers = [s for s in self.steps if not set(step.outputs).isdisjoint(s.reads())]
        return any(s.node is not None and s.node.op_type == "Mul" for s in readers)


def _widens(step: Assignment) -> bool:
    sizes = step.form.positional[:2] if step.form is not None else ()
    return len(sizes) == 2 and sizes[0] < sizes[1]


# ---- a constant tensor without one: by what reads it

# By the end of its name, where the rest says nothing of it.
_ENDS = {"bias": "bias", "scale": "scale", "zero_point": "zero_point"}
_ENDS |= {"weight_quantized": "weight"}

_EMBEDDED = re.compile(r"_?embed(ding)?s?_?")

# By what reads it; the first that does counts.
_USES = "attention_bias indices table weight prefix scale divisor bias".split()
_INDEXED = ("index_select", "gather", "take_along_dim")


def _tensor_role(value: ir.Value, readers: Readers) -> str:
    """A word for a tensor of a module: bias, scale, attention_bias, ..."""
    name, called = value.name or "", value.meta.get("called")
    ends = (role for end, role in _ENDS.items() if re.search(rf"[._]{end}$", name))
    ask: dict[str, Callable[[], str]] = {
        "known word": lambda: str(value.meta.get("word", "")),
        "moved": lambda: attribute(called, LONGEST_KEY) if called else "",
        "ending": lambda: next(ends, ""),
        "reader": lambda: _read_as(value, readers),
        "learned": lambda: "weight" if is_parameter(value) else "",
        "none": lambda: "mask" if value.dtype == ir.DataType.BOOL else "constant",
    }
    return first_name(TENSORS, ask)


def _read_as(value: ir.Value, readers: Readers) -> str:
    if ids := looked_up(value, readers):
        return ids
    uses = ((_used_as(value, reader), reader) for reader in readers.get(value, ()))
    role, reader = next((use for use in uses if use[0]), ("", None))
    if role != "bias" or reader is None:
        taken = any(_takes_attention(step, readers) for step in readers.get(value, ()))
        return role or ("sinks" if taken else "")
    sums = [reader]
    for step in sums:  # the scores, and what they are added to or seen as
        after = [one for output in step.outputs for one in readers.get(output, ())]
        if any(_takes_scores(one.expr, step.outputs) for one in after):
            return "attention_bias" if is_parameter(value) else "attention_mask"
        sums += (x for x in after if callee(x.expr) in VIEWS or x.expr.label == "+")
    return _added(value)


def _takes_scores(expr: Expr, values: Sequence[ir.Value | None]) -> bool:
    """Whether what takes values is a softmax, or attention that masks by them, and not
    one of which they are queries, keys or values."""
    for node in nodes(expr):
        name = callee(node)
        if isinstance(node, Call) and name.endswith("attention"):
            read = (leaf for x in node.operands[1:4] for leaf in leaves(x))
            heads = {leaf.value for leaf in read if isinstance(leaf, Ref)}
            return heads.isdisjoint(values)
        if name.endswith("softmax"):
            return True
    return False


def _takes_attention(step: Assignment, readers: Readers) -> bool:
    """Whether it stands beside the scores of all keys where they become weights."""
    steps = [step]
    for called in (".expand", "torch.cat", ".softmax"):
        if not steps or callee(steps[0].expr) != called:
            return False
        steps = [x for out in steps[0].outputs for x in readers.get(out, ())]
    return True


def looked_up(value: ir.Value, readers: Readers, counted: bool = True) -> str:
    """Of indices that come to an embedding, as they are, moved about or, if `counted`,
    by arithmetic: token_type_ids for token_type_embeddings."""
    todo, seen = [value], {value}
    for one in todo:
        if one.dtype is None or not one.dtype.is_integer():
            continue
        for step in readers.get(one, ()):
            read = (leaf.value for leaf in leaves(step.expr) if isinstance(leaf, Ref))
            if step.form is not None and step.form.layer == "nn.Embedding":
                word = step.path.rpartition(".")[2]
                kind = _EMBEDDED.sub("", word)
                if kind[:1].isalpha() and kind != word:
                    return variable(f"{kind.removesuffix('s')}_ids")
            elif isinstance(step.expr, Binary) and not counted:
                continue
            elif step.form is None and next(read, None) is one:
                made = [y for y in step.outputs if y is not None and y not in seen]
                todo += made
                seen.update(made)
    return ""


def _used_as(value: ir.Value, reader: Assignment) -> str:
    uses = {use for node in nodes(reader.expr) for use in _uses(node, value)}
    return next((use for use in _USES if use in uses), "")


def _uses(expr: Expr, value: ir.Value) -> Iterator[str]:
    """What an expression makes of a value that is one of its own operands."""

    def is_it(operand: Expr | None) -> bool:
        return isinstance(operand, Ref) and operand.value is value

    match expr:
        case Call((LayerRef(), only), ()) if is_it(only):
            yield "indices"
        case Call((_, *arguments), keywords):
            options = dict(zip(reversed(keywords), reversed(arguments), strict=False))
            name = callee(expr)
            if name.endswith("dot_product_attention") and is_it(
                options.get("attn_mask")
            ):
                yield "attention_bias"
            within = (leaf for operand in arguments for leaf in leaves(operand))
            if name.endswith(_INDEXED) and any(map(is_it, within)):
                yield "indices"
            if name.startswith("F.conv") and is_it(arguments[1]):
                yield "weight"
            if name in ("F.layer_norm", "F.rms_norm") and is_derived(value):
                yield "scale"  # what is called weight is something else
            if is_it(next(iter(joined(expr)), None)):
                yield "prefix"
        case Subscript((_, *places)) if any(map(is_it, places)):
            yield "indices"
        case Subscript((only, *rows)) if is_it(only) and is_float(value):
            yield from ("table" for row in rows if isinstance(row, Ref))
        case Binary(operands, "*" | "+" as sign) if any(map(is_it, operands)):
            yield "scale" if sign == "*" else "bias"
        case Binary((_, only), "/") if is_it(only):
            yield "divisor"


def _added(value: ir.Value) -> str:
    """In a sum: one number per channel, or a vector per position [1, length, width]."""
    assert value.const_value is not None
    if not is_float(value):
        return "offset"  # of indices
    dims = value.const_value.shape.numpy()
    if len([size for size in dims if size > 1]) < 2:
        return "bias"
    return "position_embedding" if len(dims) == 3 and dims[0] == 1 else "offset"
