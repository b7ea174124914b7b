"""Export the large models whose emitted sources stand in generated/.

    pip install torchvision transformers onnxscript
    python examples/export_gallery.py out
    fairhand compile out/resnet50.onnx -o generated/resnet50
    fairhand compile out/bert_base.onnx -o generated/bert_base
    for name in bert_base convnext_tiny efficientnet_b0 llama; do
        fairhand compile out/$name.onnx -o generated/${name}_triton --target triton
    done

The weights are random (seeded), with BatchNorm statistics measured on random images, so
that activations keep a sane scale; the sources don't depend on them but for the hash.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn


def images(name: str, out: Path) -> None:
    """A network of torchvision with a dynamic batch, by torch's current exporter."""
    from torchvision import models

    model = models.get_model(name, weights=None).train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # a plain average
    with torch.no_grad():
        model(torch.randn(4, 3, 224, 224))
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        model.eval(),
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
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(
            hidden_size=768,
            intermediate_size=2048,
            num_hidden_layers=6,
            num_attention_heads=12,
            num_key_value_heads=4,
            use_cache=False,
        )
        self.model = LlamaForCausalLM(config)

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the .onnx files")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name in ("resnet50", "convnext_tiny", "efficientnet_b0"):
        torch.manual_seed(0)
        images(name, out)
    for export in (bert_base, llama):
        torch.manual_seed(0)
        export(out)


if __name__ == "__main__":
    main()
