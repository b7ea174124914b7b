"""ONNX Runtime's Sampling: as GreedySearch, with words drawn from the likeliest."""

from __future__ import annotations

import onnx_ir as ir

from ...adapters.opset_adapters import AdapterSite, constant_array, extension
from .greedy_search import ATTRS, Search, begin_greedy, walk

_DRAWS = "temperature top_p filter_value min_tokens_to_keep presence_penalty custom"


@extension("Sampling", attrs=f"{ATTRS} {_DRAWS}", types=False)
def sampling(site: AdapterSite) -> None:
    """All that is drawn at random is drawn before the loop, a number for each word."""
    if site.take_int("custom", 0) or site.take_float("presence_penalty", 0):
        raise site.unsupported("custom sampling, or a penalty for words that are there")
    if site.wants(1):
        raise site.unsupported("the scores of all words are not supported")
    longest, seed = site.need(1), _seed(site)
    options = {
        "top": site.take_float("top_p", 0),
        "temperature": site.take_float("temperature", 1),
        "filtered": site.take_float("filter_value", -1e20),
        "keep": site.take_int("min_tokens_to_keep", 0),
    }
    site.set_inputs(site.inputs[:8])
    search = Search(site, (2, 3, 4, 5), mask=6)
    luck = _luck(site, search, longest, seed)
    states = begin_greedy(search)
    here = search.inner.before("Gather", [luck, search.round], "luck_here", axis=0)
    site.node.resize_outputs(1)
    walk(search, longest, "SampleStep", [*states, here], **options)


def _seed(site: AdapterSite) -> int | None:
    if site.input(8) is None:
        return None
    found = constant_array(site.input(8))
    if found is None or found.size != 1:
        raise site.unsupported("a seed that is no constant")
    return int(found.reshape(-1)[0])


def _luck(
    site: AdapterSite, search: Search, longest: ir.Value, seed: int | None
) -> ir.Value:
    """Numbers between 0 and 1, for each round and sequence."""
    lengths = site.before("Reshape", [longest, site.ints("one", [1])], "rounds")
    lengths = site.before("Cast", [lengths], "most", to=ir.DataType.INT64.value)
    shape = site.before("Concat", [lengths, search.count], "luck_shape", axis=0)
    zeros = site.before("ConstantOfShape", [shape], "none")
    given = {} if seed is None else {"seed": float(seed)}
    made = site.before("RandomUniformLike", [zeros], "luck", **given)
    made.type = ir.TensorType(ir.DataType.FLOAT)
    made.meta["word"] = "luck"
    return made
