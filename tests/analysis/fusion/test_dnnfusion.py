"""Fusion plans: what holds for every graph, and what is decided in known cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from fusion_baselines import (
    MAX_DEPTH,
    Pattern,
    pattern,
    post_dominators,
    tvm,
    unfused,
)
from onnx import TensorProto, helper, numpy_helper
from support.random_dags import COUNT, random_dag, random_dataflow

from fairhand.analysis.cost.device import CPU, Device, Profile
from fairhand.analysis.cost.typical_sizes import OTHER, Sizes
from fairhand.analysis.dataflow.dag import Dag, Grouping
from fairhand.analysis.dataflow.dataflow import Dataflow, dataflow
from fairhand.analysis.dataflow.mapping_types import Verdict
from fairhand.analysis.fusion.cost_model import live, pair_signature
from fairhand.analysis.fusion.dnnfusion import (
    MAX_OPERATORS,
    FusionPlan,
    dnnfusion,
    uses_up_tiles,
)
from fairhand.analysis.graph.dims import symbol
from fairhand.analysis.graph.shape_facts import ShapeFacts
from fairhand.analysis.ops.registry import MANY_TO_MANY, OPAQUE
from fairhand.analysis.shapes.infer import infer

PLANNERS: dict[str, Callable[[Dataflow], FusionPlan]] = {
    "none": unfused,
    "tvm": tvm,
    "dnnfusion": dnnfusion,
    "dnnfusion without intensive fusion": lambda flow: dnnfusion(flow, intensive=False),
}
SOME = max(COUNT // 4, 50)


def faults(dag: Dag, groups: list[tuple[int, ...]]) -> list[str]:
    """What is wrong with a grouping, found without the planner's own bookkeeping."""
    found = []
    listed = [node for group in groups for node in group]
    if sorted(listed) != list(range(len(dag))):
        found.append("the groups don't cover the graph, each node once")
    if not all(group == tuple(sorted(group)) for group in groups):
        found.append("a group is not in order")
    if any(group and reaches_back(dag, set(group)) for group in groups):
        found.append("a path leaves a group and comes back")
    group_of = {node: i for i, group in enumerate(groups) for node in group}
    if any(group_of[a] > group_of[b] for a, b in dag.edges()):
        found.append("the groups are in no topological order")
    return found


def reaches_back(dag: Dag, group: set[int]) -> bool:
    """Whether the group is not convex."""
    outside = {s for n in group for s in dag.successors[n]} - group
    for node in range(len(dag)):
        if node in outside:
            if group & set(dag.successors[node]):
                return True
            outside |= set(dag.successors[node])
    return False


@pytest.mark.parametrize("name", PLANNERS)
def test_groups_of_random_graphs_are_sound(name: str) -> None:
    for seed in range(SOME if name in ("none", "tvm") else COUNT):
        flow = random_dataflow(seed)
        plan = PLANNERS[name](flow)
        assert faults(flow.dag, [g.operators for g in plan.groups]) == [], seed
        assert 0 <= plan.bytes_after <= plan.bytes_before, seed
        assert [(e.first, e.second) for e in plan.edges] == list(flow.dag.edges())
        home = {i: k for k, g in enumerate(plan.groups) for i in g.operators}
        assert all(e.fused == (home[e.first] == home[e.second]) for e in plan.edges)
        assert all(edge.reason for edge in plan.edges)


def test_larger_graphs_with_wide_reach_are_sound_too() -> None:
    for seed in range(20):
        flow = random_dataflow(seed, most=400)
        for plan in (dnnfusion(flow), tvm(flow)):
            assert faults(flow.dag, [g.operators for g in plan.groups]) == [], seed


