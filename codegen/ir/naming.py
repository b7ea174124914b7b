"""Where names come from, and which source is asked first, as tables.

What has a name in the file keeps it; else it is named by the part that it plays, then
by what it is. Whoever names something hands `first_name` a way to ask each source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import onnx_ir as ir

from .identifiers import unused, variable

GENERIC = ("x", "y", "z", "u", "v", "w", "s", "t")
LEVEL = "level"  # one map of a pyramid, in a loop over them
REBOUND = (*GENERIC, LEVEL)
# On a branch that comes back to the value it left: added to it, or a factor of it.
BRANCHES = {"+": "out", "*": "gate"}
# Of a value's making (codegen/forward/roles.py): they say nothing to who is given it.
ROLES = (
    *("chosen", "difference", "embedded", "features", "fifth", "filled", "first"),
    *("fourth", "gate", "hidden", "joined", "largest", "normed", "out", "product"),
    *("root", "second", "sixth", "smallest", "sums", "third", "total"),
)
# What no argument is called after.
PASSING = (*GENERIC, *dict.fromkeys((*BRANCHES.values(), *ROLES)))
# What a value is parted by.
PARTED = frozenset({".chunk", ".split", ".unbind"})
# Methods and functions that give what they are called on another form.
VIEWS = frozenset(
    ".bool .contiguous .expand .expand_as .flatten .float .int .long .movedim .permute"
    " .repeat .reshape .roll .squeeze .to .transpose .type_as .unflatten .unsqueeze"
    " .view F.pad".split()
)


class NameSource(NamedTuple):
    """`example` is emitted text, in tests/goldens or generated, with such a name."""

    source: str
    why: str
    example: str


VARIABLES = (
    NameSource(
        "becomes",
        "at the end of a body it becomes the value of this variable",
        "h = torch.tanh(self.linear(h))",
    ),
    NameSource(
        "set by bodies", "the file's word for a loop's state or results", "ys = []"
    ),
    NameSource(
        "result", "the network returns it: as in the file", "p2, p3, p4 = self.fpn("
    ),
    NameSource("size", "a whole number: its dimension", "batch = "),
    NameSource("state", "every round gives it a new value", "x = tokens"),
    NameSource(
        "part",
        "what attention, a cache, an embedding or a modulation takes it as",
        "q, k, v = self.qkv(x)",
    ),
    NameSource("known word", "an operator says what it gives", "cos, sin = "),
    NameSource("truth", "true or false of each element", "mask = "),
    NameSource(
        "module", "a module goes on under its argument's name", "x = self.attention(x)"
    ),
    NameSource(
        "layer or operator",
        "what it comes from has a word that tells something",
        "resized = F.interpolate(",
    ),
    NameSource(
        "caller",
        "the class returns it: as where it is called",
        "present_key, present_value, out = self.self_attn(",
    ),
    NameSource(
        "branch",
        "it comes back to the value that it left: added, or as a factor",
        "out = F.relu(self.conv1(x))",
    ),
    NameSource(
        "inside",
        "a module gives several: the last of its members on the way to each",
        "encoder_out, decoder_out = self.model(",
    ),
    NameSource(
        "chain",
        "the last one to read a letter takes it over",
        "x = x + self.self_attn(",
    ),
    NameSource(
        "same meaning", "reshaped or scaled, and not joined", "mask = mask.repeat"
    ),
    NameSource(
        "view",
        "another form of what is still needed: the last word of its name",
        "mask = attention_mask",
    ),
    NameSource("role", "what its layer or operator makes", "normed = self.norm1(x)"),
    NameSource("letter", "nothing says what it is", "y, z = self.h[1](y, past_1"),
)
ATTRIBUTES = (
    NameSource("setting", "a number or a switch of a class", "self.residual = "),
    NameSource("file", "its path below the module", "self.inner_blocks = "),
    NameSource("part", "what the module uses it for", "self.shortcut = ("),
    NameSource("type", "what it is", "self.linear = nn.Linear(24, 5)"),
)
TENSORS = (
    NameSource(
        "known word", "an operator says what it reads", "apply_rotary(q, cos, sin)"
    ),
    NameSource(
        "moved", "the parameter that it is in another shape", "self.register_tokens = "
    ),
    NameSource(
        "ending", "the end of a quantiser's name", 'self.register_buffer("scale"'
    ),
    NameSource(
        "reader", "how it is read, or what it is added to", '["attention_bias"]'
    ),
    NameSource("learned", "a parameter without a name", "self.weight = nn.Parameter("),
    NameSource("none", "nothing else tells", 'self.register_buffer("constant"'),
)
CLASSES = (
    NameSource("file", "the class that the file names", "class BertSelfAttention("),
    NameSource("path", "the last word of where it stands", "class Mlp("),
    NameSource(
        "shared words", "in what its instances are called alike", "class Layer("
    ),
    NameSource("layers", "whether it convolves", "class Block("),
)
PARAMETERS = (
    NameSource("stored", "the size of a tensor", "out_features: int, size: int"),
    NameSource("number", "as a statement's number is called", "heads: int"),
    NameSource("next layer", "a norm before a layer: its channels", "in_channels: int"),
    NameSource("inside", "out of a layer and into the next", "width: int"),
    NameSource("argument", "as the layer's argument", "out_channels: int"),
)


def first_name(
    table: Iterable[NameSource], ask: Mapping[str, Callable[[], str]]
) -> str:
    """The name from the first source that has one; "" says that it hasn't."""
    names = (ask[row.source]() for row in table)
    return next(name for name in names if name)


