"""More networks for behaviour.py and reading.py, of families that originals.py hasn't.

Half of them, drawn by their names' hashes, are `KEPT`: they are measured, but no fault
of the emitted code is looked for there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import originals as base
import torch
from originals import BATCH, LENGTH, VOCAB, Original
from torch import Tensor, nn
from torch.nn.utils import parametrizations

_TIMM: dict[str, dict[str, Any]] = {
    "beit_base_patch16_224": {"img_size": 64, "depth": 2, "embed_dim": 32}
    | {"num_heads": 2},
    "deit_tiny_distilled_patch16_224": {"img_size": 64, "depth": 2},
    "dpn48b": {},
    "efficientformerv2_s0": {"img_size": 64},
    "efficientvit_m0": {"img_size": 64},
    "eva02_tiny_patch14_224": {"img_size": 64, "patch_size": 16, "depth": 2},
    "fasternet_t0": {},
    "gernet_s": {},
    "mobileone_s0": {},
    "repghostnet_050": {},
    "resnest14d": {},
    "shvit_s1": {},
    "swiftformer_xs": {},
    "swinv2_cr_tiny_224": {"img_size": 64, "depths": (1, 1, 1, 1), "embed_dim": 16}
    | {"num_heads": (1, 2, 4, 8), "window_size": (2, 2)},
    "tresnet_m": {},
    "ese_vovnet19b_dw": {},
    "csatv2": {},
    "efficientvim_m1": {},
    "iformer_t": {},
}


class Recurrent(nn.Module):
    """A tagger of bags of words: EmbeddingBag, a stacked LSTM and attention over it."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(VOCAB, 16, mode="mean")
        self.lstm = nn.LSTM(16, 12, num_layers=2, batch_first=True, bidirectional=True)
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 7)

    def forward(self, words: Tensor) -> Tensor:
        """Scores of each sentence's words, each a bag of pieces."""
        bags = self.bags(words.flatten(0, 1)).unflatten(0, words.shape[:2])
        hidden, _ = self.lstm(bags)
        mixed, _ = self.attention(hidden, hidden, hidden, need_weights=False)
        return self.head(self.norm(hidden + mixed))


