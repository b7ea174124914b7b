"""The check of a plan: right ones pass, and what is changed in one is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file
from support.decoders import experts, projected
from support.golden_sequences import cached_decoder

from fairhand import compile
from fairhand.analysis.errors import FairhandError
from fairhand.analysis.partition.machine import read_machine
from fairhand.analysis.partition.request import read_degrees
from fairhand.codegen.ir.identifiers import class_name
from fairhand.codegen.parallel import rehearse as rehearsal
from fairhand.codegen.parallel.certificate import certificate
from fairhand.codegen.parallel.check_package import Stored, check_values, read_values
from fairhand.codegen.parallel.network import Network, read_network
from fairhand.codegen.parallel.plan import plans
from fairhand.codegen.parallel.rehearse import rehearse
from fairhand.codegen.parallel.write import page_text
from fairhand.codegen.pipeline import load, lower, parallel_plans
from fairhand.codegen.plan.make_plan import source_plan
from fairhand.codegen.request.options import CompileOptions

TRANSFORMER = Path(__file__).parents[3] / "examples" / "digits_transformer.onnx"
MUTANTS = 200


class Planned:
    """A network, and its plans as a package has them."""

    def __init__(self, path: Path) -> None:
        loaded = load(path)
        self.network: Network = read_network(
            lower(loaded, CompileOptions(), source_plan(loaded), class_name("n"))
        )
        weights = self.network.compiled.weights
        self.arrays = {weight.key: weight.array() for weight in weights}
        self.stored = {k: Stored(x.shape, x.nbytes) for k, x in self.arrays.items()}
        self.known: dict[Any, bool] = {}

    def plan(
        self, wanted: str, memory: float | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        machine = read_machine("cpu", memory)
        plan = plans(self.network, read_degrees(wanted), machine)[0]
        claims = json.loads(json.dumps(certificate(self.network, plan)))
        return read_values(page_text(self.network, plan)), claims

    def check(self, values: dict[str, Any], claims: dict[str, Any]) -> str:
        model, tensor = self.network.compiled.graph, self.arrays.__getitem__
        return check_values(values, model, claims, self.stored, tensor, self.known)


@pytest.fixture(scope="module")
def planned() -> Planned:
    return Planned(TRANSFORMER)


def blocks(
    residual: Sequence[bool], also: int | None = None, rows: str = "2"
) -> onnx.ModelProto:
    """Blocks of one class, some of which add their input, and a head; what block
    `also` gives is an output, too."""
    shape, lines, x = f"float[{rows}, 8]", [], "x"
    for i, adds in enumerate(residual):
        path = f"/blocks/blocks.{i}"
        for name in ("up", "down"):
            lines += [f"{name}{i} = Constant<value = float[8, 8] {{{_EIGHT}}}>()"]
        lines += [
            f'["{path}/up/MatMul"] u{i} = MatMul({x}, up{i})',
            f'["{path}/act/Relu"] r{i} = Relu(u{i})',
            f'["{path}/down/MatMul"] d{i} = MatMul(r{i}, down{i})',
        ]
        lines += [f'["{path}/Add"] s{i} = Add(d{i}, {x})'] if adds else []
        x = f"s{i}" if adds else f"d{i}"
        if i == also:
            also_given = x
    lines += [f'["/head/MatMul"] y = MatMul({x}, up0)']
    given = f"{shape} y" + (f", {shape} {also_given}" if also is not None else "")
    text = "\n".join(lines)
    header = '<ir_version: 10, opset_import: ["" : 21]>'
    return onnx.parser.parse_model(f"{header} g ({shape} x) => ({given}) {{{text}}}")


_EIGHT = ", ".join(str((7 * i % 11 - 5) / 8) for i in range(64))


Both = tuple[dict[str, Any], dict[str, Any]]


def of_claims(values: dict[str, Any], claims: dict[str, Any]) -> Iterator[Both]:
    """Another axis, a part for the whole, a sum for a part, a claim left out."""
    for kind in ("cuts", "rows"):
        for name, sides in claims.get(kind, {}).items():
            for side, places in enumerate(sides):
                for i, place in enumerate(places):
                    for other in (None, 0, 1, 2, [1, 2], [0, 1, -1], "sum", "once"):
                        if other is None and place in (None, "sizes"):
                            continue  # sizes may stand there as "what is left"
                        if other != place and not (side == 0 and place is None):
                            new = deepcopy(claims)
                            new[kind][name][side][i] = other
                            yield values, new
            new = deepcopy(claims)
            del new[kind][name]
            yield values, new
    for name, kind in claims.get("exchanges", {}).items():
        for changed in ({}, {name: "gather" if kind == "sum" else "sum"}):
            new = deepcopy(claims)
            del new["exchanges"][name]
            new["exchanges"] |= changed
            fewer = deepcopy(values)  # the plan says the same
            fewer["EXCHANGES"] = {
                sort: list(new["exchanges"].values()).count(way)
                for sort, way in (
                    ("all_reduce", "sum"),
                    ("all_gather_into_tensor", "gather"),
                )
                if way in new["exchanges"].values()
            }
            yield fewer, new


def of_layers(values: dict[str, Any], claims: dict[str, Any]) -> Iterator[Both]:
    """Rows for columns, other pieces, a layer left out: in the plan, and in both."""
    for path, (way, pieces) in values["WAYS"].items():
        changed: list[Any] = [
            (other, pieces)
            for other in ("columns", "rows", "gathered", "vocabulary", "along")
            if other != way
        ]
        more = pieces + 1 if isinstance(pieces, int) else (*pieces, 1)
        for other in [*changed, (way, more), None]:
            new, both = deepcopy(values), deepcopy(claims)
            del new["WAYS"][path]
            if other is not None:
                new["WAYS"][path] = other
            yield new, claims
            for layer in list(both["layers"]):
                if path in (
                    layer,
                    ".".join("*" if p.isdigit() else p for p in layer.split(".")),
                ):
                    if other is None:
                        del both["layers"][layer]
                    else:
                        both["layers"][layer][:2] = other
            yield new, both


def of_numbers(values: dict[str, Any], claims: dict[str, Any]) -> Iterator[Both]:
    """Bytes, exchanges and meshes of another size."""
    for i in range(len(values["HELD"])):
        for factor in (0.5, 2):
            new = deepcopy(values)
            new["HELD"][i] = int(new["HELD"][i] * factor)
            yield new, claims
    for name in values["MESH"]:
        for size in (1, 3, 5):
            new, both = deepcopy(values), deepcopy(claims)
            new["MESH"][name] = both["degrees"][name] = size
            yield new, claims
            if name != "dp":  # of which more parts are right, too
                yield new, both
    new = deepcopy(values)
    new["EXCHANGES"] = {"all_reduce": 99}
    yield new, claims
    for other in (0.5, 2) if "bytes sent" in values["EXCHANGES"] else ():
        new = deepcopy(values)
        new["EXCHANGES"]["bytes sent"] *= other
        yield new, claims
    if isinstance(tps := values["MESH"].get("tp"), list):
        for others in (
            tps[::-1],
            [*tps, 1],
            tps[:1],
            [max(tps)] * len(tps),
            [0, *tps[1:]],
        ):
            new, both = deepcopy(values), deepcopy(claims)
            new["MESH"]["tp"] = both["degrees"]["tp"] = others
            yield new, claims
            yield new, both


def of_parts(values: dict[str, Any], claims: dict[str, Any]) -> Iterator[Both]:
    """Another axis of a cache, in the plan and in both; all of it, in the plan."""
    for name, axis in values["PARTS"].items():
        for other in (None, axis + 1):
            new, both = deepcopy(values), deepcopy(claims)
            for parts in (new["PARTS"], both["parts"]):
                parts.pop(name)
                parts |= {} if other is None else {name: other}
            yield new, claims
            if other is not None:  # all of an input is a right plan, too
                yield new, both


def of_stages(values: dict[str, Any], claims: dict[str, Any]) -> Iterator[Both]:
    """A boundary moved, a unit twice or nowhere, other arguments that cross over."""
    stages = values["STAGES"]
    for i in range(len(stages) - 1):
        for change in ("later", "sooner", "twice", "none", "swapped"):
            new = deepcopy(values)
            a, b = new["STAGES"][i : i + 2]
            if change == "later":
                a.append(b.pop(0))
            elif change == "sooner":
                b.insert(0, a.pop())
            elif change == "twice":
                a.append(b[0])
            elif change == "none":
                b.pop(0)
            else:
                new["STAGES"][i : i + 2] = b, a
            both = deepcopy(claims)
            both["stages"] = new["STAGES"]
            yield new, claims
            yield new, both
        for places in ([], [1], [0, 1]):
            new = deepcopy(values)
            new["CROSSING"][i] = places
            if new != values:
                yield new, claims


def of_results(values: dict[str, Any], claims: dict[str, Any]) -> Iterator[Both]:
    """A result that another stage gives, a second one, or none."""
    for i, names in enumerate(values["RESULTS"]):
        for name in names:
            for other in range(len(values["RESULTS"]) + 1):
                new, both = deepcopy(values), deepcopy(claims)
                for stages in (new["RESULTS"], both["results"]):
                    if other != i:
                        stages[i].remove(name)
                    if other < len(stages):
                        stages[other].append(name)
                yield new, claims
                yield new, both


SORTS: list[Callable[[dict[str, Any], dict[str, Any]], Iterator[Both]]] = [
    of_claims,
    of_layers,
    of_numbers,
    of_parts,
    of_results,
    of_stages,
]


def mutants(planned: Planned, wanted: str) -> list[Both]:
    values, claims = planned.plan(wanted)
    return [both for sort in SORTS for both in sort(values, claims)]


UNEVEN = ("pp=2,tp=2+1", "pp=2,tp=2+4", "dp=2,tp=1+4")


@pytest.mark.parametrize(
    "wanted", ["tp=2", "tp=4", "pp=2", "dp=2", "dp=2,tp=2", "pp=2,tp=2", *UNEVEN]
)
def test_right_plans_pass(planned: Planned, wanted: str) -> None:
    text = planned.check(*planned.plan(wanted))
    assert "by values" in text and "by their law" not in text


def test_caches_are_taken_and_given_in_parts(tmp_path: Path) -> None:
    onnx.save(projected(), tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("tp=2")
    names = ("past_k", "past_v", "present_k", "present_v")
    assert values["PARTS"] == dict.fromkeys(names, 1)
    assert planned.check(values, claims)
    found = list(of_parts(values, claims))
    assert len(found) == 12 and not refused(planned, found)


def test_experts_are_cut_one_from_another(tmp_path: Path) -> None:
    onnx.save(experts(), tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("tp=2")
    assert {way for way, _ in values["WAYS"].values()} == {"along"}
    assert len(values["WAYS"]) == 3 and values["EXCHANGES"] == {"all_reduce": 1}
    text = planned.check(values, claims)
    assert "by values" in text and "by their law" not in text
    found = [both for sort in SORTS for both in sort(values, claims)]
    assert len(found) > 50 and not refused(planned, found)
    claims["cuts"]["y"][0][1] = "once"  # the axes of the sum are no part of it
    assert not refused(planned, [(values, claims)])
    onnx.save(experts("ReduceMax"), tmp_path / "m.onnx")
    with pytest.raises(FairhandError, match=r"ReduceMax .* needs all of what"):
        Planned(tmp_path / "m.onnx").plan("tp=2")


@pytest.mark.parametrize("bias", ["Tanh(places)", "Identity(own)"])
def test_heads_take_their_part_of_a_mask_for_each_head(
    tmp_path: Path, bias: str
) -> None:
    fifty = ", ".join(_EIGHT.split(", ")[:50])
    heads = "".join(
        f"{x} = Constant<value = float[8, 8] {{{_EIGHT.replace('0.5', str(i))}}}>()"
        f" {x}0 = MatMul(x, {x}) {x}1 = Reshape({x}0, apart)"
        f" {x}2 = Transpose<perm = [0, 2, 1, 3]>({x}1)"
        for i, x in enumerate("qkv")
    )
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["" : 23]> g (float[N, 5, 8] x,'
        " float[2, 5, 5] places) => (float[N, 5, 8] y)"
        "{ apart = Constant<value_ints = [0, 0, 2, 4]>() "
        f" own = Constant<value = float[2, 5, 5] {{{fifty}}}>()"
        f" {heads} bias = {bias} a = Attention(q2, k2, v2, bias)"
        " b = Transpose<perm = [0, 2, 1, 3]>(a)"
        " flat = Constant<value_ints = [0, 0, 8]>() c = Reshape(b, flat)"
        f" o = Constant<value = float[8, 8] {{{_EIGHT}}}>() y = MatMul(c, o) }}"
    )
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("tp=2")
    assert values["EXCHANGES"] == {"all_reduce": 1}
    assert len(values["WAYS"]) == 4 + (bias == "Identity(own)")
    assert planned.check(values, claims)


def test_sizes_of_two_names_that_meet_are_one(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[N, S, 8] x,'
        " float[N, M, 1] mask) => (float[N, S, 8] y)"
        f"{{ a = Constant<value = float[8, 8] {{{_EIGHT}}}>() "
        f" b = Constant<value = float[8, 8] {{{_EIGHT.replace('0.5', '0.7')}}}>()"
        ' ["/up/MatMul"] u = MatMul(x, a) s = Mul(u, mask) ["/down/MatMul"] y ='
        " MatMul(s, b) }"
    )
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    assert "by values" in planned.check(*planned.plan("dp=2,tp=2"))


def test_a_bias_of_heads_that_are_whole_is_no_reason_to_cut_them(
    tmp_path: Path,
) -> None:
    """Nor does it say into how many parts other layers may be cut."""
    bias, eight = ", ".join(map(str, range(75))), f"float[8, 8] {{{_EIGHT}}}"
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["" : 23]> g (float[N, 3, 5, 5] x,'
        " float[N, 3, 5, 2] v) => (float[N, 5, 8] y)"
        f"{{ bias = Constant<value = float[3, 5, 5] {{{bias}}}>() s = Add(x, bias)"
        " p = Softmax(s) a = MatMul(p, v) b = Transpose<perm = [0, 2, 1, 3]>(a)"
        " flat = Constant<value_ints = [0, 0, 6]>() c = Reshape(b, flat)"
        f" o = Constant<value = float[6, 8] {{{', '.join(_EIGHT.split(', ')[:48])}}}>()"
        f" d = MatMul(c, o) up = Constant<value = {eight}>() e = MatMul(d, up)"
        f" f = Relu(e) down = Constant<value = {eight}>() y = MatMul(f, down) }}"
    )
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    assert planned.network.degrees == [2, 4, 8]
    assert "along" not in dict(planned.plan("tp=2")[0]["WAYS"].values())


def test_what_only_other_blocks_do_is_no_work_of_a_stage(tmp_path: Path) -> None:
    onnx.save(blocks([True, False, False, True, False]), tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("pp=3")
    assert planned.check(values, claims)
    first, second, *_ = claims["units"].values()
    second.append(first[0])
    with pytest.raises(FairhandError, match="its own"):
        planned.check(values, claims)


def test_what_no_statement_does_is_there_with_what_it_takes(tmp_path: Path) -> None:
    model = blocks([True] * 2, rows="N")
    first = next(n for n in model.graph.node if n.name == "/blocks/blocks.1/up/MatMul")
    parsed = onnx.parser.parse_graph(
        "g (float[N, 8] s0) => (float[N, 8] all)"
        f" <int64[1] b = {{0}}, int64[1] e = {{{2**63 - 1}}}, int64[1] d = {{1}}>"
        " { all = Slice(s0, b, e, b, d) }"
    )
    place = list(model.graph.node).index(first)
    model.graph.node.insert(place, parsed.node[0])
    model.graph.initializer.extend(parsed.initializer)
    first.input[0] = "all"
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("pp=2")
    assert planned.check(values, claims)


@pytest.mark.parametrize("step", ["t", "s"])
def test_rows_are_found_where_tables_lie_flat(tmp_path: Path, step: str) -> None:
    """As TorchScript's exporter reads masks: at row * length + column."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[N, S] x, float[N, T] mask)'
        " => (float[N, T] y) <int64[1] last = {-1}, int64 zero = {0}, int64 one = {1},"
        " int64[1] axis = {1}> { n0 = Shape<start = 0, end = 1>(x) n = Squeeze(n0)"
        " t = Shape<start = 1>(mask) s = Shape<start = 1>(x) t0 = Squeeze(t)"
        " row = Range(zero, n, one) rows = Unsqueeze(row, axis)"
        f" first = Mul(rows, {step}) column = Range(zero, t0, one) place ="
        " Add(first, column) flat = Reshape(mask, last) y = Gather(flat, place) }"
    )
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    if step == "s":
        with pytest.raises(FairhandError, match="may take rows of a batch together"):
            planned.plan("dp=2")
        return
    values, claims = planned.plan("dp=2")
    assert "by values" in planned.check(values, claims)
    name = next(n for n, (_, made) in claims["rows"].items() if made == [[0, 1, -1]])
    claims["rows"][name][1] = [0]  # no places that are counted
    with pytest.raises(FairhandError, match="is not cut as"):
        planned.check(values, claims)


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("float[8, N] z", "z = Transpose<perm = [1, 0]>(y)"),
        ("float[2] z", "z = Constant<value = float[2] {1, 2}>()"),
        ("int64[2] z", "z = Shape(y)"),
    ],
)
def test_parts_of_a_batch_run_in_turn_where_rows_come_first(
    tmp_path: Path, given: str, lines: str
) -> None:
    """What has rows along another axis, or none, is no result that is put together; and
    one that counts them is none of a part."""
    model = blocks([True] * 2, rows="N")
    more = onnx.parser.parse_graph(f"g (float[N, 8] y) => ({given}) {{ {lines} }}")
    model.graph.node.extend(more.node)
    model.graph.output.extend(more.output)
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("pp=2")
    assert values["BATCHES"] == 1 and planned.check(values, claims)
    onnx.save(blocks([True] * 2, rows="N"), tmp_path / "m.onnx")
    claims["rows"] = Planned(tmp_path / "m.onnx").plan("pp=2")[1]["rows"]
    if "Shape" in lines:
        with pytest.raises(FairhandError, match="z is no result for each row"):
            planned.plan("dp=2")
    else:
        assert planned.check(*planned.plan("dp=2"))
    with pytest.raises(FairhandError, match="output z"):
        planned.check(values | {"BATCHES": 4}, claims)


