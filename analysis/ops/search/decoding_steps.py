"""Steps of ONNX Runtime's searches, which rewrites/lowering/search/greedy_search.py
makes loops of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.dims import Dims, quotient, simplify
from ...graph.shape_facts import DimsResult, NodeFacts
from ..facts import sizes_elementwise
from ..helpers import search as helpers
from ..node_view import NodeView
from ..operands import number, present, wanted
from ..registry import MANY_TO_MANY, OWN, operator

_LEAST, _PENALTY, _WORDS = 2, 3, 4


def _allowed(t: Any, n: NodeView, scores: Any, sequences: Any, *more: Any) -> Any:
    """Scores as they are, unless something forbids words."""
    least, penalty, words, first, prompt = (*more, *[None] * 5)[:5]
    given = present(
        least=_item(n, _LEAST, least, 0),
        penalty=_item(n, _PENALTY, penalty, 1),
        ngram=n.attr("ngram", 0) or None,
        words=words,
        first=first,
        prompt=None if prompt is None else prompt.shape[1],
    )
    if not given:
        return scores
    helper = t.helper(helpers.allowed_scores)
    return helper(scores, sequences, end=n.attr("end"), **given)


def _item(n: NodeView, i: int, x: Any, idle: float) -> Any:
    """A number of one element, as Python's; None if it changes nothing."""
    known = n.const(i) if x is not None else None
    if known is None:
        return x if x is None else x.item()
    value = known.reshape(-1)[0]
    if value == idle:
        return None
    return int(value) if known.dtype.kind in "iu" else float(str(value))


def _greedy(t: Any, n: NodeView, *operands: Any) -> Any:
    helper = t.helper(helpers.greedy_step)
    return helper(*operands, end=n.attr("end"), padding=n.attr("padding"))


def _sample(t: Any, n: NodeView, *operands: Any) -> Any:
    options: dict[str, Any] = {"end": n.attr("end"), "padding": n.attr("padding")}
    options["top"] = number(n, "top", 0.0)
    for name, idle in (("temperature", 1.0), ("filtered", -1e20)):
        if n.attr(name, idle) != np.float32(idle):
            options[name] = number(n, name, idle)
    if n.attr("keep", 0):
        options["keep"] = n.attr("keep")
    return t.helper(helpers.sample_step)(*operands, **options)


def _number(n: NodeView, i: int, x: Any) -> Any:
    known = n.const(i)
    return x.item() if known is None else int(known.reshape(-1)[0])


def _repeat(t: Any, n: NodeView, x: Any, count: Any) -> Any:
    return x.repeat_interleave(_number(n, 1, count), dim=0)


def _pad(t: Any, n: NodeView, x: Any, longest: Any) -> Any:
    return t.F.pad(x, (0, _number(n, 1, longest) - x.shape[1]), value=n.attr("padding"))


def _join_scores(t: Any, n: NodeView, first: Any, rest: Any) -> Any:
    """Those of all rounds; of no rest, its sizes are unknown."""
    rest = rest.reshape(-1, first.shape[0], first.shape[1])
    return t.cat([first.unsqueeze(0), rest])


def _pad_scores(
    t: Any, n: NodeView, x: Any, beams: Any, longest: Any, words: Any
) -> Any:
    """Of rounds that were not needed, zeros."""
    room = _number(n, 2, longest) - words.shape[1] - x.shape[0]
    return t.F.pad(x.unflatten(1, (-1, _number(n, 1, beams))), (*[0] * 7, room))


def _beam_start(t: Any, n: NodeView, words: Any, beams: Any, longest: Any) -> Any:
    sizes = {"beams": _number(n, 1, beams), "longest": _number(n, 2, longest)}
    return t.helper(helpers.beam_start)(words, **sizes, padding=n.attr("padding"))


def _beam_step(t: Any, n: NodeView, *operands: Any) -> Any:
    *state, power = operands
    options = {"power": _power(n, 6, power)}
    options |= {"end": n.attr("end"), "padding": n.attr("padding")}
    options |= {"early": True} if n.attr("early", 0) else {}
    return t.helper(helpers.beam_step)(*state, **options)


def _power(n: NodeView, i: int, x: Any) -> Any:
    known = n.const(i)
    return x if known is None else float(str(known.reshape(-1)[0]))


def _beam_end(t: Any, n: NodeView, *operands: Any) -> Any:
    *state, count, power = operands
    options = {"count": _number(n, 5, count), "power": _power(n, 6, power)}
    options["padding"] = n.attr("padding")
    return wanted(n, t.helper(helpers.beam_end)(*state, **options), 2)


# ---- sizes


def _search_step_sizes(site: NodeFacts) -> DimsResult:
    """Sequences that are longer by a word, and the other states as they were."""
    sequences = site.dims(1)
    if sequences is None:
        return None
    return [(sequences[0], simplify(sequences[1] + 1)), site.dims(2), ()]


def _beam_step_sizes(site: NodeFacts) -> DimsResult:
    """The same of all beams."""
    sequences = site.dims(1)
    if sequences is None:
        return None
    longer = (sequences[0], simplify(sequences[1] + 1))
    return [longer, *(site.dims(i) for i in (2, 3, 4, 5)), sequences[:1], ()]


def _repeat_rows_sizes(site: NodeFacts, x: Dims) -> DimsResult:
    """So many rows for each."""
    times = site.numbers(1)
    first = None if not times or times[0] is None else simplify(x[0] * times[0])
    return [(first, *x[1:])]


def _join_scores_sizes(site: NodeFacts, first: Dims, rest: Dims) -> DimsResult:
    """One round more than the rest."""
    return [(simplify(rest[0] + 1), *first)]


def _pad_scores_sizes(site: NodeFacts, every: Dims) -> DimsResult:
    """So many rounds of words; of samples, of beams."""
    beams, longest = site.numbers(1), site.numbers(2)
    words = site.dims(3)
    if not beams or beams[0] is None or words is None:
        return None
    rounds = simplify(longest[0] - words[1]) if longest and longest[0] else None
    return [(rounds, quotient(words[:1], beams[:1]), beams[0], every[2])]


def _beam_start_sizes(site: NodeFacts, words: Dims) -> DimsResult:
    """For each sample: totals of its beams, the best sequences, whether it is done."""
    beams, longest = site.numbers(1), site.numbers(2)
    if not beams or beams[0] is None:
        return None
    batch = quotient(words[:1], beams[:1])
    both = (batch, beams[0])
    return [both, (*both, longest[0] if longest else None), both, (batch,)]


for _name, _spelling, _shape in (
    ("AllowedScores", _allowed, sizes_elementwise.like_input),
    ("GreedyStep", _greedy, _search_step_sizes),
    ("SampleStep", _sample, _search_step_sizes),
    ("RepeatRows", _repeat, _repeat_rows_sizes),
    ("PadWords", _pad, None),
    ("JoinScores", _join_scores, _join_scores_sizes),
    ("PadScores", _pad_scores, _pad_scores_sizes),
    ("BeamStart", _beam_start, _beam_start_sizes),
    ("BeamStep", _beam_step, _beam_step_sizes),
    ("BeamEnd", _beam_end, None),
):
    operator(_name, since=1, domain=OWN, mapping=MANY_TO_MANY, shape=_shape)(_spelling)
