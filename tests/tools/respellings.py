"""Harmless edits of emitted source: is each taken for the function that it is?

    python -m tests.tools.respellings MODEL.onnx ... [--each 40] [--seed 0] [--show]

The counterpart of mutations.py: each package gets so many edits that leave the function
as it was, up to rounding: another spelling of one expression or statement, drawn from
what its syntax tree admits. A line per kind says what `verify --all-inputs` said of how
many: that they are the graph's calls to the bit, or by laws; that it is not decided; or
that they compute something else. A few of these do: `A.mT` is a transpose(2, 3) of four
dimensions alone, and `exp` overflows where a softmax doesn't.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fairhand
from fairhand.codegen.commands.verify import verify_all_inputs

from .mutations import Change, _become, mutants

# Of a call or an operator, with holes: the expressions that stand in its place.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "F.relu(A)": ("A.relu()", "torch.relu(A)", "A.clamp(min=0)", "A.clamp_min(0.0)"),
    "F.gelu(A)": (
        "0.5 * A * (1 + torch.erf(A / 2**0.5))",
        "A * 0.5 * (1.0 + torch.erf(A * 0.7071067811865475))",
    ),
    "F.silu(A)": ("A * torch.sigmoid(A)", "A * A.sigmoid()", "A / (1 + torch.exp(-A))"),
    "F.hardswish(A)": ("A * F.relu6(A + 3) / 6", "A * F.hardsigmoid(A)"),
    "F.hardsigmoid(A)": ("F.relu6(A + 3) / 6", "(A / 6 + 0.5).clamp(0, 1)"),
    "F.softplus(A)": ("torch.log1p(torch.exp(A))",),
    "torch.sigmoid(A)": ("A.sigmoid()", "F.sigmoid(A)", "1 / (1 + torch.exp(-A))"),
    "A.sigmoid()": ("torch.sigmoid(A)", "1 / (1 + torch.exp(-A))"),
    "torch.tanh(A)": ("A.tanh()", "F.tanh(A)"),
    "torch.exp(A)": ("A.exp()",),
    "torch.sqrt(A)": ("A.sqrt()", "A**0.5"),
    "torch.rsqrt(A)": ("A.rsqrt()", "1 / torch.sqrt(A)", "A**-0.5"),
    "A.rsqrt()": ("torch.rsqrt(A)", "1 / torch.sqrt(A)", "A.pow(-0.5)"),
    "A.square()": ("A * A", "A**2", "A.pow(2)"),
    "A.pow(2)": ("A * A", "A**2", "A.square()"),
    "A**2": ("A * A", "A.pow(2)", "torch.square(A)"),
    "A.mean(dim=(2, 3))": (
        "A.mean(3).mean(2)",
        "A.mean((-2, -1))",
        "A.flatten(2).mean(2)",
        "A.sum(dim=(2, 3)) / (A.shape[2] * A.shape[3])",
        "F.adaptive_avg_pool2d(A, 1).flatten(1)",
    ),
    "A.mean(dim=(2, 3), keepdim=True)": (
        "A.mean(2, keepdim=True).mean(3, keepdim=True)",
        "F.adaptive_avg_pool2d(A, 1)",
        "A.mean((2, 3))[:, :, None, None]",
    ),
    "A.mean(dim=1)": ("torch.mean(A, 1)", "A.sum(1) / A.shape[1]"),
    "A.mean(dim=-1, keepdim=True)": (
        "torch.mean(A, -1, True)",
        "A.sum(-1, keepdim=True) / A.shape[-1]",
        "A.mean(-1).unsqueeze(-1)",
    ),
    "A.softmax(dim=-1)": (
        "F.softmax(A, dim=-1)",
        "torch.softmax(A, -1)",
        "(A - A.amax(-1, keepdim=True)).exp()"
        " / (A - A.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)",
    ),
    "A.argmax(dim=-1)": ("A.topk(1).indices[..., 0]", "A.max(dim=-1).indices"),
    "A.amax(dim=-1)": ("A.topk(1).values[..., 0]", "A.max(dim=-1)[0]"),
    "A.flatten(1)": ("A.reshape(A.shape[0], -1)", "torch.flatten(A, 1)"),
    "A.flatten(2)": ("A.reshape(A.shape[0], A.shape[1], -1)", "torch.flatten(A, 2)"),
    "A.transpose(1, 2)": (
        "A.swapaxes(2, 1)",
        "torch.transpose(A, 1, 2)",
        "A.movedim(1, 2)",
    ),
    "A.transpose(2, 3)": ("A.mT", "A.transpose(-2, -1)", "A.transpose(-1, -2)"),
    "A.unsqueeze(1)": ("A[:, None]", "torch.unsqueeze(A, 1)"),
    "A.unsqueeze(-1)": ("A[..., None]", "torch.unsqueeze(A, -1)"),
    "A.unflatten(2, B)": ("A.view(*A.shape[:2], *B)", "A.reshape(*A.shape[:2], *B)"),
    "A.chunk(2, dim=1)": (
        "(A[:, : A.shape[1] // 2], A[:, A.shape[1] // 2 :])",
        "A.split(A.shape[1] // 2, 1)",
    ),
    "A[:, 0]": ("A.select(1, 0)", "A.narrow(1, 0, 1).squeeze(1)"),
    "A[:, -1]": ("A.select(1, -1)",),
    "torch.cat((A, B), dim=1)": ("torch.concat([A, B], 1)",),
    "torch.cat((A, B), dim=-1)": ("torch.concat([A, B], -1)",),
    "F.scaled_dot_product_attention(A, B, C)": (
        "torch.softmax(A @ B.transpose(-2, -1) / A.shape[-1] ** 0.5, -1) @ C",
        "torch.matmul(F.softmax(A @ B.mT * A.shape[-1] ** -0.5, dim=-1), C)",
        "torch.einsum('bhqk,bhkd->bhqd', (torch.einsum('bhqd,bhkd->bhqk', A, B)"
        " / A.size(-1) ** 0.5).softmax(-1), C)",
    ),
    "F.scaled_dot_product_attention(A, B, C, attn_mask=D)": (
        "torch.softmax(A @ B.transpose(-2, -1) / A.shape[-1] ** 0.5 + D, -1) @ C",
    ),
    "F.scaled_dot_product_attention(A, B, C, attn_mask=D, scale=E)": (
        "torch.softmax(A @ B.transpose(-2, -1) * E + D, -1) @ C",
    ),
    "A @ B": ("torch.matmul(A, B)", "A.matmul(B)"),
    "A.bool()": ("A != 0", "A.to(torch.bool)", "A.ne(0)"),
    "A.float()": ("A.to(torch.float32)", "A.type(torch.float32)"),
}
_ADDED = {
    ast.Add: ("torch.add(A, B)", "B + A"),
    ast.Mult: ("torch.mul(A, B)", "B * A"),
    ast.Sub: ("A + -B", "-B + A"),
    ast.Div: ("torch.div(A, B)", "A * (1 / B)"),
}
# Of a member of this class, called with A: M stands for it.
_LAYERS: dict[str, tuple[str, ...]] = {
    "Linear": (
        "F.linear(A, M.weight, M.bias)",
        "A @ M.weight.T + M.bias",
        "torch.matmul(A, M.weight.t()).add(M.bias)",
        "M.bias + A @ M.weight.mT",
        "torch.einsum('...i,oi->...o', A, M.weight) + M.bias",
    ),
    "Linear bias=False": (
        "F.linear(A, M.weight)",
        "A @ M.weight.T",
        "torch.matmul(A, M.weight.t())",
        "torch.einsum('...i,oi->...o', A, M.weight)",
    ),
    "LayerNorm": (
        "F.layer_norm(A, M.normalized_shape, M.weight, M.bias, M.eps)",
        "(A - A.mean(-1, keepdim=True))"
        " / torch.sqrt(A.var(-1, unbiased=False, keepdim=True) + M.eps)"
        " * M.weight + M.bias",
        "M.weight * ((A - A.mean(-1, True)) * torch.rsqrt(((A - A.mean(-1, True)) ** 2)"
        ".mean(-1, True) + M.eps)) + M.bias",
    ),
    "Conv2d": (
        "F.conv2d(A, M.weight, M.bias, M.stride, M.padding, M.dilation, M.groups)",
        "F.conv2d(F.pad(A, (M.padding[1], M.padding[1], M.padding[0], M.padding[0])),"
        " M.weight, M.bias, M.stride, 0, M.dilation, M.groups)",
        "torch.conv2d(A, M.weight, None, M.stride, M.padding, M.dilation, M.groups)"
        " + M.bias[:, None, None]",
    ),
    "Embedding": ("F.embedding(A, M.weight)", "M.weight[A]"),
    "Conv1d": (
        "F.conv1d(A, M.weight, M.bias, M.stride, M.padding, M.dilation, M.groups)",
        "F.conv1d(F.pad(A, (M.padding[0], M.padding[0])), M.weight, M.bias, M.stride,"
        " 0, M.dilation, M.groups)",
    ),
}


def _matched(pattern: ast.AST, node: ast.AST, holes: dict[str, ast.AST]) -> bool:
    """Whether an expression is this one, of what is then in the holes."""
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1 and pattern.id in "ABCDE":
        return holes.setdefault(pattern.id, node) is node
    if type(pattern) is not type(node):
        return False
    for field in pattern._fields:
        if field == "ctx":
            continue
        one, other = getattr(pattern, field, None), getattr(node, field, None)
        if isinstance(one, list):
            if len(one) != len(other):
                return False
            pairs = zip(one, other, strict=True)
            if not all(_matched(a, b, holes) for a, b in pairs):
                return False
        elif isinstance(one, ast.AST):
            if not isinstance(other, ast.AST) or not _matched(one, other, holes):
                return False
        elif one != other or type(one) is not type(other):
            return False
    return True


class _Fill(ast.NodeTransformer):
    def __init__(self, holes: dict[str, ast.AST]) -> None:
        self.holes = holes

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.holes.get(node.id, node)


def _filled(text: str, holes: dict[str, ast.AST]) -> ast.AST:
    return _Fill(holes).visit(ast.parse(text, mode="eval").body)


_PATTERNS = [(ast.parse(k, mode="eval").body, k) for k in _SPELLINGS]


def changes(tree: ast.Module) -> Iterator[tuple[str, Change]]:
    """The kinds of edit that methods admit, and how each is made."""
    for part in tree.body:
        if isinstance(part, ast.ClassDef):
            layers = dict(_layers(part))
            for function in part.body:
                made = isinstance(function, ast.FunctionDef)
                if made and function.name != "__init__":
                    yield from _of_method(part, function)
                    for node in ast.walk(function):
                        yield from _of(node, layers)
                        yield from _of_block(node)


def _layers(part: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node in ast.walk(part):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target, text = ast.unparse(node.targets[0]), ast.unparse(node.value)
            kind = ast.unparse(node.value.func)
            if kind.startswith("nn.") and "padding_mode" not in text:
                plain = " bias=False" * ("bias=False" in text)
                yield target, kind[3:] + plain


def _of(node: Any, layers: dict[str, str]) -> Iterator[tuple[str, Change]]:
    for pattern, text in _PATTERNS:
        holes: dict[str, ast.AST] = {}
        if isinstance(node, ast.expr) and _matched(pattern, node, holes):
            for new in _SPELLINGS[text]:
                yield text, _write(node, new, holes)
    if isinstance(node, ast.BinOp) and type(node.op) in _ADDED:
        holes = {"A": node.left, "B": node.right}
        numbers = [isinstance(x, ast.Constant) for x in holes.values()]
        for new in _ADDED[type(node.op)] if not any(numbers) else ():
            yield type(node.op).__name__, _write(node, new, holes)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in layers:
        kind = layers[ast.unparse(node.func)]
        if len(node.args) == 1 and not node.keywords:
            holes = {"A": node.args[0], "M": node.func}
            for new in _LAYERS.get(kind, ()):
                yield kind, _write(node, new, holes)


def _write(node: Any, text: str, holes: dict[str, ast.AST]) -> Change:
    return lambda draw: _become(node, _filled(text, holes))


def _of_method(
    part: ast.ClassDef, function: ast.FunctionDef
) -> Iterator[tuple[str, Change]]:
    stored = {
        n.id
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if stored:
        yield "renamed locals", lambda draw: _rename(function, stored)
    yield "a docstring", lambda draw: function.body.insert(
        0, ast.Expr(ast.Constant("What it does."))
    )
    for at, line in enumerate(function.body):
        one = isinstance(line, ast.Assign) and len(line.targets) == 1
        if one and isinstance(line.targets[0], ast.Name):
            yield "an annotation", lambda draw, at=at: _annotate(function, at)
            yield "a helper method", lambda draw, at=at: _help(part, function, at)
        if isinstance(line, ast.Return) and line.value is not None:
            yield "a named result", lambda draw, at=at: _named(function, at)


def _rename(function: ast.FunctionDef, stored: set[str]) -> None:
    arguments = {a.arg for a in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in stored - arguments:
            node.id = f"own_{node.id}"


def _annotate(function: ast.FunctionDef, at: int) -> None:
    line: Any = function.body[at]
    function.body[at] = ast.AnnAssign(
        line.targets[0], ast.Name("Tensor"), line.value, simple=1
    )


def _help(part: ast.ClassDef, function: ast.FunctionDef, at: int) -> None:
    """A statement's expression is what a method of its own returns."""
    line: Any = function.body[at]
    names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    stored = {
        n.id
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    } | {a.arg for a in function.args.args if a.arg != "self"}
    bound = {
        n.id
        for c in ast.walk(line.value)
        if isinstance(c, ast.comprehension)
        for n in ast.walk(c.target)
        if isinstance(n, ast.Name)
    }
    read = [n.id for n in ast.walk(line.value) if isinstance(n, ast.Name)]
    given = [n for n in dict.fromkeys(read) if n in stored & names and n not in bound]
    text = f"def _part(self, {', '.join(given)}):\n    return {ast.unparse(line.value)}"
    part.body.append(ast.parse(text).body[0])
    line.value = ast.parse(f"self._part({', '.join(given)})", mode="eval").body


