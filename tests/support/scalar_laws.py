"""Laws about single elements, and how exact each is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import z3

from fairhand.rewrites.proof.kernel.scalars import (
    Const,
    Element,
    NegInf,
    NegZero,
    Op,
    Scalar,
)
from fairhand.rewrites.proof.machine.bitwise_decision import EXACTNESS

BITWISE, ZERO_SIGN, FINITE, FINITE_ZERO_SIGN = EXACTNESS
EVERY = ("float16", "bfloat16", "float32")
# Where z3 runs out of resources on float32.
SHORT = ("float16", "bfloat16")


def element(name: str) -> Element:
    return Element(name, 2, lambda k: z3.Int(f"i{k}"))


def op(name: str) -> Callable[..., Op]:
    return lambda *args: Op(name, *args)


x, a, b, d = map(element, "xabd")
maximum, minimum, relu, clip, absolute = map(op, "max min relu clip abs".split())
less, less_equal, equal, negate, either = map(
    op, "less less_equal equal not or".split()
)
where, sigma, sqrt, recip, sign, square = map(
    op, "where sigma sqrt recip sign square".split()
)
floor, ceil, rounded = map(op, "floor ceil round".split())


def cast(source: str, target: str, term: Scalar) -> Op:
    return Op(f"cast:{source}:{target}", term)


def through(wide: str, operator: str) -> Op:
    """A float16 operator computed in a wider type."""
    sides = [cast("float16", wide, side) for side in (a, b)]
    return cast(wide, "float16", Op(operator, *sides))


class Claim(NamedTuple):
    """What z3 should find of a law."""

    left: Scalar
    right: Scalar
    exactness: str | None
    facts: Sequence[Scalar] = ()
    formats: tuple[str, ...] = EVERY


NOT_NEGATIVE_ZERO = either(negate(equal(x, 0)), less(0, recip(x)))
NOT_ZERO = [negate(equal(t, 0)) for t in (a, b)]
IS_FINITE = equal(x - x, 0)
CLIPPED = minimum(maximum(x, a), b)

LAWS = {
    "x*1 = x": Claim(x * 1, x, BITWISE),
    "x/1 = x": Claim(x / 1, x, BITWISE),
    "x+0 = x": Claim(x + 0, x, ZERO_SIGN),
    "x+0 = x, x not -0": Claim(x + 0, x, BITWISE, [NOT_NEGATIVE_ZERO]),
    "relu(x)+0 = relu(x)": Claim(relu(x) + 0, relu(x), ZERO_SIGN),
    "x+(-0) = x": Claim(x + NegZero(), x, BITWISE),
    "x-0 = x": Claim(x - 0, x, BITWISE),
    "x-x = 0": Claim(x - x, Const(0), FINITE),
    "x-x = 0, x finite": Claim(x - x, Const(0), BITWISE, [IS_FINITE]),
    "x*0 = 0": Claim(x * 0, Const(0), FINITE_ZERO_SIGN),
    "x/x = 1": Claim(x / x, Const(1), None),
    "-(-x) = x": Claim(op("neg")(-x), x, BITWISE),
    "|-x| = |x|": Claim(absolute(-x), absolute(x), BITWISE),
    "0-x = -x": Claim(0 - x, -x, ZERO_SIGN),
    "x*(-1) = -x": Claim(x * -1, -x, BITWISE),
    "a+b = b+a": Claim(a + b, b + a, BITWISE),
    "a*b = b*a": Claim(a * b, b * a, BITWISE),
    "a-b = a+(-b)": Claim(a - b, a + (-b), BITWISE),
    "(-a)*b = -(a*b)": Claim((-a) * b, -(a * b), BITWISE),
    "(-a)/b = -(a/b)": Claim((-a) / b, -(a / b), BITWISE),
    "-(a-b) = b-a": Claim(-(a - b), b - a, ZERO_SIGN, (), SHORT),
    "-(a+b) = -a-b": Claim(-(a + b), -a - b, ZERO_SIGN),
    "(a+b)+d = a+(b+d)": Claim((a + b) + d, a + (b + d), None),
    "(a*b)*d = a*(b*d)": Claim((a * b) * d, a * (b * d), None),
    "a*d+b*d = (a+b)*d": Claim(a * d + b * d, (a + b) * d, None),
    "a/b = a*(1/b)": Claim(a / b, a * recip(b), None),
    "x/2 = x*0.5": Claim(x / 2, x * 0.5, BITWISE),
    "x/8 = x*0.125": Claim(x / 8, x * 0.125, BITWISE),
    "x/3 = x*(1/3)": Claim(x / 3, x * (Const(1) / 3), None),
    "1/x = recip x": Claim(1 / x, recip(x), BITWISE),
    "recip recip x = x": Claim(recip(recip(x)), x, None),
    "x^2 = x*x": Claim(square(x), x * x, BITWISE),
    "x*2 = x+x": Claim(x * 2, x + x, BITWISE),
    "(x*2)*4 = x*8": Claim(x * 2 * 4, x * 8, BITWISE),
    "(x*.5)*.5 = x*.25": Claim(x * 0.5 * 0.5, x * 0.25, BITWISE),
    "(x*.25)*.5 = x*.125": Claim(x * 0.25 * 0.5, x * 0.125, None),
    "(x*3)*5 = x*15": Claim(x * 3 * 5, x * 15, None),
    "x*x = |x|*|x|": Claim(x * x, absolute(x) * absolute(x), BITWISE),
    "sqrt(x*x) = |x|": Claim(sqrt(x * x), absolute(x), None),
    "sqrt|x| = sqrt|-x|": Claim(sqrt(absolute(x)), sqrt(absolute(-x)), BITWISE),
    "relu relu x = relu x": Claim(relu(relu(x)), relu(x), ZERO_SIGN),
    "relu x = max(0, x)": Claim(relu(x), maximum(0, x), ZERO_SIGN),
    "max(a,b) = max(b,a)": Claim(maximum(a, b), maximum(b, a), ZERO_SIGN),
    "max(a,a) = a": Claim(maximum(a, a), a, BITWISE),
    "max(x,-inf) = x": Claim(maximum(x, NegInf()), x, BITWISE),
    "x+(-inf) = -inf": Claim(x + NegInf(), NegInf(), FINITE),
    "max(a,b) = -min(-a,-b)": Claim(maximum(a, b), -minimum(-a, -b), ZERO_SIGN),
    "max(x,-x) = |x|": Claim(maximum(x, -x), absolute(x), ZERO_SIGN),
    "max(max(x,a),b) = max(x,max(a,b))": Claim(
        maximum(maximum(x, a), b), maximum(x, maximum(a, b)), ZERO_SIGN
    ),
    "max(max(x,a),b) = max(x,max(a,b)), a and b not 0": Claim(
        maximum(maximum(x, a), b), maximum(x, maximum(a, b)), BITWISE, NOT_ZERO
    ),
    "relu(clip(x,a,b)) = clip(x,relu a,b), 0 < b": Claim(
        relu(clip(x, a, b)),
        clip(x, relu(a), b),
        ZERO_SIGN,
        [less_equal(a, b), less(0, b)],
    ),
    "min(max(x,a),b) = max(min(x,b),a), a < b": Claim(
        CLIPPED, maximum(minimum(x, b), a), ZERO_SIGN, [less(a, b)]
    ),
    "min(max(x,a),b) = max(min(x,b),a)": Claim(
        CLIPPED, maximum(minimum(x, b), a), None
    ),
    "min(max(x,a),b) = clip(x,a,b)": Claim(CLIPPED, clip(x, a, b), FINITE_ZERO_SIGN),
    "min(max(x,a),b) = clip(x,a,b), a <= b": Claim(
        CLIPPED, clip(x, a, b), ZERO_SIGN, [less_equal(a, b)]
    ),
    "min(relu(x),6) = clip(x,0,6)": Claim(
        minimum(relu(x), 6), clip(x, 0, 6), ZERO_SIGN
    ),
    "clip(x,1,6) = min(max(x,1),6)": Claim(
        clip(x, 1, 6), minimum(maximum(x, 1), 6), BITWISE
    ),
    "where(a<b,b,a) = max(a,b)": Claim(
        where(less(a, b), b, a), maximum(a, b), FINITE_ZERO_SIGN
    ),
    "where(0<x,x,0) = relu(x)": Claim(
        where(less(0, x), x, 0), relu(x), FINITE_ZERO_SIGN
    ),
    "where(a<b,x,x) = x": Claim(where(less(a, b), x, x), x, ZERO_SIGN),
    "not(a<b) = b<=a": Claim(negate(less(a, b)), less_equal(b, a), FINITE),
    "a<b = b>a": Claim(less(a, b), Op("greater", b, a), BITWISE),
    "a<=b = a<b or a=b": Claim(
        less_equal(a, b), either(less(a, b), equal(a, b)), BITWISE
    ),
    "sign(x)*|x| = x": Claim(sign(x) * absolute(x), x, ZERO_SIGN),
    "sign sign x = sign x": Claim(sign(sign(x)), sign(x), FINITE),
    "floor(-x) = -ceil(x)": Claim(floor(-x), -ceil(x), BITWISE),
    "round round x = round x": Claim(rounded(rounded(x)), rounded(x), BITWISE),
    "round(x) = floor(x+0.5)": Claim(rounded(x), floor(x + 0.5), None),
    "sigma(--x) = sigma(x)": Claim(sigma(op("neg")(-x)), sigma(x), BITWISE),
    "sigma(x+0) = sigma(x)": Claim(sigma(x + 0), sigma(x), None),
    "sigma(a) = sigma(b)": Claim(sigma(a), sigma(b), None),
    "float16 a*b in bfloat16": Claim(through("bfloat16", "mul"), a * b, None),
}
