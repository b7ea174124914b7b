"""parallel.py on processes of this machine, and the plans that are refused."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
import torch
from support.decoders import experts, projected
from support.golden_sequences import cached_decoder
from torch import nn

from fairhand import compile
from fairhand.analysis.errors import FairhandError, VerificationError
from fairhand.analysis.partition.request import Degrees
from fairhand.analysis.partition.search import Sharing
from fairhand.codegen.cli import main
from fairhand.codegen.parallel import rehearse as rehearsal
from fairhand.codegen.parallel.add import time_line
from fairhand.codegen.parallel.plan import Plan
from fairhand.codegen.parallel.rehearse import rehearse
from fairhand.codegen.parallel.write import _listed
from fairhand.codegen.pipeline import parallel_plans
from fairhand.templates.runtime.devices import Links, Stage

TRANSFORMER = Path(__file__).parents[3] / "examples" / "digits_transformer.onnx"


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer on two devices that share its layers; compile() ran them."""
    folder = tmp_path_factory.mktemp("cut") / "digits"
    package = compile(TRANSFORMER, folder, parallel="tp=2", cache=False)
    found = package.report["parallel"]
    assert found["check"].startswith("worst relative error")
    assert found["exchanges"] == {"all_reduce": 4}
    assert max(found["bytes"]) < package.report["weights_bytes"]
    return folder


def test_a_plan_is_data_and_model_py_needs_no_edit(cut: Path, tmp_path: Path) -> None:
    text = (cut / "parallel.py").read_text()
    assert 60 <= text.count("\n") <= 130
    assert '("columns", 1)' in text and '("rows", 1)' in text
    compile(TRANSFORMER, tmp_path / "plain", verify=False)
    plain = (tmp_path / "plain" / "model.py").read_text()
    assert (cut / "model.py").read_text() == plain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('("rows", 1)', '("gathered", 1)'),  # a missing sum
        ('("columns", 1)', '("gathered", 1)'),  # a gather more
        ("HELD = [", "HELD = [1"),
    ],
)
@pytest.mark.slow
def test_a_plan_that_was_changed_is_refused(
    cut: Path, tmp_path: Path, old: str, new: str
) -> None:
    for file in cut.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (tmp_path / "parallel.py").read_text()
    (tmp_path / "parallel.py").write_text(text.replace(old, new))
    with pytest.raises(VerificationError, match="doesn't run as planned"):
        rehearse(tmp_path, 2)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("tp=7", "its layers can't be cut into 7; tp may be 2, 4"),
        ("pp=99", "pp may be up to"),
        ("pp=2,tp=3+1", "its layers can't be cut into 3; tp may be 2, 4"),
        ("pp=2,tp=2+1+1", "is of 3 stages, and pp=2"),
        ("tp=x", "is no degree"),
        ("", "is no degree"),
        ("tp=2,tp=2", "tp is given twice"),
    ],
)
def test_wrong_degrees_are_refused_with_those_that_are_possible(
    tmp_path: Path, wanted: str, said: str
) -> None:
    with pytest.raises(FairhandError, match=said):
        compile(TRANSFORMER, tmp_path / "p", parallel=wanted, verify=False)
    assert not (tmp_path / "p").exists()


def test_layers_that_run_twice_are_named(tmp_path: Path) -> None:
    numbers = ", ".join(str(i % 5 - 2) for i in range(64))
    others = ", ".join(str(i % 7 - 3) for i in range(64))
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[N, 8] x) => (float[N, 8] z)'
        f"{{ a = Constant<value = float[8, 8] {{{numbers}}}>()"
        f" b = Constant<value = float[8, 8] {{{others}}}>()"
        ' ["/up/MatMul"] u = MatMul(x, a) t = Tanh(u) ["/down/MatMul"] y = MatMul(t, b)'
        ' ["/up/MatMul_1"] v = MatMul(y, a) s = Tanh(v)'
        ' ["/down/MatMul_1"] w = MatMul(s, b) z = Tanh(w) }'
    )
    with pytest.raises(FairhandError, match="run more than once or share a matrix"):
        compile(model, tmp_path / "p", parallel="tp=2", verify=False)


def _matrix(name: str, seed: int) -> str:
    numbers = ", ".join(str((seed * i % 11 - 5) / 8) for i in range(64))
    return f"{name} = Constant<value = float[8, 8] {{{numbers}}}>()"


