"""`fairhand mcp`: the reading commands for agents and editors, on stdin and stdout."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from json import loads
from pathlib import Path
from typing import Any

from rich.console import Console

from ...analysis.errors import FairhandError, message_of
from ..compare.comparison import compare
from ..compare.status import packages_in
from ..emit.source_map import line_facts, node_facts
from .inspect import inspect_model


def where(package: str, line: str = "", node: str = "") -> dict[str, Any]:
    """ONNX nodes behind a line of a package ("model.py:87"), or lines behind a node."""
    if bool(line) == bool(node):
        raise FairhandError("give a line or a node")
    folder = Path(package)
    return line_facts(folder, line) if line else node_facts(folder, node)


def inspect(model: str) -> dict[str, Any]:
    """Inputs, outputs and operators of an ONNX file, and what isn't supported."""
    text = StringIO()
    inspect_model(Path(model), Console(file=text), as_json=True)
    return dict(loads(text.getvalue()))


def diff(one: str, other: str) -> dict[str, Any]:
    """What tells two networks apart, each a package's folder or an ONNX file."""
    return compare(Path(one), Path(other)).as_dict()


def status(folder: str) -> dict[str, Any]:
    """The packages at or below a folder: their models, hashes, versions and edits."""
    return {"packages": [one.as_dict() for one in packages_in(Path(folder))]}


Tool = Callable[..., dict[str, Any]]
TOOLS: tuple[Tool, ...] = (where, inspect, diff, status)


def server() -> Any:
    """An MCP server of these commands, none of which writes anything."""
    if find_spec("mcp") is None:
        raise FairhandError("mcp isn't installed", hint='pip install "fairhand[mcp]"')
    made = import_module("mcp.server").MCPServer("fairhand")
    hints = import_module("mcp.types").ToolAnnotations(read_only_hint=True)
    said = import_module("mcp.server.mcpserver.exceptions").ToolError
    for tool in TOOLS:
        made.tool(annotations=hints)(_saying(tool, said))
    return made


def _saying(tool: Tool, error: type[Exception]) -> Tool:
    """The same tool; what it refuses is said to who called it."""

    @wraps(tool)
    def call(**arguments: str) -> dict[str, Any]:
        try:
            return tool(**arguments)
        except Exception as reason:
            raise error(message_of(reason)) from reason

    return call
