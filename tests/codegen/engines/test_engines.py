"""Engines give what the plain network gives, on any thread, or say they can't."""

from __future__ import annotations

import inspect
import os
import platform
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from support.emitted import EXAMPLES, imported
from support.emitter_models import Graph
from support.networks import decoder, residual, transformer
from support.quantized import quantized
from torch import Tensor, nn

import fairhand
from fairhand.analysis.cost import device
from fairhand.analysis.errors import VerificationError
from fairhand.codegen.emit.engines_file import engines_text
from fairhand.codegen.emit.package_files import read_report
from fairhand.codegen.engines.choose import makes_results
from fairhand.codegen.ir.engine_plan import EnginePlan
from fairhand.codegen.request.choices import AUTO, DEVICES, ENGINES
from fairhand.codegen.verify import parity
from fairhand.codegen.verify.parity import run_package


@pytest.fixture(scope="module")
def engines() -> ModuleType:
    """engines.py as it is emitted, by itself."""
    layers = "nn.Linear", "nn.LSTM", "nn.Conv2d"
    return emitted_engines(layers=layers, joins=True)


def packed(engines: ModuleType, model: nn.Module) -> Any:
    network = engines.on_same_parameters(model)
    engines.pack(network)
    return network


def emitted_engines(**given: Any) -> ModuleType:
    plan = EnginePlan(
        **{"name": "onednn", "refused": "", "channels_last": False} | given
    )
    module = ModuleType("emitted_engines")
    sys.modules[module.__name__] = module
    exec(engines_text(plan), module.__dict__)
    return module


@pytest.fixture(scope="module")
def decoding(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same, of a network that takes lists of caches."""
    folder = tmp_path_factory.mktemp("decoding")
    text = engines_text(EnginePlan("packed", "a", False, joins=True, caches=True))
    (folder / "decoding.py").write_text(text)  # TorchScript reads the source
    (folder / "__init__.py").write_text("from .decoding import *\n")
    return sys.modules[imported(folder).__name__ + ".decoding"]


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    """As in Session.run, on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


class Net(nn.Module):
    """What engines.py spells in another way, behind a convolution."""

    def __init__(self, last: Any = F.relu) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.last = last
        self.calls = 0
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.last(F.relu(self.conv(x)) - 0.3)


def image(size: int = 8, batch: int = 1) -> Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


# ---- oneDNN Graph


LAST = {
    "max_pool2d without a stride": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d without a stride": lambda x: F.avg_pool2d(x, (2, 1)),
    "avg_pool2d with one": lambda x: F.avg_pool2d(x, 3, stride=2, padding=1),
    "mean of an image": lambda x: x.mean(dim=(2, 3)),
    "mean that keeps its axes": lambda x: x.mean(dim=(-1, -2), keepdim=True) * x,
    "mean of channels": lambda x: x.mean(dim=1),
    "mean of all": lambda x: x.mean(),
    "exact gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("shape", [(6,), (4, 1), (1, 4, 6), (2, 4, 6)], ids=str)
def test_a_weight_behind_a_product_is_not_lost(
    engines: ModuleType, shape: tuple[int, ...]
) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(5, 6)
            self.gain = nn.Parameter(torch.randn(shape))
            self.register_buffer("shift", torch.randn(shape))

        def forward(self, x: Tensor) -> Tensor:
            return self.shift + self.fc(x) * self.gain

    net, x = Scaled().eval(), torch.randn(1, 4, 5)
    torch.testing.assert_close(engines.traced(net, (x,))(x), net(x))


@pytest.mark.parametrize("case", LAST)
def test_what_is_spelled_in_another_way_is_the_same(
    engines: ModuleType, case: str
) -> None:
    net = Net(LAST[case])
    run = engines.traced(net, (image(),))
    other = image() * 3
    torch.testing.assert_close(run(other), net(other), rtol=0, atol=4e-6)


def test_no_sum_is_written_over_a_term_that_is_read_again(engines: ModuleType) -> None:
    """As oneDNN Graph does; if it no longer does, keep_terms in engines.py may go."""

    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(8, 8, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            x, y = F.relu(x), self.conv(x)
            pooled = F.avg_pool2d(x, 3, stride=1, padding=1)
            return torch.cat([y, pooled + y, self.conv(x) + y], dim=1)

    net, x = Cell().eval(), torch.randn(1, 8, 6, 6)
    run = engines.traced(net, (x,))
    torch.testing.assert_close(run(x), net(x), rtol=0, atol=4e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "keep_terms", lambda graph: None)
        with pytest.raises(RuntimeError, match="other results"):
            engines.traced(net, (x,))


def test_a_network_of_too_many_calls_is_not_traced(engines: ModuleType) -> None:
    net, x = nn.Sequential(*[nn.ReLU()] * 5).eval(), torch.randn(2, 3)
    torch.testing.assert_close(engines.traced(net, (x,))(x), net(x))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "MOST_CALLS", 4)
        with pytest.raises(RuntimeError, match="more than 4 calls"):
            engines.traced(net, (x,))


ATTENTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "with a scale": {"scale": 0.3},
    "with a mask": {"attn_mask": torch.tensor([[0.0, -1.0, -3e38, 0.5, 0]])},
    "causal": {"is_causal": True},
    "of chosen keys": {"attn_mask": torch.tensor([[True, False, True, True, False]])},
}


@pytest.mark.parametrize("case", ATTENTIONS)
def test_attention_is_spelled_as_products(engines: ModuleType, case: str) -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 4).unbind()
    options = ATTENTIONS[case]
    wanted = F.scaled_dot_product_attention(q, k, v, **options)
    torch.testing.assert_close(engines.attention(q, k, v, **options), wanted)

    class Attention(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, **options)

    run = engines.traced(Attention().eval(), (q, k, v))
    torch.testing.assert_close(run(q, k, v), wanted)
    spelled = "with a" in case or case == "plain"
    text = str(run.inlined_graph)
    assert ("aten::scaled_dot_product_attention" in text) is not spelled
    with pytest.MonkeyPatch.context() as patch:  # too many to be held at once
        patch.setattr(engines, "MOST_SCORES", 10)
        run = engines.traced(Attention().eval(), (q, k, v))
    assert "aten::scaled_dot_product_attention" in str(run.inlined_graph)