class Vocoder(nn.Module):
    """Weight-norm and spectral-norm layers, transposed convolutions, statistics."""

    def __init__(self) -> None:
        super().__init__()
        norm = parametrizations.weight_norm
        self.pre = norm(nn.Conv1d(8, 16, 7, padding=3))
        self.ups = nn.ModuleList(
            norm(nn.ConvTranspose1d(16 // 2**i, 8 // 2**i, 4, 2, 1)) for i in range(2)
        )
        self.resblocks = nn.ModuleList(
            nn.ModuleList(
                norm(nn.Conv1d(8 // 2**i, 8 // 2**i, 3, padding=d, dilation=d))
                for d in (1, 3)
            )
            for i in range(2)
        )
        self.post = parametrizations.spectral_norm(nn.Conv1d(4, 1, 7, padding=3))
        self.register_buffer("mean", torch.randn(8))
        self.register_buffer("scale", torch.rand(8) + 0.5)

    def forward(self, mel: Tensor) -> Tensor:
        """A wave of a mel spectrogram."""
        x = self.pre((mel - self.mean[:, None]) / self.scale[:, None])
        for up, block in zip(self.ups, self.resblocks, strict=True):
            x = up(nn.functional.leaky_relu(x, 0.1))
            for layer in block:
                x = x + layer(nn.functional.leaky_relu(x, 0.1))
        return torch.tanh(self.post(nn.functional.leaky_relu(x)))


class Quantiser(nn.Module):
    """A vector-quantised autoencoder whose codebook is a buffer of moving averages."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1),
            nn.GroupNorm(4, 16),
            nn.SiLU(),
            nn.Conv2d(16, 8, 1),
        )
        self.register_buffer("embed", torch.randn(20, 8))
        self.register_buffer("cluster_size", torch.rand(20))
        self.decoder = nn.Sequential(
            nn.Conv2d(8, 16, 3, padding=1),
            nn.GELU(),
            nn.PixelShuffle(2),
            nn.Conv2d(4, 3, 3, padding=1),
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """The image again, and its codes."""
        z = self.encoder(image).permute(0, 2, 3, 1)
        distances = torch.cdist(z.flatten(0, 2), self.embed)
        codes = distances.argmin(-1).view(z.shape[:3])
        quantised = nn.functional.embedding(codes, self.embed)
        return self.decoder(quantised.permute(0, 3, 1, 2)), codes


class Recommender(nn.Module):
    """Wide and deep: tables, crossed features, towers that share a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in (10, 20, 30))
        self.dense = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.PReLU(8))
        self.shared = nn.Linear(38, 16)
        self.towers = nn.ModuleList(
            nn.Sequential(self.shared, nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
            for _ in range(2)
        )
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def forward(self, ids: Tensor, numbers: Tensor) -> Tensor:
        """The chance of each of two actions."""
        rows = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        rows.append(self.dense(numbers))
        stack = torch.stack(rows, 1)
        upper = torch.triu_indices(4, 4, 1)
        crossed = (stack @ stack.mT)[:, upper[0], upper[1]]
        x = torch.cat([*rows, crossed], 1)
        scores = torch.cat([tower(x) for tower in self.towers], 1)
        return torch.sigmoid(scores / self.temperature)


_TEXT = base._text
_IMAGE = base._image
_PATCHES = base._PATCHES
_GROUPED = base._GROUPED
_PLAIN = base._PLAIN
_WAVES = lambda: {"input_values": torch.randn(BATCH, 400)}  # noqa: E731
_SERIES = lambda: {"past_values": torch.randn(BATCH, 32, 3)}  # noqa: E731
_MEL = lambda: {"input_features": torch.randn(BATCH, 32, 16)}  # noqa: E731
_DEC = lambda: {**base._ids(), **base._ids("decoder_input_ids")}  # noqa: E731
_T5 = {"vocab_size": VOCAB, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2}
_T5 |= {"num_heads": 4, "use_cache": False, "decoder_start_token_id": 0}
_MOE = _GROUPED | {"moe_intermediate_size": 16, "num_experts": 4}
_MOE |= {"num_experts_per_tok": 2, "n_routed_experts": 4, "head_dim": 8}
_HF: dict[str, tuple[Callable[[], dict[str, Tensor]], dict[str, Any]]] = {
    "BioGptForCausalLM": (_TEXT, base._CAUSAL),
    "BitModel": (
        _IMAGE,
        {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1]}
        | {"num_groups": 4, "layer_type": "preactivation"},
    ),
    "CLIPSegForImageSegmentation": (
        lambda: {**_TEXT(), **_IMAGE()},
        {
            "text_config": _PLAIN | {"eos_token_id": 2},
            "vision_config": _PATCHES,
            "projection_dim": 16,
            "reduce_dim": 8,
            "extract_layers": [0, 1],
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 16,
        },
    ),
    "CTRLModel": (
        _TEXT,
        {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 48}
        | {"use_cache": False},
    ),
    "CvtModel": (
        _IMAGE,
        {"embed_dim": [8, 16], "depth": [1, 2], "num_heads": [1, 2]}
        | {"patch_sizes": [7, 3], "patch_stride": [4, 2], "patch_padding": [2, 1]}
        | {"cls_token": [False, True], "mlp_ratio": [2.0, 2.0]}
        | {"attention_drop_rate": [0.0, 0.0], "drop_rate": [0.0, 0.0]}
        | {"drop_path_rate": [0.0, 0.0], "qkv_bias": [True, True]}
        | {"qkv_projection_method": ["dw_bn", "dw_bn"], "kernel_qkv": [3, 3]}
        | {"padding_kv": [1, 1], "stride_kv": [2, 2], "padding_q": [1, 1]}
        | {"stride_q": [1, 1]},
    ),
    "DINOv3ViTModel": (_IMAGE, _PATCHES),
    "DacModel": (
        lambda: {"input_values": torch.randn(BATCH, 1, 256)},
        {"encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "n_codebooks": 2}
        | {"decoder_hidden_size": 32, "upsampling_ratios": [4, 2]}
        | {"codebook_size": 16, "codebook_dim": 4},
    ),
    "DeepseekV2ForCausalLM": (
        _TEXT,
        _MOE
        | {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8}
        | {"qk_rope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1}
        | {"n_group": 1, "topk_group": 1, "num_key_value_heads": 4},
    ),
    "DiffLlamaForCausalLM": (_TEXT, _GROUPED),
    "EsmModel": (
        _TEXT,
        _PLAIN
        | {"pad_token_id": 1, "mask_token_id": 2, "position_embedding_type": "rotary"},
    ),
    "FocalNetModel": (
        _IMAGE,
        {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "focal_levels": [2, 2]}
        | {"hidden_sizes": [16, 32], "focal_windows": [3, 3]},
    ),
    "GLPNForDepthEstimation": (
        lambda: _IMAGE(64),
        {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
        | {"num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16}
        | {"sr_ratios": [4, 2, 1, 1]},
    ),
    "GPTBigCodeForCausalLM": (
        _TEXT,
        {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48}
        | {"use_cache": False},
    ),
    "GPTNeoForCausalLM": (
        _TEXT,
        {"vocab_size": VOCAB, "hidden_size": 32, "num_layers": 2, "num_heads": 4}
        | {"attention_types": [[["global", "local"], 1]], "window_size": 4}
        | {"use_cache": False, "intermediate_size": 48},
    ),
    "Gemma3ForCausalLM": (
        _TEXT,
        _GROUPED | {"head_dim": 8, "sliding_window": 4, "num_hidden_layers": 3},
    ),
    "GptOssForCausalLM": (
        _TEXT,
        _GROUPED | {"head_dim": 8, "num_local_experts": 4, "sliding_window": 4},
    ),
    "IBertModel": (_TEXT, _PLAIN | {"quant_mode": False}),
    "LEDModel": (
        lambda: {
            "input_ids": torch.randint(3, VOCAB, (BATCH, 16)),
            **base._ids("decoder_input_ids"),
        },
        base._SEQ2SEQ | {"attention_window": [4, 4]},
    ),
    "Lfm2ForCausalLM": (
        _TEXT,
        _GROUPED | {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3},
    ),
    "LiltModel": (
        lambda: {
            **_TEXT(),
            "bbox": torch.randint(0, 90, (BATCH, LENGTH, 4)).sort(-1)[0],
        },
        _PLAIN
        | {"hidden_size": 48, "max_2d_position_embeddings": 96}
        | {"channel_shrink_ratio": 2},
    ),
    "LxmertModel": (
        lambda: {
            **_TEXT(),
            "visual_feats": torch.randn(BATCH, 5, 24),
            "visual_pos": torch.rand(BATCH, 5, 4),
        },
        _PLAIN | {"visual_feat_dim": 24, "l_layers": 1, "x_layers": 1, "r_layers": 1},
    ),
    "Mamba2ForCausalLM": (
        base._ids,
        {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2}
        | {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2}
        | {"chunk_size": 4, "use_cache": False, "tie_word_embeddings": True},
    ),
    "MarianModel": (_DEC, base._SEQ2SEQ | {"pad_token_id": 0}),
    "MobileViTV2ForSemanticSegmentation": (
        lambda: _IMAGE(64),
        {"width_multiplier": 0.25, "image_size": 64, "num_labels": 5}
        | {"n_attn_blocks": [1, 1, 1], "aspp_out_channels": 16},
    ),
    "MoonshineModel": (
        lambda: {
            "input_values": torch.randn(BATCH, 2000),
            **base._ids("decoder_input_ids"),
        },
        {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48}
        | {"encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2}
        | {"encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4}
        | {"use_cache": False},
    ),
    "MptForCausalLM": (
        _TEXT,
        {"vocab_size": VOCAB, "d_model": 32, "n_heads": 4, "n_layers": 2}
        | {"expansion_ratio": 2, "use_cache": False, "max_seq_len": 32},
    ),
    "NystromformerModel": (
        lambda: {"input_ids": torch.randint(3, VOCAB, (BATCH, 16))},
        _PLAIN | {"num_landmarks": 4, "segment_means_seq_len": 16},
    ),
    "OlmoeForCausalLM": (_TEXT, _MOE),
    "OwlViTForObjectDetection": (
        lambda: {**_TEXT(), **_IMAGE()},
        {
            "text_config": _PLAIN | {"max_position_embeddings": LENGTH},
            "vision_config": _PATCHES,
            "projection_dim": 32,
        },
    ),
    "PatchTSTForPrediction": (
        _SERIES,
        {"num_input_channels": 3, "context_length": 32, "patch_length": 8}
        | {"patch_stride": 8, "prediction_length": 6, "num_hidden_layers": 2}
        | {"d_model": 16, "num_attention_heads": 2, "ffn_dim": 24},
    ),
    "PatchTSMixerForPrediction": (
        _SERIES,
        {"num_input_channels": 3, "context_length": 32, "patch_length": 8}
        | {"patch_stride": 8, "prediction_length": 6, "num_layers": 2, "d_model": 16},
    ),
    "PersimmonForCausalLM": (_TEXT, base._CAUSAL),
    "Phi3ForCausalLM": (_TEXT, _GROUPED),
    "PoolFormerModel": (
        _IMAGE,
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
    ),
    "ProphetNetModel": (
        _DEC,
        {"vocab_size": VOCAB, "hidden_size": 32, "num_encoder_layers": 2}
        | {"num_decoder_layers": 2, "num_encoder_attention_heads": 4}
        | {"num_decoder_attention_heads": 4, "encoder_ffn_dim": 48}
        | {"decoder_ffn_dim": 48, "use_cache": False, "ngram": 2},
    ),
    "Qwen2MoeForCausalLM": (
        _TEXT,
        _MOE | {"shared_expert_intermediate_size": 24, "decoder_sparse_step": 1},
    ),
    "RecurrentGemmaForCausalLM": (
        _TEXT,
        _GROUPED
        | {"lru_width": 32, "attention_window_size": 4, "num_hidden_layers": 3}
        | {"head_dim": 8},
    ),
    "RemBertModel": (
        _TEXT,
        _PLAIN | {"input_embedding_size": 16, "output_embedding_size": 16},
    ),
    "SEWDModel": (
        _WAVES,
        base._SPEECH | {"squeeze_factor": 2, "position_buckets": 8},
    ),
    "SwiftFormerModel": (
        lambda: _IMAGE(64),
        {"depths": [1, 1, 1, 1], "embed_dims": [8, 16, 24, 32], "image_size": 64},
    ),
    "Swin2SRForImageSuperResolution": (
        lambda: _IMAGE(16),
        {"image_size": 16, "patch_size": 1, "embed_dim": 12, "depths": [2, 2]}
        | {"num_heads": [2, 2], "window_size": 4, "upscale": 2},
    ),
    "SwitchTransformersEncoderModel": (
        _TEXT,
        _T5 | {"num_experts": 4, "num_sparse_encoder_layers": 1},
    ),
    "T5ForConditionalGeneration": (_DEC, _T5 | {"feed_forward_proj": "gated-gelu"}),
    "TapasModel": (
        lambda: {**_TEXT(), "token_type_ids": torch.zeros(BATCH, LENGTH, 7).long()},
        _PLAIN | {"type_vocab_sizes": [3, 8, 8, 2, 8, 8, 4]},
    ),
    "UMT5EncoderModel": (_TEXT, _T5),
    "UniSpeechSatModel": (_WAVES, base._SPEECH),
    "VivitModel": (
        base._VIDEO,
        _PLAIN | {"image_size": 32, "num_frames": 4, "tubelet_size": [2, 8, 8]},
    ),
    "Wav2Vec2BertModel": (
        lambda: {"input_features": torch.randn(BATCH, 20, 16)},
        _PLAIN | {"feature_projection_input_dim": 16, "conv_depthwise_kernel_size": 7},
    ),
    "WavLMModel": (
        _WAVES,
        base._SPEECH | {"num_buckets": 16, "max_bucket_distance": 32},
    ),
    "XLMModel": (
        _TEXT,
        {"vocab_size": VOCAB, "emb_dim": 32, "n_layers": 2, "n_heads": 4},
    ),
    "XmodModel": (
        _TEXT,
        _PLAIN | {"languages": ["en_XX"], "default_language": "en_XX"},
    ),
    "XLMRobertaXLModel": (_TEXT, _PLAIN | {"pad_token_id": 1}),
    "YosoModel": (_TEXT, _PLAIN | {"use_expectation": True}),
    "GroupViTVisionModel": (
        lambda: _IMAGE(32),
        {"image_size": 32, "patch_size": 4, "hidden_size": 32, "depths": [1, 1, 1]}
        | {
            "num_hidden_layers": 3,
            "num_group_tokens": [8, 4, 0],
            "num_attention_heads": 4,
        }
        | {"num_output_groups": [8, 4, 0], "intermediate_size": 48},
    ),
    "DecisionTransformerModel": (
        lambda: {
            "states": torch.randn(BATCH, 6, 5),
            "actions": torch.randn(BATCH, 6, 3),
            "rewards": torch.randn(BATCH, 6, 1),
            "returns_to_go": torch.randn(BATCH, 6, 1),
            "timesteps": torch.arange(6).repeat(BATCH, 1),
        },
        {"state_dim": 5, "act_dim": 3, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    ),
    "Data2VecAudioModel": (_WAVES, base._SPEECH | {"num_conv_pos_embeddings": 2}),
    "EncodecModel": (
        lambda: {"input_values": torch.randn(BATCH, 1, 320)},
        {"hidden_size": 16, "num_filters": 4, "upsampling_ratios": [4, 2]}
        | {"codebook_size": 16, "codebook_dim": 16, "target_bandwidths": [12.0]}
        | {"num_lstm_layers": 1},
    ),
    "LevitModel": (
        lambda: _IMAGE(64),
        {"image_size": 64, "hidden_sizes": [16, 32], "num_attention_heads": [2, 2]}
        | {"depths": [1, 1], "key_dim": [8, 8], "mlp_ratio": [2, 2]}
        | {"attention_ratio": [2, 2], "down_ops": [["Subsample", 8, 2, 4, 2, 2], [""]]},
    ),
}
_TORCHVISION = {
    "googlenet": {"init_weights": False, "aux_logits": False},
    "regnet_y_400mf": {},
}
_OWN: dict[type[nn.Module], Callable[[], dict[str, Tensor]]] = {
    Recurrent: lambda: {"words": torch.randint(0, VOCAB, (BATCH, 5, 3))},
    Vocoder: lambda: {"mel": torch.randn(BATCH, 8, 12)},
    Quantiser: lambda: _IMAGE(16) and {"image": torch.randn(BATCH, 3, 16, 16)},
    Recommender: lambda: {
        "ids": torch.randint(0, 10, (BATCH, 3)),
        "numbers": torch.randn(BATCH, 5),
    },
}
FURTHER: dict[str, Callable[[], Original]] = {
    **{f"timm_{name}": base._timm(name, **given) for name, given in _TIMM.items()},
    **{name.lower(): base._of_class(name, *given) for name, given in _HF.items()},
    **{
        f"tv_{name.rpartition('.')[2]}": base._torchvision(name, given)
        for name, given in _TORCHVISION.items()
    },
    **{
        f"plain_{kind.__name__.lower()}": base._plain(kind, inputs)
        for kind, inputs in _OWN.items()
    },
}
KEPT = [n for n in FURTHER if hashlib.sha256(n.encode()).digest()[0] % 2]
HALVES = {
    "kept": KEPT,
    "worked": [name for name in FURTHER if name not in KEPT],
    "first": list(base.NETWORKS),
}
base.NETWORKS |= FURTHER


def chosen(names: list[str]) -> list[str]:
    """The networks meant: some by their names, or those of a part of `HALVES`."""
    return [x for name in names for x in HALVES.get(name, [name])]
