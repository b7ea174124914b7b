"""`fairhand bench --mesh`: what it writes is what `--devices` reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairhand.analysis.partition.machine import read_machine
from fairhand.codegen.cli import main


@pytest.mark.slow
def test_rates_of_two_processes_are_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    run += ["-m", "fairhand", "bench", "--mesh", str(path)]
    said = subprocess.run(run, capture_output=True, text=True, timeout=300, check=True)
    assert "here: 2 devices" in said.stdout
    machine = read_machine(str(path))
    assert min(machine.flops, machine.bytes, machine.memory) > 1e6
    assert 0 < machine.alpha < 1 and 0 <= machine.beta < 1e-3


def test_one_device_is_refused_with_the_command_that_starts_several(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["bench", "--mesh", str(tmp_path / "m.json")]) != 0
    said = capsys.readouterr().err
    assert "there is one" in said and "torchrun --nproc-per-node" in said
    assert not (tmp_path / "m.json").exists()
