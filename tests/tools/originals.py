"""Small networks of timm, transformers and PyTorch, and their ONNX files.

    python tests/tools/originals.py OUT [NAME ...]

writes OUT/NAME.EXPORTER.onnx by each exporter of `EXPORTERS`, and prints which of them
refuse a network. Needs the packages in requirements_originals.txt beside this file.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import plain_networks as plain
import torch
from torch import Tensor, library, nn

# torchvision's compiled operators don't load beside a PyTorch without CUDA; timm needs
# their schemas alone.
_SCHEMAS = library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _SCHEMAS.define(
        f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )

import timm  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402

# "basic": what ONNX Runtime's basic optimisations make of the raw file.
EXPORTERS = ("dynamo", "dynamo_raw", "script", "script_raw")
EXPORTERS += ("dynamo_basic", "script_basic")
SEED = 20261123
VOCAB, LENGTH, BATCH = 96, 12, 2

# The same sizes under the names that configurations of transformers use.
_PLAIN = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
_CAUSAL = _PLAIN | {"pad_token_id": 0, "use_cache": False}
_GROUPED = _CAUSAL | {"num_key_value_heads": 2}
_SEQ2SEQ = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "use_cache": False,
}
_PATCHES = _PLAIN | {"image_size": 32, "patch_size": 8}


@dataclass
class Original:
    """A network in eval mode, and what it is called with by name."""

    module: nn.Module
    inputs: dict[str, Tensor]

    def outputs(self) -> list[Tensor]:
        """The tensors that it gives for its inputs."""
        return tensors(self.module(**self.inputs))


def tensors(result: Any) -> list[Tensor]:
    """All tensors of a nested result, in order."""
    if isinstance(result, Tensor):
        return [result]
    items = result.values() if isinstance(result, Mapping) else result or ()
    return [tensor for item in items for tensor in tensors(item)]


# ---- inputs


def _image(size: int = 32, channels: int = 3) -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(BATCH, channels, size, size)}


def _ids(name: str = "input_ids") -> dict[str, Tensor]:
    return {name: torch.randint(3, VOCAB, (BATCH, LENGTH))}


def _text() -> dict[str, Tensor]:
    mask = torch.ones(BATCH, LENGTH, dtype=torch.int64)
    mask[1, -3:] = 0
    return {**_ids(), "attention_mask": mask}


# ---- networks


def _hf(
    kind: str,
    inputs: Callable[[], dict[str, Tensor]],
    settings: dict[str, Any],
    prefix: str = "",
) -> Callable[[], Original]:
    """A network of transformers: bert's BertModel by BertConfig."""
    name = kind if prefix else f"{kind}Model"
    return _of_class(name, inputs, settings)


def _of_class(
    name: str, inputs: Callable[[], dict[str, Tensor]], settings: dict[str, Any]
) -> Callable[[], Original]:
    def make() -> Original:
        network = getattr(transformers, name)
        config = network.config_class(**settings)
        config._attn_implementation = "eager"
        return Original(network(config), inputs())

    return make


def _timm(name: str, size: int = 64, **settings: Any) -> Callable[[], Original]:
    def make() -> Original:
        module = timm.create_model(name, pretrained=False, num_classes=10, **settings)
        return Original(module, {"x": torch.randn(BATCH, 3, size, size)})

    return make


