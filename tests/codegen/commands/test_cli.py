"""The command line, end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from support.emitted import EXAMPLES, FILES, contents, start
from support.handmade import floats, model, node, save

import fairhand
from fairhand.analysis.ops.registry import OPS
from fairhand.codegen.cli import main

CNN, TRANSFORMER = (EXAMPLES / f"digits_{n}.onnx" for n in ("cnn", "transformer"))
SAMPLE = EXAMPLES / "digits_sample.npz"
Capture = pytest.CaptureFixture[str]


def run(*arguments: str | Path) -> int:
    """The exit code, of usage errors too."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The convolutional example, not verified."""
    out = tmp_path_factory.mktemp("cli") / "digits_cnn"
    fairhand.compile(CNN, out, verify=False)
    return out


# ------------------------------------------------------------------- the commands


def test_compile(tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / ("long" * 40) / "cnn"
    assert run("compile", CNN, "-o", out, "--inputs", SAMPLE) == 0
    printed, error = capfd.readouterr()
    assert error == ""
    report = json.loads((out / "report.json").read_text())
    lines = [line.split(maxsplit=1) for line in printed.splitlines()]
    assert lines[0] == ["package", str(out)]  # whole, however narrow a pipe seems
    assert lines[1] == ["source", "digits_cnn.onnx, opset 20, 15 nodes"]
    count = (out / "model.py").read_text().count("\n")
    assert lines[2][0] == "model.py" and lines[2][1].startswith(f"{count} lines, ")
    assert lines[3] == ["weights", "37,642 parameters, 0.2 MB"]
    worst = report["verification"]["worst_relative_error"]
    oracle = f"onnxruntime {ort.__version__}, optimisation off"
    text = f"1 runs against {oracle}: worst relative error {worst}"
    assert lines[4] == ["parity", text] and len(lines) == 6
    assert lines[5][0] == "emission" and "all inputs of all sizes" in lines[5][1]
    cases = [case["inputs"] for case in report["verification"]["cases"]]
    assert cases == ["digits_sample.npz"]


def test_compile_unverified_into_the_default_folder(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("compile", CNN, "--no-verify", "--debug", "stages") == 0
    assert "not verified (--no-verify)" in capfd.readouterr().out
    out = tmp_path / "generated" / "digits_cnn"
    assert {path.name for path in out.iterdir()} == FILES
    assert json.loads((out / "report.json").read_text())["verification"] is None
    stages = sorted(path.name for path in (tmp_path / "stages").glob("*.onnx"))
    assert stages[0] == "1-load.onnx" and len(stages) == 4
    for stage in stages:
        onnx.checker.check_model(tmp_path / "stages" / stage)


def test_verify(package: Path, tmp_path: Path, capfd: Capture) -> None:
    options = ("--seeds", 1, "--inputs", SAMPLE)
    assert run("verify", package, CNN, *options) == 0
    printed, error = capfd.readouterr()
    lines = printed.splitlines()
    assert lines[0].startswith("digits_sample.npz: relative error ")
    assert lines[1].startswith("seed 0, batch=1: relative error ")
    assert lines[2].startswith("seed 0, batch=3: relative error ")
    assert lines[3].startswith("validated for all inputs of all sizes of two or more: ")
    assert lines[4].startswith("worst relative error ") and len(lines) == 5
    assert lines[4].endswith(": verified") and error == ""

    assert run("verify", package, TRANSFORMER) == 1
    text = f"error: {package} was not generated from {TRANSFORMER}, but from another "
    assert f"{text}digits_cnn.onnx\n" in capfd.readouterr().err


def test_verify_finds_what_was_changed(
    package: Path, tmp_path: Path, capfd: Capture
) -> None:
    for name, content in contents(package).items():
        (tmp_path / name).write_bytes(content)
    text = (tmp_path / "model.py").read_text()
    (tmp_path / "model.py").write_text(text.replace("F.relu(", "F.gelu(", 1))
    assert run("verify", tmp_path, CNN, "--seeds", 1) == 1
    printed, error = capfd.readouterr()
    assert error.startswith("error: output logits differs from ONNX Runtime on seed 0")
    assert printed == "" and error.count("error:") == 1


def test_inspect(capfd: Capture) -> None:
    assert run("inspect", TRANSFORMER) == 0
    printed, error = capfd.readouterr()
    lines = printed.splitlines()
    assert lines[0].startswith("digits_transformer.onnx: opset 17, 248 nodes, ")
    assert lines[1:3] == [
        "  input  image float [batch, 1, 8, 8]",
        "  output logits float [batch, 10]",
    ]
    rows = {line.split()[0]: line.split()[1:] for line in lines[4:-1]}
    assert lines[3].split() == ["operator", "count", "mapping", "type", "supported"]
    assert rows["LayerNormalization"] == ["5", "Many-to-Many", "yes"]
    assert rows["Gelu"] == ["2", "One-to-One", "yes"]
    assert lines[-1].endswith(" 5 nn.LayerNorm, 14 nn.Linear") and error == ""


def test_inspect_tells_which_nodes_are_refused(tmp_path: Path, capfd: Capture) -> None:
    made = model(
        node("Softmax", "x", "h"),
        node("Softmax", "h", "y", axis=7),
        inputs=(floats("x", "n", 4),),
        weights={},
    )
    assert run("inspect", save(made, tmp_path)) == 1
    printed, error = capfd.readouterr()
    assert "1 of 2" in printed and "along axis 7 of 2 is impossible" in error


def test_names_are_printed_as_they_are(tmp_path: Path, capfd: Capture) -> None:
    """No emoji for ":smile:", no bold print for "[bold]"."""
    name = ":smile: [bold]x[/bold] [/red]"
    made = model(node("Relu", "x", "y"), inputs=(floats(name, name, 4),), weights={})
    made.graph.node[0].input[0] = name
    path = save(made, tmp_path, "[red]:smile:.onnx")
    assert run("compile", path, "-o", tmp_path / ":smile:[red]") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].endswith(":smile:[red]")
    assert lines[1].split(maxsplit=1)[1].startswith("[red]:smile:.onnx, ")
    assert run("verify", tmp_path / ":smile:[red]", path) == 0
    assert f", {name}=1: relative error" in capfd.readouterr().out
    assert run("inspect", path) == 0
    printed = capfd.readouterr().out
    assert printed.startswith("[red]:smile:.onnx: opset 18")
    assert f"  input  {name} float [{name[:21]}" in printed


def test_a_model_is_found_by_its_name_whatever_it_is(
    tmp_path: Path, capfd: Capture
) -> None:
    file = tmp_path / f"it's naïve, {'and long ' * 10}.onnx"
    file.write_bytes(CNN.read_bytes())
    assert run("status", tmp_path) == 0
    assert capfd.readouterr().out == f"{tmp_path} has no packages in it\n"
    assert run("compile", file, "-o", tmp_path / "net", "--no-verify") == 0
    assert f"source    {file.name}, opset 20" in capfd.readouterr().out
    assert run("status", tmp_path) == 0
    assert f"net: {file.name} a9698ef757db, " in capfd.readouterr().out
    assert (tmp_path / "net" / "model.py").read_text().isascii()


def test_a_pipe_that_is_closed_ends_a_command_quietly() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "fairhand", "inspect", CNN, "--json"]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE)
    os.close(writes)
    assert (done.returncode, done.stderr) == (1, b"")


