"""Export the two large models whose emitted sources stand in generated/.

    pip install torchvision transformers onnxscript
    python examples/export_gallery.py out
    fairhand compile out/resnet50.onnx -o generated/resnet50
    fairhand compile out/bert_base.onnx -o generated/bert_base
    fairhand compile out/bert_base.onnx -o generated/bert_base_triton --target triton

The weights are random (seeded), with BatchNorm statistics measured on random images, so
that activations keep a sane scale; the sources don't depend on them but for the hash.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn


def resnet50(out: Path) -> None:
    """ResNet-50 with a dynamic batch, by torch's current exporter."""
    from torchvision.models import resnet50 as build

    model = build(weights=None).train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # a plain average
    with torch.no_grad():
        model(torch.randn(4, 3, 224, 224))
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        model.eval(),
        (torch.randn(2, 3, 224, 224),),
        out / "resnet50.onnx",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the .onnx files")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for export in (resnet50, bert_base):
        torch.manual_seed(0)
        export(out)


if __name__ == "__main__":
    main()
