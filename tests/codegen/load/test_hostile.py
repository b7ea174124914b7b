"""Names and texts of a model can't reach the emitted source as code."""

from __future__ import annotations

import ast
import keyword
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from support.drawn import drawn
from support.emitted import FILES, imported
from support.handmade import floats, model, node, save
from support.said import TAKEN, bindings, texts

import fairhand

Capture = pytest.CaptureFixture[str]
Namer = Callable[[str], str]
VALUES = (
    "input other first second bias gain half axis hidden active halved joined sizes "
    "zeros filled sums result"
).split()
RNG = np.random.default_rng(0)
W1, W2 = RNG.standard_normal((2, 4, 4)).astype(np.float32)
B, G = RNG.standard_normal((2, 4)).astype(np.float32)
INITIALIZERS = {
    "first": W1,
    "second": W2,
    "bias": B,
    "gain": G,
    "half": np.float32(0.5),
    "axis": np.array(1),
}
NODES = (
    ("Gemm", "input first bias", "hidden"),
    ("Relu", "hidden", "active"),
    ("Mul", "active half", "halved"),
    ("Add", "halved other", "joined"),
    ("Shape", "joined", "sizes"),
    ("ConstantOfShape", "sizes", "zeros"),
    ("Add", "zeros joined", "filled"),
    ("CumSum", "filled axis", "sums"),  # spelled by a helper, since it is exclusive
    ("Gemm", "sums second bias", "scaled"),
    ("Mul", "scaled gain", "result"),
)
SCOPES, CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


def named(name: Namer) -> onnx.ModelProto:
    """A model in which `name` chooses every text; its values' names must differ."""

    def value(role: str) -> str:
        return name(f"value {role}")

    nodes = []
    for i, (op, inputs, outputs) in enumerate(NODES):
        attributes = {"exclusive": 1} if op == "CumSum" else {}
        made = helper.make_node(
            op,
            [value(role) for role in inputs.split()],
            [value(role) for role in outputs.split()],
            name=name(f"node {i}"),
            doc_string=name(f"doc of node {i}"),
            **attributes,
        )
        scopes = ["", name("scope"), f"{name('scope')}.{i % 3}", name(f"scope {i}")]
        kinds = [name("class of net"), name("class"), name("class"), name("operator")]
        for key, text in (
            (SCOPES, repr(scopes) if i < 9 else name("broken list")),
            (CLASSES, repr(kinds)),
            (name("key"), name("metadata")),
        ):
            made.metadata_props.add(key=key, value=text)
        nodes.append(made)
    sizes = [name("size"), 4]
    graph = helper.make_graph(
        nodes,
        name("graph"),
        [floats(value("input"), *sizes), floats(value("other"), *sizes)],
        [floats(value(role), *sizes) for role in ("result", "joined", "input")],
        [numpy_helper.from_array(a, value(role)) for role, a in INITIALIZERS.items()],
        doc_string=name("doc of graph"),
        value_info=[floats(value("hidden"), name("other size"), 4)],
    )
    found = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=10,
        producer_name=name("producer"),
        doc_string=name("doc"),
    )
    found.domain = name("domain")
    found.metadata_props.add(key=name("model key"), value=name("model metadata"))
    return found


def expected(x: np.ndarray, other: np.ndarray) -> list[np.ndarray]:
    joined = np.maximum(x @ W1 + B, 0) * np.float32(0.5) + other
    sums = np.cumsum(joined, axis=1) - joined
    return [(sums @ W2 + B) * G, joined, x]


# ------------------------------------------------------------------- what may be there


@cache  # most files of a package are those of another
def said(text: str) -> frozenset[str]:
    return frozenset(texts(ast.parse(text)))


