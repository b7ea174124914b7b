"""Com.microsoft."""

from . import (  # noqa: F401
    attention,
    block_quantized,
    linear_attention,
    mixture_of_experts,
    qlinear,
    speech,
    stateful,
    tensors,
    tokenizers,
    type_rules,
)
