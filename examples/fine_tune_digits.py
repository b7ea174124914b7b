"""Trains a package on, and writes it as an ONNX file that is better on the test set.

    python examples/fine_tune_digits.py

The digits are those of scikit-learn, moved by up to a pixel as a scanner may do it,
which `digits_transformer.onnx` was never shown. From the ONNX file to a package, from
the package to a module that trains, from that to an ONNX file again, by its old names.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from train_digits import BATCH_SIZE, SEED, Digits, read_digits

import fairhand

HERE = Path(__file__).parent
EPOCHS, RATE = 8, 1e-3


def moved(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Each image a pixel up, down, left, right, or none: [count, 1, 8, 8]."""
    steps = torch.randint(-1, 2, (len(images), 2), generator=random).tolist()
    wide = F.pad(images, (1, 1, 1, 1))
    rows = [wide[i, :, 1 + y : 9 + y, 1 + x : 9 + x] for i, (y, x) in enumerate(steps)]
    return torch.stack(rows)


def train_on(model: torch.nn.Module, digits: Digits) -> None:
    """Fits the module in place, on images that are moved anew each time."""
    random = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    model.train().requires_grad_(True)
    for _ in range(EPOCHS):
        order = torch.randperm(len(digits.train_labels), generator=random)
        for chosen in order.split(BATCH_SIZE):
            scores = model(moved(digits.train_images[chosen], random))
            loss = F.cross_entropy(scores, digits.train_labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval().requires_grad_(False)


def accuracy(path: Path, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of images that ONNX Runtime has right with the model of a file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"image": images.numpy()})
    return float(np.mean(scores.argmax(1) == labels.numpy()))


def fine_tune(source: Path, out: Path) -> tuple[float, float]:
    """Writes the model of `source`, trained on, to `out`; accuracies of the two."""
    digits = read_digits()
    random = torch.Generator().manual_seed(SEED + 1)
    images = moved(digits.test_images, random)
    with TemporaryDirectory() as folder:
        package = fairhand.compile(source, Path(folder) / "digits_package")
        sys.path.insert(0, folder)
        model = import_module(package.path.name).load()
        sys.path.remove(folder)
        train_on(model, digits)
        fairhand.export(model, None, out)
    return tuple(accuracy(path, images, digits.test_labels) for path in (source, out))


def main() -> None:
    """Fine-tunes the example that comes with the repository."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("fine_tuned.onnx"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    before, after = fine_tune(HERE / "digits_transformer.onnx", out)
    print(f"of moved digits {before:.4f} were right, now {after:.4f}: {out}")
    if after <= before:
        raise SystemExit("training gained nothing")


if __name__ == "__main__":
    main()
