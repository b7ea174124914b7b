"""Linear clusters, lanes and their simulated schedules."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from support.exact_schedule import exact_makespan, reachable
from support.random_dags import COUNT, random_dag

from fairhand.analysis.dataflow.dag import Dag
from fairhand.analysis.schedule.lanes import WORTH, batch_makespans, lanes_for
from fairhand.analysis.schedule.linear_clustering import (
    Costs,
    Lanes,
    batch_costs,
    clone,
    copies,
    distance_to_end,
    hyperclusters,
    in_order,
    linear_clusters,
    merge_clusters,
    whole_samples,
)
from fairhand.analysis.schedule.simulate import HandOff, Schedule, simulate

CLOSE = 1e-9


# ---- what holds for every graph


def run_with_queues(dag: Dag, lanes: Lanes) -> int:
    """Run the lanes as threads would, one step at a time; returns the hand-offs.

    A lane blocks until what it reads from others is in its queue; it never waits to
    send. Independent of the simulator.
    """
    home: dict[int, int] = {}
    for k, lane in enumerate(lanes):
        for node in lane:
            home.setdefault(node, k)
    needs = [
        {p for n in lane for p in dag.predecessors[n]} - set(lane) for lane in lanes
    ]
    queues: list[set[int]] = [set() for _ in lanes]
    done = [set() for _ in lanes]
    steps = [0] * len(lanes)
    sent = 0
    while any(step < len(lane) for step, lane in zip(steps, lanes, strict=True)):
        moved = False
        for k, lane in enumerate(lanes):
            if steps[k] == len(lane):
                continue
            node = lane[steps[k]]
            if not done[k] | queues[k] >= set(dag.predecessors[node]):
                continue
            done[k].add(node)
            steps[k] += 1
            moved = True
            for other in range(len(lanes)):
                if home[node] == k and node in needs[other]:
                    assert node not in queues[other], "handed over twice"
                    queues[other].add(node)
                    sent += 1
        assert moved, "deadlock"
    return sent


def check_run(dag: Dag, lanes: Lanes, costs: Costs, run: Schedule) -> None:
    """A schedule that a machine could keep."""
    start = {(t.node, t.lane): t.start for t in run.tasks}
    end = {(t.node, t.lane): t.end for t in run.tasks}
    assert sorted(start) == sorted((n, k) for k, lane in enumerate(lanes) for n in lane)
    for lane in range(len(lanes)):
        times = [(t.start, t.end) for t in run.tasks if t.lane == lane]
        assert all(a[1] <= b[0] + CLOSE for a, b in pairwise(times))
    given = {(h.node, h.target): h.source for h in run.hand_offs}
    assert len(given) == len(run.hand_offs), "one result is handed over twice"
    needed = set()
    for node, lane in start:
        for before in dag.predecessors[node]:
            if (before, lane) in end:
                arrival = end[before, lane]
            else:
                needed.add((before, lane))
                source = given[before, lane]
                arrival = end[before, source] + costs.edge(before, node)
            assert arrival <= start[node, lane] + CLOSE
    assert needed == set(given), "something is handed over that nobody reads"
    assert run.makespan == max(end.values())


def test_clusters_of_random_graphs_are_chains_that_cover() -> None:
    for seed in range(COUNT):
        dag, costs = random_dag(seed)
        distance = distance_to_end(dag, costs)
        clusters = linear_clusters(dag, costs, distance)
        assert sorted(n for c in clusters for n in c) == list(range(len(dag)))
        for cluster in clusters:
            pairs = pairwise(cluster)
            assert all(b in dag.successors[a] for a, b in pairs)
        critical = sum(costs.nodes[n] for n in clusters[0])
        pairs = pairwise(clusters[0])
        critical += sum(costs.edge(*pair) for pair in pairs)
        assert critical == max(distance)


def test_merged_clusters_of_random_graphs_all_overlap() -> None:
    for seed in range(COUNT):
        dag, costs = random_dag(seed)
        distance = distance_to_end(dag, costs)
        clusters = linear_clusters(dag, costs, distance)
        merged = merge_clusters(dag, clusters, distance)
        assert sorted(n for lane in merged for n in lane) == list(range(len(dag)))
        home = {n: k for k, lane in enumerate(merged) for n in lane}
        assert all(len({home[n] for n in cluster}) == 1 for cluster in clusters)
        assert all(lane == in_order(lane, distance) for lane in merged)
        for i, one in enumerate(merged):
            for other in merged[:i]:
                assert distance[one[-1]] <= distance[other[0]]
                assert distance[other[-1]] <= distance[one[0]]


def test_lanes_of_random_graphs_never_lock_and_are_no_slower_than_one() -> None:
    for seed in range(COUNT):
        dag, costs = random_dag(seed)
        plan = lanes_for(dag, costs, 1 + seed % 4)
        assert {n for lane in plan.lanes for n in lane} == set(range(len(dag)))
        assert len(plan.lanes) <= 1 + seed % 4
        assert plan.serial == pytest.approx(sum(costs.nodes))
        assert plan.schedule.makespan <= plan.serial + CLOSE
        assert len(plan.lanes) == 1 or plan.gain >= WORTH
        check_run(dag, plan.lanes, costs, plan.schedule)
        assert run_with_queues(dag, plan.lanes) == len(plan.schedule.hand_offs)


def test_merged_and_cloned_lanes_of_random_graphs_never_lock() -> None:
    for seed in range(COUNT):
        dag, costs = random_dag(seed)
        distance = distance_to_end(dag, costs)
        clusters = linear_clusters(dag, costs, distance)
        for bare in (clusters, merge_clusters(dag, clusters, distance)):
            before = simulate(dag, bare, costs)
            check_run(dag, bare, costs, before)
            lanes = clone(dag, bare, costs, distance)
            after = simulate(dag, lanes, costs)
            check_run(dag, lanes, costs, after)
            assert run_with_queues(dag, lanes) == len(after.hand_offs)
            assert len(after.hand_offs) <= len(before.hand_offs)


def test_batches_of_random_graphs_never_lock() -> None:
    for seed in range(max(COUNT // 4, 50)):
        dag, costs = random_dag(seed, most=20)
        batch = 2 + seed % 3
        distance = distance_to_end(dag, costs)
        merged = merge_clusters(dag, linear_clusters(dag, costs, distance), distance)
        every, many = copies(dag, batch), batch_costs(costs, batch)
        for lanes in (
            hyperclusters(merged, distance, batch),
            hyperclusters(merged, distance, batch, switched=True),
            whole_samples(distance, batch, len(merged)),
        ):
            assert sorted(n for lane in lanes for n in lane) == list(range(len(every)))
            run = simulate(every, lanes, many)
            check_run(every, lanes, many, run)
            assert run_with_queues(every, lanes) == len(run.hand_offs)


# ---- quality


def test_two_lanes_are_near_the_best_schedule_there_is() -> None:
    """On average within 1.15 of it, on the same two lanes and without clones."""
    most, count = (14, COUNT // 100) if COUNT > 1000 else (10, 15)
    ratios = []
    for seed in range(count):
        dag, costs = connected(seed, most)
        plan = lanes_for(dag, costs, 2, cloning=False)
        exact = exact_makespan(dag, costs, 2, plan.schedule.makespan)
        ratios.append(plan.schedule.makespan / exact)
    assert min(ratios) >= 1
    assert math.fsum(ratios) / len(ratios) <= 1.15


def connected(seed: int, most: int) -> tuple[Dag, Costs]:
    """A network: every node but the first reads one of the few before it, or more."""
    chance = random.Random(seed)
    size = chance.randint(5, most)
    edges = []
    for node in range(1, size):
        near = range(max(0, node - 5), node)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            edges.append((chance.choice(near), node))
    nodes = tuple(float(chance.randint(1, 10)) for _ in range(size))
    return Dag.of(size, edges), Costs(
        nodes, hand_off=float(chance.choice([0, 1, 2, 5]))
    )


def test_the_oracle_knows_small_schedules() -> None:
    fork = Dag.of(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    for hand_off, best in ((0.0, 5.0), (1.0, 6.0), (9.0, 8.0)):
        costs = Costs((1.0, 3.0, 3.0, 1.0), hand_off=hand_off)
        assert exact_makespan(fork, costs, 2, 9.0) == best
    apart = Dag.of(3, [])
    assert exact_makespan(apart, Costs((2.0, 2.0, 3.0)), 2, 7.0) == 4.0


# ---- published counts: clusters before and after merging, with unit costs


def fire_modules(count: int) -> Dag:
    """SqueezeNet: squeeze, then two expansions side by side, then join; a ReLU each."""
    edges, last, size = [(0, 1)], 1, 2
    for _ in range(count):
        squeeze, relu, left, left_relu, right, right_relu, join = range(size, size + 7)
        edges += [(last, squeeze), (squeeze, relu), (relu, left), (left, left_relu)]
        edges += [(relu, right), (right, right_relu), (left_relu, join)]
        edges.append((right_relu, join))
        last, size = join, size + 7
    return Dag.of(size, edges)


def inceptions(count: int) -> Dag:
    """GoogLeNet: four branches of 2, 4, 4 and 3 nodes, then a join."""
    edges, last, size = [(0, 1)], 1, 2
    for _ in range(count):
        join = size + 13
        for length in (2, 4, 4, 3):
            chain = [last, *range(size, size + length), join]
            edges += pairwise(chain)
            size += length
        last, size = join, join + 1
    return Dag.of(size, edges)


@pytest.mark.parametrize(
    ("dag", "before", "after"), [(fire_modules(8), 9, 2), (inceptions(9), 28, 4)]
)
def test_counts_are_those_published(dag: Dag, before: int, after: int) -> None:
    costs = Costs((1.0,) * len(dag))
    distance = distance_to_end(dag, costs)
    clusters = linear_clusters(dag, costs, distance)
    assert len(clusters) == before
    assert len(merge_clusters(dag, clusters, distance)) == after


# ---- known cases


def test_a_distance_includes_hand_offs() -> None:
    dag = Dag.of(3, [(0, 1), (0, 2)])
    costs = Costs((1.0, 2.0, 4.0), {(0, 1): 5.0}, hand_off=1.0)
    assert distance_to_end(dag, costs) == [8.0, 2.0, 4.0]


def test_a_cheap_node_is_cloned_where_it_saves_a_hand_off() -> None:
    dag = Dag.of(4, [(0, 1), (0, 2), (1, 3)])
    distance = [5.0, 3.0, 2.0, 1.0]
    lanes: Lanes = ((0, 1, 3), (2,))
    cheap = Costs((1.0, 3.0, 3.0, 1.0), hand_off=2.0)
    assert clone(dag, lanes, cheap, distance) == ((0, 1, 3), (0, 2))
    dear = Costs((3.0, 3.0, 3.0, 1.0), hand_off=2.0)
    assert clone(dag, lanes, dear, distance) == lanes


def test_a_result_is_handed_over_once_per_lane() -> None:
    dag = Dag.of(4, [(0, 1), (0, 2), (0, 3)])
    run = simulate(dag, ((0, 1), (2, 3)), Costs((1.0,) * 4, hand_off=2.0), [8, 1, 1, 1])
    assert run.hand_offs == (HandOff(0, 0, 1),)
    assert (run.makespan, run.moved_bytes) == (5.0, 8)


def test_memory_is_held_from_the_start_to_the_last_reader() -> None:
    chain = Dag.of(3, [(0, 1), (1, 2)])
    costs = Costs((1.0, 1.0, 1.0))
    assert simulate(chain, ((0, 1, 2),), costs, [4, 8, 1]).peak_bytes == 12
    skip = Dag.of(3, [(0, 1), (0, 2), (1, 2)])
    assert simulate(skip, ((0, 1, 2),), costs, [4, 8, 1]).peak_bytes == 13


def test_lanes_that_wait_for_each_other_are_found() -> None:
    dag = Dag.of(4, [(0, 3), (1, 2)])
    with pytest.raises(ValueError, match=r"lanes \[0, 1\] wait for each other"):
        simulate(dag, ((2, 0), (3, 1)), Costs((1.0,) * len(dag)))
    with pytest.raises(AssertionError, match="deadlock"):
        run_with_queues(dag, ((2, 0), (3, 1)))
    with pytest.raises(ValueError, match="node 1 is in no lane"):
        simulate(dag, ((0, 3), (2,)), Costs((1.0,) * len(dag)))


def test_a_small_gain_is_declined_with_its_figure() -> None:
    dag = Dag.of(3, [(0, 2), (1, 2)])
    plan = lanes_for(dag, Costs((1.0, 40.0, 1.0), hand_off=0.0), 2)
    assert plan.lanes == ((1, 0, 2),)
    assert plan.gain == 1.0
    text = "predicted 1.02 times as fast as one lane, less than 1.05: one lane is kept"
    assert plan.reason == text


def test_an_empty_graph_has_an_empty_plan() -> None:
    plan = lanes_for(Dag.of(0, []), Costs(()), 2)
    assert (plan.lanes, plan.gain, plan.parallelism) == ((), 1.0, 1.0)


def test_batches_switch_clusters_to_even_out() -> None:
    """Dearer hand-offs leave whole samples as the best; then they are the figure."""
    dag = inceptions(9)
    costs = Costs((1.0,) * len(dag))
    distance = distance_to_end(dag, costs)
    merged = merge_clusters(dag, linear_clusters(dag, costs, distance), distance)
    found = batch_makespans(dag, merged, costs, 2)
    assert found["switched hyperclusters"] < found["whole samples"]
    assert found["switched hyperclusters"] < found["hyperclusters"]
    dear = batch_makespans(dag, merged, Costs(costs.nodes, hand_off=20.0), 2)
    assert min(dear, key=dear.__getitem__) == "whole samples"


def test_reachable_nodes() -> None:
    assert reachable(Dag.of(3, [(0, 1), (1, 2)])) == [{1, 2}, {2}, set()]


@pytest.mark.parametrize("edge", [(1, 0), (0, 0), (0, 2), (-1, 1)])
def test_edges_lead_forward(edge: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="among 2 nodes"):
        Dag.of(2, [edge])
