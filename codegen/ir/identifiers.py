"""Every identifier in emitted text is made here, from [A-Za-z0-9_] alone.

Names come from a model file and are untrusted: whatever the text, the result is an
identifier that is no keyword, no builtin, no dunder, and shadows nothing the emitted
module uses.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterable

# Names that emitted modules use themselves.
_TAKEN = frozenset(
    {"torch", "nn", "F", "np", "math", "Tensor", "Path", "safe_open", "self", "load"}
    | {
        "Model",
        "Session",
        "WEIGHTS",
        "MODEL_SHA256",
        "INPUTS",
        "OUTPUTS",
        "annotations",
    }
)
_RESERVED = _TAKEN | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist)
_BUILTINS = frozenset(dir(builtins))

# Attributes of nn.Module that a member must not hide.
_MODULE_ATTRIBUTES = frozenset(
    """T_destination add_module apply bfloat16 buffers call_super_init children compile
    cpu cuda double dump_patches eval extra_repr float forward get_buffer
    get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia
    named_buffers named_children named_modules named_parameters parameters
    register_backward_hook register_buffer register_forward_hook
    register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    set_extra_state set_submodule share_memory state_dict to to_empty train training
    type xpu zero_grad""".split()
)
MAX_LENGTH = 40


def identifier(text: str, fallback: str = "x") -> str:
    """An identifier near to `text`: 'conv:0' -> conv_0, 'class' -> class_."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text[:200]).strip("_")[:MAX_LENGTH].strip("_")
    if not name:
        return fallback
    if name[0].isdigit():
        name = f"{fallback}{name}" if fallback.endswith("_") else f"{fallback}_{name}"
    if name in _RESERVED or name in _BUILTINS:
        name += "_"
    return name


def variable(text: str) -> str:
    """A lower-case name for an argument or local variable."""
    name = identifier(text, "x")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return identifier(snake, "x")


def attribute(text: str) -> str:
    """A name for a member of an nn.Module; keeps the model's own spelling."""
    name = identifier(text, "layer")
    if name == f"{text}_" and not keyword.iskeyword(text):
        name = text  # a builtin or a name of the module hides nothing after a dot
    return f"{name}_" if name in _MODULE_ATTRIBUTES else name


def class_name(text: str) -> str:
    """resnet50 -> Resnet50, 'digits_cnn' -> DigitsCnn, 'BertLayer' as it is."""
    words = [w for w in re.split(r"[^0-9A-Za-z]+", text[:200]) if w]
    joined = "".join(w[0].upper() + w[1:] for w in words)[:MAX_LENGTH]
    name = identifier(joined, "Model")
    if name in ("Model", "Session") or name.startswith("Model_"):
        name = f"Net{name.removeprefix('Model')}".rstrip("_")
    return name[0].upper() + name[1:]


def package_name(text: str) -> str:
    """A folder that can be imported."""
    return variable(text)


def unused(name: str, taken: Iterable[str]) -> str:
    """`name`, or name2, name3 ... : the first that isn't taken."""
    taken = taken if isinstance(taken, (set, dict, frozenset)) else set(taken)
    if name not in taken:
        return name
    joint = "_" if name[-1].isdigit() else ""
    n = 2
    while f"{name}{joint}{n}" in taken:
        n += 1
    return f"{name}{joint}{n}"


def shared_name(hints: Collection[str]) -> str:
    """BertSelfOutput and BertOutput -> BertOutput: the words with which all end."""
    words = [re.findall(r"[A-Z][a-z0-9]*|[a-z0-9]+", hint) for hint in hints]
    begin = _alike(words)
    end = _alike([w[begin:][::-1] for w in words])
    first = words[0]
    return "".join(first[:begin] + first[len(first) - end :]) if end else ""


def _alike(lists: list[list[str]]) -> int:
    """How many words all lists begin with."""
    columns = enumerate(zip(*lists, strict=False))
    other = (i for i, column in columns if len(set(column)) > 1)
    return next(other, min(map(len, lists)))
