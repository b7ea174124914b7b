"""Attention, recognised in the spellings of the exporters."""

from __future__ import annotations

import numpy as np

from ..language.operators.attention import Attention, IsNaN
from ..language.operators.contraction import MatMul
from ..language.operators.elementwise import Add, Div, Mul, Where
from ..language.operators.movement import Expand, Reshape, Transpose, Unsqueeze
from ..language.operators.reduction import Softmax
from ..language.pattern import Apply, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, Real, Sizes, eq, fixed, one_axis, real
from . import attention_operands
from .attention_operands import fits_scores, swapped


class _Operands:
    """Queries, transposed keys and values of one batch with the same heads."""

    def __init__(self, law: Law) -> None:
        b, h, s, t, d, e = (law.int(name, 0) for name in "bhstde")
        self.scores, self.size = (b, h, s, t), d
        self.q = law.shaped("q", b, h, s, d, kinds="float")
        self.kt = law.shaped("kt", b, h, d, t, kinds="float")
        # Values may be infinite: what is moved around here are factors of the scores.
        self.v = law.shaped("v", b, h, t, e, kinds="float", extended=True)

    def mask(self, law: Law) -> Var:
        """Added to the scores; it has an entry for each key."""
        mask = law.tensor("m", 4, extended=True)
        for axis, size in enumerate(self.scores[:3]):
            fits = eq(mask.dim(axis), 1) | eq(mask.dim(axis), size)
            law.require(fits, "the mask enlarges the scores")
        law.require(
            eq(mask.dim(3), self.scores[3]), "one entry of the mask for all keys"
        )
        return mask


SAMPLE = {"q": [2, 3, 4, 8], "kt": [2, 3, 8, 5], "v": [2, 3, 5, 6]}


def _attention(name: str, scaled: str, masked: bool, guarded: bool = False) -> Rule:
    """softmax(q kt [* c] [+ m]) v, with a guard against NaN or without."""
    scores = {"": "q kt", "mul": "q kt * c", "div": "q kt / c"}[scaled]
    inner = f"Softmax({scores}{' + m' if masked else ''})"
    outer = f"Where(IsNaN(p), 0, p) v, p = {inner}" if guarded else f"{inner} v"
    sample = {**SAMPLE, "m": [2, 1, 4, 5], "c": (2.0,)}

    @rule(
        "attention",
        name=name,
        statement=f"{outer} = Attention(q, kt^T, v)",
        samples=[sample],
    )
    def attention(law: Law) -> None:
        operands = _Operands(law)
        q, kt, v = operands.q, operands.kt, operands.v
        score, scale = MatMul(q, kt), real(1)
        if scaled:
            c = law.scalar("c", 4)
            score = (Mul if scaled == "mul" else Div)(score, c)
            scale = c.value if scaled == "mul" else real(1) / c.value
        mask = operands.mask(law) if masked else None
        if mask is not None:
            score = Add(score, mask)
        weights = Softmax(score, axis=2 if law.mutant("over_queries") else 3)
        if guarded:
            zero = law.full("zero", 4, 0)
            weights = Where(IsNaN(weights), zero, weights)
        # Without a mask the prover takes long to refuse this one.
        if masked and law.mutant("scale_squared"):
            scale = scale * scale * real(3)
        k = Transpose(kt, perm=swapped(4, 2, 3))
        law.rewrite(MatMul(weights, v), Attention(q, k, v, mask, scale=scale, causal=0))

    return attention