@pytest.mark.parametrize("also", range(3))
def test_a_stage_keeps_what_the_network_gives_of_it(tmp_path: Path, also: int) -> None:
    onnx.save(blocks([True] * 4, also), tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("pp=4")
    assert planned.check(values, claims)
    kept = [[f"s{also}"] if i == also else [] for i in range(3)]
    assert values["RESULTS"] == [*kept, ["y"]]


def test_results_of_other_stages_are_refused(tmp_path: Path) -> None:
    onnx.save(cached_decoder(), tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("pp=3")
    assert planned.check(values, claims)
    assert [len(names) for names in values["RESULTS"]] == [2, 2, 3]
    found = list(of_results(values, claims))
    assert len(found) == 56 and not refused(planned, found)


def refused(planned: Planned, found: list[Both]) -> list[Both]:
    """Those that pass."""
    passed = []
    for values, claims in found:
        try:
            planned.check(values, claims)
        except FairhandError as error:
            assert "plan for several devices is wrong" in str(error)
        else:
            passed.append((values, claims))
    return passed


def test_some_mutants_are_refused(planned: Planned) -> None:
    drawn = random.Random(26)
    found = mutants(planned, "tp=2") + mutants(planned, "pp=2")
    uneven = list(of_numbers(*planned.plan(UNEVEN[0])))
    assert len(uneven) > 12
    assert not refused(planned, [*uneven, *drawn.sample(found, 30)])


@pytest.mark.parametrize("wanted", ["pp=2", "dp=2"])
def test_a_tie_names_the_tensor_that_is_shared(tmp_path: Path, wanted: str) -> None:
    onnx.save(blocks([True, True], rows="N"), tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan(wanted)
    ((name, stored),) = values["TIES"].items()
    assert planned.check(values, claims)
    others = [{name: key} for key in planned.stored if key != stored]
    added = [{name: stored, key: stored} for key in planned.stored if key != stored]
    assert len(others) == 3
    found = [({**values, "TIES": ties}, claims) for ties in ({}, *others, *added)]
    assert not refused(planned, found)


@pytest.mark.parametrize("batches", [0, -4, True, "4"])
def test_a_batch_has_one_part_at_least(planned: Planned, batches: object) -> None:
    values, claims = planned.plan(UNEVEN[0])
    assert not refused(planned, [({**values, "BATCHES": batches}, claims)])


@pytest.mark.slow
def test_mutants_are_refused(planned: Planned) -> None:
    drawn = random.Random(26)
    wanted = ("tp=2", "tp=4", "pp=2", "dp=2", "dp=2,tp=2", "pp=2,tp=2", *UNEVEN)
    found = [both for text in wanted for both in mutants(planned, text)]
    assert len(found) > MUTANTS
    assert not refused(planned, drawn.sample(found, MUTANTS))


@pytest.mark.parametrize(
    "text", ["MESH = f()", "HELD = [*(x for x in y)]", "MESH = {", "a.b = 1"]
)
def test_what_is_no_data_is_no_plan(text: str) -> None:
    with pytest.raises(FairhandError, match="is no plan"):
        read_values(text)


def test_a_joint_product_is_annotated_in_pieces(tmp_path: Path) -> None:
    numbers = ", ".join(str(i % 7 - 3) for i in range(128))
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[N, 8] x) => (float[N, 8] y)'
        f"{{ a = Constant<value = float[8, 16] {{{numbers}}}>()"
        f' b = Constant<value = float[8, 8] {{{_EIGHT}}}>() ["/up/MatMul"] u = MatMul'
        "(x, a) p, q = Split<axis = 1, num_outputs = 2>(u) r = Tanh(p) s = Mul(r, q)"
        ' ["/down/MatMul"] y = MatMul(s, b) }'
    )
    path, other = tmp_path / "m.onnx", tmp_path / "n.onnx"
    onnx.save(model, path)
    _, found = parallel_plans(path, "tp=2", "cpu", None, other)
    ways = [way[:2] for way in found[0]["certificate"]["layers"].values()]
    assert sorted(ways) == [["columns", 2], ["rows", 1]]
    node = next(n for n in onnx.load(other).graph.node if n.name == "/up/MatMul")
    (dim,) = node.device_configurations[0].sharding_spec[0].sharded_dim
    shards = [(x.dim_value, x.num_shards) for x in dim.simple_sharding]
    assert dim.axis == 1 and shards == [(2, 1), (0, 2)]
    assert parallel_plans(other, "annotated", "cpu", None)[1][0] == found[0]


# Four heads of query, with as many of key and value along an axis, or half as many.
AXIS = """ apart = Constant<value_ints = [0, 0, 3, 4, 2]>() a = Reshape(u, apart)
 b = Transpose<perm = [2, 0, 3, 1, 4]>(a) first = Constant<value_ints = [0]>()
 q, k, v = Split<axis = 0, num_outputs = 3>(b) q2 = Squeeze(q, first)
 k2 = Squeeze(k, first) v2 = Squeeze(v, first)"""
SIZES = """ z = Constant<value_ints = [8, 4, 4]>() q, k, v = Split<axis = 2>(u, z)
 apart = Constant<value_ints = [0, 0, 4, 2]>()
 half = Constant<value_ints = [0, 0, 2, 2]>() q1 = Reshape(q, apart)
 k1 = Reshape(k, half) v1 = Reshape(v, half)
 q2 = Transpose<perm = [0, 2, 1, 3]>(q1) k2 = Transpose<perm = [0, 2, 1, 3]>(k1)
 v2 = Transpose<perm = [0, 2, 1, 3]>(v1)"""
SAVED = """
parallel = importlib.import_module("network.parallel")
network = parallel.load(parallel.make_mesh())
parallel.save(network, sys.argv[1] + "/again.safetensors")
parallel.devices.report_check("worst")
"""


def attention(columns: int, form: str) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    sizes = {"w": (8, columns), "o": (8, 8), "bias": (columns,)}
    tensors = [
        numpy_helper.from_array(random.standard_normal(size).astype(np.float32), name)
        for name, size in sizes.items()
    ]
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["" : 23]> g (float[N, 5, 8] x) =>'
        ' (float[N, 5, 8] y) { ["/qkv/MatMul"] p = MatMul(x, w) ["/qkv/Add"]'
        f" u = Add(p, bias) {form} c = Attention(q2, k2, v2)"
        " d = Transpose<perm = [0, 2, 1, 3]>(c)"
        " flat = Constant<value_ints = [0, 0, 8]>()"
        ' e = Reshape(d, flat) ["/out/MatMul"] y = MatMul(e, o) }'
    )
    model.graph.initializer.extend(tensors)
    return model


