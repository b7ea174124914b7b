"""Runs models on ONNX Runtime, and emitted packages, for the process that started it.

    python child.py

Requests are read from standard input and answered on standard output, one at a time;
`write` and `read` say in which form. This file is started by path, so it imports
nothing of ours, and neither may a package.

    {"load": PATH or bytes of a model, "threads": N} -> {"session": K, "outputs": [..]}
    {"package": PATH, "engine": NAME or ""} -> likewise
    {"run": K, "outputs": [NAME ..] or None, "feed": {..}} -> {"results": [..]}
    {"run": K, "values": [..]} -> likewise, inputs by their place
    {"drop": K} -> {}
    {"call": "module:function", "root": PATH of its package's folder, "given": {..}} ->
        what that returns

A request may say how many bytes of "memory" answering it may take. What fails is
answered by {"error": TEXT}.

    python child.py fork

forks processes that do all this, without the second that it takes to load PyTorch.
Standard input is a socket then:

    {"environ": {..}, "folder": PATH}, and descriptors of its standard input and output
        -> {"pid": N}
    {"import": [NAME of a module ..]} and no reply, for those that are forked then
    {"kill": N} -> {}
    {"wait": N} -> {"code": its return code, or None while it runs}
"""

import sys

if __name__ == "__main__":
    # This file's folder would hide modules of the standard library, such as inspect.
    del sys.path[0]

import ctypes
import importlib
import importlib.util
import json
import os
import queue
import re
import signal
import socket
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

BANNED = {"fairhand", "onnx", "onnxruntime", "onnx_ir"}  # in a package's process
_LOADED = ["torch", "safetensors"]
# Names in PyTorch that it gives other functions itself, when it compiles.
_ITS_OWN = {"manual_seed", "__init__", "__setstate__"}
_LAYERS = "torch.nn.modules."
OUT_OF_MEMORY = "out of memory"
# As the system, PyTorch, ONNX Runtime and C++ say it.
_NO_MEMORY = re.compile(
    r"Cannot allocate memory|can't allocate memory|Failed to allocate memory|bad_alloc"
)
# What ONNX Runtime has no arrays for, or hands out as bits.
BYTES_ALONE = re.compile(r"tensor\((bfloat16|u?int[24]|float[48].*)\)", re.IGNORECASE)


class Sessions:
    """What was loaded, by number."""

    def __init__(self) -> None:
        self.loaded: dict[int, Any] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request; raises whatever fails."""
        if "load" in request:
            return self._enter(_on_onnx_runtime(request["load"], request["threads"]))
        if "package" in request:
            return self._enter(_of_package(request["package"], request["engine"]))
        if "drop" in request:
            self.loaded.pop(request["drop"], None)
            return {}
        if "call" in request:
            before = _functions()
            made = dict(_function(request["call"], request["root"])(request["given"]))
            _refuse_others(before)
            return made
        session = self.loaded[request["run"]]
        if "values" not in request:
            return {"results": _results(session, request["outputs"], request["feed"])}
        names = [tensor.name for tensor in session.get_inputs()]
        feed = dict(zip(names, request["values"], strict=True))
        session.run(None, feed)  # engines take a size for granted from its second call
        results = session.run(None, feed)
        assert len(results) == len(session.get_outputs())
        return {"results": results}

    def _enter(self, session: Any) -> dict[str, Any]:
        number = len(self.loaded) + 1 + max(self.loaded, default=0)
        self.loaded[number] = session
        names = [tensor.name for tensor in session.get_outputs()]
        return {"session": number, "outputs": names}


def _on_onnx_runtime(model: str | np.ndarray, threads: int) -> Any:
    """A session on the CPU, every optimisation off."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.enable_cpu_mem_arena = False
    options.enable_mem_reuse = False  # it trusts the sizes that a file declares
    source = model if isinstance(model, str) else model.tobytes()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _results(session: Any, names: list[str] | None, feed: dict[str, Any]) -> list[Any]:
    """What ONNX Runtime gives. Its `run` knows no arrays of bfloat16, of some of its
    types of 8 bits, and of those of fewer: they go in and come out as their bytes."""
    kinds = [tensor.type for tensor in session.get_outputs()]
    if not any(map(BYTES_ALONE.fullmatch, kinds)) and not any(
        isinstance(array, np.ndarray) and array.dtype.isbuiltin == 2
        for array in feed.values()
    ):
        return list(session.run(names, feed))
    values = {name: to_value(array) for name, array in feed.items()}
    return [to_array(value) for value in session.run_with_ort_values(names, values)]


