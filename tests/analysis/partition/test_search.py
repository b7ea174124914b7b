"""Plans beside those of every combination: of ways for layers, of places for stages."""

from __future__ import annotations

import random
import time
from itertools import combinations, pairwise, product

import onnx_ir as ir
import pytest

from fairhand.analysis.errors import FairhandError
from fairhand.analysis.partition.layers import Layer, Way
from fairhand.analysis.partition.machine import Machine, read_machine
from fairhand.analysis.partition.regions import Region, degrees
from fairhand.analysis.partition.request import (
    Degrees,
    divisions,
    read_degrees,
    reduced,
)
from fairhand.analysis.partition.search import Work, layer_seconds, share
from fairhand.analysis.partition.stages import Chain, divide

BLOCKS = 200


def layer(path: str, rows: int, columns: int) -> Layer:
    value = ir.Value(name=path)
    size = rows * columns * 4
    return Layer(path, value, value, rows, columns, size, columns * 4, ())


def drawn_block(
    drawn: random.Random,
) -> tuple[list[Layer], list[Region], Work, Machine]:
    """Layers, regions that may have some in common, a machine short of memory."""
    count = drawn.randint(2, 6)
    layers = [
        layer(
            f"h.0.l{chr(97 + i)}", drawn.choice([8, 16, 24]), drawn.choice([8, 12, 64])
        )
        for i in range(count)
    ]
    regions = []
    for first, last in combinations(range(count), 2):
        if drawn.random() < 0.4:
            parts = drawn.choice([2, 4, 4, 3])
            regions.append(Region([layers[first]], [layers[last]], parts))
    tokens = {x: drawn.choice([1, 32, 4096]) for x in layers}
    sizes = {x: tokens[x] * x.columns * 4 for x in layers}
    work = Work(tokens, sizes, {id(r): drawn.random() * 1e6 for r in regions})
    total = sum(x.held(Way.WHOLE, 1) for x in layers)
    memory = total * drawn.choice([0.3, 0.6, 0.8, 2.0])
    alpha = drawn.choice([0.0, 1e-6, 1e-4])
    return layers, regions, work, Machine("m", 1e9, 1e9, alpha, 1e-9, memory)


def price_of_every(
    layers: list[Layer], regions: list[Region], work: Work, machine: Machine, n: int
) -> float:
    """The least time of all ways for all layers that regions allow: no folding, no
    fronts, no order."""
    best = float("inf")
    for ways in product(Way, repeat=len(layers)):
        taken = dict(zip(layers, ways, strict=True))
        if not {Way.VOCABULARY, Way.ALONG}.isdisjoint(ways):
            continue
        if any(w is Way.GATHERED and x.columns % n for x, w in taken.items()):
            continue
        inner = [x for x in layers if taken[x] in (Way.COLUMNS, Way.ROWS)]
        for used in covers(inner, regions, taken, n):
            held = sum(x.held(w, n) for x, w in taken.items())
            if held > machine.memory:
                continue
            seconds = sum(
                layer_seconds(x, w, n, work, machine) for x, w in taken.items()
            )
            for region in regions:
                flops = work.between[id(region)]
                seconds += flops / machine.flops / (n if region in used else 1)
            best = min(best, seconds)
    return best


def covers(
    inner: list[Layer], regions: list[Region], ways: dict[Layer, Way], n: int
) -> list[list[Region]]:
    """Sets of regions whose layers are exactly those that are cut, each once."""
    fitting = [
        r
        for r in regions
        if r.parts % n == 0
        and ways[r.columns[0]] is Way.COLUMNS
        and ways[r.rows[0]] is Way.ROWS
    ]
    return [
        list(chosen)
        for size in range(len(fitting) + 1)
        for chosen in combinations(fitting, size)
        if sorted(id(x) for r in chosen for x in r.layers) == sorted(map(id, inner))
    ]


def test_the_search_finds_the_best_of_all_combinations() -> None:
    drawn = random.Random(26)
    fitted = 0
    for _ in range(BLOCKS):
        layers, regions, work, machine = drawn_block(drawn)
        layers, regions = layers[:4], [
            r for r in regions if set(r.layers) <= {*layers[:4]}
        ]
        found = share(layers, regions, 2, work, machine)
        wanted = price_of_every(layers, regions, work, machine, 2)
        if not found:
            assert wanted == float("inf")
            continue
        fitted += 1
        assert found[0].seconds == pytest.approx(wanted)
        assert found[0].held <= machine.memory
    assert fitted > BLOCKS / 2


