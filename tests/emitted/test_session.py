"""The emitted Session and ONNX Runtime take and refuse the same feeds, side by side."""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
import torch

from fairhand.codegen.emit import runtime_files
from fairhand.codegen.emit.runtime_files import copied_whole
from fairhand.codegen.emit.session_file import session_text
from fairhand.codegen.ir.engine_plan import EnginePlan
from fairhand.codegen.ir.package_plan import InterfacePlan, PackagePlan, TensorPlan
from fairhand.codegen.write_beside import init_text

MODEL = """
<ir_version: 9, opset_import: ["" : 18], producer_name: "hand", domain: "ai.test",
 model_version: 7, doc_string: "a test">
tiny (float[n, 3] x, int64[m] ids, float s, float[n, 2] free)
    => (float[n, 3] y, float[3] table, float[n, 3] same, int64[m] next)
<float[3] w = {1.0, 2.0, 3.0}, int64[1] one = {1}> {
    xs = Mul(x, s)
    y = Add(xs, w)
    table = Identity(w)
    same = Identity(x)
    next = Add(ids, one)
    gone = Relu(free)
}
"""
META = {
    "producer_name": "hand",
    "graph_name": "tiny",
    "domain": "ai.test",
    "description": "a test",
    "graph_description": "",
    "version": 7,
    "custom_metadata_map": {"author": "nobody"},
}
NET = """
from pathlib import Path
import torch
from torch import nn

WEIGHTS = Path(__file__).with_name("weights.safetensors")
INPUTS = {
    "x": ("float32", ("n", 3)),
    "ids": ("int64", ("m",)),
    "s": ("float32", ()),
    "free": ("float32", ("n", 2)),
}
OUTPUTS = {
    "y": ("float32", ("n", 3)),
    "table": ("float32", (3,)),
    "same": ("float32", ("n", 3)),
    "next": ("int64", ("m",)),
}

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x, ids, s, free):
        return x * s + self.w, self.w, x, ids + 1

def load(weights=WEIGHTS, device="cpu"):
    return Tiny().to(device)

Model = Tiny
"""
ECHO = """
import torch
WEIGHTS = None
INPUTS = {{"i": ({dtype!r}, {shape!r})}}
OUTPUTS = {{"o": ({dtype!r}, {shape!r})}}

def load(weights=WEIGHTS, device="cpu"):
    return lambda i: i

Model = torch.nn.Identity
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
FEED: dict[str, Any] = {
    "x": X,
    "ids": np.array([4, 5]),
    "s": np.array(2, np.float32),
    "free": np.ones((2, 2), np.float32),
}


TYPES = {
    "bits": "bfloat16",
    "narrow": "int4",
    "strings": "object",
    "lists": "seq(object)",
    "maps": "map(string,tensor(float))",
    "optional": "optional(seq(int2))",
}


def emitted_session(
    takes: Iterable[str] = ("float32",),
    gives: Iterable[str] = ("float32",),
    nested: tuple[str, ...] = (),
    kernels: tuple[str, ...] = (),
    **engine: Any,
) -> str:
    """session.py for inputs and outputs of these types; with the eager engine alone
    unless `engine` says otherwise."""
    inputs, outputs = (
        tuple(TensorPlan(f"{side}{i}", t, None) for i, t in enumerate(types))
        for side, types in (("x", takes), ("y", gives))
    )
    interface = InterfacePlan(inputs, outputs, (), (), nested, ())
    plan = SimpleNamespace(interface=interface, kernels=kernels)
    plain = {"name": "eager", "refused": "a test", "channels_last": False}
    return session_text(cast(PackagePlan, plan), EnginePlan(**plain | engine))


def write_package(
    folder: Path, net: str, dtype: str = "float32", **engine: Any
) -> ModuleType:
    """An emitted package around a network written by hand, imported."""
    folder.mkdir()
    (folder / "model.py").write_text(net)
    (folder / "session.py").write_text(emitted_session([dtype], [dtype], **engine))
    (folder / "ort_interface.py").write_text(copied_whole("ort_interface.py"))
    (folder / "test_parity.py").write_text(copied_whole("session/test_parity.py"))
    (folder / "__init__.py").write_text(init_text("Tiny, a test", "Model"))
    (folder / "report.json").write_text(json.dumps({"meta": META}))
    name = f"emitted_{abs(hash(str(folder)))}"
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_package(tmp_path_factory.mktemp("s") / "tiny", NET).Session()


@pytest.fixture(scope="module")
def reference() -> ort.InferenceSession:
    model = onnx.parser.parse_model(MODEL)
    model.metadata_props.add(key="author", value="nobody")
    return open_reference(model)


def open_reference(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options)


def outcome(run: Callable[..., list[np.ndarray]], *arguments: Any) -> Any:
    """What a run returns, as plain numbers; or the error."""
    try:
        return [(a.dtype.name, a.shape, a.tolist()) for a in run(*arguments)]
    except Exception as error:
        return error


READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False
ACCEPTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "all outputs": (None, {}),
    "no names": ([], {}),
    "one output": (["next"], {}),
    "another order": (("next", "y"), {}),
    "one output twice": (["y", "y"], {}),
    "list": (None, {"x": X.tolist()}),
    "list of arrays": (None, {"x": list(X)}),
    "list of integers": (None, {"x": [[1, 2, 3]]}),
    "floats for int64": (None, {"ids": [1.5, 2.0]}),
    "transposed": (None, {"x": np.ones((3, 2), np.float32).T}),
    "every other row": (None, {"x": np.repeat(X, 2, axis=0)[::2]}),
    "backwards": (None, {"x": X[::-1, ::-1]}),
    "read-only": (None, {"x": READ_ONLY}),
    "masked array": (None, {"x": np.ma.array(X)}),
    "empty batch": (None, {"x": X[:0], "free": np.ones((0, 2), np.float32)}),
    "one name, two sizes": (None, {"free": np.ones((5, 2), np.float32)}),
    "rank for a scalar": (None, {"s": np.array([2], np.float32)}),
    "long long": (None, {"ids": np.array([1], np.longlong)}),
}
REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "a missing input": (None, {"x": ...}, ValueError, r"\['x'\] are missing"),
    "an unknown input": (None, {"q": X}, ValueError, r"no inputs \['q'\]"),
    "an unknown output": (["z"], {}, ValueError, r"no outputs"),
    "an empty name": ([""], {}, ValueError, "no outputs"),
    "a bare name": ("y", {}, TypeError, "output_names must be a list, got .y."),
    "float64": (None, {"x": X.astype("f8")}, TypeError, "'x' must be float32, got flo"),
    "int32": (
        None,
        {"ids": np.ones(2, "i4")},
        TypeError,
        "'ids' must be int64, got int",
    ),
    "bool": (None, {"ids": np.ones(2, "?")}, TypeError, "must be int64, got bool"),
    "words": (None, {"x": np.array([["a"] * 3])}, TypeError, "'x' must be float32"),
    "low rank": (None, {"x": X[0]}, ValueError, r"'x' .* shape \['n', 3\], got \[3\]"),
    "high rank": (None, {"x": X[None]}, ValueError, r"\['n', 3\], got \[1, 2, 3\]"),
    "fixed size": (None, {"x": X[:, :2]}, ValueError, r"\['n', 3\], got \[2, 2\]"),
    "an empty list": (None, {"x": []}, ValueError, "'x' must have shape"),
    "a ragged list": (None, {"x": [[1], [1, 2]]}, ValueError, "inhomogeneous"),
    "a list of words": (
        None,
        {"x": [["a", "b", "c"]]},
        ValueError,
        "could not convert",
    ),
    "a tuple": (None, {"x": ((1.0, 2.0, 3.0),)}, TypeError, "array, got tuple"),
    "a number": (None, {"s": 2.0}, TypeError, "'s' must be an array, got float"),
    "a NumPy scalar": (None, {"s": np.float32(2)}, TypeError, "array, got float32"),
    "a tensor": (None, {"x": torch.ones(2, 3)}, TypeError, "array, got Tensor"),
    "None": (None, {"x": None}, TypeError, "array, got NoneType"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepts_what_onnxruntime_accepts(
    case: str, session: Any, reference: Any
) -> None:
    names, changes = ACCEPTED[case]
    wanted = outcome(reference.run, names, FEED | changes)
    assert not isinstance(wanted, Exception), wanted
    assert outcome(session.run, names, FEED | changes) == wanted


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_what_onnxruntime_refuses(
    case: str, session: Any, reference: Any
) -> None:
    names, changes, error, text = REFUSED[case]
    feed = {name: a for name, a in (FEED | changes).items() if a is not ...}
    assert isinstance(outcome(reference.run, names, feed), Exception)
    with pytest.raises(error, match=text):
        session.run(names, feed)


def test_a_missing_input_is_the_same_error(session: Any, reference: Any) -> None:
    assert type(outcome(reference.run, None, {})) is ValueError
    assert type(outcome(session.run, None, {})) is ValueError


def test_run_takes_the_arguments_of_onnxruntime(session: Any, reference: Any) -> None:
    for one in (session, reference):
        arguments = {"output_names": ["y"], "input_feed": FEED}
        one.run(**arguments, run_options=ort.RunOptions())
        one.run(None, FEED, None)


def test_describes_itself_as_onnxruntime_does(session: Any, reference: Any) -> None:
    for mine, theirs in (
        (session.get_inputs(), reference.get_inputs()),
        (session.get_outputs(), reference.get_outputs()),
    ):
        assert [str(arg) for arg in mine] == [str(arg) for arg in theirs]
        assert [(a.name, a.type, a.shape) for a in mine] == [
            (a.name, a.type, a.shape) for a in theirs
        ]
    mine, theirs = session.get_modelmeta(), reference.get_modelmeta()
    for name in META:
        assert getattr(mine, name) == getattr(theirs, name), name
    assert session.get_providers() == reference.get_providers()[-1:]


def test_big_endian_arrays_are_read_by_value(session: Any) -> None:
    # ONNX Runtime takes them too, but reads their bytes in the wrong order.
    swapped = FEED | {"x": X.astype(">f4"), "ids": FEED["ids"].astype(">i8")}
    assert outcome(session.run, None, swapped) == outcome(session.run, None, FEED)


def test_results_share_no_memory(session: Any) -> None:
    x = X.copy()
    feed = FEED | {"x": x}
    before = outcome(session.run, None, feed)
    outputs = session.run(None, feed)
    for output in outputs:
        assert (
            output.flags.owndata
            and output.flags.writeable
            and output.flags.c_contiguous
        )
        output[...] = 99
    assert x.tolist() == X.tolist()
    assert outcome(session.run, None, feed) == before


MADE = """
import torch
WEIGHTS = None
INPUTS = {{"x": ("float32", (2, 3))}}
OUTPUTS = {{name: ("float32", None) for name in {names!r}}}