def to_value(array: np.ndarray) -> Any:
    """The array as ONNX Runtime's, of any type that ONNX has."""
    ort_value = importlib.import_module("onnxruntime").OrtValue
    if array.dtype.isbuiltin != 2:  # of another package, ml_dtypes
        return ort_value.ortvalue_from_numpy(np.require(array, requirements=["C", "A"]))
    packed = importlib.import_module("onnx.numpy_helper").from_array(array)
    made = ort_value.ortvalue_from_shape_and_type(array.shape, packed.data_type)
    ctypes.memmove(made.data_ptr(), packed.raw_data, made.tensor_size_in_bytes())
    return made


def to_array(value: Any) -> Any:
    """A value of ONNX Runtime's as arrays, those of ml_dtypes where NumPy has none."""
    if not value.is_tensor() or not BYTES_ALONE.fullmatch(value.data_type()):
        return value.numpy()
    onnx = importlib.import_module("onnx")
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    proto = onnx.TensorProto(
        dims=value.shape(), data_type=value.element_type(), raw_data=data
    )
    return onnx.numpy_helper.to_array(proto)


def module_name(folder: str) -> str:
    """What a package is imported as here: it may be called json, or torch."""
    return "package_" + re.sub(r"\W", "_", str(Path(folder).resolve()))


def imported(folder: str) -> Any:
    """The package in a folder, by its place."""
    name, place = module_name(folder), Path(folder).resolve() / "__init__.py"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, place)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _of_package(folder: str, engine: str) -> Any:
    before = _functions()
    module = imported(folder)
    banned = BANNED & set(sys.modules)
    if banned:
        raise ImportError(f"the emitted package imports {', '.join(sorted(banned))}")
    # An engine that gives a network up has nothing to offer but its preparations.
    warnings.filterwarnings("error", "the network runs as it stands")
    chosen = {"engine": engine} if engine else {}
    session = module.Session(**chosen)
    _refuse_others(before)
    return session


def _refuse_others(before: dict[str, Any]) -> None:
    """Raise ImportError where a package, loaded or run, gave PyTorch functions that are
    others than these: its reference calls them, too."""
    now = _functions()
    for name in before | now:
        if before.get(name) != now.get(name):
            raise ImportError(f"the package replaces PyTorch's {name}")


def _functions() -> dict[str, Any]:
    """What networks call of PyTorch, by its name, and what that goes by."""
    torch = importlib.import_module("torch")
    functional = torch.nn.functional
    files = [f for n, f in sorted(sys.modules.items()) if n.startswith(_LAYERS)]
    owners = [torch, torch.nn, functional, torch._C._nn, torch.Tensor, *files]
    owners += [kind for kind in vars(torch.nn).values() if isinstance(kind, type)]
    found = {
        f"{owner.__name__}.{name}": value
        for owner in owners
        for name, value in vars(owner).items()
        if (callable(value) or value is functional) and name not in _ITS_OWN
    }
    hooks = vars(torch.nn.modules.module).items()
    found |= {name: [*held] for name, held in hooks if name.startswith("_global_f")}
    kernels = getattr(importlib.import_module("torch.library"), "_impls", ())
    found["kernels"] = {k for k in kernels if re.match(r"aten/.*/(?!Meta)", k)}
    return {**found, "default type": torch.get_default_dtype()}


