"""Every constant that reaches emitted text is printed here, and nowhere else."""

from __future__ import annotations

import ast
import math
from typing import Any

import ml_dtypes
import numpy as np

# Named constants, tried in order: a value is printed so only when it is equal to the
# bit in the dtype of the graph.
_NAMED: tuple[tuple[float, str], ...] = (
    (math.pi, "math.pi"),
    (math.sqrt(2), "math.sqrt(2)"),
    (math.sqrt(0.5), "math.sqrt(0.5)"),
    (math.sqrt(2 / math.pi), "math.sqrt(2 / math.pi)"),
    (math.log(2), "math.log(2)"),
    (2 * math.pi, "math.tau"),
    (math.log(2 * math.pi), "math.log(2 * math.pi)"),
    (math.log(math.sqrt(2 * math.pi)), "math.log(math.sqrt(2 * math.pi))"),
)
_LARGEST_SIZE = 4096  # whose root is written as one

_LONGEST_STRING = 60  # columns of a string on one line


def literal(value: Any) -> str:
    """Source text of a scalar, a string, None, or nested tuples and lists of them."""
    if isinstance(value, (bool, np.bool_)):
        return repr(bool(value))
    if value is None:
        return "None"
    if isinstance(value, (int, np.integer)):
        return repr(int(value))
    kind = value.dtype.kind if isinstance(value, np.generic) else ""
    if isinstance(value, float) or kind in ("f", "V"):  # bfloat16, float8
        return float_literal(value)
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(literal(item) for item in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    raise TypeError(f"no literal for {type(value).__name__}")


def float_literal(value: float | np.generic) -> str:
    """The shortest literal that gives the same bits back in the value's own dtype."""
    dtype = value.dtype if isinstance(value, np.generic) else np.dtype(np.float64)
    number = float(value)
    if math.isnan(number):
        return 'float("nan")'
    if math.isinf(number):
        return 'float("inf")' if number > 0 else 'float("-inf")'
    if isinstance(value, np.generic) and dtype.itemsize > 1:
        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        for bound, name in ((info.max, "max"), (info.min, "min")):
            if value == bound:
                return f"torch.finfo(torch.{dtype.name}).{name}"
    for constant, name in _NAMED:
        if number != 0 and dtype.type(math.copysign(constant, number)) == value:
            return f"-{name}" if number < 0 else name
    if root := _root(abs(number), dtype):
        return f"-{root}" if number < 0 else root
    text = repr(number) if dtype == np.float64 else _shortest(value, dtype)
    mantissa, _, exponent = text.partition("e")
    if exponent:
        mantissa = mantissa.removesuffix(".0")
        return f"{mantissa}e{int(exponent)}"
    first = text.removesuffix("000000.0").rstrip("0")
    far = len(first.lstrip("-")) == 1 and text.endswith("000000.0")
    return f"{first}e{len(text) - 2 - len(first)}" if far else text  # -1e9


def _root(number: float, dtype: np.dtype[Any]) -> str:
    """math.sqrt(48) or math.sqrt(1 / 48) for the root of a size, or of its inverse.

    Types of few bits have roots by chance.
    """
    low, high = (1 / _LARGEST_SIZE, _LARGEST_SIZE)
    square = number * number
    if dtype.itemsize < 4 or not low <= square * (1 + 1e-6) <= high * (1 + 2e-6):
        return ""
    size = round(max(square, 1 / square))
    if math.isqrt(size) ** 2 == size:
        return ""
    root, text = (size, f"{size}") if square > 1 else (1 / size, f"1 / {size}")
    return f"math.sqrt({text})" if dtype.type(math.sqrt(root)) == number else ""


def shortest(value: Any) -> float:
    """The number of fewest digits that is a NumPy float to its own type.

    Not the largest one's: rounded up it is larger than any, and PyTorch refuses it.
    """
    exact, found = float(value), float(str(value))
    if not isinstance(value, np.floating) or abs(exact) < np.finfo(value.dtype).max:
        return found
    return exact


def _shortest(value: Any, dtype: np.dtype[Any]) -> str:
    for digits in range(1, 18):
        text = repr(float(f"{float(value):.{digits}g}"))
        if dtype.type(float(text)) == value:
            return text
    return repr(float(value))


def string_literal(text: str) -> str:
    """A double-quoted literal in printable ASCII that no text can break out of."""
    out = []
    for char in text:
        if char in '\\"':
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        elif ord(char) <= 0xFF:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) <= 0xFFFF:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    return '"' + "".join(out) + '"'


def strings_in(text: str | None) -> list[str]:
    """The strings of a printed list; none of anything else (the text is untrusted)."""
    if not text or len(text) > 10_000:
        return []
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    if isinstance(found, list) and all(isinstance(item, str) for item in found):
        return found
    return []


def one_line(text: str, limit: int = 72) -> str:
    """Untrusted text for a docstring or comment: printable ASCII, one line, cut."""
    return "".join("?" if c in "\\\"'" else c for c in message_line(text, limit))


def printable(text: str) -> str:
    """Lines for a terminal, without the codes in a model's names that it would obey."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def shown(text: str) -> str:
    """An untrusted name for a terminal: as it is, but in one line, and cut."""
    return printable(text.replace("\n", "?"))[:255]


def message_line(text: str, limit: int) -> str:
    """Untrusted text for a message, never for source: printable ASCII, one line."""
    clean = "".join(c if " " <= c <= "~" else "?" for c in text)
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def short_literal(value: Any) -> str:
    """A literal whose strings are split where they are too long for a line."""
    if isinstance(value, tuple):
        inner = ", ".join(short_literal(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not isinstance(value, str) or len(literal(value)) <= _LONGEST_STRING:
        return literal(value)
    parts = [""]
    for character in value:
        if len(literal(parts[-1] + character)) > _LONGEST_STRING:
            parts.append("")
        parts[-1] += character
    return f"({' '.join(map(literal, parts))})"
