"""What the GitHub Action and the hook run, on a repository of a test's own."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.emitted import contents
from support.networks import looped

import fairhand
from fairhand.codegen.cli import main
from fairhand.codegen.commands import mcp_server, review

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]


def git(*arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    run = subprocess.run(["git", *who, *arguments], capture_output=True, check=True)
    return run.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    (tmp_path / "models").mkdir()
    onnx.save(looped(), "models/a.onnx", save_as_external_data=True, size_threshold=0)
    onnx.save(looped(), "models/same.onnx")
    git("add", "-A")
    git("commit", "-qm", "models")
    return tmp_path


@pytest.mark.slow
def test_a_review_names_what_changed(repository: Path, capfd: Capture) -> None:
    assert main(["review", "HEAD"]) == 0
    assert capfd.readouterr().out == "No model has changed.\n"
    (repository / "models" / "a.onnx.data").unlink(missing_ok=True)
    onnx.save(looped(shared="Sigmoid"), "models/a.onnx")
    (repository / "models" / "bad.onnx").write_bytes(b"{}")
    onnx.save(looped(), "models/new.onnx")
    git("add", "-A")
    before = contents(repository)
    assert main(["review", "HEAD", "--speed"]) == 1
    assert contents(repository) == before
    text = capfd.readouterr().out
    changed, bad, new = text.split("### ")[1:]
    assert changed.startswith("`models/a.onnx`\n") and "- parity: " in changed
    assert (
        "1 : 1 lines differ" in changed and "\n+" in changed and "ratio to" in changed
    )
    assert "it is JSON" in bad and "- a new model" in new
    assert main(["review", "nothing"]) == 1
    assert "git diff: " in capfd.readouterr().err


def test_changed_weights_beside_a_model_change_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    """Retrained weights leave a file as it is that names them, in any folder above."""
    seen: list[Path] = []

    def about(model: Path, base: str, folder: Path, speed: bool) -> list[str]:
        before = review._before(model, base, folder / "before")
        assert before is not None
        (data,) = review._beside(before)
        seen.append(model)
        return [f"{(before.parent / data).read_bytes() == old}"]

    monkeypatch.setattr(review, "_about", about)
    git("mv", "models/same.onnx", "same.onnx")  # beside no weights
    git("commit", "-qm", "moved")
    (weights,) = (repository / "models").glob("*.data")
    old = weights.read_bytes()
    weights.write_bytes(bytes(len(old)))
    git("commit", "-qam", "trained on")
    for folder, name in ((".", "models/a.onnx"), ("models", "a.onnx")):
        monkeypatch.chdir(repository / folder)
        assert main(["review", "HEAD~1"]) == 0
        assert capfd.readouterr().out == f"### `{name}`\n\nTrue\n"
        assert seen.pop() == Path(name)


def test_the_action_and_the_hook_run_these_commands(repository: Path) -> None:
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert 'run: fairhand review "$BASE" $SPEED > "$RUNNER_TEMP/fairhand.md"' in action
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    (entry,) = (line for line in hooks.splitlines() if "entry: " in line)
    _, *command = shlex.split(entry.partition("entry: ")[2])
    fairhand.compile("models/same.onnx", "net", verify=False)
    assert main(command) == 0
    (repository / "net" / "session.py").write_text("")
    assert main(command) == 1


def test_the_tools_of_the_server(repository: Path) -> None:
    fairhand.compile("models/same.onnx", "net", verify=False)
    tools = {tool.__name__: tool for tool in mcp_server.TOOLS}
    found: dict[str, Any] = tools["status"](".")
    assert [one["package"] for one in found["packages"]] == ["net"]
    assert tools["diff"]("net", "models/same.onnx")["verdict"] == "same"
    assert tools["inspect"]("models/same.onnx")["outputs"]
    (line,) = tools["where"]("net", line="30")["lines"]
    assert line["line"]
    with pytest.raises(fairhand.FairhandError, match="give a line or a node"):
        tools["where"]("net")


def test_the_server_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "find_spec", lambda name: None)
    with pytest.raises(fairhand.FairhandError, match=r"fairhand\[mcp\]"):
        mcp_server.server()
