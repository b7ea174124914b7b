"""Loading a package reads no weights: its parameters lie in the mapped file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from support.emitted import EXAMPLES, imported
from support.emitter_models import Graph

import fairhand
from fairhand.codegen.emit import weights

WIDE = 512


def anonymous(file: Path, start: int) -> int | None:
    """Private bytes of the mapping of `file` that holds an address; None if none does.

    Pages that nothing has written to are the file's own.
    """
    inside = False
    for line in Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s+(.*)", line)
        if head:
            low, high = int(head[1], 16), int(head[2], 16)
            inside = low <= start < high and Path(head[3]) == file
        elif inside and line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    return None


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the mappings")
def test_parameters_are_mapped(tmp_path: Path) -> None:
    g = Graph(x=("float32", ["batch", WIDE]))
    y = g(
        "Add", g("MatMul", "x", g.weight("fc.weight", WIDE, WIDE)), g.weight("b", WIDE)
    )
    onnx.save(g.model(y=g("Relu", y)), tmp_path / "net.onnx")
    fairhand.compile(tmp_path / "net.onnx", tmp_path / "net", verify=False)
    network = imported(tmp_path / "net").load()
    file = (tmp_path / "net/weights.safetensors").resolve()
    weight = network.get_parameter("fc.weight")
    assert anonymous(file, weight.data_ptr()) == 0
    network(torch.ones(2, WIDE))  # reading them copies nothing
    assert anonymous(file, weight.data_ptr()) == 0
    assert anonymous(file, torch.ones(WIDE, WIDE).data_ptr()) is None


def test_weights_in_parts_are_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = EXAMPLES / "digits_cnn.onnx"
    whole = fairhand.compile(model, tmp_path / "whole", verify=False)
    taken = []
    monkeypatch.setattr(weights, "PART", 100)
    plain = weights.parts
    monkeypatch.setattr(
        weights, "parts", lambda x: taken.append(list(plain(x))) or taken[-1]
    )
    parted = fairhand.compile(model, tmp_path / "parted", verify=False)
    assert max(map(len, taken)) > 2
    one, other = (p.path / "weights.safetensors" for p in (whole, parted))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("dims", [(), (0, 3), (7, 5), (5, 7, 2), (1, 300)])
def test_parts_are_all_of_it(
    dims: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "PART", 64)
    array = np.arange(np.prod(dims), dtype=np.float32).reshape(dims[::-1]).T
    parts = list(weights.parts(array))
    assert all(p.nbytes <= 64 or len(p) == 1 for p in parts)
    bytes_ = b"".join(np.ascontiguousarray(p).tobytes() for p in parts)
    assert bytes_ == np.ascontiguousarray(array).tobytes()
