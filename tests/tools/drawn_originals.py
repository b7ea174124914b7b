"""Networks drawn by chance out of a pool, of families that no other list has.

A seed draws 36 of the pool, and halves them: `drawn_worked`, and `drawn_kept`, which
are measured once, when nothing is changed any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import originals as base
import timm
import torch
import transformers
from further_originals import HALVES, chosen
from originals import BATCH, LENGTH, VOCAB, Original
from torch import Tensor, nn

__all__ = ["chosen"]
DRAWN, DRAW = 36, 6

_TIMM: dict[str, dict[str, Any]] = {
    "cpubone_b0_bfrobust": {},
    "hgnet_tiny": {},
    "lcnetv2_base": {},
    "legacy_seresnet18": {},
    "legacy_xception": {},
    "lowformer_b0": {},
    "rdnet_tiny": {},
    "regnetv_040": {},
    "samvit_base_patch16": {"img_size": 64, "depth": 3, "embed_dim": 32}
    | {"num_heads": 2, "global_attn_indexes": (1,), "window_size": 2},
    "vitamin_small_224": {"img_size": 64, "depth": 2},
    "xception41": {},
}
# Classes of timm whose functions take no sizes.
_TIMM_CLASSES: dict[str, dict[str, Any]] = {
    "metaformer.MetaFormer": {"dims": (16, 32, 48, 64)} | {"depths": (1, 1, 2, 1)},
    "mlp_mixer.MlpMixer": {"img_size": 64, "num_blocks": 3, "embed_dim": 32},
    "nest.Nest": {"img_size": 64, "embed_dims": (16, 32, 64), "num_heads": (1, 2, 4)}
    | {"depths": (1, 1, 2)},
    "volo.VOLO": {"img_size": 64, "layers": (1, 1, 2, 1), "num_heads": (2, 4, 4, 4)}
    | {"embed_dims": (32, 64, 64, 64), "downsamples": (True, False, False, False)}
    | {"outlook_attention": (True, False, False, False), "mlp_ratio": 3.0},
}

_TEXT = base._text
_IMAGE = base._image
_PLAIN = base._PLAIN
_PATCHES = base._PATCHES
_GROUPED = base._GROUPED
_MEL = lambda: {"input_features": torch.randn(BATCH, 32, 16)}  # noqa: E731
_DETR = {
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "backbone_config": transformers.ResNetConfig(
        **base._RESNET, out_features=["stage2"]
    ),
    "num_queries": 5,
    "num_labels": 6,
} | {k: base._SEQ2SEQ[k] for k in base._SEQ2SEQ if k not in ("vocab_size", "use_cache")}
_FORECAST = {"prediction_length": 4, "context_length": 12, "d_model": 16}
_FORECAST |= {"lags_sequence": [1, 2], "num_time_features": 2, "encoder_ffn_dim": 24}
_FORECAST |= {"decoder_ffn_dim": 24, "encoder_layers": 2, "decoder_layers": 2}
_FORECAST |= {"num_parallel_samples": 2, "use_cache": False}
_PAST = lambda: {  # noqa: E731
    "past_values": torch.randn(BATCH, 14),
    "past_time_features": torch.randn(BATCH, 14, 2),
    "past_observed_mask": torch.ones(BATCH, 14),
    "future_values": torch.randn(BATCH, 4),
    "future_time_features": torch.randn(BATCH, 4, 2),
}
_HF: dict[str, tuple[Callable[[], dict[str, Tensor]], dict[str, Any]]] = {
    "AlignVisionModel": (
        lambda: _IMAGE(64),
        {"width_coefficient": 0.25, "depth_coefficient": 0.3, "image_size": 64},
    ),
    "ApertusForCausalLM": (_TEXT, _GROUPED),
    "BambaForCausalLM": (
        base._ids,
        _GROUPED
        | {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8}
        | {"mamba_n_groups": 1, "mamba_d_state": 8, "mamba_chunk_size": 4},
    ),
    "BrosModel": (
        lambda: {**_TEXT(), "bbox": torch.rand(BATCH, LENGTH, 4)},
        _PLAIN | {"hidden_size": 64},
    ),
    "ConditionalDetrForObjectDetection": (lambda: _IMAGE(64), _DETR),
    "DebertaModel": (
        _TEXT,
        _PLAIN | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    ),
    "FalconMambaForCausalLM": (
        base._ids,
        {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2}
        | {"state_size": 4, "time_step_rank": 4, "use_cache": False},
    ),
    "FastSpeech2ConformerModel": (
        lambda: {"input_ids": torch.randint(3, VOCAB, (1, LENGTH))},
        {"vocab_size": VOCAB, "hidden_size": 32, "num_mel_bins": 8}
        | {"encoder_layers": 2, "encoder_num_attention_heads": 2}
        | {"decoder_layers": 2, "decoder_num_attention_heads": 2}
        | {"encoder_linear_units": 48, "decoder_linear_units": 48}
        | {"energy_predictor_channels": 16, "pitch_predictor_channels": 16}
        | {"duration_predictor_channels": 16, "speech_decoder_postnet_units": 16},
    ),
    "GitVisionModel": (_IMAGE, _PATCHES),
    "GlmForCausalLM": (_TEXT, _GROUPED | {"head_dim": 8}),
    "GraniteMoeForCausalLM": (
        _TEXT,
        _GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "HieraModel": (
        lambda: _IMAGE(64),
        {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 2, 1]}
        | {"num_heads": [1, 2, 4, 8]},
    ),
    "ImageGPTModel": (
        base._ids,
        {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4}
        | {"n_positions": 32, "use_cache": False},
    ),
    "InformerModel": (_PAST, _FORECAST),
    "JambaForCausalLM": (
        base._ids,
        _GROUPED
        | {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2}
        | {"expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 4}
        | {"mamba_dt_rank": 4, "use_mamba_kernels": False},
    ),
    "LongT5EncoderModel": (
        _TEXT,
        {"vocab_size": VOCAB, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2}
        | {"num_heads": 4, "local_radius": 4},
    ),
    "LukeModel": (_TEXT, _PLAIN | {"entity_vocab_size": 20, "entity_emb_size": 16}),
    "MarkupLMModel": (
        _TEXT,
        _PLAIN | {"xpath_unit_hidden_size": 8, "max_depth": 4},
    ),
    "MgpstrForSceneTextRecognition": (
        lambda: {"pixel_values": torch.randn(BATCH, 3, 32, 64)},
        {"image_size": [32, 64], "patch_size": 8, "hidden_size": 32}
        | {"num_hidden_layers": 2, "num_attention_heads": 4, "mlp_ratio": 2.0}
        | {"num_bpe_labels": 11, "num_wordpiece_labels": 13, "num_character_labels": 7}
        | {"max_token_length": 5},
    ),
    "MimiModel": (
        lambda: {"input_values": torch.randn(BATCH, 1, 320)},
        {"hidden_size": 16, "num_filters": 4, "upsampling_ratios": [4, 2]}
        | {"codebook_size": 16, "codebook_dim": 8, "num_quantizers": 3}
        | {"vector_quantization_hidden_dimension": 8, "upsample_groups": 16}
        | {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
        | {"intermediate_size": 32, "head_dim": 8, "frame_rate": 1000.0},
    ),
    "MobileNetV1Model": (lambda: _IMAGE(64), {"depth_multiplier": 0.25}),
    "MraModel": (
        lambda: {"input_ids": torch.randint(3, VOCAB, (BATCH, 32))},
        _PLAIN | {"block_per_row": 1},
    ),
    "MusicgenForCausalLM": (
        lambda: {"input_ids": torch.randint(3, 40, (BATCH * 2, LENGTH))},
        {"vocab_size": 48, "hidden_size": 32, "num_hidden_layers": 2, "ffn_dim": 48}
        | {"num_attention_heads": 4, "num_codebooks": 2, "use_cache": False},
    ),
    "NemotronForCausalLM": (_TEXT, _GROUPED),
    "OpenAIGPTModel": (base._ids, base._GPT2),
    "PvtModel": (
        lambda: _IMAGE(64),
        {"image_size": 64, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
        | {"num_attention_heads": [1, 2, 2, 4]},
    ),
    "Speech2TextModel": (
        lambda: {
            "input_features": torch.randn(BATCH, 32, 16),
            **base._ids("decoder_input_ids"),
        },
        base._SEQ2SEQ
        | {"input_feat_per_channel": 16, "conv_channels": 24, "pad_token_id": 1},
    ),
    "SplinterModel": (_TEXT, _PLAIN),
    "SuperPointForKeypointDetection": (
        lambda: _IMAGE(64),
        {"encoder_hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 16}
        | {"descriptor_decoder_dim": 16},
    ),
    "TextNetModel": (lambda: _IMAGE(64), {}),
    "TimeSeriesTransformerModel": (_PAST, _FORECAST),
    "UperNetForSemanticSegmentation": (
        lambda: _IMAGE(64),
        {
            "backbone_config": transformers.ConvNextConfig(
                hidden_sizes=[8, 16, 24, 32],
                depths=[1, 1, 1, 1],
                out_features=["stage1", "stage2", "stage3", "stage4"],
            ),
            "hidden_size": 16,
            "auxiliary_channels": 8,
            "auxiliary_in_channels": 24,
            "num_labels": 5,
        },
    ),
    "VisualBertModel": (
        lambda: {**_TEXT(), "visual_embeds": torch.randn(BATCH, 5, 24)},
        _PLAIN | {"visual_embedding_dim": 24},
    ),
    "VitDetModel": (
        lambda: _IMAGE(32),
        _PATCHES
        | {"pretrain_image_size": 32, "window_size": 2}
        | {"window_block_indices": [0], "residual_block_indices": [1]},
    ),
    "Wav2Vec2ConformerModel": (
        lambda: {"input_values": torch.randn(BATCH, 400)},
        base._SPEECH | {"conv_depthwise_kernel_size": 7},
    ),
    "XGLMForCausalLM": (
        _TEXT,
        {"vocab_size": VOCAB, "d_model": 32, "ffn_dim": 48, "num_layers": 2}
        | {"attention_heads": 4, "use_cache": False, "max_position_embeddings": 64},
    ),
    "xLSTMForCausalLM": (
        base._ids,
        {"vocab_size": VOCAB, "hidden_size": 32, "num_blocks": 2, "num_heads": 4}
        | {"chunk_size": 4, "use_cache": False},
    ),
    "ZoeDepthForDepthEstimation": (
        lambda: _IMAGE(32),
        {
            "backbone_config": transformers.BeitConfig(
                **_PATCHES | {"num_hidden_layers": 4},
                out_features=["stage1", "stage2", "stage3", "stage4"],
                reshape_hidden_states=False,
            ),
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
            "bottleneck_features": 16,
            "num_relative_features": 8,
            "bin_embedding_dim": 16,
            "num_attractors": [4, 3, 2, 1],
            "bin_configurations": [
                {"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}
            ],
        },
    ),
    "AutoformerModel": (_PAST, _FORECAST | {"moving_average": 3}),
    "RegNetModel": (
        lambda: _IMAGE(64),
        {"embedding_size": 8, "hidden_sizes": [16, 32, 32, 48], "depths": [1, 1, 2, 1]}
        | {"groups_width": 8},
    ),
    "MobileViTForSemanticSegmentation": (
        lambda: _IMAGE(64),
        {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_labels": 5}
        | {"neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32], "aspp_out_channels": 16},
    ),
}


def _timm_class(path: str, settings: dict[str, Any]) -> Callable[[], Original]:
    def make() -> Original:
        module, _, name = path.partition(".")
        kind = getattr(getattr(timm.models, module), name)
        inputs = {"x": torch.randn(BATCH, 3, 64, 64)}
        return Original(kind(num_classes=10, **settings), inputs)

    return make


class Pyramid(nn.Module):
    """A one-stage detector: strided stages, a top-down neck, shared heads."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 8, 16, 24, 32)
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.SiLU()
            )
            for a, b in pairwise(widths)
        )
        self.lateral = nn.ModuleList(nn.Conv2d(w, 16, 1) for w in widths[2:])
        self.smooth = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
        self.tower = nn.Sequential(
            *(
                layer
                for _ in range(2)
                for layer in (nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16))
            ),
            nn.ReLU(),
        )
        self.boxes, self.classes = (nn.Conv2d(16, n, 3, padding=1) for n in (4, 6))
        self.scales = nn.Parameter(torch.ones(3))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes and classes of all levels, one after the other."""
        found, x = [], image
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        levels = [lat(x) for lat, x in zip(self.lateral, found[1:], strict=True)]
        for i in (1, 0):
            size = levels[i].shape[-2:]
            levels[i] = levels[i] + nn.functional.interpolate(levels[i + 1], size=size)
        boxes, classes = [], []
        for i, (level, smooth) in enumerate(zip(levels, self.smooth, strict=True)):
            x = self.tower(smooth(level))
            boxes.append(torch.exp(self.boxes(x) * self.scales[i]).flatten(2).mT)
            classes.append(self.classes(x).flatten(2).mT)
        return torch.cat(boxes, 1), torch.cat(classes, 1).sigmoid()


class Experts(nn.Module):
    """A mixture of experts, each applied to all, weighed by its two best gates."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 4, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))
            for _ in range(4)
        )
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        """The mixture, added and normed."""
        best, at = self.gate(x).softmax(-1).topk(2, dim=-1)
        weights = torch.zeros(*x.shape[:-1], 4).to(x).scatter(-1, at, best)
        mixed = sum(
            weights[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts)
        )
        return self.norm(x + mixed)


