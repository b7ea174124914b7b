"""In-graph search: a loop over the decoder that is an attribute of the node."""

from ....analysis.ops import search  # noqa: F401
from . import beam_search, encoder_decoder_search, greedy_search, sampling  # noqa: F401
