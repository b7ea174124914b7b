"""Estimators of scikit-learn, converted by sklearn-onnx: equal to ONNX Runtime.

Labels must be the same, scores and probabilities equal within 1e-5.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from support.drawn import some
from tools.conformance import imported

import fairhand

pytest.importorskip("skl2onnx", reason="needs sklearn-onnx")

from skl2onnx import to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn import (
    cluster,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    feature_selection,
    impute,
    linear_model,
    mixture,
    multiclass,
    naive_bayes,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((120, 6)).astype(np.float32)
Y3 = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int) + (X[:, 3] > 0.5)
Y2 = (X[:, 0] * 2 + X[:, 4] > 0.2).astype(int)
WORDS = np.array(["none", "few", "many"])[Y3]
T = (X @ RANDOM.standard_normal(6) + np.sin(X[:, 0])).astype(np.float32)
T2 = np.stack([T, -T + X[:, 1]], 1)
GAPS = np.where(RANDOM.random(X.shape) < 0.2, np.nan, X).astype(np.float32)
COUNTS = RANDOM.integers(0, 5, X.shape).astype(np.float32)
NAMES = np.array(["red", "green", "blue"], object)[RANDOM.integers(0, 3, (120, 2))]
TEXTS = [" ".join(RANDOM.choice(["to", "be", "or", "not"], 5)) for _ in range(40)]
SEED = {"random_state": 0}

# name -> (estimator, data, target, options of the converter)
MODELS: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    # linear
    "LogisticRegression-2": (linear_model.LogisticRegression(), X, Y2, {}),
    "LogisticRegression-3": (linear_model.LogisticRegression(), X, Y3, {}),
    "LogisticRegression-words": (linear_model.LogisticRegression(), X, WORDS, {}),
    "LinearRegression": (linear_model.LinearRegression(), X, T, {}),
    "LinearRegression-2": (linear_model.LinearRegression(), X, T2, {}),
    "RidgeClassifier": (linear_model.RidgeClassifier(), X, Y3, {}),
    "SGDClassifier": (linear_model.SGDClassifier(loss="log_loss", **SEED), X, Y3, {}),
    "Perceptron": (linear_model.Perceptron(), X, Y2, {}),
    # trees
    "DecisionTreeClassifier-2": (tree.DecisionTreeClassifier(**SEED), X, Y2, {}),
    "DecisionTreeClassifier-words": (tree.DecisionTreeClassifier(**SEED), X, WORDS, {}),
    "DecisionTreeRegressor": (tree.DecisionTreeRegressor(**SEED), X, T, {}),
    "RandomForestClassifier-2": (
        ensemble.RandomForestClassifier(10, **SEED), X, Y2, {},
    ),
    "RandomForestClassifier-3": (
        ensemble.RandomForestClassifier(10, **SEED), X, Y3, {},
    ),
    "RandomForestRegressor": (ensemble.RandomForestRegressor(10, **SEED), X, T2, {}),
    "GradientBoostingClassifier-2": (
        ensemble.GradientBoostingClassifier(n_estimators=10), X, Y2, {},
    ),
    "GradientBoostingClassifier-3": (
        ensemble.GradientBoostingClassifier(n_estimators=10), X, Y3, {},
    ),
    "GradientBoostingRegressor": (
        ensemble.GradientBoostingRegressor(n_estimators=10), X, T, {},
    ),
    "AdaBoostClassifier": (ensemble.AdaBoostClassifier(n_estimators=5), X, Y3, {}),
    "BaggingClassifier": (ensemble.BaggingClassifier(n_estimators=4), X, Y3, {}),
    "IsolationForest": (
        ensemble.IsolationForest(n_estimators=10, **SEED), X, None,
        {"target_opset": {"": 18, "ai.onnx.ml": 3}},
    ),
    # machines and neighbours
    "SVC-rbf": (svm.SVC(), X, Y3, {}),
    "SVC-2": (svm.SVC(kernel="poly", degree=2, coef0=1), X, Y2, {}),
    "NuSVC-words": (svm.NuSVC(nu=0.2, kernel="sigmoid"), X, WORDS, {}),
    "SVR": (svm.SVR(), X, T, {}),
    "LinearSVC": (svm.LinearSVC(), X, Y3, {}),
    "OneClassSVM": (svm.OneClassSVM(), X, None, {}),
    # others
    "MLPClassifier": (
        neural_network.MLPClassifier((8,), max_iter=40, **SEED), X, WORDS, {},
    ),
    "GaussianNB": (naive_bayes.GaussianNB(), X, Y3, {}),
    "BernoulliNB": (naive_bayes.BernoulliNB(), X, Y3, {}),
    "MultinomialNB": (naive_bayes.MultinomialNB(), COUNTS, Y3, {}),
    "LinearDiscriminantAnalysis": (
        discriminant_analysis.LinearDiscriminantAnalysis(), X, Y3, {},
    ),
    "QuadraticDiscriminantAnalysis": (
        discriminant_analysis.QuadraticDiscriminantAnalysis(), X, Y3, {},
    ),
    "OneVsRestClassifier": (
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), X, Y3, {},
    ),
    "VotingClassifier": (
        ensemble.VotingClassifier(
            [
                ("a", linear_model.LogisticRegression()),
                ("b", tree.DecisionTreeClassifier(max_depth=3)),
            ],
            voting="soft",
            flatten_transform=False,
        ),
        X, Y3, {},
    ),
    "KMeans": (cluster.KMeans(3, n_init=1, **SEED), X, None, {}),
    "GaussianMixture": (mixture.GaussianMixture(2, **SEED), X, None, {}),
    "PCA": (decomposition.PCA(3), X, None, {}),
    "StandardScaler-LogisticRegression": (
        make_pipeline(
            preprocessing.StandardScaler(), linear_model.LogisticRegression()
        ),
        X, Y3, {},
    ),
    "SimpleImputer-MinMaxScaler-SVC": (
        make_pipeline(impute.SimpleImputer(), preprocessing.MinMaxScaler(), svm.SVC()),
        GAPS, Y3, {},
    ),
    "PolynomialFeatures-Normalizer": (
        make_pipeline(preprocessing.PolynomialFeatures(2), preprocessing.Normalizer()),
        X[:, :3], None, {},
    ),
    "SelectKBest-Binarizer": (
        make_pipeline(feature_selection.SelectKBest(k=3), preprocessing.Binarizer()),
        X, Y3, {},
    ),
    # strings
    "OneHotEncoder-words": (
        make_pipeline(
            preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
            linear_model.LogisticRegression(),
        ),
        NAMES, Y2, {},
    ),
    "OrdinalEncoder-words": (preprocessing.OrdinalEncoder(), NAMES, None, {}),
    "CountVectorizer": (
        feature_extraction.text.CountVectorizer(lowercase=False), TEXTS, None, {},
    ),
    "TfidfVectorizer": (
        feature_extraction.text.TfidfVectorizer(
            ngram_range=(1, 2), lowercase=False
        ), TEXTS, None, {},
    ),
    "ColumnTransformer": (
        make_pipeline(
            ColumnTransformer(
                [
                    ("scaled", preprocessing.StandardScaler(), [0, 1, 2]),
                    ("spread", preprocessing.QuantileTransformer(n_quantiles=9), [3]),
                ]
            ),
            linear_model.LogisticRegression(),
        ),
        X, WORDS, {},
    ),
    "LogisticRegression-zipmap": (
        linear_model.LogisticRegression(), X, WORDS, {"zipmap": True},
    ),
}  # fmt: skip


def test_there_are_forty() -> None:
    assert len(MODELS) >= 40


@pytest.mark.parametrize("name", some(MODELS, 6))
def test_estimator(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    estimator, x, y, options = MODELS[name]
    data = np.array(x, object).reshape(-1, 1) if isinstance(x, list) else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(x, y)
        model = _converted(estimator, data, dict(options))
        package = tmp_path / "package"
        fairhand.compile(model, package, verify=False)
    runtime = ort.InferenceSession(model.SerializeToString(), _quiet())
    feed = {runtime.get_inputs()[0].name: data[:50]}
    with imported(package) as module:
        found = module.Session().run(None, feed)
    for actual, wanted in zip(found, runtime.run(None, feed), strict=True):
        _assert_same(actual, wanted)


def _quiet() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def _converted(estimator: Any, data: np.ndarray, options: dict[str, Any]) -> Any:
    zipmap = options.pop("zipmap", not is_classifier(estimator))
    if hasattr(estimator, "predict_proba") and not zipmap:
        options["options"] = {"zipmap": False}
    if data.dtype == object:
        options["initial_types"] = [("x", StringTensorType([None, data.shape[1]]))]
        return to_onnx(estimator, **options)
    return to_onnx(estimator, data[:1], **options)


def _assert_same(actual: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        assert [list(row) for row in actual] == [list(row) for row in wanted]
        actual, wanted = (
            np.array([list(r.values()) for r in x]) for x in (actual, wanted)
        )
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "f":
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5 * scale)
    else:
        assert actual.tolist() == wanted.tolist()