@pytest.mark.parametrize("mask", [None, (1, 5), (5, 5), (2, 5, 5)])
@pytest.mark.parametrize("scores, parts", [(1, 5), (25, 3), (49, 2), (50, 1)])
def test_a_large_attention_is_of_some_rows_at_a_time(
    engines: ModuleType, scores: int, parts: int, mask: tuple[int, ...] | None
) -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 4).unbind()
    given = None if mask is None else torch.randn(mask)
    products = []

    def softmax(weights: Tensor, dim: int) -> Tensor:
        products.append(weights.shape[-2])
        return torch.softmax(weights, dim)

    module = SimpleNamespace(**{**vars(torch), "softmax": softmax})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "SCORES", scores)
        patch.setattr(engines, "torch", module)
        found = engines.attention(q, k, v, given)
    assert (len(products), sum(products)) == (parts, 5)
    wanted = F.scaled_dot_product_attention(q, k, v, given)
    torch.testing.assert_close(found, wanted)


def test_one_gelu_is_not_taken_for_the_other(engines: ModuleType) -> None:
    """As torch does; if it no longer does, the spelling in engines.py may go."""
    net = nn.Sequential(nn.Conv2d(3, 8, 1), nn.GELU(approximate="tanh")).eval()
    x = 3 * image()
    run = engines.traced(net, (image(),))
    torch.testing.assert_close(run(x), net(x), rtol=0, atol=4e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "SPELLINGS", {})
        run = engines.traced(net, (image(),))
    assert (run(x) - net(x)).abs().max() > 1e-4


def test_a_size_is_prepared_when_it_comes_again(engines: ModuleType) -> None:
    net = Net()
    engine = engines.OneDNN(net)
    for size in range(4, 4 + engines.MOST_SIZES):
        assert torch.equal(engine(image(size)), net(image(size)))
        assert len(engine.prepared) == size - 4
        torch.testing.assert_close(engine(image(size)), net(image(size)))
    calls = net.calls
    engine(image(4))
    assert net.calls == calls, "what is prepared doesn't need the network"
    for _ in range(3):  # more of them run as they stand, and nothing is given up
        engine(image(30))
    assert (net.calls, len(engine.prepared)) == (calls + 3, engines.MOST_SIZES)
    for size in range(2 * engines.MOST_SEEN):
        engine(image(31 + size % 3, batch=1 + size))
    assert len(engine.seen) <= engines.MOST_SEEN


def test_a_size_is_prepared_for_each_number_of_threads(engines: ModuleType) -> None:
    engine = engines.OneDNN(Net())
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for _ in range(2):
            engine(image())
    assert [key[0] for key in engine.prepared] == [1, 2]


def test_what_onednn_refuses_runs_as_it_stands(engines: ModuleType) -> None:
    net = Net(lambda x: F.batch_norm(x, torch.zeros(8), torch.ones(8)))
    engine = engines.OneDNN(net)
    engine(image())
    with pytest.warns(UserWarning, match="runs as it stands: .*could not add op"):
        engine(image())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(engine(image()), net(image()))

    product = Net(lambda x: x.transpose(2, 3) @ x)
    engine = engines.OneDNN(product)
    for _ in range(3):  # oneDNN leaves the result of an empty sum as memory has it
        assert engine(image(batch=0)).shape == (0, 8, 8, 8)
    assert not engine.prepared


def test_a_wrong_result_is_found_when_a_size_is_prepared(engines: ModuleType) -> None:
    drawn = Net(lambda x: x + torch.rand(1))
    engine = engines.OneDNN(drawn)
    engine(image())
    with pytest.warns(UserWarning, match="the trace gives other results"):
        engine(image())


def test_fusion_is_off_again(engines: ModuleType) -> None:
    assert not torch.jit.onednn_fusion_enabled()
    with warnings.catch_warnings(record=True) as told:
        engines.traced(Net(), (image(),))
    assert not torch.jit.onednn_fusion_enabled()
    assert not told, "that torch.jit is deprecated is no user's business"


def test_several_threads_at_once(engines: ModuleType) -> None:
    net = Net(LAST["mean of an image"])
    engine = engines.OneDNN(net)
    images = [image(size) * size for size in (6, 7, 8) for _ in range(8)]
    wanted = [net(each) for each in images]
    barrier = threading.Barrier(4)

    def work(number: int) -> list[Tensor]:
        torch.set_num_threads(1)
        barrier.wait(timeout=60)
        with torch.inference_mode():
            return [engine(each) for each in images[number:] + images[:number]]

    with ThreadPoolExecutor(4) as pool:
        for number, got in enumerate(pool.map(work, range(4))):
            for a, b in zip(got, wanted[number:] + wanted[:number], strict=True):
                torch.testing.assert_close(a, b, rtol=0, atol=1e-4)
        # Of a size that only came while another was prepared, now is the time.
        pool.submit(lambda: [engine(each) for each in images[::8]]).result(timeout=60)
    assert len(engine.prepared) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_goes_on(engines: ModuleType) -> None:
    """With what was prepared, and even if another thread was just preparing."""
    engine = engines.OneDNN(Net())
    engine(image())
    engine(image())
    wanted = engine(image())
    engine.lock.acquire()
    if (child := os.fork()) == 0:
        right = torch.equal(engine(image()), wanted)
        right &= [engine(image(5)).shape for _ in range(3)] == [(1, 8, 5, 5)] * 3
        os._exit(0 if right else 1)
    engine.lock.release()
    assert os.waitpid(child, 0)[1] == 0