def _absorbed(name: str, side: str, masked: bool) -> Rule:
    """A constant factor of the queries or keys is part of the scale."""

    @rule(
        "attention",
        name=name,
        statement="Attention(q * c, k, v, scale=s) = Attention(q, k, v, scale=s c)"
        f" for the {side}",
        samples=[{**SAMPLE, "m": [2, 1, 4, 5], "c": (2.0,), "scale": 0.5}],
    )
    def absorb(law: Law) -> None:
        operands = _Operands(law)
        q, kt, v = operands.q, operands.kt, operands.v
        mask = operands.mask(law) if masked else None
        given = law.real("scale")
        c = law.scalar("c", 4)
        scale: Real = given if law.mutant("forgotten") else given * c.value
        k = Transpose(kt, perm=swapped(4, 2, 3))
        if side == "query":
            left = Attention(Mul(q, c), k, v, mask, scale=given, causal=0)
        else:
            scaled = Transpose(Mul(kt, c), perm=swapped(4, 2, 3))
            left = Attention(q, scaled, v, mask, scale=given, causal=0)
        law.rewrite(left, Attention(q, k, v, mask, scale=scale, causal=0))

    return absorb


def _rooted(masked: bool) -> Rule:
    """torch's exporter scales queries and keys by the root of 1 / sqrt(d) each."""

    @rule(
        "attention",
        name="attention_roots_masked" if masked else "attention_roots",
        statement="Attention(q r, k r, v, scale=1) = Attention(q, k, v,"
        " scale=1/sqrt(d)), r = d^(-1/4)",
        samples=[{**SAMPLE, "m": [2, 1, 4, 5], "d": 8}],
    )
    def roots(law: Law) -> None:
        operands = _Operands(law)
        q, kt, v, d = operands.q, operands.kt, operands.v, real(operands.size)
        law.require(operands.size >= 1)
        mask = operands.mask(law) if masked else None
        root = Real("sqrt", d if law.mutant("half") else Real("sqrt", d))
        r1, r2 = (law.about(name, 4, real(1) / root) for name in ("r1", "r2"))
        k = Transpose(Mul(kt, r2), perm=swapped(4, 2, 3))
        left = Attention(Mul(q, r1), k, v, mask, scale=real(1), causal=0)
        k = Transpose(kt, perm=swapped(4, 2, 3))
        scale = real(1) / Real("sqrt", d)
        law.rewrite(left, Attention(q, k, v, mask, scale=scale, causal=0))

    return roots


def _grouped(masked: bool, causal: bool = False) -> Rule:
    """Each head of keys and values serves several heads of queries."""
    sample = {
        "q": [2, 6, 4, 8],
        "k": [2, 3, 5, 8],
        "v": [2, 3, 5, 6],
        "m": [2, 1, 4, 5],
        "scale": 0.5,
        "n": 6,
        "h": 3,
        "b": 2,
        "t": 5,
        "d": 8,
        "e": 6,
    }

    @rule(
        "attention",
        name="attention_grouped" + "_masked" * masked + "_causal" * causal,
        statement="Attention(q, repeat(k, g), repeat(v, g)) = Attention(q, k, v) with"
        " g query heads per head of keys",
        samples=[sample],
    )
    def grouped(law: Law) -> None:
        b, n, h, s, t, d, e = (law.int(name, 0) for name in "bnhstde")
        law.require((h >= 1) & (n >= h))
        group = n // h
        law.require(eq(n, h * group), "the heads don't divide evenly")
        q = law.shaped("q", b, n, s, d)
        k, v = law.shaped("k", b, h, t, d), law.shaped("v", b, h, t, e)
        scale = law.real("scale")
        mask = law.tensor("m", 4, extended=True) if masked else None
        if mask is not None:
            fits_scores(law, mask, (b, n, s, t))

        def repeated(x: Var, last: Int) -> Apply:
            copies = fixed([b, group, h, t, last])
            axis = 1 if law.mutant("tiled") else 2
            if axis == 2:
                copies = fixed([b, h, group, t, last])
            wide = Expand(Unsqueeze(x, axes=one_axis(5, axis)), shape=Sizes(5, copies))
            return Reshape(wide, shape=Sizes(4, fixed([b, n, t, last])))

        options = {"scale": scale, "causal": int(causal)}
        left = Attention(q, repeated(k, d), repeated(v, e), mask, **options)
        law.rewrite(left, Attention(q, k, v, mask, **options))

    return grouped