def compiled(found: onnx.ModelProto, out: Path) -> dict[str, str]:
    """The emitted files. All their text is printable ASCII."""
    fairhand.compile(found, out, verify=False)
    assert {path.name for path in out.iterdir()} == FILES
    emitted = {}
    for path in out.glob("*.py"):
        text = path.read_text("utf-8")
        assert re.fullmatch(r"[\n -~]*", text), path
        emitted[path.name] = text
    return emitted


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What the emitted files of benign twins say, by file."""
    found: dict[str, set[str]] = {}
    twins: list[Namer] = [
        lambda role: role.replace(" ", "_"),
        lambda role: "blocks" if role == "scope" else role.replace(" ", ""),
        lambda role: f"net.{role.replace(' ', '_')}",
        lambda role: f"/net/{role.replace(' ', '/')}",
        lambda role: f"n{len(role)}_{role[-1]}.{role.replace(' ', '.')}",
        lambda role: f"{role[-1]}" if "scope" in role else role.replace(" ", "-"),
        lambda role: "x" * 10_000 if "scope" in role else role.replace(" ", "_"),
    ]
    for i, twin in enumerate(twins):
        out = tmp_path_factory.mktemp("twins") / f"twin{i}"
        for file, text in compiled(named(twin), out).items():
            found.setdefault(file, set()).update(said(text))
    # A list of modules is made and indexed in several ways.
    found["model.py"] |= {"nn.ModuleList", "nn.Sequential", "range", "For", "List"}
    # What is read once may stand where it is read, if the name is short.
    found["model.py"] |= {"a value.to"}
    found["model.py"] |= {"GeneratorExp", "comprehension", "Subscript", "Tuple"}
    return found


def check(found: onnx.ModelProto, out: Path, allowed: dict[str, set[str]]) -> None:
    """Nothing but what the twins say, and a Session that goes by the model's names."""
    emitted = compiled(found, out)
    tree = ast.parse(emitted["model.py"])
    classes = [x.name for x in tree.body if isinstance(x, ast.ClassDef)]
    network = {f"from .model import {name} as Model" for name in classes}
    for file, text in emitted.items():
        others = network if file == "__init__.py" else set()
        assert said(text) - allowed[file] - others == set(), file
    assert set(bindings(tree)) & TAKEN == set()
    session = imported(out).Session()
    ours = [tensor.name for tensor in (*session.get_inputs(), *session.get_outputs())]
    graph = found.graph
    assert ours == [info.name for info in (*graph.input, *graph.output)]
    x, other = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    feed = dict(zip(ours[:2], (x, other), strict=True))
    for got, want in zip(session.run(ours[2:], feed), expected(x, other), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------- names

SYSTEM = "__import__('os').system('touch canary')"
NASTY = (
    *"self torch nn F forward Model load Session INPUTS class None print type".split(),
    *"match math Tensor training x weight state_dict parameters 0 1e9 val_0 _".split(),
    *"__init__ __class__ layers.0 a.b.c /a/b/c a//b .. onnx::x F. torch. 2**99".split(),
    *("\" ' \"\"\" ''' \\ \\\" # {0} %s ${HOME} [/red] ['','a'] size+1 {##}".split()),
    *"\n \r \t \0 \x1b[31m \x85 \u2028 \u202eabc\u202d \u200b \ufeff e\u0301".split(
        " "
    ),
    *"\uff53\uff45\uff4c\uff46 \ufb01le \u0430dd \u540d\u524d".split(),
    *(SYSTEM, f'"""\n{SYSTEM}\n"""', f"\n    {SYSTEM}\n", f"']; {SYSTEM}; ['"),
    *("{{ 7 * 7 }}", "{% include 'x' %}", "lambda: 0", "exclusive cumsum"),
    *("x" * 10_000, "y." * 5_000, "_" * 300, "1" * 300, "[" * 3000),
)


@pytest.mark.parametrize(
    "text",
    [pytest.param(x, id=ascii(x)[:30], marks=drawn(ascii(x), 3)) for x in NASTY],
)
def test_nasty_names(
    text: str,
    tmp_path: Path,
    allowed: dict[str, set[str]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: Capture,
) -> None:
    """The text everywhere at once: as it is, and where names must differ, numbered."""
    monkeypatch.chdir(tmp_path)
    values = iter(range(99))
    numbers: dict[str, int] = {}

    def name(role: str) -> str:
        if not role.startswith("value"):
            return text
        number = numbers.setdefault(role, next(values))
        return f"{text}{number or ''}"

    check(named(name), tmp_path / "net", allowed)
    assert [path.name for path in tmp_path.iterdir()] == ["net"]
    assert capfd.readouterr() == ("", "")


CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=12),
    st.text("ab_.0/:\"'\\\n{}()[] #", max_size=12),
    st.sampled_from([text for text in NASTY if len(text) < 300]),
)
ROLES = [f"value {role}" for role in (*VALUES, "scaled")]


@settings(
    max_examples=int(os.environ.get("FAIRHAND_FUZZ", "12")),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    values=st.lists(
        TEXTS.filter(bool), min_size=len(ROLES), max_size=len(ROLES), unique=True
    ),
    others=st.lists(TEXTS, min_size=1, max_size=20),
)
def test_any_names(
    values: list[str],
    others: list[str],
    tmp_path_factory: pytest.TempPathFactory,
    allowed: dict[str, set[str]],
) -> None:
    names = dict(zip(ROLES, values, strict=True))

    def name(role: str) -> str:
        return names.setdefault(role, others[len(names) % len(others)])

    check(named(name), tmp_path_factory.mktemp("any") / "net", allowed)


