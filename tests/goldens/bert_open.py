"""BertOpen, generated from bert_open.

    input_ids      int64   [batch, seq]      input
    attention_mask int64   [batch, seq]      input
    hidden         float32 [batch, seq, 16]  output
    pooled         float32 [batch, 16]       output

Source     bert_open, opset 20, 123 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 5 proven rules applied 12 times, as report.json lists
Weights    weights.safetensors, 6,256 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int64", ("batch", "seq")),
    "attention_mask": ("int64", ("batch", "seq")),
}
OUTPUTS = {
    "hidden": ("float32", ("batch", "seq", 16)),
    "pooled": ("float32", ("batch", 16)),
}


class BertEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(20, 16)
        self.token_type_embeddings = nn.Embedding(2, 16)
        self.position_embeddings = nn.Embedding(64, 16)
        self.LayerNorm = nn.LayerNorm(16, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(64).view(1, 64))
        self.register_buffer("token_type_ids", torch.zeros((1, 64), dtype=torch.int64))

    def forward(self, input_ids: Tensor) -> Tensor:
        seq = input_ids.shape[1]
        position_ids = self.position_ids[:, :seq]
        token_type_ids = self.token_type_ids.gather(1, position_ids).expand(
            input_ids.shape[0], seq
        )
        word_embeddings = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        position_embeddings = self.position_embeddings(position_ids)
        return self.LayerNorm(
            word_embeddings + token_type_embeddings + position_embeddings
        )


class BertSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q = self.query(x).unflatten(2, (4, 4)).transpose(1, 2)
        k = self.key(x).unflatten(2, (4, 4)).transpose(1, 2)
        v = self.value(x).unflatten(2, (4, 4)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)


class BertOutput(nn.Module):
    def __init__(self, in_features: int):
        super().__init__()
        self.dense = nn.Linear(in_features, 16)
        self.LayerNorm = nn.LayerNorm(16, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class BertPooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.dense(x[:, 0]))


class BertAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.self = BertSelfAttention()
        self.output = BertOutput(16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out = self.self(x, mask)
        return self.output(out, x)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = BertAttention()
        self.intermediate = nn.Linear(16, 32)
        self.output = BertOutput(32)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)
        return self.output(F.gelu(self.intermediate(x)), x)


class BertEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList(BertLayer() for _ in range(2))

    def forward(self, attention_mask: Tensor, x: Tensor) -> Tensor:
        mask = torch.where(attention_mask, 0.0, torch.finfo(x.dtype).min).to(x.dtype)
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
        self, input_ids: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = self.embeddings(input_ids)  # [batch, seq, 16]
        hidden = self.encoder(attention_mask.bool()[:, None, None, :], x)
        return hidden, self.pooler(hidden)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> BertModel:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = BertModel()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
