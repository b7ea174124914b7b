"""An emitted Session beside the InferenceSession whose place it takes."""

from __future__ import annotations

import copy
import errno
import importlib
import inspect
import pickle
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
)

import fairhand

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "digits_cnn.onnx"
OTHER = ROOT / "examples" / "digits_transformer.onnx"
DOCS = (ROOT / "docs" / "session.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", DOCS, re.M))
X = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
FEED = {"image": X}
CPU = ["CPUExecutionProvider"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages, in a folder that can be imported from."""
    made = tmp_path_factory.mktemp("packages")
    fairhand.compile(MODEL, made / "ort_digits", verify=False)
    return made


@pytest.fixture(scope="module")
def package(folder: Path) -> Any:
    sys.path.insert(0, str(folder))
    yield importlib.import_module("ort_digits")
    sys.path.remove(str(folder))


@pytest.fixture
def session(package: Any) -> Any:
    return package.Session(MODEL, providers=CPU)


@pytest.fixture(scope="module")
def wanted() -> np.ndarray:
    (result,) = ort.InferenceSession(MODEL, providers=CPU).run(None, FEED)
    return result


def close(got: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_member_is_there_and_in_the_table(package: Any) -> None:
    members = public(ort.InferenceSession)
    assert members <= public(package.Session)
    assert members <= ROWS.keys()
    takes = inspect.signature(ort.InferenceSession.__init__).parameters
    assert takes.keys() - {"self"} <= ROWS.keys()
    ours = inspect.signature(package.Session.__init__).parameters
    assert list(takes)[:5] == list(ours)[:5]
    for name in members:
        ours = inspect.signature(getattr(package.Session, name)).parameters
        assert [*inspect.signature(getattr(ort.InferenceSession, name)).parameters] == [
            *ours
        ], name


def test_bindings_have_every_member(session: Any) -> None:
    ours = session.io_binding()
    for name in public(ort.IOBinding):
        wanted = inspect.signature(getattr(ort.IOBinding, name)).parameters
        got = inspect.signature(getattr(type(ours), name)).parameters
        assert [*wanted] == [*got], name


def test_what_the_table_says_is_refused_is_refused(session: Any) -> None:
    refused = {name for name, what in ROWS.items() if what.startswith("refused")}
    assert refused == {"get_provider_graph_assignment_info"}
    for name in refused:
        with pytest.raises(NotImplementedError):
            getattr(session, name)()


def test_a_default_of_the_file_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
        g (float[3] x, float[3] b) => (float[3] y) <float[3] b = {1, 2, 3}>
        { y = Add(x, b) }"""
    made = onnx.parser.parse_model(text)
    fairhand.compile(made, tmp_path / "has_default", verify=False)
    monkeypatch.syspath_prepend(tmp_path)
    session = importlib.import_module("has_default").Session()
    feed = {"x": np.ones(3, np.float32)}
    assert session.run(None, feed)[0].tolist() == [2, 3, 4]
    with pytest.raises(InvalidArgument, match=r"of \['b'\] the file's defaults are"):
        session.run(None, {**feed, "b": feed["x"]})
    with pytest.raises(InvalidArgument, match=r"no inputs \['c'\].*\['x'\]$"):
        session.run(None, {**feed, "c": feed["x"]})


def test_without_effect(session: Any, wanted: np.ndarray) -> None:
    session.enable_fallback()
    session.disable_fallback()
    session.set_ep_dynamic_options({"a": "b"})
    session.release_captured_graph(3)
    session.set_tuning_results(session.get_tuning_results(), error_on_invalid=True)
    assert session.get_overridable_initializers() == []
    close(session.run(None, FEED, ort.RunOptions())[0], wanted)


@pytest.mark.parametrize("model", [MODEL, str(MODEL), MODEL.read_bytes()], ids=type)
def test_takes_its_own_model(package: Any, model: Any, wanted: np.ndarray) -> None:
    close(package.Session(model).run(None, FEED)[0], wanted)


OTHERS = {"path": OTHER, "bytes": OTHER.read_bytes(), "garbage": b"garbage"}


@pytest.mark.parametrize("model", OTHERS.values(), ids=OTHERS)
def test_refuses_another_model(package: Any, model: Any) -> None:
    with pytest.raises(ValueError, match="this package was made from digits_cnn") as e:
        package.Session(model)
    assert isinstance(e.value, InvalidProtobuf)
    assert type(pickle.loads(pickle.dumps(e.value))) is ValueError


def test_refuses_what_is_no_model(package: Any) -> None:
    with pytest.raises(InvalidProtobuf):
        ort.InferenceSession(b"garbage")
    for make in (package.Session, ort.InferenceSession):
        with pytest.raises(NoSuchFile) as caught:
            make("nowhere.onnx")
        if make is package.Session:
            assert isinstance(caught.value, FileNotFoundError)
            again = pickle.loads(pickle.dumps(caught.value))
            assert type(again) is FileNotFoundError
            for error in (caught.value, again):
                assert error.errno == errno.ENOENT
                assert str(error.filename) == "nowhere.onnx"
    for wrong in (7, "", bytearray(b"x"), [MODEL], np.zeros(2)):
        for make in (package.Session, ort.InferenceSession):
            with pytest.raises(TypeError):
                make(wrong)
    for folder in (MODEL.parent, str(MODEL.parent), "."):
        for make in (package.Session, ort.InferenceSession):
            with pytest.raises(InvalidProtobuf):
                make(folder)
    with pytest.warns(UserWarning, match="wieghts"):
        package.Session(wieghts="x")


def test_options_that_work(package: Any) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    one = package.Session(MODEL, options, enable_fallback=0)
    assert one.threads == 1 and one.get_session_options() is options
    assert package.Session().get_session_options().intra_op_num_threads == 0
    options.intra_op_num_threads = -1  # as many as there are
    assert package.Session(MODEL, options).threads is None
    options.optimized_model_filepath = "optimized.onnx"
    with pytest.raises(NotImplementedError, match="optimized_model_filepath"):
        package.Session(MODEL, options)


@pytest.mark.parametrize("wrong", [3, 0, "x", {}, ort.RunOptions()], ids=type)
def test_refuses_what_are_no_options(package: Any, session: Any, wrong: Any) -> None:
    for make in (package.Session, ort.InferenceSession):
        with pytest.raises(AttributeError):
            make(MODEL, wrong, CPU)
    run_options = ort.SessionOptions() if isinstance(wrong, ort.RunOptions) else wrong
    value = {"image": ort.OrtValue.ortvalue_from_numpy(X)}
    for each in (session, ort.InferenceSession(MODEL, providers=CPU)):
        with pytest.raises(TypeError):
            each.run(None, FEED, run_options)
        with pytest.raises(TypeError):
            each.run_with_ort_values(["logits"], value, run_options)


def test_options_that_say_stop(session: Any) -> None:
    options = ort.RunOptions()
    options.terminate = True
    for each in (session, ort.InferenceSession(MODEL, providers=CPU)):
        with pytest.raises(Fail, match="terminate"):
            each.run(None, FEED, options)
        binding = each.io_binding()
        binding.bind_cpu_input("image", X)
        binding.bind_output("logits")
        with pytest.raises(RuntimeError, match="terminate"):
            each.run_with_iobinding(binding, options)


def test_private_names_that_programs_read(session: Any) -> None:
    reference = ort.InferenceSession(MODEL, providers=CPU)
    documented = set(re.findall(r"`(_\w+)`", DOCS))
    held = {name for name in vars(reference) if hasattr(session, name)}
    assert documented == held == vars(reference).keys()
    for each in (session, reference):
        assert [meta.name for meta in each._inputs_meta] == ["image"]
        assert [meta.name for meta in each._outputs_meta] == ["logits"]
        assert each._providers == CPU and each._provider_options == {CPU[0]: {}}
        assert Path(each._model_path) == MODEL
        (memory,) = each.get_output_memory_infos()
        assert (memory.name, memory.device_id) == ("Cpu", 0)
        assert [x.ep_name for x in each.get_input_epdevices()] == CPU
        assert each._enable_fallback and each._fallback_providers == CPU
        assert each._sess.run(["logits"], FEED, None)[0].shape == (3, 10)
    assert session._model_meta.graph_name == reference._model_meta.graph_name


PICKING = """<ir_version: 9, opset_import: ["" : 18]>
picking (float[a, b] x, float[a, c] y, uint64[k] which) => (float[k, d] picked) {
    [act] r = Relu(x)
    [both] s = Add(r, y)
    [as_places] places = Cast <to = 7> (which)
    [pick] picked = Gather(s, places)
}"""


@pytest.fixture(scope="module")
def picking(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Of one network our session and ONNX Runtime's."""
    made = tmp_path_factory.mktemp("picking")
    proto = onnx.parser.parse_model(PICKING)
    fairhand.compile(proto, made / "ort_picking", verify=False)
    sys.path.insert(0, str(made))
    package = importlib.import_module("ort_picking")
    sys.path.remove(str(made))
    return package.Session(), ort.InferenceSession(proto.SerializeToString())


@pytest.mark.parametrize(
    ("columns", "which", "error", "theirs", "node"),
    [(4, 0, RuntimeError, Fail, "both"), (3, 7, IndexError, InvalidArgument, "pick")],
)
def test_says_which_node_failed_on_which_shapes(
    picking: Any, columns: int, which: int, error: Any, theirs: Any, node: str
) -> None:
    x, y = np.ones((2, 3), np.float32), np.ones((2, columns), np.float32)
    feed = {"x": x, "y": y, "which": np.array([which], np.uint64)}
    with pytest.raises(theirs, match=node):
        picking[1].run(None, feed)
    told = rf"model.py:\d+, of .*\b{node}\b.*: .* of shapes {{'x': \[2, 3\], 'y': \[2, "
    for kind in (error, theirs):
        with pytest.raises(kind, match=told):
            picking[0].run(None, feed)


def test_says_no_node_of_an_edited_network(picking: Any) -> None:
    x, place = np.ones((2, 3), np.float32), np.array([9], np.uint64)
    path = Path(sys.modules["ort_picking"].__file__ or "").with_name("model.py")
    text = path.read_text("utf-8")
    path.write_text(f"# edited\n{text}", "utf-8")
    try:
        with pytest.raises(IndexError, match=r"^index 9 is out of bounds"):
            picking[0].run(None, {"x": x, "y": x, "which": place})
    finally:
        path.write_text(text, "utf-8")


def test_numbers_of_other_c_types(picking: Any) -> None:
    """uint64 is unsigned long to PyTorch, unsigned long long in an OrtValue."""
    x, place = np.ones((2, 3), np.float32), np.array([1], np.ulonglong)
    for given in (place, ort.OrtValue.ortvalue_from_numpy(place)):
        (picked,) = picking[0].run(None, {"x": x, "y": x, "which": given})
        assert picked.tolist() == [[2, 2, 2]]


BAD_PROVIDERS: list[tuple[Any, Any]] = [
    ([7], None),
    ([("CPUExecutionProvider",)], None),
    ([("CPUExecutionProvider", 7)], None),
    (CPU, []),
    (CPU, [7]),
    (CPU, 7),
    ([CPU], None),
    ({CPU[0]}, None),
    (CPU[0], None),
    (["NoSuchProvider"], None),
    ([(CPU[0], {})], [{}]),
    (False, None),
]


FEEDS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.from_numpy(X),
    "scalar": lambda: 3.0,
    "scalar of NumPy": lambda: np.float32(3),
    "tuple": lambda: tuple(X.tolist()),
    "ragged": lambda: [[1.0, 2.0], [3.0]],
    "words": lambda: [["a"]],
    "complex": lambda: X.astype("F"),
    "objects": lambda: X.astype(object),
    "None": lambda: None,
    "double": lambda: X.astype("d"),
    "rank": lambda: X[0],
    "reversed": lambda: X[::-1],
    "Fortran": lambda: np.asfortranarray(X),
    "list": lambda: X.tolist(),
    "empty": lambda: X[:0],
}


@pytest.mark.parametrize("make", FEEDS.values(), ids=FEEDS)
def test_feeds_are_read_or_refused_alike(session: Any, make: Any) -> None:
    """What catches ONNX Runtime's errors catches these, which name the input."""
    feed = {"image": make()}
    try:
        (right,) = ort.InferenceSession(MODEL, providers=CPU).run(None, feed)
    except Exception as refused:
        with pytest.raises(type(refused), match="'image'"):
            session.run(None, feed)
    else:
        close(session.run(None, feed)[0], right)


@pytest.mark.parametrize(("providers", "options"), BAD_PROVIDERS)
def test_refuses_the_providers_that_onnxruntime_refuses(
    package: Any, providers: Any, options: Any
) -> None:
    for make in (package.Session, ort.InferenceSession):
        with pytest.raises((ValueError, RuntimeError)):
            make(MODEL, None, providers, options, enable_fallback=0)
        one = make(MODEL, None, providers, options)
        assert one.get_providers() == CPU and not one._enable_fallback


def two_arguments(kind: type[Exception]) -> Exception:
    """Of a class that isn't made of a text alone, as some of PyTorch's."""

    class Special(kind):  # type: ignore[misc,valid-type]
        def __init__(self, one: str, two: str):
            super().__init__(one + two)

    return Special("one", "two")


@pytest.mark.parametrize(
    "error",
    [
        torch.linalg.LinAlgError("singular"),
        torch.OutOfMemoryError("full"),
        two_arguments(IndexError),
        ZeroDivisionError("by zero"),
    ],
)
def test_what_a_network_raises_is_caught_as_onnxruntimes(
    session: Any, error: Exception
) -> None:
    def raises(*feeds: Any) -> Any:
        raise error

    session.network = raises
    theirs = InvalidArgument if isinstance(error, IndexError) else Fail
    with pytest.raises(theirs, match=f"{error}; inputs are of shapes") as raised:
        session.run(None, FEED)
    assert raised.value.__cause__ is error


def test_providers(package: Any, session: Any, wanted: np.ndarray) -> None:
    assert session.get_providers() == CPU
    assert session.get_provider_options() == {CPU[0]: {}}
    for name in ("DmlExecutionProvider", "NoSuchProvider"):
        for make in (ort.InferenceSession, package.Session):
            with pytest.warns(UserWarning, match=f"{name}' is not in available"):
                other = make(MODEL, providers=[name, *CPU])
            assert other.get_providers() == CPU
    other.set_providers([(CPU[0], {"use_arena": 1})])
    assert other.get_provider_options() == {CPU[0]: {"use_arena": "1"}}
    close(other.run(None, FEED)[0], wanted)


def test_is_one_where_it_is_asked(session: Any) -> None:
    assert isinstance(session, ort.InferenceSession)


def test_ort_values(session: Any, wanted: np.ndarray) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    close(session.run(None, {"image": value})[0], wanted)
    (result,) = session.run_with_ort_values(None, {"image": value})
    close(result.numpy(), wanted)
    made = session.create_ortvalue_from_shape_and_type(X.shape, np.float32, "cpu")
    made.update_inplace(X)
    close(session.run(["logits"], {"image": made})[0], wanted)


def test_vectors_of_ort_values(session: Any, wanted: np.ndarray) -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import OrtValueVector

    feeds, fetches = OrtValueVector(), OrtValueVector()
    feeds.push_back(ort.OrtValue.ortvalue_from_numpy(X)._ortvalue)
    session.run_with_ortvaluevector(None, ["image"], feeds, ["logits"], fetches, [])
    close(fetches[0].numpy(), wanted)


def test_binding_of_memory(session: Any, wanted: np.ndarray) -> None:
    x, out = np.zeros_like(X), np.zeros_like(wanted)
    binding = session.io_binding()
    at = x.ctypes.data, out.ctypes.data
    binding.bind_input("image", "cpu", 0, np.float32, x.shape, at[0])
    binding.bind_output("logits", "cpu", 0, np.float32, out.shape, at[1])
    x[:] = X  # what is there when it runs counts
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    close(out, wanted)
    close(binding.get_outputs()[0].numpy(), wanted)
    binding.clear_binding_outputs()
    assert binding.copy_outputs_to_cpu() == []
    binding.bind_output("logits", "cpu", 0, np.float32, (1, 10), at[1])
    with pytest.raises(ValueError, match="bound is"):
        session.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="element_type"):
        binding.bind_output("logits", buffer_ptr=at[1])


