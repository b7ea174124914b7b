"""Where the bytes of a tensor lie: in the model file, or in a file beside it.

A model names its external files itself, and a model is not to be trusted: it could name
`/etc/passwd`, a pipe that never ends, or ten bytes more than the file has. So a file is
opened only if it really lies in the model's own folder, links followed, and every range
is checked against the file before anything is read.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.errors import LoadError
from ...analysis.graph.weightless import CUT_PREFIX

Cut = memoryview | ir.TensorProtocol


def shown(name: str) -> str:
    """A name from a file, safe to print: quoted, control characters escaped, cut."""
    return repr(name if len(name) <= 80 else name[:77] + "...")


def map_file(path: Path, what: str) -> memoryview:
    """The bytes of a file, memory-mapped; LoadError when it can't be read as one."""
    try:
        # A pipe would block the open itself, so ask what it is before opening it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise LoadError(f"{what} is not a regular file", f"file {path}")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise LoadError(f"{what} does not exist", f"file {path}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LoadError(f"{what} can't be read: {reason}", f"file {path}") from None


class Payloads:
    """The bytes of the tensors whose content is not in the parsed model.

    `cuts` are addressed by index; `files` maps the location of each external file, in
    the order of first mention, to its bytes.
    """

    def __init__(self, path: Path | None, cuts: Sequence[Cut]) -> None:
        self.path = path
        self.cuts = list(cuts)
        self.files: dict[str, memoryview] = {}
        self._cut_from_file = len(self.cuts)

    def settle(self, tensor: onnx.TensorProto, size: int, where: str) -> Cut:
        """Find the `size` bytes of an external tensor; leave only their index in it.

        Afterwards `tensor` names a cut and nothing else, so that no later reader can
        be led to a file. Raises LoadError for a file or a range that is not allowed.
        """
        notes = {entry.key: entry.value for entry in tensor.external_data}
        location = notes.get("location", "")
        if location.startswith(CUT_PREFIX):
            index = location.removeprefix(CUT_PREFIX)
            if not index.isdigit() or int(index) >= self._cut_from_file:
                raise LoadError("an external file has an impossible name", where)
            number = int(index)
        else:
            self.cuts.append(self._range(location, notes, size, where))
            number = len(self.cuts) - 1
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=f"{CUT_PREFIX}{number}")
        return self.cuts[number]

    def tensor(self, settled: ir.ExternalTensor) -> ir.TensorProtocol:
        """The tensor that a settled one stands for: a read-only view, nothing copied.

        The array of a view may be unaligned: a model file pads nothing.
        """
        cut = self.cuts[int(str(settled.location).removeprefix(CUT_PREFIX))]
        dtype, shape, name = settled.dtype, settled.shape, settled.name
        if not isinstance(cut, memoryview):
            return ir.LazyTensor(lambda: cut, dtype, shape, name=name)
        if dtype.bitwidth < 8:
            packed = np.frombuffer(cut, np.uint8)
            return ir.PackedTensor(packed, dtype, shape=shape, name=name)
        array = np.frombuffer(cut, dtype.numpy().newbyteorder("<"))
        return ir.Tensor(array.reshape(shape.numpy()), dtype, shape=shape, name=name)

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The elements of a checked tensor."""
        found: ir.TensorProtocol = ir.serde.deserialize_tensor(tensor)
        if isinstance(found, ir.ExternalTensor):
            found = self.tensor(found)
        return found.numpy()

    def _range(
        self, location: str, notes: dict[str, str], size: int, where: str
    ) -> memoryview:
        if location not in self.files:
            self.files[location] = map_file(
                self._locate(location, where),
                f"the external data file {shown(location)} of {where}",
            )
        whole = self.files[location]
        offset = _number(notes, "offset", 0, where)
        length = _number(notes, "length", size, where)
        if offset + length > len(whole):
            raise LoadError(
                f"{where} lies outside its external file",
                f"file {shown(location)}: bytes {offset} to {offset + length} "
                f"of {len(whole)}",
                "the file may be truncated, or belong to another model",
            )
        return whole[offset : offset + length]

    def _locate(self, location: str, where: str) -> Path:
        """The path of an external file, if it lies in the folder of the model."""
        if self.path is None:
            raise LoadError(
                "the model was given as an object, but its weights lie in a file",
                f"{where}, external file {shown(location)}",
                "pass the path of the .onnx file instead",
            )

        def refused(what: str) -> LoadError:
            return LoadError(
                what,
                f"{where}, external file {shown(location)}",
                "move the weights beside the model and name them by a relative path",
            )

        if not location or "\0" in location:
            raise refused("external data must be in a file with a name")
        # A drive, a root, steps up by either slash, whatever system it was written for.
        named = location.replace("\\", "/")
        folder = self.path.parent.resolve()
        inside = Path(os.path.normpath(folder / named)).is_relative_to(folder)
        if named[0] == "/" or named.split("/")[0].endswith(":") or not inside:
            raise refused("external data is named by a path that leaves the folder")
        # Caches store a model as links into a pool of files: there, the folder of the
        # model file is the folder its own link leads to.
        folders = {folder, self.path.resolve().parent}
        found = (self.path.parent / location).resolve()
        if not any(found.is_relative_to(folder) for folder in folders):
            raise refused("external data must lie in the folder of the model file")
        return found


def _number(notes: dict[str, str], key: str, default: int, where: str) -> int:
    text = notes.get(key) or str(default)
    # Twenty digits hold every size there is; int() of a million digits does not end.
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise LoadError(
            f"the external data of {where} has no usable {key}", f"value {shown(text)}"
        )
    return int(text)