def test_stages_are_the_best_of_all_divisions() -> None:
    drawn = random.Random(7)
    for _ in range(BLOCKS):
        n = drawn.randint(2, 8)
        sent = [drawn.choice([0.0, 0.1, float("inf")]) for _ in range(n)]
        two = [  # stages of two sorts of devices
            Chain(*[[drawn.random() for _ in range(n)] for _ in range(2)], sent)
            for _ in range(2)
        ]
        count, batches, memory = drawn.randint(1, 4), drawn.randint(1, 8), n * 0.4
        chains = [drawn.choice(two) for _ in range(count)]
        best = float("inf")
        for starts in combinations(range(1, n), count - 1):
            ends = [0, *starts, n]
            spans = list(pairwise(ends))
            parts = list(zip(chains, spans, strict=True))
            times = [
                sum(own.seconds[a:b]) + (sent[a] if a else 0.0) for own, (a, b) in parts
            ]
            if all(sum(own.held[a:b]) <= memory for own, (a, b) in parts):
                best = min(best, sum(times) + (batches - 1) * max(times))
        found = divide(chains, batches, memory)
        assert (found.seconds if found else float("inf")) == pytest.approx(best)


def test_megatron_is_found_where_links_are_quick() -> None:
    """An MLP is cut into columns, then rows; a slow link leaves it whole."""
    up, down = layer("h.0.up", 4096, 16384), layer("h.0.down", 16384, 4096)
    copies = [layer("h.1.up", 4096, 16384), layer("h.1.down", 16384, 4096)]
    layers = [up, down, *copies]
    regions = [Region([up], [down], 64), Region([copies[0]], [copies[1]], 64)]
    work = Work(dict.fromkeys(layers, 4096), dict.fromkeys(layers, 4096 * 4096 * 2), {})
    best = share(layers, regions, 8, work, read_machine("h100"))[0]
    assert best.ways == {
        up: Way.COLUMNS,
        down: Way.ROWS,
        copies[0]: Way.COLUMNS,
        copies[1]: Way.ROWS,
    }
    slow = Machine("slow", 6e14, 3e12, 1.0, 1e-6, 80e9)
    assert set(share(layers, regions, 8, work, slow)[0].ways.values()) == {Way.WHOLE}


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("tp=2", Degrees(tp=2)),
        ("dp=2,tp=4", Degrees(dp=2, tp=4)),
        ("8", 8),
        ("pp=2,tp=2+1", Degrees(pp=2, tp=2, each=(2, 1))),
        ("tp=2+3", Degrees(pp=2, tp=6, each=(2, 3))),
        ("tp=2+2", Degrees(pp=2, tp=2)),
    ],
)
def test_what_is_asked_is_read(text: str, degrees: Degrees | int) -> None:
    assert read_degrees(text) == degrees


@pytest.mark.parametrize(
    "text",
    ["tp", "tp=0", "xp=2", "tp=2,tp=2", "1", "tp=1", "-2", "pp=2+1", "tp=2+", "tp=+2"],
)
def test_what_is_no_degree_is_refused(text: str) -> None:
    with pytest.raises(FairhandError, match=r"degree|devices"):
        read_degrees(text)


def test_a_long_uneven_chain_is_divided_at_once() -> None:
    drawn = random.Random(0)
    seconds = [drawn.uniform(0.5, 1.5) for _ in range(126)]
    start = time.perf_counter()
    found = divide([Chain(seconds, [1.0] * 126, [0.01] * 126)] * 16, 8, float("inf"))
    assert found is not None and len(found.starts) == 15
    assert time.perf_counter() - start < 5  # trying every limit takes 36 s


def test_devices_are_divided_in_every_way() -> None:
    assert {d.world for d in divisions(12)} == {12}
    found = list(divisions(12))
    assert len({*found}) == len(found) == 18 + 10 + 4 + 2 + 2
    assert reduced(Degrees(9, 256, 4)) == Degrees(3, 2, 2)
    assert reduced(read_degrees("dp=64,tp=8+4")) == Degrees(2, 2, 2, (2, 1))


def test_a_file_that_describes_no_devices_is_refused(tmp_path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"flops": 1e12}')
    with pytest.raises(FairhandError, match="describes no devices: KeyError 'bytes'"):
        read_machine(str(path))


def test_degrees_divide_all_regions_or_some_where_nothing_divides_all() -> None:
    def found(*parts: int) -> list[int]:
        return degrees([Region([], [layer("down", 8, 8)], n) for n in parts])

    assert found(8, 12) == [2, 4] and found(4, 15) == [2, 3, 4, 5, 15]
