"""BertBase, generated from bert_base.onnx.

    input_ids         int64   [batch, seq]       input
    attention_mask    int64   [batch, seq]       input
    token_type_ids    int64   [batch, seq]       input
    last_hidden_state float32 [batch, seq, 768]  output
    pooler_output     float32 [batch, 768]       output

Source     bert_base.onnx, opset 20, 396 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 4 proven rules applied 38 times, as report.json lists
Weights    weights.safetensors, 109,481,984 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "b1a05f89630e50bacbfff2e0f096a77fbc6a0035503bf38239460436216e8507"
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
        self.register_buffer("position_ids", torch.arange(512).view(1, 512))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        word_embeddings = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        position_ids = self.position_ids[:, : input_ids.shape[1]]
        position_embeddings = self.position_embeddings(position_ids)
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
        q = self.query(x).unflatten(2, (12, 64)).transpose(1, 2)
        k = self.key(x).unflatten(2, (12, 64)).transpose(1, 2)
        v = self.value(x).unflatten(2, (12, 64)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)


class BertOutput(nn.Module):
    def __init__(self, in_features: int):
        super().__init__()
        self.dense = nn.Linear(in_features, 768)
        self.LayerNorm = nn.LayerNorm(768, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class BertPooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(768, 768, bias=False)

    def forward(self, last_hidden_state: Tensor) -> Tensor:
        return torch.tanh(self.dense(last_hidden_state[:, 0]))


class BertAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.self = BertSelfAttention()
        self.output = BertOutput(768)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out = self.self(x, mask)
        return self.output(out, x)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = BertAttention()
        self.intermediate = nn.Linear(768, 3072)
        self.output = BertOutput(3072)

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
        mask = attention_mask.bool()[:, None, None, :]  # [batch, 1, 1, seq]
        mask = torch.where(mask, 0.0, torch.finfo(x.dtype).min).to(x.dtype)
        last_hidden_state = self.encoder(x, mask)
        return last_hidden_state, self.pooler(last_hidden_state)


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
