"""Laws of the user's own: proved by their file, stored beside it, applied if true."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import fairhand
from fairhand.codegen.cli import main
from fairhand.codegen.emit.package_files import read_report
from fairhand.rewrites.language.operators.read_write import WORDS
from fairhand.rewrites.language.rule import Law
from fairhand.rewrites.rules.law_table import equation

Capture = pytest.CaptureFixture[str]
LAWS = """
from fairhand.rewrites.language.operators.elementwise import Abs, Cos, Neg, Sin
from fairhand.rewrites.language.rule import Law, rule
from fairhand.rewrites.rules.law_table import equation

cos_of_abs = equation(
    "Cos(Abs(x)) = Cos(x)",
    "float x",
    lambda x: Neg(Neg(Cos(x))),
    lambda x: RIGHT,
    wrong={"sine": lambda x: Sin(x)},
    name="cos_twice_negated",
    family="own",
)


@rule("own")
def sin_twice(law: Law) -> None:
    \"\"\"Sin(Sin(x)) = Sin(x)\"\"\"
    x = law.tensor("x", law.rank(), kinds="float")
    law.rewrite(Sin(Sin(x)), Sin(x))
"""
LAST = LAWS.count("\n")
MODEL = """<ir_version: 10, opset_import: ["": 20]> g (float[2,3] x) => (float[2,3] y)
    { a = Cos(x) b = Neg(a) c = Neg(b) d = Sin(c) y = Sin(d) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "wave.onnx")
    return tmp_path / "wave.onnx"


def laws(folder: Path, right: str = "Cos(x)", more: str = "") -> Path:
    path = folder / "mine.py"
    path.write_text(LAWS.replace("RIGHT", right) + more)
    return path


def applied(model: Path, rules: Path) -> tuple[set[str], dict[str, object]]:
    """The names of the laws that a compilation applied, and its certificate."""
    folder = model.parent / "package"
    assert main(["compile", str(model), "-o", str(folder), "--rules", str(rules)]) == 0
    found = read_report(folder)["certificate"]
    return {step["rule"] for step in found["applications"]}, found


def test_a_true_law_is_applied_and_a_false_one_is_not(
    tmp_path: Path, model: Path, capfd: Capture
) -> None:
    rules = laws(tmp_path)
    assert main(["prove", "--rules", str(rules)]) == 1
    printed, error = capfd.readouterr()
    assert "error: not proved, or too easily: sin_twice" in error
    line = LAWS.split("\n").index('@rule("own")') + 1
    assert f"{rules}, line {line}, law sin_twice" in error
    assert "cos_twice_negated" in printed
    names, certificate = applied(model, rules)
    assert "cos_twice_negated" in names
    assert certificate["unproved"] == ["sin_twice"]
    assert certificate["rules"] == "mine.py"
    printed, error = capfd.readouterr()
    assert "not applied: sin_twice (fairhand prove --rules mine.py)" in error
    package = str(tmp_path / "package")
    assert main(["check", package, str(model), "--rules", str(rules)]) == 0
    assert main(["check", package, str(model)]) == 1
    assert "laws of your own are named by --rules" in capfd.readouterr().err


def test_a_law_that_was_edited_is_not_applied(
    tmp_path: Path, model: Path, capfd: Capture
) -> None:
    rules = laws(tmp_path)
    assert "cos_twice_negated" not in applied(model, rules)[0]  # never proved
    main(["prove", "--rules", str(rules)])
    assert "cos_twice_negated" in applied(model, rules)[0]
    laws(tmp_path, right="Sin(x)")
    capfd.readouterr()
    names, certificate = applied(model, rules)
    assert "cos_twice_negated" not in names
    assert certificate["unproved"] == ["cos_twice_negated", "sin_twice"]
    assert "not applied: cos_twice_negated, sin_twice" in capfd.readouterr().err
    assert main(["prove", "--check", "--rules", str(rules)]) == 1
    error = capfd.readouterr().err
    assert "stored otherwise, or not at all: cos_twice_negated" in error


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("\nbroken(", "mine.py failed: SyntaxError: "),
        ("\nimport nothing_of_this_name", f"at line {LAST + 2}"),
        (
            "\n@rule('own')\ndef bad(law):\n    law.rewrite(Sin(1, 2, law.no), None)",
            f"at line {LAST + 4}, in bad",
        ),
        (
            "\n@rule('own')\ndef relu_of_relu(law):\n"
            "    x = law.tensor('x', 1)\n    law.rewrite(Sin(x), x)",
            "law relu_of_relu",
        ),
        (
            "\n@rule('own', measure='order')\ndef turned(law):\n"
            "    x = law.tensor('x', 1)\n    law.rewrite(Sin(x), Cos(x))",
            "a law of your own has to make graphs lighter",
        ),
    ],
)
def test_a_file_that_fails_names_the_line(
    more: str, said: str, tmp_path: Path, model: Path, capfd: Capture
) -> None:
    rules = laws(tmp_path, more=more)
    assert main(["compile", str(model), "--rules", str(rules)]) == 1
    error = capfd.readouterr().err
    assert error.startswith("error: ") and said in error


WITHOUT_MEANING = """
from fairhand.rewrites.language.operators.reduction import ReduceMax


def stated(name, build):
    @rule("own", name=name)
    def made(law):
        x = law.tensor("x", law.rank(low=1), kinds="float")
        build(law, x, law.axis("a", 1))

    return made


typed = stated("typed", lambda law, x, a: law.rewrite(Sin(a), Sin(a)))
reduced = stated(
    "reduced",
    lambda law, x, a: law.rewrite(
        Neg(x), ReduceMax(x, axes=a, keepdims=1) if law.mutant("max") else Neg(x)
    ),
)
"""