def test_binding_of_arrays_and_ort_values(session: Any, wanted: np.ndarray) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("image", X)
    binding.bind_output("logits")
    session.run_with_iobinding(binding)
    close(binding.copy_outputs_to_cpu()[0], wanted)
    close(binding.get_outputs_as_ortvaluevector()[0].numpy(), wanted)
    target = ort.OrtValue.ortvalue_from_shape_and_type(wanted.shape, np.float32)
    binding.bind_ortvalue_input("image", ort.OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_output("logits", target)
    session.run_with_iobinding(binding)
    close(target.numpy(), wanted)
    binding.clear_binding_inputs()
    with pytest.raises(ValueError, match="missing"):
        session.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="nothing"):
        binding.bind_cpu_input("nothing", X)


def test_what_a_binding_refuses_is_a_runtime_error(
    session: Any, wanted: np.ndarray
) -> None:
    """As of ONNX Runtime, and of the kinds that run() raises."""

    def bound(shape: tuple[int, ...], dtype: Any) -> ort.OrtValue:
        return ort.OrtValue.ortvalue_from_shape_and_type(shape, dtype)

    one, whole = (1, 10), wanted.shape
    double = np.zeros(whole)
    at = "cpu", 0, np.float64, whole, double.ctypes.data
    wrong: list[Callable[[Any], Any]] = [
        lambda b: (b.bind_cpu_input("nothing", X), b.bind_output("logits")),
        lambda b: (b.bind_cpu_input("image", X), b.bind_output("nothing")),
        lambda b: b.bind_cpu_input("image", X),
        lambda b: b.bind_output("logits"),
        lambda b: (b.bind_cpu_input("image", X[0]), b.bind_output("logits")),
        lambda b: (b.bind_cpu_input("image", X.astype("d")), b.bind_output("logits")),
        lambda b: b.bind_ortvalue_output("logits", bound(one, np.float32)),
        lambda b: b.bind_ortvalue_output("logits", bound(whole, np.float64)),
        lambda b: b.bind_output("logits", *at),
    ]
    for each in (session, ort.InferenceSession(MODEL, providers=CPU)):
        for index, bind in enumerate(wrong):
            binding = each.io_binding()
            with pytest.raises(RuntimeError) as caught:
                if index > 5:
                    binding.bind_cpu_input("image", X)
                bind(binding)
                each.run_with_iobinding(binding)
            if each is session:
                assert isinstance(caught.value, ValueError | TypeError)
                again = pickle.loads(pickle.dumps(caught.value))
                assert isinstance(again, RuntimeError)
    assert not double.any()