class Cached(nn.Module):
    """A decoder's step with its cache as flat inputs and outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        cache = transformers.DynamicCache(config=self.model.config)
        for layer, (key, value) in enumerate(zip(past[::2], past[1::2], strict=True)):
            cache.update(key, value, layer)
        logits = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
        ).logits
        return logits, [x for layer in cache.layers for x in (layer.keys, layer.values)]


def _step(kind: str, settings: dict[str, Any], heads: int) -> Callable[[], Original]:
    def make() -> Original:
        config = getattr(transformers, f"{kind}Config")(**settings)
        config._attn_implementation = "eager"
        network = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
        module = Cached(getattr(transformers, f"{kind}{network}")(config))
        past = [torch.randn(BATCH, heads, 5, 8) for _ in range(4)]
        ids = torch.randint(3, VOCAB, (BATCH, 1))
        mask = torch.ones(BATCH, 6, dtype=torch.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "past": past}
        return Original(module, inputs)

    return make


def _plain(
    kind: type[nn.Module], inputs: Callable[[], dict[str, Tensor]]
) -> Callable[[], Original]:
    return lambda: Original(kind(), inputs())


_WHISPER = _SEQ2SEQ | {
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 24,
    "pad_token_id": 0,
}
_GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4}
_GPT2 |= {"use_cache": False}

NETWORKS: dict[str, Callable[[], Original]] = {
    "bert": _hf("Bert", _text, _PLAIN),
    "roberta": _hf("Roberta", _text, _PLAIN | {"pad_token_id": 1}),
    "albert": _hf("Albert", _text, _PLAIN | {"embedding_size": 16}),
    "electra": _hf("Electra", _text, _PLAIN | {"embedding_size": 16}),
    "distilbert": _hf(
        "DistilBert",
        _text,
        {"vocab_size": VOCAB, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    ),
    "deberta": _hf(
        "DebertaV2",
        _text,
        _PLAIN | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    ),
    "mpnet": _hf("MPNet", _text, _PLAIN),
    "modernbert": _hf("ModernBert", _text, _PLAIN | {"pad_token_id": 0}),
    "gpt2": _hf("GPT2LMHeadModel", _text, _GPT2, "GPT2"),
    "gpt2_step": _step("GPT2", _GPT2, 4),
    "gptneox": _hf("GPTNeoX", _text, _CAUSAL),
    "opt": _hf("OPT", _text, _CAUSAL | {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "bloom": _hf("Bloom", _text, _CAUSAL | {"n_layer": 2, "n_head": 4}),
    "llama": _hf("LlamaForCausalLM", _text, _GROUPED, "Llama"),
    "llama_step": _step("Llama", _GROUPED, 2),
    "gemma2": _hf("Gemma2ForCausalLM", _text, _GROUPED | {"head_dim": 8}, "Gemma2"),
    "qwen3": _hf("Qwen3ForCausalLM", _text, _GROUPED | {"head_dim": 8}, "Qwen3"),
    "mixtral": _hf(
        "MixtralForCausalLM", _text, _GROUPED | {"num_local_experts": 4}, "Mixtral"
    ),
    "phi": _hf("PhiForCausalLM", _text, _CAUSAL, "Phi"),
    "mamba": _hf("Mamba", _ids, _CAUSAL | {"state_size": 4, "time_step_rank": 4}),
    "t5": _hf(
        "T5EncoderModel",
        _text,
        {"vocab_size": VOCAB, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2}
        | {"num_heads": 4},
        "T5",
    ),
    "bart": _hf("Bart", _text, _SEQ2SEQ),
    "whisper": _hf(
        "Whisper",
        lambda: {
            "input_features": torch.randn(BATCH, 8, 32),
            "decoder_input_ids": _ids()["input_ids"],
        },
        _WHISPER,
    ),
    "wav2vec2": _hf(
        "Wav2Vec2",
        lambda: {"input_values": torch.randn(BATCH, 400)},
        _PLAIN
        | {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3)}
        | {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}
        | {"mask_time_prob": 0.0},
    ),
    "vit": _hf("ViT", _image, _PATCHES),
    "deit": _hf("DeiT", _image, _PATCHES),
    "beit": _hf("Beit", _image, _PATCHES | {"use_relative_position_bias": True}),
    "dinov2": _hf("Dinov2", _image, _PATCHES),
    "swin": _hf(
        "Swin",
        _image,
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": (2, 2)}
        | {"num_heads": (2, 4), "window_size": 4},
    ),
    "segformer": _hf(
        "SegformerForSemanticSegmentation",
        lambda: _image(64),
        {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1]}
        | {"hidden_sizes": [16, 32], "num_attention_heads": [2, 4]}
        | {"patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2]}
        | {"decoder_hidden_size": 16, "num_labels": 5},
        "Segformer",
    ),
    "clip": _hf(
        "CLIPModel",
        lambda: {**_ids(), **_image(), "attention_mask": _text()["attention_mask"]},
        {
            "text_config": _PLAIN | {"eos_token_id": 2},
            "vision_config": _PATCHES,
            "projection_dim": 16,
        },
        "CLIP",
    ),
    **{
        name.lower(): _hf(name, _text, _PLAIN)
        for name in ("Camembert", "ConvBert", "Ernie", "RoFormer", "XLMRoberta")
    },
    **{
        name.lower(): _hf(f"{name}ForCausalLM", _text, _GROUPED, name)
        for name in ("Cohere", "Mistral", "Olmo2", "Qwen2", "StableLm", "Starcoder2")
    },
    "gptj": _hf("GPTJModel", _text, _GPT2 | {"rotary_dim": 4}, "GPTJ"),
    "falcon": _hf("Falcon", _text, _CAUSAL),
    "pegasus": _hf("Pegasus", _text, _SEQ2SEQ),
    "yolos": _hf("Yolos", _image, _PATCHES | {"image_size": [32, 32]}),
    "lstm": _plain(plain.Tagger, _ids),
    "gru": _plain(plain.Gru, lambda: {"x": torch.randn(BATCH, 9, 8)}),
    "detector": _plain(
        plain.Detector, lambda: {"image": torch.randn(BATCH, 3, 32, 32)}
    ),
    "timm_resnet": _timm("test_resnet"),
    "timm_resnet18": _timm("resnet18"),
    "timm_mobilenetv3": _timm("mobilenetv3_small_050"),
    "timm_efficientnet": _timm("test_efficientnet"),
    "timm_convnext": _timm("test_convnext"),
    "timm_nfnet": _timm("test_nfnet"),
    "timm_vit": _timm("test_vit", img_size=64),
    "timm_vit_relpos": _timm("test_vit_relpos", img_size=64),
    "timm_maxvit": _timm("test_maxvit", img_size=64),
    "timm_coatnet": _timm("test_coatnet", img_size=64),
    "timm_byobnet": _timm("test_byobnet"),
    "timm_mambaout": _timm("test_mambaout"),
    "timm_swin": _timm(
        "swin_tiny_patch4_window7_224",
        img_size=64,
        window_size=4,
        embed_dim=16,
        depths=(2, 2),
        num_heads=(2, 4),
    ),
    "timm_densenet": _timm("densenet121", block_config=(2, 2), growth_rate=8),
    "timm_regnet": _timm("regnety_002"),
    **{
        f"timm_{name}": _timm(name)
        for name in (
            *("test_convnext2", "test_efficientnet_gn", "test_efficientnet_ln"),
            *("dla46_c", "edgenext_xx_small", "ghostnet_050", "lcnet_035"),
            *("mobilenetv4_conv_small_035", "mobilevit_xxs", "repvgg_a0"),
            *("skresnet18", "tinynet_e", "resnetv2_18", "hrnet_w18_small"),
        )
    },
    **{
        f"timm_{name}": _timm(name, img_size=64)
        for name in ("test_vit2", "test_vit3", "pvt_v2_b0", "test_vit4")
    },
}


# ---- networks of other families, a table each: settings for a small one

_TIMM: dict[str, dict[str, Any]] = {
    "cspresnet50": {},
    "tiny_vit_5m_224": {},
    "poolformer_s12": {},
    "resmlp_12_224": {"img_size": 64},
    "gmlp_ti16_224": {"img_size": 64},
    "fastvit_t8": {},
    "cait_xxs24_224": {"img_size": 64, "depth": 2, "depth_token_only": 1},
    "coat_tiny": {"img_size": 64, "serial_depths": (1, 1, 1, 1), "parallel_depth": 1},
    "convit_tiny": {"img_size": 64, "depth": 3, "local_up_to_layer": 2},
    "crossvit_9_240": {"depth": ((1, 2, 0), (1, 2, 0))},
    "davit_tiny": {"depths": (1, 1, 2, 1), "embed_dims": (16, 32, 48, 64)}
    | {"num_heads": (1, 2, 3, 4)},
    "efficientvit_b0": {},
    "hgnetv2_b0": {},
    "hiera_tiny_224": {"img_size": 64, "stages": (1, 1, 2, 1), "embed_dim": 16}
    | {"num_heads": 1},
    "inception_next_atto": {},
    "levit_128s": {"img_size": 64},
    "mobilevitv2_050": {},
    "pit_ti_224": {"img_size": 64},
    "pvt_v2_b2_li": {"depths": (1, 1, 2, 1), "embed_dims": (16, 32, 48, 64)}
    | {"num_heads": (1, 2, 3, 4)},
    "repvit_m0_9": {},
    "res2net50_14w_8s": {"layers": (1, 1, 1, 1)},
    "rexnet_100": {},
    "selecsls42b": {},
    "sequencer2d_s": {"img_size": 64, "layers": (1, 1, 2, 1)}
    | {"embed_dims": (16, 32, 32, 32), "hidden_sizes": (8, 16, 16, 16)},
    "starnet_s1": {},
    "tnt_s_patch16_224": {"img_size": 64, "depth": 2},
    "twins_svt_small": {"img_size": 64, "depths": (1, 1, 2, 1)}
    | {"embed_dims": (16, 32, 48, 64), "num_heads": (1, 2, 3, 4), "wss": (4, 4, 4, 2)},
    "visformer_tiny": {"img_size": 64, "embed_dim": 32, "depth": (1, 2, 1)}
    | {"num_heads": 2, "init_channels": 8},
    "xcit_nano_12_p16_224": {"img_size": 64, "depth": 2},
}
_WAVES = lambda: {"input_values": torch.randn(BATCH, 400)}  # noqa: E731
_SPEECH = _PLAIN | {
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "mask_time_prob": 0.0,
}
_VIDEO = lambda: {"pixel_values": torch.randn(BATCH, 4, 3, 32, 32)}  # noqa: E731
_SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": (2, 2)}
_SWIN |= {"num_heads": (2, 4), "window_size": 4}
_RESNET = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1]}
_RESNET |= {"layer_type": "basic"}
_SEQ_INPUTS = lambda: {**_ids(), **_ids("decoder_input_ids")}  # noqa: E731
_HF: dict[str, tuple[Callable[[], dict[str, Tensor]], dict[str, Any]]] = {
    "ASTModel": (
        lambda: {"input_values": torch.randn(BATCH, 64, 32)},
        _PLAIN | {"max_length": 64, "num_mel_bins": 32},
    ),
    "BigBirdModel": (_text, _PLAIN | {"attention_type": "original_full"}),
    "BlipVisionModel": (_image, _PATCHES),
    "CanineModel": (
        lambda: {"input_ids": torch.randint(3, VOCAB, (BATCH, 32))},
        _PLAIN
        | {"local_transformer_stride": 16, "downsampling_rate": 4}
        | {"num_hash_functions": 4, "num_hash_buckets": 64},
    ),
    "ClapAudioModel": (
        lambda: {"input_features": torch.randn(BATCH, 1, 64, 32)},
        {"spec_size": 64, "num_mel_bins": 32, "patch_embeds_hidden_size": 16}
        | {"depths": (1, 1), "num_attention_heads": (2, 4), "hidden_size": 32}
        | {"window_size": 4},
    ),
    "CodeGenForCausalLM": (
        _text,
        {"vocab_size": VOCAB, "n_embd": 64, "n_layer": 2}
        | {"n_head": 4, "rotary_dim": 8, "use_cache": False},
    ),
    "ConvNextV2Model": (
        _image,
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "image_size": 32},
    ),
    "DPTForDepthEstimation": (
        _image,
        _PATCHES
        | {"backbone_out_indices": [0, 1], "neck_hidden_sizes": [16, 16]}
        | {"reassemble_factors": [2, 1], "fusion_hidden_size": 16}
        | {"head_in_index": -1, "is_hybrid": False, "use_auxiliary_head": False},
    ),
    "FNetModel": (_ids, _PLAIN),
    "FunnelBaseModel": (
        _text,
        {"vocab_size": VOCAB, "block_sizes": [1, 1], "d_model": 32, "n_head": 4}
        | {"d_head": 8, "d_inner": 48},
    ),
    "GraniteForCausalLM": (_text, _GROUPED),
    "HubertModel": (_WAVES, _SPEECH),
    "LayoutLMModel": (
        lambda: {
            **_text(),
            "bbox": torch.randint(0, 90, (BATCH, LENGTH, 4)).sort(-1)[0],
        },
        _PLAIN | {"max_2d_position_embeddings": 96},
    ),
    "LongformerModel": (
        lambda: {"input_ids": torch.randint(3, VOCAB, (BATCH, 16))},
        _PLAIN | {"attention_window": [4, 4], "pad_token_id": 1},
    ),
    "M2M100Model": (_SEQ_INPUTS, _SEQ2SEQ),
    "MobileBertModel": (
        _text,
        _PLAIN
        | {"embedding_size": 16, "intra_bottleneck_size": 16}
        | {"true_hidden_size": 16},
    ),
    "PerceiverModel": (
        lambda: {"inputs": torch.randn(BATCH, 9, 16)},
        {"d_model": 16, "num_latents": 4, "d_latents": 32, "num_blocks": 1}
        | {"num_self_attends_per_block": 2, "num_self_attention_heads": 4}
        | {"num_cross_attention_heads": 4},
    ),
    "SamVisionModel": (
        lambda: {"pixel_values": torch.randn(BATCH, 3, 64, 64)},
        _PLAIN
        | {"image_size": 64, "patch_size": 8, "output_channels": 16}
        | {"window_size": 4, "global_attn_indexes": [1], "mlp_dim": 48},
    ),
    "SiglipVisionModel": (_image, _PATCHES),
    "SqueezeBertModel": (_text, _PLAIN | {"embedding_size": 32}),
    "SEWModel": (
        _WAVES,
        _SPEECH | {"squeeze_factor": 2},
    ),
    "SpeechT5ForSpeechToText": (
        lambda: {"input_values": torch.randn(BATCH, 400), **_ids("decoder_input_ids")},
        _SPEECH | _SEQ2SEQ | {"encoder_max_relative_position": 8},
    ),
    "Swinv2Model": (_image, _SWIN),
    "TimesformerModel": (_VIDEO, _PATCHES | {"num_frames": 4}),
    "VideoMAEModel": (_VIDEO, _PATCHES | {"num_frames": 4}),
    "ViltModel": (
        lambda: {**_text(), **_image()},
        _PATCHES | {"max_image_length": -1},
    ),
    "VitsModel": (
        _text,
        _PLAIN
        | {"ffn_dim": 48, "flow_size": 16, "spectrogram_bins": 9}
        | {"upsample_initial_channel": 32, "upsample_rates": [4, 2]}
        | {"upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3]}
        | {"resblock_dilation_sizes": [[1, 3]], "prior_encoder_num_flows": 2}
        | {
            "prior_encoder_num_wavenet_layers": 2,
            "use_stochastic_duration_prediction": False,
        }
        | {"duration_predictor_filter_channels": 16, "noise_scale": 0.0},
    ),
    "XLNetModel": (
        _text,
        {"vocab_size": VOCAB, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
        | {"use_mems_eval": False},
    ),
    "DetrForObjectDetection": (
        lambda: _image(64),
        {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
        | {
            "backbone_config": transformers.ResNetConfig(
                **_RESNET, out_features=["stage2"]
            )
        }
        | {
            key: _SEQ2SEQ[key]
            for key in _SEQ2SEQ
            if key not in ("vocab_size", "use_cache")
        }
        | {"num_queries": 5, "num_labels": 6},
    ),
    "Mask2FormerForUniversalSegmentation": (
        lambda: _image(64),
        {
            "backbone_config": transformers.SwinConfig(
                **_SWIN | {"depths": (1, 1, 1, 1), "num_heads": (2, 2, 4, 4)},
                out_features=["stage1", "stage2", "stage3", "stage4"],
            )
        }
        | {
            "hidden_dim": 32,
            "feature_size": 32,
            "mask_feature_size": 32,
            "encoder_layers": 1,
            "decoder_layers": 2,
        }
        | {
            "num_attention_heads": 4,
            "dim_feedforward": 48,
            "encoder_feedforward_dim": 48,
            "num_queries": 5,
            "num_labels": 6,
        },
    ),
    "RwkvModel": (
        _ids,
        {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2}
        | {"attention_hidden_size": 32, "use_cache": False},
    ),
    "BlenderbotModel": (_SEQ_INPUTS, _SEQ2SEQ),
    "ResNetModel": (_image, _RESNET),
}
_TORCHVISION: dict[str, dict[str, Any]] = {
    "mnasnet0_5": {},
    "shufflenet_v2_x0_5": {},
    "segmentation.lraspp_mobilenet_v3_large": {"weights_backbone": None},
    "segmentation.deeplabv3_mobilenet_v3_large": {"weights_backbone": None},
}

_OWN: dict[type[nn.Module], Callable[[], dict[str, Tensor]]] = {
    plain.Crnn: lambda: {"image": torch.randn(BATCH, 1, 16, 24)},
    plain.Forecast: lambda: {"series": torch.randn(BATCH, 6)},
    plain.Generator: lambda: {"noise": torch.randn(BATCH, 16)},
    plain.GraphNet: lambda: {
        "nodes": torch.randn(10, 6),
        "source": torch.randint(0, 10, (20,)),
        "target": torch.randint(0, 10, (20,)),
    },
    plain.Language: lambda: _ids("tokens"),
    plain.NeRF: lambda: {
        "points": torch.randn(BATCH, 7, 3),
        "directions": torch.randn(BATCH, 7, 3),
    },
    plain.Separator: lambda: {"mixture": torch.randn(BATCH, 1, 80)},
    plain.Seq2Seq: lambda: {**_ids("source"), **_ids("target")},
    plain.Towers: lambda: {"x": torch.randn(BATCH, 8)},
    plain.UNet: lambda: {"image": torch.randn(BATCH, 3, 32, 32)},
    plain.WaveNet: lambda: {"wave": torch.randn(BATCH, 1, 40)},
}


def _torchvision(name: str, settings: dict[str, Any]) -> Callable[[], Original]:
    def make() -> Original:
        folder, _, function = f"models.{name}".rpartition(".")
        module = torchvision
        for word in folder.split("."):
            module = getattr(module, word)
        network = getattr(module, function)(weights=None, num_classes=5, **settings)
        return Original(network, {"x": torch.randn(BATCH, 3, 64, 64)})

    return make


NETWORKS |= {f"timm_{name}": _timm(name, **given) for name, given in _TIMM.items()}
NETWORKS |= {
    re.sub("Model|For[A-Z].*", "", name).lower(): _of_class(name, inputs, settings)
    for name, (inputs, settings) in _HF.items()
}
NETWORKS |= {
    f"tv_{name.rpartition('.')[2]}": _torchvision(name, given)
    for name, given in _TORCHVISION.items()
}
NETWORKS |= {
    f"plain_{kind.__name__.lower()}": _plain(kind, inputs)
    for kind, inputs in _OWN.items()
}


def original(name: str) -> Original:
    """The network of that name with its weights and inputs, the same at each call."""
    torch.manual_seed(SEED)
    made = NETWORKS[name]()
    with torch.no_grad():
        for tensor in made.module.state_dict().values():
            if tensor.is_floating_point() and tensor.unique().numel() == 1:
                tensor += 0.1 * torch.rand_like(tensor)  # ones and zeros say nothing
    made.module.eval()
    return made


# ---- export


def export(made: Original, exporter: str, path: Path) -> None:
    """Write the ONNX file of a network; raises what the exporter raises."""
    by, _, how = exporter.partition("_")
    raw = how != ""
    # TorchScript's names them in forward's order, whatever the one they are given in.
    names = [n for n in signature(made.module.forward).parameters if n in made.inputs]
    if how == "basic":
        from_file = path.with_name(path.name.replace(exporter, f"{by}_raw"))
        if not from_file.exists():
            export(made, f"{by}_raw", from_file)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        )
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(from_file, options)
        return
    if by == "dynamo":
        torch.onnx.export(
            made.module,
            kwargs=made.inputs,
            f=path,
            dynamo=True,
            optimize=not raw,
            external_data=False,
            verbose=False,
            dynamic_shapes={name: _batched(x) for name, x in made.inputs.items()},
        )
        return
    flat = len(tensors(made.inputs)) == len(names)
    axes = {name: {0: "batch"} for name in names} if flat else None
    torch.onnx.export(
        made.module,
        (made.inputs,),
        path,
        dynamo=False,
        dynamic_axes=axes,
        input_names=names if flat else None,
        do_constant_folding=not raw,
        training=torch.onnx.TrainingMode.PRESERVE,
        opset_version=17,
    )


def _batched(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {0: torch.export.Dim.DYNAMIC}
    return [_batched(item) for item in value]


def files(
    folder: Path, names: list[str], exporters: Iterable[str] = EXPORTERS
) -> Iterator[tuple[str, str, Path]]:
    """Network, exporter and path of each file, exported where it isn't there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NETWORKS:
        for exporter in exporters:
            path = folder / f"{name}.{exporter}.onnx"
            refused = path.with_suffix(".refused")
            if not path.exists() and not refused.exists():
                try:
                    with torch.no_grad(), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        made = original(name)
                        export(made, exporter, path)
                    taken = onnx.load(path, load_external_data=False).graph.input
                    if len(taken) > len(tensors(made.inputs)):
                        raise ValueError(f"inputs {[value.name for value in taken]}")
                except Exception as error:  # an exporter's limit is none of ours
                    path.unlink(missing_ok=True)
                    refused.write_text(f"{type(error).__name__}: {error}")
            if path.exists():
                yield name, exporter, path


def main() -> None:
    """Export the networks named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for name, exporter, _ in files(given.folder, given.names):
        print(name, exporter, flush=True)
    for path in sorted(given.folder.glob("*.refused")):
        print("refused", path.stem, path.read_text()[:150].replace("\n", " "))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
