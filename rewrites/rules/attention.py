"""Attention, recognised in the spellings of the exporters."""

from __future__ import annotations

import numpy as np

from ..language.operators.attention import Attention
from ..language.rule import Law, Rule, rule


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
