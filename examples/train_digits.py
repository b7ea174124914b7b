"""Trains the two example models on scikit-learn's digits and writes them as ONNX.

    python examples/train_digits.py

`digits_cnn.onnx` comes from PyTorch's dynamo exporter and `digits_transformer.onnx`
from its TorchScript exporter, so that the examples cover both ways of recording a
module. `digits_sample.npz` holds a few of the held-out images with their labels.
"""

import argparse
import io
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

SEED = 0
BATCH_SIZE = 64
CLASSES = 10
SAMPLES = 8
MIN_ACCURACY = 0.96
TOLERANCE = 1e-4


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside an identity shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, height, width] to the same shape."""
        hidden = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(hidden)))


class DigitsCNN(nn.Module):
    """A stem, two residual blocks on the halved image, and a linear head."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.pool = nn.MaxPool2d(2)
        self.blocks = nn.Sequential(ResidualBlock(channels), ResidualBlock(channels))
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """[batch, 1, 8, 8] to [batch, 10]."""
        x = self.pool(F.relu(self.norm(self.stem(image))))
        return self.head(self.blocks(x).mean(dim=(2, 3)))


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence over itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def split_heads(self, x: Tensor) -> Tensor:
        """[batch, tokens, width] to [batch, heads, tokens, width / heads]."""
        batch, tokens, width = x.shape
        return x.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, width] to the same shape."""
        query = self.split_heads(self.query(x))
        key = self.split_heads(self.key(x))
        value = self.split_heads(self.value(x))
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        context = torch.softmax(scores, dim=-1) @ value
        return self.output(context.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """Self-attention and an MLP, each behind a layer norm and a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, width] to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class DigitsTransformer(nn.Module):
    """A pre-norm encoder over the sixteen 2x2 patches of an image."""

    def __init__(self, width: int = 48, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.positions = nn.Parameter(0.2 * torch.randn(1, 16, width))
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """[batch, 1, 8, 8] to [batch, 10]."""
        patches = image.view(image.shape[0], 4, 2, 4, 2).transpose(2, 3)
        x = self.embed(patches.reshape(image.shape[0], 16, 4)) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))


class Digits(NamedTuple):
    """The images, [count, 1, 8, 8] between 0 and 1, and their labels."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def read_digits() -> Digits:
    """The data set, a quarter of every class held out."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=0.25, stratify=labels, random_state=SEED
    )
    return Digits(
        *map(torch.from_numpy, (train_images, train_labels, test_images, test_labels))
    )


def train(model: nn.Module, digits: Digits, epochs: int, peak_rate: float) -> None:
    """Fits the model in place, and leaves it in evaluation mode."""
    count = len(digits.train_labels)
    steps = epochs * -(-count // BATCH_SIZE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak_rate, steps)
    model.train()
    for _ in range(epochs):
        for chosen in torch.randperm(count).split(BATCH_SIZE):
            logits = model(digits.train_images[chosen])
            loss = F.cross_entropy(logits, digits.train_labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


def drop_stack_traces(model: onnx.ModelProto) -> None:
    """Removes the exporter's stack traces: they hold paths of the exporting machine."""
    drop_from_nodes(model.graph.node)
    for function in model.functions:
        drop_from_nodes(function.node)


def drop_from_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Removes the stack traces of these nodes and of those in their subgraphs."""
    for node in nodes:
        kept = [
            entry
            for entry in node.metadata_props
            if entry.key != "pkg.torch.onnx.stack_trace"
        ]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        for attribute in node.attribute:
            drop_from_nodes(attribute.g.node)
            for graph in attribute.graphs:
                drop_from_nodes(graph.node)


def export_dynamo(model: nn.Module, image: Tensor) -> onnx.ModelProto:
    """The model through `torch.export`."""
    program = torch.onnx.export(
        model,
        (image,),
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes={"image": {0: torch.export.Dim("batch")}},
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    assert program is not None
    exported = program.model_proto
    drop_stack_traces(exported)
    return exported


def export_torchscript(model: nn.Module, image: Tensor) -> onnx.ModelProto:
    """The model through the older exporter, which traces to TorchScript."""
    file = io.BytesIO()
    torch.onnx.export(
        model,
        (image,),
        file,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    return onnx.load_from_string(file.getvalue())


def check(exported: onnx.ModelProto, model: nn.Module, digits: Digits) -> float:
    """The exported model's accuracy on the held-out images.

    Raises if the model is invalid, disagrees with its module, or is not good enough.
    """
    onnx.checker.check_model(exported, full_check=True)
    session = onnxruntime.InferenceSession(
        exported.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for images in (digits.test_images[:1], digits.test_images):
        (logits,) = session.run(["logits"], {"image": images.numpy()})
        with torch.inference_mode():
            expected = model(images).numpy()
        np.testing.assert_allclose(logits, expected, rtol=TOLERANCE, atol=TOLERANCE)
    accuracy = float((logits.argmax(1) == digits.test_labels.numpy()).mean())
    if accuracy <= MIN_ACCURACY:
        raise RuntimeError(f"accuracy {accuracy:.4f} is not above {MIN_ACCURACY}")
    return accuracy


def main() -> None:
    """Trains, exports, checks and only then writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent,
        help="folder for the files (default: the script's own)",
    )
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    digits = read_digits()
    example = digits.test_images[:2]

    torch.manual_seed(SEED)
    cnn = DigitsCNN()
    train(cnn, digits, epochs=20, peak_rate=1e-2)
    exported_cnn = export_dynamo(cnn, example)
    accuracy = check(exported_cnn, cnn, digits)
    onnx.save(exported_cnn, out / "digits_cnn.onnx")
    print(f"digits_cnn.onnx: {accuracy:.4f} of the held-out images are right")

    torch.manual_seed(SEED)
    transformer = DigitsTransformer()
    train(transformer, digits, epochs=120, peak_rate=3e-3)
    exported_transformer = export_torchscript(transformer, example)
    accuracy = check(exported_transformer, transformer, digits)
    onnx.save(exported_transformer, out / "digits_transformer.onnx")
    print(f"digits_transformer.onnx: {accuracy:.4f} of the held-out images are right")

    np.savez(
        out / "digits_sample.npz",
        image=digits.test_images[:SAMPLES].numpy(),
        labels=digits.test_labels[:SAMPLES].numpy(),
    )


if __name__ == "__main__":
    main()