def _model(given: str, made: str, lines: list[str]) -> onnx.ModelProto:
    header = '<ir_version: 10, opset_import: ["" : 21]>'
    text = " ".join(lines)
    return onnx.parser.parse_model(f"{header} g ({given}) => ({made}) {{ {text} }}")


def test_a_group_of_modules_that_runs_again_is_one_of_a_stage(tmp_path: Path) -> None:
    lines, x = [_matrix(name, 7 + i) for i, name in enumerate("abcd")], "x"
    for end in ("", "_1"):
        for part, (a, b) in {"att": "ab", "ffn": "cd"}.items():
            at, k = f"/group/{part}", f"{part}{end}"
            lines += [
                f'["{at}/up/MatMul{end}"] u{k} = MatMul({x}, {a})',
                f'["{at}/Tanh{end}"] r{k} = Tanh(u{k})',
                f'["{at}/down/MatMul{end}"] d{k} = MatMul(r{k}, {b})',
                f'["{at}/Add{end}"] s{k} = Add(d{k}, {x})',
            ]
            x = f"s{k}"
    lines += [_matrix("e", 5), f'["/head/MatMul"] y = MatMul({x}, e)']
    model = _model("float[N, 8] x", "float[N, 8] y", lines)
    with pytest.raises(FairhandError, match="places where a stage may begin"):
        compile(model, tmp_path / "p", parallel="pp=2", verify=False)


def test_a_mask_that_asks_a_value_for_its_type_crosses_no_stage(tmp_path: Path) -> None:
    lines = [
        _matrix("table", 3),
        "no = Constant<value = int64 {0}>() at = Constant<value_ints = [-1]>()",
        "zero = Constant<value = float {0.0}>()",
        "least = Constant<value = float {-3.4028234663852886e38}>()",
        '["/table/Gather"] s0 = Gather(table, ids) q = Equal(ids, no)',
        "w = Where(q, zero, least) m = Unsqueeze(w, at)",
    ]
    for i in range(3):
        path = f"/blocks/blocks.{i}"
        lines += [
            _matrix(f"a{i}", 5 + i),
            f'["{path}/up/MatMul"] u{i} = MatMul(s{i}, a{i})',
            f'["{path}/Add"] p{i} = Add(u{i}, m)',
            f'["{path}/Softmax"] r{i} = Softmax(p{i})',
            f'["{path}/Add_1"] s{i + 1} = Add(r{i}, s{i})',
        ]
    model = _model("int64[N, 4] ids", "float[N, 4, 8] y", [*lines, "y = Relu(s3)"])
    package = compile(model, tmp_path / "p", parallel="pp=3", verify=False)
    found = package.report["parallel"]["certificate"]
    assert [list(given.values()) for given in found["crossing"]] == [["s1"], ["s2"]]


def test_a_table_that_two_stages_share_is_in_both() -> None:
    model = nn.Module()
    model.left = model.right = nn.Embedding(4, 2)
    model.last = nn.Linear(2, 2)
    Stage(model, 0, [["left"], ["last", "right"]], [[0]], [[], ["y"]], ["y"])
    assert model.left(torch.tensor([1])).any()


def test_a_layer_of_blocks_of_two_stages_is_in_both() -> None:
    """As the transformer that Zamba 2's hybrid layers share."""
    model = nn.Module()
    shared = nn.Linear(2, 2)
    model.left, model.between = nn.Sequential(shared), nn.Linear(2, 2, device="meta")
    model.right = nn.Sequential(shared, nn.Linear(2, 3, device="meta"))
    stages = [["left"], ["between"], ["right"]]
    Stage(model, 0, stages, [[0], [0]], [[], [], ["y"]], ["y"])
    x = torch.ones(1, 2)
    assert model.right(x).equal(torch.zeros(1, 3)) and model.left(x).equal(shared(x))


def test_what_crosses_over_has_its_order_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums over rows that lie side by side have other last bits: a Qwen 3 ViT's had."""
    links, x = object.__new__(Links), torch.randn(2, 4, 3).transpose(1, 2)
    links.own, links.before, links.place = [0], [0], 0
    raw = x.contiguous().flatten().view(torch.uint8)
    monkeypatch.setattr(torch.distributed, "recv", lambda part, rank: part.copy_(raw))
    found = links.take(torch.zeros_like(x))
    assert found.equal(x) and found.stride() == x.stride()