def test_no_name_holds_codes_that_a_terminal_obeys(
    tmp_path: Path, capfd: Capture
) -> None:
    size = "a\x1b]0;b\x1b[31m\n# c"
    made = model(node("Relu", "x", "y"), inputs=(floats("x", size, 4),), weights={})
    path = save(made, tmp_path)
    for arguments in ([], ["--fusion"], ["--lanes", "2"]):
        assert run("inspect", path, *arguments) == 0
        printed = capfd.readouterr().out
        assert "a?]0;b?[31m" in printed
        assert "\x1b" not in printed and "\n# c" not in printed


def test_bench(package: Path, capfd: Capture) -> None:
    assert run("bench", package, CNN, "--rounds", "2") == 0
    printed, error = capfd.readouterr()
    what, *lines = printed.splitlines()
    assert what.startswith("sizes batch=1; ") and "threads; engine " in what
    rows = {line[:34].strip(): float(line[34:].split()[0]) for line in lines}
    levels = ["onnxruntime", "onnxruntime unoptimised"]
    ratios = [f"ratio to {level}" for level in levels]
    assert list(rows) == ["package", *levels, *ratios] and error == ""
    assert min(list(rows.values())[:3]) > 0

    assert run("bench", package, TRANSFORMER) == 1
    assert "was not generated from" in capfd.readouterr().err


