"""What ONNX has no operator for, in its own operators; and the optional packages.

Most models have operators of ai.onnx alone. What knows those of other domains loads
when a model has one: importing a package below enters its operators (of the package of
the same name in analysis/ops) and how they are lowered.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

_DOMAINS = {
    "com.microsoft": "contrib",
    "ai.onnx.ml": "ml",
    "ai.onnx.preview.training": "training",
}
_SEARCHES = ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")
_OPERATORS = {
    # In ONNX's domain: what they came from is of ONNX Runtime, or of scikit-learn.
    ("", "CausalConvWithState"): "contrib",
    ("", "LinearAttention"): "contrib",
    ("", "SimplifiedLayerNormalization"): "contrib",
    ("", "TfIdfVectorizer"): "ml",
    **{("com.microsoft", search): "search" for search in _SEARCHES},
}


@cache
def load(domain: str, operator: str) -> None:
    """Load the optional package that an operator is of, if it is of one."""
    package = _OPERATORS.get((domain, operator)) or _DOMAINS.get(domain)
    if package is not None:
        import_module(f".{package}", __name__)


def load_all() -> None:
    """Load every optional package, for who goes through all operators."""
    for domain, operator in [*_OPERATORS, *((domain, "") for domain in _DOMAINS)]:
        load(domain, operator)
