"""Files beside model.py, put together from definitions in templates/runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.copied_source import RUNTIME, picked
from .render import formatted


def copied_whole(name: str) -> str:
    """A file that is the same in every package."""
    text = (RUNTIME / name).read_text("utf-8")
    return text.replace("\nfrom ..", "\nfrom .")  # what stands in a folder here


def put_together(
    docstring: str, files: Iterable[str], names: Iterable[str], given: Mapping[str, str]
) -> str:
    """One Python file of what is picked."""
    found = picked(files, names, given)
    head = [
        f'"""{docstring}"""',
        "from __future__ import annotations",
        "\n".join(found.imports),
        "\n".join(found.constants),
    ]
    # Each by itself, since most definitions are those of other packages too.
    parts = ["\n\n".join(head), *found.definitions, "\n\n".join(found.tables)]
    texts = (formatted(part, "templates/runtime").rstrip() for part in parts if part)
    return "\n\n\n".join(texts) + "\n"