# ---- layers on packed weights


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's own")
def test_what_a_call_frees_is_kept_for_the_next() -> None:
    """Of blocks that are freed together, more than the largest one twice."""
    text = engines_text(EnginePlan("packed", "lists", False))
    script = f"""
import ctypes, resource, torch
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
module = {{"__name__": "emitted_engines"}}
exec({text!r}, module)
if __import__("sys").argv[1:]:
    module["make_engine"]("eager", torch.nn.ReLU(), torch.device("cpu"))
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        blocks = [ctypes.c_void_p(libc.malloc(2**20)) for _ in range(40)]
        for block in blocks:
            ctypes.memset(block, 1, 2**20)
        for block in blocks:
            libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
    found = [
        int(subprocess.check_output([sys.executable, "-c", script, *arguments]))
        for arguments in ([], ["engine"])
    ]
    assert found[1] < 1000 < found[0]


HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    not HUGE.exists() or "[madvise]" not in HUGE.read_text(),
    reason="the system gives large pages to all, or to none",
)
@pytest.mark.parametrize("told", ["", "0"])
def test_large_tensors_are_in_large_pages_unless_told_else(told: str) -> None:
    text = engines_text(EnginePlan("packed", "lists", False))
    script = f"""
exec({text!r}, {{"__name__": "emitted_engines"}})
import torch
kept = torch.ones(2**24)
lines = open("/proc/self/smaps").read().splitlines()
print(sum(int(each.split()[1]) for each in lines if each.startswith("AnonHuge")))
"""
    others = {k: v for k, v in os.environ.items() if k != "THP_MEM_ALLOC_ENABLE"}
    environment = others | ({"THP_MEM_ALLOC_ENABLE": told} if told else {})
    found = subprocess.check_output([sys.executable, "-c", script], env=environment)
    assert (int(found) > 0) == (told == "")


@pytest.mark.parametrize("bias", [True, False])
def test_packed_weights_are_the_same_weights(engines: ModuleType, bias: bool) -> None:
    layers = [nn.Linear(5, 7, bias), nn.ReLU(), nn.Linear(7, 3, bias)]
    net = nn.Sequential(*layers, nn.Linear(3, 2).double()).eval()
    net.forward = lambda x: net[3](net[:3](x).double())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    shapes = [(1, 5), (4, 5), (2, 3, 5), (0, 5), (5,)]
    x = [torch.randn(shape) for shape in shapes] + [torch.randn(5, 4).t()]
    wanted = [net[:3](each) for each in x]
    run = packed(engines, net)
    for each, right in zip(x, wanted, strict=True):
        torch.testing.assert_close(run[:3](each), right)
    assert [type(layer).__name__ for layer in run] == [
        *("LaidOutLinear", "ReLU", "LaidOutLinear"),
        "Linear",  # of numbers that oneDNN has no product for
    ]
    assert list(net) == [*layers, net[3]], "the network itself is as it was"
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


def test_weights_are_laid_out_for_the_rows_that_come(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row is quicker from another layout than many are."""
    monkeypatch.setattr(engines, "ROWS", 1)
    told = []

    def lay_out(layer: Any, rows: int) -> Tensor:
        told.append(rows)
        return real(layer, rows)

    real = engines.LaidOutLinear.for_rows
    monkeypatch.setattr(engines.LaidOutLinear, "for_rows", lay_out)
    for shape in ((1, 5), (4, 5)):
        layer = engines.LaidOutLinear(nn.Linear(5, 7))
        for _ in range(2):
            layer(torch.ones(shape))
    assert told == [1, 2]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_layers_of_few_bits_are_taken_out_once(
    bits: int, level: int, dtype: str, tmp_path: Path
) -> None:
    """41 numbers in blocks of 16: the last one isn't full."""
    rng = np.random.default_rng(bits)
    parts = {
        "weight": rng.integers(0, 256, (8, 3, 2 * bits)).astype(np.uint8),
        "scales": rng.uniform(0.01, 0.1, 24).astype(dtype),
        "zeros": rng.integers(0, 256, 8 * -(-3 * bits // 8)).astype(np.uint8),
    }
    g = Graph(x=(dtype, ["n", 41]))
    names = [g.weight(f"fc.{name}", value=part) for name, part in parts.items()]
    sizes = {"K": 41, "N": 8, "bits": bits, "block_size": 16, "accuracy_level": level}
    y = g("MatMulNBits", "x", *names, domain="com.microsoft", **sizes)
    fairhand.compile(g.model(y=y), tmp_path / "net", engine="packed", verify=False)
    package = imported(tmp_path / "net")
    x = {"x": rng.standard_normal((3, 41)).astype(dtype)}
    session = package.Session()
    (found,) = session.run(None, x)
    (wanted,) = package.Session(engine="eager").run(None, x)
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    layers = [type(layer).__name__ for layer in session.runs_on.modules()]
    assert "UnpackedLinear" in layers and "PackedLinear" not in layers


def test_more_than_one_row_of_halves_is_multiplied_in_float32(tmp_path: Path) -> None:
    g = Graph(x=("float16", ["n", 16]))
    weights = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float16)
    first, second = (g.weight(f"fc{i}.weight", value=w) for i, w in enumerate(weights))
    bias = g.weight("fc1.bias", value=weights[0, 0])
    y = g("Relu", g("MatMul", "x", first))
    y = g("Add", g("MatMul", y, second), bias)
    fairhand.compile(g.model(y=y), tmp_path / "net", engine="packed", verify=False)
    package = imported(tmp_path / "net")
    session, plain = package.Session(), package.Session(engine="eager")
    layers = [type(layer).__name__ for layer in session.runs_on.modules()]
    assert layers.count("LaidOutHalves") == 2 and "Linear" not in layers
    for rows in (1, 3, 0, 1):
        x = {"x": np.ones((rows, 16), np.float16)}
        (found,), (wanted,) = session.run(None, x), plain.run(None, x)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize(("rows", "engine"), [(1, "eager"), (16, "auto")])
def test_engines_of_few_bits_are_there_where_they_are_worth_it(
    rows: int, engine: str, tmp_path: Path
) -> None:
    g = Graph(x=[rows, 1024])
    weight = g.weight("weight", value=np.zeros((1024, 32, 16), np.uint8))
    scales = g.weight("scales", value=np.ones(1024 * 32, np.float32))
    sizes = {"K": 1024, "N": 1024, "bits": 4, "block_size": 32}
    y = g("MatMulNBits", "x", weight, scales, domain="com.microsoft", **sizes)
    report = fairhand.compile(g.model(y=y), tmp_path / "net", verify=False).report
    assert report["engine"]["name"] == engine


@pytest.mark.parametrize(("size", "engine"), [(8, "eager"), (96, "auto")])
def test_an_lstm_of_one_step_has_its_weights_laid_out_once(
    size: int, engine: str, tmp_path: Path
) -> None:
    """It multiplies little, and would lay out all of them in each call."""
    g = Graph(x=[1, 1, size])
    w, r = (g.weight(name, 1, 4 * size, size) for name in "wr")
    y = g("LSTM", "x", w, r, hidden_size=size)
    report = fairhand.compile(g.model(y=y), tmp_path / "net").report
    assert report["engine"]["name"] == engine


def test_who_reads_a_packed_layer_s_weight_gets_it(engines: ModuleType) -> None:
    """A tied output layer, and kernels, take the weight and not the layer."""
    net = nn.Sequential(nn.Linear(4, 8))
    layer = packed(engines, net)[0]
    assert layer.weight is net[0].weight and layer.bias is net[0].bias


class Rows(nn.Module):
    """Layers that take the same, one of them twice, and one that takes its own."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(6, 6, bias), nn.Linear(6, 2, bias)
        self.heads = nn.ModuleList(nn.Linear(6, size, bias) for size in (3, 6))
        self.twice, self.out = nn.Linear(6, 6, bias), nn.Linear(6, 4, bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        q, y = self.q(x), self.twice(self.twice(x))
        return self.k(x), self.heads[0](x), self.out(q + y + self.heads[1](x))


@pytest.mark.parametrize("bias", [True, False])
def test_layers_that_take_the_same_row_become_one(
    engines: ModuleType, bias: bool
) -> None:
    net = Rows(bias).eval()
    run = engines.ENGINES["packed"](net)
    for shape in [(1, 1, 6), (1, 1, 6), (6,), (1, 6), (4, 6), (0, 6)]:
        x = torch.randn(shape)
        torch.testing.assert_close(run(x), net(x))
        x *= 2  # nothing is kept of what was taken before
        torch.testing.assert_close(run(x), net(x))
    joined = [run.q, run.k, *run.heads]
    assert {type(layer).__name__ for layer in joined} == {"Part"}
    assert len({id(layer.joined) for layer in joined}) == 1
    assert {type(run.twice), type(run.out)} == {engines.LaidOutLinear}
    assert run.k.weight is net.k.weight and run.k.bias is net.k.bias
    assert not run._forward_hooks and not run.out._forward_pre_hooks
    x = torch.randn(1, 6)
    torch.testing.assert_close(run.k(x), net.k(x))  # without the first of them


def test_layers_stay_apart_where_rows_are_many(engines: ModuleType) -> None:
    net = Rows().eval()
    run = engines.ENGINES["packed"](net)
    for rows in (3, 1):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(run(x), net(x))
    assert type(run.q) is engines.LaidOutLinear


def test_joined_layers_in_several_threads(engines: ModuleType) -> None:
    net = Rows().eval()
    run = engines.ENGINES["packed"](net)
    rows = torch.randn(4, 50, 1, 6)
    barrier = threading.Barrier(4)

    def work(mine: Tensor) -> list[Any]:
        barrier.wait(timeout=60)
        with torch.inference_mode():
            return [run(x) for x in mine]

    with ThreadPoolExecutor(4) as pool:
        for mine, found in zip(rows, pool.map(work, rows), strict=True):
            for x, got in zip(mine, found, strict=True):
                torch.testing.assert_close(got, net(x))


class Caches(nn.Module):
    """Two layers that look back, and a count of calls."""

    def __init__(self, read: Any = lambda size: size) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
        self.read, self.calls = read, 0

    def forward(self, x: Tensor, past: list[tuple[Tensor, Tensor]]) -> Any:
        self.calls += 1
        positions = torch.arange(self.read(past[0][0].shape[2] + 1))
        present = []
        for i, (k, v) in enumerate(past):
            q, new, other = (layer(x)[:, None] for layer in self.qkv[3 * i : 3 * i + 3])
            k, v = torch.cat([k, new], dim=2), torch.cat([v, other], dim=2)
            mask = (positions - 1.0)[None, None, None]
            x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[:, 0]
            present.append((k, v))
        return x, present


def grown(size: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    found = torch.randn(5, 1, 1, size, 8).unbind()
    return torch.randn(1, 1, 8), [(found[0], found[1]), (found[2], found[3])]


def assert_same(decoding: Any, got: Any, right: Any) -> None:
    pairs = zip(decoding.listed(got), decoding.listed(right), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


def test_decoding_is_recorded_for_all_sizes(decoding: Any) -> None:
    net = Caches().eval()
    engine = decoding.ENGINES["packed"](net)
    for size in (3, 3, 3, 4, 5, 60, 1, 0, 3):
        feeds = grown(size)
        assert_same(decoding, engine(*feeds), net(*feeds))
    assert isinstance(engine.run, torch.jit.ScriptModule)
    # It was called to be joined, recorded, and compared with for two of the sizes.
    assert engine.network.calls == 4 and len(engine.sizes) == 2
    assert type(engine.network.qkv[0]).__name__ == "Part"


@pytest.mark.parametrize("read", [int, lambda n: 4 if n < 9 else n], ids=["int", "if"])
def test_a_recording_that_would_keep_a_size_is_refused(
    decoding: Any, read: Any
) -> None:
    net = Caches(read).eval()
    engine = decoding.ENGINES["packed"](net)
    feeds = grown(3)
    engine(*feeds)
    with pytest.warns(UserWarning, match="call by call: Converting a tensor"):
        engine(*feeds)
    for size in (3, 11):
        feeds = grown(size)
        assert_same(decoding, engine(*feeds), net(*feeds))


def test_a_recording_that_differs_elsewhere_is_given_up(decoding: Any) -> None:
    """Of a size that Python saw without a word."""

    class Silent(nn.Module):
        def forward(self, x: Tensor, past: list[Tensor]) -> Any:
            grown = torch.cat([past[0], x])
            return x * torch.Size([grown.shape[0]]).numel(), [grown]

    net = Silent()
    engine = decoding.ENGINES["packed"](net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (3, 3, 4, 5, 6):
            feeds = torch.randn(1, 8), [torch.randn(size, 8)]
            assert_same(decoding, engine(*feeds), net(*feeds))
    assert engine.run is engine.network


def test_decoding_in_several_threads(decoding: Any) -> None:
    net = Caches().eval()
    engine = decoding.ENGINES["packed"](net)
    sizes = [3, 4, 5] * 8
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait(timeout=60)
        with torch.inference_mode():
            for size in sizes[number:]:
                feeds = grown(size)
                assert_same(decoding, engine(*feeds), net(*feeds))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [None] * 4
    assert isinstance(engine.run, torch.jit.ScriptModule)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}])
def test_a_packed_lstm_gives_the_same(
    engines: ModuleType, bidirectional: bool, num_layers: int, options: dict[str, bool]
) -> None:
    options = {"bidirectional": bidirectional, **options}
    lstm = nn.LSTM(3, 4, num_layers=num_layers, **options).eval()
    run = packed(engines, nn.Sequential(lstm))[0]
    assert isinstance(run, engines.PackedLSTM)
    count = num_layers * (1 + bidirectional)
    for shape in [(5, 2, 3), (1, 1, 3), (5, 3)]:
        x = torch.randn(shape)
        batch = [shape[not options.get("batch_first")]] if len(shape) == 3 else []
        state = torch.randn(2, count, *batch, 4).unbind()
        for given in [(), (tuple(state),)]:
            found, wanted = run(x, *given), lstm(x, *given)
            for got, right in zip(
                (found[0], *found[1]), (wanted[0], *wanted[1]), strict=True
            ):
                torch.testing.assert_close(got, right)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "channels, results, kernel, options",
    [
        (4, 4, 1, {}),
        (4, 12, 1, {}),
        (4, 8, 3, {"stride": 2, "padding": 1}),
        (4, 8, (1, 3), {"dilation": 2, "padding": "same"}),
        (4, 8, 1, {"padding": 1}),
        (4, 8, 1, {"stride": 2}),
    ],
)
def test_a_convolution_of_each_channel_gives_the_same(
    engines: ModuleType,
    channels: int,
    results: int,
    kernel: Any,
    options: dict[str, Any],
    bias: bool,
) -> None:
    layer = nn.Conv2d(channels, results, kernel, groups=channels, bias=bias, **options)
    run = packed(engines, nn.Sequential(layer).eval())[0]
    assert isinstance(run, engines.Depthwise)
    for shape in [(2, channels, 5, 7), (channels, 5, 7)]:
        x = torch.randn(shape)
        torch.testing.assert_close(run(x), layer(x))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 4, 3, groups=4),
        nn.Conv2d(4, 8, 1, groups=2),
        nn.Conv2d(1, 8, 3),
        nn.Conv2d(4, 8, 3, groups=4, padding=1, padding_mode="reflect"),
    ],
)
def test_other_convolutions_stay(engines: ModuleType, layer: nn.Conv2d) -> None:
    run = packed(engines, nn.Sequential(layer))[0]
    assert type(run) is nn.Conv2d


# ---- which network is given which


def named(**models: onnx.ModelProto) -> list[Any]:
    return [pytest.param(model, id=name) for name, model in models.items()]


def convolutions(width: int = 64) -> onnx.ModelProto:
    """Enough of them to be worth preparing."""
    g = Graph(image=["batch", 3, 32, 32])
    x = g("Relu", g.conv("image", "conv1", (3, width, 3), at="conv1"), at="relu")
    x = g("Relu", g.conv(x, "conv2", (width, width, 3), at="conv2"), at="relu2")
    return g.model(features=g("GlobalAveragePool", x, at="pool"))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("engines") / "cnn"
    fairhand.compile(convolutions(), out)
    return out


def feed(batch: int = 1) -> dict[str, np.ndarray]:
    return {"image": image(32, batch).numpy()}


def test_a_network_of_convolutions_runs_on_onednn(package: Path) -> None:
    module = imported(package)
    text = (package / "session.py").read_text()
    assert 'ENGINE = "auto"' in text and "torch.channels_last" in text
    plain = module.Session(engine="eager")
    session = module.Session(engine="onednn")
    for batch in (1, 2):
        (wanted,) = plain.run(None, feed(batch))
        for _ in range(3):
            (got,) = session.run(None, feed(batch))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    assert len(session.network.prepared) == 2
    assert list(session.model.state_dict()) == list(plain.model.state_dict())
    with pytest.raises(ValueError, match=r"no engine 'tpu', the engines are \['eager'"):
        module.Session(engine="tpu")


def test_threads_are_those_of_the_call(package: Path) -> None:
    module = imported(package)
    session = module.Session(threads=2)
    seen = []
    session.model.register_forward_pre_hook(
        lambda *_: seen.append(torch.get_num_threads())
    )
    session.run(None, feed())
    assert (seen, torch.get_num_threads()) == ([2], 1)
    session.network = lambda x: 1 / (torch.get_num_threads() - 2)
    with pytest.raises(ZeroDivisionError):
        session.run(None, feed())
    assert torch.get_num_threads() == 1


def prefill(width: int = 64) -> onnx.ModelProto:
    """Caches come out, and none goes in."""
    g = Graph(x=[1, 128, width])
    x, caches = "x", {}
    for i in range(3):
        for name in "kv":
            y = g.linear(x, f"layers.{i}.{name}", width, width, at=f"layers.{i}/{name}")
            caches[f"present_{name}{i}"] = y
        x = g("Relu", g.linear(x, f"layers.{i}.fc", width, width, at=f"layers.{i}/fc"))
    return g.model(y=x, **caches)


def test_a_network_that_returns_lists_is_traced(tmp_path: Path) -> None:
    fairhand.compile(prefill(), tmp_path / "a", engine="onednn")
    module = imported(tmp_path / "a")
    session, plain = module.Session(), module.Session(engine="eager")
    text = (tmp_path / "a" / "engines.py").read_text()
    assert "Tuples" in text and "Joined" not in text  # its rows are many
    given = {"x": np.random.default_rng(0).random((1, 128, 64), np.float32)}
    for _ in range(3):
        found = session.run(None, given)
        for got, right in zip(found, plain.run(None, given), strict=True):
            np.testing.assert_allclose(got, right, rtol=0, atol=1e-4)
    engine = inspect.getclosurevars(session.network).nonlocals["network"]
    assert len(found) == 7 and len(engine.prepared) == 1
    assert engine.model not in engine.prepared.values()


def test_a_decoder_runs_on_packed_weights(tmp_path: Path) -> None:
    report = fairhand.compile(decoder(), tmp_path / "a").report
    reason = "it takes lists of caches"
    assert report["engine"] == {"name": "auto", "refused": reason}
    module = imported(tmp_path / "a")
    text = (tmp_path / "a" / "engines.py").read_text()
    assert reason in text and "OneDNN" not in text and "LSTM" not in text
    assert len(text.splitlines()) <= 507
    with pytest.raises(ValueError, match=r"are \['eager', 'packed', 'auto'\]"):
        module.Session(engine="onednn")
    rng = np.random.default_rng(0)
    given = {"x": rng.random((1, 1, 1024), np.float32)}
    for name in [f"past_{part}{i}" for i in range(2) for part in "kv"]:
        given[name] = rng.random((1, 1, 3, 8), np.float32)
    session = module.Session(engine="packed")
    plain = module.Session(engine="eager")
    for _ in range(4):
        found, wanted = session.run(None, given), plain.run(None, given)
        for got, right in zip(found, wanted, strict=True):
            close = 1e-5 * np.abs(right).max()
            np.testing.assert_allclose(got, right, rtol=0, atol=close)
    recorded = inspect.getclosurevars(session.network).nonlocals["network"]
    assert "Part" in {type(layer).__name__ for layer in recorded.network.modules()}
    assert isinstance(recorded.run, torch.jit.ScriptModule)


def branching() -> onnx.ModelProto:
    return onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n] x, bool b) => (float[n] y) {
            y = If (b) <then_branch = t () => (float[n] u) { u = Relu(x) },
                        else_branch = e () => (float[n] v) { v = Neg(x) }>
        }""")


