"""`fairhand inspect --fusion --lanes`: plans of real models, as text and as data."""

from __future__ import annotations

import cProfile
import json
from pathlib import Path

import pytest
from support.emitted import EXAMPLES
from support.random_dags import random_network

from fairhand.analysis.fusion.dnnfusion import dnnfusion
from fairhand.analysis.schedule.lanes import costs_of, plan_lanes
from fairhand.codegen.cli import main

CNN, TRANSFORMER = (EXAMPLES / f"digits_{n}.onnx" for n in ("cnn", "transformer"))
Capture = pytest.CaptureFixture[str]


def inspect(capfd: Capture, *arguments: str | Path) -> str:
    assert main(["inspect", *map(str, arguments)]) == 0
    return capfd.readouterr().out


def test_a_fusion_plan_gives_a_reason_for_each_edge(capfd: Capture) -> None:
    lines = inspect(capfd, CNN, "--fusion").splitlines()
    assert lines[0] == "dynamic sizes are taken for batch = 1"
    assert lines[1].split() == "from to types cell decision reason".split()
    relu = next(line for line in lines if line.startswith("node_Conv_77 (Conv)"))
    assert "Many-to-Many -> Many-to-Many  break  fused" in relu
    assert "intensive: each tile is used up; estimated no slower" in relu
    skip = next(line for line in lines if "node_add_81 (Add)" in line)
    assert skip.endswith("a path leads out of the group and back")
    assert lines[-1] == (
        "fusion dnnfusion: 15 operators in 6 groups (2.50 to 1, 2 of them intensive);"
        " intermediate values 0.04 MB before, 0.01 MB after"
    )


def test_lanes_are_declined_where_they_gain_nothing(capfd: Capture) -> None:
    text = inspect(capfd, CNN, "--lanes", "2")
    assert "less than 1.05: one lane is kept" in text
    assert text.splitlines()[-1].startswith("0 hand-offs, 0.00 MB")


def test_plans_as_data(capfd: Capture) -> None:
    options = ("--fusion", "--lanes", "2", "--batch", "3", "--json", "--device", "h100")
    data = json.loads(inspect(capfd, TRANSFORMER, *options))
    size = len(data["operators"])
    groups = [i for g in data["fusion"]["groups"] for i in g["operators"]]
    assert sorted(groups) == list(range(size))
    assert {i for lane in data["lanes"]["lanes"] for i in lane} == set(range(size))
    assert set(data["lanes"]["batch_seconds"]) == {
        *("one after another", "whole samples"),
        *("hyperclusters", "switched hyperclusters"),
    }
    assert all(edge["reason"] for edge in data["fusion"]["edges"])
    assert data["device"] == "h100"
    assert data["lanes"]["seconds"] <= data["lanes"]["serial_seconds"]


def test_measured_costs_are_used(
    capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured once; what is kept of it is used, and what is damaged measured again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = (CNN, "--lanes", "2", "--profile")
    first = inspect(capfd, *command)
    assert first != inspect(capfd, *command[:-1])
    assert first == inspect(capfd, *command)
    files = sorted((tmp_path / "fairhand" / "profile").rglob("*.json"))
    assert len(files) > 5
    for i, path in enumerate(files):
        path.write_text(["", "[1]", '{"seconds": "x"}', "[" * 10**5][i % 4], "utf-8")
    second = inspect(capfd, *command)
    assert second == inspect(capfd, *command)
    assert all(json.loads(path.read_text("utf-8"))["seconds"] > 0 for path in files)
    for path in files:
        path.write_text('{"seconds": 0.25}', "utf-8")
    text = inspect(capfd, *command)
    assert float(text.split("one lane ")[1].split(" ms")[0]) >= 250 * 5


def test_a_measured_plan_of_none_is_refused(capfd: Capture) -> None:
    assert main(["inspect", str(CNN), "--profile"]) == 1
    assert "add --fusion or --lanes" in capfd.readouterr().err


def test_planning_grows_as_the_graph_does() -> None:
    """Calls are counted; the graph has branches and skips like a network's."""
    calls = []
    for size in (1_000, 4_000):
        flow = random_network(seed=1, size=size)
        with cProfile.Profile() as profile:
            assert len(dnnfusion(flow).groups) < len(flow.operators)
            plan_lanes(flow, costs_of(flow), 2)
        calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert calls[1] < 4 * 1.5 * calls[0]
