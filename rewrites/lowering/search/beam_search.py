"""BeamSearch and WhisperBeamSearch of ONNX Runtime as Loops over their decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...adapters.opset_adapters import AdapterSite, extension
from .encoder_decoder_search import EncodedSearch, WhisperSearch
from .greedy_search import (
    ATTRS,
    BOOL,
    FLOAT,
    INT32,
    INT64,
    Kind,
    Search,
    become_own,
    own_node,
)

_ATTRS = f"{ATTRS} decoder_start_token_id early_stopping encoder"
_IDS = (
    "beginning_timestamp_token_id decoder_output_cross_qk no_speech_token_id "
    "no_timestamps_token_id start_of_lm_token_id transcribe_token_id translate_token_id"
)
_SEARCHES = (Search, EncodedSearch, WhisperSearch)
_KINDS: dict[str, Kind] = {
    "totals": (FLOAT, 2),
    "best": (INT32, 3),
    "best_totals": (FLOAT, 2),
    "done": (BOOL, 1),
}
_STEP: dict[str, Kind] = {
    "sequences": (INT32, 2),
    **_KINDS,
    "rows": (INT64, 1),
    "going": (BOOL, 0),
}


@extension("BeamSearch", attrs=_ATTRS, types=False)
def beam_search(site: AdapterSite) -> None:
    """Of all continuations of a few sequences, the same few that are the likeliest."""
    kind = site.take_int("model_type", 0)
    if not 0 <= kind < len(_SEARCHES):
        raise site.unsupported(f"models of type {kind} are not supported")
    _search(site, _SEARCHES[kind])


@extension("WhisperBeamSearch", attrs=f"{_ATTRS} {_IDS}", types=False)
def _whisper_beam_search(site: AdapterSite) -> None:
    site.take("model_type")
    _search(site, WhisperSearch)


def _search(site: AdapterSite, make: type[Search]) -> None:
    longest, beams, returned = (site.need(i) for i in (1, 3, 4))
    one = np.array([1], np.float32)
    power = site.input(5) or site.constant("length_penalty", one)
    early = site.take_int("early_stopping", 0)
    search = make(site, (2, 6, 7, 8), mask=9, beams=beams)
    padding = search.ends["padding"]
    inputs = [search.words, beams, longest]
    first = own_node(site, "BeamStart", inputs, _KINDS, padding=padding)
    states, scores = [search.words, *first], None
    options = search.ends | ({"early": 1} if early else {})
    if isinstance(search, WhisperSearch):
        scores, made = _step(site, search, search.first_scores, states, power, options)
        *states, _, search.running = made
        search.first = [search.last_word(states[0])]
    search.begin(dict(zip(("sequences", *_KINDS), states, strict=True)))
    at, given = search.inner, search.states
    found, made = _step(at, search, search.last_scores(), given, power, options)
    *made, rows, going = made
    if site.wants(2):
        search.scan = [found]
    search.loop(longest, made, going, made[0], rows)
    if site.wants(2):
        every = search.scanned[0]
        if scores is not None:
            kinds = {"all_scores": (FLOAT, 3)}
            (every,) = own_node(site, "JoinScores", [scores, every], kinds)
        kinds = {"every_score": (FLOAT, 4)}
        inputs = [every, beams, longest, search.words]
        site.give(2, own_node(site, "PadScores", inputs, kinds)[0])
    site.node.resize_outputs(min(2, len(site.node.outputs)))
    inputs = [*search.results, returned, power]
    become_own(site, "BeamEnd", inputs, padding=padding)


def _step(
    at: AdapterSite,
    search: Search,
    scores: ir.Value,
    states: Sequence[ir.Value],
    power: ir.Value,
    options: dict[str, int],
) -> tuple[ir.Value, list[ir.Value]]:
    """Totals of all continuations, and the states with the best of them."""
    scores = at.before("LogSoftmax", [scores], "log", axis=-1)
    scores = search.allowed(at, scores, states[0])
    made = own_node(at, "BeamStep", [scores, *states, power], _STEP, **options)
    totals = at.before("Reshape", [states[1], at.ints("column", [-1, 1])], "column")
    return at.before("Add", [scores, totals], "every"), made
