"""What programs use of onnxruntime.InferenceSession beside run(): Session inherits it.

The same in every package. fairhand's docs/session.md says of each member whether it
works, is accepted without effect, or is refused and why. onnxruntime is imported only
by members that take or return its own types, such as OrtValue.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
import zipimport
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import model
from .model import INPUTS, OUTPUTS

ORT_TYPES = "onnxruntime.capi.onnxruntime_pybind11_state"
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
REPORT = Path(model.__file__).with_name("report.json")
PROVENANCE = Path(model.__file__).with_name("provenance.json")
PROCESS = os.getpid()
PROFILED = threading.Lock()  # PyTorch has one profiler in a process
# What the constructor of ONNX Runtime takes besides, of what only it has.
WITHOUT_EFFECT = {"enable_fallback", "read_config_from_model", "disabled_optimizers"}
# TensorProto's numbers, which a binding may be told in place of NumPy's types.
NAMES = """float32 uint8 int8 uint16 int16 int32 int64 object bool float16 float64
    uint32 uint64"""
NUMBERED = dict(enumerate(NAMES.split(), 1))
RAISED: tuple[type[Exception], ...] = (
    *(RuntimeError, IndexError, ValueError, TypeError),
    *(NotImplementedError, ZeroDivisionError, OverflowError),
)
NO_PARTITION = "PyTorch runs the whole network: no execution provider has a part of it"


class OrtInterface:
    """The rest of onnxruntime.InferenceSession; Session adds run() and prepare()."""

    model: nn.Module
    device: torch.device
    threads: int | None
    runs_on: Callable[..., Any]
    run: Callable[..., list[Any]]
    prepare: Callable[[], None]

    def accept(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | None,
        sess_options: Any,
        without_effect: Mapping[str, Any],
    ) -> None:
        """Raises ValueError for another model than the one that this was made from."""
        if unknown := without_effect.keys() - WITHOUT_EFFECT:
            warnings.warn(f"Session() has no use for {sorted(unknown)}", stacklevel=3)
        self._enable_fallback = int(without_effect.get("enable_fallback", 1)) == 1
        self._model_path = self._model_bytes = None
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model_path = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, bytes):
            self._model_bytes = path_or_bytes
        if path_or_bytes is not None:
            require_source(path_or_bytes)
        self._sess_options_initial = sess_options
        self.profile, self.profile_start = None, 0
        if sess_options is None:
            return
        if type(sess_options).__name__ != "SessionOptions":
            kind = type(sess_options).__name__
            raise OptionsError(f"sess_options must be SessionOptions, got {kind}")
        if sess_options.optimized_model_filepath:
            raise NotImplementedError(
                "optimized_model_filepath: a Session has no ONNX graph to write"
            )
        if sess_options.enable_profiling:
            if PROFILED.locked():
                warnings.warn(
                    "another session is profiled: this one isn't", stacklevel=3
                )
            else:
                self.profile_start = time.monotonic_ns()
                self.profile = torch.profiler.profile()
                self.profile.start()
                PROFILED.acquire()

    @property
    def wanted_threads(self) -> int | None:
        wanted = getattr(self._sess_options_initial, "intra_op_num_threads", 0)
        return wanted if wanted > 0 else None

    def place(
        self,
        providers: Sequence[Any] | None,
        provider_options: Sequence[dict[str, Any]] | None,
        device: str | None = None,
    ) -> None:
        """Where to run: on `device`, else where the first usable provider does."""
        if device is None:
            try:
                self.register(usable_providers(providers, provider_options))
            except (ValueError, RuntimeError) as error:
                if not self._enable_fallback:
                    raise
                print(f"{error} {CPU} is used instead.", file=sys.stderr)
                self.register({CPU: {}})
                self.disable_fallback()
        elif torch.device(device).type == "cuda":
            index = torch.device(device).index or 0
            self.register({CUDA: {"device_id": str(index)}, CPU: {}})
        else:
            self.register({CPU: {}}, device)

    def register(self, usable: dict[str, dict[str, str]], cpu: str = "cpu") -> None:
        first = next(name for name in usable if name in (CUDA, CPU))
        on_gpu = f"cuda:{usable[first].get('device_id', 0)}"
        self._provider_options = usable
        self.device = torch.device(on_gpu if first == CUDA else cpu)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """isinstance(session, onnxruntime.InferenceSession) holds where it is asked."""
        theirs = getattr(sys.modules.get("onnxruntime"), "InferenceSession", None)
        return theirs if isinstance(theirs, type) else type(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """With the weights as they are now; options and profiles stay here."""
        left_out = (
            "network",
            "runs_on",
            "profile",
            "_model_bytes",
            "_sess_options_initial",
        )
        return restored, (type(self), {**self.__dict__, **dict.fromkeys(left_out)})

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def engines(self) -> list[dict[str, Any]]:
        """What `auto` measured: by threads and sizes the engine taken, and ms of all.

        The engine is "" where none is faster than what all sizes run on.
        """
        return list(getattr(self.runs_on, "measured", []))

    def get_providers(self) -> list[str]:
        return list(self._provider_options)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return self._provider_options

    def set_providers(
        self,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Moves the network to where the first of the usable providers runs."""
        self.register(usable_providers(providers, provider_options))
        self.model.to(self.device)
        self.prepare()

    def get_session_options(self) -> Any:
        given = self._sess_options_initial
        return given or import_module("onnxruntime").SessionOptions()

    def get_overridable_initializers(self) -> list[Any]:
        """None: initializers are parameters here, to be changed in `model`."""
        return []

    def get_input_memory_infos(self) -> list[Any]:
        return [cpu_memory()] * len(INPUTS)

    def get_output_memory_infos(self) -> list[Any]:
        return [cpu_memory()] * len(OUTPUTS)

    def get_input_epdevices(self) -> list[Any]:
        devices = import_module("onnxruntime").get_ep_devices()
        return [next(x for x in devices if x.ep_name == CPU)] * len(INPUTS)

    # What programs read besides, although its names are private.
    _inputs_meta = inputs_meta = property(lambda self: self.get_inputs())
    _outputs_meta = outputs_meta = property(lambda self: self.get_outputs())
    _model_meta = model_meta = property(lambda self: self.get_modelmeta())
    _overridable_initializers = overridable_initializers = property(
        get_overridable_initializers
    )
    _input_meminfos = input_meminfos = property(get_input_memory_infos)
    _output_meminfos = output_meminfos = property(get_output_memory_infos)
    _input_epdevices = input_epdevices = property(get_input_epdevices)
    _sess_options = session_options = property(get_session_options)
    _providers = property(get_providers)
    _profiling_start_time_ns = property(lambda self: self.get_profiling_start_time_ns())
    _sess = property(lambda self: self)  # the object of C++, which run() calls there
    _fallback_providers = property(lambda self: [CPU])
    _captured_graph_bindings = property(lambda self: {})
    _read_config_from_model = False
    _reset_session = set_providers

    def _validate_input(self, feed_input_names: Sequence[str]) -> None:
        """Raises ValueError if one is missing that isn't optional."""
        fed = {*feed_input_names}
        if missing := [x for x in INPUTS if x not in fed and must_be_fed(x)]:
            raise ValueError(f"inputs {missing} are missing from {feed_input_names}")

    def check_options(self, run_options: Any) -> None:
        """Raises TypeError for what isn't RunOptions, RuntimeError if they say stop."""
        if run_options is None:
            return
        if type(run_options).__name__ != "RunOptions":
            kind = type(run_options).__name__
            raise TypeError(f"run_options must be RunOptions, got {kind}")
        if run_options.terminate:
            raise as_theirs(RuntimeError("run_options.terminate is set"), "Fail")

    def under_settings(self, call: Callable[..., Any], feeds: Sequence[Any]) -> Any:
        """With PyTorch's threads in here, and no autocast of the program around.

        Threads are a setting of the calling thread, and of new ones.
        """
        # Forked: the threads of the parent aren't in this one.
        threads = self.threads if os.getpid() == PROCESS else 1
        before = torch.get_num_threads()
        if threads is not None and threads != before:
            torch.set_num_threads(threads)
        try:
            if torch.is_autocast_enabled(self.device.type):
                with torch.autocast(self.device.type, enabled=False):
                    return call(*feeds)
            return call(*feeds)
        except RAISED as error:
            raise self.explained(error, feeds) from error
        finally:
            if threads is not None and threads != before:
                torch.set_num_threads(before)

    def explained(self, error: Exception, feeds: Sequence[Any]) -> Exception:
        """What the network raised, with its line and nodes and the shapes of inputs."""
        fed = zip(INPUTS, feeds, strict=True)
        shapes = {name: list(x.shape) for name, x in fed if hasattr(x, "shape")}
        kind = "InvalidArgument" if isinstance(error, IndexError) else "Fail"
        text = f"{node_of(error, self.model)}{error}; inputs are of shapes {shapes}"
        # Classes of PyTorch's, such as LinAlgError, aren't all made of a text.
        plain_one = next(base for base in type(error).__mro__ if base in RAISED)
        return as_theirs(plain_one(text), kind)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: object = None,
    ) -> None:
        """Calls callback(results, user_data, error) from a thread of its own."""
        self._validate_input(list(input_feed))

        def finished(future: Future[list[Any]]) -> None:
            error = future.exception()
            results = future.result() if error is None else []
            callback(results, user_data, str(error or ""))

        thread = ThreadPoolExecutor(1)
        future = thread.submit(self.run, output_names, input_feed, run_options)
        future.add_done_callback(finished)
        thread.shutdown(wait=False)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: object = None,
    ) -> list[Any]:
        results = self.run(output_names, input_dict_ort_values, run_options)
        return [*map(ort_value, results)]

    def run_with_ortvaluevector(
        self,
        run_options: object,
        feed_names: Sequence[str],
        feeds: Sequence[Any],
        fetch_names: Sequence[str],
        fetches: Any,
        fetch_devices: object,
    ) -> None:
        """Appends to `fetches`, an OrtValueVector, in the order of `fetch_names`."""
        feed = {
            name: value.numpy() for name, value in zip(feed_names, feeds, strict=True)
        }
        for result in self.run(fetch_names, feed, run_options):
            fetches.push_back(ort_value(result)._ortvalue)

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: object = None
    ) -> None:
        if iobinding.session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        if not iobinding.targets:
            raise FeedError("at least one output must be bound")
        names = list(iobinding.targets)
        feeds = {name: feed() for name, feed in iobinding.feeds.items()}
        try:
            results = self.run(names, feeds, run_options)
        except (TypeError, ValueError) as error:
            raise invalid(str(error)) from error
        iobinding.results = [
            written(result, iobinding.targets[name], name)
            for name, result in zip(names, results, strict=True)
        ]

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> Any:
        return import_module("onnxruntime").OrtValue.ortvalue_from_shape_and_type(
            shape, element_type, device_type, device_id
        )

    def end_profiling(self) -> str:
        """The file of the trace, for chrome://tracing; "" if none was asked for."""
        if self.profile is None:
            return ""
        self.profile.stop()
        prefix = self._sess_options_initial.profile_file_prefix
        path = f"{prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        self.profile.export_chrome_trace(path)
        self.profile = None
        PROFILED.release()
        return path

    def get_profiling_start_time_ns(self) -> int:
        return self.profile_start

    def get_provider_graph_assignment_info(self) -> list[Any]:
        raise NotImplementedError(NO_PARTITION)

    def enable_fallback(self) -> None:
        self._enable_fallback = True

    def disable_fallback(self) -> None:
        self._enable_fallback = False

    # Accepted without effect: they steer what only ONNX Runtime has.

    def set_ep_dynamic_options(self, options: dict[str, str]) -> None: ...

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None: ...

    def get_tuning_results(self) -> list[Any]:
        return []

    def set_tuning_results(
        self, results: list[Any], *, error_on_invalid: bool = False
    ) -> None: ...


