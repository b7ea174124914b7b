"""Networks over images whose emitted text is committed in tests/goldens/."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from support.networks import residual
from support.quantized import quantized
from support.traced import Traced, stripped


def plain_cnn() -> onnx.ModelProto:
    """Convolution, normalisation, pooling; a classifier."""
    g = Traced(image=["batch", 3, 16, 16])
    x = "image"
    for i, (wide, out) in enumerate([(3, 8), (8, 12)], start=1):
        x = g.batch_norm(g.conv2d(x, f"conv{i}", (wide, out, 3)), f"bn{i}", out)
        x = g.max_pool(g.relu(x))
    x = g.head(g("Flatten", x), "fc", 12 * 4 * 4, 10)
    return g.model(scores=x)


def resnet() -> onnx.ModelProto:
    """Basic blocks, of which those that change the size have a convolution more."""
    g = Traced(image=["batch", 3, 16, 16])
    x = g.batch_norm(g.conv2d("image", "conv1", (3, 8, 3), bias=False), "bn1", 8)
    x, wide = g.max_pool(g.relu(x)), 8
    for stage, out in enumerate((8, 16, 24), start=1):
        with g.module(f"layer{stage}", "Sequential"):
            for i in range(2):
                with g.module(str(i), "BasicBlock"):
                    x, wide = basic_block(g, x, wide, out), out
    x = g("Flatten", g("GlobalAveragePool", x))
    return g.model(scores=g.head(x, "fc", 24, 5))


def basic_block(g: Traced, x: str, wide: int, out: int) -> str:
    stride = 1 if wide == out else 2
    y = g.conv2d(x, "conv1", (wide, out, 3), stride, bias=False)
    y = g.relu(g.batch_norm(y, "bn1", out))
    y = g.conv2d(y, "conv2", (out, out, 3), bias=False)
    y = g.batch_norm(y, "bn2", out)
    if wide != out:
        with g.module("downsample", "Sequential"):
            x = g.conv2d(x, "0", (wide, out, 1), stride, bias=False)
            x = g.batch_norm(x, "1", out)
    return g.relu(g("Add", y, x))


def faithful_cnn() -> onnx.ModelProto:
    """A ModuleDict in a Sequential: -O0 keeps every path and every normalisation."""
    g = Traced(image=["batch", 3, 8, 8])
    x = "image"
    with g.module("stages", "Sequential"):
        for i, (wide, out) in enumerate([(3, 4), (4, 6)]):
            with g.module(str(i), "Stage"):
                x = g.conv2d(x, "parts.conv", (wide, out, 3), bias=False)
                x = g.relu(g.batch_norm(x, "parts.norm", out), "parts.act")
    x = g("GlobalAveragePool", x)
    return g.model(scores=g.head(g("Flatten", x), "classifier", 6, 5))


def conv_bn_act(
    g: Traced, x: str, sizes: tuple[int, int, int], stride: int = 1, groups: int = 1
) -> str:
    """The Sequential of three that torchvision is made of."""
    x = g.conv2d(x, "0", sizes, stride, groups, bias=False)
    x = g.batch_norm(x, "1", sizes[1])
    with g.module("2", "ReLU6"):
        return str(g("Clip", x, g.number(0.0), g.number(6.0)))


def inverted_residuals() -> onnx.ModelProto:
    """MobileNetV2: the input is added where it has the output's size."""
    g = Traced(image=["batch", 3, 16, 16])
    x = "image"
    with g.module("features", "Sequential"):
        with g.module("0", "Conv2dNormActivation"):
            x = conv_bn_act(g, x, (3, 8, 3), 2)
        blocks = [(8, 12, 2), (12, 12, 1), (12, 12, 1), (12, 16, 1)]
        for i, (wide, out, stride) in enumerate(blocks, start=1):
            with g.module(str(i), "InvertedResidual"):
                x = inverted(g, x, wide, out, stride)
    x = g("Flatten", g("GlobalAveragePool", x))
    return g.model(scores=g.head(x, "classifier", 16, 5))


