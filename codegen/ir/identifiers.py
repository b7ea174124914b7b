"""Every identifier in emitted text is made here, from [A-Za-z0-9_] alone.

Names come from a model file and are untrusted: whatever the text, the result is an
identifier that is no keyword, no builtin, no dunder, and shadows nothing the emitted
module uses.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Sequence

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
    type xpu zero_grad
    _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl
    _forward_hooks _forward_hooks_always_called _forward_hooks_with_kwargs
    _forward_pre_hooks _forward_pre_hooks_with_kwargs _get_abs_string_index
    _get_backward_hooks _get_backward_pre_hooks _get_name _is_full_backward_hook
    _key_to_attr _keys _load_from_state_dict _load_state_dict_post_hooks
    _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules
    _named_members _non_persistent_buffers_set _parameters
    _register_load_state_dict_pre_hook _register_state_dict_hook
    _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks
    _state_dict_pre_hooks _version _wrapped_call_impl""".split()
)
MAX_LENGTH = 40
LONGEST_CLASS = 60
_SIDES = ("in", "out", "up", "down", "left", "right", "pre", "post")
LONGEST_KEY = 100  # of a word in a state dict's keys, where they are the file's
_MEMBER = re.compile("(?!__)[A-Za-z_][0-9A-Za-z_]*")


def identifier(text: str, fallback: str = "x", longest: int = MAX_LENGTH) -> str:
    """An identifier near to `text`: 'conv:0' -> conv_0, 'class' -> class_."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text[:200]).strip("_")[:longest].strip("_")
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
    return identifier(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(), "x")


def attribute(text: str, longest: int = MAX_LENGTH) -> str:
    """A name for a member of an nn.Module; keeps the model's own spelling.

    After a dot a builtin or a name of the module hides nothing. What begins with two
    underscores has another name inside of a class.
    """
    own = len(text) <= longest and _MEMBER.fullmatch(text) and text.strip("_")
    name = text if own and not keyword.iskeyword(text) else identifier(text, "layer")
    return f"{name}_" if name in _MODULE_ATTRIBUTES else name


def class_name(text: str) -> str:
    """resnet50 -> Resnet50, 'digits_cnn' -> DigitsCnn, 'C3_2' as it is."""
    words = re.split(r"(?<=[0-9])(_)(?=[0-9])|[^0-9A-Za-z]+", text[:200])
    joined = "".join(w[0].upper() + w[1:] for w in words if w)
    name = identifier(joined, "Model", LONGEST_CLASS)
    if name in ("Model", "Session") or name.startswith("Model_"):
        name = f"Net{name.removeprefix('Model')}".rstrip("_")
    return name[0].upper() + name[1:]


def class_of_path(path: str) -> str:
    """The last word of a path: layers.0 is a Layer, stem.conv_2b a Conv2b."""
    # Numbers around a word count, those in it are its own: a Layer, but a Stem2b.
    names = re.split(r"[^A-Za-z0-9_]+", path)
    parts = [[w.strip("0123456789") for w in name.split("_")] for name in names]
    words = [[w for w in part if len(w) > 1] for part in parts]  # h.0 is no H
    *_, last = [["Block"], *filter(None, words)]
    plural = [i for i, w in enumerate(last) if re.fullmatch(r"\w{2,}[^s]s", w)]
    if not (plural and path[-1:].isdigit()):
        told = [word for word in last if word not in _SIDES]  # attn_in: an Attn
        name = class_name([*last[:1], *told][-1])
        return "Network" if name == "Net" else name  # the whole one may be a Net
    # layers.0 is a Layer, blocks_token_only.0 a TokenOnlyBlock
    after = last[plural[-1] + 1 :]
    return class_name("_".join([*after, last[plural[-1]][:-1]]))


def package_name(text: str) -> str:
    """A folder that can be imported, and another one for each name in Chinese."""
    return variable(text.encode("ascii", "backslashreplace").decode())


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
    begin = alike(words)
    end = alike([w[begin:][::-1] for w in words])
    first = words[0]
    return "".join(first[:begin] + first[len(first) - end :]) if end else ""


def alike(lists: Sequence[Sequence[str]]) -> int:
    """How many words all lists begin with, or how many letters all words do."""
    columns = enumerate(zip(*lists, strict=False))
    other = (i for i, column in columns if len(set(column)) > 1)
    return next(other, min(map(len, lists)))
