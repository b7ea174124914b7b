"""Compile kernels for a GPU that needn't be there: python compile_kernels.py FOLDER.

In a process of its own, since Triton's interpreter and its compiler exclude each other.
The folder holds *.py files, each with a *.json of its kernels' argument types.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# Small: unrolled float32 products take the compiler long.
CONSTANTS = {
    "BLOCK": 256,
    "DEPTH": 16,
    "BLOCK_P": 8,
    "BLOCK_M": 16,
    "BLOCK_N": 32,
    "BLOCK_K": 16,
    "BLOCK_D": 16,
    "BLOCK_E": 16,
    "HEIGHT": 3,
    "WIDTH": 2,
    "PRECISION": "ieee",
    "OFFSETS": tl.int32,
}
HOPPER = GPUTarget("cuda", 90, 32)


def compile_file(path: Path) -> int:
    """The number of kernels in a file; raises what the compiler raises."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    signatures = json.loads(path.with_suffix(".json").read_text("utf-8"))
    for name, types in signatures.items():
        function = getattr(module, name)
        assert list(types) == function.arg_names
        constants = {
            (i,): CONSTANTS[name] for i, name in enumerate(types) if name in CONSTANTS
        }
        made = triton.compile(ASTSource(function, types, constants), target=HOPPER)
        assert "cubin" in made.asm
    return len(signatures)


if __name__ == "__main__":
    print(sum(compile_file(path) for path in sorted(Path(sys.argv[1]).glob("*.py"))))