@pytest.fixture(params=["axis", "sizes"])
def joint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    columns, form = {"axis": (24, AXIS), "sizes": (16, SIZES)}[request.param]
    onnx.save(attention(columns, form), tmp_path / f"{request.param}.onnx")
    return tmp_path / f"{request.param}.onnx"


def test_it_is_cut_within_each_of_its_products(joint: Path) -> None:
    planned = Planned(joint)
    values, claims = planned.plan("tp=2")
    pieces = {"axis": 3, "sizes": (2, 1, 1)}[joint.stem]
    assert sorted(values["WAYS"].values(), key=str) == [
        ("columns", pieces),
        ("rows", 1),
    ]
    text = planned.check(values, claims)
    assert "by values" in text and "by their law" not in text
    found = [both for sort in SORTS for both in sort(values, claims)]
    assert len(found) > 30 and not refused(planned, found)


def test_other_sizes_of_its_products_are_refused(joint: Path) -> None:
    planned = Planned(joint)
    values, claims = planned.plan("tp=2")
    for other in (1, 2, 4, [2, 1], [1, 2, 1], [1, 1, 2], [4, 2, 2], [], [0, 3]):
        layers = {
            path: [way, pieces if way == "rows" else other, name]
            for path, (way, pieces, name) in claims["layers"].items()
        }
        ways = {
            path: (way, pieces if way == "rows" else other)
            for path, (way, pieces) in values["WAYS"].items()
        }
        with pytest.raises(FairhandError, match="plan for several devices is wrong"):
            planned.check(values | {"WAYS": ways}, claims | {"layers": layers})