def inverted(g: Traced, x: str, wide: int, out: int, stride: int) -> str:
    hidden = wide * 2
    with g.module("conv", "Sequential"):
        with g.module("0", "Conv2dNormActivation"):
            y = conv_bn_act(g, x, (wide, hidden, 1))
        with g.module("1", "Conv2dNormActivation"):
            y = conv_bn_act(g, y, (hidden, hidden, 3), stride, hidden)
        y = g.conv2d(y, "2", (hidden, out, 1), bias=False)
        y = g.batch_norm(y, "3", out)
    return str(g("Add", x, y)) if stride == 1 and wide == out else y


def senet() -> onnx.ModelProto:
    """Channels weighed by what a small network makes of their means."""
    g = Traced(image=["batch", 3, 8, 8])
    x = g.relu(g.conv2d("image", "stem", (3, 8, 3)))
    with g.module("blocks", "Sequential"):
        for i in range(3):
            with g.module(str(i), "Block"):
                y = g.conv2d(
                    g.relu(g.conv2d(x, "conv1", (8, 8, 3))), "conv2", (8, 8, 3)
                )
                with g.module("se", "SqueezeExcitation"):
                    z = g("ReduceMean", y, g.ints(2, 3), keepdims=1)
                    z = g.relu(g.conv2d(z, "fc1", (8, 2, 1)))
                    z = g("Sigmoid", g.conv2d(z, "fc2", (2, 8, 1)))
                    y = g("Mul", y, z)
                x = g.relu(g("Add", y, x))
    return g.model(features=x)


