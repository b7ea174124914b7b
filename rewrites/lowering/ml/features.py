"""Operators of ai.onnx.ml that prepare features, as arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..by_type import LoweringSite, lowering

FLOAT, INT64, STRING = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.STRING


def _small(array: np.ndarray) -> np.ndarray:
    """Equal numbers as one, without axes."""
    return array.reshape(-1)[0].reshape(()) if (array == array.flat[0]).all() else array


@lowering("Scaler")
def scaler(site: LoweringSite) -> Sequence[ir.Value]:
    """(x - offset) * scale, per column or the same for all."""
    offset, scale = site.floats("offset"), site.floats("scale")
    if not offset.size or offset.size != scale.size:
        raise site.unsupported("scale and offset need as many numbers as each other")
    if site.data_rank > 2 and scale.size > 1:
        raise site.unsupported("a scale per column needs rows of features")
    x = site.cast(site.data, FLOAT)
    if offset.any():
        x = site.before("Sub", [x, site.constant("offset", _small(offset))], "moved")
    return [site.before("Mul", [x, site.constant("scale", _small(scale))], "scaled")]


@lowering("Binarizer")
def binarizer(site: LoweringSite) -> Sequence[ir.Value]:
    """1 where x exceeds the threshold, else 0, in the type of x."""
    dtype = site.data.dtype or FLOAT
    found = site.node.attributes.get_float("threshold", 0.0)
    limit = site.constant("threshold", np.array(found, np.float32))
    x = site.data if dtype.is_floating_point() else site.cast(site.data, FLOAT)
    if x.dtype not in (FLOAT, None):
        limit = site.cast(limit, dtype)
    return [site.cast(site.before("Greater", [x, limit], "above"), dtype)]


@lowering("Imputer")
def imputer(site: LoweringSite) -> Sequence[ir.Value]:
    """Other numbers in place of one number, or of NaN."""
    dtype = site.data.dtype or FLOAT
    if dtype.is_floating_point():
        filled = site.floats("imputed_value_floats")
        number = site.node.attributes.get_float("replaced_value_float", 0.0)
        replaced = np.float32(number)
    else:
        filled = site.integers("imputed_value_int64s")
        replaced = np.int64(site.integer("replaced_value_int64", 0))
    if not filled.size:
        raise site.unsupported("it has no values of the type of its data")
    shape = site.data.shape
    width = None if shape is None or not len(shape) else shape[-1]
    if filled.size > 1 and isinstance(width, int) and width != filled.size:
        filled = filled[:1]  # as ONNX Runtime does
    filled = _small(filled).astype(dtype.numpy())
    if np.isnan(replaced):
        missing = site.before("IsNaN", [site.data], "missing")
    else:
        value = site.constant("replaced", np.array(replaced, dtype.numpy()))
        missing = site.before("Equal", [site.data, value], "missing")
    chosen = [missing, site.constant("filled", filled), site.data]
    return [site.before("Where", chosen, "imputed")]


@lowering("Normalizer")
def normalizer(site: LoweringSite) -> Sequence[ir.Value]:
    """Each row divided by its norm; a row of norm 0 stays."""
    norm = site.text("norm", "MAX")
    x = site.cast(site.data, FLOAT)
    if site.data_rank > 2:
        raise site.unsupported("data that is neither a row nor rows of features")
    if norm in ("L1", "L2"):
        p = int(norm[1])
        return [site.before("LpNormalization", [x], "normalized", axis=-1, p=p)]
    if norm != "MAX":
        raise site.unsupported(f"norm {norm!r} is not known")
    top = site.before("ReduceMax", [x, site.ints("axis", [-1])], "top", keepdims=1)
    zero, one = (site.constant(f"c{v}", np.array(v, np.float32)) for v in (0, 1))
    none = site.before("Equal", [top, zero], "is_zero")
    return [
        site.before(
            "Div", [x, site.before("Where", [none, one, top], "divisor")], "normalized"
        )
    ]


@lowering("FeatureVectorizer")
def feature_vectorizer(site: LoweringSite) -> Sequence[ir.Value]:
    """The columns of all inputs side by side, each cut or filled to its size."""
    sizes, parts = site.integers("inputdimensions"), []
    if len(sizes) != len(site.inputs):
        raise site.unsupported("inputdimensions needs a number for each input")
    for i, (value, size) in enumerate(zip(site.inputs, sizes.tolist(), strict=True)):
        if value is None:
            raise site.unsupported("an input is left out")
        # Where nothing is known, rows of as many features as are said to be there.
        shape = ir.Shape([None, size]) if value.shape is None else value.shape
        if len(shape) not in (1, 2):
            raise site.unsupported("an input is neither a row nor rows of features")
        x = site.cast(value, FLOAT)
        if len(shape) == 1:
            x = site.before("Reshape", [x, site.ints("row", [1, -1])], f"row{i}")
        width = shape[-1]
        if width != size:
            if not isinstance(width, int) or size < 0:
                raise site.unsupported("an input with a dynamic number of features")
            pads = site.ints(f"pads{i}", [0, 0, 0, size - width])
            x = site.before("Pad", [x, pads], f"sized{i}")
        parts.append(x)
    return [site.before("Concat", parts, "features", axis=1)]


@lowering("ArrayFeatureExtractor")
def array_feature_extractor(site: LoweringSite) -> Sequence[ir.Value]:
    """Some elements of the last axis; of a list, as a row."""
    index = site.input(1)
    if index is None:
        raise site.unsupported("it needs indices")
    flat = site.before("Reshape", [index, site.ints("flat", [-1])], "flat")
    data = site.data
    if site.data_rank == 1:
        data = site.before("Reshape", [data, site.ints("row", [1, -1])], "row")
    return [site.before("Gather", [data, flat], "chosen", axis=-1)]


@lowering("OneHotEncoder")
def one_hot_encoder(site: LoweringSite) -> Sequence[ir.Value]:
    """1 where the element is the category, else 0, in a new last axis."""
    words, numbers = site.words("cats_strings"), site.integers("cats_int64s").tolist()
    is_text = site.data.dtype == STRING
    categories = words if is_text else numbers
    if not categories or len(set(categories)) < len(categories):
        raise site.unsupported("its categories are none of its data's type, or repeat")
    x = site.data if is_text else site.cast(site.data, INT64)
    column = site.before("Unsqueeze", [x, site.ints("last", [-1])], "column")
    known = site.labels("categories", categories)
    return [site.cast(site.before("Equal", [column, known], "is_category"), FLOAT)]


@lowering("CategoryMapper")
def category_mapper(site: LoweringSite) -> Sequence[ir.Value]:
    """A LabelEncoder between strings and numbers, in the direction of the data."""
    words, numbers = site.words("cats_strings"), site.integers("cats_int64s").tolist()
    if len(words) != len(numbers):
        raise site.unsupported("its categories differ in number")
    return [_translated(site, words, numbers)]


def _translated(site: LoweringSite, words: list[str], numbers: list[int]) -> ir.Value:
    """Numbers for words or words for numbers; of equal keys the last counts."""
    if site.data.dtype == STRING:
        known = dict(zip(words, numbers, strict=True))
        keys: dict[str, object] = {"keys_strings": [*known]}
        keys["values_int64s"] = [*known.values()]
        keys["default_int64"] = site.integer("default_int64", -1)
    else:
        named = dict(zip(numbers, words, strict=True))
        keys = {"keys_int64s": [*named], "values_strings": [*named.values()]}
        keys["default_string"] = site.text("default_string", "_Unused")
    return site.encoder(keys)


@lowering("LabelEncoder")
def label_encoder(site: LoweringSite) -> Sequence[ir.Value]:
    """The newest form, of the lists of labels that version 1 knew."""
    words = site.words("classes_strings")
    if words:
        return [_translated(site, words, list(range(len(words))))]
    return [site.encoder({a.name: a for a in site.node.attributes.values()})]