def _function(path: str, root: str) -> Any:
    """A function of ours, which is not on the path: packages have to do without."""
    if root not in sys.path:
        sys.path.append(root)
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def limit_memory(most: int | None) -> None:
    """Let this process take so many bytes more than it has; None lifts the limit."""
    try:
        resource: Any = importlib.import_module("resource")
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of private data
    except (ImportError, OSError):
        return  # a system that can't tell
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = hard if most is None else pages * resource.getpagesize() + most
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def main() -> None:
    """Answer requests until standard input ends, as it does when the parent dies."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no reply
    requests = queue.SimpleQueue[dict[str, Any]]()
    threading.Thread(target=_listen, args=[requests], daemon=True).start()
    sessions = Sessions()
    while True:
        request = requests.get()
        try:
            limit_memory(request.get("memory"))
            reply = sessions.answer(request)
        except MemoryError:
            reply = {"error": OUT_OF_MEMORY}
        except Exception as error:
            reply = {"error": _said(error)}
        del request
        limit_memory(None)
        write(replies, reply)
        del reply


def fork() -> None:
    """Fork a process for each request, until the parent closes the socket, or dies.

    Variables that libraries read when they load are as they were when this began.
    """
    for name in _LOADED:
        importlib.import_module(name)
    parent = socket.socket(fileno=0)
    children = set[int]()
    while True:
        text, descriptors, _, _ = socket.recv_fds(parent, 1 << 20, 2)
        if not text:
            os._exit(0)
        request = json.loads(text)
        reply: dict[str, Any] = {}
        if "import" in request:
            for name in request["import"]:
                with suppress(ImportError):  # another version of PyTorch
                    importlib.import_module(name)
            continue
        if "kill" in request and request["kill"] in children:
            os.kill(request["kill"], signal.SIGKILL)
        elif "wait" in request:
            pid, status = os.waitpid(request["wait"], os.WNOHANG)
            children.discard(pid)
            reply = {"code": os.waitstatus_to_exitcode(status) if pid else None}
        elif "environ" in request:
            reply = {"pid": os.fork()}
            if not reply["pid"]:
                break
            children.add(reply["pid"])
        for descriptor in descriptors:
            os.close(descriptor)
        parent.send(json.dumps(reply).encode())
    parent.detach()
    for descriptor, place in zip(descriptors, (0, 1), strict=True):
        os.dup2(descriptor, place)  # the socket is closed by it
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    main()


def _said(error: Exception) -> str:
    """What an exception says; ONNX Runtime's name their kind themselves."""
    if _NO_MEMORY.search(str(error)):
        return OUT_OF_MEMORY
    name = type(error).__name__
    own = type(error).__module__.startswith("onnxruntime")
    return str(error) if own else f"{name}: {error}".removesuffix(": ")


def _listen(requests: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Hand on requests, and end the process with its parent, whatever it does then."""
    while True:
        try:
            requests.put(read(sys.stdin.buffer))
        except BaseException:
            os._exit(0)


def write(stream: Any, value: Any) -> None:
    """Write a tree of arrays, arrays of strings, lists, maps, and what JSON has.

    Its text goes first, then the elements of its arrays in the order they stand in it.
    """
    arrays: list[np.ndarray] = []
    text = json.dumps(_packed(value, arrays)).encode()
    stream.write(len(text).to_bytes(8, "little") + text)
    for array in arrays:
        stream.write(array.reshape(-1).view(np.uint8).data)
    stream.flush()


def read(stream: Any) -> Any:
    """The inverse of write(). Raises EOFError where the stream ends before that."""
    size = int.from_bytes(_exactly(stream, 8).tobytes(), "little")
    return _unpacked(json.loads(_exactly(stream, size).tobytes()), stream)


def _exactly(stream: Any, size: int) -> np.ndarray:
    buffer = np.empty(size, np.uint8)
    if size and stream.readinto(buffer.data) != size:
        raise EOFError
    return buffer


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        texts = [str(text) for text in value.reshape(-1)]
        return {"strings": texts, "shape": value.shape}
    if isinstance(value, np.ndarray):
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        arrays.append(np.require(value, requirements=["C", "A"]))
        return {"array": value.shape, "dtype": value.dtype.name}
    if isinstance(value, dict):
        keys, values = list(value), [_packed(v, arrays) for v in value.values()]
        return {"keys": [_packed(k, arrays) for k in keys], "values": values}
    if isinstance(value, list):
        return [_packed(item, arrays) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _unpacked(node: Any, stream: Any) -> Any:
    if isinstance(node, list):
        return [_unpacked(item, stream) for item in node]
    if not isinstance(node, dict):
        return node
    if "strings" in node:
        array = np.empty(len(node["strings"]), object)
        array[:] = node["strings"]
        return array.reshape(node["shape"])
    if "array" in node:
        dtype, shape = _dtype(node["dtype"]), tuple(node["array"])
        size = dtype.itemsize * int(np.prod(shape, dtype=object))
        return _exactly(stream, size).view(dtype).reshape(shape)
    keys = _unpacked(node["keys"], stream)
    return dict(zip(keys, _unpacked(node["values"], stream), strict=True))


def _dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        # Loaded for bfloat16 and the like alone: it would make NumPy know more than a
        # package can count on.
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))


if __name__ == "__main__":
    fork() if sys.argv[1:] == ["fork"] else main()