def inception() -> onnx.ModelProto:
    """Branches of several depths, joined along the channels."""
    g = Traced(image=["batch", 8, 12, 12])
    x = "image"
    for name, wide, sizes in (
        ("mixed_a", 8, (4, 6, 4, 2)),
        ("mixed_b", 16, (6, 8, 4, 6)),
    ):
        with g.module(name, "Inception"):
            one, three, double, pooled = sizes
            a = g.relu(g.conv2d(x, "branch1x1", (wide, one, 1)))
            with g.module("branch3x3", "Sequential"):
                b = g.relu(g.conv2d(x, "0", (wide, three, 1)), "1")
                b = g.relu(g.conv2d(b, "2", (three, three, 3)), "3")
            with g.module("branch3x3dbl", "Sequential"):
                c = g.relu(g.conv2d(x, "0", (wide, double, 1)), "1")
                c = g.relu(g.conv2d(c, "2", (double, double, 3)), "3")
                c = g.relu(g.conv2d(c, "4", (double, double, 3)), "5")
            d = g("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)
            d = g.relu(g.conv2d(d, "branch_pool", (wide, pooled, 1)))
            x = g("Concat", a, b, c, d, axis=1)
    return g.model(features=x)


def densenet(depths: Sequence[int] = (4,)) -> onnx.ModelProto:
    """DenseNet: each layer takes all maps there are, and adds one."""
    g = Traced(image=["batch", 3, 8, 8])
    x, width = g.conv2d("image", "conv0", (3, 8, 3)), 8
    for block, depth in enumerate(depths, start=1):
        with g.module(f"denseblock{block}", "DenseBlock"):
            maps = [x]
            for i in range(1, depth + 1):
                with g.module(f"denselayer{i}", "DenseLayer"):
                    x = g("Concat", *maps, axis=1) if i > 1 else maps[0]
                    x = g.relu(g.batch_norm(x, "norm1", width))
                    x = g.conv2d(x, "conv1", (width, 8, 1), bias=False)
                    x = g.relu(g.batch_norm(x, "norm2", 8))
                    maps.append(g.conv2d(x, "conv2", (8, 4, 3), bias=False))
                    width += 4
            x = g("Concat", *maps, axis=1)
        with g.module(f"transition{block}", "Transition"):
            x = g.relu(g.batch_norm(x, "norm", width))
            x, width = g.conv2d(x, "conv", (width, 12, 1)), 12
            x = g("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return g.model(features=x)


def unet() -> onnx.ModelProto:
    """Down and up again, with a skip at each size."""
    g = Traced(image=["batch", 1, 16, 16])

    def double(x: str, name: str, wide: int, out: int) -> str:
        with g.module(name, "DoubleConv"):
            x = g.relu(g.conv2d(x, "conv1", (wide, out, 3)))
            return g.relu(g.conv2d(x, "conv2", (out, out, 3)))

    x = skip1 = double("image", "down1", 1, 4)
    x = skip2 = double(g.max_pool(x), "down2", 4, 8)
    x = double(g.max_pool(x), "bottom", 8, 16)
    for i, (wide, skip) in enumerate([(16, skip2), (8, skip1)]):
        with g.module(f"up{2 - i}", "ConvTranspose2d"):
            weights = g.param("weight", wide, wide // 2, 2, 2), g.param(
                "bias", wide // 2
            )
            form = {"kernel_shape": [2, 2], "strides": [2, 2]}
            x = g("ConvTranspose", x, *weights, **form)
        x = g("Concat", skip, x, axis=1)
        x = double(x, f"conv{2 - i}", wide, wide // 2)
    return g.model(mask=g("Sigmoid", g.conv2d(x, "out", (4, 1, 1))))


def feature_pyramid() -> onnx.ModelProto:
    """FPN: maps of three sizes, each given what the next smaller one has seen."""
    g = Traced(image=["batch", 3, 16, 16])
    maps, x, wide = [], "image", 3
    with g.module("body", "Body"):
        for i, out in enumerate((4, 8, 12), start=1):
            x = g.relu(g.conv2d(x, f"conv{i}", (wide, out, 3), 2))
            maps.append(x)
            wide = out
    scales = g.weight("val_scales", value=np.array([1, 1, 2, 2], np.float32))
    with g.module("fpn", "FeaturePyramidNetwork"):
        inner = [
            g.conv2d(x, f"inner_blocks.{i}", (wide, 6, 1))
            for i, (x, wide) in enumerate(zip(maps, (4, 8, 12), strict=True))
        ]
        for i in (1, 0):
            form = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
            up = g("Resize", inner[i + 1], "", scales, nearest_mode="floor", **form)
            inner[i] = g("Add", inner[i], up)
        p = [g.conv2d(x, f"layer_blocks.{i}", (6, 6, 3)) for i, x in enumerate(inner)]
    return g.model(p2=p[0], p3=p[1], p4=p[2])


def resize_dynamic() -> onnx.ModelProto:
    """A segmentation head whose result gets the size of the picture again."""
    g = Traced(image=["batch", 3, "height", "width"])
    x = g.relu(g.conv2d("image", "conv", (3, 4, 3), 2))
    x = g.conv2d(x, "classifier", (4, 2, 1))
    ends = (g.ints(2), g.ints(4))
    size = g("Slice", g("Shape", "image"), *ends)
    kept = g("Slice", g("Shape", x), g.ints(0), g.ints(2))
    sizes = g("Concat", kept, size, axis=0)
    form = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    return g.model(classes=g("ArgMax", g("Resize", x, "", "", sizes, **form), axis=1))


def quantized_cnn(how: str) -> onnx.ModelProto:
    """A small residual network after ONNX Runtime's static quantiser."""
    g = Traced(image=["batch", 3, 16, 16])
    x = g.max_pool(g.relu(g.conv2d("image", "stem", (3, 8, 3))))
    for i in range(2):
        with g.module(f"blocks.{i}", "Block"):
            y = g.relu(g.conv2d(x, "conv1", (8, 8, 3)))
            x = g.relu(g("Add", g.conv2d(y, "conv2", (8, 8, 3)), x))
    x = g("Flatten", g("GlobalAveragePool", x))
    model = g.model(scores=g.head(x, "fc", 8, 5))
    images = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype("f")
    return quantized(model, how, [{"image": images}])


IMAGES = {
    "plain_cnn": plain_cnn,
    "resnet": resnet,
    "resnet_torchscript": residual,
    "resnet_stripped": lambda: stripped(resnet()),
    "inverted_residuals": inverted_residuals,
    "senet": senet,
    "inception": inception,
    "densenet": densenet,
    "unet": unet,
    "feature_pyramid": feature_pyramid,
    "resize_dynamic": resize_dynamic,
    "faithful_cnn": faithful_cnn,
    "quantized_qdq": lambda: quantized_cnn("qdq"),
    "quantized_qoperator": lambda: quantized_cnn("qoperator"),
}
