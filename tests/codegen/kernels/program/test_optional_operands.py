"""Kernels of classes some of whose instances leave out a sum."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import onnx
import pytest
import torch
from support.emitter_models import run_here
from support.traced import Traced

import fairhand
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.verify import parity

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.triton_kernels import close, load


def mixers() -> onnx.ModelProto:
    """The input is added where it has the result's size; then it is normalised."""
    g = Traced(rows=["batch", 8])
    x = "rows"
    with g.module("layers", "ModuleList"):
        for i, (wide, out) in enumerate([(8, 12), (12, 12), (12, 12)]):
            with g.module(str(i), "Mixer"):
                y = g("Softsign", g.fc(x, "fc", wide, out))
                y = g("Add", y, x) if wide == out else y
                x = g.layer_norm(y, "norm", out)
    return g.model(y=x)


def scaled() -> onnx.ModelProto:
    """A product, and nothing else, is left out in the middle."""
    g = Traced(rows=["batch", 8])
    x = "rows"
    with g.module("layers", "ModuleList"):
        for i in range(4):
            with g.module(str(i), "Gate"):
                y = g.layer_norm(g.fc(x, "fc", 8, 8), "norm", 8)
                y = g.fc(y, "out", 8, 8)
                y = g("Mul", y, x) if i != 1 else y
                x = g("Softsign", g("Tanh", y))
    return g.model(y=x)


def bottlenecks() -> onnx.ModelProto:
    """Two pointwise convolutions, whose input is added where it has the same size."""
    g = Traced(image=["batch", 4, 2, 3])
    x = "image"
    with g.module("layers", "ModuleList"):
        for i, (wide, out) in enumerate([(4, 6), (6, 6), (6, 6)]):
            with g.module(str(i), "Bottleneck"):
                y = g.conv2d(g.conv2d(x, "dw", (wide, wide, 3)), "pw", (wide, out, 1))
                x = g("Add", y, x) if wide == out else y
    return g.model(y=x)


MODELS: dict[Callable[[], onnx.ModelProto], tuple[str, str]] = {
    mixers: ("softsign_add_layer_norm", "x if self.residual else None"),
    scaled: ("linear_mul_tanh_softsign", "x if self.scaled else None"),
    bottlenecks: ("pointwise_conv_add", "x if self.residual else None"),
}


@pytest.fixture(params=MODELS, ids=lambda build: build.__name__, scope="module")
def package(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> fairhand.Package:
    """Verified against ONNX Runtime, in the interpreter."""
    folder = tmp_path_factory.mktemp("package") / "net"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "run_package", run_here)
        patch.setattr(kernel_set, "MIN_SAVED", 0.0)
        patch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
        patch.setattr(kernel_set, "SAVED_BYTES", 0.0)
        made = fairhand.compile(request.param(), folder, target="triton")
    name, passed = MODELS[request.param]
    model = (made.path / "model.py").read_text("utf-8")
    assert f"{name}(" in model and passed in model
    assert " else y" not in model
    return made


def given(module: ModuleType, dtype: torch.dtype, rows: int) -> dict[str, list[object]]:
    """What each kernel with an optional tensor is given, with one in its place."""
    random = torch.Generator().manual_seed(0)

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random).to(dtype)

    each = {
        "softsign_add_layer_norm": [made(rows, 5), made(rows, 5), made(5), made(5)],
        "linear_mul_tanh_softsign": [made(rows, 5), made(7, 5), made(7), made(rows, 7)],
        "pointwise_conv_add": [
            *(made(rows, 5, 3, 3), made(7, 5, 1, 1), made(7)),
            made(rows, 7, 3, 3),
        ],
    }
    numbers = {"softsign_add_layer_norm": [1e-5]}
    return {
        name: [*tensors, *numbers.get(name, [])]
        for name, tensors in each.items()
        if hasattr(module, name)
    }


def test_with_and_without_the_other_tensor(package: fairhand.Package) -> None:
    module = load(package.path / "kernels.py")
    place = {"softsign_add_layer_norm": 1}
    for dtype in (torch.float32, torch.float16):
        for rows in (0, 1, 17):
            for name, values in given(module, dtype, rows).items():
                fused = getattr(module, name)
                reference = getattr(module, f"{name}_reference")
                at = place.get(name, 3)
                results = []
                for other in (values[at], None):
                    arguments = [*values[:at], other, *values[at + 1 :]]
                    results.append(fused(*arguments))
                    wanted = reference(*arguments)
                    assert close(results[-1], wanted, ulps=8), (name, dtype, rows)
                assert not rows or not torch.equal(*results)
                wrong = torch.ones(1, dtype=dtype)
                with pytest.raises(ValueError, match="must have shape"):
                    fused(*values[:at], wrong, *values[at + 1 :])


@pytest.mark.slow
def test_both_compile_for_a_gpu(package: fairhand.Package, tmp_path: Path) -> None:
    """With the tensor, and with None: forward launches both."""
    script = Path(__file__).parents[3] / "tools" / "compile_kernels.py"
    command = [sys.executable, script, package.path, "--targets", "sm_86"]
    done = subprocess.run(
        [*map(str, command), "--types", "float32"],
        env={**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split("|")[2]) >= 2
