"""What is known of model.py for all inputs: validated, or why it isn't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...analysis.errors import VerificationError
from ...analysis.literals import message_line, one_line
from ...analysis.oracle.process import Apart, RunFailed
from .reference import Reference

# What PyTorch imports, for a second, when sizes are first followed as symbols.
MODULES = ("torch.fx.experimental.validator", "torch.export._trace")

_COMPARE = "fairhand.codegen.validate.compare:compare"
_AGREE = "fairhand.codegen.validate.results:agree"


_READ = 60  # letters of a condition that a person reads


class Validation:
    """Compares a package with its reference, in the process that runs the package; at
    the sizes of the first of what it was fed, too, which the model is known to take.

    `found` is the answer of compare.py then. With `ends` sizes of one and of none are
    compared too; `written` is model.py before it was edited, if it was, and without
    `ends` what is compared in its place.
    """

    def __init__(
        self, package: Path, reference: Reference, ends: bool = False, written: str = ""
    ) -> None:
        self._package, self.reference = str(package), reference
        at_ends = {"ends": True, "written": written}
        self._ends = at_ends if ends else {"text": written}
        self.found: dict[str, Any] = {"validated": False, "reason": "it was not run"}

    def __call__(self, running: Apart, feeds: Sequence[Mapping[str, Any]]) -> None:
        table = asdict(self.reference.with_feed(feeds[0] if feeds else {}))
        request = {"package": self._package, "reference": table, **self._ends}
        try:
            self.found = running.call(_COMPARE, request)
        except RunFailed as error:
            self.found["reason"] = one_line(str(error), 300)

    def refuse_other_calls(self) -> None:
        """Raise VerificationError where model.py makes other calls than the graph."""
        if "differs" in self.found:
            raise VerificationError(
                f"model.py makes other calls than the graph: "
                f"{difference(self.found['differs'])}",
                hint="this is a fault in fairhand, not in the model; please report it",
            )


class Results:
    """Compares what an edited package computes with what it did as it was `written`,
    in the process that runs the package, on these feeds by their labels.

    `found` is the answer of results.py then.
    """

    def __init__(
        self, package: Path, written: str, feeds: Mapping[str, Any], images: bool
    ) -> None:
        named = {"package": str(package), "text": written, "images": images}
        self._request = {**named, "feeds": {k: list(v) for k, v in feeds.items()}}
        self.found: dict[str, Any] = {}

    def __call__(self, running: Apart, feeds: Sequence[Mapping[str, Any]]) -> None:
        try:
            self.found = running.call(_AGREE, self._request)
        except RunFailed as error:
            self.found = {"differs": "what was tried", "why": str(error)}

    @property
    def agree(self) -> bool:
        """Whether results were compared, and none is another."""
        return bool(self.found.get("inputs")) and "differs" not in self.found

    @property
    def others(self) -> str:
        """What model.py does where results are others, or may be."""
        why = message_line(self.found.get("why", "it was not run"), 300)
        where = message_line(self.found.get("differs", "all inputs"), 100)
        does = self.found.get("does", "computes")
        return f"{does} something else than as written, on {where}: {why}"

    def refuse_others(self) -> None:
        """Raise VerificationError where results are others, or may be."""
        if "differs" in self.found:
            raise VerificationError(f"model.py {self.others}")

    @property
    def line(self) -> str:
        """What was compared, and how closely it agrees."""
        tried, worst = self.found["inputs"], self.found["worst"]
        return (
            f"results as written on {tried} inputs, in {self.found['precision']}:"
            f" elements differ by {worst:.2g} at most"
        )


def is_of_fewer_sizes(found: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a verdict is about some of the sizes alone that another one is about."""
    new = set(found["where"]) - set(before["where"])
    return before["sizes"] == "all" and (found["sizes"] != "all" or bool(new))


def kept(found: Mapping[str, Any], sha256: str) -> dict[str, Any]:
    """A verdict as the compile cache keeps it: about the file of this hash."""
    return {**found, "of": sha256}


def recalled(entry: Mapping[str, Any], sha256: str) -> dict[str, Any]:
    """The verdict on the same text for the file of this hash; with other weights than
    it was made with it is "recalled"."""
    found = {key: value for key, value in entry.items() if key != "of"}
    return found if entry["of"] == sha256 else {**found, "recalled": True}


def emission_line(found: Mapping[str, Any] | None) -> str:
    """A line about the emission of a report."""
    if found is None:
        return "not compared for all inputs"
    if "differs" in found:
        return f"sampled only: other calls, {difference(found['differs'])}"
    if not found["validated"]:
        return f"sampled only: {one_line(found['reason'], 200)}"
    few = {2: " of two or more", 1: " of two or more, one or none of each"}
    sizes = f"all sizes{few.get(found.get('least', 0), '')}"
    if found.get("fails"):
        sizes += f" but {'; '.join(found['fails'])}, where model.py fails"
    if takes := found.get("takes"):
        short = [each if len(each) <= _READ else "..." for each in takes]
        sizes += f" that the network takes ({', '.join(dict.fromkeys(short))})"
    if found["sizes"] != "all":
        tries = (", ".join(f"{k}={v}" for k, v in s.items()) for s in found["sizes"])
        sizes = "; ".join(dict.fromkeys(tries))
    where = f" where {', '.join(found['where'])}" if found["where"] else ""
    calls = f"{found['calls']} calls, those of the graph"
    calls += ", up to rounding and proven laws" * found.get("by_laws", 0)
    other = " (with the weights it was first written with)" * found.get("recalled", 0)
    return one_line(f"validated for all inputs of {sizes}{where}: {calls}{other}", 300)


def difference(parts: Mapping[str, Any]) -> str:
    """Where model.py makes other calls than the graph, as compare.py found it."""
    what = message_line(parts["calls"] or "leaves a call out", 200)
    text = message_line(parts["text"], 100)
    line = f"line {parts['line']}, {text}: " if parts["line"] else ""
    node = f" for {message_line(parts['node'], 200)}" if parts.get("node") else ""
    wants = f"; the graph has {parts['wants']}{node}" if parts.get("wants") else ""
    return f"{line}{what}{wants}"