class OptionsError(TypeError, AttributeError):
    """What aren't SessionOptions: ONNX Runtime raises one, with providers the other."""


class FeedError(RuntimeError, TypeError, ValueError):
    """What run() or a binding refuses: ONNX Runtime raises one or another of them."""


class IOBinding:
    """onnxruntime.IOBinding: memory is read and written when the session runs."""

    def __init__(self, session: OrtInterface):
        self.session = session
        self.feeds: dict[str, Callable[[], Any]] = {}
        self.targets: dict[str, Any] = {}  # an array, an OrtValue, or None: a new one
        self.results: list[Any] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        self.feeds[known(name, INPUTS)] = lambda: arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        self.feeds[known(name, INPUTS)] = lambda: ortvalue

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        memory = memory_at(device_type, device_id, element_type, shape, buffer_ptr)
        self.feeds[known(name, INPUTS)] = lambda: memory.numpy(force=True)

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        self.targets[known(name, OUTPUTS)] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        target = None
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise ValueError("buffer_ptr needs `element_type` and `shape`")
            target = memory_at(device_type, device_id, element_type, shape, buffer_ptr)
        self.targets[known(name, OUTPUTS)] = target

    def synchronize_inputs(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    synchronize_outputs = synchronize_inputs

    def get_outputs(self) -> list[Any]:
        """OrtValues, in the order in which the outputs were bound."""
        return [*map(ort_value, self.results)]

    def get_outputs_as_ortvaluevector(self) -> Any:
        vector = import_module(ORT_TYPES).OrtValueVector()
        for value in self.get_outputs():
            vector.push_back(value._ortvalue)
        return vector

    def copy_outputs_to_cpu(self) -> list[Any]:
        return [*map(on_cpu, self.results)]

    def clear_binding_inputs(self) -> None:
        self.feeds.clear()

    def clear_binding_outputs(self) -> None:
        self.targets.clear()
        self.results = []


def cpu_memory() -> Any:
    """Where values are fed and returned: OrtValues elsewhere are copied to and from."""
    types = import_module(ORT_TYPES)
    allocator = types.OrtAllocatorType.ORT_DEVICE_ALLOCATOR
    return types.OrtMemoryInfo("Cpu", allocator, 0, types.OrtMemType.DEFAULT)


def restored(cls: type[OrtInterface], state: dict[str, Any]) -> Any:
    """A session that was pickled or copied: its engine is prepared anew."""
    session = cls.__new__(cls)
    session.__dict__ |= state
    session.prepare()
    return session


def require_source(path_or_bytes: str | os.PathLike[str] | bytes) -> None:
    """Raises ValueError for another model than the one that this was made from."""
    source = report()["source"]
    digest = hashlib.sha256()
    if isinstance(path_or_bytes, bytes):
        name, folder = "these bytes", ""
        digest.update(path_or_bytes)
    elif isinstance(path_or_bytes, (str, os.PathLike)) and path_or_bytes:
        name = os.fspath(path_or_bytes)
        folder = os.path.dirname(name)
        add_file(digest, name)
    else:
        kind = type(path_or_bytes)
        raise TypeError(f"Unable to load from type '{kind}': {path_or_bytes!r:.40}")
    for data in source["external_data"]:
        add_file(digest, os.path.join(folder, data))
    if digest.hexdigest() != source["sha256"]:
        text = (
            f"this package was made from {source['file']} with sha256 "
            f"{source['sha256']}, not from {name}: compile anew, or leave the model out"
        )
        raise as_theirs(ValueError(text), "InvalidProtobuf")


def on_disk(path: str | Path) -> str | Path:
    """`path`; what is inside of a zip that was imported is written out for this run."""
    loader = getattr(__spec__, "loader", None)
    if not isinstance(loader, zipimport.zipimporter) or Path(path).exists():
        return path
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / Path(path).name).write_bytes(loader.get_data(str(path)))
    return folder / Path(path).name


