"""Both sides of instances of a law on ONNX Runtime, compared as its class says."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
from support.bfloat16_model import is_bfloat16, widened
from support.law_instances import FLOATS, Range, dtypes, elements, shapes, varied
from support.rule_samples import POSITIVE, sample_model

from fairhand.analysis.errors import FairhandError
from fairhand.analysis.shapes.infer import infer
from fairhand.rewrites.certificate.proof_store import proven
from fairhand.rewrites.engine.apply import Rewriter
from fairhand.rewrites.engine.history import Application
from fairhand.rewrites.engine.match import Matcher
from fairhand.rewrites.language.exactness import Exactness
from fairhand.rewrites.language.operators.read_write import Draft
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.rules.catalogue import RULES

CLASSES = proven(RULES)
SAME_BITS = {Exactness.BITWISE, Exactness.EVALUATED, Exactness.FINITE}
SAME_NUMBERS = {Exactness.ZERO_SIGN, Exactness.FINITE_ZERO_SIGN}
OF_FINITE = {Exactness.FINITE, Exactness.FINITE_ZERO_SIGN}
UNITS = 64.0  # that a result may be off, of the largest number it is made of
# What ONNX Runtime says of sizes that its kernels lack: masks, pools of four axes, and
# pools without elements.
LACKS = (
    "while running Attention node",
    "Unsupported pooling size",
    "Only N can be zero",
)
TRIES = 8  # per model, for an instance that the law applies to


class Lacking(Exception):
    """ONNX Runtime has no kernel for such a right side."""


@dataclass
class Tally:
    """What became of the instances of one law and element type."""

    models: int = 0  # that the law applies to, and that run
    compared: int = 0  # results of both sides
    no_kernel: int = 0  # models that ONNX Runtime has no kernels for
    violations: list[str] = field(default_factory=list)


def examine(
    rule: Rule,
    of: Any,
    models: int,
    feeds: int,
    first: int = 0,
    before: Callable[[str, str], object] = lambda side, instance: None,
) -> Tally:
    """Draw that many instances, each with that many elements, and compare.

    `before` is called with "left" or "right" and the instance before ONNX Runtime runs
    that side of it, which may end the process.
    """
    tally = Tally()
    for number in range(first, first + models):
        for attempt in range(TRIES):
            name = f"{rule.name} {np.dtype(of)} {number} {attempt}"
            if _instance(rule, of, name, feeds, tally, not number, before):
                break
            if tally.violations:
                return tally
    return tally


def _instance(
    rule: Rule,
    of: Any,
    name: str,
    feeds: int,
    tally: Tally,
    plain: bool,
    before: Callable[[str, str], object],
) -> bool:
    """Whether this was an instance of the law that could be compared, or tells."""
    seed = zlib.crc32(name.encode())
    draw, values = random.Random(seed), np.random.default_rng(seed)
    sample = dict(draw.choice(rule.samples)) if plain else varied(rule, draw)
    if _dies_of_empty(rule, of) and any(0 in x for x in shapes(sample).values()):
        return False
    draw_elements = elements(values, among(rule, of))
    try:
        left = sample_model(rule, sample, dtypes(of, draw), draw_elements)
        before("left", f"{name}: {sample}")
        runs = _session(left)
        fed = [_feed(left, draw_elements) for _ in range(feeds)]
        wanted = [runs.run(None, _readable(feed)) for feed in fed]
    except NoKernel:
        tally.no_kernel += 1
        return False
    except Exception:
        return False  # no model, or undefined there
    right = rewritten(rule, left)
    if right is None:
        return False
    before("right", f"{name}: {sample}")
    try:
        wrong = _violation(CLASSES[rule.name], left, right, fed, wanted)
    except (NoKernel, Lacking):
        tally.no_kernel += 1
        return False
    tally.models += 1
    tally.compared += feeds
    if wrong:
        tally.violations.append(f"{name}: {sample}: {wrong}")
    return True


def _violation(
    exactness: Exactness,
    left: onnx.ModelProto,
    right: onnx.ModelProto,
    fed: list[dict[str, np.ndarray]],
    wanted: list[list[np.ndarray]],
) -> str:
    """How the right side differs from what was wanted; '' if it doesn't."""
    names = {x.name for x in right.graph.input}
    results = len(left.graph.output)
    unit = _last_place(left, right)
    try:
        session = _session(right)
        for feed, expected in zip(fed, wanted, strict=True):
            used = {k: v for k, v in feed.items() if k in names}
            after = session.run(None, _readable(used))
            scale = _largest([*feed.values(), *expected, *after])
            for a, b in zip(expected[:results], after[:results], strict=True):
                if wrong := disagreement(exactness, a, b, scale, unit):
                    return wrong
    except NoKernel:
        raise
    except Exception as reason:
        if any(text in str(reason) for text in LACKS):
            raise Lacking from None
        return f"the right side fails, {reason}"
    return ""


