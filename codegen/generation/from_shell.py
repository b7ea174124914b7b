"""`fairhand generate`: tokens by a decoder's package, and how many a second."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from ...analysis.errors import FairhandError
from ...analysis.lazy import lazy
from ...analysis.literals import one_line
from ..emit.package_files import read_report, require_weights

tokenizers = lazy("tokenizers")

_NAME = "fairhand_generate_package"


def generate(
    package: Path,
    prompt: str | Sequence[int],
    max_new_tokens: int,
    tokenizer: Path | None,
    out: Console,
    err: Console,
    **how: Any,
) -> None:
    """Print what comes behind a prompt, as it is made: text, or numbers without a
    tokenizer. `how` is what generate() of the package takes.

    A tokenizer is a folder or file of the tokenizers package; "ascii" takes characters
    for their numbers. Raises FairhandError for what isn't a decoder, or wrong values.
    """
    report = read_report(package).get("generation")
    if report is not None and "refused" in report:
        raise FairhandError(f"{package}: {report['refused']}")
    if report is None:
        raise FairhandError(
            f"{package} is no decoder: its model has no tokens, or no caches",
            hint="`fairhand run` runs any other package",
        )
    require_weights(package)
    encode, decode = _tokenizer(tokenizer)
    ids = encode(prompt) if isinstance(prompt, str) else list(prompt)
    tokens: list[int] = []
    written = ""

    def show(row: int, token: int) -> None:
        nonlocal written
        tokens.append(token)
        text = decode(tokens)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # half of a character
            out.print(text[len(written) :], end="", soft_wrap=True)
            written = text

    try:
        model = _part(package, "model").load()
        make = _part(package, "generate").generate
        start = time.perf_counter()
        make(model, [ids], max_new_tokens, stream=show, **how)
    except Exception as error:  # its files are the user's
        raise FairhandError(one_line(str(error), 300)) from None
    seconds = time.perf_counter() - start
    out.print()
    rate = len(tokens) / seconds
    err.print(
        f"{len(ids)} tokens read, {len(tokens)} made in {seconds:.1f} s: {rate:.1f}/s"
    )


def _tokenizer(
    given: Path | None,
) -> tuple[Callable[[str], list[int]], Callable[[list[int]], str]]:
    """What makes tokens of text, and text of tokens."""
    if given is None:
        return _no_text, lambda tokens: " ".join(map(str, tokens))
    if str(given) == "ascii":
        return _numbers, lambda tokens: "".join(map(chr, tokens))
    file = given / "tokenizer.json" if given.is_dir() else given
    try:
        made = tokenizers.Tokenizer.from_file(str(file))
    except ImportError:
        raise FairhandError(
            "a tokenizer needs the package tokenizers",
            hint="pip install fairhand[tokenizers], or give --prompt-ids",
        ) from None
    except Exception as error:  # the package raises no other type
        raise FairhandError(f"{file} is no tokenizer: {error}") from None
    return lambda text: list(made.encode(text).ids), lambda ids: str(made.decode(ids))


def _no_text(text: str) -> list[int]:
    raise FairhandError(
        "a text needs a tokenizer",
        hint="--tokenizer FOLDER, or --tokenizer ascii; or give --prompt-ids 1,2,3",
    )


def _numbers(text: str) -> list[int]:
    if not text.isascii():
        raise FairhandError("--tokenizer ascii reads characters of ASCII alone")
    return list(text.encode())


def _part(package: Path, name: str) -> ModuleType:
    """A file of the package, whatever its folder is called."""
    if _NAME not in sys.modules:
        init = package / "__init__.py"
        spec = importlib.util.spec_from_file_location(_NAME, init)
        assert spec is not None and spec.loader is not None
        sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_NAME])
    return importlib.import_module(f"{_NAME}.{name}")