def report() -> dict[str, Any]:
    """What is known of the ONNX file and of this package."""
    return json.loads(Path(on_disk(REPORT)).read_text("utf-8"))


def node_of(error: Exception, network: nn.Module) -> str:
    """`model.py:42, of Relu_2, Add_3: `, where it was raised; "" if nothing tells."""
    if not PROVENANCE.exists():
        return ""
    told = json.loads(PROVENANCE.read_text("utf-8"))["source_map"]
    text = Path(model.__file__).read_bytes()
    if hashlib.sha256(text).hexdigest() != told["sha256"]:  # edited
        return ""
    paths = {id(module): path for path, module in network.named_modules()}
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_code.co_filename != model.__file__:
            continue
        path = paths.get(id(frame.f_locals.get("self")), "")
        for span, nodes in told["lines"].items():
            first, last = int(span.split("-")[0]), int(span.split("-")[-1])
            if first <= line <= last and nodes.get(path):
                return f"model.py:{line}, of {', '.join(nodes[path])}: "
    return ""


def add_file(digest: Any, path: str) -> None:
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    except OSError as error:
        kinds = {FileNotFoundError: "NoSuchFile", IsADirectoryError: "InvalidProtobuf"}
        raise as_theirs(error, kinds.get(type(error), "Fail")) from None


