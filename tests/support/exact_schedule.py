"""The best schedule there is of a small graph on a few lanes, as an integer program.

An oracle for tests: scipy is not needed by the tool itself.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from fairhand.analysis.dataflow.dag import Dag
from fairhand.analysis.schedule.linear_clustering import Costs, distance_to_end

SECONDS, TIME_IS_UP = 10, 1


class Program:
    """Rows of a mixed-integer program, added one by one."""

    def __init__(self) -> None:
        self.size = 0
        self.rows: list[tuple[dict[int, float], float]] = []

    def variables(self, count: int) -> list[int]:
        self.size += count
        return list(range(self.size - count, self.size))

    def at_least(self, row: dict[int, float], bound: float) -> None:
        self.rows.append((row, bound))


def exact_makespan(dag: Dag, costs: Costs, lanes: int, horizon: float) -> float:
    """The least makespan, given one that can be reached, of whole numbers.

    Where the search takes too long, what it has proven the least to be at least.

    x[v, k]: node v is in lane k; s[v]: its start; d[u, v]: not in the same lane;
    y[u, v]: u runs before v, of two nodes with no path between them.
    """
    size, program = len(dag), Program()
    makespan = program.variables(1)[0]
    start = program.variables(size)
    lane = [program.variables(lanes) for _ in range(size)]
    whole = [i for row in lane for i in row]
    reach = reachable(dag)
    work, big = costs.nodes, horizon
    tail = distance_to_end(dag, Costs(work, hand_off=0.0))
    least = max(*tail, math.ceil(sum(work) / lanes))
    if least == horizon:
        return horizon
    program.at_least({makespan: 1}, least)
    for k in range(lanes):
        load = {lane[v][k]: -work[v] for v in range(size)}
        program.at_least({makespan: 1, **load}, 0)
    for v in range(size):
        program.at_least({makespan: 1, start[v]: -1}, tail[v])
        program.at_least(dict.fromkeys(lane[v], 1.0), 1)
        program.at_least(dict.fromkeys(lane[v], -1.0), -1)
    for u, v in itertools.combinations(range(size), 2):
        apart = program.variables(1)[0]
        for k in range(lanes):
            x, y = lane[u][k], lane[v][k]
            program.at_least({apart: 1, x: -1, y: 1}, 0)
            program.at_least({apart: 1, x: 1, y: -1}, 0)
            program.at_least({apart: -1, x: -1, y: -1}, -2)
        if v in dag.successors[u]:
            row = {start[v]: 1.0, start[u]: -1.0, apart: -costs.edge(u, v)}
            program.at_least(row, work[u])
        elif v not in reach[u]:
            first = program.variables(1)[0]
            whole.append(first)
            program.at_least(
                {start[v]: 1, start[u]: -1, apart: big, first: -big}, work[u] - big
            )
            program.at_least(
                {start[u]: 1, start[v]: -1, apart: big, first: big}, work[v]
            )
    return solve(program, makespan, whole, [*lane[0]], horizon)


def solve(
    program: Program, target: int, whole: list[int], first: list[int], horizon: float
) -> float:
    matrix = np.zeros((len(program.rows), program.size))
    for i, (row, _) in enumerate(program.rows):
        for column, factor in row.items():
            matrix[i, column] = factor
    bounds = np.array([bound for _, bound in program.rows])
    integrality = np.zeros(program.size)
    integrality[whole] = 1
    upper = np.full(program.size, horizon)
    upper[whole] = 1
    lower = np.zeros(program.size)
    lower[first[0]] = 1  # lanes are alike: the first node is in the first
    cost = np.zeros(program.size)
    cost[target] = 1
    for presolve in (True, False):  # which ends in an error of the solver, rarely
        found = milp(
            cost,
            integrality=integrality,
            bounds=Bounds(lower, upper),
            constraints=LinearConstraint(matrix, bounds, np.inf),
            options={
                "time_limit": SECONDS,
                "mip_rel_gap": 0.9 / horizon,
                "presolve": presolve,
            },
        )
        if found.status == TIME_IS_UP and found.mip_dual_bound is not None:
            return float(math.ceil(found.mip_dual_bound - 1e-6))
        if found.status == 0:
            break
    assert found.status == 0, found.message
    return float(round(found.fun))


def reachable(dag: Dag) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(len(dag))]
    for node in reversed(range(len(dag))):
        for after in dag.successors[node]:
            found[node] |= {after} | found[after]
    return found