def test_devices_hold_and_write_their_heads_of_it(
    joint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "p"
    report = compile(joint, folder, parallel="tp=2", cache=False).report["parallel"]
    assert report["exchanges"] == {"all_reduce": 1}
    assert report["check"].startswith("worst relative error")
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    monkeypatch.setattr(rehearsal, "_START", head + SAVED)
    rehearse(folder, 2)
    again = load_file(folder / "again.safetensors")
    for name, value in load_file(folder / "weights.safetensors").items():
        assert np.array_equal(again[name], value), name


def test_products_of_several_sizes_are_noted_in_no_file(tmp_path: Path) -> None:
    onnx.save(attention(16, SIZES), tmp_path / "m.onnx")
    with pytest.raises(FairhandError, match="pieces of several sizes"):
        parallel_plans(tmp_path / "m.onnx", "tp=2", "cpu", None, tmp_path / "n.onnx")


# Heads of all rows along one axis, as nn.MultiheadAttention has them; a bias of each.
FLAT = """ apart = Constant<value_ints = [0, 0, 4, 2]>()
 flat = Constant<value_ints = [-1, 5, 2]>() one = Constant<value_ints = [-1, 1, 5]>()
 back = Constant<value_ints = [-1, 4, 5, 2]>() all = Constant<value_ints = [0, 0, 8]>()
 q, k, v = Split<axis = 2, num_outputs = 3>(u)
 q1 = Reshape(q, apart) q2 = Transpose<perm = [0, 2, 1, 3]>(q1) q3 = Reshape(q2, flat)
 k1 = Reshape(k, apart) k2 = Transpose<perm = [0, 2, 3, 1]>(k1)
 turned = Constant<value_ints = [-1, 2, 5]>() k3 = Reshape(k2, turned)
 v1 = Reshape(v, apart) v2 = Transpose<perm = [0, 2, 1, 3]>(v1) v3 = Reshape(v2, flat)
 b = Reshape(bias, one) s = MatMul(q3, k3) t = Add(s, b) p = Sigmoid(t)
 c = MatMul(p, v3) d = Reshape(c, back)"""


def test_heads_of_all_rows_are_cut_within_each_row(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["" : 23]> g (float[N, 5, 8] x,'
        " float[N, 4, 1, 5] bias) => (float[N, 5, 8] y)"
        ' { ["/qkv/MatMul"] u = MatMul'
        f"(x, w) {FLAT} e = Transpose<perm = [0, 2, 1, 3]>(d) f = Reshape(e, all)"
        ' ["/out/MatMul"] y = MatMul(f, o) }'
    )
    random = np.random.default_rng(0)
    for name, columns in (("w", 24), ("o", 8)):
        matrix = random.standard_normal((8, columns)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(matrix, name))
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("tp=2")
    assert sorted(values["WAYS"].values()) == [("columns", 3), ("rows", 1)]
    assert any(made == [[0, -4]] for _, made in claims["cuts"].values())
    text = planned.check(values, claims)
    assert "by values" in text and "by their law" not in text
    found = [both for sort in SORTS for both in sort(values, claims)]
    assert len(found) > 30 and not refused(planned, found)
    for wanted in ("tp=2", "tp=4"):
        report = compile(model, tmp_path / wanted, parallel=wanted, cache=False).report
        assert report["parallel"]["exchanges"] == {"all_reduce": 1}


def test_tables_are_cut_where_nothing_else_can_be(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["" : 21]> g (int64[N] a, int64[N] b) =>'
        ' (float[N, 4] y) { ["/user/Gather"] p = Gather(users, a)'
        ' ["/item/Gather"] q = Gather(items, b) y = Mul(p, q) }'
    )
    for name, words in (("users", 12), ("items", 8)):
        matrix = np.random.default_rng(words).random((words, 4), np.float32)
        model.graph.initializer.append(numpy_helper.from_array(matrix, name))
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    values, claims = planned.plan("tp=2")
    assert set(values["WAYS"].values()) == {("vocabulary", 1)}
    assert values["EXCHANGES"] == {"all_reduce": 2}
    assert planned.check(values, claims) and planned.network.degrees == [2, 4]


@pytest.mark.parametrize("kind", ["float", "bfloat16"])
def test_weights_that_are_turned_in_the_graph_are_cut(
    tmp_path: Path, kind: str
) -> None:
    """One that words are looked up in, too; no NumPy could turn bfloat16 in advance."""
    model = onnx.parser.parse_model(
        f'<ir_version: 11, opset_import: ["" : 21]> g (int64[B, S] i) => ({kind}[B, S,'
        ' 64] y) { ["/words/Gather"] x = Gather(words, i) ["/up/Transpose"] s ='
        ' Transpose<perm = [1, 0]>(up) ["/up/MatMul"] p = MatMul(x, s) ["/up/Add"] q ='
        ' Add(p, b) r = Relu(q) ["/down/Transpose"] t = Transpose<perm = [1, 0]>(down)'
        ' ["/down/MatMul"] u = MatMul(r, t) ["/down/Add"] o = Add(u, c) v = Tanh(o)'
        ' ["/head/Transpose"] w = Transpose<perm = [1, 0]>(words) ["/head/MatMul"] z ='
        ' MatMul(v, w) ["/head/Add"] y = Add(z, d) }'
    )
    sizes = {"up": (16, 8), "down": (8, 16), "words": (64, 8), "b": (16,), "c": (8,)}
    dtype = np.float32 if kind == "float" else ml_dtypes.bfloat16
    for name, shape in {**sizes, "d": (64,)}.items():
        data = np.random.default_rng(len(name)).random(shape, np.float32).astype(dtype)
        model.graph.initializer.append(
            onnx_ir.to_proto(onnx_ir.tensor(data, name=name))
        )
    onnx.save(model, tmp_path / "m.onnx")
    planned = Planned(tmp_path / "m.onnx")
    for memory in (None, 600 * np.dtype(dtype).itemsize):
        values, claims = planned.plan("tp=2", memory)
        assert values["WAYS"]["up"] == ("columns", 1)
        assert values["WAYS"]["down"] == ("rows", 1)
        assert ("head" in values["WAYS"]) == (memory is not None)
        assert planned.check(values, claims)
