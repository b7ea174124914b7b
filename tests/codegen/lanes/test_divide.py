"""Lanes in emitted code: what forks, what it says, and that it computes the same."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from support.emitted import FILES, contents, imported
from support.emitter_models import Graph
from support.networks import branching, residual
from support.random_dags import COUNT, random_dag

import fairhand
from fairhand.analysis.cost.device import CPU, Profile
from fairhand.analysis.dataflow.dag import Dag
from fairhand.analysis.dataflow.dataflow import Dataflow
from fairhand.analysis.schedule.fork_join import Work, find_forks, fork_seconds
from fairhand.codegen.cli import main
from fairhand.codegen.commands.where import lines_of, nodes_behind
from fairhand.codegen.compare.comparison import compare
from fairhand.codegen.profile.package_times import times

torch.set_num_threads(1)

# ------------------------------------------------------------------------- the planner


def work_of(seed: int, dag: Dag, nodes: Sequence[float]) -> Work:
    chance = random.Random(seed)
    outside = [seconds / chance.choice([1, 1, 2]) for seconds in nodes]
    moved = [float(chance.randint(0, 1)) for _ in nodes]
    barriers = frozenset(i for i in range(len(dag)) if chance.random() < 0.05)
    return Work(nodes, outside, moved, float(chance.choice([0, 1, 5])), barriers)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_lanes_of_a_fork_need_nothing_of_each_other(count: int) -> None:
    forked = 0
    for seed in range(COUNT):
        dag, costs = random_dag(seed)
        work = work_of(seed, dag, costs.nodes)
        forks = find_forks(dag, work, count)
        forked += len(forks)
        end = 0
        for fork in forks:
            items = sorted(i for lane in fork.lanes for i in lane)
            assert items == list(range(fork.first, fork.end)), "gaps, or done twice"
            assert fork.first >= end and 2 <= len(fork.lanes) <= count
            assert work.barriers.isdisjoint(items)
            end = fork.end
            home = {i: k for k, lane in enumerate(fork.lanes) for i in lane}
            for first, second in dag.edges():
                if first in home and second in home:
                    assert home[first] == home[second]
            apart = sum(work.outside[i] for i in items)
            seconds = fork_seconds(dag, work, fork.lanes)
            assert seconds < apart
            assert fork.saved == pytest.approx(apart - seconds, abs=1e-6)
    assert forked == 0 if count == 1 else forked > COUNT / 10


def best_seconds(dag: Dag, work: Work) -> float:
    """Of every way to cut the order into forks of two lanes and single items."""
    best = [0.0]
    for end in range(1, len(dag) + 1):
        ways = [best[end - 1] + work.outside[end - 1]]
        for start in range(end - 1):
            items = range(start, end)
            if not work.barriers.isdisjoint(items):
                continue
            for mask in range(2 ** (end - start)):
                lanes = ([], [])
                for i in items:
                    lanes[mask >> (i - start) & 1].append(i)
                here = [set(lane) for lane in lanes]
                crosses = any(
                    (a in here[0] and b in here[1]) or (a in here[1] and b in here[0])
                    for a, b in dag.edges()
                )
                if lanes[0] and lanes[1] and not crosses:
                    ways.append(best[start] + fork_seconds(dag, work, lanes))
        best.append(min(ways))
    return best[-1]


def test_forks_are_near_the_best_there_are() -> None:
    worst = 1.0
    for seed in range(60):
        dag, costs = random_dag(seed, most=7)
        work = work_of(seed, dag, costs.nodes)
        forks = find_forks(dag, work, 2)
        inside = {i for fork in forks for lane in fork.lanes for i in lane}
        seconds = sum(work.outside[i] for i in range(len(dag)) if i not in inside)
        seconds += sum(fork_seconds(dag, work, fork.lanes) for fork in forks)
        best = best_seconds(dag, work)
        assert best <= seconds + 1e-9
        worst = max(worst, seconds / best)
    assert worst <= 4 / 3, "the longest first is never worse for two lanes"


def test_a_fork_says_what_it_saves() -> None:
    dag = Dag.of(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    work = Work((1.0, 5.0, 3.0, 1.0), (1.0, 5.0, 3.0, 1.0), (0.5,) * 4, 0.25)
    (fork,) = find_forks(dag, work, 2)
    assert (fork.lanes, fork.first, fork.end) == (((1,), (2,)), 1, 3)
    assert fork.seconds == pytest.approx(5.25) and fork.saved == pytest.approx(2.75)
    dear = Work(work.inside, work.outside, work.moved, 3.0)
    assert find_forks(dag, dear, 2) == ()


# ----------------------------------------------------------------------- emitted code


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Without lanes, and with two."""
    folder = tmp_path_factory.mktemp("lanes")
    model = branching()
    fairhand.compile(model, folder / "serial", verify=False)
    fairhand.compile(model, folder / "lanes", lanes=2)
    return folder / "serial", folder / "lanes"


