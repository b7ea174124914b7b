"""GreedySearch of ONNX Runtime as a Loop over its decoder, and what all searches share.

The decoder is GPT-2's as ONNX Runtime knows it: words, their positions, a mask and a
cache in; scores of the next word and the longer cache out. All rounds but the first
read one word of each sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ....analysis.errors import Unsupported
from ....analysis.ops.registry import OWN
from ...adapters.opset_adapters import AdapterSite, extension

FLOAT, INT32, INT64, BOOL = (
    ir.DataType.FLOAT,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.BOOL,
)
SCOPES = "pkg.torch.onnx.name_scopes"
ATTRS = "decoder eos_token_id model_type no_repeat_ngram_size pad_token_id vocab_size"
Kind = tuple[ir.DataType, int]  # a type and a rank


@extension("GreedySearch", attrs=ATTRS, types=False)
def greedy_search(site: AdapterSite) -> None:
    """The likeliest word is the next, until all sequences have ended."""
    if site.take_int("model_type", 0):
        raise site.unsupported(
            "an encoder and its decoder, which ONNX Runtime has no kernel for"
        )
    longest = site.need(1)
    search = Search(site, (2, 3, 4, 5), mask=6)
    walk(search, longest, "GreedyStep", begin_greedy(search))


def begin_greedy(search: Search) -> list[ir.Value]:
    """What the next word of each sequence is chosen by."""
    value = ir.Tensor(np.zeros(1, np.bool_))
    ended = search.site.before("ConstantOfShape", [search.count], "ended", value=value)
    search.begin({"sequences": search.words, "ended": ended})
    scores = search.allowed(search.inner, search.last_scores(), search.states[0])
    return [scores, *search.states]


def walk(
    search: Search,
    longest: ir.Value,
    op: str,
    inputs: Sequence[ir.Value],
    **attrs: int | float,
) -> None:
    """Let the node be the sequences that grow by one word after the other."""
    kinds = {"sequences": (INT32, 2), "ended": (BOOL, 1), "going": (BOOL, 0)}
    options = search.ends | attrs
    *states, going = own_node(search.inner, op, inputs, kinds, **options)
    search.loop(longest, states, going, states[0])
    found, padding = [search.results[0], longest], search.ends["padding"]
    become_own(search.site, "PadWords", found, padding=padding)


class Search:
    """What both have alike: the states of the decoder, and the Loop around it."""

    rows = 1  # the axis of the sequences in the cache
    more: Sequence[int] = ()  # inputs that one kind of search alone has
    temperature: ir.Value | None = None
    running: ir.Value | None = None  # whether there is a round at all
    scan: Sequence[ir.Value] = ()  # what is kept of each round

    def __init__(
        self,
        site: AdapterSite,
        options: Sequence[int],
        mask: int,
        beams: ir.Value | None = None,
    ) -> None:
        self.site, self.body = site, graph_of(site, "decoder")
        self.scores, *self.present = self.body.outputs
        self.options = [site.input(i) for i in options[:3]]
        rest = set(range(options[3] + 1, len(site.inputs))) - {mask, *self.more}
        if any(site.input(i) for i in rest):
            raise site.unsupported(f"its input {min(rest)}, or one behind it")
        site.take("vocab_size")
        self.ngram = site.take_int("no_repeat_ngram_size", 0)
        names = {"end": "eos_token_id", "padding": "pad_token_id"}
        self.ends = {name: site.take_int(full, -1) for name, full in names.items()}
        self.first = self.prompt(mask, beams)
        self.words = self.first[0]
        axes = {"start": 0, "end": 1}
        self.count = site.before("Shape", [self.words], "count", **axes)
        self.cache = self.empty_cache()
        self.prefix = self._prefix(site.input(options[3]), beams)

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
            rows += own_node(site, "RepeatRows", [x, beams], {name: (INT32, 2)})
        return rows

    def kept(self) -> ir.Value:
        """Which words are no padding."""
        site = self.site
        padding = site.constant("padding", np.array(self.ends["padding"], np.int32))
        same = site.before("Equal", [site.data, padding], "is_padding")
        kept = site.before("Not", [same], "is_word")
        kept = site.before("Cast", [kept], "mask", to=INT32.value)
        kept.name, kept.meta["word"] = site.word("kept"), "mask"
        return kept

    def unknown(self, wanted: str) -> Unsupported:
        """The refusal of a decoder with other inputs and outputs than `wanted`."""
        sizes = f"{len(self.body.inputs)} inputs and {len(self.body.outputs)} outputs"
        return self.site.unsupported(f"a decoder of {sizes}", f"supported are {wanted}")

    def _prefix(self, mask: ir.Value | None, beams: ir.Value | None) -> ir.Value | None:
        """Which words may come first."""
        if mask is None or beams is None:
            return mask
        kinds = {"first": (INT32, 2)}
        return own_node(self.site, "RepeatRows", [mask, beams], kinds)[0]

    def empty_cache(self) -> list[ir.Value]:
        """What the decoder's first run gets for the caches."""
        return [self._empty(x) for x in self.body.inputs[len(self.first) :]]

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
        for value, dtype in zip(scalar, (INT64, BOOL), strict=True):
            value.type, value.shape = ir.TensorType(dtype), ir.Shape([])
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

    def allowed(
        self, at: AdapterSite, scores: ir.Value, sequences: ir.Value
    ) -> ir.Value:
        """Scores of words that may come next; `at` is in the Loop, or before it."""
        inputs = [scores, sequences, *self.options]
        if self.prefix is not None and not (self.running and at is not self.site):
            inputs += [self.prefix, self.words]
        attrs = {"end": self.ends["end"], "ngram": self.ngram}
        kinds = {"scores": (self.scores.dtype or FLOAT, 2)}
        scores = own_node(at, "AllowedScores", inputs, kinds, **attrs)[0]
        if self.temperature is not None:
            scores = at.before("Div", [scores, self.temperature], "scores")
        return scores

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
        every = [*following, *cache, *states, *self.scan]
        self.body.outputs[:] = [inner.node.outputs[0], *every]
        trips = site.before("Cast", [longest], "longest", to=INT64.value)
        length = self.length()
        trips = site.before("Sub", [trips, length], "rounds")
        trips = site.before("Reshape", [trips, site.ints("scalar", [])], "round_count")
        inputs = [trips, self.running, *self.initial]
        words = [str(value.meta["word"]) for value in self.body.inputs[2:]]
        names = [*words, *["every_score"] * len(self.scan)]
        results = site.parts("Loop", inputs, names, body=self.body)
        for made, name, value in zip(results, words, self.initial, strict=False):
            made.name = site.word(name)
            made.type, made.shape = value.type, _loose(value)
        self.results, self.scanned = results[count : len(words)], results[len(words) :]

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