def test_binding_by_the_numbers_of_types(session: Any, wanted: np.ndarray) -> None:
    number = onnx.TensorProto.FLOAT
    binding, out = session.io_binding(), np.zeros_like(wanted)
    binding.bind_input("image", "cpu", 0, number, X.shape, X.ctypes.data)
    binding.bind_output("logits", "cpu", 0, number, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)
    close(out, wanted)


def test_a_binding_is_of_one_session(package: Any, session: Any) -> None:
    with pytest.raises(ValueError, match="session that created it"):
        package.Session().run_with_iobinding(session.io_binding())


@pytest.mark.parametrize("feed", [FEED, {"image": X[0]}], ids=["works", "fails"])
def test_run_async(session: Any, wanted: np.ndarray, feed: dict[str, Any]) -> None:
    done, got = threading.Event(), []

    def callback(*results: Any) -> None:
        got.append(results)
        done.set()

    session.run_async(None, feed, callback, "mine")
    assert done.wait(60)
    ((results, user_data, error),) = got
    assert user_data == "mine" and bool(error) is (feed is not FEED)
    with pytest.raises(ValueError, match="missing"):
        session.run_async(None, {}, callback, "mine")
    if feed is FEED:
        close(results[0], wanted)


def test_profiling(package: Any, tmp_path: Path, session: Any) -> None:
    assert session.end_profiling() == "" and session.get_profiling_start_time_ns() == 0
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    profiled = package.Session(MODEL, options)
    profiled.run(None, FEED)
    started = profiled.get_profiling_start_time_ns()
    assert started > 0
    assert "conv2d" in Path(profiled.end_profiling()).read_text("utf-8")
    assert profiled.get_profiling_start_time_ns() == started


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_have_the_weights_of_now(session: Any, again: Any) -> None:
    before = session.run(None, FEED)[0]
    session.model.head.bias.add_(1.0)
    other = again(session)
    close(other.run(None, FEED)[0], before + 1.0)
    session.model.head.bias.add_(1.0)
    close(other.run(None, FEED)[0], before + 1.0)


