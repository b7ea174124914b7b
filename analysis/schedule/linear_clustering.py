"""Linear clustering: which operators run one after another in the same lane.

After Das and Rauchwerger, "Automatic Task Parallelization of Dataflow Graphs in ML/DL
models" (Ramiel, IPDPS 2024): the longest path to the end of the graph is peeled off as
a cluster, again and again; clusters that don't overlap in time are merged.

Every lane is kept in the order of falling distance to the end. Where all costs are
above 0 that distance falls along every edge, so the lanes are parts of one topological
order and can't wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..dataflow.dag import Dag

Lane = tuple[int, ...]
Lanes = tuple[Lane, ...]


@dataclass(frozen=True)
class Costs:
    """Seconds of each node, which are above 0, and of handing a result to another lane.

    An edge that is not listed costs `hand_off`.
    """

    nodes: tuple[float, ...]
    edges: Mapping[tuple[int, int], float] = field(default_factory=dict)
    hand_off: float = 1.0

    def edge(self, first: int, second: int) -> float:
        """Seconds to hand the result of `first` to another lane's `second`."""
        return self.edges.get((first, second), self.hand_off)

    @property
    def serial(self) -> float:
        """Seconds of all nodes, one after another."""
        return sum(self.nodes)


def distance_to_end(dag: Dag, costs: Costs) -> list[float]:
    """The longest way from the start of each node to the end, hand-offs included."""
    distance = list(costs.nodes)
    for node in reversed(range(len(dag))):
        ways = (costs.edge(node, s) + distance[s] for s in dag.successors[node])
        distance[node] += max(ways, default=0.0)
    return distance


def linear_clusters(dag: Dag, costs: Costs, distance: Sequence[float]) -> Lanes:
    """Chains that cover the graph: the critical path, that of the rest, and so on."""
    taken = [False] * len(dag)
    clusters = []
    for head in sorted(range(len(dag)), key=lambda node: (-distance[node], node)):
        if taken[head]:
            continue
        cluster = [head]
        taken[head] = True
        while free := [s for s in dag.successors[cluster[-1]] if not taken[s]]:
            end = cluster[-1]
            ways = {s: costs.edge(end, s) + distance[s] for s in free}
            tail = max(free, key=ways.__getitem__)  # the first of equals
            taken[tail] = True
            cluster.append(tail)
        clusters.append(tuple(cluster))
    return tuple(clusters)


def merge_clusters(dag: Dag, clusters: Lanes, distance: Sequence[float]) -> Lanes:
    """Join clusters whose times don't overlap, until each two of them do.

    A cluster's time reaches from the distance of its first node to that of its last.
    Clusters come in the order of their heads, so a new lane is begun only where all
    lanes are busy, and no two of the lanes that result could be joined.
    """
    lanes: list[list[int]] = []
    home: dict[int, int] = {}
    for cluster in sorted(clusters, key=lambda c: (-distance[c[0]], c[0])):
        feeds = [home[p] for n in cluster for p in dag.predecessors[n] if p in home]
        free = [
            i
            for i, lane in enumerate(lanes)
            if distance[lane[-1]] > distance[cluster[0]]
        ]
        if free:
            best = max(free, key=lambda i: (feeds.count(i), -distance[lanes[i][-1]]))
            lanes[best] += cluster
        else:
            best = len(lanes)
            lanes.append(list(cluster))
        home.update(dict.fromkeys(cluster, best))
    return tuple(map(tuple, lanes))


def fold(clusters: Lanes, costs: Costs, distance: Sequence[float], count: int) -> Lanes:
    """At most `count` lanes: the longest clusters first, each to the emptiest lane."""
    lanes: list[list[int]] = [[] for _ in range(min(count, len(clusters)))]
    load = [0.0] * len(lanes)
    work = {c: sum(costs.nodes[n] for n in c) for c in clusters}
    for cluster in sorted(clusters, key=lambda c: (-work[c], c)):
        emptiest = load.index(min(load))
        lanes[emptiest] += cluster
        load[emptiest] += work[cluster]
    return tuple(in_order(lane, distance) for lane in lanes)