def graph_of(site: AdapterSite, name: str) -> ir.Graph:
    """The graph that an attribute holds; refuses the node where there is none."""
    found = site.take(name)
    if found is None or found.type != ir.AttributeType.GRAPH:
        raise site.unsupported(f"it has no {name}")
    return found.as_graph()


def own_node(
    site: AdapterSite,
    op: str,
    inputs: Sequence[ir.Value | None],
    kinds: dict[str, Kind],
    **attrs: int | float,
) -> list[ir.Value]:
    """A node of an operator that only this package has, before a site's node."""
    made = site.parts(op, inputs, tuple(kinds), **attrs)
    node = made[0].producer()
    assert node is not None
    node.domain = OWN
    for value, word, (dtype, rank) in zip(made, kinds, kinds.values(), strict=True):
        value.name, value.meta["word"] = site.word(word), word
        value.type, value.shape = ir.TensorType(dtype), ir.Shape([None] * rank)
    return made


def become_own(
    site: AdapterSite, op: str, inputs: Sequence[ir.Value | None], **attrs: int
) -> None:
    """Turn the node into one of fairhand's own operators."""
    site.become(op, inputs, **attrs)
    site.node.domain = OWN


def _loose(value: ir.Value) -> ir.Shape | None:
    """The rank of a value whose sizes change."""
    return None if value.shape is None else ir.Shape([None] * len(value.shape))
