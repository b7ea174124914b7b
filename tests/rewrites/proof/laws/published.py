"""Rules that were published, and are wrong: the prover has to refuse them."""

from __future__ import annotations

from fairhand.rewrites.language.operators.elementwise import (
    Add,
    Cast,
    Clip,
    Max,
    Min,
    Mul,
    Reciprocal,
    Relu,
)
from fairhand.rewrites.language.operators.movement import (
    Expand,
    Pad,
    Reshape,
    Slice,
    Transpose,
)
from fairhand.rewrites.language.operators.pooling import AveragePool, MaxPool
from fairhand.rewrites.language.operators.quantization import (
    DequantizeLinear,
    QuantizeLinear,
)
from fairhand.rewrites.language.operators.scatter import ScatterND
from fairhand.rewrites.language.pattern import Operator, Term
from fairhand.rewrites.language.rule import Law, Rule, rule
from fairhand.rewrites.language.terms import Fn, eq, forall, integer
from fairhand.rewrites.rules.convolution_patterns import Convolution, of_both, plus
from fairhand.rewrites.rules.law_table import equation
from fairhand.rewrites.rules.pooling import Pool, take_pad
from fairhand.rewrites.rules.slices import Cut

RULES: list[Rule] = []


@rule("pad")
def pad_pad_negative(law: Law) -> None:
    """Pad(Pad(x)) = Pad(x), the pads of either sign

    What the first cuts off the second doesn't bring back.
    """
    r = law.rank()
    x = law.tensor("x", r)
    low, high = law.fn("low", r), law.fn("high", r)
    low2, high2 = law.fn("low2", r), law.fn("high2", r)
    first = Pad(x, None, low=low, high=high, mode="constant")
    both = dict(
        low=Fn(r, lambda k: low(k) + low2(k)), high=Fn(r, lambda k: high(k) + high2(k))
    )
    law.rewrite(
        Pad(first, None, low=low2, high=high2, mode="constant"),
        Pad(x, None, mode="constant", **both),
    )


@rule("reshape")
def reshape_of_any_transpose(law: Law) -> None:
    """Reshape(Transpose(x, p), s) = Reshape(x, s)"""
    r = law.rank()
    x = law.tensor("x", r)
    p, s = law.perm("p", r), law.sizes("s", law.rank("m"))
    law.rewrite(Reshape(Transpose(x, perm=p), shape=s), Reshape(x, shape=s))


def _wrongly_padded(operator: Operator, why: str) -> Rule:
    """Zeros of Pad as pads of a pool that doesn't count them."""

    def build(law: Law) -> None:
        pool = Pool(law, operator, rounded=False)
        take_pad(law, pool, law.full("value", 0, 0))

    return rule(
        "fusion",
        name=f"{operator.name}_wrongly_padded",
        statement=f"{operator}(Pad(x, 0)) = {operator}(x) with these pads, {why}",
    )(build)


_ONNX = {"float32": "FLOAT", "float64": "DOUBLE"}  # the others by their own names


def _cast(x: Term, source: str, target: str) -> Term:
    onnx = [_ONNX.get(name, name.upper()) for name in (source, target)]
    return Cast(x, source=onnx[0], to=onnx[1])


def _lossy(name: str, first: str, second: str, third: str) -> Rule:
    """A published rule that loses digits."""

    def build(law: Law) -> None:
        x = law.tensor("x", law.rank())
        once = x if first == third else _cast(x, first, third)
        law.rewrite(_cast(_cast(x, first, second), second, third), once)

    return rule(
        "casts",
        name=name,
        statement=f"{first} to {second} to {third} = {first} to {third}",
    )(build)


@rule("indexing")
def scatter_rows_in_any_order(law: Law) -> None:
    """ScatterND(x, i, u) = u, for as many places as x has rows"""
    r = law.rank(low=1)
    n = law.int("n", 0)
    x, u = law.tensor("x", r), law.tensor("u", r)
    i = law.constant("i", 2, kinds="int", sizes=(n, integer(1)))
    law.require(eq(n, x.dim(0)))
    law.require(forall(r, lambda k: eq(u.dim(k), x.dim(k))))
    law.rewrite(ScatterND(x, i, u), u)


@of_both(kinds=["conv"], biases=[True])
def conv_shifted_padded_input(law: Law, conv: Convolution) -> None:
    """Conv(x + a, w, c) = Conv(x, w, c + sum(w * a)), which padding makes false"""
    law.require(eq(conv.geometry["group"], 1))
    channels = conv.x.dim(1)
    by = conv.per_channel("by", channels)
    law.rewrite(
        conv(conv.weight, conv.bias, Add(conv.x, by)),
        conv(conv.weight, plus(conv.bias, conv.summed(conv.vector(by, channels)))),
    )