def load(weights=WEIGHTS, device="cpu"):
    def network(x):
        y = x + 1
        return y, (x + 2).T, *torch.cat([x, x]).split(2), y
    return network

Model = torch.nn.Identity
"""


def test_memory_of_its_own_is_a_result_and_not_copied(tmp_path: Path) -> None:
    net = MADE.format(names=["y", "turned", "first", "second", "again"])
    module = write_package(tmp_path / "made", net, makes=True, caches=True)
    session, x = module.Session(), np.zeros((2, 3), np.float32)
    results = session.run(["first", "second", "y", "again", "turned"], {"x": x})
    for array in results:
        assert array.flags.writeable and array.flags.c_contiguous
        assert not any(
            np.shares_memory(array, other)
            for other in (x, *results)
            if other is not array
        )
    (alone,) = session.run(["y"], {"x": x})
    assert not alone.flags.owndata and alone.tolist() == (x + 1).tolist()


@pytest.mark.parametrize("case", ["plain", "read-only", "backwards", "big-endian"])
def test_what_is_only_read_may_be_any_array(tmp_path: Path, case: str) -> None:
    net = ECHO.format(dtype="float32", shape=(2, 3))
    net = net.replace("lambda i: i", "lambda i: torch.relu(i)")
    session = write_package(tmp_path / "read", net, makes=True, caches=True).Session()
    feeds = {"plain": X, "read-only": READ_ONLY, "backwards": X[::-1, ::-1]}
    array = (feeds | {"big-endian": X.astype(">f4")})[case]
    (got,) = session.run(None, {"i": array})
    assert got.tolist() == array.tolist() and not np.shares_memory(got, array)


def test_dtypes_pass_unchanged(tmp_path: Path) -> None:
    kinds = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
    )
    for dtype in [*kinds.split(), "complex64", "complex128"]:
        net = ECHO.format(dtype=dtype, shape=(2, None))
        session = write_package(tmp_path / dtype, net).Session()
        array = np.array([[0, 1], [1, 3]]).astype(dtype)
        (got,) = session.run(None, {"i": array})
        assert got.dtype == array.dtype and got.tolist() == array.tolist()
        if not dtype.startswith("complex"):  # which ONNX Runtime can't hold
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            (theirs,) = echo_reference(kind, [2, None]).get_inputs()
            assert str(session.get_inputs()[0]) == str(theirs)


def echo_reference(kind: int, shape: list[int | None] | None) -> ort.InferenceSession:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["i"], ["o"])],
        "echo",
        [onnx.helper.make_tensor_value_info("i", kind, shape)],
        [onnx.helper.make_tensor_value_info("o", kind, shape)],
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    return open_reference(
        onnx.helper.make_model(graph, ir_version=9, opset_imports=opsets)
    )


def test_narrow_floats_go_in_by_value_and_come_out_as_bits(tmp_path: Path) -> None:
    for dtype, bits in (("bfloat16", "uint16"), ("float8_e4m3fn", "uint8")):
        net = ECHO.format(dtype=dtype, shape=(2,))
        session = write_package(tmp_path / dtype, net, dtype).Session()
        array = np.array([1.0, -2.0]).astype(getattr(ml_dtypes, dtype))
        (got,) = session.run(None, {"i": array})
        assert got.tolist() == array.view(bits).tolist()
        assert session.get_inputs()[0].type == f"tensor({dtype.replace('_', '')})"


def test_unknown_rank_takes_any(tmp_path: Path) -> None:
    net = ECHO.format(dtype="float32", shape=None)
    session = write_package(tmp_path / "any", net).Session()
    reference = echo_reference(onnx.TensorProto.FLOAT, None)
    for array in (X, X[0], np.array(1, np.float32)):
        feed = {"i": array}
        assert outcome(session.run, None, feed) == outcome(reference.run, None, feed)
    assert str(session.get_inputs()[0]) == str(reference.get_inputs()[0])


@pytest.fixture
def unformatted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which names a file reads doesn't depend on black, which takes the most time."""
    monkeypatch.setattr(runtime_files, "formatted", lambda text, template: text)


