"""Certificates that say something else than was done are refused."""

from __future__ import annotations

import copy
import random
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from fairhand.analysis.errors import FairhandError
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.package_report import make_certificate
from fairhand.rewrites.certificate.graph_hash import digest
from fairhand.rewrites.replay import replay
from fairhand.rewrites.rules.catalogue import RULES
from fairhand.rewrites.simplify import simplify

HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
GRAPH = """(float[2,3,4] x) => (float[6,4] y)
    <float one = {1}, int64[2] flat = {6, 4}, int64[3] deep = {6, 2, 2}> {
        a = Transpose<perm=[1,0,2]>(x)  b = Transpose<perm=[1,0,2]>(a)
        c = Mul(b, one)  d = Relu(c)  e = Relu(d)
        s = Sigmoid(e)  t = Mul(e, s)
        f = Reshape(t, deep)  y = Reshape(f, flat) }"""
WAYS = 200


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


def corrupted(number: int) -> dict[str, Any]:
    """The certificate with one thing changed."""
    draw = random.Random(number)
    found = copy.deepcopy(CERTIFICATE)
    steps = found["applications"]
    place = draw.randrange(len(steps))
    step = steps[place]
    way = number % 12
    if way == 0:
        step["rule"] = draw.choice([r.name for r in RULES if r.name != step["rule"]])
    elif way == 1:
        step["proof"] = f"{draw.getrandbits(64):016x}-{draw.getrandbits(32):08x}"
    elif way == 2:
        step["exactness"] = draw.choice(
            [c for c in "BVFOZRA" if c != step["exactness"]]
        )
    elif way == 3:
        step["before"] = [*step["before"], f"node_{number}"]
    elif way == 4:
        step["after"] = [*step["after"], f"Neg node_{number}"]
    elif way == 5:
        step["results"] = [f"value_{number}"]
    elif way == 6:
        step["symbols"] = {**step["symbols"], "r": str(7 + number)}
    elif way == 7:
        del steps[place]
    elif way == 8:
        steps.insert(place, copy.deepcopy(step))
    elif way == 9:
        found["graph"] = f"{draw.getrandbits(128):032x}"
    elif way == 10:
        step["before"] = [f"node_{number}"]
    else:
        step["results"] = [steps[place - 1]["results"][0] + "_" * (1 + number)]
    return found


@pytest.mark.parametrize("number", range(WAYS))
def test_a_corrupted_certificate_is_refused(number: int) -> None:
    with pytest.raises(FairhandError):
        replay(model_of(GRAPH), corrupted(number))
