"""Trains a decoder of characters on Python's own documentation and writes it as ONNX.

    python examples/train_characters.py

The text is that of `help("topics")`, which comes with Python (pydoc_data.topics, under
the PSF licence). A token is a character of ASCII, by its number. The file is one step
with caches: `past_k0, past_v0, ...` are keys and values of the characters so far.
"""

import argparse
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from torch import Tensor, nn

SEED, STEPS, BATCH, LENGTH = 0, 2400, 5, 256
VOCABULARY, WIDTH, HEADS, LAYERS = 128, 96, 4, 2
MOST_BITS = 3.0  # for a character of the text that training never saw
TOLERANCE = 1e-4

Cache = list[tuple[Tensor, Tensor]]


def rotated(x: Tensor, places: Tensor) -> Tensor:
    """[batch, heads, new, size], turned by angles that grow with its place."""
    half = x.shape[-1] // 2
    speeds = 1e4 ** (-torch.arange(half) / half)
    angles = (places[:, None, :, None] * speeds).repeat(1, 1, 1, 2)
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * angles.cos() + turned * angles.sin()


class Block(nn.Module):
    """Attention over all characters so far, then a layer of its own for each."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(
        self, x: Tensor, places: Tensor, mask: Tensor, past: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """[batch, new, width] to the same, and keys and values with the new ones."""
        y = self.norm1(x)
        q, k, v = (
            layer(y).unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        k = torch.cat([past[0], rotated(k, places)], dim=2)
        v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(rotated(q, places), k, v, attn_mask=mask)
        x = x + self.output(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)))), (k, v)


class Characters(nn.Module):
    """What may come behind each character."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past: Cache,
    ) -> tuple[Tensor, Cache]:
        """Scores [batch, new, vocabulary] and the caches of all so far."""
        total, new = attention_mask.shape[1], input_ids.shape[1]
        places = torch.arange(total)
        mask = places <= torch.arange(total - new, total)[:, None]
        mask = mask & attention_mask.bool()[:, None, None, :]
        x, present = self.embedding(input_ids), []
        for block, pair in zip(self.blocks, past, strict=True):
            x, pair = block(x, position_ids, mask, pair)
            present.append(pair)
        return self.head(self.norm(x)), present


def empty(rows: int, places: int = 0) -> Cache:
    """Caches of so many places."""
    sizes = rows, HEADS, places, WIDTH // HEADS
    return [(torch.randn(sizes), torch.randn(sizes)) for _ in range(LAYERS)]


def inputs(ids: Tensor, past: Cache) -> tuple[Tensor, Tensor, Tensor, Cache]:
    """What a step takes for `ids` behind a past."""
    rows, new = ids.shape
    before = past[0][0].shape[2]
    places = torch.arange(before, before + new).expand(rows, -1)
    return ids, torch.ones(rows, before + new, dtype=torch.int64), places, past


def loss(model: Characters, text: Tensor, starts: Tensor) -> Tensor:
    """Of the next characters of pieces of a text, in nats."""
    pieces = text[starts[:, None] + torch.arange(LENGTH + 1)]
    scores, _ = model(*inputs(pieces[:, :-1], empty(len(pieces))))
    return F.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())


def trained(steps: int) -> tuple[Characters, float]:
    """A model and the bits that a character of held-out text takes it."""
    torch.manual_seed(SEED)
    joined = "\n".join(topics[name] for name in sorted(topics))
    data = joined.encode("ascii", "ignore")
    text = torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
    cut = len(text) * 9 // 10
    model = Characters()
    adam = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.1)
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, 3e-3, steps)
    for _ in range(steps):
        adam.zero_grad()
        loss(model, text[:cut], torch.randint(cut - LENGTH - 1, (BATCH,))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        rate.step()
    with torch.no_grad():
        places = torch.arange(0, len(text) - cut - LENGTH - 1, LENGTH)
        nats = loss(model.eval(), text[cut:], places)
    return model, float(nats) / np.log(2)


def export(model: Characters, path: Path) -> None:
    """Write a step, and compare it with ONNX Runtime's."""
    names = [f"{part}{i}" for i in range(LAYERS) for part in "kv"]
    taken = ["input_ids", "attention_mask", "position_ids"]
    taken += [f"past_{name}" for name in names]
    given = ["logits", *(f"present_{name}" for name in names)]
    axes: dict[str, dict[int, str]] = {
        **{name: {0: "batch", 1: "new"} for name in ("input_ids", "position_ids")},
        "attention_mask": {0: "batch", 1: "past + new"},
        "logits": {0: "batch", 1: "new"},
        **{f"past_{name}": {0: "batch", 2: "past"} for name in names},
        **{f"present_{name}": {0: "batch", 2: "past + new"} for name in names},
    }
    step = inputs(torch.randint(VOCABULARY, (2, 5)), empty(2, 7))
    with torch.no_grad():
        torch.onnx.export(
            model, step, path, dynamo=False, opset_version=18,
            input_names=taken, output_names=given, dynamic_axes=axes,
        )  # fmt: skip
        scores, _ = model(*step)
    onnx.checker.check_model(path)
    flat = [*step[:3], *(tensor for pair in step[3] for tensor in pair)]
    feeds = {n: tensor.numpy() for n, tensor in zip(taken, flat, strict=True)}
    session = onnxruntime.InferenceSession(path)
    error = np.abs(session.run(["logits"], feeds)[0] - scores.numpy()).max()
    if error > TOLERANCE:
        raise SystemExit(f"ONNX Runtime is off by {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    model, bits = trained(given.steps)
    print(f"{bits:.2f} bits a character of held-out text")
    if bits > MOST_BITS:
        raise SystemExit(f"more than {MOST_BITS} bits: nothing was written")
    export(model, given.out / "characters.onnx")


if __name__ == "__main__":
    main()