@pytest.mark.slow
def test_exchanges_are_counted_where_a_layer_runs_twice(tmp_path: Path) -> None:
    matrices = "".join(
        f"{x} = Constant<value = float[8, 8] {{{', '.join(map(str, numbers))}}}>()"
        for x in "abc"
        for numbers in [[(i * ord(x)) % 7 - 3 for i in range(64)]]
    )
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[N, 8] x) => (float[N, 8] y)'
        f'{{ {matrices} ["/twice/MatMul"] p = MatMul(x, a) q = Tanh(p)'
        ' ["/twice/MatMul_1"] r = MatMul(q, a) s = Tanh(r)'
        ' ["/up/MatMul"] t = MatMul(s, b) u = Relu(t) ["/down/MatMul"] y = MatMul(u, c)'
        " }"
    )
    package = compile(model, tmp_path / "p", parallel="tp=2", cache=False)
    assert package.report["parallel"]["exchanges"] == {"all_reduce": 1}


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["tp=2", "tp=4"])
def test_devices_have_experts_of_their_own(tmp_path: Path, wanted: str) -> None:
    package = compile(experts(), tmp_path / "p", parallel=wanted, cache=False)
    found = package.report["parallel"]
    assert found["exchanges"] == {"all_reduce": 1}
    assert set(found["layers"].values()) == {"whole", "along"}


# The first of 1,024 devices that aren't there: exchanges give what they are given.
PRETENDED = """
import os, sys, torch
sys.path.insert(0, sys.argv[1])
from torch.testing._internal.distributed.fake_pg import FakeStore
os.environ["WORLD_SIZE"] = "1024"
torch.distributed.init_process_group("fake", rank=0, world_size=1024, store=FakeStore())
from digits import devices, model, parallel
network, sizes = parallel.load(parallel.make_mesh()), {"sizes": [{}], "inputs": {}}
feeds = devices.make_inputs(model.INPUTS, sizes, dict.fromkeys(parallel.SIZES, 2))
with torch.no_grad(), devices.Collectives() as found:
    network(*feeds)
assert found.counts == parallel.EXCHANGES, found.counts
assert devices.held_bytes(network) == parallel.HELD[0]
"""


def test_values_are_cut_alone_where_a_norm_is_over_all_heads(tmp_path: Path) -> None:
    """As OLMo 2 norms queries and keys: DTensor took minutes for such attention."""
    lines = [_matrix(name, i) for i, name in enumerate("qkvo", 1)]
    lines += ["ones = Constant<value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}>()"]
    lines += ["apart = Constant<value_ints = [0, 0, 2, 4]>()"]
    lines += ["flat = Constant<value_ints = [0, 0, 8]>()"]
    for x, normed in (("q", True), ("k", True), ("v", False)):
        layer = f"LayerNormalization({x}0, ones)" if normed else f"Identity({x}0)"
        lines += [f"{x}0 = MatMul(x, {x}) {x}1 = {layer} {x}2 = Reshape({x}1, apart)"]
        perm = [0, 2, 3, 1] if x == "k" else [0, 2, 1, 3]
        lines += [f"{x}3 = Transpose<perm = {perm}>({x}2)"]
    lines += ["s = MatMul(q3, k3) p = Softmax<axis = -1>(s) a = MatMul(p, v3)"]
    lines += ["b = Transpose<perm = [0, 2, 1, 3]>(a) c = Reshape(b, flat)"]
    model = _model("float[N, 5, 8] x", "float[N, 5, 8] y", [*lines, "y = MatMul(c, o)"])
    report = compile(model, tmp_path / "p", parallel="tp=2", cache=False).report
    assert report["parallel"]["check"].startswith("worst relative error")
    assert "scaled_dot_product" in (tmp_path / "p/model.py").read_text("utf-8")
    assert "'all_reduce': 1.0" in report["parallel"]["check"]


