"""Write the reference pages that follow from the tables.

python docs/generate.py            writes docs/operators.md and docs/rules.md
python docs/generate.py --check    exits 1 if a page is not what the tables say
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from fairhand.analysis import ops
from fairhand.analysis.ops.registry import OPS, OpDef
from fairhand.analysis.ops.type_rules import UNLISTED
from fairhand.rewrites.adapters.opset_adapters import TARGET_OPSET
from fairhand.rewrites.lowering import load_all
from fairhand.rewrites.lowering.by_type import LOWERINGS
from fairhand.rewrites.normalise import EXTENSIONS

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from rules_page import rules_page
from support.operator_cases import cases_of

load_all()
OP_TYPE = "{op_type}"  # stands for the name of the operator in a message
DOCS = Path(__file__).resolve().parent
HEADER = f"""# Operators

<!-- Written by docs/generate.py from the operator table; don't edit. -->

Each operator as fairhand spells it, in its newest form: an older opset's, from 1 on, is
brought to that of opset {TARGET_OPSET} first; Upsample is Resize then, Scatter
ScatterElements. If, Loop and Scan become Python's own and have no row. *Since* is the
version in which this form began. *Mapping* is the operator's mapping type in the sense
of DNNFusion (PLDI 2021).
*Layer* says whether it may become an `nn.Module` that owns its parameters, where those
are constants of the file. *Cases* are its tests, most of them against ONNX Runtime.

An operator that is not in the table is refused when a model is compiled, before
anything is written; `--ops` can add it. So are some
[variants](#variants-that-are-refused) of those that are.
"""
OWN = """
## Operators of ONNX Runtime

What its optimiser and its exporters write in the domain com.microsoft is spelled with
the operators of ONNX above before anything else, attribute for attribute: layers,
shapes and rewrite rules then know it like any other model's. Those that ONNX can't
spell stand in the table with their domain.
"""
LOWERED = """
Of ai.onnx.ml these, and Gradient of ai.onnx.preview.training, likewise become operators
of the table:

"""
GAPS = """
## Variants that are refused

In the words of the messages. Left out are those that depend on a value of the node,
such as an unknown mode. Beyond these, a rank, or a number that decides the form of the
code, has to be known from the file; a type has to be one that PyTorch computes with.
"""


def operators_page() -> str:
    """docs/operators.md"""
    rows = sorted(OPS.values(), key=lambda op: (op.domain, op.name))
    table = [
        ("Operator", "Domain", "Since", "Mapping", "Layer", "Cases"),
        ("---", "---", "---:", "---", "---", "---:"),
        *(
            (
                op.name,
                op.domain or "ai.onnx",
                str(op.since),
                op.mapping.value,
                "yes" if op.module is not None else "",
                str(len(cases_of(op))),
            )
            for op in rows
        ),
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    count = f"\n{len(rows)} operators, {sum(len(cases_of(op)) for op in rows)} cases.\n"
    own = ", ".join(sorted(name for domain, name in spelled_apart() if domain))
    own = textwrap.fill(f"{own}, and {UNLISTED} of ai.onnx.", 88)
    bare = {name for domain, name in spelled_apart() if not domain} - {UNLISTED}
    *tried, last = sorted(bare)
    early = f"{', '.join(tried)} and {last}"
    own += "\n\n" + textwrap.fill(
        f"So are {early}, which ONNX had before opset 10.", 88
    )
    gaps = [f"- {text}" for op in rows for text in gaps_of(op)]
    return "\n".join([HEADER, *lines, count + OWN, own, lowered() + GAPS, *gaps, ""])


def spelled_apart() -> list[tuple[str, str]]:
    """The operators outside of ONNX that become operators of ONNX."""
    return [key for key in EXTENSIONS if key not in OPS]


def lowered() -> str:
    """The operators that have no entry of their own."""
    keys = (key for key in LOWERINGS if key[0] == "ai.onnx.ml" and key not in OPS)
    names = sorted(name for _, name in keys)
    return LOWERED + textwrap.fill(", ".join(names), 88) + ".\n"


# ------------------------------------------------------------------------- gaps


def gaps_of(op: OpDef) -> list[str]:
    """What the operator's spellings may refuse, whatever the node's values.

    A function that several operators share may hold words for one of them alone: those
    of another name, or of an attribute that this operator doesn't have, are left out.
    """
    found = set()
    for function in reached([op.torch, op.strings, op.module]):
        for text in refusals(function):
            name, _, rest = text.partition(" ")
            if name in (op.name, OP_TYPE) and "..." not in rest and _applies(rest, op):
                found.add(f"{op.name} {rest}")
    return sorted(found)


def _applies(text: str, op: OpDef) -> bool:
    schema = onnx.defs.get_schema(op.name, domain=op.domain) if not op.domain else None
    if schema is None:
        return True
    own = set(schema.attributes) | {i.name for i in schema.inputs}
    return not (set(re.findall(r"\w+", text)) & _attributes()) - own


@cache
def _attributes() -> frozenset[str]:
    """Names of attributes that are no ordinary words: ceil_mode, dilations."""
    schemas = onnx.defs.get_all_schemas()
    names = {name for schema in schemas for name in schema.attributes}
    return frozenset(n for n in names if "_" in n or n in ("dilations", "strides"))


def reached(roots: list[Any]) -> list[Callable[..., Any]]:
    """The functions of the operator table that the given ones may call."""
    found: dict[int, Callable[..., Any]] = {}
    todo = _functions(roots)
    while todo:
        function = inspect.unwrap(todo.pop())
        if id(function) in found or not function.__module__.startswith(ops.__name__):
            continue
        found[id(function)] = function
        for cell in function.__closure__ or ():
            todo += _functions(cell.cell_contents)
        names = {n for code in _codes(function.__code__) for n in code.co_names}
        for name in sorted(names):
            todo += _functions(function.__globals__.get(name))
    return list(found.values())


def _functions(value: Any) -> list[Any]:
    """A function, or those in a table of them."""
    if isinstance(value, dict):
        return _functions(list(value.values()))
    if isinstance(value, tuple | list):
        return [f for item in value for f in _functions(item)]
    return [value] if inspect.isfunction(value) else []


def _codes(code: Any) -> Iterator[Any]:
    """A function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _codes(constant)


@cache
def refusals(function: Callable[..., Any]) -> tuple[str, ...]:
    """The texts of its n.refuse(...), with OP_TYPE and "..." for what is put in."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):  # a lambda in the middle of an expression
        return ()
    return tuple(
        _text(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "refuse"
    )


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return OP_TYPE if ast.unparse(node.value) == "n.node.op_type" else "..."
    return "..."


# ------------------------------------------------------------------------- command

PAGES: dict[str, Callable[[], str]] = {
    "operators.md": operators_page,
    "rules.md": rules_page,
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(argv).check
    stale = []
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if not path.is_file() or path.read_text("utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, "utf-8", newline="\n")
    if stale:
        print("stale:" if check else "written:", ", ".join(stale))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