def test_threads(session: Any, wanted: np.ndarray) -> None:
    with ThreadPoolExecutor(4) as pool:
        for (result,) in pool.map(lambda _: session.run(None, FEED), range(32)):
            close(result, wanted)


def test_errors_are_those_that_programs_catch(session: Any) -> None:
    for feed in ({"image": X.astype(np.float64)}, {"image": X[0]}, FEED | {"y": X}):
        with pytest.raises(InvalidArgument) as caught:
            session.run(None, feed)
        again = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(again, ValueError | TypeError) and str(again) == str(
            caught.value
        )


def test_inside_of_autocast(session: Any, wanted: np.ndarray) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        close(session.run(None, FEED)[0], wanted)


def test_two_profiles(package: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    first = package.Session(MODEL, options)
    with pytest.warns(UserWarning, match="another session is profiled"):
        second = package.Session(MODEL, options)
    second.run(None, first and FEED)
    assert second.end_profiling() == "" and Path(first.end_profiling()).is_file()
    assert Path(package.Session(MODEL, options).end_profiling()).is_file()


def compiled(model: str, folder: Path, name: str) -> tuple[Any, ort.InferenceSession]:
    """The Session of a package, and ONNX Runtime's, of a model's text."""
    proto = onnx.parser.parse_model(model)
    file = folder / "net.onnx"
    onnx.save(proto, file)
    fairhand.compile(file, folder / name, verify=False)
    with fairhand.packages_in_place(folder):
        return ort.InferenceSession(file), ort.InferenceSession(
            proto.SerializeToString()
        )


def test_strings_are_made_of_other_objects(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 2, "" : 17]>
    net (string[n] x) => (int64[n] y) {
        y = ai.onnx.ml.LabelEncoder <keys_strings = ["3", "a", "None"],
                                     values_int64s = [10, 30, 40]> (x)
    }"""
    mine, _ = compiled(text, tmp_path, "json")  # called as a module of the hook's
    theirs = ort.InferenceSession(tmp_path / "net.onnx")
    assert type(mine) is not type(theirs)
    # ONNX Runtime reads on behind bytes that fill their place.
    for array in (np.array(["a", 3, None], object), np.array([b"a", b"3"], "S2")):
        assert mine.run(None, {"x": array})[0].tolist() == (
            theirs.run(None, {"x": array})[0].tolist()
        )


def test_none_for_a_sequence_is_no_lack_of_an_argument(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (seq(float[n]) x) => (int64 y) { y = SequenceLength (x) }"""
    for session in compiled(text, tmp_path, "lists"):
        with pytest.raises(Fail):
            session.run(None, {"x": None})


def test_packages_of_any_name_and_contexts_inside_of_others(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "ort_digits", tmp_path / "3d-digits")
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / "report.json").write_text('{"source": "elsewhere"}')
    with fairhand.packages_in_place(tmp_path):
        for _ in range(2):
            with fairhand.packages_in_place(folder):
                inner = ort.InferenceSession(MODEL, providers=CPU)
            outer = ort.InferenceSession(MODEL, providers=CPU)
            assert type(inner).__module__ == "fairhand_packages.ort_digits.session"
            assert type(outer).__module__ == "fairhand_packages.3d-digits.session"
    assert type(ort.InferenceSession(MODEL, providers=CPU)) is ort.InferenceSession