def one(text: str) -> onnx.ModelProto:
    header = '<ir_version: 9, opset_import: ["" : 18]> g '
    return onnx.parser.parse_model(header + text)


REFUSED = {
    "a trace of If may not stand for another run": branching(),
    "a trace of RandomNormalLike may not stand for another run": one(
        "(float[n] x) => (float[n] y) { y = RandomNormalLike(x) }"
    ),
    "a trace of NonZero may not stand for another run": one(
        "(float[n] x) => (int64[1, m] y) { y = NonZero(x) }"
    ),
    "the size of what Range gives depends on values": one(
        """(int64 x) => (int64[m] y) <int64 zero = {0}, int64 one = {1}>
        { y = Range(zero, x, one) }"""
    ),
    "not all it takes and gives are tensors of NumPy's types": one(
        "(string[n] x) => (string[n] y) { y = Identity(x) }"
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_network_that_values_steer_is_not_traced(reason: str, tmp_path: Path) -> None:
    model = REFUSED[reason]
    with pytest.raises(fairhand.FairhandError, match="which can't be done here: ") as e:
        fairhand.compile(model, tmp_path / "a", verify=False, engine="onednn")
    assert reason in str(e.value) and not (tmp_path / "a").exists()
    fairhand.compile(model, tmp_path / "a", verify=False)
    assert not (tmp_path / "a" / "engines.py").exists()
    with pytest.raises(ValueError, match=f"no engine 'onednn': {reason}"):
        imported(tmp_path / "a").Session(engine="onednn")


@pytest.mark.parametrize("model", named(cnn=residual(), encoder=transformer(2)))
def test_small_networks_run_as_they_stand(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    report = fairhand.compile(model, tmp_path / "a").report
    hint = "compile with --engine onednn to have more"
    assert report["engine"] == {"name": "eager", "refused": hint}
    assert not (tmp_path / "a" / "engines.py").exists()
    report = fairhand.compile(model, tmp_path / "a", engine="onednn").report
    assert report["engine"] == {"name": "onednn"}
    assert (tmp_path / "a" / "engines.py").exists()


def test_an_engine_that_fails_verification_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it was asked for."""
    genuine, reason = parity.run_package, "the emitted package died: signal 11"

    def crashes(package: Path, feeds: Any, engine: str = "", *then: Any) -> Any:
        if (engine or read_report(package)["engine"]["name"]) == "onednn":
            raise fairhand.VerificationError(reason)
        return genuine(package, feeds, engine, *then)

    monkeypatch.setattr(parity, "run_package", crashes)
    report = fairhand.compile(convolutions(), tmp_path / "a").report
    assert report["engine"] == {"name": "auto", "failed": {"onednn": reason}}
    assert report["verification"]["worst_relative_error"] < 5e-5
    module = imported(tmp_path / "a")
    assert "onednn" not in sys.modules[f"{module.__name__}.engines"].ENGINES
    with pytest.raises(fairhand.VerificationError, match="signal 11"):
        fairhand.compile(convolutions(), tmp_path / "a", engine="onednn")


# ---- the choice by measurement


def test_the_words_of_options_are_those_of_what_they_name(engines: ModuleType) -> None:
    assert tuple(engines.ENGINES) == (*ENGINES, AUTO)
    assert tuple(device.DEVICES) == DEVICES


# ---- QDQ pairs


@pytest.fixture(scope="module")
def qdq_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions and a linear layer, after ONNX Runtime's quantiser."""
    folder = tmp_path_factory.mktemp("qdq")
    model = onnx.load(EXAMPLES / "digits_cnn.onnx")
    feeds = [digits(seed) for seed in range(3)]
    onnx.save(quantized(model, "qdq", feeds), folder / "digits.onnx")
    report = fairhand.compile(
        folder / "digits.onnx", folder / "digits", engine="packed"
    ).report
    assert report["engine"]["name"] == "packed"
    assert "DequantizeLinear" in report["engine"]["refused"]
    return folder / "digits"


def digits(seed: int) -> dict[str, np.ndarray]:
    (name,) = (i.name for i in onnx.load(EXAMPLES / "digits_cnn.onnx").graph.input)
    drawn = np.random.default_rng(seed).normal(size=(1, 1, 8, 8))
    return {name: drawn.astype(np.float32)}


@pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="needs VNNI")
def test_what_was_rounded_is_multiplied_as_integers(qdq_package: Path) -> None:
    module = imported(qdq_package)
    plain, packed = module.Session(engine="eager"), module.Session(engine="packed")
    for seed in (0, 1, 2, 3):
        (wanted,), (found,) = (s.run(None, digits(seed)) for s in (plain, packed))
        if seed == 0:
            np.testing.assert_array_equal(found, wanted)  # the call that shows it
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2 * step_of(plain))
    kinds = [type(layer).__name__ for layer in packed.network.modules()]
    assert kinds.count("IntegerProduct") >= 3
    assert not {"QuantizedConv2d", "QuantizedLinear"} & set(kinds)
    layer = next(x for x in packed.network.modules() if hasattr(x, "zero_point"))
    assert layer.scale > 0


def step_of(session: Any) -> float:
    """The largest step of a rounding in a network."""
    rounds = (x for x in session.model.modules() if type(x).__name__ == "FakeQuantize")
    return max(float(each.scale) for each in rounds)


@pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="needs VNNI")
def test_only_what_one_rounding_gave_is_taken_for_integers(qdq_package: Path) -> None:
    module = imported(qdq_package)
    engines = sys.modules[f"{module.__name__}.engines"]
    Rounding, Linear = engines.FakeQuantize, engines.QuantizedLinear

    class Net(nn.Module):
        def __init__(self, signed: bool) -> None:
            super().__init__()
            self.round, self.other = Rounding(signed), Rounding(signed)
            self.fc, self.both = Linear(6, 4), Linear(6, 4, per_channel=True)
            self.plain = Linear(6, 4)
            for each, scale in ((self.round, 0.02), (self.other, 0.05)):
                each.scale.fill_(scale)
                each.zero_point.fill_(3)
            for layer in (self.fc, self.both, self.plain):
                layer.weight.random_(-127, 128)
                layer.scale.fill_(0.01)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = self.round(x)
            return self.fc(y), self.both(y), self.both(self.other(x)), self.plain(2 * y)

    for signed in (False, True):
        net = Net(signed).eval()
        run = engines.ENGINES["packed"](net)
        for shape in ((2, 6), (1, 3, 6), (0, 6)):
            x = torch.randn(shape)
            for _ in range(2):
                for got, right in zip(run(x), net(x), strict=True):
                    torch.testing.assert_close(got, right, rtol=0, atol=2e-5)
        kinds = [type(layer).__name__ for layer in run.children()]
        assert kinds[2:] == ["IntegerProduct", "QuantizedLinear", "QuantizedLinear"]


