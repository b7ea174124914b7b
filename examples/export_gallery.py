"""Export the large models whose emitted sources stand in generated/.

generated/README.md has the commands that follow.

The weights are random (seeded), with BatchNorm statistics measured on random images, so
that activations keep a sane scale; the sources don't depend on them but for the hash.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    import numpy as np
    from transformers import LlamaConfig, WhisperForConditionalGeneration


def measured(model: nn.Module, images: Tensor) -> nn.Module:
    """The network for evaluation, with the statistics of these images in its norms."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # a plain average
    with torch.no_grad():
        model(images)
    return model.eval()


def images(name: str, out: Path) -> None:
    """A network of torchvision with a dynamic batch, by torch's current exporter."""
    from torchvision import models

    model = models.get_model(name, weights=None)
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        measured(model, torch.randn(4, 3, 224, 224)),
        (torch.randn(2, 3, 224, 224),),
        out / f"{name}.onnx",
        dynamo=True,
        verbose=False,
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes=({0: batch},),
    )


class Bert(nn.Module):
    """BertModel with a tuple for its result."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        self.model = BertModel(BertConfig(attn_implementation="eager"))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        found = self.model(input_ids, attention_mask, token_type_ids)
        return found.last_hidden_state, found.pooler_output


def bert_base(out: Path) -> None:
    """BERT-base with a dynamic batch and length, by torch's current exporter."""
    shape = (2, 16)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    batch, length = torch.export.Dim("batch"), torch.export.Dim("seq", max=512)
    torch.onnx.export(
        Bert().eval(),
        (
            torch.randint(0, 30522, shape),
            torch.ones(shape, dtype=torch.int64),
            torch.zeros(shape, dtype=torch.int64),
        ),
        out / "bert_base.onnx",
        dynamo=True,
        verbose=False,
        input_names=names,
        output_names=["last_hidden_state", "pooler_output"],
        dynamic_shapes=({0: batch, 1: length},) * 3,
    )


class Llama(nn.Module):
    """LlamaForCausalLM on whole texts, with a tensor for its result."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import LlamaForCausalLM

        self.model = LlamaForCausalLM(_llama_config(use_cache=False))

    def forward(self, input_ids: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids).logits
        return logits


def llama(out: Path) -> None:
    """A small Llama with grouped queries, dynamic batch and length."""
    batch, length = torch.export.Dim("batch"), torch.export.Dim("seq", max=512)
    torch.onnx.export(
        Llama().eval(),
        (torch.randint(0, 32000, (2, 16)),),
        out / "llama.onnx",
        dynamo=True,
        verbose=False,
        input_names=["input_ids"],
        output_names=["logits"],
        dynamic_shapes=({0: batch, 1: length},),
    )


def _llama_config(**options: object) -> LlamaConfig:
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=6,
        num_attention_heads=12,
        num_key_value_heads=4,
        **options,
    )


class LlamaStep(nn.Module):
    """The same network, some tokens further: caches are arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import LlamaForCausalLM

        self.model = LlamaForCausalLM(_llama_config())

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        from transformers import DynamicCache

        pairs = list(zip(past[::2], past[1::2], strict=True))
        found = self.model(
            input_ids, attention_mask, past_key_values=DynamicCache(pairs)
        )
        caches = [x for layer in found.past_key_values.layers for x in _pair(layer)]
        return found.logits, *caches


def _pair(layer: object) -> tuple[Tensor, Tensor]:
    return layer.keys, layer.values  # type: ignore[attr-defined]


def llama_step(out: Path) -> None:
    """A small Llama with caches; its checkpoint too, for other exporters."""
    model = LlamaStep().eval()
    model.model.save_pretrained(out / "llama_checkpoint")
    layers = model.model.config.num_hidden_layers
    keys = [f"{i}.{part}" for i in range(layers) for part in ("key", "value")]
    batch, new, past = (torch.export.Dim(name) for name in ("batch", "seq", "past"))
    total = torch.export.Dim("total")
    torch.onnx.export(
        model,
        (
            torch.randint(0, 32000, (2, 3)),
            torch.ones(2, 8, dtype=torch.int64),
            *(torch.randn(2, 4, 5, 64) for _ in keys),
        ),
        out / "llama_step.onnx",
        dynamo=True,
        verbose=False,
        input_names=[
            "input_ids",
            "attention_mask",
            *(f"past_key_values.{key}" for key in keys),
        ],
        output_names=["logits", *(f"present.{key}" for key in keys)],
        dynamic_shapes=(
            {0: batch, 1: new},
            {0: batch, 1: total},
            tuple({0: batch, 2: past} for _ in keys),
        ),
    )


