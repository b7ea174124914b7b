"""Operators of ai.onnx.ml that look something up: labels, maps, n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ...graph.map_types import map_type
from ...spelling.expr import Expr, Name, Ref
from ..facts import fitting_sizes
from ..helpers import ml as ml_helpers
from ..helpers import strings as string_helpers
from ..node_view import NodeView
from ..registry import ONE_TO_ONE, OPAQUE, OWN, operator
from ..string_constants import SHORT, array_of, decoded, string_list

ML = "ai.onnx.ml"


def _table(t: Any, n: NodeView, name: str, array: np.ndarray) -> Any:
    """An array that belongs to the node: printed if it is short, else a buffer."""
    printed = isinstance(t.np.array, Expr)
    if not printed or array.size <= 16:
        like = {} if array.dtype == np.int64 else {"dtype": t.dtype(_dtype(array))}
        return t.tensor(array.tolist(), **like, device=t.device)
    key = f"table {name}"
    if key not in n.node.meta:
        tensor = ir.Tensor(np.ascontiguousarray(array))
        n.node.meta[key] = ir.val(f"{n.node.name}_{name}", const_value=tensor)
    return Ref(n.node.meta[key])


def _dtype(array: np.ndarray) -> ir.DataType:
    return ir.DataType.from_numpy(array.dtype)


def _listed(t: Any, n: NodeView, name: str, items: Sequence[Any]) -> Any:
    """A list of strings or numbers that belongs to the node."""
    if items and isinstance(items[0], str):
        return string_list(t, list(items), name, n.node)
    if len(items) <= SHORT // 10:
        return list(items)
    return _table(t, n, name, np.array(items)).tolist()


# ---- LabelEncoder


def _of_encoder(n: NodeView, side: str) -> np.ndarray | None:
    """The keys or values, whichever attribute has them."""
    tensor = n.node.attributes.get(f"{side}_tensor")
    if tensor is not None:
        found = tensor.as_tensor()
        is_text = found.dtype == ir.DataType.STRING
        return (decoded(found) if is_text else found.numpy()).reshape(-1)
    for kind, dtype in (
        ("strings", object),
        ("int64s", np.int64),
        ("floats", np.float32),
    ):
        listed = n.attr(f"{side}_{kind}")
        if listed:
            return np.array(listed, dtype)
    return None


def _default(n: NodeView, values: np.ndarray) -> Any:
    tensor = n.node.attributes.get("default_tensor")
    if tensor is not None and tensor.as_tensor().size:
        found = tensor.as_tensor()
        is_text = found.dtype == ir.DataType.STRING
        return (decoded(found) if is_text else found.numpy()).reshape(-1)[0]
    if values.dtype == object:
        return n.attr("default_string", "_Unused")
    if values.dtype.kind == "f":
        return n.attr("default_float", -0.0)
    return n.attr("default_int64", -1)


def _place_of(t: Any, n: NodeView, x: Any, keys: np.ndarray) -> Any:
    nan = np.isnan(keys) if keys.dtype.kind == "f" else np.zeros(len(keys), bool)
    known = keys[~nan]
    if not len(known):
        index = t.full_like(x, len(keys), dtype=t.int64)
    else:
        index = t.helper(ml_helpers.find_numbers)(x, _table(t, n, "keys", known))
    if not nan.any():
        return index
    # NaN is sorted behind the others, and equal to none of them.
    index = t.where(index == len(known), len(keys), index)
    return t.where(x.isnan(), len(known), index)


def _label_encoder(t: Any, n: NodeView, x: Any) -> Any:
    keys, values = _of_encoder(n, "keys"), _of_encoder(n, "values")
    if keys is None or values is None or len(keys) != len(values):
        n.refuse("LabelEncoder without as many values as keys")
    if (keys.dtype == object) != (n.value(0).dtype == ir.DataType.STRING):
        n.refuse("LabelEncoder with keys of another type than its data")
    _, first = np.unique(keys, return_index=True)  # of equal keys the first counts
    numeric = keys.dtype != object
    order = first if numeric else np.sort(first)
    keys, values = keys[order], values[order]
    values = np.append(values, np.array([_default(n, values)], values.dtype))
    if numeric:
        index = _place_of(t, n, x, keys)
    else:
        listed = _listed(t, n, "keys", keys.tolist())
        index = t.helper(ml_helpers.find_strings)(x, listed, t.device)
    if values.dtype == object:
        words = _listed(t, n, "values", values.tolist())
        return t.helper(string_helpers.take)(array_of(t, words), index)
    return _table(t, n, "values", values)[index]


operator(
    "LabelEncoder", since=4, domain=ML, mapping=ONE_TO_ONE, strings=_label_encoder
)(_label_encoder)


# ---- maps


@operator("ZipMap", since=1, fits=fitting_sizes.labels, domain=ML, mapping=OPAQUE)
def _zip_map(t: Any, n: NodeView, scores: Any) -> Any:
    keys = n.attr("classlabels_strings") or n.attr("classlabels_int64s") or []
    if not keys:
        n.refuse("ZipMap without labels")
    dims = n.shapes.dims(n.value(0))
    if dims is not None and isinstance(dims[-1], int) and dims[-1] != len(keys):
        n.refuse(f"ZipMap of {dims[-1]} scores, but {len(keys)} labels")
    return t.helper(ml_helpers.zip_map)(scores, _listed(t, n, "classes", keys))


def _of_map(t: Any, n: NodeView, entries: Any, keys: Sequence[Any]) -> Any:
    """A row of the values of a map."""
    listed = _listed(t, n, "keys", keys)
    dtype = n.node.outputs[0].dtype
    if dtype == ir.DataType.STRING:
        return t.helper(ml_helpers.map_words)(entries, listed)
    return t.helper(ml_helpers.map_values)(
        entries, listed, t.dtype(n.out_dtype()), t.device
    )


def _dict_vectorizer(t: Any, n: NodeView, entries: Any) -> Any:
    keys = n.attr("string_vocabulary") or n.attr("int64_vocabulary") or []
    if not keys:
        n.refuse("DictVectorizer without a vocabulary")
    return _of_map(t, n, entries, keys)


operator(
    "DictVectorizer", since=1, domain=ML, mapping=OPAQUE, strings=_dict_vectorizer
)(_dict_vectorizer)


def _cast_map(t: Any, n: NodeView, entries: Any) -> Any:
    to, form = n.attr("cast_to", "TO_FLOAT"), n.attr("map_form", "DENSE")
    converts = {"TO_FLOAT": "float", "TO_STRING": "str", "TO_INT64": "int"}
    kind = map_type(n.value(0))
    if to not in converts or kind is None:
        n.refuse("CastMap of what is no map, or to an unknown type")
    is_text = kind.map_type.value_type.tensor_type.elem_type == ir.DataType.STRING
    if to == "TO_STRING" and (not is_text or form == "SPARSE"):
        n.refuse("CastMap of numbers to strings is not supported")
    convert = Name(converts[to])
    if form == "SPARSE":
        size = n.attr("max_map", 1)
        if not 0 < size <= 1 << 20:
            n.refuse(f"CastMap with max_map {size}")
        rows = t.helper(ml_helpers.map_by_place)(entries, convert, size)
    else:
        rows = t.helper(ml_helpers.map_in_order)(entries, convert)
    if to == "TO_STRING":
        return array_of(t, rows)
    return t.tensor(rows, dtype=t.dtype(n.out_dtype()), device=t.device)


operator("CastMap", since=1, domain=ML, mapping=OPAQUE, strings=_cast_map)(_cast_map)


# ---- probabilities of classes, which libsvm finds by iteration


@operator("PairwiseCoupling", since=1, domain=OWN, mapping=OPAQUE)
def _couple(t: Any, n: NodeView, likely: Any) -> Any:
    return t.helper(ml_helpers.couple_pairs)(likely, n.attr("classes"))


# ---- n-grams


def _check_ngrams(
    n: NodeView,
    pool: Sequence[Any],
    starts: Sequence[int],
    columns: Sequence[int],
    lengths: tuple[int, int],
) -> None:
    """The n-grams lie inside the pool, and there is a column for each."""
    ends = [*starts[1:], len(pool)]
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    fits = all(size >= 0 and size % (k + 1) == 0 for k, size in enumerate(sizes))
    if not fits or (starts and starts[0] != 0):
        n.refuse("TfIdfVectorizer with n-grams that are not in its pool")
    count = sum(size // (k + 1) for k, size in enumerate(sizes))
    given = n.attr("weights")
    if count != len(columns) or not count or (given and len(given) != count):
        n.refuse("TfIdfVectorizer without a column and weight for each n-gram")
    if min(columns) < 0 or max(columns) >= 1 << 26 or not 0 < lengths[0] <= lengths[1]:
        n.refuse("TfIdfVectorizer with impossible columns or lengths")
    if n.rank(0) not in (1, 2) or n.attr("mode") not in ("TF", "IDF", "TFIDF"):
        n.refuse("TfIdfVectorizer of data of this rank, or in this mode")


def _tf_idf(t: Any, n: NodeView, x: Any) -> Any:
    pool = n.attr("pool_strings") or n.attr("pool_int64s") or []
    starts, columns = n.attr("ngram_counts", []), n.attr("ngram_indexes", [])
    lengths = (n.attr("min_gram_length", 1), n.attr("max_gram_length", 1))
    _check_ngrams(n, pool, starts, columns, lengths)
    rank = n.rank(0)
    counts = t.helper(ml_helpers.tf_idf)(
        x.tolist() if rank == 2 else [x.tolist()],
        _listed(t, n, "pool", pool),
        _listed(t, n, "starts", starts),
        _listed(t, n, "columns", columns),
        n.attr("max_skip_count", 0),
        lengths,
        t.device,
    )
    counts = counts if rank == 2 else counts[0]
    mode, given = n.attr("mode"), n.attr("weights")
    if mode == "TF":
        return counts
    if mode == "IDF":
        counts = (counts > 0).float()
    if not given:
        return counts
    weights = np.ones(max(columns) + 1, np.float32)
    weights[columns] = given
    return counts * _table(t, n, "weights", weights)


operator("TfIdfVectorizer", since=9, mapping=OPAQUE, strings=_tf_idf, inlines=False)(
    _tf_idf
)