def test_the_check_finds_what_does_not_belong(allowed: dict[str, set[str]]) -> None:
    """The tests above can fail."""
    for text, found in {
        "import os": {"import os"},
        "class A:\n def forward(self, x):\n  return eval(x)": {"eval"},
        "class A:\n def forward(self, x):\n  return torch.hub.load(x)": {
            "torch.hub",
            "torch.hub.load",
        },
        "class A:\n def forward(self, x):\n  return x.numpy()": {"a variable.numpy"},
        "class A:\n def forward(self, x):\n  return [].numpy()": {"a value.numpy"},
        "class A:\n def other(self): pass": {"def other"},
        "try:\n pass\nfinally:\n pass": {"Try"},
    }.items():
        missing = said(text) - allowed["model.py"]
        assert found <= missing, (text, missing)
    bound = "class A:\n def forward(self, torch):\n  self.training = print = 0"
    assert set(bindings(ast.parse(bound))) & TAKEN == {
        "torch",
        "self.training",
        "print",
    }


def test_names_that_become_the_same_identifier(
    tmp_path: Path, allowed: dict[str, set[str]]
) -> None:
    spellings = [
        "a.b",
        "a_b",
        "a:b",
        "a b",
        "a/b",
        "A_b",
        "a__b",
        "a_b_",
        "_a_b",
        "a\nb",
    ]
    spellings += [f"a{c}b" for c in "\\'\"#{}[]"]
    names = dict(zip(ROLES, spellings, strict=False))
    assert len(names) == len(ROLES)
    check(named(lambda role: names.get(role, "a_b")), tmp_path / "net", allowed)


@pytest.mark.parametrize(
    "stem",
    ['a"""b', "import", "123", "{{ x }}", "a\nb", "\u202eb", "x.y", "..", "\xe9"],
)
def test_file_names(
    stem: str,
    tmp_path: Path,
    allowed: dict[str, set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = named(lambda role: role)
    package = fairhand.compile(
        save(found, tmp_path, f"{stem}.onnx"), verify=False
    )  # the folder is named after the file, too
    assert package.path.parent == Path("generated")
    assert re.fullmatch("[a-z][a-z0-9_]*", package.path.name)
    assert not keyword.iskeyword(package.path.name)
    for file in package.path.glob("*.py"):
        assert said(file.read_text("ascii")) - allowed[file.name] == set()


def test_members_hide_nothing_of_a_module(tmp_path: Path) -> None:
    """Weights may be called after the attributes that every module has."""
    names = ("training", "parameters", "forward", "_modules", "to", "T_destination")
    made = model(
        *(
            node("Gemm", f"v{i} {name}.weight {name}.bias", f"v{i + 1}")
            for i, name in enumerate(names)
        ),
        inputs=(floats("v0", "n", 4),),
        weights={
            f"{name}.{what}": array
            for name in names
            for what, array in (("weight", W1), ("bias", B))
        },
        output=f"v{len(names)}",
    )
    fairhand.compile(made, tmp_path / "net", verify=False)
    module = imported(tmp_path / "net")
    wanted = x = RNG.standard_normal((3, 4)).astype(np.float32)
    for _ in names:
        wanted = wanted @ W1 + B
    (got,) = module.Session().run(None, {"v0": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-3)
    net = module.load()
    assert net.training is False and net.train().training is True
    assert len(list(net.to("cpu").parameters())) == 2 * len(names)
    members = {f"self.{name}" for name in net._modules}
    assert len(members) == len(names) and members & TAKEN == set()


def test_a_value_that_is_input_and_output_at_once(tmp_path: Path) -> None:
    graph = helper.make_graph([], "g", [floats("class", "n")], [floats("class", "n")])
    opsets = [helper.make_opsetid("", 20)]
    found = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    fairhand.compile(found, tmp_path / "net", verify=False)
    session = imported(tmp_path / "net").Session()
    x = np.arange(3, dtype=np.float32)
    (same,) = session.run(["class"], {"class": x})
    assert same.tolist() == [0, 1, 2]


def test_a_variable_called_like_a_helper(tmp_path: Path) -> None:
    names = {
        "value input": "exclusive_cumsum",
        "value joined": "exclusive_cumsum.",
        "size": "exclusive_cumsum",
        "scope": "exclusive_cumsum",
    }
    found = named(lambda role: names.get(role, role))
    fairhand.compile(found, tmp_path / "net", verify=False)
    x, other = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    feed = {"exclusive_cumsum": x, "value other": other}
    results = imported(tmp_path / "net").Session().run(None, feed)
    for got, want in zip(results, expected(x, other), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