def usable_providers(
    providers: Sequence[Any] | None, provider_options: Sequence[dict[str, Any]] | None
) -> dict[str, dict[str, str]]:
    """Those that are here, with their options; the CPU is last.

    PyTorch stands in for the CPU's and CUDA's. Others that ONNX Runtime has here are
    named only.
    """
    wanted = list(providers or ())
    if providers is not None and not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if providers is not None and provider_options is not None:
        if not isinstance(provider_options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(wanted) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' differ in length.")
        wanted = list(zip(wanted, provider_options, strict=True))
    here = sys.modules.get("onnxruntime")
    available = [CUDA, CPU] if torch.cuda.is_available() else [CPU]
    available += set(here.get_available_providers() if here else ()) - {CUDA, CPU}
    usable: dict[str, dict[str, str]] = {}
    for provider in wanted:
        match (provider, {}) if isinstance(provider, str) else provider:
            case (str(name), dict(options)) if not isinstance(provider, list):
                pass
            case _:
                raise ValueError("'providers' must be strings or (string, dict) pairs.")
        if name not in available:
            text = f"Specified provider '{name}' is not in available provider names"
            warnings.warn(f"{text}: {available}", stacklevel=5)
        usable.setdefault(name, {str(k): str(v) for k, v in options.items()})
    for name in usable.keys() - available:
        if here and name not in here.get_all_providers():
            raise RuntimeError(f"Unknown Provider Type: {name}")
        del usable[name]
    return usable | {CPU: usable.get(CPU, {})}


def from_list(name: str, value: Any, dtype: str) -> np.ndarray:
    """Lists are converted; scalars, tuples and tensors are not."""
    if not isinstance(value, list):
        text = f"input {name!r} must be an array, got {type(value).__name__}"
        kind = "Fail" if value is None else "InvalidArgument"
        raise as_theirs(FeedError(text), kind)
    try:
        return np.array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid(f"input {name!r} must be {dtype}: {error}") from error


def invalid(text: str) -> Exception:
    return as_theirs(FeedError(text), "InvalidArgument")


def as_theirs(error: Exception, name: str) -> Exception:
    """The error, which is ONNX Runtime's of this name too where a program has it."""
    theirs = getattr(sys.modules.get(ORT_TYPES), name, None)
    if theirs is None:
        return error
    # In another process it is the plain one: a class made here can't be found there.
    plain_one = error.__reduce__()
    members = {"__reduce__": lambda self: plain_one}
    return type(name, (type(error), theirs), members)(*plain_one[1])


def must_be_fed(name: str) -> bool:
    """Optional inputs may be left out."""
    return not INPUTS[name][0].startswith("optional(")


def known(name: str, table: Mapping[str, Any]) -> str:
    if name not in table:
        text = f"no {name!r}, the names are {list(table)}"
        raise invalid(text)
    return name


def memory_at(
    device_type: str, device_id: int, element_type: Any, shape: Sequence[int], at: int
) -> torch.Tensor:
    """The caller's memory as a tensor: what it holds when it is used."""
    dtype = np.dtype(NUMBERED.get(element_type, element_type))
    if device_type == "cuda":
        array = {"shape": tuple(shape), "typestr": dtype.str, "data": (at, False)}
        owner = type(
            "Memory", (), {"__cuda_array_interface__": {**array, "version": 3}}
        )
        return torch.as_tensor(owner(), device=f"cuda:{device_id}")
    if device_type != "cpu":
        raise NotImplementedError(f"memory of {device_type!r} can't be bound here")
    if not math.prod(shape):
        return torch.from_numpy(np.empty(tuple(shape), dtype))
    memory = (ctypes.c_char * (math.prod(shape) * dtype.itemsize)).from_address(at)
    return torch.from_numpy(np.frombuffer(memory, dtype).reshape(tuple(shape)))


def written(result: Any, target: Any, name: str) -> Any:
    """The result where it was bound to: in the caller's memory or OrtValue."""
    if target is None:
        return result
    got = result.dtype.name, list(result.shape)
    if is_ort_value(target):
        bound = NUMBERED.get(target.element_type(), got[0]), target.shape()
    else:
        bound = str(target.dtype).removeprefix("torch."), list(target.shape)
    if got != bound:
        text = f"output {name!r} is of type and shape {got}, bound is {bound}"
        raise invalid(text)
    if is_ort_value(target):
        target.update_inplace(np.ascontiguousarray(result))
    else:
        target.copy_(torch.from_numpy(result))
    return target


def is_ort_value(value: Any) -> bool:
    return type(value).__name__ == "OrtValue"


def plain(value: Any) -> Any:
    """What an OrtValue holds; other values as they are."""
    return value.numpy() if is_ort_value(value) else value


def on_cpu(value: Any) -> Any:
    """What an OrtValue or a tensor holds; other values as they are."""
    is_tensor = isinstance(value, torch.Tensor)
    return value.numpy(force=True) if is_tensor else plain(value)


def ort_value(value: Any) -> Any:
    """An OrtValue with memory of its own, which outlives what it was made from."""
    if is_ort_value(value):
        return value
    if not isinstance(value, (np.ndarray, torch.Tensor)):
        raise NotImplementedError(f"a {type(value).__name__} can't become an OrtValue")
    array, OrtValue = on_cpu(value), import_module("onnxruntime").OrtValue
    if array.dtype.kind not in "biuf" or not array.size:
        return OrtValue.ortvalue_from_numpy(array)
    made = OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype.type)
    made.update_inplace(array)
    return made
