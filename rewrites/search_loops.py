"""GreedySearch and BeamSearch of ONNX Runtime as Loops over their decoder.

The decoder is GPT-2's as ONNX Runtime knows it: words, their positions, a mask and a
cache in; scores of the next word and the longer cache out. All rounds but the first
read one word of each sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..analysis.contrib_types import OWN
from .adapt import Site, extension

_FLOAT, _INT32, _INT64, _BOOL = (
    ir.DataType.FLOAT,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.BOOL,
)
SCOPES = "pkg.torch.onnx.name_scopes"
_ATTRS = "decoder eos_token_id model_type no_repeat_ngram_size pad_token_id vocab_size"
_Kind = tuple[ir.DataType, int]  # a type and a rank


@extension("GreedySearch", attrs=_ATTRS, types=False)
def greedy_search(site: Site) -> None:
    """The likeliest word is the next, until all sequences have ended."""
    longest = site.need(1)
    search = _Search(site, (2, 3, 4, 5), mask=6)
    ended = site.before("ConstantOfShape", [search.count], "ended", value=_bools())
    search.begin({"sequences": search.words, "ended": ended})
    sequences, running = search.states
    scores = search.allowed(search.last_scores(), sequences)
    kinds = {"sequences": (_INT32, 2), "ended": (_BOOL, 1), "going": (_BOOL, 0)}
    made = search.own("GreedyStep", [scores, sequences, running], kinds, **search.ends)
    search.loop(longest, made[:2], made[2], made[0])
    found = search.results[0]
    _become_own(site, "PadWords", [found, longest], padding=search.ends["padding"])


@extension("BeamSearch", attrs=f"{_ATTRS} early_stopping", types=False)
def beam_search(site: Site) -> None:
    """Of all continuations of a few sequences, the same few that are the likeliest."""
    longest, beams, returned, power = (site.need(i) for i in (1, 3, 4, 5))
    if site.wants(2):
        raise site.unsupported("the scores of all words are not supported")
    early = site.take_int("early_stopping", 0)
    search = _Search(site, (2, 6, 7, 8), mask=9, beams=beams)
    kinds = _BEAMS | {"done": (_BOOL, 1)}
    inputs = [search.words, beams, longest]
    padding = search.ends["padding"]
    first = _own(site, "BeamStart", inputs, kinds, padding=padding)
    search.begin({"sequences": search.words, **dict(zip(kinds, first, strict=True))})
    sequences, *rest = search.states
    scores = search.inner.before("LogSoftmax", [search.last_scores()], "log", axis=-1)
    scores = search.allowed(scores, sequences)
    kinds = {"sequences": (_INT32, 2), **kinds, "rows": (_INT64, 1)}
    kinds["going"] = (_BOOL, 0)
    options = search.ends | ({"early": 1} if early else {})
    inputs = [scores, sequences, *rest, power]
    *made, rows, going = search.own("BeamStep", inputs, kinds, **options)
    search.loop(longest, made, going, made[0], rows)
    site.node.resize_outputs(min(2, len(site.node.outputs)))
    inputs = [*search.results, returned, power]
    _become_own(site, "BeamEnd", inputs, padding=padding)


@extension("Sampling", attrs=None, types=False)
def sampling(site: Site) -> None:
    raise site.unsupported("words that are drawn at random are not supported")


_BEAMS: dict[str, _Kind] = {
    "totals": (_FLOAT, 2),
    "best": (_INT32, 3),
    "best_totals": (_FLOAT, 2),
}


class _Search:
    """What both have alike: the states of the decoder, and the Loop around it."""

    def __init__(
        self,
        site: Site,
        options: Sequence[int],
        mask: int,
        beams: ir.Value | None = None,
    ) -> None:
        self.site, self.body = site, _decoder(site)
        self.options = [site.input(i) for i in options[:3]]
        if any(site.input(i) for i in range(options[3], len(site.inputs)) if i != mask):
            raise site.unsupported("words that the first alone may be, or a prompt")
        self.ngram = site.take_int("no_repeat_ngram_size", 0)
        names = {"end": "eos_token_id", "padding": "pad_token_id"}
        self.ends = {name: site.take_int(full, -1) for name, full in names.items()}
        self.first = self._prompt(mask, beams)
        self.words = self.first[0]
        axes = {"start": 0, "end": 1}
        self.count = site.before("Shape", [self.words], "count", **axes)
        self.cache = [self._empty(x) for x in self.body.inputs[3:]]

    def _prompt(self, mask: int, beams: ir.Value | None) -> list[ir.Value]:
        """The words, their places and which count: padding has none, and does not."""
        site, words = self.site, self.site.data
        padding = site.constant("padding", np.array(self.ends["padding"], np.int32))
        same = site.before("Equal", [words, padding], "is_padding")
        kept = site.before("Not", [same], "is_word")
        kept = site.before("Cast", [kept], "mask", to=_INT32.value)
        kept.name = site.word("kept")
        axis, one = site.ints("axis", 1), site.constant("one", np.array(1, np.int32))
        places = site.before("CumSum", [kept, axis], "word_count")
        places = site.before("Sub", [places, one], "place")
        places = site.before("Mul", [places, kept], "positions")
        kept.meta["word"], places.meta["word"] = "mask", "positions"
        found = [words, places, site.input(mask) or kept]
        if beams is None:
            return found
        rows = []
        for x, name in zip(found, ("prompt", "places", "counted"), strict=True):
            rows += _own(site, "RepeatRows", [x, beams], {name: (_INT32, 2)})
        rows[0].meta["word"] = "prompt"
        return rows

    def _empty(self, past: ir.Value) -> ir.Value:
        """A cache [2, rows, heads, 0, size] of nothing."""
        dims = [] if past.shape is None else list(past.shape)
        sizes = [d for d in dims[2::2] if isinstance(d, int)]
        if len(dims) != 5 or len(sizes) != 2:
            raise self.site.unsupported("a decoder whose cache has no declared sizes")
        pair, none = [2], [sizes[0], 0, sizes[1]]
        known = [self.site.ints("two", pair), self.count, self.site.ints("none", none)]
        shape = self.site.before("Concat", known, "cache_shape", axis=0)
        zero = ir.Tensor(np.zeros(1, past.dtype.numpy() if past.dtype else "f"))
        made = self.site.before("ConstantOfShape", [shape], "past", value=zero)
        made.meta["word"] = "no_past"
        return made

    def begin(self, states: dict[str, ir.Value]) -> None:
        """Make the decoder a body, with the states given beside its own."""
        body, site = self.body, self.site
        scalar = [ir.Value(name=site.name(n)) for n in ("round", "running")]
        for value, dtype in zip(scalar, (_INT64, _BOOL), strict=True):
            value.type, value.shape = ir.TensorType(dtype), ir.Shape([])
        self.scores, *self.present = body.outputs
        self.given = list(body.inputs)
        self.states = [
            ir.Value(name=site.name(word), type=x.type, shape=_loose(x))
            for word, x in states.items()
        ]
        body.inputs[:] = [*scalar, *self.given, *self.states]
        cache = [f"past_{i}" for i in range(len(self.cache))]
        words = ["words", "positions", "mask", *cache, *states]
        for word, value in zip(words, body.inputs[2:], strict=True):
            value.meta["word"], value.shape = word, _loose(value)
        self.initial = [*self.first, *self.cache, *states.values()]
        last = ir.Node("", "Identity", [scalar[1]], name=site.name("next"))
        last.metadata_props[SCOPES] = "['', 'search']"  # in no module of the decoder
        last.outputs[0].name = site.name("go_on")
        body.append(last)
        self.inner = site.inside(last)

    def last_scores(self) -> ir.Value:
        """Those of the word behind the last one."""
        last = self.inner.ints("last", -1)
        return self.inner.before("Gather", [self.scores, last], "scores", axis=1)

    def allowed(self, scores: ir.Value, sequences: ir.Value) -> ir.Value:
        inputs = [scores, sequences, *self.options]
        attrs = {"end": self.ends["end"], "ngram": self.ngram}
        kinds = {"scores": (self.scores.dtype or _FLOAT, 2)}
        return self.own("AllowedScores", inputs, kinds, **attrs)[0]

    def own(
        self,
        op: str,
        inputs: Sequence[ir.Value | None],
        kinds: dict[str, _Kind],
        **attrs: int,
    ) -> list[ir.Value]:
        made = _own(self.inner, op, inputs, kinds, **attrs)
        for value, word in zip(made, kinds, strict=True):
            value.meta["word"] = word
        return made

    def loop(
        self,
        longest: ir.Value,
        states: Sequence[ir.Value],
        going: ir.Value,
        sequences: ir.Value,
        rows: ir.Value | None = None,
    ) -> None:
        """Close the body, and put the Loop before the node."""
        inner, site, count = self.inner, self.site, len(self.given)
        ends = [inner.ints(name, [x]) for name, x in (("from", -1), ("to", 2**31 - 1))]
        axis, one = inner.ints("axis", [1]), inner.constant(
            "one", np.array([[1]], "i4")
        )
        word = inner.before("Slice", [sequences, *ends, axis], "words")
        place = inner.before("ReduceMax", [self.given[1], axis], "place", keepdims=1)
        place = inner.before("Add", [place, one], "positions")
        mask, pads = self.given[2], inner.ints("one_more", [0, 0, 0, 1])
        mask = inner.before(
            "Pad", [mask, pads, inner.constant("true", np.array(1, "i4"))], "mask"
        )
        cache = self.present
        if rows is not None:
            cache = [inner.before("Gather", [x, rows], "past", axis=1) for x in cache]
        inner.node.replace_input_with(0, going)
        self.body.outputs[:] = [
            *(inner.node.outputs[0], word, place, mask),
            *(*cache, *states),
        ]
        trips = site.before("Cast", [longest], "longest", to=_INT64.value)
        length = site.before("Shape", [site.data], "length", start=1, end=2)
        trips = site.before("Sub", [trips, length], "rounds")
        trips = site.before("Reshape", [trips, site.ints("scalar", [])], "round_count")
        inputs = [trips, None, *self.initial]
        words = [str(value.meta["word"]) for value in self.body.inputs[2:]]
        results = site.parts("Loop", inputs, words, body=self.body)
        for made, name, value in zip(results, words, self.initial, strict=True):
            made.name = site.word(name)
            made.type, made.shape = value.type, _loose(value)
        self.results = results[count:]


def _decoder(site: Site) -> ir.Graph:
    if site.take_int("model_type", 0):
        raise site.unsupported("an encoder and its decoder are not supported")
    site.take("vocab_size")
    found = site.take("decoder")
    if found is None or found.type != ir.AttributeType.GRAPH:
        raise site.unsupported("it has no decoder")
    graph = found.as_graph()
    layers = len(graph.outputs) - 1
    if len(graph.inputs) != 3 + layers or layers < 1:
        raise site.unsupported(
            f"a decoder of {len(graph.inputs)} inputs and {len(graph.outputs)} outputs",
            "supported are words, positions, a mask and the cache of every layer",
        )
    return graph


def _own(
    site: Site,
    op: str,
    inputs: Sequence[ir.Value | None],
    kinds: dict[str, _Kind],
    **attrs: int,
) -> list[ir.Value]:
    """A node of an operator that only this package has, before a site's node."""
    made = site.parts(op, inputs, tuple(kinds), **attrs)
    node = made[0].producer()
    assert node is not None
    node.domain = OWN
    for value, word, (dtype, rank) in zip(made, kinds, kinds.values(), strict=True):
        value.name = site.word(word)
        value.type, value.shape = ir.TensorType(dtype), ir.Shape([None] * rank)
    return made


def _become_own(
    site: Site, op: str, inputs: Sequence[ir.Value | None], **attrs: int
) -> None:
    site.become(op, inputs, **attrs)
    site.node.domain = OWN


def _loose(value: ir.Value) -> ir.Shape | None:
    """The rank of a value whose sizes change."""
    return None if value.shape is None else ir.Shape([None] * len(value.shape))


def _bools() -> ir.TensorProtocol:
    return ir.Tensor(np.zeros(1, np.bool_))