# Attribute names that say what a layer is, not what its result means, by their first
# word or by their last.
_PLAIN = re.compile(
    r"(conv|bn|norm|ln|fc|linear|dense|proj|act|relu|pool|layer|block|out|head|emb|wte|wpe"
    r"|cv|m|drop|mlp|ffn|attention|attn|self|output|intermediate|encoder|decoder|body|down"
    r"|up|round|stem|features|classifier|backbone|model|net|transformer)[a-z_]*|[xyz]"
    r"|\w+_(layer_?norm|ln|bn|linear|dense|fc)|\w+(conv|norm)|[oc]_proj",
    re.IGNORECASE,
)


def is_plain(attr: str) -> bool:
    """Whether an attribute says no more than what sort of layer it is."""
    return _PLAIN.fullmatch(attr) is not None


def is_passing(name: str) -> bool:
    """Whether no argument is called so, numbered or not."""
    return name.rstrip("0123456789") in PASSING


def callee_arguments(outer: list[str]) -> list[str]:
    """Telling names are kept; the others become x, y, z in order.

    What tells a value from one that isn't given is left out: mask2, local_mask.
    """
    bare = [re.sub(r"^local_|(?<=[a-z]{3})2$", "", name) for name in outer]
    outer = [
        word if word not in outer and bare.count(word) == 1 else name
        for word, name in zip(bare, outer, strict=True)
    ]
    taken = {name for name in outer if name and not is_passing(name)}
    names: list[str] = []
    for name in outer:
        if not name or is_passing(name):
            name = next((n for n in GENERIC if n not in taken), "") or "x"
            name = unused(name, taken)
        name = unused(name, names)
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


def size_name(value: ir.Value) -> str:
    """What a whole number is called: as the file's word for the dimension, if that
    isn't the s77 of torch.export."""
    counted = re.fullmatch(r"s\d+", value.name or "s0")
    return "size" if counted else variable(value.name or "size")


def last_word(name: str | None) -> str:
    """bias, of a parameter's path encoder.fc.bias; "" of a name that is no path."""
    _, dot, word = (name or "").rpartition(".")
    return word if dot else ""


def telling(name: str | None) -> str:
    """A variable's name for a name in the file that is a word; '' for other names.

    TorchScript numbers the values of a variable: step.1, step.7 ...
    """
    word = re.fullmatch(r"([A-Za-z]{1,20}(_[A-Za-z]{1,12}){0,2})(\.\d+)?", name or "")
    return variable(word[1]) if word else ""


def _counted(names: list[str]) -> set[str]:
    """Those of some results' names that are numbers or paths of an exporter's nodes:
    layer_norm_4, but not level_0 and level_1, which count the results."""
    found = set[str]()
    stems: dict[str, list[str]] = {}
    for name in names:
        if re.search(r"[/:]|^\d+$", name):
            found.add(name)
        elif numbered := re.fullmatch(r"(.*_)\d+", name):
            stems.setdefault(numbered[1], []).append(name)
    for stem, same in stems.items():
        counts = [int(name.removeprefix(stem)[:9]) for name in same]
        if counts not in ([*range(len(same))], [*range(1, len(same) + 1)]):
            found.update(same)
    return found


def output_names(results: Iterable[ir.Value], taken: set[str]) -> dict[ir.Value, str]:
    """What the results of the network are called: as in the file, unless an exporter
    counted there, or called them after its nodes."""
    names: dict[ir.Value, str] = {}
    used = set(taken)
    results = list(results)
    counted = _counted([value.name or "" for value in results])
    for value in results:
        node = value.producer()
        if node is None or value.name in counted or node.name == f"node_{value.name}":
            continue
        names[value] = unused(variable(value.name or "output"), used)
        used.add(names[value])
    return names
