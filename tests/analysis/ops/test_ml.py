"""ai.onnx.ml: every operator, lowered or not, in a package that is verified.

The maps that some of them take and give are no case of an operator table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from support.drawn_nodes import Known, by_operator, compared
from tools.conformance import imported

import fairhand
from fairhand.codegen.verify.tolerances import compare_values

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((7, 3)).astype(np.float32)
STRING, INT64, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT


def model(
    op: str, inputs: list[Any], outputs: int, **attributes: Any
) -> onnx.ModelProto:
    infos = [
        (
            value
            if isinstance(value, onnx.ValueInfoProto)
            else helper.make_tensor_value_info(
                f"x{i}",
                helper.np_dtype_to_tensor_dtype(value.dtype),
                ["N", *value.shape[1:]] if value.ndim > 1 else value.shape,
            )
        )
        for i, value in enumerate(inputs)
    ]
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(
        op,
        [i.name for i in infos],
        names,
        name="one",
        domain="ai.onnx.ml",
        **attributes,
    )
    results = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node], "g", infos, results)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def expected(proto: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(proto.SerializeToString(), options).run(None, feed)


def check(
    proto: onnx.ModelProto, feed: dict[str, Any], folder: Path, known: Any = None
) -> None:
    package = folder / "package"
    fairhand.compile(proto, package, verify=False)
    with imported(package) as module:
        found = module.Session().run(None, feed)
    for actual, wanted in zip(found, known or expected(proto, feed), strict=True):
        result = compare_values(actual, wanted)
        assert result, result.reason


TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
TWO, THREE = {"classlabels_ints": [3, 5]}, {"classlabels_strings": ["a", "b", "c"]}
VECTORS = {
    "support_vectors": RANDOM.standard_normal(15).tolist(),
    "kernel_params": [0.5, 0.25, 2.0],
}
SVM3 = {
    **VECTORS,
    "vectors_per_class": [2, 1, 2],
    "coefficients": RANDOM.standard_normal(10).tolist(),
    "rho": [0.1, -0.2, 0.3],
}
SVM2 = {
    **VECTORS,
    "vectors_per_class": [3, 2],
    "coefficients": RANDOM.standard_normal(5).tolist(),
    "rho": [0.1],
}
SVR = {
    **VECTORS,
    "n_supports": 5,
    "coefficients": RANDOM.standard_normal(5).tolist(),
    "rho": [0.25],
}
PROBABLE = {"prob_a": [-1.5, -0.75, -2.0], "prob_b": [0.1, 0.0, -0.2]}
STUMP = {
    "nodes_treeids": [0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 0, 1, 2],
    "nodes_featureids": [0, 0, 0, 1, 0, 0],
    "nodes_values": [0.1, 0.0, 0.0, -0.2, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
    "nodes_truenodeids": [1, 0, 0] * 2,
    "nodes_falsenodeids": [2, 0, 0] * 2,
}


def votes(*entries: tuple[int, int, int, float]) -> dict[str, Any]:
    """(tree, node, class, weight) of leaves."""
    trees, nodes, ids, weights = map(list, zip(*entries, strict=True))
    return {
        **STUMP,
        "class_treeids": trees,
        "class_nodeids": nodes,
        "class_ids": ids,
        "class_weights": weights,
    }


def of_targets(found: dict[str, Any]) -> dict[str, Any]:
    """The same leaves of a regressor."""
    return {k.replace("class_", "target_"): value for k, value in found.items()}


FIRST = votes((0, 1, 0, 0.3), (0, 2, 0, 0.1), (1, 1, 0, 0.4), (1, 2, 0, 0.2))
MIXED = votes((0, 1, 0, -0.3), (0, 2, 0, 0.1), (1, 1, 0, 0.4), (1, 2, 0, -0.2))
BOTH = votes(
    *(
        (t, n, c, 0.2 * n - 0.3 * c + 0.1 * t)
        for t in (0, 1)
        for n in (1, 2)
        for c in (0, 1)
    )
)
TWICE = votes(  # as skl2onnx writes paths of decisions
    *((0, n, c, w) for n in (1, 2) for c, w in ((1, 0.5), (0, 0.3 * n), (1, -0.2))),
    *((1, n, c, 0.3) for n in (1, 2) for c in (0, 0, 1)),
)
SOME = votes((0, 1, 0, -0.3), (0, 2, 1, -0.1), (1, 1, 2, -0.4), (1, 2, 0, -0.2))
CASES: list[tuple[str, list[Any], int, dict[str, Any]]] = [
    *(
        ("LinearClassifier", [X], 2, {"post_transform": t, **rest})
        for t in TRANSFORMS
        for rest in (
            {"coefficients": [0.5, 0.3, -1], "intercepts": [0.1], **TWO},
            {"coefficients": [0.5, 0.3, -1] * 3, "intercepts": [0.1, 0, 0.2], **THREE},
        )
    ),
    *(
        ("LinearRegressor", [X], 1, {"post_transform": t, "targets": k}
         | {"coefficients": [0.5, 1, 0.1] * k, "intercepts": [0.1] * k})
        for t in TRANSFORMS
        for k in (1, 2)
    ),
    ("LinearRegressor", [X[0]], 1, {"coefficients": [0.5, 1, 0.1]}),
    *(
        ("SVMClassifier", [X], 2, {"kernel_type": k, **SVM3, **THREE})
        for k in ("LINEAR", "POLY", "RBF", "SIGMOID")
    ),
    *(
        ("SVMClassifier", [X], 2, {"kernel_type": "RBF", "post_transform": t, **rest})
        for t in TRANSFORMS
        for rest in (
            {**SVM3, **THREE, **PROBABLE},
            {**SVM2, **TWO},
            {**SVM2, **TWO, "prob_a": [-1.5], "prob_b": [0.2]},
        )
    ),
    ("SVMClassifier", [X], 2, {"coefficients": [1, 0.5, -1] * 2, "rho": [0.1], **TWO,
                               "kernel_type": "LINEAR", "kernel_params": [0.0] * 3}),
    ("SVMClassifier", [X], 2, {"coefficients": [1, 0.5, -1] * 2, "rho": [0.1], **TWO,
                               "kernel_type": "LINEAR", "prob_a": [-1.5],
                               "prob_b": [0.2], "kernel_params": [0.0] * 3}),
    *(
        ("SVMRegressor", [X], 1, {"kernel_type": k, "one_class": one, **SVR})
        for k in ("POLY", "RBF")
        for one in (0, 1)
    ),
    *(
        ("TreeEnsembleClassifier", [X], 2, {"post_transform": t, **w, **rest})
        for t in TRANSFORMS
        for w in (FIRST, MIXED, BOTH)
        for rest in (
            {"classlabels_strings": ["no", "yes"]},
            {"classlabels_int64s": [3, 5], "base_values": [0.25]},
            {"classlabels_int64s": [0, 1], "base_values": [0.25, -0.1]},
        )
    ),
    ("TreeEnsembleClassifier", [X], 2, {**SOME, "classlabels_int64s": [4, 5, 6]}),
    *(  # a base counts for what a leaf voted for alone
        ("TreeEnsembleRegressor", [X], 1, {"n_targets": 3, "post_transform": t, **w}
         | {"base_values": [0.5, -2.0, 3.0]})
        for t in ("NONE", "LOGISTIC")
        for w in map(of_targets, (FIRST, BOTH, SOME))
    ),
    ("TreeEnsembleClassifier", [X], 2, {**FIRST, "classlabels_int64s": [4]}),
    *(
        ("TreeEnsembleRegressor", [X], 1,
         {**of_targets(TWICE | {"class_ids": ids}), "n_targets": 1 + max(ids)}
         | {"aggregate_function": how})
        for how in ("SUM", "MAX", "AVERAGE")
        for ids in ([0] * 12, TWICE["class_ids"])
    ),
    ("TreeEnsembleClassifier", [X], 2, {**TWICE, "classlabels_int64s": [0, 1]}),
    ("CategoryMapper", [np.array(["a", "?"], object)], 1,
     {"cats_strings": ["b", "a"], "cats_int64s": [7, 8]}),
    ("CategoryMapper", [np.array([8, 1])], 1,
     {"cats_strings": ["b", "a"], "cats_int64s": [7, 8]}),
    ("CategoryMapper", [np.array(["a", "b"], object)], 1,
     {"cats_strings": ["a", "b", "a"], "cats_int64s": [7, 8, 9]}),
    ("CategoryMapper", [np.array([8, 7])], 1,
     {"cats_strings": ["b", "a", "c"], "cats_int64s": [7, 8, 7]}),
    ("Scaler", [X], 1, {"offset": [1.0, 2, 3], "scale": [2.0, 2, 0.5]}),
    ("Binarizer", [X], 1, {"threshold": 0.5}),
    ("Imputer", [np.where(X > 1, np.nan, X)], 1,
     {"imputed_value_floats": [7.0, 8, 9], "replaced_value_float": float("nan")}),
    ("Imputer", [np.array([[0, 2], [3, 0]])], 1, {"imputed_value_int64s": [9, 8]}),
    *(("Normalizer", [X], 1, {"norm": n}) for n in ("MAX", "L1", "L2")),
    ("FeatureVectorizer", [X, X[:, :2]], 1, {"inputdimensions": [2, 3]}),
    ("ArrayFeatureExtractor", [X, np.array([[2, 0]])], 1, {}),
    ("ArrayFeatureExtractor", [X[0], np.array([1])], 1, {}),
    ("OneHotEncoder", [np.array(["a", "?"], object)], 1, {"cats_strings": ["b", "a"]}),
    ("OneHotEncoder", [np.array([[1, 5]])], 1, {"cats_int64s": [5, 6, 1]}),
    ("LabelEncoder", [np.array(["a", "?"], object)], 1,
     {"keys_strings": [f"k{i}" for i in range(400)] + ["a"],
      "values_int64s": list(range(401))}),
    ("ZipMap", [X], 1, {"classlabels_strings": ["a", 'b"\\', "\u00e9"]}),
    ("ZipMap", [X], 1, {"classlabels_int64s": [3, -1, 0]}),
]  # fmt: skip


def known(case: Any) -> Known:
    op, inputs, outputs, attributes = case
    feed = {f"x{i}": value for i, value in enumerate(inputs)}
    return model(op, inputs, outputs, **attributes), feed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_operator(case: Any, tmp_path: Path) -> None:
    check(*known(case), tmp_path)


def test_features_of_a_width_that_is_only_said(tmp_path: Path) -> None:
    """What other operators of ai.onnx.ml give has no shape yet."""
    text = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 2, "" : 17]>
    net (float[n, 3] x) => (float[n, 6] y) {
        a = ai.onnx.ml.Scaler <offset = [1.0, 2.0, 3.0], scale = [2.0, 2.0, 2.0]> (x)
        y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [3, 3]> (a, x)
    }"""
    check(onnx.parser.parse_model(text), {"x": X}, tmp_path)