def test_a_block_forks_into_methods(packages: tuple[Path, Path]) -> None:
    text = (packages[1] / "model.py").read_text()
    assert "from .lanes import divides_threads, run_lanes\n" in text
    assert text.count("class Block(") == 1
    wanted = """
    def forward(self, x: Tensor) -> Tensor:
        x, (y, z) = run_lanes((self.lane0, x), (self.lane1, x))
        return torch.cat([x, y, z], dim=1)

    def lane0(self, x: Tensor) -> Tensor:
        x = F.relu(self.long0(x))
        return F.relu(self.long1(x))

    def lane1(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return F.relu(self.short0(x)), F.relu(self.other0(x))
"""
    assert wanted in text
    network = text[text.index("class Net(") :]
    assert "    @divides_threads(2)\n    def forward(" in network
    assert text.count("@divides_threads") == 1
    assert {path.name for path in packages[1].iterdir()} - FILES - {"__pycache__"} == {
        "lanes.py",
        "plan.json",
    }


def test_lanes_compute_the_same_bits(packages: tuple[Path, Path]) -> None:
    serial, lanes = (imported(folder) for folder in packages)
    x = torch.randn(1, 3, 40, 40)
    assert torch.equal(serial.load()(x), lanes.load()(x))
    feed = {"image": x.numpy()}
    (one,), (two,) = (m.Session().run(None, feed) for m in (serial, lanes))
    np.testing.assert_array_equal(one, two)


def test_the_report_and_the_plan(packages: tuple[Path, Path]) -> None:
    report = json.loads((packages[1] / "report.json").read_text())["lanes"]
    plan = json.loads((packages[1] / "plan.json").read_text())
    assert report["count"] == 2 and report["threads_per_lane"] == 1
    gain = report["predicted_seconds_without"] / report["predicted_seconds"]
    assert f"{gain:.2f} times as fast" in report["reason"]
    assert gain >= 1.05
    (fork,) = plan["emitted"]["classes"]["Block"]
    first, second = fork["lanes"]
    assert (first["calls"], second["calls"]) == ("self.lane0", "self.lane1")
    kinds = [op["type"] for op in plan["operators"]]
    assert [kinds[i] for i in first["operators"]].count("Conv") == 4  # in two blocks
    assert set(first["operators"]).isdisjoint(second["operators"])
    assert plan["lanes"]["gain"] >= gain - 0.05
    assert sum(len(g["operators"]) for g in plan["fusion"]["groups"]) == len(kinds)
    batch = plan["lanes"]["batch_seconds"]
    assert batch["one after another"] == pytest.approx(2 * plan["lanes"]["seconds"])
    serial = plan["lanes"]["serial_seconds"]
    assert batch["whole samples"] == pytest.approx(serial), "one in each lane"


def test_each_node_has_its_line(packages: tuple[Path, Path]) -> None:
    text = (packages[1] / "model.py").read_text().splitlines()
    line = next(i for i, t in enumerate(text, start=1) if "self.long1(x)" in t)
    shown = nodes_behind(packages[1], str(line))
    assert shown[0].endswith("return F.relu(self.long1(x))")
    names = [t.strip() for t in shown if "Conv" in t or "Relu" in t]
    for name in names:
        assert any("self.long1" in t for t in lines_of(packages[1], name))
    fork = next(i for i, t in enumerate(text, start=1) if "= run_lanes(" in t)
    assert "no node" in nodes_behind(packages[1], str(fork))[1]


def test_without_enough_gain_nothing_changes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    onnx.save(residual(), tmp_path / "net.onnx")
    out = tmp_path / "lanes"
    command = ["compile", str(tmp_path / "net.onnx"), "--no-verify", "-o"]
    assert main([*command, str(out), "--lanes", "2"]) == 0
    printed = capfd.readouterr().out
    assert "lanes     none, since 2 lanes with 1 thread each are predicted" in printed
    assert "less than 1.2" in printed
    assert main([*command, str(tmp_path / "plain")]) == 0
    lanes, plain = contents(out), contents(tmp_path / "plain")
    report = json.loads(lanes.pop("report.json"))["lanes"]
    assert (report["count"], report["asked"]) == (1, 2)
    assert report["predicted_seconds"] <= report["predicted_seconds_without"]
    assert lanes.pop("plan.json") and plain.pop("report.json")
    assert lanes.pop("provenance.json") and plain.pop("provenance.json")
    assert lanes == plain