def _named(function: ast.FunctionDef, at: int) -> None:
    line: Any = function.body[at]
    function.body[at : at + 1] = ast.parse(
        f"result = {ast.unparse(line.value)}\nreturn result"
    ).body


def _of_block(node: Any) -> Iterator[tuple[str, Change]]:
    body = getattr(node, "body", None)
    for i in range(len(body) - 1 if isinstance(body, list) else 0):
        if _independent(body[i], body[i + 1]):
            swapped = slice(i, i + 2)
            yield "another order", lambda draw, at=swapped: _turn(body, at)
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Attribute):
        text, target = ast.unparse(node.iter), ast.unparse(node.target)
        yield "a counted loop", lambda draw: _count(node, text, target)
        if len(node.body) == 1 and ast.unparse(node.body[0]) == f"x = {target}(x)":
            new = f"x = nn.Sequential(*{text})(x)"
            yield "a Sequential", lambda draw: _become(node, ast.parse(new).body[0])


def _turn(body: list[Any], at: slice) -> None:
    body[at] = body[at][::-1]


def _count(node: ast.For, text: str, target: str) -> None:
    node.target = ast.Name("index", ast.Store())
    node.iter = ast.parse(f"range(len({text}))", mode="eval").body
    node.body.insert(0, ast.parse(f"{target} = {text}[index]").body[0])