DRAWN = by_operator(map(known, CASES))


@pytest.mark.parametrize("op", DRAWN)
def test_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    assert compared(op, DRAWN[op], 4, tmp_path) == 4


@pytest.mark.slow
@pytest.mark.parametrize("op", DRAWN)
def test_many_drawn_nodes_compute_the_same(op: str, tmp_path: Path) -> None:
    assert compared(op, DRAWN[op], 200, tmp_path) >= 100


def map_input(key: int, value: int) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name="x0")
    info.type.map_type.key_type = key
    info.type.map_type.value_type.tensor_type.elem_type = value
    return info


MAPS: list[tuple[str, tuple[int, int], dict[Any, Any], dict[str, Any]]] = [
    ("DictVectorizer", (STRING, FLOAT), {"b": 2.5, "z": 1.0},
     {"string_vocabulary": ["a", "b"]}),
    ("DictVectorizer", (INT64, FLOAT), {4: 2.5, 1: 1.0},
     {"int64_vocabulary": [1, 2, 4]}),
    ("CastMap", (INT64, FLOAT), {4: 2.5, 1: 1.0}, {"cast_to": "TO_FLOAT"}),
    ("CastMap", (INT64, FLOAT), {4: 2.5, 1: 1.0},
     {"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 6}),
    ("CastMap", (INT64, STRING), {4: "2.5", 1: "1"}, {"cast_to": "TO_FLOAT"}),
    ("CastMap", (INT64, STRING), {4: "2.5", 1: "x"}, {"cast_to": "TO_STRING"}),
]  # fmt: skip


@pytest.mark.parametrize("case", MAPS, ids=lambda case: case[0])
def test_map_input(case: Any, tmp_path: Path) -> None:
    op, (key, value), entries, attributes = case
    proto = model(op, [map_input(key, value)], 1, **attributes)
    dtype = helper.make_tensor_value_info("y0", FLOAT, None).type
    if attributes.get("cast_to") == "TO_STRING":
        dtype.tensor_type.elem_type = STRING
    elif value == INT64 or attributes.get("cast_to") == "TO_INT64":
        dtype.tensor_type.elem_type = INT64
    proto.graph.output[0].type.CopyFrom(dtype)
    # ONNX Runtime's Python interface makes no map of strings.
    known = [np.array([list(entries[k] for k in sorted(entries))], object)]
    if value != STRING:
        known = []
    elif dtype.tensor_type.elem_type == FLOAT:
        known = [known[0].astype(np.float32)]
    check(proto, {"x0": entries}, tmp_path, known)


def zipped() -> onnx.ModelProto:
    """Words in, a label and a list of maps out."""
    return onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
        words (string[N, 2] x) => (string[N] label, seq(map(string, float)) scores) {
            hot = ai.onnx.ml.OneHotEncoder <cats_strings = ["red", "green"]> (x)
            flat = Flatten (hot)
            label, raw = ai.onnx.ml.LinearClassifier <
                coefficients = [0.5, -1.0, 0.25, 2.0, -0.5, 1.0, 0.75, 0.125],
                intercepts = [0.1, 0.2], classlabels_strings = ["no", "yes"],
                post_transform = "SOFTMAX"
            > (flat)
            scores = ai.onnx.ml.ZipMap <classlabels_strings = ["no", "yes"]> (raw)
        }
        """)


def test_words_and_maps_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "words.onnx"
    onnx.save(zipped(), path)
    package = fairhand.compile(path, tmp_path / "words")
    assert package.report["verification"]["worst_relative_error"] < 1e-6
    assert "red" in package.report["inputs"]["x"]["words"]
    source = (package.path / "model.py").read_text("utf-8")
    assert "x: np.ndarray" in source and "list[dict[str, float]]" in source
    with imported(package.path) as module:
        session = module.Session()
        assert [i.type for i in session.get_inputs()] == ["tensor(string)"]
        kinds = [o.type for o in session.get_outputs()]
        assert kinds == ["tensor(string)", "seq(map(string,tensor(float)))"]
        with pytest.raises(TypeError, match="'x' must be object, got float32"):
            session.run(None, {"x": np.zeros((1, 2), np.float32)})
        as_words = session.run(["label"], {"x": [["red", "blue"]]})[0]
        assert as_words.tolist() == ["yes"] or as_words.tolist() == ["no"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "words"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("op", "changed", "message"),
    [
        (
            "TreeEnsembleClassifier",
            {"nodes_truenodeids": [0, 0, 0, 1, 0, 0]},
            "circles",
        ),
        (
            "TreeEnsembleClassifier",
            {"nodes_truenodeids": [9, 0, 0, 1, 0, 0]},
            "nowhere",
        ),
        ("TreeEnsembleClassifier", {"nodes_featureids": [9, 0, 0, 1, 0, 0]}, "feature"),
        ("TreeEnsembleClassifier", {"class_weights": [1.0]}, "differ in length"),
        ("TreeEnsembleClassifier", {"nodes_modes": ["ODD"] * 6}, "two classes|modes"),
        (
            "TreeEnsembleClassifier",
            {
                **votes((0, 1, 1, 0.1), (0, 2, 1, -0.2), (1, 1, 0, 0.3), (1, 2, 1, 0)),
                "base_values": [0.4, -0.2],
            },
            "without a vote for one",
        ),
    ],
)
def test_refusals(op: str, changed: Any, message: str, tmp_path: Path) -> None:
    proto = model(op, [X], 2, **{**FIRST, "classlabels_int64s": [0, 1], **changed})
    with pytest.raises(fairhand.Unsupported, match=message):
        fairhand.compile(proto, tmp_path / "package", verify=False)


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("LinearRegressor", {"coefficients": [1.0, 2.0]}, "2 .* 1 rows of 3 features"),
        (
            "LinearClassifier",
            {"coefficients": [1.0] * 8, "intercepts": [0.1, 0.2], **TWO},
            "8 coefficients for 2 rows of 3 features",
        ),
        ("OneHotEncoder", {"cats_int64s": [5, 5, 1]}, "repeat"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(
    op: str, attributes: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(fairhand.Unsupported, match=message):
        fairhand.compile(
            model(op, [X], 1 + ("Classifier" in op), **attributes),
            tmp_path / "p",
            verify=False,
        )


def test_bytes_that_are_no_text_are_refused_with_the_node(tmp_path: Path) -> None:
    text = "g (float[n, 2] x) => (float[n, 2] y) { y = ai.onnx.ml.Normalizer(x) }"
    head = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>'
    made = onnx.parser.parse_model(head + text)
    made.graph.node[0].attribute.append(helper.make_attribute("norm", b"\xff\xfe"))
    with pytest.raises(
        fairhand.FairhandError, match="Normalizer: its attributes or inputs"
    ):
        fairhand.compile(made, tmp_path / "net", verify=False)
