"""Random graphs for the planners: plain data, no models."""

from __future__ import annotations

import os
import random

from fairhand.analysis.dataflow.dag import Dag
from fairhand.analysis.dataflow.dataflow import Dataflow, Operator, Tensor
from fairhand.analysis.dataflow.tiling import Tiling
from fairhand.analysis.ops.facts.tiles import Tile
from fairhand.analysis.ops.registry import MappingType
from fairhand.analysis.schedule.linear_clustering import Costs

COUNT = int(os.environ.get("FAIRHAND_FUZZ", "300"))  # graphs per property
KINDS = ("Add", "MatMul", "ReduceSum", "Softmax", "Concat", "Gather", "Reshape")


def random_edges(chance: random.Random, size: int) -> list[tuple[int, int]]:
    """Mostly short, of chains, branches, joins and separate parts."""
    reach = chance.choice([1, 3, 8, size])
    edges = []
    for node in range(1, size):
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
            edges.append((chance.randrange(max(0, node - reach), node), node))
    return edges


def random_dag(seed: int, most: int = 40) -> tuple[Dag, Costs]:
    """With whole numbers for costs, hand-offs from free to dear."""
    chance = random.Random(seed)
    size = chance.randint(1, most)
    dag = Dag.of(size, random_edges(chance, size))
    nodes = tuple(float(chance.randint(1, 10)) for _ in range(size))
    dear = chance.choice([0, 1, 5, 20])
    edges = {edge: float(chance.randint(0, dear)) for edge in dag.edges()}
    return dag, Costs(nodes, edges, float(dear))


def random_dataflow(seed: int, most: int = 40) -> Dataflow:
    """Operators of all types with one result each, some of it read from outside."""
    chance = random.Random(seed)
    size = chance.randint(1, most)
    types = chance.choice(
        [list(MappingType), list(MappingType)[:2], list(MappingType)[:5]]
    )
    return flow_of(chance, size, random_edges(chance, size), types)


def random_network(seed: int, size: int) -> Dataflow:
    """Edges of all lengths up to 30, and one in a hundred as long as it may be."""
    chance = random.Random(seed)
    edges = []
    for node in range(1, size):
        for _ in range(chance.choice([1, 1, 1, 2])):
            reach = node if chance.random() < 0.01 else chance.randint(1, 30)
            edges.append((chance.randrange(max(0, node - reach), node), node))
    return flow_of(chance, size, edges, list(MappingType)[:5])


def flow_of(
    chance: random.Random,
    size: int,
    edges: list[tuple[int, int]],
    types: list[MappingType],
) -> Dataflow:
    reads: list[set[int]] = [set() for _ in range(size)]
    readers: list[set[int]] = [set() for _ in range(size)]
    for first, second in edges:
        reads[second].add(first)
        readers[first].add(second)
    operators = tuple(
        random_operator(chance, i, types, tuple(sorted(row)))
        for i, row in enumerate(reads)
    )
    tensors = tuple(
        Tensor(
            f"t{i}",
            chance.randint(1, 10**6),
            i,
            tuple(sorted(row)),
            not row or chance.random() < 0.1,
        )
        for i, row in enumerate(readers)
    )
    return Dataflow(operators, tensors, {})


def random_operator(
    chance: random.Random, i: int, types: list[MappingType], reads: tuple[int, ...]
) -> Operator:
    tiling = Tiling(chance.choice(list(Tile)), chance.randint(0, 2**20))
    return Operator(
        f"n{i}",
        chance.choice(KINDS),
        chance.choice(types),
        reads,
        (i,),
        flops=chance.randint(0, 10**7),
        moved_bytes=chance.randint(0, 10**7),
        row_bytes=chance.choice([4, 512, 2**18]),
        keeps_rows=chance.random() < 0.5,
        repeats=chance.choice([1, 1, 8]),
        tiling=chance.choice([None, tiling]),
        signature=f"n{i}",
    )
