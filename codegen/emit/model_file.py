"""model.py of a package: what its page is filled with besides the plan."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..ir.copied_source import import_lines
from ..ir.package_plan import PackagePlan
from .render import render_page, render_python

ALWAYS = {
    "Path": ("pathlib", "Path"),
    "torch": ("torch", ""),
    "safe_open": ("safetensors", "safe_open"),
    "Tensor": ("torch", "Tensor"),
    "nn": ("torch", "nn"),
}
# What a network may read besides.
OTHERS = {
    "Any": ("typing", "Any"),
    "Callable": ("collections.abc", "Callable"),
    "F": ("torch.nn.functional", ""),
    "Sequence": ("collections.abc", "Sequence"),
    "json": ("json", ""),
    "math": ("math", ""),
    "np": ("numpy", ""),
    "re": ("re", ""),
}


def model_text(plan: PackagePlan) -> str:
    """The text of model.py; FairhandError where it is no valid Python."""
    read = set(_names_read(plan))
    names = ALWAYS | {name: module for name, module in OTHERS.items() if name in read}
    if plan.lanes:
        names |= {name: (".lanes", name) for name in ("divides_threads", "run_lanes")}
    names |= {name: (".kernels", name) for name in plan.kernels}
    imports = import_lines(names)
    if plan.helpers:
        imports = ["from __future__ import annotations", "", *imports]
    load = render_page("load.py.jinja", plan=plan)
    return render_python("model.py.jinja", plan=plan, imports=imports, load=load)


def _names_read(plan: PackagePlan) -> Iterator[str]:
    """The names that the helpers, the statements and the annotations of a page read."""
    texts = [*plan.helpers]
    for cls in plan.classes:
        for method in cls.methods:
            texts += ["\n".join(method.body), method.returns]
            texts += (argument.annotation for argument in method.arguments)
    for text in texts:
        nodes = ast.walk(ast.parse(text))
        yield from (node.id for node in nodes if isinstance(node, ast.Name))
