"""fairhand writes an ONNX model out as PyTorch source in a fair hand.

    package = fairhand.compile("model.onnx", "generated/model")

A user's own operators (custom domains, or other spellings of built-in ones):

    fairhand.register(fairhand.OpDef("Scale", since=1, domain="my.company",
                                     mapping=fairhand.ONE_TO_ONE,
                                     torch=lambda t, n, x: x * n.attr("factor", 1.0)))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analysis.errors import (
        FairhandError,
        LoadError,
        Unsupported,
        VerificationError,
    )
    from .analysis.ops import register
    from .analysis.ops.module_form import ModuleForm, Weight
    from .analysis.ops.node_view import NodeView
    from .analysis.ops.registry import (
        MANY_TO_MANY,
        ONE_TO_MANY,
        ONE_TO_ONE,
        OPAQUE,
        REORGANIZE,
        SHUFFLE,
        OpDef,
    )
    from .codegen.commands.run import packages_in_place
    from .codegen.export.onnx_file import Exported, export
    from .codegen.pipeline import Package, compile

__version__ = "0.1.0"

# Name -> where it is defined. Loaded on first use, so that `fairhand --version` and
# error messages don't wait for the graph libraries.
_HOMES = {
    "FairhandError": "analysis.errors",
    "LoadError": "analysis.errors",
    "Unsupported": "analysis.errors",
    "VerificationError": "analysis.errors",
    "register": "analysis.ops",
    "MANY_TO_MANY": "analysis.ops.registry",
    "ONE_TO_MANY": "analysis.ops.registry",
    "ONE_TO_ONE": "analysis.ops.registry",
    "OPAQUE": "analysis.ops.registry",
    "REORGANIZE": "analysis.ops.registry",
    "SHUFFLE": "analysis.ops.registry",
    "ModuleForm": "analysis.ops.module_form",
    "NodeView": "analysis.ops.node_view",
    "OpDef": "analysis.ops.registry",
    "Weight": "analysis.ops.module_form",
    "Exported": "codegen.export.onnx_file",
    "Package": "codegen.pipeline",
    "compile": "codegen.pipeline",
    "export": "codegen.export.onnx_file",
    "packages_in_place": "codegen.commands.run",
}

__all__ = [
    "MANY_TO_MANY",
    "ONE_TO_MANY",
    "ONE_TO_ONE",
    "OPAQUE",
    "REORGANIZE",
    "SHUFFLE",
    "Exported",
    "FairhandError",
    "LoadError",
    "ModuleForm",
    "NodeView",
    "OpDef",
    "Package",
    "Unsupported",
    "VerificationError",
    "Weight",
    "__version__",
    "compile",
    "export",
    "packages_in_place",
    "register",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairhand' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
