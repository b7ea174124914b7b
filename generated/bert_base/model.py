"""BertBase, generated from bert_base.onnx.

    input_ids         int64   [batch, seq]       input
    attention_mask    int64   [batch, seq]       input
    token_type_ids    int64   [batch, seq]       input
    last_hidden_state float32 [batch, seq, 768]  output
    pooler_output     float32 [batch, 768]       output

Source     bert_base.onnx, opset 20, 396 nodes
           sha256 a568cfcc6ed995449d8abd43196cf2560db58a205ac580bf69066285e44ac5d0
Generator  fairhand 0.1.0
Rewrites   unsqueeze_unsqueeze x1, and_true x1, gather_nd_of_ranges_twice x1,
           where_counted_and_twice x1, add_counted_mask_twice x12, attention_mul_masked
           x12, transpose_transpose x12
Weights    weights.safetensors, 109,481,984 parameters

This module needs PyTorch and safetensors; it does not need ONNX or fairhand.
Regenerating overwrites it.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "a568cfcc6ed995449d8abd43196cf2560db58a205ac580bf69066285e44ac5d0"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int64", ("batch", "seq")),
    "attention_mask": ("int64", ("batch", "seq")),
    "token_type_ids": ("int64", ("batch", "seq")),
}
OUTPUTS = {
    "last_hidden_state": ("float32", ("batch", "seq", 768)),
    "pooler_output": ("float32", ("batch", 768)),
}


class BertEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(30522, 768)
        self.token_type_embeddings = nn.Embedding(2, 768)
        self.position_embeddings = nn.Embedding(512, 768)
        self.LayerNorm = nn.LayerNorm(768, eps=1e-12)
        self.register_buffer("position_ids", torch.empty((1, 512), dtype=torch.int64))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        x = self.position_ids[:, : input_ids.shape[1]]
        word_embeddings = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        position_embeddings = self.position_embeddings(x)
        return self.LayerNorm(
            word_embeddings + token_type_embeddings + position_embeddings
        )


class BertSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(768, 768)
        self.key = nn.Linear(768, 768)
        self.value = nn.Linear(768, 768)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query = self.query(x).unflatten(2, (12, 64)).transpose(1, 2)
        value = self.value(x).unflatten(2, (12, 64)).transpose(1, 2)
        key = self.key(x).unflatten(2, (12, 64)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, in_features: int):
        super().__init__()
        self.dense = nn.Linear(in_features, 768)
        self.LayerNorm = nn.LayerNorm(768, eps=1e-12)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + y)


class BertPooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(768, 768, bias=False)

    def forward(self, last_hidden_state: Tensor) -> Tensor:
        return torch.tanh(self.dense(last_hidden_state[:, 0]))


class BertAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_ = BertSelfAttention()
        self.output = Block(768)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.self_(x, mask)
        return self.output(y, x)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = BertAttention()
        self.intermediate = nn.Linear(768, 3072)
        self.output = Block(3072)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)
        return self.output(F.gelu(self.intermediate(x)), x)


class BertEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList(BertLayer() for _ in range(12))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for block in self.layer:
            x = block(x, mask)
        return x


class BertModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = BertEmbeddings()
        self.encoder = BertEncoder()
        self.pooler = BertPooler()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = self.embeddings(input_ids, token_type_ids)  # [batch, seq, 768]
        attention_mask = attention_mask.bool()[:, None, None, :]  # [batch, 1, 1, seq]
        mask = torch.where(attention_mask, 0.0, torch.finfo(torch.float32).min)
        last_hidden_state = self.encoder(x, mask)
        return last_hidden_state, self.pooler(last_hidden_state)


Model = BertModel


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> BertModel:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(
                f"{weights} belongs to model {found}, "
                f"this module was generated from {MODEL_SHA256}"
            )
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = BertModel()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