class StateSpace(nn.Module):
    """Diagonal state-space layers, scanned step by step, with gates."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(3, 16)
        self.log_a = nn.ParameterList(nn.Parameter(torch.randn(16)) for _ in range(2))
        self.mixes = nn.ModuleList(nn.Linear(16, 32) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.decode = nn.Linear(16, 2)

    def forward(self, series: Tensor) -> Tensor:
        """Two numbers of each step."""
        x = self.encode(series)
        for log_a, mix, norm in zip(self.log_a, self.mixes, self.norms, strict=True):
            decay = torch.sigmoid(log_a)
            state, states = torch.zeros_like(x[:, 0]), []
            for step in norm(x).unbind(1):
                state = decay * state + (1 - decay) * step
                states.append(state)
            value, gate = mix(torch.stack(states, 1)).chunk(2, -1)
            x = x + value * torch.sigmoid(gate)
        return self.decode(x)


class Contrastive(nn.Module):
    """Two towers, of an image and of a text, and how alike each pair is."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.words = nn.Embedding(VOCAB, 12, padding_idx=0)
        self.gru = nn.GRU(12, 8, bidirectional=True, batch_first=True)
        self.project = nn.ModuleDict(
            {"image": nn.Linear(8, 10), "text": nn.Linear(16, 10)}
        )
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, pixel_values: Tensor, input_ids: Tensor) -> Tensor:
        """Similarities of each image to each text."""
        images = self.project["image"](self.image(pixel_values))
        _, last = self.gru(self.words(input_ids))
        texts = self.project["text"](torch.cat([last[0], last[1]], -1))
        images = nn.functional.normalize(images, dim=-1)
        texts = texts / texts.norm(dim=-1, keepdim=True)
        return self.logit_scale.exp() * images @ texts.T