# A published rule drops zeros of any shape: it is right only if they don't enlarge x.
@rule("identity")
def add_zeros_of_any_shape(law: Law) -> None:
    """x + zeros = x, whatever the shape of the zeros"""
    r = law.rank()
    x, zeros = law.tensor("x", r), law.filled("zeros", r, 0)
    law.rewrite(Add(x, zeros), x)


@rule("quant")
def dequantize_quantized(law: Law) -> None:
    """Dequantize(Quantize(x, s, z), s, z) = x"""
    r = law.rank()
    x = law.tensor("x", r, kinds="float")
    s, z = law.scalar("s", r, kinds="float"), law.scalar("z", r, kinds="int")
    types = dict(small="INT8", real="FLOAT")
    law.rewrite(DequantizeLinear(QuantizeLinear(x, s, z, **types), s, z, **types), x)


@rule("movement")
def expand_in_two_of_any_size(law: Law) -> None:
    """f(Expand(x), y) = f(x, y), whatever the sizes"""
    r = law.rank()
    x, y = law.tensor("x", r), law.tensor("y", r)
    f = law.pointwise("f", 2)
    law.rewrite(f(Expand(x, shape=law.sizes("s", r)), y), f(x, y))


@rule("slices")
def slice_slice_any_step(law: Law) -> None:
    """Slice(Slice(x)) = Slice(x, begins and ends added, steps multiplied)"""
    r = law.rank()
    x = law.tensor("x", r)
    one, two = Cut(law, r, "1"), Cut(law, r, "2")
    right = Slice(
        x,
        begin=Fn(r, lambda k: one.begin(k) + two.begin(k)),
        end=Fn(r, lambda k: one.begin(k) + two.end(k)),
        step=Fn(r, lambda k: one.step(k) * two.step(k)),
    )
    law.rewrite(two.of(one.of(x)), right)


# Of DNNFusion's table one prints a row with the factors exchanged, a survey another
# without a reciprocal.
EQUATIONS = [
    equation(
        "Clip(Clip(x, a, b), c, d) = Clip(x, max(a, c), min(b, d))",
        "float x a:scalar b:scalar c:scalar d:scalar",
        lambda x, a, b, c, d: Clip(Clip(x, a, b), c, d),
        lambda x, a, b, c, d: Clip(x, Max(a, c), Min(b, d)),
        wrong={},
        family="clips",
        name="clip_clip_as_published",
    ),
    equation(
        "Relu(Clip(x, a, b)) = Clip(x, max(a, 0), b)",
        "float x a:scalar b:scalar",
        lambda x, a, b: Relu(Clip(x, a, b)),
        lambda x, a, b: Clip(x, Relu(a), b),
        wrong={},
        family="clips",
        name="relu_clip_as_published",
    ),
    equation(
        "a * c + a * b = (a + b) * c",
        "a b c",
        lambda a, b, c: Add(Mul(a, c), Mul(a, b)),
        lambda a, b, c: Mul(Add(a, b), c),
        wrong={},
        family="distributive",
        name="factor_as_published",
    ),
    equation(
        "Reciprocal(a) * Reciprocal(a * b) = Reciprocal(a)**2 * b",
        "float a b",
        lambda a, b: Mul(Reciprocal(a), Reciprocal(Mul(a, b))),
        lambda a, b: Mul(Mul(Reciprocal(a), Reciprocal(a)), b),
        wrong={},
        family="associative",
        name="reciprocal_assoc_as_published",
    ),
]

FALSE_RULES: list[Rule] = [
    *EQUATIONS,
    *conv_shifted_padded_input,
    _lossy("cast_float32_float16_back", "float32", "float16", "float32"),
    _lossy("cast_float32_bfloat16_back", "float32", "bfloat16", "float32"),
    _lossy("cast_int32_float32_back", "int32", "float32", "int32"),
    _lossy("cast_int64_int32_back", "int64", "int32", "int64"),
    _lossy("cast_float64_float32_float16", "float64", "float32", "float16"),
    _lossy("cast_int64_int32_bool", "int64", "int32", "bool"),
    _wrongly_padded(MaxPool, "which negative images make false"),
    _wrongly_padded(AveragePool, "which aren't counted"),
    pad_pad_negative,
    reshape_of_any_transpose,
    scatter_rows_in_any_order,
    add_zeros_of_any_shape,
    dequantize_quantized,
    expand_in_two_of_any_size,
    slice_slice_any_step,
]