def bind(
    dag: Dag, clusters: Lanes, costs: Costs, distance: Sequence[float], count: int
) -> Lanes:
    """At most `count` lanes: each cluster to that in which its head starts earliest.

    What follows in the cluster stays there. Time passes as in a simulation, since nodes
    come in the order of the lanes.
    """
    cluster_of = {node: i for i, cluster in enumerate(clusters) for node in cluster}
    bound: dict[int, int] = {}
    home: dict[int, int] = {}
    done = [0.0] * len(dag)
    free = [0.0] * count
    lanes: list[list[int]] = [[] for _ in range(count)]

    def start(node: int, lane: int) -> float:
        arrivals = (
            done[p] + (0.0 if home[p] == lane else costs.edge(p, node))
            for p in dag.predecessors[node]
        )
        return max(free[lane], max(arrivals, default=0.0))

    for node in in_order(range(len(dag)), distance):
        lane = bound.get(cluster_of[node])
        if lane is None:
            lane = min(range(count), key=lambda i: (start(node, i), i))
            bound[cluster_of[node]] = lane
        done[node] = free[lane] = start(node, lane) + costs.nodes[node]
        home[node] = lane
        lanes[lane].append(node)
    return tuple(tuple(lane) for lane in lanes if lane)


def in_order(nodes: Sequence[int], distance: Sequence[float]) -> Lane:
    """The order in which a lane runs its nodes."""
    return tuple(sorted(nodes, key=lambda node: (-distance[node], node)))


def clone(dag: Dag, lanes: Lanes, costs: Costs, distance: Sequence[float]) -> Lanes:
    """Compute cheap nodes again in each lane that reads them, in place of a hand-off.

    A node is cheap if it costs no more than handing its result over. What it reads has
    to be in the lane already, so nothing new is handed over.
    """
    home = {node: i for i, lane in enumerate(lanes) for node in lane}
    held = [set(lane) for lane in lanes]
    for node in range(len(dag)):
        for reader in dag.successors[node]:
            there = held[home[reader]]
            cheap = costs.nodes[node] <= costs.edge(node, reader)
            if cheap and node not in there and there.issuperset(dag.predecessors[node]):
                there.add(node)
    return tuple(in_order(sorted(lane), distance) for lane in held)


# ---- batches: node v of sample b is node b * n + v of a graph of copies


def copies(dag: Dag, batch: int) -> Dag:
    """The graph of a batch whose samples don't depend on each other."""
    size = len(dag)
    return Dag(
        tuple(
            tuple(s + b * size for s in row)
            for b in range(batch)
            for row in dag.successors
        )
    )


def batch_costs(costs: Costs, batch: int) -> Costs:
    """The costs of `copies`: those of one sample, for each of them."""
    size = len(costs.nodes)
    edges = {
        (first + b * size, second + b * size): cost
        for b in range(batch)
        for (first, second), cost in costs.edges.items()
    }
    return Costs(costs.nodes * batch, edges, costs.hand_off)


def hyperclusters(
    lanes: Lanes, distance: Sequence[float], batch: int, switched: bool = False
) -> Lanes:
    """Lanes for a batch: while one sample waits for a hand-off, others are worked on.

    Switched, lane k takes cluster k + b of sample b, so that unequal clusters even out.
    """
    size, count = len(distance), len(lanes)
    found: list[list[tuple[float, int]]] = [[] for _ in lanes]
    for b in range(batch):
        for k, lane in enumerate(lanes):
            target = found[(k - b) % count if switched else k]
            target += [(-distance[node], b * size + node) for node in lane]
    return tuple(tuple(node for _, node in sorted(lane)) for lane in found)


def whole_samples(distance: Sequence[float], batch: int, count: int) -> Lanes:
    """The baseline: each lane takes whole samples, in turn."""
    size = len(distance)
    order = in_order(range(size), distance)
    return tuple(
        tuple(b * size + node for b in range(k, batch, count) for node in order)
        for k in range(min(count, batch))
    )