def test_a_law_without_a_meaning_is_an_error_of_its_own(
    tmp_path: Path, capfd: Capture
) -> None:
    rules = laws(tmp_path, more=WITHOUT_MEANING)
    assert main(["prove", "--rules", str(rules)]) == 1
    printed, error = capfd.readouterr()
    assert "has no meaning: Sin of a takes tensors, and that is a whole num" in printed
    meaning = "ReduceMax takes a set of axes as axes, and a is a whole number"
    assert f"struct B; mutant max: has no meaning: {meaning}" in printed
    assert "cos_twice_negated" in printed.split("has no meaning")[0]
    line = rules.read_text().split("\n").index(WITHOUT_MEANING.split("\n")[13]) + 1
    assert f"{rules}, line {line}, law typed" in error


def test_numbers_show_that_a_law_is_false(tmp_path: Path, capfd: Capture) -> None:
    """Where none are known it is only said that the law isn't shown."""
    rules = tmp_path / "mine.py"
    rules.write_text(ELEMENTWISE)
    assert main(["prove", "--rules", str(rules)]) == 1
    printed = capfd.readouterr().out
    said = {
        line.split()[0]: line.split(maxsplit=1)[1] for line in printed.split("\n")[:4]
    }
    assert said["root"].startswith("false where x = -")
    assert said["halved"].endswith(
        "two = 2 (int32): left -1073741824, right 1073741824"
    )
    assert said["turned"] == "not shown: the same values"
    alone = "true of real numbers alone: less of rounded ones may differ outright"
    assert said["shifted"] == alone


ELEMENTWISE = """
from fairhand.rewrites.language.operators import elementwise as e
from fairhand.rewrites.rules.law_table import equation


def law(name, operands, left, right):
    more = {"name": name, "family": "own", "wrong": {}}
    return equation(name, operands, left, right, **more)


laws = [
    law("root", "float x", lambda x: e.Sqrt(e.Mul(x, x)), lambda x: x),
    law("halved", "int x two:2", lambda x, t: e.Div(e.Mul(x, t), t), lambda x, t: x),
    law("turned", "float x", lambda x: e.Round(e.Neg(x)), lambda x: e.Neg(e.Round(x))),
    law(
        "shifted",
        "float x y z",
        lambda x, y, z: e.Less(e.Add(x, z), e.Add(y, z)),
        lambda x, y, z: e.Less(x, y),
    ),
]
"""


def test_all_words_of_the_language_are_documented() -> None:
    page = (Path(fairhand.__file__).parent / "docs" / "rewrites.md").read_text()
    methods = (name for name, x in vars(Law).items() if name[0] != "_" and callable(x))
    words = [f"law.{name}(" for name in methods if name != "text"]
    for name, word in WORDS.items():
        parameters = ", ".join(word.operator.parameters)
        words.append(f"`{name}({parameters})`" if parameters else f"`{name}`")
    written = " ".join(page.split())
    assert [word for word in words if word not in written] == []


def test_laws_that_differ_are_spelled_differently() -> None:
    """A verdict is looked up by the text of its law."""
    one, other = (Law(), Law())
    for law, kinds in ((one, ""), (other, "int")):
        x = law.tensor("x", law.rank())
        law.rewrite(x, law.number(1, kinds=kinds))
    assert one.text() != other.text()


def test_a_file_without_laws(tmp_path: Path, model: Path, capfd: Capture) -> None:
    (tmp_path / "none.py").write_text("")
    rules = str(tmp_path / "none.py")
    assert main(["compile", str(model), "--rules", rules]) == 1
    assert "none.py defines no law" in capfd.readouterr().err


def test_a_law_is_its_statement(tmp_path: Path) -> None:
    """The documented one is true, and isn't with another sign."""
    page = Path(fairhand.__file__).parent / "docs" / "rewrites.md"
    shown = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    for text, code in ((shown, 0), (shown.replace("-x", "x"), 1)):
        file = tmp_path / f"laws_{code}.py"
        file.write_text(text, encoding="utf-8")
        assert main(["prove", "--rules", str(file)]) == code


UNKNOWN = "Cos(y)|x ** 2|Cosine(x)|Relu(x, y=x)|Relu(**x)|Sum()|Any(x)"


@pytest.mark.parametrize("side", UNKNOWN.split("|"))
def test_a_statement_of_unknown_words_is_refused(side: str) -> None:
    with pytest.raises(ValueError, match="has no meaning"):
        equation(f"{side} = x", "float x", wrong="x", name="unknown", family="own")


FALSE_PADS = """
from fairhand.rewrites.language.operators.elementwise import Exp, Sin
from fairhand.rewrites.language.operators.movement import Pad
from fairhand.rewrites.language.rule import rule


@rule("own", samples=[dict(x=[2, 3], low=(1, 0), high=(0, 1))])
def pad_of_exp(law):
    r = law.rank()
    x, pads = law.tensor("x", r), dict(low=law.fn("low", r), high=law.fn("high", r))
    inner = Pad(x, None, **pads, mode="constant")
    right = Sin(inner) if law.mutant("sin") else Exp(inner)
    law.rewrite(Pad(Exp(x), None, **pads, mode="constant"), right)


RULES = [pad_of_exp]
"""


def test_a_false_law_of_pads_is_refused_and_no_fault(
    tmp_path: Path, capfd: Capture
) -> None:
    """exp(0) is 1: counterexamples are looked for where pads are no operand."""
    rules = tmp_path / "pads.py"
    rules.write_text(FALSE_PADS, encoding="utf-8")
    assert main(["prove", "--rules", str(rules)]) == 1
    printed, error = capfd.readouterr()
    assert "not shown" in printed and "not proved, or too easily: pad_of_exp" in error
