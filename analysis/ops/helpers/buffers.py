"""Constants of the graph in a network: copied into the emitted module when used."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open
from torch import Tensor, nn


def own_buffers(model: nn.Module, prefix: str = "") -> list[str]:
    """Buffers that are constants of the graph, and in none of PyTorch's layers."""
    dictionaries = nn.ModuleDict | nn.ParameterDict
    return [
        name
        for path, module in model.named_modules(prefix=prefix)
        if type(module).__module__ == __name__ or isinstance(module, dictionaries)
        for name, _ in module.named_buffers(path, recurse=False)
    ]


def keep_buffers(
    model: nn.Module, state: dict[str, Tensor], prefix: str, *_: object
) -> None:
    """What a state_dict lacks of the graph's own buffers stays as it is."""
    own = model.state_dict(prefix=prefix)
    for name in own_buffers(model, prefix.rstrip(".")):
        if name in own:
            state.setdefault(name, own[name])


def read_constants(model: nn.Module, weights: str | Path, device: str = "cpu") -> None:
    """Fill the buffers that are constants of the graph."""
    with safe_open(weights, framework="pt", device=device) as file:
        for name in own_buffers(model):
            owner, _, attribute = name.rpartition(".")
            module = model.get_submodule(owner)
            shape = module.get_buffer(attribute).shape
            stored = file.get_tensor(name)  # one number, if it is that throughout
            setattr(module, attribute, stored.expand(shape).contiguous())