def test_a_session_needs_few_lines() -> None:
    assert len(emitted_session().splitlines()) <= 165


def test_a_session_knows_what_it_needs_and_no_more(unformatted: None) -> None:
    plain = emitted_session()
    words = ("NARROW", "NESTED", "FROM_ARRAY", "import copy", "optional", "engines")
    for word in words:
        assert word not in plain
    for count in (1, 2, len(TYPES)):
        for types in combinations(TYPES.values(), count):
            for takes, gives in ((types, types), (types, ()), ((), types)):
                check_names(emitted_session(takes, gives))


def test_every_session_defines_what_it_reads(unformatted: None) -> None:
    flags = ("channels_last", "makes", "caches")
    for on in product((False, True), repeat=len(flags)):
        for nested, kernels in (((), ()), (("a",), ()), ((), ("k",))):
            for name in ("eager", "onednn"):
                engine = dict(zip(flags, on, strict=True)) | {"name": name}
                text = emitted_session(nested=nested, kernels=kernels, **engine)
                check_names(text)
                assert ("from .engines" in text) == (name != "eager")
                assert ("from .graphs" in text) == bool(kernels)


def check_names(text: str) -> None:
    """All that a module reads it defines or imports, and it reads all of that."""
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    top = {
        name
        for node in tree.body
        for name in (
            [alias.asname or alias.name for alias in node.names]
            if isinstance(node, ast.Import | ast.ImportFrom)
            else [getattr(node, "name", "")]
        )
    } - {"", "annotations"}
    known = bound | top | vars(builtins).keys() | {"__file__"}
    assert read <= known, read - known
    assert top - {"Session"} <= read, top - read


