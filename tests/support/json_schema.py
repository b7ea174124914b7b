"""As much of JSON Schema as docs/schemas/ says things in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}
KNOWN = {*"$schema title type properties required items enum anyOf".split()}
KNOWN |= {"additionalProperties"}


def check(found: Any, name: str) -> None:
    faults = faults_of(found, json.loads((SCHEMAS / f"{name}.json").read_text()), name)
    assert not faults, faults


def faults_of(found: Any, schema: dict[str, Any], at: str) -> list[str]:
    """Where a value is not what a schema says."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "anyOf" in schema:
        ways = [faults_of(found, way, at) for way in schema["anyOf"]]
        return min(ways, key=len)
    if "enum" in schema and found not in schema["enum"]:
        return [f"{at}: {found!r}"]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(found, TYPES[name]) for name in types):
        return [f"{at}: {type(found).__name__}, not {types}"]
    faults = []
    if isinstance(found, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties")
        needed = schema.get("required", ())
        faults += [f"{at}.{key} is missing" for key in needed if key not in found]
        for key, value in found.items():
            inner = known.get(key, more)
            if not inner:
                faults.append(f"{at}.{key} is unknown")
            else:
                faults += faults_of(value, inner, f"{at}.{key}")
    if isinstance(found, list):
        for i, value in enumerate(found):
            faults += faults_of(value, schema.get("items", {}), f"{at}[{i}]")
    return faults
