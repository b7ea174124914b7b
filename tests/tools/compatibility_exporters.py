"""Exporters of ONNX files: see compatibility.py.

`packages` is what is installed, the one whose version is shown first; `make` is code
that writes models into the folder that it runs in.
"""

from __future__ import annotations

from typing import Any

EXPORTERS: dict[str, dict[str, Any]] = {
    "skl2onnx": {
        "packages": ["skl2onnx", "scikit-learn"],
        "make": """import numpy as np
from skl2onnx import to_onnx
from sklearn import cluster, decomposition, ensemble, gaussian_process, linear_model
from sklearn import neighbors, neural_network, pipeline, preprocessing, svm, tree
rng = np.random.default_rng(0)
x = rng.standard_normal((200, 6)).astype(np.float32)
y, kind = x[:, 0] + x[:, 1] ** 2, (x[:, 0] > 0).astype(int) + (x[:, 1] > 1)
models = {
    "linear": linear_model.LinearRegression().fit(x, y),
    "logistic": linear_model.LogisticRegression().fit(x, kind),
    "forest": ensemble.RandomForestClassifier(20, random_state=0).fit(x, kind),
    "boosted": ensemble.GradientBoostingRegressor(random_state=0).fit(x, y),
    "hist": ensemble.HistGradientBoostingClassifier(max_iter=20).fit(x, kind),
    "svc": svm.SVC(probability=True, random_state=0).fit(x, kind),
    "svr": svm.SVR().fit(x, y),
    "knn": neighbors.KNeighborsClassifier().fit(x, kind),
    "mlp": neural_network.MLPClassifier(max_iter=50, random_state=0).fit(x, kind),
    "kmeans": cluster.KMeans(4, n_init=2, random_state=0).fit(x),
    "tree": tree.DecisionTreeRegressor(max_depth=6, random_state=0).fit(x, y),
    "pca": pipeline.make_pipeline(
        preprocessing.StandardScaler(), decomposition.PCA(3)).fit(x),
    "gaussian": gaussian_process.GaussianProcessRegressor().fit(x, y),
    "polynomial": pipeline.make_pipeline(
        preprocessing.PolynomialFeatures(2), linear_model.Ridge()).fit(x, y),
}
for name, model in models.items():
    try:
        made = to_onnx(model, x[:1])
    except Exception as error:
        print(name, error)  # a fault of the converter's own
    else:
        with open(f"{name}.onnx", "wb") as file:
            file.write(made.SerializeToString())
""",
    },
    "lightgbm": {
        "packages": ["onnxmltools", "lightgbm"],
        "make": """import lightgbm, numpy as np, onnxmltools
from onnxmltools.convert.common.data_types import FloatTensorType
rng = np.random.default_rng(0)
x = rng.standard_normal((300, 6)).astype(np.float32)
large = (x[:, 0] > 0.3).astype(int)
given = [("x", FloatTensorType([None, 6]))]
for name, model in {
    "regressor": lightgbm.LGBMRegressor(n_estimators=20).fit(x, x[:, 0] * x[:, 1]),
    "classifier": lightgbm.LGBMClassifier(n_estimators=20).fit(x, large),
}.items():
    made = onnxmltools.convert_lightgbm(model, initial_types=given, zipmap=False)
    onnxmltools.utils.save_model(made, f"{name}.onnx")
""",
    },
    "xgboost": {
        "packages": ["onnxmltools", "xgboost"],
        "make": """import numpy as np, onnxmltools, xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
rng = np.random.default_rng(0)
x = rng.standard_normal((300, 6)).astype(np.float32)
large = (x[:, 0] > 0.3).astype(int)
given = [("x", FloatTensorType([None, 6]))]
for name, model in {
    "regressor": xgboost.XGBRegressor(n_estimators=20).fit(x, x[:, 0] * x[:, 1]),
    "classifier": xgboost.XGBClassifier(n_estimators=20).fit(x, large),
}.items():
    made = onnxmltools.convert_xgboost(model, initial_types=given)
    onnxmltools.utils.save_model(made, f"{name}.onnx")
""",
    },
    "catboost": {
        "packages": ["catboost"],
        "make": """import catboost, numpy as np
rng = np.random.default_rng(0)
x = rng.standard_normal((300, 6)).astype(np.float32)
large = (x[:, 0] > 0.3).astype(int)
options = dict(iterations=20, verbose=False, allow_writing_files=False)
catboost.CatBoostRegressor(**options).fit(x, x[:, 0] * x[:, 1]).save_model(
    "regressor.onnx", format="onnx")
catboost.CatBoostClassifier(**options).fit(x, large).save_model(
    "classifier.onnx", format="onnx")
""",
    },
    "keras": {
        "packages": ["keras", "onnxscript"],
        "make": """import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
from keras import layers as l
models = {
    "dense": keras.Sequential([l.Input((8,)), l.Dense(16, "gelu"),
        l.Dense(3, "softmax")]),
    "conv": keras.Sequential([l.Input((32, 32, 3)), l.Conv2D(8, 3, activation="relu"),
        l.BatchNormalization(), l.DepthwiseConv2D(3, padding="same"), l.MaxPooling2D(),
        l.GlobalAveragePooling2D(), l.Dense(5)]),
    "attention": keras.Sequential([l.Input((10, 16)), l.LayerNormalization(),
        l.Dense(16, "swish"), l.Flatten(), l.Dense(2)]),
}
for name, model in models.items():
    model(keras.ops.zeros((1, *model.input_shape[1:])))
    try:
        model.export(f"{name}.onnx", format="onnx", verbose=False)
    except Exception as error:
        print(name, error)  # a fault of the exporter's own
""",
    },
    "tf2onnx": {
        "packages": ["tf2onnx", "tensorflow-cpu"],
        "make": """import tensorflow as tf, tf2onnx
from tensorflow.keras import layers as l
models = {
    "conv": (tf.keras.Sequential([l.Conv2D(8, 3, padding="same", activation="relu"),
        l.BatchNormalization(), l.MaxPooling2D(), l.Flatten(), l.Dense(4)]),
        (32, 32, 3)),
    "lstm": (tf.keras.Sequential([l.LSTM(12, return_sequences=True), l.LSTM(6),
        l.Dense(2)]), (9, 5)),
    "gru": (tf.keras.Sequential([l.Bidirectional(l.GRU(7)), l.Dense(2)]), (9, 5)),
}
for name, (model, shape) in models.items():
    model.build((None, *shape))
    call = tf.function(lambda x, model=model: model(x))
    spec = [tf.TensorSpec((None, *shape), tf.float32, name="x")]
    tf2onnx.convert.from_function(call, spec, output_path=f"{name}.onnx")
""",
    },
    "jax2onnx": {
        "packages": ["jax2onnx"],
        "make": """import jax, jax.numpy as jnp, onnx
from jax2onnx import to_onnx
key = jax.random.PRNGKey(0)
w = jax.random.normal(key, (8, 8))

def attention(x):
    q, k = x @ w, x @ w.T
    return jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / 8**0.5) @ x

def norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return jax.nn.gelu(centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5))

for name, function in {"attention": attention, "norm": norm}.items():
    onnx.save(to_onnx(function, [("b", 5, 8)]), f"{name}.onnx")
""",
    },
    "torch": {
        "packages": ["torch", "onnxscript"],
        "make": """import torch
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
models = {
    "encoder": (nn.TransformerEncoder(layer, 2), (2, 7, 32)),
    "conv": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)), (2, 3, 24, 24)),
}
for name, (model, shape) in models.items():
    x = torch.randn(shape)
    torch.onnx.export(model.eval(), (x,), f"{name}_dynamo.onnx", dynamo=True)
""",
    },
    "onnxruntime-quantise": {
        "packages": ["onnxruntime", "onnx", "sympy"],
        "make": """import numpy as np, onnx, torch
from onnxruntime import quantization as q
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
torch.onnx.export(net.eval(), (torch.randn(2, 3, 16, 16),), "plain.onnx",
    input_names=["x"], dynamo=False, opset_version=17)

class Reader(q.CalibrationDataReader):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.rest = iter([rng.standard_normal((2, 3, 16, 16)).astype("f")] * 4)

    def get_next(self):
        x = next(self.rest, None)
        return None if x is None else {"x": x}

q.quantize_dynamic("plain.onnx", "dynamic.onnx")
q.quantize_static("plain.onnx", "qdq.onnx", Reader())
q.quantize_static("plain.onnx", "qoperator.onnx", Reader(),
    quant_format=q.QuantFormat.QOperator)
""",
    },
    "torchscript": {
        "packages": ["torch", "onnxscript"],
        "make": """import torch
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
models = {
    "encoder": (nn.TransformerEncoder(layer, 2), (2, 7, 32), "b t 32"),
    "conv": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)), (2, 3, 24, 24), "b"),
    "lstm": (nn.LSTM(6, 8, 2, bidirectional=True), (5, 2, 6), "t b"),
    "gru": (nn.GRU(6, 8, batch_first=True), (2, 5, 6), "b t"),
    "deconv": (nn.Sequential(nn.ConvTranspose2d(4, 3, 3, stride=2), nn.Tanh()),
        (1, 4, 6, 6), "b"),
    "upsample": (nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.GroupNorm(2, 4), nn.PReLU()), (1, 4, 6, 6), "b"),
}
for name, (model, shape, free) in models.items():
    for opset in (11, 17):
        names = {i: f for i, f in enumerate(free.split()) if not f.isdigit()}
        try:
            torch.onnx.export(model.eval(), (torch.randn(shape),),
                f"{name}_{opset}.onnx", opset_version=opset, dynamo=False,
                input_names=["x"], dynamic_axes={"x": names})
        except torch.onnx.errors.UnsupportedOperatorError as error:
            print(name, error)  # an operator that this opset lacks
""",
    },
    "skl2onnx-text": {
        "packages": ["skl2onnx", "scikit-learn", "pandas"],
        "make": """import numpy as np, pandas as pd
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import compose, feature_extraction, linear_model, pipeline, preprocessing
texts = np.array(["a red fox", "the blue whale sings", "red whale", "a fox runs"] * 5)
kind = np.array([0, 1, 1, 0] * 5)
given = [("text", StringTensorType([None]))]
for name, words in {
    "tfidf": feature_extraction.text.TfidfVectorizer(),
    "counts": feature_extraction.text.CountVectorizer(ngram_range=(1, 2)),
}.items():
    model = pipeline.make_pipeline(words, linear_model.LogisticRegression())
    made = to_onnx(model.fit(texts, kind), initial_types=given,
        options={id(words): {"locale": "C"}})
    open(f"{name}.onnx", "wb").write(made.SerializeToString())
table = pd.DataFrame({"colour": ["red", "blue"] * 10, "size": np.arange(20.0)})
columns = compose.ColumnTransformer([
    ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour"]),
    ("s", preprocessing.MinMaxScaler(), ["size"])])
model = pipeline.make_pipeline(columns, linear_model.LogisticRegression())
made = to_onnx(model.fit(table, kind), initial_types=[
    ("colour", StringTensorType([None, 1])), ("size", FloatTensorType([None, 1]))])
open("columns.onnx", "wb").write(made.SerializeToString())
""",
    },
    "hummingbird-ml": {
        "packages": ["hummingbird-ml", "scikit-learn<1.8", "setuptools"],
        "make": """import numpy as np, hummingbird.ml as hb, torch
from sklearn import ensemble, linear_model, pipeline, preprocessing
rng = np.random.default_rng(0)
x = rng.standard_normal((100, 6)).astype(np.float32)
large = (x[:, 0] > 0.3).astype(int)
for name, model in {
    "forest": ensemble.RandomForestRegressor(5, random_state=0).fit(x, x[:, 0]),
    "logistic": pipeline.make_pipeline(preprocessing.StandardScaler(),
        linear_model.LogisticRegression()).fit(x, large),
}.items():
    made = hb.convert(model, "torch", x).model
    torch.onnx.export(made, (torch.tensor(x),), f"{name}.onnx", dynamo=False,
        input_names=["x"], dynamic_axes={"x": {0: "n"}})
""",
    },
    "spox": {
        "packages": ["spox"],
        "make": """import numpy as np, onnx, spox.opset.ai.onnx.v17 as op
from spox import Tensor, argument, build
x = argument(Tensor(np.float32, ("n", 4)))
top, place = op.top_k(x, op.const(np.array([2])), axis=1)
mean = op.reduce_mean(x, axes=[1], keepdims=True)
above = op.greater(x, mean)
chosen, = op.if_(op.greater(op.reduce_max(x, keepdims=False), op.const(np.float32(1))),
    then_branch=lambda: [op.where(above, x, mean)],
    else_branch=lambda: [op.softmax(x, axis=1)])
onnx.save(build({"x": x}, {"top": top, "place": place, "chosen": chosen}), "top.onnx")
""",
    },
    "ndonnx": {
        "packages": ["ndonnx"],
        "make": """import ndonnx as ndx, onnx
x = ndx.argument(shape=("n", 3), dtype=ndx.float64)
y = ndx.sort(x, axis=1)
z = ndx.where(x > ndx.mean(x, axis=0), y, ndx.exp(-y * y)) + ndx.sum(y)
onnx.save(ndx.build({"x": x}, {"z": z}), "sorted.onnx")
""",
    },
    "onnxscript": {
        "packages": ["onnxscript"],
        "make": """import onnx
from onnxscript import FLOAT, INT64, script
from onnxscript import opset18 as op

@script()
def newton(x: FLOAT["n"], rounds: INT64) -> FLOAT["n"]:
    y = op.Identity(x)
    for i in range(rounds):
        y = (y + x / y) * 0.5
    return y

@script()
def clipped(x: FLOAT["a", "b"]) -> FLOAT["a", "b"]:
    if op.ReduceSum(x, keepdims=0) > 0.0:
        y = op.Clip(x, 0.0, 1.0)
    else:
        y = op.Abs(x)
    return y

onnx.save(newton.to_model_proto(), "newton.onnx")
onnx.save(clipped.to_model_proto(), "clipped.onnx")
""",
    },
    "onnxconverter-common": {
        "packages": ["onnxconverter-common", "onnx", "onnxscript"],
        "make": """import onnx, torch
from onnxconverter_common import float16
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4), nn.Softmax(-1))
torch.onnx.export(net.eval(), (torch.randn(2, 3, 16, 16),), "plain.onnx",
    dynamo=False, opset_version=17, input_names=["x"])
plain = onnx.load("plain.onnx")
onnx.save(float16.convert_float_to_float16(plain), "half.onnx")
onnx.save(float16.convert_float_to_float16(onnx.load("plain.onnx"),
    keep_io_types=True, op_block_list=["Softmax"]), "mixed.onnx")
""",
    },
    "onnxruntime-transformers": {
        "packages": ["onnxruntime", "onnx", "sympy", "transformers", "onnxscript"],
        "make": """import torch
from onnxruntime.transformers.optimizer import optimize_model
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model
torch.manual_seed(0)
sizes = dict(hidden_size=64, num_attention_heads=4, intermediate_size=128)
bert = BertModel(BertConfig(num_hidden_layers=2, vocab_size=99, **sizes,
    attn_implementation="eager", return_dict=False))
ids = torch.ones(2, 8, dtype=torch.int64)
torch.onnx.export(bert.eval(), (ids, ids), "bert.onnx", dynamo=False, opset_version=17,
    input_names=["input_ids", "attention_mask"],
    dynamic_axes={n: {0: "b", 1: "t"} for n in ("input_ids", "attention_mask")})
for name, half in {"fused": False, "half": True}.items():
    made = optimize_model("bert.onnx", "bert", num_heads=4, hidden_size=64)
    if half:
        made.convert_float_to_float16(keep_io_types=True)
    made.save_model_to_file(f"bert_{name}.onnx")
""",
    },
    "onnxslim": {
        "packages": ["onnxslim", "onnxscript"],
        "make": """import onnxslim, torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))
torch.onnx.export(net.eval(), (torch.randn(1, 3, 8),), "plain.onnx", dynamo=False,
    opset_version=13)
onnxslim.slim("plain.onnx", "slim.onnx")
""",
    },
    "ultralytics": {
        "packages": ["ultralytics", "opencv-python-headless", "onnxslim"],
        "make": """from ultralytics import YOLO
for name in ("yolov8n", "yolo11n-seg", "yolov8n-pose"):
    YOLO(f"{name}.yaml").export(format="onnx", imgsz=320, opset=17, simplify=False)
YOLO("yolov8n-cls.yaml").export(format="onnx", imgsz=64, dynamic=True)
""",
    },
    "paddle2onnx": {
        "packages": ["paddle2onnx", "paddlepaddle"],
        "make": """import paddle
from paddle import nn
net = nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.Hardswish(),
    nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(8, 4), nn.Softmax())
net.eval()
paddle.onnx.export(net, "conv",
    input_spec=[paddle.static.InputSpec([None, 3, 24, 24], "float32", "x")])
""",
    },
    "ebm2onnx": {
        "packages": ["ebm2onnx", "interpret-core", "scikit-learn", "pandas"],
        "make": """import ebm2onnx, numpy as np, onnx, pandas as pd
from interpret.glassbox import ExplainableBoostingClassifier
rng = np.random.default_rng(0)
x = pd.DataFrame(rng.standard_normal((200, 3)).astype("f"), columns=["a", "b", "c"])
model = ExplainableBoostingClassifier(max_rounds=20, outer_bags=2)
model.fit(x, (x.a > x.b).astype(int))
types = {name: "float" for name in x.columns}
onnx.save(ebm2onnx.to_onnx(model, types), "ebm.onnx")
""",
    },
    "skl2onnx-outliers": {
        "packages": ["skl2onnx", "scikit-learn"],
        "make": """import numpy as np
from skl2onnx import to_onnx
from sklearn import ensemble, neighbors
x = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
for name, model in {"forest": ensemble.IsolationForest(n_estimators=10),
    "outliers": neighbors.LocalOutlierFactor(novelty=True)}.items():
    made = to_onnx(model.fit(x), x[:1], target_opset={"": 17, "ai.onnx.ml": 3})
    open(f"{name}.onnx", "wb").write(made.SerializeToString())
""",
    },
    "skl2onnx-ensembles": {
        "packages": ["skl2onnx", "scikit-learn"],
        "make": """import numpy as np
from skl2onnx import to_onnx
from sklearn import calibration, decomposition, ensemble, feature_selection, impute
from sklearn import linear_model, mixture, multiclass, naive_bayes, pipeline, tree
from sklearn import cross_decomposition, preprocessing
rng = np.random.default_rng(0)
x = rng.standard_normal((200, 6)).astype(np.float32)
y, kind = x[:, 0] + x[:, 1] ** 2, (x[:, 0] > 0).astype(int) + (x[:, 1] > 1)
line, logistic = linear_model.LinearRegression(), linear_model.LogisticRegression()
models = {
    "stacking": ensemble.StackingClassifier([("l", logistic),
        ("t", tree.DecisionTreeClassifier(max_depth=4))]).fit(x, kind),
    "voting": ensemble.VotingRegressor([("l", line),
        ("t", tree.DecisionTreeRegressor(max_depth=4))]).fit(x, y),
    "adaboost": ensemble.AdaBoostClassifier(n_estimators=8).fit(x, kind),
    "bagging": ensemble.BaggingRegressor(n_estimators=4).fit(x, y),
    "calibrated": calibration.CalibratedClassifierCV(logistic, cv=2).fit(x, kind),
    "rest": multiclass.OneVsRestClassifier(logistic).fit(x, kind),
    "mixture": mixture.GaussianMixture(3, random_state=0).fit(x),
    "bernoulli": naive_bayes.BernoulliNB().fit(x, kind),
    "pls": cross_decomposition.PLSRegression(2).fit(x, y),
    "chosen": pipeline.make_pipeline(impute.SimpleImputer(),
        feature_selection.SelectKBest(k=3), preprocessing.RobustScaler(),
        decomposition.TruncatedSVD(2), linear_model.LogisticRegression()).fit(x, kind),
    "bins": pipeline.make_pipeline(preprocessing.KBinsDiscretizer(4,
        encode="onehot-dense"), linear_model.LogisticRegression()).fit(x, kind),
}
for name, model in models.items():
    try:
        made = to_onnx(model, x[:1])
    except Exception as error:
        print(name, error)  # a fault of the converter's own
    else:
        open(f"{name}.onnx", "wb").write(made.SerializeToString())
""",
    },
    "onnxsim": {
        "packages": ["onnxsim", "onnxscript"],
        "make": """import onnx, onnxsim, torch
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, x):
        x = self.conv(x).relu()
        x = nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear")
        x = x.view(x.shape[0], 8, -1).transpose(1, 2)
        return self.head(x).reshape(x.shape[0], -1, 2)

torch.onnx.export(Net().eval(), (torch.randn(2, 3, 18, 18),), "plain.onnx",
    dynamo=False, opset_version=16, input_names=["x"], dynamic_axes={"x": {0: "b"}})
for name, fixed in {"free": None, "fixed": {"x": [1, 3, 18, 18]}}.items():
    made, _ = onnxsim.simplify("plain.onnx", overwrite_input_shapes=fixed)
    onnx.save(made, f"{name}.onnx")
""",
    },
    "onnxoptimizer": {
        "packages": ["onnxoptimizer", "onnxscript"],
        "make": """import onnx, onnxoptimizer, torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
    nn.ZeroPad2d(1), nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Dropout(), nn.Linear(256, 4))
torch.onnx.export(net.eval(), (torch.randn(1, 3, 10, 10),), "plain.onnx",
    dynamo=False, opset_version=11, do_constant_folding=False)
plain = onnx.load("plain.onnx")
onnx.save(onnxoptimizer.optimize(plain), "default.onnx")
onnx.save(onnxoptimizer.optimize(plain, ["fuse_bn_into_conv", "fuse_pad_into_conv",
    "fuse_matmul_add_bias_into_gemm", "eliminate_identity"]), "fused.onnx")
""",
    },
    "brevitas": {
        "packages": ["brevitas", "onnxoptimizer", "onnxscript"],
        "make": """import torch
from brevitas import nn as q
from brevitas.export import export_onnx_qcdq
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(q.QuantIdentity(return_quant_tensor=True),
    q.QuantConv2d(3, 8, 3, weight_bit_width=4), q.QuantReLU(bit_width=4), nn.Flatten(),
    q.QuantLinear(288, 5, bias=True, weight_bit_width=8))
x = torch.randn(2, 3, 8, 8)
net(x)
export_onnx_qcdq(net.eval(), args=x, export_path="qcdq.onnx", opset_version=13,
    dynamo=False)
""",
    },
    "nncf": {
        "packages": ["nncf", "onnx", "onnxruntime", "onnxscript"],
        "make": """import nncf, numpy as np, onnx, torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
    nn.Linear(392, 16), nn.GELU(), nn.Linear(16, 4))
torch.onnx.export(net.eval(), (torch.randn(1, 3, 16, 16),), "plain.onnx",
    dynamo=False, opset_version=17, input_names=["x"])
rng = np.random.default_rng(0)
seen = [rng.standard_normal((1, 3, 16, 16)).astype("f") for _ in range(8)]
plain = onnx.load("plain.onnx")
onnx.save(nncf.quantize(plain, nncf.Dataset(seen, lambda x: {"x": x})), "int8.onnx")
net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32))
torch.onnx.export(net.eval(), (torch.randn(2, 64),), "linear.onnx", dynamo=False,
    opset_version=21, input_names=["x"], dynamic_axes={"x": {0: "b"}})
for mode in (nncf.CompressWeightsMode.INT8_SYM, nncf.CompressWeightsMode.INT4_SYM):
    made = nncf.compress_weights(onnx.load("linear.onnx"), mode=mode, group_size=-1)
    onnx.save(made, f"{mode.value}.onnx")
""",
    },
    "onnx-neural-compressor": {
        "packages": ["onnx-neural-compressor", "prettytable", "psutil", "py-cpuinfo"],
        "make": """import onnx, torch
from onnx_neural_compressor.quantization import config, matmul_nbits_quantizer, quantize
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32))
torch.onnx.export(net.eval(), (torch.randn(2, 5, 64),), "plain.onnx", dynamo=False,
    opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "b"}})
made = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load("plain.onnx"), n_bits=4,
    block_size=32, is_symmetric=True)
made.process()
onnx.save(made.model, "bits.onnx")
""",
    },
    "onnx-array-api": {
        "packages": ["onnx-array-api"],
        "make": """import numpy as np, onnx
from onnx_array_api.light_api import start
made = (start(opset=18).vin("x", np.float32, ("n", 4))
    .bring("x").Softmax(axis=1).rename("s").bring("x", "s").Mul().Exp()
    .rename("y").vout(np.float32, ("n", 4)).to_onnx())
made.ir_version = 10  # onnx may be newer than ONNX Runtime
onnx.save(made, "light.onnx")
""",
    },
    "minisom2onnx": {
        "packages": ["minisom2onnx", "minisom"],
        "make": """import numpy as np, onnx
from minisom import MiniSom
from minisom2onnx import to_onnx
x = np.random.default_rng(0).random((100, 4))
som = MiniSom(6, 6, 4, sigma=0.5, learning_rate=0.5, random_seed=0)
som.random_weights_init(x)
som.train_random(x, 100)
onnx.save(to_onnx(som, name="winner"), "winner.onnx")
onnx.save(to_onnx(som, name="all", outputs=["weights", "winner", "quantization_error"],
    threshold=0.2), "all.onnx")
""",
    },
    "optimum": {
        "packages": ["optimum-onnx[onnxruntime]"],
        "make": """import torch
from optimum.exporters.onnx import onnx_export_from_model
from transformers import BertConfig, BertForSequenceClassification
from transformers import ViTConfig, ViTForImageClassification
torch.manual_seed(0)
sizes = dict(hidden_size=64, num_attention_heads=4, intermediate_size=128,
    num_hidden_layers=2)
for name, model in {
    "bert": BertForSequenceClassification(BertConfig(vocab_size=99, **sizes)),
    "vit": ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, **sizes)),
}.items():
    onnx_export_from_model(model.eval(), output=name, do_validation=False)
""",
    },
    "onnx-graphsurgeon": {
        "packages": ["onnx-graphsurgeon"],
        "make": """import numpy as np, onnx, onnx_graphsurgeon as gs
rng = np.random.default_rng(0)
x = gs.Variable("x", np.float32, ("b", 3, 8, 8))
w = gs.Constant("w", rng.standard_normal((4, 3, 3, 3)).astype(np.float32))
low, high = (gs.Constant(n, np.array(v, np.float32)) for n, v in (("lo", 0), ("hi", 6)))
a, y = gs.Variable("a", np.float32), gs.Variable("y", np.float32)
nodes = [gs.Node("Conv", inputs=[x, w], outputs=[a], attrs={"pads": [1, 1, 1, 1]}),
    gs.Node("Clip", inputs=[a, low, high], outputs=[y])]
graph = gs.Graph(nodes, inputs=[x], outputs=[y], opset=13, ir_version=8)
onnx.save(gs.export_onnx(graph.cleanup().toposort()), "clipped.onnx")
""",
    },
}