def test_another_model_is_compared_with_lanes(packages: tuple[Path, Path]) -> None:
    onnx.save(branching(), packages[0].parent / "net.onnx")
    found = compare(packages[1], packages[0].parent / "net.onnx")
    assert not found.rows


def test_a_loop_stays_in_one_lane(tmp_path: Path) -> None:
    """What a round hands on goes round in a circle, and forks know none."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (int64 n, float[2] x) => (float[2] h) {
          yes = Constant <value = bool {1}> ()
          h = Loop (n, yes, x) <body = b (int64 i, bool c, float[2] a)
              => (bool d, float[2] z) { d = Identity(c)  z = Sin(a) }>
        }""")
    package = fairhand.compile(model, tmp_path / "net", lanes=2)
    assert "for _ in range(int(n)):" in (package.path / "model.py").read_text()


def test_one_lane_is_none(tmp_path: Path) -> None:
    package = fairhand.compile(branching(1), tmp_path / "x", verify=False, lanes=1)
    assert package.report["lanes"]["reason"].startswith("none, since one lane")


def test_a_package_forgets_its_lanes(tmp_path: Path) -> None:
    out = tmp_path / "net"
    fairhand.compile(branching(1), out, verify=False, lanes=2)
    assert (out / "lanes.py").exists()
    fairhand.compile(branching(1), out, verify=False, engine="eager")
    assert set(contents(out)) == FILES


def test_names_of_lanes_are_free_ones(tmp_path: Path) -> None:
    fairhand.compile(branching(1, long="lane"), tmp_path / "net", lanes=2)
    text = (tmp_path / "net" / "model.py").read_text()
    assert "self.lane0 = nn.Conv2d(" in text
    assert "run_lanes((self.lane0_2, x), (self.lane1_2, x))" in text


def test_random_numbers_are_drawn_in_order(tmp_path: Path) -> None:
    """Lanes would draw them in any order, so what draws is in none."""
    g = Graph(image=[1, 24, 40, 40])
    long = g.conv(g.conv("image", "a", (24, 24, 3)), "b", (24, 24, 3))
    short = g.conv(g("RandomNormalLike", "image"), "c", (24, 24, 3))
    model = g.model(result=g("Add", long, short))
    fairhand.compile(model, tmp_path / "net", verify=False, lanes=2)
    text = (tmp_path / "net" / "model.py").read_text()
    assert text.index("randn") < text.index("= run_lanes(")


