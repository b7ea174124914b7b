"""Plan to files: Jinja for the layout, black for the format, compile() to prove it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import black
import black.parsing
import jinja2

from ...analysis.errors import FairhandError
from ...analysis.literals import short_literal

_MODE = black.Mode(line_length=88)


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Templates beside this package; an undefined name is an error, never ''."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[2] / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters["literal"] = short_literal
    return made


def render_page(template: str, **values: Any) -> str:
    """A page as it is laid out, or a part of one."""
    return environment().get_template(template).render(**values)


def render_python(template: str, **values: Any) -> str:
    """One Python file: rendered, formatted, and known to compile."""
    return formatted(render_page(template, **values), template)


@lru_cache(maxsize=1024)  # the parts of runtime files are those of many packages
def formatted(text: str, template: str) -> str:
    """Python in black's format; FairhandError where it is not valid."""
    try:
        text = black.format_str(text, mode=_MODE)
        compile(text, template, "exec")
    except (black.parsing.InvalidInput, SyntaxError, ValueError) as error:
        raise FairhandError(
            f"the text made from {template} is not valid Python: {error}",
            hint="this is a fault in fairhand, not in the model; please report it",
        ) from None
    return text


def write_python(path: Path, template: str, **values: Any) -> str:
    """Write a page, formatted; returns its text. FairhandError if it is not valid."""
    text = render_python(template, **values)
    path.write_text(text, encoding="utf-8", newline="\n")
    return text
