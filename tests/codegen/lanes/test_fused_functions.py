"""`compile --fusion`: groups of a plan as functions, which compute the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from support.emitted import contents, imported
from support.networks import branching, residual, transformer

import fairhand
from fairhand.codegen.cli import main
from fairhand.codegen.commands.where import lines_of
from fairhand.codegen.emit.package_files import read_report

torch.set_num_threads(1)
NETWORKS = {"residual": residual(), "transformer": transformer(2), "x": branching()}


@pytest.mark.parametrize("name", NETWORKS)
def test_functions_compute_the_same_bits(name: str, tmp_path: Path) -> None:
    model = NETWORKS[name]
    fairhand.compile(model, tmp_path / "plain", verify=False)
    fairhand.compile(model, tmp_path / "groups", fusion="dnnfusion")
    plain, groups = (imported(tmp_path / n).Session() for n in ("plain", "groups"))
    rng = np.random.default_rng(0)
    feed = {
        tensor.name: rng.standard_normal(
            [n if isinstance(n, int) else 2 for n in tensor.shape]
        ).astype(np.float32)
        for tensor in plain.get_inputs()
    }
    results = zip(plain.run(None, feed), groups.run(None, feed), strict=True)
    for one, two in results:
        np.testing.assert_array_equal(one, two)
    source = read_report(tmp_path / "groups")
    for nodes in list(source["source_map"]["lines"].values())[:5]:
        for names in nodes.values():
            assert all("model.py" in t for t in lines_of(tmp_path / "groups", names[0]))


def test_a_group_is_a_function_with_a_name_of_its_operators(tmp_path: Path) -> None:
    fairhand.compile(residual(), tmp_path / "net", verify=False, fusion="dnnfusion")
    text = (tmp_path / "net" / "model.py").read_text()
    methods = re.findall(r"def (\w+)\(self, (?!.*forward)", text)
    methods = [name for name in methods if name not in ("forward", "__init__")]
    assert methods
    for name in methods:
        assert text.count(f"self.{name}(") == 1
        assert re.fullmatch(r"[a-z]+(_[a-z]+){0,5}(_\d+)?", name)


def test_lanes_and_functions_are_not_mixed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    onnx.save(residual(), tmp_path / "net.onnx")
    command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out")]
    assert main([*command, "--lanes", "2", "--fusion", "dnnfusion"]) == 1
    assert "--lanes and --fusion don't go together" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lanes": "many"}, "lanes='many' is no number of lanes"),
        ({"lanes": 0}, "lanes=0 is no number of lanes"),
        ({"lanes": 10**6}, "give one from 1 to 64, or auto"),
        ({"fusion": "all"}, "fusion='all' is no way to group operators"),
    ],
)
def test_what_is_asked_for_in_vain(
    options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(fairhand.FairhandError, match=text):
        fairhand.compile(residual(), tmp_path / "net", **options)


def test_functions_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fairhand.compile(
            transformer(2), tmp_path / name, verify=False, fusion="dnnfusion"
        )
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
