"""Export the models of DNNFusion's Table 5 in the spelling that its counts come from.

    python benchmarks/export_decomposed.py models/

ONNX opset 11, where LayerNormalization, Gelu and HardSwish have no operator of their
own; BatchNormalization and Dropout as in training, and no constants folded. Where
today's libraries spell less out, older_spellings.py stands in. The weights are random
and vocabularies short: no operator depends on them. Needs torchvision and transformers.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from older_spellings import GPT2, UNet, as_keras_has_it

VOCABULARY, TOKENS = 1000, 128


class FirstResult(torch.nn.Module):
    """A language model without its caches and labels."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(ids, attention_mask=mask, return_dict=False)[0]


def image(
    name: str, change: Callable[[torch.nn.Module], torch.nn.Module] = lambda made: made
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    import torchvision

    network = change(getattr(torchvision.models, name)())
    return network, (torch.randn(1, 3, 224, 224),)


def language(kind: str, **settings: Any) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    import transformers

    config = getattr(transformers, f"{kind}Config")(vocab_size=VOCABULARY, **settings)
    config._attn_implementation = "eager"
    config.use_cache = False
    model = getattr(transformers, f"{kind}Model")(config)
    return FirstResult(model), tokens()


def tokens() -> tuple[torch.Tensor, ...]:
    ids = torch.randint(0, VOCABULARY, (1, TOKENS))
    return ids, torch.ones_like(ids)


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {
    "efficientnet_b0": lambda: image("efficientnet_b0", as_keras_has_it),
    "vgg16": lambda: image("vgg16_bn"),
    "distilbert": lambda: language("DistilBert"),
    "albert": lambda: language(
        "Albert", hidden_size=768, intermediate_size=3072, num_attention_heads=12
    ),
    "bert_base": lambda: language("Bert"),
    "mobilebert": lambda: language("MobileBert"),
    "gpt2": lambda: (GPT2(VOCABULARY), tokens()),
    "unet": lambda: (UNet(), (torch.randn(1, 3, 256, 256),)),
}
# Sizes that are free, which are then computed in the graph.
FREE: dict[str, dict[str, dict[int, str]]] = {
    "gpt2": {
        "ids": {0: "batch", 1: "tokens"},
        "mask": {0: "batch", 1: "tokens"},
    },
    "unet": {"image": {2: "height", 3: "width"}},
}


def export(name: str) -> bytes:
    torch.manual_seed(0)
    model, arguments = MODELS[name]()
    file = io.BytesIO()
    torch.onnx.export(
        model.eval(),
        arguments,
        file,
        dynamo=False,
        opset_version=11,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        input_names=list(FREE.get(name, ())),
        dynamic_axes=FREE.get(name),
    )
    return file.getvalue()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=MODELS, action="append")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only or MODELS:
        (options.folder / f"{name}.onnx").write_bytes(export(name))
        print(name, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
