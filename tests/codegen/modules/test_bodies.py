"""Bodies that give what they were given, one result twice, or a text; odd names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.emitter_models import Emitted
from support.parsed_models import check, floats, parse
from support.traced import Traced

import fairhand

Emit = Callable[[onnx.ModelProto], Emitted]
STATES = "float[3] x, float[3] w, int64 m"
GIVEN = {"x": floats(3), "w": floats(3, seed=1)}


def loop(results: str, body: str, outputs: str, given: str = "x, w") -> str:
    return f"""g ({STATES}) => ({outputs}) {{
      {results} = Loop(m, , {given}) <body = step (int64 i, bool going, {body}>
    }}"""


PAIR = "float[3] a, float[3] k)"
TWO = "float[3] y, float[3] z"
MODELS = {
    "a, k = k, a": loop(
        "y, z", f"{PAIR} => (bool going, float[3] k, float[3] a) {{}}", TWO
    ),
    "a, k = k, a + k": loop(
        "y, z, s",
        f"{PAIR} => (bool on, float[3] k, float[3] b, float[3] a)"
        " { on = Identity(going) b = Add(a, k) }",
        f"{TWO}, float[n, 3] s",
    ),
    "a = w": loop("y, z", f"{PAIR} => (bool going, float[3] k, float[3] k) {{}}", TWO),
    "bs.append(a)": loop(
        "y, s",
        "float[3] a) => (bool on, float[3] b, float[3] b)"
        " { on = Identity(going) b = Neg(a) }",
        "float[3] y, float[n, 3] s",
        "x",
    ),
}


@pytest.mark.parametrize("line", MODELS)
def test_states_that_are_handed_on_as_they_are(line: str, emitted: Emit) -> None:
    model = parse(MODELS[line])
    found = emitted(model)
    assert f"            {line}\n" in found.text
    check(model, found, *(GIVEN | {"m": np.array(m)} for m in range(4)))


def test_a_condition_that_is_a_state(emitted: Emit) -> None:
    model = parse("""g (float[3] x, bool first, bool then) => (float[3] y, bool z) {
      y, z = Loop(, first, x, then) <body = step
        (int64 i, bool going, float[3] a, bool k) => (bool k, float[3] b, bool l) {
          b = Neg(a) l = Not(k) }>
    }""")
    found = emitted(model)
    feeds = [
        {"x": floats(3), "first": np.array(a), "then": np.array(b)}
        for a in (True, False)
        for b in (True, False)
    ]
    check(model, found, *feeds)


def test_lists_have_no_keyword_for_a_name(tmp_path: Path) -> None:
    """The plurals of `a` and `i` are keywords; ONNX Runtime gives the last `i` four
    times."""
    model = parse("""g (int64 m, bool yes) => (int64[n] y) {
      y = Loop(m, yes) <body = step (int64 i, bool going) => (bool going, int64 i) {}>
    }""")
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    assert "results.append(" in (package.path / "model.py").read_text("utf-8")


@pytest.mark.parametrize("flip", [True, False])
def test_the_same_result_twice(flip: bool, tmp_path: Path) -> None:
    """Of which ONNX Runtime computes only one in a branch."""
    from support.emitter_models import run_here

    model = parse("""g (float[3] x, bool flip) => (float[3] y, float[3] z) {
      y, z = If(flip) <
        then_branch = a () => (float[3] t, float[3] u) { t = Abs(x) u = Relu(x) },
        else_branch = b () => (float[3] v, float[3] v) { v = Neg(x) }>
    }""")
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    x = floats(3)
    wanted = [abs(x), np.maximum(x, 0)] if flip else [-x, -x]
    found = run_here(package.path, [{"x": x, "flip": np.array(flip)}])[0]
    assert all(map(np.array_equal, found, wanted))


def test_a_result_from_outside_is_refused(tmp_path: Path) -> None:
    model = parse("""g (float[3] x, bool flip) => (float[3] y) {
      y = If(flip) <
        then_branch = a () => (float[3] t) { t = Abs(x) },
        else_branch = b () => (float[3] x) {}>
    }""")
    with pytest.raises(fairhand.LoadError, match="'x' is a value of the graph around"):
        fairhand.compile(model, tmp_path / "net", verify=False)


AB = 'Constant <value_strings = ["a", "b"]> ()'
TEXTS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a constant": (f"g () => (string[2] y) {{ y = {AB} }}", {}, ["a", "b"]),
    "folded": (
        f"g () => (string[4] y) {{ t = {AB} y = Concat <axis = 0> (t, t) }}",
        {},
        ["a", "b", "a", "b"],
    ),
    "in branches": (
        f"""g (bool flip) => (string[n] y) {{ y = If(flip) <
          then_branch = a () => (string[2] t) {{ t = {AB} }},
          else_branch = b () => (string[2] u) {{ u = {AB} }}> }}""",
        {"flip": np.array(True)},
        ["a", "b"],
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_results_that_are_texts(name: str, emitted: Emit) -> None:
    text, feed, wanted = TEXTS[name]
    (found,) = emitted(parse(text)).module.Session().run(None, feed)
    assert found.dtype == object and found.tolist() == wanted


def test_a_branch_that_is_a_condition_is_elif(emitted: Emit) -> None:
    model = parse("""g (float[3] x, bool c, bool d) => (float[3] y) {
      y = If(c) <
        then_branch = a () => (float[3] t) { t = Abs(x) },
        else_branch = b () => (float[3] u) {
          u = If(d) <
            then_branch = e () => (float[3] v) { v = Neg(x) },
            else_branch = f () => (float[3] w) { w = Sin(x) }> }>
    }""")
    found = emitted(model)
    assert "        elif d:\n" in found.text and found.text.count("else:") == 1
    both = [np.array(b) for b in (True, False)]
    feeds = [{"x": floats(3), "c": c, "d": d} for c in both for d in both]
    check(model, found, *feeds)


@pytest.mark.parametrize(("then", "other"), [(1, 0), (0, 1)])
def test_a_choice_of_truths_is_the_condition(
    then: int, other: int, emitted: Emit
) -> None:
    model = parse(f"""g (float[3] x, bool c, bool d) => (bool[3] y) {{
      t = If(c) <
        then_branch = a () => (bool t1) {{ t1 = Constant <value = bool {{{then}}}> ()
        }},
        else_branch = b () => (bool t2) {{ t2 = Constant <value = bool {{{other}}}> ()
        }}>
      z = Greater(x, x)
      u = Or(t, d)
      y = Or(u, z)
    }}""")
    found = emitted(model)
    assert "if " not in found.text[found.text.index("def forward") :].split("return")[0]
    both = [np.array(b) for b in (True, False)]
    feeds = [{"x": floats(3), "c": c, "d": d} for c in both for d in both]
    check(model, found, *feeds)


def test_numbers_of_torchscript_are_no_part_of_a_name(emitted: Emit) -> None:
    text = loop(
        "y",
        "float[3] best_1) => (bool on, float[3] b)"
        " { on = Identity(going) b = Neg(best_1) }",
        "float[3] y",
        "x",
    )
    model = parse(text)
    body = model.graph.node[0].attribute[0].g
    body.input[2].name = body.node[1].input[0] = "best.1"
    found = emitted(model)
    assert "            best = -best\n" in found.text
    check(model, found, GIVEN | {"m": np.array(3)})


def test_a_row_of_modules_stays_one_where_others_return_more(emitted: Emit) -> None:
    """And its members keep their paths."""
    g, x, early = Traced(x=["batch", 8]), "x", ""

    def block() -> tuple[str, str]:
        inner = g("Relu", g.fc(x, "fc1", 8, 8))
        return inner, g.fc(inner, "fc2", 8, 8)

    with g.module("body", "Sequential"):
        for i in range(3):
            with g.module(str(i), "Block"):
                _, x = block()
    with g.module("head", "Block"):
        early, x = block()
    found = emitted(g.model(y=x, z=early))
    assert "self.body = nn.Sequential(*(Block() for _ in range(3)))" in found.text
