"""What emitted source says, apart from the names that it chooses itself."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Iterator

import torch


def texts(tree: ast.Module) -> Iterator[str]:
    """What a module says, the names that it gives itself made alike.

    Every import, every name that is neither bound here nor a class of the module, every
    dotted name from such a root, every method of anything else, and kinds of syntax.
    """
    classes = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    for scope in tree.body:
        bound = {n.arg for n in ast.walk(scope) if isinstance(n, ast.arg)}
        stores = (n for n in ast.walk(scope) if isinstance(n, ast.Name))
        bound |= {n.id for n in stores if isinstance(n.ctx, ast.Store)}
        for item in ast.walk(scope):
            yield type(item).__name__
            if isinstance(item, ast.Import | ast.ImportFrom):
                yield ast.unparse(item)
            elif isinstance(item, ast.Name | ast.Attribute):
                yield plain(item, bound, classes)
            elif isinstance(item, ast.FunctionDef):
                yield f"def {item.name}"


def plain(item: ast.expr, bound: set[str], classes: set[str]) -> str:
    if isinstance(item, ast.Attribute):
        root = plain(item.value, bound, classes)
        return f"{root}.{'member' if root == 'self' else item.attr}"
    if isinstance(item, ast.Name):
        if item.id in classes:
            return "a class"
        return "a variable" if item.id in bound - {"self"} else item.id
    return "a value"


def bindings(tree: ast.Module) -> Iterator[str]:
    """Every name that the network's classes give: to classes, members, variables."""
    for scope in tree.body:
        if not isinstance(scope, ast.ClassDef):
            continue
        yield scope.name
        for item in ast.walk(scope):
            if isinstance(item, ast.arg) and item.arg != "self":
                yield item.arg
            elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
                yield item.id
            elif isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store):
                yield ast.unparse(item)


TAKEN = {*keyword.kwlist, *dir(builtins), "torch", "nn", "F", "math", "Tensor", "Path"}
TAKEN |= {"self", "load", "safe_open", "WEIGHTS", "INPUTS", "OUTPUTS", "MODEL_SHA256"}
TAKEN |= {"Model", "exclusive_cumsum"}
TAKEN |= {f"self.{name}" for name in (*dir(torch.nn.Module()), *keyword.kwlist)}