@pytest.mark.slow
def test_plans_of_a_thousand_devices_are_tried_in_one_process(tmp_path: Path) -> None:
    given = {"parallel": "dp=256,tp=4", "verify": False}
    compile(TRANSFORMER, tmp_path / "digits", **given)
    command = [sys.executable, "-c", PRETENDED, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not run.returncode, run.stderr


def test_plans_are_shown_and_nothing_is_written(capsys: pytest.CaptureFixture) -> None:
    assert main(["inspect", str(TRANSFORMER), "--parallel", "4"]) == 0
    assert main(["inspect", str(TRANSFORMER), "--parallel", ""]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Plan    ") and "Price    " in text and "Next     " in text
    assert "for each of" in text.partition("Price")[2]  # rows of a batch at once
    assert main(["inspect", str(TRANSFORMER), "--parallel", "tp=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["degrees"] == {"tp": 2}


def test_weights_are_not_read_for_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*given: object) -> str:
        raise AssertionError("all weights were read")

    monkeypatch.setattr("fairhand.codegen.load.read_model._digest", read)
    text, _ = parallel_plans(TRANSFORMER, "tp=2", "cpu", None)
    assert text.startswith("Plan    tp=2")


@pytest.mark.slow
def test_a_mesh_of_another_size_is_one_error(cut: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import digits.parallel as p;"
    run = subprocess.run(
        [sys.executable, "-c", code + "p.make_mesh()", str(cut.parent)],
        capture_output=True,
        text=True,
    )
    assert (
        "ValueError: the plan is for 2 devices, {'tp': 2}, and not for 1" in run.stderr
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "wanted", ["pp=2", "dp=2", "dp=2,tp=2", "pp=2,tp=2", "pp=2,tp=2+1", "tp=1+4", "4"]
)
def test_other_meshes_run_too(tmp_path: Path, wanted: str) -> None:
    report = compile(TRANSFORMER, tmp_path / "p", parallel=wanted, cache=False).report
    assert report["parallel"]["check"].startswith("worst relative error")
    same = "0.0e+00 of the same parts of a batch" in report["parallel"]["check"]
    assert same == (wanted == "pp=2")
    if wanted.startswith("pp"):  # each byte once: 8 rows of 6 places, 32 numbers each
        assert "'bytes sent': 24576" in report["parallel"]["check"]


# Two steps on all devices beside two on one; a checkpoint of torch's, read into another
# network, which writes the one file; that file on one device again.
TRAIN = """
from pathlib import Path
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from network import devices, model, parallel
mesh, here = parallel.make_mesh(), Path(sys.argv[1])
report = {"sizes": [{}], "inputs": {}}
feeds = list(devices.make_inputs(model.INPUTS, report, parallel.SIZES))
def sharded():
    network = parallel.load(mesh)
    if "dp" in parallel.MESH:
        network = parallel.fully_sharded(network, mesh)
    return network.requires_grad_(True)
def train(network, feeds):
    steps = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(2):
        steps.zero_grad()
        network(*feeds).square().mean().backward()
        steps.step()
whole, network, own = model.load().requires_grad_(True), sharded(), feeds
train(whole, feeds)
if "dp" in parallel.MESH:
    rank, count = mesh["dp"].get_local_rank(), mesh["dp"].size()
    own = [x.chunk(count)[rank].contiguous() for x in feeds]
train(network, own)
dcp.save({"model": network.state_dict()}, checkpoint_id=here / "checkpoint")
again = sharded()
state = {"model": again.state_dict()}
dcp.load(state, checkpoint_id=here / "checkpoint")
again.load_state_dict(state["model"])
parallel.save(again, here / "trained.safetensors")
back = model.load(here / "trained.safetensors").state_dict()
untrained = model.load().state_dict()
trained = whole.state_dict()
worst = max(float((back[k] - trained[k]).abs().max()) for k in trained)
moved = max(float((back[k] - untrained[k]).abs().max()) for k in trained)
if not worst < 1e-5 < moved:
    raise ValueError(f"{worst} from the single device, {moved} from the start")
devices.report_check(f"worst {worst}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["tp=2", "dp=2", "dp=2,tp=2"])
def test_training_is_the_single_devices_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    folder = tmp_path / "p"
    compile(TRANSFORMER, folder, parallel=wanted, verify=False)
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    monkeypatch.setattr(rehearsal, "_START", head + TRAIN)
    assert rehearse(folder, 4 if "," in wanted else 2).startswith("worst")


@pytest.mark.slow
def test_a_device_that_dies_ends_the_others(
    cut: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    code = "import os\nif os.environ['RANK'] == '1': raise SystemExit('lost')\n"
    run = "importlib.import_module('network.parallel').check()\n"
    monkeypatch.setattr(rehearsal, "_START", head + code + run)
    begin = time.monotonic()
    with pytest.raises(VerificationError, match="lost"):
        rehearse(cut, 2)
    assert time.monotonic() - begin < 120


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        (
            "import os; print('what(): no memory', flush=True); os.abort()",
            r"ended by signal 6: what\(\): no memory",
        ),
        ("import time; time.sleep(60)", "no answer in 2 s"),
    ],
)
def test_a_machine_that_is_too_small_is_no_fault_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setattr(rehearsal, "_START", code)
    monkeypatch.setattr(rehearsal, "SECONDS", 2)
    with pytest.raises(VerificationError, match=said) as error:
        rehearse(tmp_path, 2)
    assert "--no-verify" in str(error.value)


def test_a_device_that_has_ended_its_check_may_not_fail_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's threads abort now and then while Python ends."""
    code = "import atexit, os; atexit.register(os.abort); print('worst none')"
    monkeypatch.setattr(rehearsal, "_START", code)
    assert rehearse(tmp_path, 2) == "worst none"


STAGES = """
from pathlib import Path
from network import devices, model, parallel
mesh, here = parallel.make_mesh(), Path(sys.argv[1])
index = here / "model.safetensors.index.json"
parallel.save(parallel.load(mesh), index)
one, other = (parallel.load(mesh, x).state_dict() for x in (index, model.WEIGHTS))
same = [a.is_meta or a.equal(other[k]) for k, a in one.items()]
if not all(same) or one.keys() != other.keys():
    raise ValueError("other weights")
devices.report_check("worst none")
"""


@pytest.mark.slow
def test_stages_write_files_with_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile(TRANSFORMER, tmp_path / "p", parallel="pp=2", verify=False)
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    monkeypatch.setattr(rehearsal, "_START", head + STAGES)
    assert rehearse(tmp_path / "p", 2) == "worst none"
    assert len(list((tmp_path / "p").glob("model-0000?.safetensors"))) == 2


# Three steps of a decoder whose devices have the caches of their own heads.
STEPS = """
import torch
from network import devices, model, parallel
mesh = parallel.make_mesh()
network, whole = parallel.load(mesh), model.load()
own, every = [torch.zeros(2, 1, 0, 4)] * 2, [torch.zeros(2, 2, 0, 4)] * 2
torch.manual_seed(0)
for i in range(3):
    ids, mask = torch.randint(23, (2, 1)), torch.ones(2, i + 1, dtype=torch.int64)
    logits, *own = network(ids, mask, torch.full((2, 1), i), *own)
    expected, *every = whole(ids, mask, torch.full((2, 1), i), *every)
    parts = [x.chunk(2, 1)[mesh["tp"].get_local_rank()] for x in every]
    for a, b in zip((logits, *own), (expected, *parts), strict=True):
        torch.testing.assert_close(a, b)
devices.report_check("worst none")
"""


@pytest.mark.slow
def test_each_device_keeps_the_caches_of_its_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile(projected(), tmp_path / "p", parallel="tp=2", cache=False)
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    monkeypatch.setattr(rehearsal, "_START", head + STEPS)
    assert rehearse(tmp_path / "p", 2) == "worst none"


# Three steps of a pipeline whose devices have the caches of their own layers alone.
PASSED = """
import torch
from torch.utils._pytree import tree_leaves
from network import devices, model, parallel
mesh = parallel.make_mesh()
network, whole = parallel.load(mesh), model.load()
run = parallel.pipeline(network, mesh, 1)
every = own = [(torch.zeros(2, 2, 0, 4), torch.zeros(2, 2, 0, 4)) for i in range(3)]
torch.manual_seed(0)
seen = 0
for i in range(3):
    x = torch.randn(2, 1, 8)
    states, own = run.step(x0=x, x1=own)
    expected, every = whole(x, every)
    pairs = zip(tree_leaves((states, own)), tree_leaves((expected, every)))
    here = [(a, b) for a, b in pairs if a.device.type != "meta"]
    if not here or not all(torch.equal(*pair) for pair in here):
        raise ValueError(f"step {i}: other results")
    seen += len(here)
if seen != 3 * len(sum(parallel.RESULTS[network.number : network.number + 1], [])):
    raise ValueError(f"{seen} results")
devices.report_check("worst none")
"""


@pytest.mark.slow
def test_each_stage_keeps_the_caches_of_its_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile(cached_decoder(), tmp_path / "p", parallel="pp=3", cache=False)
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    monkeypatch.setattr(rehearsal, "_START", head + PASSED)
    assert rehearse(tmp_path / "p", 3) == "worst none"


GENERATED = """
from network import devices, generate, model, parallel
mesh = parallel.make_mesh()
network, whole = parallel.load(mesh), model.load()
if parallel.STAGES:
    network = parallel.pipeline(network, mesh, 1)
found = [
    generate.generate(one, [[3, 1, 4], [1, 5]], 70, temperature=1.0, seed=2)
    for one in (network, whole)
]
if found[0] != found[1] or "tp" in parallel.MESH and not parallel.PARTS:
    raise ValueError(f"{found[0]} on devices, {found[1]} alone")
devices.report_check("worst none")
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["masked", "by length"])
def test_devices_generate_the_tokens_of_one(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = compile(projected(form), tmp_path / "p", parallel="tp=2", cache=False)
    room = {"masked": "before", "by length": ""}  # in one process "counted"
    assert package.report["generation"]["room"] == room[form]
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    monkeypatch.setattr(rehearsal, "_START", head + GENERATED)
    assert rehearse(tmp_path / "p", 2) == "worst none"


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["pp=2", "pp=2,tp=2+1"])
def test_stages_generate_the_tokens_of_one_device(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = TRANSFORMER.with_name("characters.onnx")
    compile(path, tmp_path / "p", parallel=wanted, cache=False)
    head = rehearsal._START.rpartition("importlib.import_module")[0]
    monkeypatch.setattr(rehearsal, "_START", head + GENERATED)
    assert rehearse(tmp_path / "p", 3 if "+" in wanted else 2) == "worst none"


@pytest.mark.parametrize("wanted", ["tp=2", "pp=2", "dp=2,tp=2", "pp=2,tp=2"])
def test_a_plan_comes_back_from_onnx_annotations(wanted: str, tmp_path: Path) -> None:
    path = tmp_path / "annotated.onnx"
    _, found = parallel_plans(TRANSFORMER, wanted, "cpu", None, path)
    onnx.checker.check_model(path)
    _, again = parallel_plans(path, "annotated", "cpu", None)
    assert again[0] == found[0]
    with pytest.raises(FairhandError, match="the file has no plan"):
        parallel_plans(TRANSFORMER, "annotated", "cpu", None)


def test_annotations_that_can_not_be_carried_out_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "annotated.onnx"
    parallel_plans(TRANSFORMER, "tp=2", "cpu", None, path)
    model = onnx.load(path)
    placed = [node for node in model.graph.node if node.device_configurations]
    spec = placed[0].device_configurations[0].sharding_spec[0]
    spec.sharded_dim[0].simple_sharding[-1].num_shards = 4
    onnx.save(model, path)
    with pytest.raises(FairhandError, match=r"cuts into \[2, 4\] at once"):
        parallel_plans(path, "annotated", "cpu", None)
    for node in placed[:2]:  # a product and its bias, of three that go together
        node.ClearField("device_configurations")
    onnx.save(model, path)
    with pytest.raises(FairhandError, match="can't be cut so, and no others"):
        parallel_plans(path, "annotated", "cpu", None)
    placed[2].device_configurations[0].sharding_spec[0].sharded_dim[0].axis = 7
    onnx.save(model, path)
    with pytest.raises(FairhandError, match="can't be cut along axis 7"):
        parallel_plans(path, "annotated", "cpu", None)


def test_a_plan_is_drawn(tmp_path: Path) -> None:
    path, file = tmp_path / "page.html", str(TRANSFORMER)
    given = ["--parallel", "pp=2,tp=2", "--html", str(path), "--json"]
    assert main(["inspect", file, *given]) == 0
    page = path.read_text(encoding="utf-8")
    assert page.count("<rect") == page.count("<title>stage") == 2 + 2 * 4
    assert page.count("stage 1, 2 devices: ") == 1


def test_the_time_line_ends_when_all_parts_are_done() -> None:
    times, parts = (1.0, 3.0, 2.0), 5
    sharing = Sharing(1, 0.0, 0.0, {}, ())
    plan = Plan(Degrees(pp=3), sharing, (1, 2), (8, 8, 8), 0.0, parts, times)
    line = time_line(plan)
    assert line[-1] == (2, 4, sum(times[:2]) + (parts - 1) * max(times))
    assert [begin for stage, _, begin in line if stage == 1] == [1, 4, 7, 10, 13]


def test_names_of_results_are_text() -> None:
    """A file may call them anything: only plain names are counted in an f-string."""
    for odd in ('a"', "a{", "a\\", "a'"):
        names = [f"{odd}{i}" for i in range(4)]
        assert ast.literal_eval(f"[{', '.join(_listed(names))}]") == names
    assert _listed(["p.1.k", "p.2.k", "p.3.k"]) == [
        '*(f"p.{i}.k" for i in range(1, 4))'
    ]