def _independent(one: Any, other: Any) -> bool:
    if not all(isinstance(x, ast.Assign) for x in (one, other)):
        return False
    sets = []
    for line in (one, other):
        names = [n for n in ast.walk(line) if isinstance(n, ast.Name)]
        stores = {n.id for n in names if isinstance(n.ctx, ast.Store)}
        sets.append((stores, {n.id for n in names}))
    (set1, all1), (set2, all2) = sets
    calls = "append" in ast.unparse(one) + ast.unparse(other)
    return not (set1 & all2 or set2 & all1 or calls)


def judged(package: Path, model: Path) -> tuple[str, str]:
    """What `verify --all-inputs` says of an edited package: in a word, and whole."""
    try:
        said = verify_all_inputs(package, model)
    except fairhand.FairhandError as error:
        text = error.what
        words = {"not decided": "not decided", "may compute": "not decided"}
        kind = next((words[k] for k in words if k in text), "refused")
        return kind, text
    return ("by laws" if "proven laws" in said else "to the bit"), ""


def main() -> None:
    """Print the table for the models on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--each", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for i, model in enumerate(map(Path, given.models)):
            written = Path(folder) / f"written_{i}"
            fairhand.compile(model, written, verify=False, cache=False)
            page = (written / "model.py").read_text("utf-8")
            own: Counter[str] = Counter()
            drawn = mutants(page, given.each, given.seed + i, changes)
            for k, (kind, text) in enumerate(drawn):
                package = Path(folder) / f"respelled_{i}_{k}"
                shutil.copytree(written, package)
                (package / "model.py").write_text(text, "utf-8")
                said, why = judged(package, model)
                shutil.rmtree(package)
                kinds.setdefault(kind, Counter())[said] += 1
                own[said] += 1
                if given.show and why:
                    print(f"  {model.stem}, {kind}: {why}"[:250])
            print(model.name, dict(own), flush=True)
    total: Counter[str] = sum(kinds.values(), Counter())
    for kind in [*sorted(kinds), "all"]:
        print(f"{kind[:60]:62}", dict({**kinds, "all": total}[kind]))


if __name__ == "__main__":
    main()
