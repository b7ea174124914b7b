"""The documents say what is there: links, files, commands, options, generated pages."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fairhand
from fairhand.codegen.cli import _parser

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "examples/*.md", "generated/*.md")
    for path in ROOT.glob(pattern)
)
FOLDERS = "analysis|rewrites|codegen|templates|tests|docs|examples|benchmarks"
PYTEST_OPTIONS = {"--update-goldens", "-m"}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Without fenced blocks, whose # lines are comments and no headings."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text("utf-8")), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.strip().replace(" ", "-") for word in words}


def broken_links(page: str, text: str) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    return broken


def test_examples_of_contributing_stand_in_the_code() -> None:
    blocks = re.findall(r"(?:^    .*\n|^\n)+", text_of("CONTRIBUTING.md"), re.MULTILINE)
    texts = [textwrap.dedent(block).strip() for block in blocks]
    examples = [text for text in texts if re.search(r"^(def|@\w+|law_of)\b", text)]
    assert len(examples) == 3
    folders = [ROOT / "analysis" / "ops", ROOT / "rewrites" / "rules"]
    code = "".join(p.read_text("utf-8") for f in folders for p in f.rglob("*.py"))
    for example in examples:
        assert (
            example in textwrap.dedent(code) or textwrap.indent(example, "    ") in code
        )


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert broken_links(page, text_of(page)) == []


def test_the_pages_were_found_and_a_broken_link_is() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/architecture.md"} <= set(PAGES)
    bad = "[a](nowhere.md) [b](README.md#no-such) [c](#three-commands) [d](http://x.y)"
    assert broken_links("README.md", bad) == ["nowhere.md", "README.md#no-such"]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_mentioned_exist(page: str) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[\w/.]*\w/?)`", text_of(page))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_names_of_types_are_those_of_the_code(page: str) -> None:
    code = "".join(
        p.read_text("utf-8")
        for f in FOLDERS.split("|")
        for p in (ROOT / f).rglob("*.py")
    )
    words = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", text_of(page)))
    assert sorted(words - set(re.findall(r"\w+", code))) == []


def test_node_tests_are_counted_as_on_their_page() -> None:
    row = re.search(
        r"\| node \| (\d+) \| (\d+) \| (\d+) \|", text_of("docs/conformance.md")
    )
    text = text_of("README.md").replace(",", "")
    said = (
        r"Of the (\d+) official node tests .* (\d+) come .* (\d+) (?:is|are)\srefused"
    )
    found = re.search(said, text)
    assert row and found and found.groups() == row.groups()


def test_lines_of_packages_are_counted_as_they_are() -> None:
    said = re.findall(r"is (\d+) lines there, BERT-base (\d+),", text_of("README.md"))
    files = [
        ROOT / "generated" / name / "model.py" for name in ("resnet50", "bert_base")
    ]
    assert said == [tuple(str(len(f.read_text("utf-8").splitlines())) for f in files)]


# ---- commands


def commands(text: str) -> list[list[str]]:
    """The arguments of every `fairhand ...` in a block, a table or a sentence."""
    found = re.findall(r"(?:^ {4}.*?|`|&& )(fairhand [^`&\n]*)", text, re.MULTILINE)
    return [shlex.split(re.sub(r" {3,}.*", "", line))[1:] for line in found]


def subparsers() -> dict[str, argparse.ArgumentParser]:
    groups = (a for a in _parser()._actions if isinstance(a.choices, dict))
    return dict(next(groups).choices)  # type: ignore[arg-type]


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_ones_that_fairhand_takes(page: str) -> None:
    for arguments in commands(text_of(page)):
        if arguments[0].isupper():  # fairhand COMMAND --help
            continue
        if len(arguments) == 1:
            assert arguments[0] in subparsers()
            continue
        try:
            _parser().parse_args(arguments)
        except SystemExit as stopped:
            assert stopped.code == 0, f"fairhand {' '.join(arguments)}"


def test_commands_are_found() -> None:
    text = "    pip install x && fairhand verify a b\n`fairhand inspect m`  fairhand no"
    assert commands(text) == [["verify", "a", "b"], ["inspect", "m"]]
    named = {arguments[0] for arguments in commands(text_of("README.md"))}
    assert named >= set(subparsers()), "the README leaves out a command"


def test_options_exist() -> None:
    known = {o for p in subparsers().values() for o in p._option_string_actions}
    known |= set(_parser()._option_string_actions) | PYTEST_OPTIONS
    for page in ("README.md", "CONTRIBUTING.md", "docs/emitted_code.md"):
        named = re.findall(r"`(--[a-z-]+)", text_of(page))
        assert set(named) <= known, page


def test_pytest_options_and_marks_exist() -> None:
    text = text_of("CONTRIBUTING.md")
    declared = text_of("pyproject.toml")
    for mark in re.findall(r"pytest -m (\w+)", text):
        assert f'"{mark}:' in declared
    conftest = text_of("tests/conftest.py")
    for option in re.findall(r"pytest (--[a-z-]+)", text):
        assert f'"{option}"' in conftest


# ---- Python


@pytest.mark.parametrize("page", PAGES)
def test_python_is_python_and_names_what_there_is(page: str) -> None:
    text = text_of(page)
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        ast.parse(block)
    names = re.findall(r"\bfairhand\.([A-Za-z]\w*)", text)
    assert [name for name in names if not hasattr(fairhand, name)] == []


def test_generated_pages_are_fresh() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}: python docs/generate.py"


def test_an_outdated_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("docs_generate", path)
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    page = tmp_path / "operators.md"
    assert generate.main(["--check"]) == 1 and not page.exists()
    assert generate.main([]) == 0 and generate.main(["--check"]) == 0
    page.write_text(page.read_text("utf-8").replace("| Relu ", "| Relv "), "utf-8")
    assert generate.main(["--check"]) == 1
