"""Searches behind an encoder: T5's, and Whisper's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...adapters.opset_adapters import constant_array
from .greedy_search import INT32, Search, graph_of, own_node


class EncodedSearch(Search):
    """Over a decoder that looks at what an encoder gives, the same in all rounds."""

    rows = 0
    other_inputs = "an encoder that runs the decoder for the first time"
    way_out = "convert the model with ONNX Runtime 1.22 or newer"

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
        made = self.encoded([site.data, given])
        if len(made) != own:
            raise site.unsupported("an encoder that gives more than the caches")
        for x, outer in zip([seen, *past[own:]], [given, *made], strict=True):
            x.replace_all_uses_with(self.repeated(outer, beams, x.name or "seen"))
        self.body.inputs[:] = [word, *past[:own]]
        return [self.repeated(self.start(), beams, "start")]

    def start(self) -> ir.Value:
        """The word that all sequences begin with."""
        site = self.site
        count = site.before("Shape", [site.data], "samples", start=0, end=1)
        shape = site.before("Concat", [count, site.ints("one", [1])], "shape", axis=0)
        word = np.array([site.take_int("decoder_start_token_id", -1)], np.int32)
        return site.before("ConstantOfShape", [shape], "start", value=ir.Tensor(word))

    def _from_first_word(self) -> ir.Value:
        """A mask that leaves out padding in front: an end may look like padding."""
        site, kept = self.site, self.kept()
        before = site.before("CumSum", [kept, site.ints("axis", 1)], "word_count")
        zero = site.constant("zero", np.array(0, np.int32))
        begun = site.before("Greater", [before, zero], "begun")
        return site.before("Cast", [begun], "seen", to=INT32.value)

    def encoded(self, given: Sequence[ir.Value]) -> list[ir.Value]:
        """The results of the encoder, whose nodes come to stand before the node."""
        encoder = graph_of(self.site, "encoder")
        if len(encoder.inputs) != len(given):
            raise self.site.unsupported(self.other_inputs, self.way_out)
        results = list(encoder.outputs)
        encoder.outputs.clear()
        for x, outer in zip(encoder.inputs, given, strict=True):
            x.replace_all_uses_with(outer)
        for name, value in list(encoder.initializers.items()):
            del encoder.initializers[name]
            self.site.graph.register_initializer(value)
        nodes = list(encoder)
        encoder.remove(nodes)
        self.site.graph.insert_before(self.site.node, nodes)
        return results

    def repeated(self, x: ir.Value, beams: ir.Value | None, word: str) -> ir.Value:
        """Rows of x for each beam of a sample, `beams` times one after another."""
        rank = 2 if x.shape is None else len(x.shape)
        kinds = {word: (x.dtype or INT32, rank)}
        return own_node(self.site, "RepeatRows", [x, beams], kinds)[0]

    def length(self) -> ir.Value:
        return self.site.ints("length", [1])


_PROMPT, _PROCESSOR, _HEADS, _EXTRA, _TEMPERATURE = 10, 11, 12, 13, 14


class WhisperSearch(EncodedSearch):
    """Behind an encoder that runs the decoder over the prompt, too."""

    more = (_PROMPT, _PROCESSOR, _HEADS, _TEMPERATURE)
    other_inputs = "an encoder of other inputs than sounds and a prompt"
    way_out = ""

    def prompt(self, mask: int, beams: ir.Value | None) -> list[ir.Value]:
        """The words that sequences begin with; the first of the rest has its scores."""
        site, (word, *past) = self.site, list(self.body.inputs)
        if site.wants(3) or site.wants(4):
            raise site.unsupported(
                "scores of cross-attention, or how likely silence is, as an output"
            )
        processor = constant_array(site.input(_PROCESSOR))
        if site.input(_PROCESSOR) and (processor is None or processor.any()):
            raise site.unsupported("a processor of scores, such as that of timestamps")
        self.temperature = site.input(_TEMPERATURE)
        own = len(self.body.outputs) - 1
        if len(past) not in (2 * own, 2 * own + 1) or own < 2 or own % 2:
            raise self.unknown("a word, caches of its own and of the encoder")
        if word.shape is None or word.shape[1] != 1:
            raise site.unsupported("a decoder that reads all words in each round")
        start = site.input(_PROMPT) or self.start()
        logits, hidden, *made = self.encoded([site.data, start])
        if len(made) != 2 * own:
            raise site.unsupported("an encoder that gives more than the caches")
        if len(past) > 2 * own:
            past[0].replace_all_uses_with(self.repeated(hidden, beams, "hidden"))
        past, made = past[-2 * own :], [
            self.repeated(x, beams, x.name or "past") for x in made
        ]
        for x, outer in zip(past[own:], made[own:], strict=True):
            x.replace_all_uses_with(outer)
        self.body.inputs[:] = [word, *past[:own]]
        self.filled = made[:own]
        last = site.before("Gather", [logits, site.ints("last", -1)], "logits", axis=1)
        self.first_scores = self.repeated(last, beams, "first_logits")
        self.first_scores.shape = ir.Shape([None] * 2)
        return [self.repeated(start, beams, "start")]

    def empty_cache(self) -> list[ir.Value]:
        return self.filled

    def last_word(self, sequences: ir.Value) -> ir.Value:
        """The last word of each sequence; shape [rows, 1]."""
        site, axis = self.site, self.site.ints("axis", [1])
        ends = [site.ints(name, [x]) for name, x in (("from", -1), ("to", 2**31 - 1))]
        return site.before("Slice", [sequences, *ends, axis], "word")

    def length(self) -> ir.Value:
        """That of the prompt, and the word behind it."""
        length = self.site.before("Shape", [self.words], "length", start=1, end=2)
        return self.site.before("Add", [length, self.site.ints("one", [1])], "length")
