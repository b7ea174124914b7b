"""The network as transformers generates with it: ForTransformers(load())."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import Cache, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from .caches import (
    AT,
    BRANCH,
    CACHES,
    CHUNK,
    CROSS,
    GIVEN,
    IDS,
    LOGITS,
    MASK,
    POSITIONS,
    ROOM,
    TOGETHER,
    VOCABULARY,
    buffers,
    converted,
    fitting,
    flat,
    whole_blocks,
)
from .model import INPUTS, OUTPUTS

# What the version of transformers calls the caches.
_FIELDS = Seq2SeqLMOutput.__dataclass_fields__
KEPT = "cache" if "cache" in _FIELDS else "past_key_values"


class Past(Cache):
    """What the network gave for the next step, by the names of its inputs."""

    def __init__(self) -> None:
        """Of no tokens."""
        super().__init__(layers=[])
        self.tensors: dict[str, Tensor] = {}
        self.length = 0

    @property
    def is_linear(self) -> list[bool]:
        """What tells transformers to pass tokens alone that are not in here."""
        return [False]

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        """How many tokens there were."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Go on from these rows."""
        for name, tensor in self.tensors.items():
            shape = (CACHES | CROSS)[name][1]
            if "rows" in shape:  # other numbers are handed on as they are
                rows = shape.index("rows")
                self.tensors[name] = tensor.index_select(rows, beam_idx)

    def seen(self, places: int) -> int:
        """How many the network is shown, which are `places` or more."""
        if ROOM != "placed":
            return places
        for name, (_, shape) in CACHES.items():
            if "places" in shape:
                tensor, axis = self.tensors[name], shape.index("places")
                more = whole_blocks(places) - tensor.shape[axis]
                sides = [0, 0] * (tensor.dim() - 1 - axis) + [0, more]
                self.tensors[name] = pad(tensor, sides)
        return whole_blocks(places)

    def crop(self, tokens: int) -> None:
        """Forget the last `-tokens`; all but so many, as transformers before 5 says it.

        Raises ValueError where a state, of which the past is no part, is to be, or what
        has dropped places, as windows do, which would be the last ones again.
        """
        length = tokens if tokens > 0 else self.length + tokens
        for name, (_, shape) in CACHES.items() if length < self.length else ():
            if "places" not in shape:
                raise ValueError(f"{name} is a state: it can't forget tokens")
            axis = shape.index("places")
            if ROOM != "placed" and self.tensors[name].shape[axis] != self.length:
                raise ValueError(f"{name} has dropped places: it can't forget tokens")
            self.tensors[name] = self.tensors[name].narrow(axis, 0, length)
        self.length = min(length, self.length)


class ForTransformers(PreTrainedModel, GenerationMixin):
    """Of a network with inputs for tokens, their mask and places, caches, and what an
    encoder has for them: its states, and the mask of what it read."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(
        self,
        model: nn.Module,
        encoder: Callable[..., Tensor] | None = None,
        **config: Any,
    ) -> None:
        """`encoder` makes states of input_ids and attention_mask, where there is one;
        without, generate() takes `encoder_outputs`. `config` is what transformers is to
        know besides, as eos_token_id.

        Raises ValueError for a network with other inputs.
        """
        self.states = [name for name in GIVEN if len(INPUTS[name][1] or ()) == 3]
        self.masks = [name for name in GIVEN if "mask" in name]
        unknown = {*GIVEN} - {*self.states, *self.masks}
        if unknown or len(self.states) > 1 or len(self.masks) > 1:
            raise ValueError(f"transformers has nothing for {sorted(GIVEN)}")
        known: dict[str, Any] = {
            "vocab_size": VOCABULARY,
            "num_hidden_layers": len(CACHES),
        }
        known |= {"is_encoder_decoder": bool(self.states), **config}
        super().__init__(PretrainedConfig(**known))
        self.model, self.read_source = model, encoder

    def get_encoder(self, *_: Any, **__: Any) -> Callable[..., BaseModelOutput]:
        """What transformers calls once, before the first token."""

        def read(
            input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
        ) -> BaseModelOutput:
            if self.read_source is None:
                raise ValueError("there is no encoder: pass encoder_outputs")
            mask = (
                input_ids.new_ones(input_ids.shape)
                if attention_mask is None
                else attention_mask
            )
            states = self.read_source(input_ids, mask)
            return BaseModelOutput(last_hidden_state=states)

        return read

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        cache: Cache | None = None,  # as the newest versions say
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        logits_to_keep: int = 0,  # of the last tokens; 0 for all
        **_: Any,
    ) -> Seq2SeqLMOutput:
        """What comes behind each token, in as many steps as the network needs. Raises
        ValueError where rows begin with tokens that a mask hides, and the network has
        no other way to leave them out."""
        given: dict[str, Tensor] = {}
        if self.states:
            states = encoder_outputs[0]
            read = (
                states.new_ones(states.shape[:2])
                if attention_mask is None
                else attention_mask
            )
            given = dict.fromkeys(self.states, states) | dict.fromkeys(self.masks, read)
            input_ids, attention_mask = decoder_input_ids, decoder_attention_mask
        assert input_ids is not None
        given_past = cache if past_key_values is None else past_key_values
        past: Any = given_past if isinstance(given_past, Past) else Past()
        rows, new = input_ids.shape
        if not past.tensors:
            floats = converted(self.model)
            past.tensors = buffers(rows, 0, input_ids.device, floats)
        if attention_mask is None:
            attention_mask = input_ids.new_ones(rows, past.length + new)
        shown = ROOM == "before" or (ROOM == "placed" and TOGETHER)
        if not shown and not attention_mask.all():
            raise ValueError("the prompts of a batch have to be of one length")
        if position_ids is None:
            position_ids = attention_mask.cumsum(-1)[:, -new:] - 1
        last_alone = len(OUTPUTS[LOGITS][1] or ()) == 2 and logits_to_keep != 1
        size, logits = 1 if last_alone else CHUNK or new, []
        steps = zip(input_ids.split(size, 1), position_ids.split(size, 1), strict=True)
        for ids, places in steps:
            feeds = {IDS: ids, MASK: attention_mask, POSITIONS: places, **given}
            logits.append(self.step(past, feeds))
        found: Any = {KEPT: past}
        return Seq2SeqLMOutput(logits=torch.cat(logits, 1), **found)

    def step(self, past: Past, feeds: dict[str, Tensor]) -> Tensor:
        """Logits [rows, tokens, vocabulary] of as many tokens as the network takes."""
        ids, floats = feeds[IDS], converted(self.model)
        (rows, new), end = ids.shape, past.length + ids.shape[1]
        at = torch.arange(past.length, end, device=ids.device)[None]
        mask = pad(feeds[MASK][:, None, :end].bool(), (0, past.seen(end) - end))
        mask = mask & (torch.arange(mask.shape[-1], device=ids.device) <= at[..., None])
        feeds |= {BRANCH: at[0, :1] > 0, MASK: mask, **dict.fromkeys(AT, at)}
        feeds = {n: fitting(n, t, floats) for n, t in feeds.items() if n} | past.tensors
        results = flat(self.model)(*(feeds[name] for name in INPUTS))
        outputs = dict(zip(OUTPUTS, results, strict=True))
        later = CACHES if past.length else CACHES | CROSS
        past.tensors |= {name: outputs[out] for name, (out, _) in later.items()}
        past.length += new
        return outputs[LOGITS].reshape(rows, -1, outputs[LOGITS].shape[-1])