FORKS = """
import importlib.util, multiprocessing
assert importlib.util.find_spec("onnxruntime")  # as libraries ask before they import
import numpy as np, onnxruntime as ort, torch, sys

def child(_):
    mine = ort.InferenceSession(sys.argv[1])
    return [s.run(None, {"image": X})[0] for s in (session, mine)]

X = np.ones((256, 1, 8, 8), np.float32)
torch.set_num_threads(2)
session = ort.InferenceSession(sys.argv[1])
print(type(session).__name__)
want = session.run(None, {"image": X})[0]
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(all(np.allclose(got, want) for got in pool.map(child, [0])[0]))
"""


def test_in_a_forked_process(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FORKS)
    command = [sys.executable, "-m", "fairhand", "run", "--packages", str(folder), "--"]
    command += [sys.executable, str(tmp_path / "app.py"), str(MODEL)]
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(
        command, capture_output=True, text=True, env=path, timeout=120
    )
    assert done.stdout.split() == ["Session", "True"], done.stderr


PROGRAM = """
import multiprocessing, os, sys
import numpy as np, onnxruntime as ort

def child(session):
    return session.run(None, {"image": np.ones((1, 1, 8, 8), np.float32)})[0]

if __name__ == "__main__":
    mine, other = (ort.InferenceSession(m, providers=["CPUExecutionProvider"])
                   for m in sys.argv[1:])
    is_one = isinstance(mine, ort.InferenceSession)
    print(os.environ.get("GOMP_SPINCOUNT"))
    print(type(mine).__module__, type(other).__name__, is_one)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(bool(np.allclose(pool.apply(child, [mine]), child(mine))))
    sys.exit(3)
"""