# ---- fewer bits


def test_bf16_is_measured_and_reported(tmp_path: Path) -> None:
    report = fairhand.compile(convolutions(), tmp_path / "a", precision="bf16").report
    assert report["engine"] == {"name": "auto", "precision": "bf16"}
    error = report["verification"]["worst_relative_error"]
    assert 1e-4 < error < report["tolerance"]["features"] == 0.1
    module = imported(tmp_path / "a")
    results = {}
    for engine in ("eager", "onednn"):
        session = module.Session(engine=engine)
        for _ in range(3):
            (results[engine],) = session.run(None, feed())
        assert {str(p.dtype) for p in session.model.parameters()} == {"torch.bfloat16"}
    assert results["onednn"].dtype == np.float32
    close = 0.02 * np.abs(results["eager"]).max()
    np.testing.assert_allclose(*results.values(), rtol=0, atol=close)
    with pytest.raises(fairhand.FairhandError, match=r"bf16 isn't offered .* caches"):
        fairhand.compile(decoder(), tmp_path / "b", precision="bf16")


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_no_engine_computes_in_more_bits_than_was_asked_for(
    tmp_path: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the plain one, nor what is left where another one failed."""
    model = transformer(layers=1)
    path, options = tmp_path / "a", {"precision": precision}
    report = fairhand.compile(model, path, engine="eager", **options).report
    assert report["engine"] == {"name": "eager", "precision": precision}
    assert report["verification"]["worst_relative_error"] > 1e-4
    genuine = parity.run_package

    def not_traced(package: Path, feeds: Any, engine: str = "", *then: Any) -> Any:
        if engine == "onednn":
            raise fairhand.VerificationError("it crashed")
        return genuine(package, feeds, engine, *then)

    monkeypatch.setattr(parity, "run_package", not_traced)
    report = fairhand.compile(model, tmp_path / "b", **options).report
    assert report["engine"]["name"] == "auto" and "failed" in report["engine"]
    assert report["verification"]["worst_relative_error"] > 1e-4


@pytest.mark.parametrize("bias", [True, False])
def test_int8_products_are_those_of_rounded_numbers(bias: bool) -> None:
    module = emitted_engines(precision="int8")
    net = nn.Sequential(nn.Linear(40, 7, bias), nn.Linear(7, 2, bias).double())
    net.forward = lambda x: net[1](net[0](x).double())
    net[0].weight.data[3] = 0  # a row without a scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = module.in_int8(net.eval())
    assert [type(layer).__name__ for layer in run] == ["Int8Linear", "Linear"]
    assert run[0].weight is net[0].weight and run[0].bias is net[0].bias
    assert list(run.parameters()) == list(net.parameters()), "nothing new to store"
    steps = net[0].weight.abs().amax(dim=1, keepdim=True) / 127
    rounded = (net[0].weight / steps.clamp(min=1e-9)).round() * steps
    for shape in ((1, 40), (5, 40), (2, 3, 40), (0, 40), (40,)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
        found = run[0](x)
        step = (x.clamp(min=0).max() - x.clamp(max=0).min()) / 255 if x.numel() else 0
        limit = (1 + run[0].in_seven) * float(step * rounded.abs().sum(dim=1).max())
        exact = F.linear(x, rounded, net[0].bias)
        assert found.shape == exact.shape
        torch.testing.assert_close(found, exact, rtol=0, atol=limit)
        if x.numel():
            assert not torch.equal(found, net[0](x))


def test_int8_is_measured_and_reported(tmp_path: Path) -> None:
    model = transformer(layers=1)
    report = fairhand.compile(model, tmp_path / "a", precision="int8").report
    assert report["engine"] == {"name": "auto", "precision": "int8"}
    error = report["verification"]["worst_relative_error"]
    assert 1e-4 < error < set(report["tolerance"].values()).pop() == 0.1
    module = imported(tmp_path / "a")
    tokens = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    results = {}
    for engine in ("eager", "onednn"):
        session = module.Session(engine=engine)
        for _ in range(3):
            (results[engine],) = session.run(None, {"tokens": tokens})
    close = 0.1 * np.abs(results["eager"]).max()
    np.testing.assert_allclose(*results.values(), rtol=0, atol=close)
    with pytest.raises(ValueError, match="no engine 'packed'"):
        module.Session(engine="packed")
    with pytest.raises(fairhand.FairhandError, match="another way than engine packed"):
        fairhand.compile(model, tmp_path / "b", precision="int8", engine="packed")


def test_int8_needs_linear_layers_and_no_trace(tmp_path: Path) -> None:
    with pytest.raises(fairhand.FairhandError, match=r"int8 isn't .* no linear layers"):
        fairhand.compile(convolutions(), tmp_path / "a", precision="int8")
    report = fairhand.compile(decoder(), tmp_path / "b", precision="int8").report
    assert (
        report["engine"]["name"] == "eager" and "caches" in report["engine"]["refused"]
    )
    assert report["verification"]["worst_relative_error"] > 1e-4


def test_an_engine_that_gives_up_does_not_verify(tmp_path: Path) -> None:
    """So that a package doesn't prepare in vain, with a warning, each time."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "__init__.py").write_text(
        "import warnings\n"
        "class Session:\n"
        "    def get_inputs(self): return []\n"
        "    def get_outputs(self): return []\n"
        "    def run(self, names, feed):\n"
        "        warnings.warn('the network runs as it stands: no such operator')\n"
        "        return []\n"
    )
    with pytest.raises(VerificationError, match="as it stands: no such operator"):
        run_package(tmp_path / "net", [{}])


# ---- results


@pytest.mark.parametrize(
    "line, made",
    [
        ("y = Add(x, w)", True),
        ("a = Add(x, w) y = Transpose(a)", True),
        ("y = Identity(x)", False),
        ("y = Transpose(w)", False),
        ("y = Expand(x, n)", False),
        ("s = Shape(x) f = Cast<to = 1>(s) y = Mul(f, f)", False),
    ],
)
def test_a_result_that_the_network_makes_is_told_apart(line: str, made: bool) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 18]>
    tiny (float[2] x) => (float[2] y) <float[2] w = {{1.0, 2.0}}, int64[1] n = {{2}}>
    {{ {line} }}"""
    model = ir.serde.deserialize_model(onnx.parser.parse_model(text))
    assert makes_results(model) == made