def test_the_checks_find_faults() -> None:
    diamond = Dag.of(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert faults(diamond, [(0, 1), (2,), (3,)]) == []
    assert faults(diamond, [(0, 3), (1,), (2,)]) == [
        "a path leaves a group and comes back",
        "the groups are in no topological order",
    ]
    assert "cover" in faults(diamond, [(0,), (1,), (2, 3), (3,)])[0]
    crossed = Dag.of(4, [(0, 3), (1, 2)])
    assert faults(crossed, [(0, 2), (1, 3)]) == [
        "the groups are in no topological order"
    ]  # each is convex, yet they wait for each other


def test_neighbours_are_not_merged_into_a_cycle() -> None:
    crossed = Grouping(Dag.of(4, [(0, 2), (1, 2), (1, 3), (0, 3)]))
    assert crossed.merge(0, 2)
    assert crossed.merge(1, 3) is False  # 1 -> {0, 2}, {0, 2} -> 3
    assert crossed.in_order() == [1, 0, 3]


def test_groups_respect_types_and_limits() -> None:
    small = replace(CPU, live_values=5, on_chip_bytes=2**16)
    for seed in range(SOME):
        flow = random_dataflow(seed)
        for group in dnnfusion(flow, small).groups:
            types = [flow.operators[i].mapping for i in group.operators]
            if len(types) == 1:
                continue
            assert OPAQUE not in types
            assert len(types) <= MAX_OPERATORS
            values, row_bytes = live(flow, group.operators, small.live_values)
            assert values <= small.live_values
            assert row_bytes <= small.on_chip_bytes
            if types.count(MANY_TO_MANY) > 1:
                assert group.intensive
                assert uses_up_tiles(flow, group.operators) is not None


def test_without_intensive_fusion_one_operator_at_most_is_many_to_many() -> None:
    for seed in range(SOME):
        flow = random_dataflow(seed)
        for group in dnnfusion(flow, intensive=False).groups:
            types = [flow.operators[i].mapping for i in group.operators]
            assert types.count(MANY_TO_MANY) <= 1
            assert not group.intensive


# ---- known cases


class Net:
    """A graph that is written down node by node."""

    def __init__(self, **inputs: list[int | str]) -> None:
        self.inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in inputs.items()
        ]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str | np.ndarray, **attrs: object) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, [*map(self.operand, inputs)], [name], name, **attrs)
        )
        return name

    def operand(self, given: str | np.ndarray) -> str:
        if isinstance(given, str):
            return given
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(given, name))
        return name

    def conv(self, x: str, cout: int, cin: int, kernel: int, **attrs: object) -> str:
        weight = np.zeros((cout, cin, kernel, kernel), np.float32)
        return self.add("Conv", x, weight, pads=[kernel // 2] * 4, **attrs)

    def flow(self, *results: str) -> Dataflow:
        outputs = [helper.make_empty_tensor_value_info(name) for name in results]
        made = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.weights)
        opset = [helper.make_opsetid("", 20)]
        model = ir.from_proto(helper.make_model(made, opset_imports=opset))
        return dataflow(model, infer(model))


def named(flow: Dataflow, plan: FusionPlan) -> list[list[str]]:
    return [[flow.operators[i].kind for i in group.operators] for group in plan.groups]


def images(channels: int = 16, size: int = 32) -> Net:
    return Net(x=[1, channels, size, size])


def test_a_residual_block() -> None:
    net = images()
    first = net.add("Relu", net.conv("x", 16, 16, 3))
    second = net.conv(first, 16, 16, 3)
    flow = net.flow(net.add("Relu", net.add("Add", second, "x")))
    plan = dnnfusion(flow)
    assert named(flow, plan) == [["Conv"], ["Relu", "Conv", "Add", "Relu"]]
    assert (plan.bytes_before, plan.bytes_after) == (4 * 65536, 65536)
    broken = plan.edges[0]
    assert broken.cell.verdict is Verdict.BREAK
    assert broken.reason == "Many-to-Many into Many-to-Many group of 4 breaks"
    assert named(flow, tvm(flow)) == [["Conv", "Relu"], ["Conv", "Add", "Relu"]]
    assert len(unfused(flow).groups) == 5


def test_a_skip_that_would_come_back_is_left_out() -> None:
    net = images()
    start = net.add("Relu", "x")
    through = net.conv(net.conv(start, 16, 16, 3), 16, 16, 3)
    flow = net.flow(net.add("Add", start, through))
    plan = dnnfusion(flow)
    assert named(flow, plan) == [["Relu", "Conv"], ["Conv", "Add"]]
    reasons = {(e.first, e.second): e.reason for e in plan.edges}
    assert reasons[0, 3] == "a path leads out of the group and back"


def test_windows_that_do_not_overlap_are_fused_intensively() -> None:
    for kernel, groups in ((2, [["Conv", "MaxPool"]]), (3, [["Conv"], ["MaxPool"]])):
        net = images()
        pool = net.add(
            "MaxPool",
            net.conv("x", 16, 16, 3),
            kernel_shape=[kernel] * 2,
            strides=[2, 2],
        )
        flow = net.flow(pool)
        plan = dnnfusion(flow)
        assert named(flow, plan) == groups
        assert plan.groups[0].intensive == (kernel == 2)
        assert len(dnnfusion(flow, intensive=False).groups) == 2


@pytest.mark.parametrize(
    ("following", "fused"), [("pointwise", True), ("depthwise", True), ("full", False)]
)
def test_a_second_convolution(following: str, fused: bool) -> None:
    net = images()
    first = net.conv("x", 16, 16, 1)
    if following == "depthwise":
        second = net.conv(first, 16, 1, 3, group=16)
    else:
        second = net.conv(first, 16, 16, 1 if following == "pointwise" else 3)
    plan = dnnfusion(net.flow(second))
    assert len(plan.groups) == (1 if fused else 2)


def test_different_tiles_are_not_mixed() -> None:
    """Pointwise after depthwise after pointwise: all of it would be held."""
    net = images()
    first = net.conv("x", 16, 16, 1)
    second = net.conv(net.conv(first, 16, 1, 3, group=16), 16, 16, 1)
    assert len(dnnfusion(net.flow(second)).groups) == 2


def test_weights_that_do_not_fit_on_chip_stay_apart() -> None:
    for width, groups in ((64, 1), (1024, 2)):
        net = Net(x=[128, width])
        weight = np.zeros((width, width), np.float32)
        flow = net.flow(net.add("MatMul", net.add("MatMul", "x", weight), weight))
        plan = dnnfusion(flow)
        assert len(plan.groups) == groups
    assert "bytes on chip" in plan.edges[0].reason


def test_a_norm_that_is_written_out_is_two_groups() -> None:
    net = Net(x=[1, 128, 768])
    number = np.array(2.0, np.float32)
    centred = net.add("Sub", "x", net.add("ReduceMean", "x", np.array([-1])))
    variance = net.add("ReduceMean", net.add("Pow", centred, number), np.array([-1]))
    deviation = net.add("Sqrt", net.add("Add", variance, number))
    flow = net.flow(net.add("Div", centred, deviation))
    assert (
        named(flow, dnnfusion(flow, intensive=False))
        == [
            ["ReduceMean", "Sub"],
            ["Pow", "ReduceMean", "Add", "Sqrt", "Div"],
        ]
        or len(dnnfusion(flow, intensive=False).groups) == 2
    )
    assert len(dnnfusion(flow).groups) == 1


def test_repeated_work_is_estimated() -> None:
    """A convolution would be computed four times for its enlarged result."""
    net = images(64)
    scales = np.array([1, 1, 2, 2], np.float32)
    large = net.add("Resize", net.conv("x", 64, 64, 3), "", scales)
    flow = net.flow(large)
    plan = dnnfusion(flow)
    assert len(plan.groups) == 2
    assert plan.edges[0].cell.verdict is Verdict.PROFILE
    assert plan.edges[0].reason.startswith("estimated slower: ")


@pytest.mark.parametrize(
    ("seconds", "fused", "reason"),
    [
        ((3.0, 2.5), True, "measured faster: 2500000.0 us fused, 3000000.0 apart"),
        ((3.0, 3.1), True, "measured as fast: 3100000.0 us fused, 3000000.0 apart"),
        ((3.0, 3.2), False, "measured slower: 3200000.0 us fused, 3000000.0 apart"),
        (None, False, "estimated slower: "),
    ],
)
def test_measured_times_win_over_estimates(
    seconds: tuple[float, float] | None, fused: bool, reason: str
) -> None:
    """Asked for once: the profile knows them from then on."""
    net = images(64)
    scales = np.array([1, 1, 2, 2], np.float32)
    flow = net.flow(net.add("Resize", net.conv("x", 64, 64, 3), "", scales))
    profile, asked = Profile(), []

    def timer(
        first: Sequence[int], second: Sequence[int]
    ) -> tuple[float, float] | None:
        asked.append((tuple(first), tuple(second)))
        return seconds

    edge = dnnfusion(flow, profile=profile, timer=timer).edges[0]
    assert edge.fused is fused and edge.reason.startswith(reason)
    assert set(asked) == {((0,), (1,))}
    asked.clear()
    assert dnnfusion(flow, profile=profile, timer=timer).edges[0] == edge
    assert bool(asked) == (seconds is None)
    assert dnnfusion(flow, profile=profile).edges[0] == edge
    assert not dnnfusion(flow, replace(CPU, name="other"), profile).edges[0].fused


def test_pairs_are_told_apart_by_who_reads_what() -> None:
    """On which side; not by where they are in the graph."""

    def pair(*reads: int, before: int = 0, second: int = 1) -> tuple[str, ...]:
        net = images()
        for _ in range(before):
            net.add("Neg", "x")
        values = [net.add("Exp", "x"), net.add("Tanh", "x")]
        flow = net.flow(net.add("Add", *(values[i] for i in reads)))
        end = len(flow.operators)
        split = end - second
        sides = range(before, split), range(split, end)
        return tuple(pair_signature(flow, *sides))

    assert pair(0, 1) == pair(0, 1, before=3)
    assert len({pair(0, 1), pair(1, 0), pair(0, 0), pair(0, 1, second=2)}) == 4


def test_a_profile_is_kept_in_files(tmp_path: Path) -> None:
    Profile(tmp_path, "this one").add("cpu", ["a", "b"], 0.5, threads=2)
    profile = Profile(tmp_path, "this one")
    assert profile.seconds("cpu", ["a", "b"], threads=2) == 0.5
    assert profile.seconds("cpu", ["a", "b"]) is None
    assert profile.seconds("cpu", ["b", "a"], threads=2) is None
    other = Profile(tmp_path, "another machine")
    assert other.seconds("cpu", ["a", "b"], threads=2) is None
    (path,) = tmp_path.rglob("*.json")
    for damaged in ("[1]", "", '{"seconds": -1}', '{"seconds": NaN}', "\0"):
        path.write_text(damaged, "utf-8")
        assert Profile(tmp_path, "this one").seconds("cpu", ["a", "b"], 2) is None


def test_signatures_tell_shapes_types_and_settings_apart() -> None:
    flows = []
    for size, stride in ((8, 1), (9, 1), (8, 2)):
        net = images(4, size)
        flows.append(net.flow(net.conv("x", 4, 4, 3, strides=[stride] * 2)))
    assert len({flow.operators[0].signature for flow in flows}) == 3


def test_post_dominators_are_what_all_paths_to_the_end_lead_through() -> None:
    def paths(node: int) -> list[set[int]]:
        further = [{node, *way} for s in dag.successors[node] for way in paths(s)]
        return [*further, *([{node}] if node in ends else [])]

    for seed in range(SOME):
        dag, _ = random_dag(seed, most=10)
        ends = {i for i, row in enumerate(dag.successors) if not row or i % 4 == 0}
        for node, found in enumerate(post_dominators(dag, ends)):
            shared = set.intersection(*paths(node)) - {node}
            assert found == min(shared, default=None)


def test_tvm_fuses_through_a_diamond_and_stops_at_a_softmax() -> None:
    net = images()
    start = net.conv("x", 16, 16, 3)
    both = net.add("Add", net.add("Sigmoid", start), net.add("Tanh", start))
    flow = net.flow(net.add("Neg", net.add("Softmax", both)))
    assert [pattern(op) for op in flow.operators] == [
        Pattern.OUT_ELEMWISE_FUSABLE,
        *[Pattern.ELEMWISE] * 3,
        Pattern.OPAQUE,
        Pattern.ELEMWISE,
    ]
    assert named(flow, tvm(flow)) == [
        ["Conv", "Sigmoid", "Tanh", "Add"],
        ["Softmax"],
        ["Neg"],
    ]


def test_long_chains_are_cut() -> None:
    net = Net(x=[8])
    value = "x"
    for _ in range(MAX_DEPTH + 10):
        value = net.add("Neg", value)
    flow = net.flow(value)
    assert max(len(g.operators) for g in dnnfusion(flow).groups) == MAX_OPERATORS
    assert max(len(g.operators) for g in tvm(flow).groups) <= MAX_DEPTH
    crossing = [e for e in dnnfusion(flow).edges if not e.fused]
    assert any(e.reason == f"more than {MAX_OPERATORS} operators" for e in crossing)


def test_what_a_branch_reads_from_outside_is_an_edge() -> None:
    inner = helper.make_node("Neg", ["early"], ["negative"])
    other = helper.make_node("Abs", ["early"], ["positive"])
    branches = {
        name: helper.make_graph(
            [node], name, [], [helper.make_empty_tensor_value_info(node.output[0])]
        )
        for name, node in (("then_branch", inner), ("else_branch", other))
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["early"]),
        helper.make_node("If", ["flag"], ["y"], **branches),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")]
    )
    opset = [helper.make_opsetid("", 20)]
    model = ir.from_proto(helper.make_model(graph, opset_imports=opset))
    flow = dataflow(model, infer(model))
    assert list(flow.dag.edges()) == [(0, 1)]
    assert flow.operators[1].mapping is OPAQUE


def test_dynamic_sizes_are_assumed_or_given() -> None:
    net = Net(x=["batch", "tokens", 4])
    net.add("Relu", "x")
    outputs = net.flow("relu_0")
    assert outputs.assumed == {"batch": 1, "tokens": 128}
    assert outputs.tensors[0].bytes == 128 * 4 * 4


def test_a_size_that_is_no_number_is_taken_for_any_other() -> None:
    sizes = Sizes(ShapeFacts(), {"n": 4})
    n = symbol("n")
    assert [sizes.number(d) for d in (7, n, 2 * n + 1, n - 9)] == [7, 4, 9, 0]
    assert sizes.number(1 / (n - 4)) == OTHER


def test_devices_bound_by_memory_and_by_arithmetic() -> None:
    device = Device("d", 100.0, 10.0, 1.0, 0.0, 1, 1)
    assert device.seconds(200, 10) == 3.0
    assert device.seconds(200, 100) == 11.0