def test_the_emitted_parity_test(tmp_path: Path) -> None:
    """It passes, fails and skips as it says, with the package beside its model."""
    onnx_file = onnx.parser.parse_model(MODEL).SerializeToString()
    report = {
        "source": {
            "file": "tiny.onnx",
            "sha256": hashlib.sha256(onnx_file).hexdigest(),
            "external_data": [],
        },
        "sizes": [{"n": 1, "m": 4}, {"n": 3, "m": 2}],
        "inputs": {"ids": {"low": 0, "high": 9}},
        "tolerance": {"y": 1e-6, "table": 1e-6, "same": 0, "next": 0},
        "meta": META,
    }
    for case, net, file in (
        ("right", NET, onnx_file),
        ("wrong", NET.replace("x * s", "x - s"), onnx_file),
        ("absent", NET, None),
        ("another", NET, onnx_file + b"\0"),
    ):
        (tmp_path / "root" / f"in_{case}").mkdir(parents=True)
        folder = tmp_path / "root" / f"in_{case}" / case
        write_package(folder, net)
        (folder / "report.json").write_text(json.dumps(report))
        if file is not None:
            (folder.parent / "tiny.onnx").write_bytes(file)
    command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "root"],
        cwd=tmp_path,
        env={name: v for name, v in os.environ.items() if name != "ONNX_MODEL"},
        capture_output=True,
        text=True,
    )
    verdicts = Counter(re.findall(r"in_(\w+)/.*::test_parity.* ([A-Z]+)", done.stdout))
    assert verdicts == {
        ("right", "PASSED"): 4,
        ("wrong", "FAILED"): 4,
        ("absent", "SKIPPED"): 4,
        ("another", "SKIPPED"): 4,
    }, done.stdout
    assert "no tiny.onnx found: let ONNX_MODEL name it" in done.stdout
    assert "is not the file that this package was written from" in done.stdout
