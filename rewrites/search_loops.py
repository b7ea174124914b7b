"""GreedySearch and BeamSearch of ONNX Runtime as Loops over their decoder.

The decoder is GPT-2's as ONNX Runtime knows it: words, their positions, a mask and a
cache in; scores of the next word and the longer cache out. All rounds but the first
read one word of each sequence. T5's reads one word from the first round on, and what an
encoder that ran before makes of the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..analysis.contrib_types import OWN
from ..analysis.errors import Unsupported
from .adapt import Site, extension

_FLOAT, _INT32, _INT64, _BOOL = (
    ir.DataType.FLOAT,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.BOOL,
)
SCOPES = "pkg.torch.onnx.name_scopes"
ATTRS = "decoder eos_token_id model_type no_repeat_ngram_size pad_token_id vocab_size"
_Kind = tuple[ir.DataType, int]  # a type and a rank


@extension("GreedySearch", attrs=ATTRS, types=False)
def greedy_search(site: Site) -> None:
    """The likeliest word is the next, until all sequences have ended."""
    if site.take_int("model_type", 0):
        raise site.unsupported("an encoder and its decoder are not supported")
    longest = site.need(1)
    search = Search(site, (2, 3, 4, 5), mask=6)
    walk(search, longest, "GreedyStep", begin_greedy(search))


def begin_greedy(search: Search) -> list[ir.Value]:
    """What the next word of each sequence is chosen by."""
    value = ir.Tensor(np.zeros(1, np.bool_))
    ended = search.site.before("ConstantOfShape", [search.count], "ended", value=value)
    search.begin({"sequences": search.words, "ended": ended})
    return [search.allowed(search.last_scores(), search.states[0]), *search.states]


def walk(
    search: Search,
    longest: ir.Value,
    op: str,
    inputs: Sequence[ir.Value],
    **attrs: int | float,
) -> None:
    """Let the node be the sequences that grow by one word after the other."""
    kinds = {"sequences": (_INT32, 2), "ended": (_BOOL, 1), "going": (_BOOL, 0)}
    *states, going = search.own(op, inputs, kinds, **search.ends, **attrs)
    search.loop(longest, states, going, states[0])
    found, padding = [search.results[0], longest], search.ends["padding"]
    _become_own(search.site, "PadWords", found, padding=padding)


@extension(
    "BeamSearch",
    attrs=f"{ATTRS} early_stopping encoder decoder_start_token_id",
    types=False,
)
def beam_search(site: Site) -> None:
    """Of all continuations of a few sequences, the same few that are the likeliest."""
    longest, beams, returned, power = (site.need(i) for i in (1, 3, 4, 5))
    if site.wants(2):
        raise site.unsupported("the scores of all words are not supported")
    early = site.take_int("early_stopping", 0)
    kind = site.take_int("model_type", 0)
    if kind > 1:
        raise site.unsupported(f"models of type {kind} are not supported")
    make = EncodedSearch if kind else Search
    search = make(site, (2, 6, 7, 8), mask=9, beams=beams)
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


_BEAMS: dict[str, _Kind] = {
    "totals": (_FLOAT, 2),
    "best": (_INT32, 3),
    "best_totals": (_FLOAT, 2),
}


class Search:
    """What both have alike: the states of the decoder, and the Loop around it."""

    rows = 1  # the axis of the sequences in the cache

    def __init__(
        self,
        site: Site,
        options: Sequence[int],
        mask: int,
        beams: ir.Value | None = None,
    ) -> None:
        self.site, self.body = site, _graph(site, "decoder")
        self.options = [site.input(i) for i in options[:3]]
        if any(site.input(i) for i in range(options[3], len(site.inputs)) if i != mask):
            raise site.unsupported("words that the first alone may be, or a prompt")
        site.take("vocab_size")
        self.ngram = site.take_int("no_repeat_ngram_size", 0)
        names = {"end": "eos_token_id", "padding": "pad_token_id"}
        self.ends = {name: site.take_int(full, -1) for name, full in names.items()}
        self.first = self.prompt(mask, beams)
        self.words = self.first[0]
        axes = {"start": 0, "end": 1}
        self.count = site.before("Shape", [self.words], "count", **axes)
        self.cache = [self._empty(x) for x in self.body.inputs[len(self.first) :]]

    def prompt(self, mask: int, beams: ir.Value | None) -> list[ir.Value]:
        """The words, their places and which count: padding has none, and does not."""
        site, words = self.site, self.site.data
        layers = len(self.body.outputs) - 1
        if len(self.body.inputs) != 3 + layers or layers < 1:
            raise self.unknown("words, positions, a mask and the cache of every layer")
        kept = self.kept()
        axis, one = site.ints("axis", 1), site.constant("one", np.array(1, np.int32))
        places = site.before("CumSum", [kept, axis], "word_count")
        places = site.before("Sub", [places, one], "place")
        places = site.before("Mul", [places, kept], "positions")
        places.meta["word"] = "positions"
        found = [words, places, site.input(mask) or kept]
        if beams is None:
            return found
        rows = []
        for x, name in zip(found, ("prompt", "places", "counted"), strict=True):
            rows += _own(site, "RepeatRows", [x, beams], {name: (_INT32, 2)})
        rows[0].meta["word"] = "prompt"
        return rows

    def kept(self) -> ir.Value:
        """Which words are no padding."""
        site = self.site
        padding = site.constant("padding", np.array(self.ends["padding"], np.int32))
        same = site.before("Equal", [site.data, padding], "is_padding")
        kept = site.before("Not", [same], "is_word")
        kept = site.before("Cast", [kept], "mask", to=_INT32.value)
        kept.name, kept.meta["word"] = site.word("kept"), "mask"
        return kept

    def unknown(self, wanted: str) -> Unsupported:
        sizes = f"{len(self.body.inputs)} inputs and {len(self.body.outputs)} outputs"
        return self.site.unsupported(f"a decoder of {sizes}", f"supported are {wanted}")

    def _empty(self, past: ir.Value) -> ir.Value:
        """A cache [rows, heads, 0, size] of nothing, or both as one, [2, rows, ...]."""
        dims = [] if past.shape is None else list(past.shape)
        sizes = [d for d in dims[-3::2] if isinstance(d, int)]
        if len(dims) != 4 + self.rows or len(sizes) != 2:
            raise self.site.unsupported("a decoder whose cache has no declared sizes")
        pair = [self.site.ints("two", [2])][: self.rows]
        none = self.site.ints("none", [sizes[0], 0, sizes[1]])
        known = [*pair, self.count, none]
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
        words = [*("words", "positions", "mask")[: len(self.first)], *cache, *states]
        for word, value in zip(words, body.inputs[2:], strict=True):
            value.meta["word"], value.shape = word, _loose(value)
        self.initial = [*self.first, *self.cache, *states.values()]
        last = ir.Node("", "Identity", [scalar[1]], name=site.name("next"))
        last.metadata_props[SCOPES] = "['', 'search']"  # in no module of the decoder
        last.outputs[0].name = site.name("go_on")
        body.append(last)
        self.inner, self.round = site.inside(last), scalar[0]

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
        **attrs: int | float,
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
        following, cache = self.following(sequences), self.present
        if rows is not None:
            axis = {"axis": self.rows}
            cache = [inner.before("Gather", [x, rows], "past", **axis) for x in cache]
        inner.node.replace_input_with(0, going)
        self.body.outputs[:] = [inner.node.outputs[0], *following, *cache, *states]
        trips = site.before("Cast", [longest], "longest", to=_INT64.value)
        length = self.length()
        trips = site.before("Sub", [trips, length], "rounds")
        trips = site.before("Reshape", [trips, site.ints("scalar", [])], "round_count")
        inputs = [trips, None, *self.initial]
        words = [str(value.meta["word"]) for value in self.body.inputs[2:]]
        results = site.parts("Loop", inputs, words, body=self.body)
        for made, name, value in zip(results, words, self.initial, strict=True):
            made.name = site.word(name)
            made.type, made.shape = value.type, _loose(value)
        self.results = results[count:]

    def length(self) -> ir.Value:
        """How long sequences are before the first round."""
        return self.site.before("Shape", [self.site.data], "length", start=1, end=2)

    def following(self, sequences: ir.Value) -> list[ir.Value]:
        """What the next round begins with, beside the cache."""
        inner, axis = self.inner, self.inner.ints("axis", [1])
        ends = [inner.ints(name, [x]) for name, x in (("from", -1), ("to", 2**31 - 1))]
        word = inner.before("Slice", [sequences, *ends, axis], "words")
        if len(self.first) == 1:
            return [word]
        place = inner.before("ReduceMax", [self.given[1], axis], "place", keepdims=1)
        one = inner.constant("one", np.array([[1]], np.int32))
        place = inner.before("Add", [place, one], "positions")
        pads = inner.ints("one_more", [0, 0, 0, 1])
        true = inner.constant("true", np.array(1, np.int32))
        return [word, place, inner.before("Pad", [self.given[2], pads, true], "mask")]


class EncodedSearch(Search):
    """Over a decoder that looks at what an encoder gives, the same in all rounds."""

    rows = 0

    def prompt(self, mask: int, beams: ir.Value | None) -> list[ir.Value]:
        """The word that all sequences begin with; the encoder runs before the Loop."""
        site, (word, seen, *past) = self.site, list(self.body.inputs)
        layers, rest = divmod(len(past), 4)
        own = len(self.body.outputs) - 1
        if rest or own != 2 * layers or not layers:
            raise self.unknown("a word, a mask, caches of its own and the encoder's")
        if word.shape is None or word.shape[1] != 1:
            raise site.unsupported("a decoder that reads all words in each round")
        given = site.input(mask) or self._from_first_word()
        made = self._encoded(given)
        if len(made) != own:
            raise site.unsupported("an encoder that gives more than the caches")
        for x, outer in zip([seen, *past[own:]], [given, *made], strict=True):
            x.replace_all_uses_with(self._repeated(outer, beams, x.name or "seen"))
        self.body.inputs[:] = [word, *past[:own]]
        count = site.before("Shape", [site.data], "samples", start=0, end=1)
        shape = site.before("Concat", [count, site.ints("one", [1])], "shape", axis=0)
        start = np.array([site.take_int("decoder_start_token_id", -1)], np.int32)
        first = site.before("ConstantOfShape", [shape], "start", value=ir.Tensor(start))
        return [self._repeated(first, beams, "start")]

    def _from_first_word(self) -> ir.Value:
        """A mask that leaves out padding in front: an end may look like padding."""
        site, kept = self.site, self.kept()
        before = site.before("CumSum", [kept, site.ints("axis", 1)], "word_count")
        zero = site.constant("zero", np.array(0, np.int32))
        begun = site.before("Greater", [before, zero], "begun")
        return site.before("Cast", [begun], "seen", to=_INT32.value)

    def _encoded(self, mask: ir.Value) -> list[ir.Value]:
        """The results of the encoder, whose nodes come to stand before the node."""
        encoder = _graph(self.site, "encoder")
        if len(encoder.inputs) != 2:
            raise self.site.unsupported(
                "an encoder that runs the decoder for the first time",
                "convert the model with ONNX Runtime 1.22 or newer",
            )
        results = list(encoder.outputs)
        encoder.outputs.clear()
        for x, outer in zip(encoder.inputs, (self.site.data, mask), strict=True):
            x.replace_all_uses_with(outer)
        for name, value in list(encoder.initializers.items()):
            del encoder.initializers[name]
            self.site.graph.register_initializer(value)
        nodes = list(encoder)
        encoder.remove(nodes)
        self.site.graph.insert_before(self.site.node, nodes)
        return results

    def _repeated(self, x: ir.Value, beams: ir.Value | None, word: str) -> ir.Value:
        rank = 2 if x.shape is None else len(x.shape)
        kinds = {word: (x.dtype or _INT32, rank)}
        (made,) = _own(self.site, "RepeatRows", [x, beams], kinds)
        made.meta["word"] = word
        return made

    def length(self) -> ir.Value:
        return self.site.ints("length", [1])


def _graph(site: Site, name: str) -> ir.Graph:
    found = site.take(name)
    if found is None or found.type != ir.AttributeType.GRAPH:
        raise site.unsupported(f"it has no {name}")
    return found.as_graph()


def _own(
    site: Site,
    op: str,
    inputs: Sequence[ir.Value | None],
    kinds: dict[str, _Kind],
    **attrs: int | float,
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