def test_forks_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fairhand.compile(branching(), tmp_path / name, verify=False, lanes=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_lanes_by_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said: list[str] = []
    options = {"verify": False, "lanes": 2, "profile": True, "progress": said.append}
    fairhand.compile(branching(), tmp_path / "net", **options)
    assert any(text.startswith("measure 1 of ") for text in said)
    assert said[-2].startswith("lanes: ")
    said.clear()
    first = contents(tmp_path / "net")
    fairhand.compile(branching(), tmp_path / "net", **options)
    assert not any(text.startswith("measure") for text in said)
    assert contents(tmp_path / "net") == first


@pytest.mark.parametrize("gain", [1.04, 1.06])
def test_lanes_are_kept_where_they_are_measured_to_gain(
    gain: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(candidates: list[Any], *options: object) -> list[object]:
        texts = [(path / "model.py").read_text() for path, *_ in candidates]
        assert [" run_lanes(" in text for text in texts] == [False, True]
        return [{"fastest_ms": 10 * gain}, {"fastest_ms": 10.0}]

    monkeypatch.setattr("fairhand.codegen.profile.package_times.times", times)
    monkeypatch.setattr("fairhand.codegen.lanes.divide._cores", lambda: 2)
    alone = replace(CPU, scaling=0.0)  # threads add nothing to it
    monkeypatch.setattr("fairhand.codegen.lanes.divide.CPU", alone)
    model, out = branching(), tmp_path / "net"
    found = fairhand.compile(model, out, lanes="auto").report["lanes"]
    assert found["measured_seconds_without"] == pytest.approx(gain / 100)
    text = (
        "2 lanes with 1 thread each were measured to take 10.0 ms, one with 2 threads"
    )
    text += f" on engine auto {10 * gain:.1f} ms: {gain:.2f} times as fast"
    if gain > 1.05:
        assert (found["count"], found["reason"]) == (2, text)
        return
    assert (found["count"], found["reason"]) == (
        1,
        f"none, since {text}, less than 1.05",
    )
    fairhand.compile(model, tmp_path / "plain" / "net")
    lanes, plain = contents(out), contents(tmp_path / "plain" / "net")
    for extra in ("report.json", "provenance.json", "plan.json"):
        lanes.pop(extra)
    for extra in ("report.json", "provenance.json"):
        assert plain.pop(extra)
    assert lanes == plain
    onnx.save(model, tmp_path / "net.onnx")
    assert not compare(out, tmp_path / "net.onnx").rows


@pytest.mark.parametrize("gain", [1.04, 1.06])
def test_a_number_of_lanes_is_measured_with_profile(
    gain: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one of them on their engine."""

    def times(candidates: list[Any], *options: object) -> list[object]:
        assert [each[1:] for each in candidates] == [("eager", 1), ("", 2)]
        return [{"fastest_ms": 10 * gain}, {"fastest_ms": 10.0}]

    estimates = "fairhand.codegen.pipeline.measured_profile"
    monkeypatch.setattr(estimates, lambda *options, **more: Profile())
    monkeypatch.setattr("fairhand.codegen.profile.package_times.times", times)
    options = {"lanes": 2, "profile": True}
    found = fairhand.compile(branching(), tmp_path / "net", **options).report["lanes"]
    assert found["count"] == (2 if gain > 1.05 else 1)
    assert f"on engine eager {10 * gain:.1f} ms: {gain:.2f} times" in found["reason"]


def test_what_is_measured_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(fairhand.FairhandError, match="measures lanes or kernels"):
        fairhand.compile(branching(), tmp_path / "net", profile=True)
    assert not (tmp_path / "net").exists()


def test_a_division_has_to_gain_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not because more threads are measured to be slower."""

    def measured(
        model: object, shapes: object, flow: Dataflow, *_: object, **more: object
    ) -> Profile:
        profile = Profile()
        for op in flow.operators:
            profile.add("cpu", [op.signature], 1.0, 2)
        return profile

    monkeypatch.setattr("fairhand.codegen.pipeline.measured_profile", measured)
    monkeypatch.setattr("fairhand.codegen.lanes.divide._cores", lambda: 2)
    options = {"verify": False, "lanes": "auto", "profile": True, "engine": "eager"}
    found = fairhand.compile(residual(), tmp_path / "net", **options).report["lanes"]
    assert found["count"] == 1
    reason = r"none, though .* as fast: one lane with 1 thread would take [\d.]+ ms"
    assert re.fullmatch(reason, found["reason"])


@pytest.mark.parametrize(("engine", "count"), [("auto", 1), ("eager", 2)])
def test_a_prediction_knows_one_engine(
    engine: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lane on another may be twice as fast, and without verifying nothing runs."""
    monkeypatch.setattr("fairhand.codegen.lanes.divide._cores", lambda: 2)
    monkeypatch.setattr("fairhand.codegen.lanes.divide.CPU", replace(CPU, scaling=0.0))
    options = {"verify": False, "lanes": "auto", "engine": engine}
    found = fairhand.compile(branching(), tmp_path / "net", **options).report["lanes"]
    assert found["count"] == count
    if engine == "auto":
        text = ": one lane would run on engine auto, which was not measured"
        assert found["reason"].endswith(text)


def test_a_prediction_has_to_promise_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for most in (100.0, 1.0):
        monkeypatch.setattr("fairhand.codegen.lanes.divide.SURE", most)
        out = tmp_path / "net"
        package = fairhand.compile(branching(), out, verify=False, lanes=2, cache=False)
        found.append((package.report["lanes"]["count"], (out / "lanes.py").exists()))
    assert found == [(1, False), (2, True)]


def test_lanes_are_measured_beside_one_lane(
    packages: tuple[Path, Path], tmp_path: Path
) -> None:
    feed = {"image": np.zeros((1, 3, 40, 40), np.float32)}
    rows = times([(path, "eager", 2) for path in packages], feed, 0.0, 0.001)
    assert len(rows) == 2 and all(0 < row["fastest_ms"] <= row["ms"] for row in rows)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_lanes_for_the_machine(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with one lane that has all threads."""
    monkeypatch.setattr("fairhand.codegen.lanes.divide._cores", lambda: count)
    package = fairhand.compile(branching(), tmp_path / "x", verify=False, lanes="auto")
    found = package.report["lanes"]
    if count == 1:
        assert found["reason"] == "none, since one lane is all there is"
    else:
        assert f"one with {count} threads" in found["reason"]
        share = max(1, count // max(2, found["count"]))
        assert found["threads_per_lane"] == share or found["count"] == 1