def test_version(capfd: Capture) -> None:
    assert run("--version") == 0
    assert capfd.readouterr().out == f"fairhand {fairhand.__version__}\n"


def test_python_dash_m_is_the_command() -> None:
    command = [sys.executable, "-m", "fairhand", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and fairhand.__version__ in done.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "the following arguments are required: command"),
        (["compile"], "the following arguments are required: model"),
        (["decompile", "x.onnx"], "invalid choice: 'decompile'"),
        (["compile", "x.onnx", "--fast"], "unrecognized arguments: --fast"),
        (["verify"], "the following arguments are required: package"),
        (["verify", "x", "y", "--seeds", "0"], "'0' is not a whole number above 0"),
        (["verify", "x", "--all-inputs", "--by-results"], "not allowed with argument"),
        (["compile", "x", "--lanes", "0"], "'0' is neither auto nor a whole number"),
        (
            ["bench", "x", "y", "--rounds", "many"],
            "'many' is not a whole number above 0",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], text: str, capfd: Capture) -> None:
    assert run(*arguments) == 2
    printed, error = capfd.readouterr()
    assert error.startswith("usage: fairhand") and text in error and printed == ""


def test_one_error_for_each_thing_that_goes_wrong(
    package: Path, tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "file").write_text("mine")
    np.savez(tmp_path / "small.npz", image=np.zeros((1, 1, 8, 7), np.float32))
    np.savez(tmp_path / "other.npz", picture=np.zeros((1, 1, 8, 8), np.float32))
    before = contents(tmp_path)
    out = tmp_path / "new" / "net"
    compiling = ("compile", CNN, "-o", out)
    for arguments, text in {
        ("compile", tmp_path / r"no\[/red].onnx"): r"no\[/red].onnx",
        (*compiling, "--inputs", tmp_path / "no.npz"): "no.npz",
        (*compiling, "--inputs", tmp_path / "small.npz"): "small.npz: [ONNXRuntime",
        (*compiling, "--inputs", tmp_path / "other.npz"): "image",
        (*compiling, "--ops", tmp_path / "no.py"): "there is no file",
        (*compiling, "--debug", tmp_path / "file"): "File exists",
        (*compiling, "--memory", "24G"): "need --parallel",
        (*compiling, "--devices", "h100"): "need --parallel",
        ("inspect", CNN, "--annotate", tmp_path / "new.onnx"): "need --parallel",
        ("inspect", CNN, "--batch", "4"): "there is no plan to show",
        ("compile", CNN, "-o", tmp_path / "file" / "net"): "file",
        ("compile", CNN, "-o", tmp_path / "net.v2"): "choose a name without dots",
        ("compile", CNN, "-o", tmp_path): "is not a package that fairhand wrote",
        ("verify", tmp_path, CNN): "is not a package that fairhand wrote",
        ("verify", package, tmp_path / "no.onnx"): "does not exist",
        ("inspect", tmp_path / "no.onnx"): "does not exist",
        ("bench", tmp_path / "no", CNN): "is not a package that fairhand wrote",
    }.items():
        assert run(*arguments) == 1, arguments
        printed, error = capfd.readouterr()
        assert error.startswith("error: ") and error.count("error:") == 1, error
        assert text in error and "Traceback" not in error
        assert printed == "" and contents(tmp_path) == before, arguments
        assert not out.parent.exists()