def _twice_masked(scaled: bool) -> Rule:
    """A bias and a mask: their sum is the mask.

    Algebra covers no infinities, which masks have; -inf beside numbers sums alike.
    """
    scores = "q kt * c" if scaled else "q kt"

    @rule(
        "attention",
        name="attention" + "_mul" * scaled + "_masked_twice",
        statement=f"Softmax({scores} + m + n) v = Attention(q, kt^T, v, m + n)",
        samples=[
            dict(
                q=[2, 3, 4, 8],
                kt=[2, 3, 8, 5],
                v=[2, 3, 5, 6],
                m=[2, 3, 1, 5],
                n=[2, 1, 4, 5],
                c=(2.0,),
            )
        ],
    )
    def attention(law: Law) -> None:
        b, h, s, t, d, e = (law.int(name, 0) for name in "bhstde")
        q = law.shaped("q", b, h, s, d, kinds="float")
        kt = law.shaped("kt", b, h, d, t, kinds="float")
        v = law.shaped("v", b, h, t, e, kinds="float", extended=True)
        m, n = (law.tensor(name, 4, kinds="float") for name in "mn")
        for mask in (m, n):
            fits_scores(law, mask, (b, h, s, t))
        c = law.scalar("c", 4) if scaled else None
        product = MatMul(q, kt) if c is None else Mul(MatMul(q, kt), c)
        weights = Softmax(Add(Add(product, m), n), axis=3)
        whole = m if law.mutant("forgotten") else Add(m, n)
        k = Transpose(kt, perm=swapped(4, 2, 3))
        scale = 1 if c is None else c.value
        law.rewrite(
            MatMul(weights, v), Attention(q, k, v, whole, scale=scale, causal=0)
        )

    return attention


def _causal(batched: bool) -> Rule:
    """A mask that is read from nowhere, and half of the scores aren't needed."""
    mask = np.triu(np.full((2 if batched else 1, 1, 4, 4), -np.inf), 1)

    @rule(
        "masks",
        name="attention_causal" + "_in_batches" * batched,
        statement="Attention(q, k, v, 0 up to the diagonal, -inf above)"
        " = causal Attention(q, k, v), for as many queries as keys",
        samples=[dict({x: [2, 3, 4, 8] for x in "qkv"}, scale=0.5, m=mask)],
        measure="flops",
    )
    def attention_causal(law: Law) -> None:
        b, h, t, d, e = (law.int(name, 0) for name in "bhtde")
        q = law.shaped("q", b, h, t, d, kinds="float")
        k = law.shaped("k", b, h, t, d, kinds="float")
        v = law.shaped("v", b, h, t, e, kinds="float", extended=True)
        mask = law.causal("m", t, b if batched else 1)
        scale = law.real("scale")
        left = Attention(q, k, v, mask, scale=scale, causal=0)
        causal = 0 if law.mutant("every_key") else 1
        law.rewrite(left, Attention(q, k, v, None, scale=scale, causal=causal))

    return attention_causal


# Applied last: attention takes in the rest of its mask first.
CAUSAL = [_causal(False), _causal(True)]


RULES: list[Rule] = [
    *attention_operands.RULES,
    _attention("attention", "", False),
    _attention("attention_masked", "", True),
    _attention("attention_masked_guarded", "", True, guarded=True),
    _attention("attention_mul", "mul", False),
    _attention("attention_mul_masked", "mul", True),
    _attention("attention_mul_masked_guarded", "mul", True, guarded=True),
    _attention("attention_div", "div", False),
    _attention("attention_div_masked", "div", True),
    *(_twice_masked(scaled) for scaled in (False, True)),
    *(_grouped(masked) for masked in (False, True)),
    _grouped(False, causal=True),
    *(_rooted(masked) for masked in (False, True)),
    _absorbed("attention_query_mul", "query", False),
    _absorbed("attention_query_mul_masked", "query", True),
    _absorbed("attention_keys_mul", "keys", False),
    _absorbed("attention_keys_mul_masked", "keys", True),
]