# Where ONNX Runtime departs from ONNX; docs/trust.md says how.


def _said(rule: Rule) -> str:
    return repr((rule.law.left, rule.law.right))


def _dies_of_empty(rule: Rule, of: Any) -> bool:
    """Whether it divides by a size, or refuses one of 0."""
    whole = of not in FLOATS and "Mean" in _said(rule)
    return whole or bool(re.search("Einsum|Attention", _said(rule)))


def among(rule: Rule, of: Any) -> Range:
    """The elements that the class of a law speaks of, and ONNX Runtime agrees on."""
    exactness, said = CLASSES[rule.name], _said(rule)
    odd = re.search("MaxPool|ReduceMax|LogSoftmax", said)
    all_bits = exactness in SAME_BITS | SAME_NUMBERS
    same = exactness not in OF_FINITE and (all_bits or exactness is Exactness.ORDER)
    return Range(
        nan=same and not odd,
        infinite=same and not odd,
        huge=all_bits,
        positive="Div(" in said,
        small=bool(re.search("ReduceSum|ReduceMean|Einsum", said)),
    )


class _Computing(Rewriter):
    """Applies laws of bfloat16 too that need a constant which folding can't compute."""

    def _stays(self, draft: Draft) -> bool:
        return False


def rewritten(rule: Rule, left: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with the law applied once; None where it doesn't apply."""
    model = ir.from_proto(left)
    try:
        rewriter = _Computing(model, infer(model), CLASSES)
    except FairhandError:
        return None  # fairhand compiles no such model
    for node in list(model.graph):
        match = Matcher(rule, rewriter.facts).at(node)
        if match is None:
            continue
        if isinstance(rewriter.apply(match, rule.when), Application):
            rewriter.finish()
            return ir.to_proto(model)
    return None


def _session(model: onnx.ModelProto) -> ort.InferenceSession:
    """With all that it computes as outputs, behind its own."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    wide = onnx.ModelProto()
    wide.CopyFrom(widened(model) if is_bfloat16(model) else model)
    there = {x.name for x in wide.graph.output}
    for node in model.graph.node:
        for output in node.output:
            if output and output not in there:
                wide.graph.output.add().name = output
    return ort.InferenceSession(
        wide.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _feed(model: onnx.ModelProto, draw_elements: Any) -> dict[str, np.ndarray]:
    found = {}
    for info in model.graph.input:
        shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        x = draw_elements(shape, dtype)
        if info.doc_string == POSITIVE:
            x = np.asarray(np.abs(x) + np.asarray(0.1, x.dtype), x.dtype)
        found[info.name] = x
    return found


def _readable(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With float32 where ONNX Runtime takes no arrays of the element type."""
    narrow = ml_dtypes.bfloat16
    return {
        k: v.astype(np.float32) if v.dtype == narrow else v for k, v in feed.items()
    }


def _last_place(left: onnx.ModelProto, right: onnx.ModelProto) -> float:
    """The relative distance of neighbouring numbers of the narrowest type that results
    are computed in where it is another than their own."""
    if is_bfloat16(left):
        return float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)
    single = any(n.op_type == "Attention" for n in right.graph.node)
    return float(np.finfo(np.float32).eps) * single


def _largest(arrays: list[Any]) -> float:
    """Of the finite numbers among them, at least 1."""
    largest = 1.0
    for x in arrays:
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            finite = np.abs(x[np.isfinite(x)].astype(np.float64))
            largest = max(largest, float(np.max(finite, initial=0)))
    return largest


def disagreement(
    exactness: Exactness,
    a: np.ndarray,
    b: np.ndarray,
    scale: float,
    last_place: float = 0.0,
) -> str:
    """How two results differ, if by more than the class promises; else ''.

    `last_place`: of a narrower type that they were computed in.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
    if a.dtype.kind != "f":
        wrong = a != b
    elif exactness in SAME_BITS | SAME_NUMBERS:
        wrong = (a != b) & ~(np.isnan(a) & np.isnan(b))
        if exactness in SAME_BITS:
            wrong |= (np.signbit(a) != np.signbit(b)) & ~np.isnan(a)
    else:
        unit = max(float(np.finfo(a.dtype).eps), last_place)
        with np.errstate(invalid="ignore"):
            apart = np.abs(np.subtract(a, b, dtype=np.float64))
        wrong = np.isfinite(a) & ~(apart <= UNITS * unit * scale)
        if exactness is Exactness.ORDER:
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            wrong |= ~np.isfinite(a) & ~same
    if not wrong.any():
        return ""
    place = tuple(int(k[0]) for k in np.nonzero(wrong)) if a.shape else ()
    return f"{a[place]!r} and {b[place]!r} at {place}"
