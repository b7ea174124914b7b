"""The certificate: what it lists can be repeated, and what was changed is noticed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from support.emitted import small_model

import fairhand
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.certificate.graph_hash import digest
from fairhand.rewrites.replay import make_certificate, replay
from fairhand.rewrites.simplify import simplify

EXAMPLES = Path(__file__).parents[3] / "examples"


def certified(exactness: str = "real") -> dict[str, Any]:
    model = load(small_model(twice=True)).model.clone()
    done = simplify(model, exactness)
    return make_certificate(done, exactness, digest(model))


def checked(certificate: dict[str, Any]) -> int:
    return replay(load(small_model(twice=True)).model.clone(), certificate)[0]


def test_each_application_names_its_law_its_proof_and_its_evidence() -> None:
    (step,) = certified()["applications"]
    assert step["rule"] == "relu_of_relu"
    assert step["exactness"] == "V"
    assert step["before"] == ["again", "relu"]
    assert step["after"] == ["Relu relu"]
    assert len(step["proof"].split("-")[0]) == 16


def test_a_certificate_is_repeated() -> None:
    assert checked(certified()) == 1


def test_a_certificate_of_a_whole_package_is_repeated(tmp_path: Path) -> None:
    file = EXAMPLES / "digits_transformer.onnx"
    package = fairhand.compile(file, tmp_path / "net", verify=False)
    certificate = package.report["certificate"]
    assert certificate["applications"]
    assert replay(load(file).model.clone(), certificate)[0] == len(
        certificate["applications"]
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.update(rule="neg_neg"), "was proved as|law doesn't hold"),
        (lambda s: s.update(rule="no_such_rule"), "has no proof here"),
        (lambda s: s.update(proof="0" * 16 + "-00000000"), "was proved as"),
        (lambda s: s.update(results=["h"]), "the law doesn't hold"),
        (lambda s: s.update(results=["nowhere"]), "names a value that isn't there"),
        (lambda s: s.update(symbols={"r": "7"}), "symbols is"),
        (lambda s: s.update(exactness="R"), "exactness is"),
        (lambda s: s.update(after=["Neg relu"]), "after is"),
    ],
)
def test_a_changed_application_is_noticed(change: Any, said: str) -> None:
    certificate = copy.deepcopy(certified())
    change(certificate["applications"][0])
    with pytest.raises(fairhand.FairhandError, match=said):
        checked(certificate)


def test_a_missing_application_is_noticed() -> None:
    certificate = certified()
    certificate["applications"].clear()
    with pytest.raises(fairhand.FairhandError, match="graph of the certificate is"):
        checked(certificate)


def test_the_digest_is_of_what_is_computed_not_of_names() -> None:
    first, second = load(small_model()).model, load(small_model()).model.clone()
    for node in second.graph:
        node.name = f"other_{node.name}"
        for value in node.outputs:
            if not value.is_graph_output():
                value.name = f"other_{value.name}"
    assert digest(first) == digest(second)
    assert digest(first) != digest(load(small_model(2.0)).model)
    assert digest(first) != digest(load(small_model(twice=True)).model)
