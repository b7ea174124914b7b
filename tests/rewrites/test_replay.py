"""Certificates that say something else than was done are refused."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.corrupted_certificates import corrupted
from support.drawn import some

import fairhand
from fairhand.analysis.errors import FairhandError
from fairhand.codegen.commands.check import check
from fairhand.codegen.emit.package_files import PROVENANCE
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.certificate.graph_hash import digest
from fairhand.rewrites.engine.history import _evidence, _recounted
from fairhand.rewrites.recognition.recognise import CLASSES
from fairhand.rewrites.replay import make_certificate, replay
from fairhand.rewrites.rules.catalogue import BY_NAME, RULES
from fairhand.rewrites.simplify import simplify

HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
GRAPH = """(float[2,3,4] x) => (float[6,4] y)
    <float one = {1}, int64[2] flat = {6, 4}, int64[3] deep = {6, 2, 2}> {
        a = Transpose<perm=[1,0,2]>(x)  b = Transpose<perm=[1,0,2]>(a)
        c = Mul(b, one)  d = Relu(c)  e = Relu(d)
        s = Sigmoid(e)  t = Mul(e, s)
        f = Reshape(t, deep)  y = Reshape(f, flat) }"""
NUMBER = 200
EXAMPLES = Path(__file__).parents[2] / "examples"


def model_of(text: str) -> ir.Model:
    return load(onnx.parser.parse_model(HEAD + text)).model


def certified(text: str) -> dict[str, Any]:
    """What a report says of the rewriting of a graph."""
    model = model_of(text)
    done = simplify(model)
    return make_certificate(done, "real", digest(model))


CERTIFICATE = certified(GRAPH)


def test_what_was_done_is_certified_and_seen_by_values() -> None:
    count, compared = replay(model_of(GRAPH), CERTIFICATE)
    assert count == compared == len(CERTIFICATE["applications"]) >= 4


def test_what_is_recognised_and_what_is_proved_have_names_of_their_own() -> None:
    """A certificate says by the name which it is."""
    assert not BY_NAME.keys() & CLASSES.keys()
    text = "(float[2,5] x) => (float[2,5] y) { s = Softmax(x) y = Log(s) }"
    certificate = certified(text)
    assert [step["rule"] for step in certificate["applications"]] == ["log_softmax"]
    assert replay(model_of(text), certificate) == (1, 1)


@pytest.mark.parametrize("number", some(range(NUMBER), 4))
def test_a_corrupted_certificate_is_refused(number: int) -> None:
    with pytest.raises(FairhandError):
        replay(model_of(GRAPH), corrupted(CERTIFICATE, number))


def test_what_is_less_exact_than_a_certificate_says_is_refused() -> None:
    """A law of class V, and what was recognised with rounded numbers."""
    for text in ("b = Relu(x) y = Relu(b)", "b = Sigmoid(x) y = Mul(x, b)"):
        graph = f"(float[2,5] x) => (float[2,5] y) {{ {text} }}"
        certificate = {**certified(graph), "exactness": "bitwise"}
        with pytest.raises(FairhandError, match="isn't as exact as"):
            replay(model_of(graph), certificate)


@pytest.mark.parametrize("key", ["before", "results", "after", "evidence"])
def test_a_list_of_lists_is_no_certificate(key: str) -> None:
    certificate = json.loads(json.dumps(CERTIFICATE))
    certificate["applications"][0][key] = [["a"]]
    with pytest.raises(FairhandError, match="no certificate"):
        replay(model_of(GRAPH), certificate)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["characters", "digits_transformer"])
def test_a_corrupted_package_is_refused(name: str, tmp_path: Path) -> None:
    """In 200 ways each, by the command that a user calls."""
    file, folder = EXAMPLES / f"{name}.onnx", tmp_path / name
    fairhand.compile(file, folder, verify=False)
    check(folder, file)
    report = folder / PROVENANCE
    content = json.loads(report.read_text("utf-8"))
    accepted = []
    for number in range(NUMBER):
        wrong = corrupted(content["certificate"], number)
        report.write_text(json.dumps({**content, "certificate": wrong}), "utf-8")
        try:
            check(folder, file)
        except FairhandError:
            continue
        accepted.append(number)
    assert not accepted


def other_model(number: int, file: Path) -> onnx.ModelProto:
    """The model with one stored tensor changed: an element, its type, its sizes."""
    draw = random.Random(number)
    model = onnx.load(file)
    tensor = draw.choice([t for t in model.graph.initializer if t.data_type == 1])
    array = onnx.numpy_helper.to_array(tensor).copy()
    if number % 3 == 0:
        array.flat[draw.randrange(array.size)] += 1
    elif number % 3 == 1:
        array = array.astype(np.float16)
    else:
        array = np.concatenate([array.reshape(-1), array.reshape(-1)])
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_a_certificate_is_of_one_model(number: int, tmp_path: Path) -> None:
    file = EXAMPLES / "digits_cnn.onnx"
    fairhand.compile(file, tmp_path / "net", verify=False)
    onnx.save(other_model(number, file), tmp_path / "other.onnx")
    with pytest.raises(FairhandError):
        check(tmp_path / "net", tmp_path / "other.onnx")


def test_evidence_hangs_on_no_law_that_was_read_before() -> None:
    """Bound places are counted from the first law that a process reads."""
    assert (
        _recounted("forall(r, k:98, less(k:98, k:7))") == "forall(r, k0, less(k0, k1))"
    )
    written = "".join(text for rule in RULES for text in _evidence(rule))
    assert "forall" in written
    assert set(re.findall(r"\bk\d+\b", written)) <= {f"k{i}" for i in range(9)}


def test_what_an_inner_body_takes_is_told_from_what_the_outer_one_does() -> None:
    """Both are the first input of a body."""
    text = """(int64 n, bool go, int64 s) => (int64 y) {
        y = Loop <body = outer (int64 i, bool c, int64 t) => (bool d, int64 r) {
            d = Identity(c)
            r = Loop <body = inner (int64 j, bool e, int64 p) => (bool f, int64 q) {
                f = Identity(e) q = Add(p, %s) }> (n, c, t) }> (n, go, s) }"""
    assert digest(model_of(text % "i")) != digest(model_of(text % "j"))