@pytest.mark.parametrize("set_before", [{}, {"OMP_WAIT_POLICY": "active"}], ids=len)
def test_in_an_unchanged_program(
    folder: Path, tmp_path: Path, set_before: dict[str, str]
) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; print('its own', file=sys.stderr)"
    )
    command = [sys.executable, "-m", "fairhand", "run", "--packages", str(folder), "--"]
    command += [sys.executable, str(tmp_path / "app.py"), str(MODEL), str(OTHER)]
    path = f"{tmp_path}:{':'.join(filter(None, sys.path))}"
    environment = {"PYTHONPATH": path, **set_before}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-3:] == [
        "None" if set_before else "1000",
        "fairhand_packages.ort_digits.session InferenceSession True",
        "True",
    ], done.stderr
    assert "its own" in done.stderr
    assert f"ort_digits runs {MODEL}" in done.stderr
    assert f"{OTHER} has no package" in done.stderr
    assert done.returncode == 3


def test_options_that_bring_weights_or_sizes_go_to_onnxruntime(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    initializer = onnx.load(MODEL).graph.initializer[0]
    zeros = np.zeros_like(onnx.numpy_helper.to_array(initializer))
    weights, sizes = ort.SessionOptions(), ort.SessionOptions()
    with fairhand.packages_in_place(folder):
        weights.add_initializer(
            initializer.name, ort.OrtValue.ortvalue_from_numpy(zeros)
        )
        sizes.add_free_dimension_override_by_name("batch", 2)
        made = [ort.InferenceSession(MODEL, each) for each in (weights, sizes)]
        usual = ort.InferenceSession(MODEL, ort.SessionOptions(), {*CPU})
    assert [*map(type, made)] == [ort.InferenceSession] * 2
    assert type(usual) is not ort.InferenceSession
    assert capfd.readouterr().err.count("given weights or sizes") == 2
    assert made[1].get_inputs()[0].shape[0] == 2


def test_in_place_in_here(folder: Path, tmp_path: Path) -> None:
    with fairhand.packages_in_place(folder):
        mine = ort.InferenceSession(MODEL, providers=CPU)
        other = ort.InferenceSession(OTHER, providers=CPU)
    after = ort.InferenceSession(MODEL, providers=CPU)
    assert type(mine).__name__ == "Session"
    assert type(other) is type(after) is ort.InferenceSession
    with (
        pytest.raises(fairhand.FairhandError, match="no packages"),
        fairhand.packages_in_place(tmp_path),
    ):
        pass


def test_from_a_zip_file(folder: Path, tmp_path: Path, wanted: np.ndarray) -> None:
    archive = shutil.make_archive(str(tmp_path / "packages"), "zip", folder)
    program = (
        "import numpy as np, ort_digits; s = ort_digits.Session()\n"
        f"np.save({str(tmp_path / 'x.npy')!r}, s.run(None, {{'image':"
        " np.ones((1, 1, 8, 8), np.float32)})[0]); print(ort_digits.__file__)"
    )
    path = ":".join([archive, *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True
    )
    assert b".zip" in done.stdout, done.stderr
    one = {"image": np.ones((1, 1, 8, 8), np.float32)}
    (right,) = ort.InferenceSession(MODEL, providers=CPU).run(None, one)
    close(np.load(tmp_path / "x.npy"), right)
