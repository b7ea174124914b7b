"""Yolov5s, generated from yolov5s.onnx.

    image float32 [batch, 3, 32*rows, 32*columns]        input
    boxes float32 [batch, 3*floor(32*columns/32..., 85]  output

Source     yolov5s.onnx, opset 20, 323 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 4 proven rules applied 66 times, as report.json lists
Weights    weights.safetensors, 7,225,903 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "1f2a4ff0aace7d0ca9f7de81fdef93a850158d900742a84179af95fcb05cb9c9"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 3, "32*rows", "32*columns")),
}
OUTPUTS = {
    "boxes": ("float32", ("batch", "63*s18*s30", 85)),
}


class Bottleneck(nn.Module):
    def __init__(self, in_channels: int, residual: bool = True):
        super().__init__()
        self.cv1 = nn.Conv2d(in_channels, in_channels, 1)
        self.cv2 = nn.Conv2d(in_channels, in_channels, 3, padding=1)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        out = F.silu(self.cv1(x))
        out = F.silu(self.cv2(out))
        return x + out if self.residual else out


class SPPF(nn.Module):
    def __init__(self):
        super().__init__()
        self.cv1 = nn.Conv2d(512, 256, 1)
        self.cv2 = nn.Conv2d(1024, 512, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.cv1(x))
        pooled = F.max_pool2d(x, 5, stride=1, padding=2)
        pooled2 = F.max_pool2d(pooled, 5, stride=1, padding=2)
        pooled3 = F.max_pool2d(pooled2, 5, stride=1, padding=2)
        return F.silu(self.cv2(torch.cat([x, pooled, pooled2, pooled3], dim=1)))


class Detect(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.ModuleList(
            [nn.Conv2d(128, 255, 1), nn.Conv2d(256, 255, 1), nn.Conv2d(512, 255, 1)]
        )
        self.scale1 = nn.Parameter(torch.empty((1, 3, 1, 1, 2)))
        self.scale2 = nn.Parameter(torch.empty((1, 3, 1, 1, 2)))
        self.scale3 = nn.Parameter(torch.empty((1, 3, 1, 1, 2)))

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        size = x.shape[2]
        size2 = x.shape[3]
        size3 = y.shape[2]
        size4 = y.shape[3]
        size5 = z.shape[2]
        size6 = z.shape[3]
        gate = torch.sigmoid(self.m[0](x).unflatten(1, (3, 85)))
        positions = torch.arange(size, device=x.device).unsqueeze(-1).expand(-1, size2)
        columns = torch.arange(size2, device=x.device).unsqueeze(0).expand(size, -1)
        first, second, third = gate.permute(0, 1, 3, 4, 2).split([2, 2, 81], dim=-1)
        first = first * 2.0 - 0.5
        joined = (
            first + torch.stack([columns, positions], dim=-1).to(first.dtype)
        ) * 8.0
        second = second * 2.0
        joined = torch.cat(
            [joined, second * second * self.scale1, third], dim=-1
        ).flatten(1, 3)
        y = torch.sigmoid(self.m[1](y).unflatten(1, (3, 85)))
        positions = torch.arange(size3, device=x.device).unsqueeze(-1).expand(-1, size4)
        columns = torch.arange(size4, device=x.device).unsqueeze(0).expand(size3, -1)
        first, second, third = y.permute(0, 1, 3, 4, 2).split([2, 2, 81], dim=-1)
        first = first * 2.0 - 0.5
        joined2 = (
            first + torch.stack([columns, positions], dim=-1).to(first.dtype)
        ) * 16.0
        second = second * 2.0
        joined2 = torch.cat(
            [joined2, second * second * self.scale2, third], dim=-1
        ).flatten(1, 3)
        z = torch.sigmoid(self.m[2](z).unflatten(1, (3, 85)))
        positions = torch.arange(size5, device=x.device).unsqueeze(-1).expand(-1, size6)
        x = torch.arange(size6, device=x.device).unsqueeze(0).expand(size5, -1)
        first, second, third = z.permute(0, 1, 3, 4, 2).split([2, 2, 81], dim=-1)
        first = first * 2.0 - 0.5
        x = (first + torch.stack([x, positions], dim=-1).to(first.dtype)) * 32.0
        second = second * 2.0
        x = torch.cat([x, second * second * self.scale3, third], dim=-1).flatten(1, 3)
        return torch.cat([joined, joined2, x], dim=1)


class C3(nn.Module):
    def __init__(
        self, in_channels: int, width: int, depth: int, residual: bool = False
    ):
        super().__init__()
        self.cv1 = nn.Conv2d(in_channels, width, 1)
        self.m = nn.Sequential(
            *(Bottleneck(width, residual=residual) for _ in range(depth))
        )
        self.cv2 = nn.Conv2d(in_channels, width, 1)
        self.cv3 = nn.Conv2d(2 * width, 2 * width, 1)

    def forward(self, x: Tensor) -> Tensor:
        features = F.silu(self.cv1(x))
        x = torch.cat([self.m(features), F.silu(self.cv2(x))], dim=1)
        return F.silu(self.cv3(x))


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Conv2d(3, 32, 6, stride=2, padding=2)
        self.backbone_1 = nn.ModuleList(
            [
                nn.Conv2d(32, 64, 3, stride=2, padding=1),
                C3(64, 32, depth=1, residual=True),
            ]
        )
        self.backbone_2 = nn.ModuleList(
            [
                nn.Conv2d(64, 128, 3, stride=2, padding=1),
                C3(128, 64, depth=2, residual=True),
            ]
        )
        self.backbone_3 = nn.ModuleList(
            [
                nn.Conv2d(128, 256, 3, stride=2, padding=1),
                C3(256, 128, depth=3, residual=True),
            ]
        )
        self.backbone_4 = nn.ModuleList(
            [
                nn.Conv2d(256, 512, 3, stride=2, padding=1),
                C3(512, 256, depth=1, residual=True),
                SPPF(),
            ]
        )
        self.lateral5 = nn.Conv2d(512, 256, 1)
        self.up4 = C3(512, 128, depth=1)
        self.lateral4 = nn.Conv2d(256, 128, 1)
        self.up3 = C3(256, 64, depth=1)
        self.reduce3 = nn.Conv2d(128, 128, 3, stride=2, padding=1)
        self.down4 = C3(256, 128, depth=1)
        self.reduce4 = nn.Conv2d(256, 256, 3, stride=2, padding=1)
        self.down5 = C3(512, 256, depth=1)
        self.detect = Detect()

    def forward(self, image: Tensor) -> Tensor:
        x = F.silu(self.backbone(image))
        x = F.silu(self.backbone_1[0](x))
        x = self.backbone_1[1](x)
        x = F.silu(self.backbone_2[0](x))
        x = self.backbone_2[1](x)
        features = F.silu(self.backbone_3[0](x))
        out = self.backbone_3[1](features)
        features = F.silu(self.backbone_4[0](out))
        out2 = self.backbone_4[1](features)
        out2 = self.backbone_4[2](out2)
        features = F.silu(self.lateral5(out2))
        resized = F.interpolate(features, scale_factor=2, mode="nearest")
        out = self.up4(torch.cat([resized, out], dim=1))
        features2 = F.silu(self.lateral4(out))
        resized = F.interpolate(features2, scale_factor=2, mode="nearest")
        x = self.up3(torch.cat([resized, x], dim=1))
        joined = torch.cat([F.silu(self.reduce3(x)), features2], dim=1)
        out = self.down4(joined)
        joined = torch.cat([F.silu(self.reduce4(out)), features], dim=1)
        out2 = self.down5(joined)
        return self.detect(x, out, out2)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Yolo:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Yolo()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