class Tagger(nn.Module):
    """Words by characters and a highway, two LSTMs, biaffine scores of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(40, 8)
        self.convs = nn.ModuleList(nn.Conv1d(8, 8, k, padding=k // 2) for k in (1, 3))
        self.transform, self.carry = nn.Linear(16, 16), nn.Linear(16, 16)
        self.lstm = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.head, self.dependent = (
            nn.Sequential(nn.Linear(24, 10), nn.ReLU()) for _ in range(2)
        )
        self.pairs = nn.Parameter(torch.randn(5, 10, 10) * 0.1)

    def forward(self, characters: Tensor) -> Tensor:
        """Scores of each label of each pair of words."""
        batch, words, letters = characters.shape
        x = self.characters(characters).view(batch * words, letters, 8).mT
        x = torch.cat([conv(x).amax(-1) for conv in self.convs], -1)
        gate = torch.sigmoid(self.carry(x))
        x = gate * torch.relu(self.transform(x)) + (1 - gate) * x
        x, _ = self.lstm(x.view(batch, words, 16))
        return torch.einsum(
            "bih,lhd,bjd->blij", self.head(x), self.pairs, self.dependent(x)
        )


_OWN: dict[type[nn.Module], Callable[[], dict[str, Tensor]]] = {
    Pyramid: lambda: {"image": torch.randn(BATCH, 3, 64, 64)},
    Experts: lambda: {"x": torch.randn(BATCH, 5, 16)},
    StateSpace: lambda: {"series": torch.randn(BATCH, 6, 3)},
    Contrastive: lambda: {**_IMAGE(), **base._ids()},
    Tagger: lambda: {"characters": torch.randint(0, 40, (BATCH, 5, 7))},
}
POOL: dict[str, Callable[[], Original]] = {
    **{f"timm_{name}": base._timm(name, **given) for name, given in _TIMM.items()},
    **{
        f"timm_{name.partition('.')[2].lower()}": _timm_class(name, given)
        for name, given in _TIMM_CLASSES.items()
    },
    **{f"hf_{name.lower()}": base._of_class(name, *g) for name, g in _HF.items()},
    **{f"own_{k.__name__.lower()}": base._plain(k, i) for k, i in _OWN.items()},
}
_order = random.Random(DRAW).sample(sorted(POOL), DRAWN)
HALVES |= {"drawn_worked": _order[::2], "drawn_kept": _order[1::2]}
base.NETWORKS |= POOL