def llama_int4(out: Path) -> None:
    """The checkpoint of llama_step as the builder of onnxruntime-genai writes it."""
    import subprocess
    import sys

    import onnx
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    # The builder copies a tokenizer, of which nothing comes into the file.
    words = {f"t{i}": i for i in range(32000)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="t0"))
    checkpoint, built = out / "llama_checkpoint", out / "llama_int4"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(checkpoint)
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
    given = ["-i", str(checkpoint), "-o", str(built), "-p", "int4", "-e", "cpu"]
    subprocess.run([*builder, *given, "-c", str(out / "cache")], check=True)
    onnx.save(onnx.load(built / "model.onnx"), out / "llama_int4.onnx")


class WhisperDecoder(nn.Module):
    """The decoder of Whisper on whole texts, with its tied head."""

    def __init__(self, model: WhisperForConditionalGeneration) -> None:
        super().__init__()
        self.decoder, self.proj_out = model.model.decoder, model.proj_out

    def forward(self, input_ids: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        found = self.decoder(
            input_ids, encoder_hidden_states=encoder_hidden_states, use_cache=False
        )
        logits: Tensor = self.proj_out(found.last_hidden_state)
        return logits


class WhisperEncoder(nn.Module):
    """The encoder of Whisper with a tensor for its result."""

    def __init__(self, model: WhisperForConditionalGeneration) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, input_features: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(input_features).last_hidden_state
        return hidden


def whisper(out: Path) -> None:
    """Whisper of the size "tiny": encoder and decoder."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(WhisperConfig()).eval()
    batch, length = torch.export.Dim("batch"), torch.export.Dim("seq", max=448)
    torch.onnx.export(
        WhisperEncoder(model).eval(),
        (torch.randn(2, 80, 3000),),
        out / "whisper_encoder.onnx",
        dynamo=True,
        verbose=False,
        input_names=["input_features"],
        output_names=["encoder_hidden_states"],
        dynamic_shapes=({0: batch},),
    )
    torch.onnx.export(
        WhisperDecoder(model).eval(),
        (torch.randint(0, 51865, (2, 16)), torch.randn(2, 1500, 384)),
        out / "whisper_decoder.onnx",
        dynamo=True,
        verbose=False,
        input_names=["input_ids", "encoder_hidden_states"],
        output_names=["logits"],
        dynamic_shapes=({0: batch, 1: length}, {0: batch}),
    )


class Conv(nn.Sequential):
    """A convolution, its norm and SiLU."""

    def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1, p: int | None = None):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2 if p is None else p, bias=False)
        self.bn = nn.BatchNorm2d(c2, eps=1e-3)
        self.act = nn.SiLU()


class Bottleneck(nn.Module):
    """Two convolutions, with or without what they were given added to them."""

    def __init__(self, width: int, shortcut: bool) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(width, width), Conv(width, width, 3)
        self.add = shortcut

    def forward(self, x: Tensor) -> Tensor:
        y = self.cv2(self.cv1(x))
        return x + y if self.add else y


class C3(nn.Module):
    """A stage: one half through bottlenecks, one around them."""

    def __init__(self, c1: int, c2: int, n: int = 1, shortcut: bool = True) -> None:
        super().__init__()
        half = c2 // 2
        self.cv1, self.cv2, self.cv3 = Conv(c1, half), Conv(c1, half), Conv(c2, c2)
        self.m = nn.Sequential(*(Bottleneck(half, shortcut) for _ in range(n)))

    def forward(self, x: Tensor) -> Tensor:
        return self.cv3(torch.cat([self.m(self.cv1(x)), self.cv2(x)], 1))


class SPPF(nn.Module):
    """Pools of three sizes, each made of the one before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(width, width // 2), Conv(2 * width, width)
        self.m = nn.MaxPool2d(5, stride=1, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        pools = [self.cv1(x)]
        for _ in range(3):
            pools.append(self.m(pools[-1]))
        return self.cv2(torch.cat(pools, 1))


class Detect(nn.Module):
    """Boxes of three sizes at each place of three maps, in pixels of the image."""

    def __init__(self, classes: int, widths: list[int]) -> None:
        super().__init__()
        self.outputs, self.strides = classes + 5, (8, 16, 32)
        self.m = nn.ModuleList(nn.Conv2d(c, 3 * self.outputs, 1) for c in widths)
        sizes = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119]
        sizes += [116, 90, 156, 198, 373, 326]
        anchors = torch.tensor(sizes, dtype=torch.float32).view(3, 1, 3, 1, 1, 2)
        self.register_buffer("anchors", anchors)

    def forward(self, maps: list[Tensor]) -> Tensor:
        found = []
        for conv, x, stride, anchors in zip(
            self.m, maps, self.strides, self.anchors, strict=True
        ):
            y = conv(x).unflatten(1, (3, self.outputs)).permute(0, 1, 3, 4, 2).sigmoid()
            places = (torch.arange(size, dtype=y.dtype) for size in y.shape[2:4])
            rows, columns = torch.meshgrid(*places, indexing="ij")
            grid = torch.stack([columns, rows], dim=2)
            centre = (2 * y[..., :2] - 0.5 + grid) * stride
            size = (2 * y[..., 2:4]) ** 2 * anchors
            found.append(torch.cat([centre, size, y[..., 4:]], -1).flatten(1, 3))
        return torch.cat(found, 1)


class Yolo(nn.Module):
    """YOLOv5s: a backbone, a path up and down again over its maps, boxes at the end."""

    def __init__(self, classes: int = 80, c: int = 32) -> None:
        super().__init__()
        self.backbone = nn.ModuleList(
            nn.Sequential(Conv(before, after, k, 2, p), *rest)
            for before, after, k, p, rest in [
                (3, c, 6, 2, []),
                (c, 2 * c, 3, 1, [C3(2 * c, 2 * c)]),
                (2 * c, 4 * c, 3, 1, [C3(4 * c, 4 * c, 2)]),
                (4 * c, 8 * c, 3, 1, [C3(8 * c, 8 * c, 3)]),
                (8 * c, 16 * c, 3, 1, [C3(16 * c, 16 * c), SPPF(16 * c)]),
            ]
        )
        self.lateral5, self.lateral4 = Conv(16 * c, 8 * c), Conv(8 * c, 4 * c)
        self.up4 = C3(16 * c, 8 * c, shortcut=False)
        self.up3 = C3(8 * c, 4 * c, shortcut=False)
        self.reduce3, self.reduce4 = Conv(4 * c, 4 * c, 3, 2), Conv(8 * c, 8 * c, 3, 2)
        self.down4 = C3(8 * c, 8 * c, shortcut=False)
        self.down5 = C3(16 * c, 16 * c, shortcut=False)
        self.upsample = nn.Upsample(scale_factor=2)
        self.detect = Detect(classes, [4 * c, 8 * c, 16 * c])

    def forward(self, image: Tensor) -> Tensor:
        maps = [image]
        for stage in self.backbone:
            maps.append(stage(maps[-1]))
        p5 = self.lateral5(maps[5])
        p4 = self.up4(torch.cat([self.upsample(p5), maps[4]], 1))
        p4 = self.lateral4(p4)
        p3 = self.up3(torch.cat([self.upsample(p4), maps[3]], 1))
        n4 = self.down4(torch.cat([self.reduce3(p3), p4], 1))
        n5 = self.down5(torch.cat([self.reduce4(n4), p5], 1))
        return self.detect([p3, n4, n5])


def yolov5s(out: Path) -> None:
    """YOLOv5s with a dynamic batch and image, by torch's current exporter."""
    torch.manual_seed(0)
    model = measured(Yolo(), torch.randn(2, 3, 256, 256))
    batch = torch.export.Dim("batch")
    height, width = (
        32 * torch.export.Dim(n, min=2, max=40) for n in ("rows", "columns")
    )
    torch.onnx.export(
        model,
        (torch.randn(2, 3, 256, 320),),
        out / "yolov5s.onnx",
        dynamo=True,
        verbose=False,
        input_names=["image"],
        output_names=["boxes"],
        dynamic_shapes=({0: batch, 2: height, 3: width},),
    )


def mobilenet_int8(out: Path) -> None:
    """MobileNetV2 in 8 bits, as ONNX Runtime's static quantiser writes it."""
    import numpy as np
    from onnxruntime import quantization

    class Images(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            random = np.random.default_rng(0)
            self.left = [random.normal(size=(4, 3, 224, 224)) for _ in range(4)]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return {"image": self.left.pop().astype(np.float32)} if self.left else None

    images("mobilenet_v2", out)
    quantization.quantize_static(
        out / "mobilenet_v2.onnx", out / "mobilenet_v2_int8.onnx", Images()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the .onnx files")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name in ("resnet50", "convnext_tiny", "efficientnet_b0"):
        torch.manual_seed(0)
        images(name, out)
    exports = bert_base, llama, llama_step, llama_int4, whisper, yolov5s, mobilenet_int8
    for export in exports:
        torch.manual_seed(0)
        export(out)


if __name__ == "__main__":
    main()