def test_unsupported_operators_are_listed_at_once(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        node("Twist", "x", "a", name="first twist"),
        node("Turn", "a", "b", name="a turn"),
        node("Relu", "b", "c"),
        node("Twist", "c", "d", name="second twist"),
        node("Det", "e", "f", name="the determinant"),
        node("Twist", "d", "e", name="third twist"),
        node("Add", "e f", "y"),
    ]
    for made in nodes:
        made.domain = "my.ops" if made.op_type in ("Twist", "Turn") else ""
    made = model(*nodes, inputs=(floats("x", 2, 4, 4),), weights={}, opset=20)
    made.opset_import.add(domain="my.ops", version=3)
    path = save(made, tmp_path)
    monkeypatch.delitem(OPS, ("", "Det"), raising=False)
    for command in (["compile", path, "-o", tmp_path / "net"], ["inspect", path]):
        assert run(*command) == 1
        error = capfd.readouterr().err
        assert error.startswith("error: 3 operators can't be compiled; nothing was wr")
        lines = [line.strip() for line in error.splitlines()[1:]]
        at = "first at node"
        assert lines[0].startswith(f"my.ops.Twist (opset 3) x3, {at} 'first twist'")
        assert lines[1].startswith(f"Det (opset 26) x1, {at} 'the determinant' (Det")
        assert lines[2].startswith(f"my.ops.Turn (opset 3) x1, {at} 'a turn'")
        assert (
            lines[3]
            == "hint: an operator of your own can be given with --ops my_ops.py"
        )
        assert len(lines) == 4
        assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_refusals_of_one_reason_are_counted(tmp_path: Path, capfd: Capture) -> None:
    nodes = [
        node("GlobalAveragePool", x, y, name=f"pool {y}")
        for x, y in (("x", "a"), ("a", "b"), ("b", "c"))
    ]
    made = model(*nodes, node("Twist", "c", "y", name="twist"), weights={})
    made.graph.node[3].domain = "my.ops"
    made.opset_import.add(domain="my.ops", version=1)
    assert run("compile", save(made, tmp_path), "-o", tmp_path / "net") == 1
    assert capfd.readouterr().err.splitlines() == [
        "error: 2 operators can't be compiled; nothing was written",
        "  my.ops.Twist (opset 1) x1, first at node 'twist' (my.ops.Twist), inputs c",
        "  GlobalAveragePool without spatial axes is not supported x3, first",
        "    at node 'pool a' (GlobalAveragePool), inputs x [2, 64]",
        "  hint: an operator of your own can be given with --ops my_ops.py",
    ]


# ------------------------------------------------------------------- piped


def test_no_colours_and_no_progress_in_a_pipe(package: Path, tmp_path: Path) -> None:
    commands = [
        ["compile", CNN, "-o", tmp_path / "cnn"],
        ["inspect", TRANSFORMER],
        ["inspect", tmp_path / "no.onnx"],
    ]
    processes = [
        start("-m", "fairhand.codegen.cli", *command, cwd=tmp_path, TERM="xterm")
        for command in commands
    ]
    for process, code in zip(processes, (0, 0, 1), strict=True):
        printed, error = process.communicate(timeout=300)
        assert process.returncode == code, error
        assert printed.isascii() and error.isascii()
        assert "\x1b" not in printed + error and "\r" not in printed + error
        assert (error == "") == (code == 0) and (printed == "") == (code == 1)


def test_the_command_is_the_console_script() -> None:
    """pyproject.toml names what this file tests."""
    text = (EXAMPLES.parent / "pyproject.toml").read_text("utf-8")
    assert 'fairhand = "fairhand.codegen.cli:main"' in text
    code = "import sys; from fairhand.codegen.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (0, "fairhand")


