"""The network as transformers generates with it: beams, processors, pipelines."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import Cache, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from ..caches.caches import (
    BRANCH,
    CACHES,
    GIVEN,
    IDS,
    LOGITS,
    MASK,
    POSITIONS,
    ROOM,
    VOCABULARY,
    buffers,
    dtype_of,
    flat,
)
from ..model import INPUTS, OUTPUTS


class Past(Cache):
    """What the network gave for the next step, by the names of its inputs."""

    def __init__(self) -> None:
        """Of no tokens."""
        super().__init__(layers=[])
        self.tensors: dict[str, Tensor] = {}
        self.length = 0

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        """How many tokens there were."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Go on from these rows."""
        for name, tensor in self.tensors.items():
            rows = CACHES[name][1].index("rows")
            self.tensors[name] = tensor.index_select(rows, beam_idx)


class ForTransformers(PreTrainedModel, GenerationMixin):
    """Of a network that has no inputs but tokens, their mask and places, and caches."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, model: nn.Module, **config: Any) -> None:
        """`config` is what transformers is to know besides, as eos_token_id.

        Raises ValueError for a network with other inputs.
        """
        if GIVEN or BRANCH:
            raise ValueError(f"transformers has nothing for {[*GIVEN, BRANCH]}")
        known = {"vocab_size": VOCABULARY, "num_hidden_layers": len(CACHES), **config}
        super().__init__(PretrainedConfig(**known))
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        **_: Any,
    ) -> CausalLMOutputWithPast:
        """A step. Raises ValueError where rows begin with tokens that a mask hides, and
        the network has no other way to leave them out."""
        past = past_key_values if isinstance(past_key_values, Past) else Past()
        rows, new = input_ids.shape
        if not past.tensors:
            past.tensors = buffers(rows, 0, input_ids.device)
        past.length += new
        if attention_mask is None:
            attention_mask = input_ids.new_ones(rows, past.length)
        if ROOM != "before" and not attention_mask.all():
            raise ValueError("the prompts of a batch have to be of one length")
        if position_ids is None:
            position_ids = attention_mask.cumsum(-1)[:, -new:] - 1
        feeds = {IDS: input_ids, MASK: attention_mask, POSITIONS: position_ids}
        feeds = {n: t.to(dtype_of(n)) for n, t in feeds.items() if n} | past.tensors
        results = flat(self.model)(*(feeds[name] for name in INPUTS))
        outputs = dict(zip(OUTPUTS, results, strict=True))
        past.tensors = {name: outputs[out] for name, (out, _) in CACHES.items()}
        return CausalLMOutputWithPast(logits=outputs[LOGITS], past_key_values=past)
