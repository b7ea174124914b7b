"""Lines, classes and instances of the emitted modules of a folder of models.

    python benchmarks/structure.py MODELS [--write docs/structure.md]

For each file the lines of model.py, its classes with the number of their instances, and
the same for the model with all names and metadata stripped. Nothing is run.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections import Counter
from pathlib import Path

import onnx_ir as ir

from fairhand.codegen import pipeline
from fairhand.codegen.classes.module_classes import ClassTable
from fairhand.codegen.emit.model_file import model_text
from fairhand.codegen.ir.identifiers import class_name
from fairhand.codegen.load.read_model import load
from fairhand.codegen.plan.make_plan import source_plan
from fairhand.codegen.request.options import CompileOptions

# One file of an installed package that holds the network, where there is one.
ORIGINALS = {
    "albert": "transformers/models/albert/modeling_albert.py",
    "bert_base": "transformers/models/bert/modeling_bert.py",
    "convnext_tiny": "torchvision/models/convnext.py",
    "densenet121": "torchvision/models/densenet.py",
    "distilbert": "transformers/models/distilbert/modeling_distilbert.py",
    "efficientnet_b0": "torchvision/models/efficientnet.py",
    "googlenet": "torchvision/models/googlenet.py",
    "gpt2_prefill": "transformers/models/gpt2/modeling_gpt2.py",
    "inception_v3": "torchvision/models/inception.py",
    "inception_v4": "timm/models/inception_v4.py",
    "mobilebert": "transformers/models/mobilebert/modeling_mobilebert.py",
    "mobilenet_v2": "torchvision/models/mobilenetv2.py",
    "mobilenetv3_large": "torchvision/models/mobilenetv3.py",
    "nasnetalarge": "timm/models/nasnet.py",
    "resnet50": "torchvision/models/resnet.py",
    "squeezenet1_1": "torchvision/models/squeezenet.py",
    "swin_t": "torchvision/models/swin_transformer.py",
    "vgg16": "torchvision/models/vgg.py",
    "vit_b_16": "timm/models/vision_transformer.py",
    "whisper_encoder": "transformers/models/whisper/modeling_whisper.py",
}
HEAD = """# Structure of emitted modules

Lines of `model.py` (docstring, tables and `load` included; `session.py` is the same for
all), its classes with the number of their instances, and the instances found when all
names and metadata are stripped from the file. Beside them the file of torchvision, timm
or transformers that holds the network, with everything else it holds. For comparison,
pnnx emits 371 lines for ResNet-50 and 298 for the 4-layer encoder.

Where the two columns of instances differ:

- A class that the original wrote for one layer or one norm (`BertOutput`, `NoNorm`,
  `LayerNorm2d`) shows in no other way than by its name; without names it is a part of
  the block around it. MobileBERT's 96 feed-forward parts are 72 `FFNLayer` and 24 that
  the original spreads over `MobileBertOutput` and its layer.
- The first block of MobileNetV2 and of EfficientNet has no expansion, and a class of
  its own. Without names the stem's convolution is taken for it: one block more of one
  class.
- NASNet's cells are cut as in the original, and count 15 where its last one, whose
  result is pooled, has a class of its own by the names. Its 110 separable branches are
  of two classes, those that pad on one side only apart; the names tell 99, 7, 3 and 1
  apart by what stands in front of them. The reduction cells are a `Transition` each.
- What leads from one stage to the next (`PatchMerging`, DenseNet's `Transition`) is a
  `Transition` without names, and so are the downsampling layers of ConvNeXt, which have
  no class in the original.

Made by `python benchmarks/structure.py MODELS --write docs/structure.md`.

| model | lines | original | classes x instances | stripped |
| --- | ---: | ---: | --- | --- |
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    rows = []
    for path in sorted(arguments.models.glob("*.onnx")):
        lines, classes = measured(path, stripped=False)
        _, without = measured(path, stripped=True)
        original = original_lines(path.stem)
        rows.append(f"| {path.stem} | {lines} | {original} | {classes} | {without} |")
        print(rows[-1], flush=True)
    if arguments.write is not None:
        page = arguments.write
        _, mark, rest = page.read_text("utf-8").partition("\n## ")  # by other tools
        page.write_text(HEAD + "\n".join(rows) + "\n" + mark + rest, encoding="utf-8")


def measured(path: Path, stripped: bool) -> tuple[int, str]:
    loaded = load(path)
    if stripped:
        strip(loaded.model)
    seen: list[ClassTable] = []

    class Noted(ClassTable):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            seen.append(self)

    pipeline.ClassTable = Noted  # type: ignore[misc]
    try:
        options, title = CompileOptions(), class_name(path.stem)
        plan = pipeline.lower(loaded, options, source_plan(loaded), title).plan
    finally:
        pipeline.ClassTable = ClassTable  # type: ignore[misc]
    (kinds,) = seen
    counts = Counter(kind.name for kind in kinds.of.values() if not kind.chain)
    many = [(name, n) for name, n in counts.most_common() if n > 1][:4]
    lines = model_text(plan).count("\n")
    return lines, ", ".join(f"{name} x{n}" for name, n in many)


def strip(model: ir.Model) -> None:
    """Forget every name but those of inputs and outputs, and all metadata."""
    graph = model.graph
    kept = {*graph.inputs, *graph.outputs}
    for i, value in enumerate(list(graph.initializers.values())):
        if value in kept:
            continue
        del graph.initializers[value.name or ""]
        value.name = f"w{i}"
        if value.const_value is not None:
            value.const_value.name = value.name
        graph.initializers[value.name] = value
        value.metadata_props.clear()
    for i, node in enumerate(graph):
        node.name, node.doc_string = f"n{i}", None
        node.metadata_props.clear()
        for j, output in enumerate(node.outputs):
            output.metadata_props.clear()
            if output not in kept:
                output.name = f"v{i}_{j}"
    model.metadata_props.clear()


def original_lines(name: str) -> str:
    package, _, rest = ORIGINALS.get(name.partition(".")[0], "").partition("/")
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or spec.origin is None:
        return ""
    path = Path(spec.origin).parent / rest
    return str(path.read_text(encoding="utf-8").count("\n")) if path.exists() else ""


if __name__ == "__main__":
    main()