@pytest.mark.parametrize(
    ("rule", "at", "code", "said"),
    [
        (
            "neg_neg",
            "the_Neg",
            0,
            "doesn't apply at the_Neg: a is computed by Exp, not",
        ),
        ("mul_zero", "the_Mul", 0, "applies at the_Mul, but is only used asked"),
        ("neg_neg", "the_Mul", 0, "doesn't apply at the_Mul: y is computed by Mul"),
        ("neg_neg", "the_Sin", 1, "there is no node 'the_Sin' in the rewritten graph"),
        ("neg_and_neg", "the_Neg", 1, "there is no rule 'neg_and_neg'"),
    ],
)
def test_explain_says_why_a_rule_did_not_apply(
    rule: str, at: str, code: int, said: str, tmp_path: Path, capsys: Capture
) -> None:
    made = model(
        node("Exp", "x", "a"),
        node("Neg", "a", "b"),
        node("Floor", "b", "c"),
        node("Mul", "c w", "y"),
        weights={"w": np.zeros((), np.float32)},
    )
    assert run("inspect", save(made, tmp_path), "--explain", rule, at) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_what_a_command_is_wrongly_given_is_named(
    package: Path, tmp_path: Path, capfd: Capture
) -> None:
    np.savez(tmp_path / "given.npz", img=np.zeros((1, 1, 8, 8), np.float32))
    assert run("verify", package, CNN, "--inputs", tmp_path / "given.npz") == 1
    assert "it holds img, and not the inputs image" in capfd.readouterr().err
    assert run("where", package, "session.py:10") == 1
    assert "'session.py:10' is no line of model.py" in capfd.readouterr().err
    assert run("compile", CNN, "-o", tmp_path / "class") == 1
    assert "class is a Python word" in capfd.readouterr().err


def test_an_engine_that_is_not_there(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairhand.codegen.engines.choose.find_spec", lambda name: None)
    assert run("compile", CNN, "-o", tmp_path / "net", "--engine", "openvino") == 1
    assert 'pip install "fairhand[openvino]"' in capfd.readouterr().err


def test_what_the_system_refuses_is_said_without_its_number(
    tmp_path: Path, capfd: Capture
) -> None:
    used = tmp_path / "a_file"
    used.write_text("")
    assert run("compile", CNN, "-o", used / "cnn", "--no-verify") == 1
    said = capfd.readouterr().err
    assert said.startswith("error: File exists\n  at file ") and "rrno" not in said


def test_a_fault_of_ours_is_said_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise KeyError("a[bold]\x1b[31m")

    monkeypatch.setattr("fairhand.codegen.cli._compile", faulty)
    assert main(["compile", "m.onnx"]) == 1
    said = capfd.readouterr().err
    assert "a fault of fairhand, KeyError" in said and "at test_cli.py, line" in said
    assert "\x1b[31m" not in said
    monkeypatch.setenv("FAIRHAND_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main(["compile", "m.onnx"])


def test_inputs_that_give_nothing_but_nan_show_nothing(
    tmp_path: Path, capfd: Capture
) -> None:
    path = save(model(node("Abs", "x", "y"), inputs=(floats("x", 3),)), tmp_path)
    np.savez(tmp_path / "nan.npz", x=np.full(3, np.nan, np.float32))
    given = ["compile", path, "-o", tmp_path / "relu", "--inputs", tmp_path / "nan.npz"]
    assert run(*given) == 1 and not (tmp_path / "relu").exists()
    assert "nothing but NaN on nan.npz" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (node("Reshape", "s shape", "y"), "x.squeeze().reshape(3, -1)"),
        (node("Gather", "shape n", "y"), "self.shape[x.squeeze().argmax(dim=-1)]"),
    ],
    ids=["Reshape", "Gather"],
)
def test_what_a_squeeze_left_may_have_any_rank(
    last: onnx.NodeProto, text: str, tmp_path: Path
) -> None:
    nodes = node("Squeeze", "x", "s"), node("ArgMax", "s", "n", axis=-1, keepdims=0)
    column, shape = floats("x", "b", 6, 1), np.array([3, -1, 0, 7, 8, 9])
    if last.op_type == "Reshape":
        nodes, shape = nodes[:1], shape[:2]
    made = model(*nodes, last, inputs=(column,), weights={"shape": shape})
    package = fairhand.compile(made, tmp_path / "net")
    report = json.loads((package.path / "report.json").read_text())
    cases = [case["inputs"] for case in report["verification"]["cases"]]
    assert {case[-1] for case in cases} == {"1", "3"}  # of two ranks
    assert text in (package.path / "model.py").read_text()


def test_what_proving_needs_is_said() -> None:
    """Nothing on the way there may need it already."""
    code = (
        "import sys; sys.modules['z3'] = None; from fairhand.codegen.cli import main;"
    )
    command = [
        sys.executable,
        "-c",
        f"{code} sys.exit(main(['prove', 'relu_of_relu']))",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: proving needs z3")
