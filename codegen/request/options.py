"""What is to be written, and how it is checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...analysis.errors import FairhandError
from ...analysis.ops import registered
from ...rewrites.certificate.rule_file import RuleFile
from ...rewrites.language.rule import Rule
from .choices import METHODS, TARGETS

Progress = Callable[[str], None]  # is told what begins: "load", "plan", "verify" ...


@dataclass(frozen=True)
class CompileOptions:
    """What is to be written.

    Of the proven rules, those that `exactness` admits are applied ("bitwise", "order"
    or "real"; fairhand.rewrites has the catalogue, which `rules` narrows, or to which
    it adds the user's own). `level` 0 is faithful: no stored weight changes, and
    state_dict has the original's keys; 2 also merges layers. Of the rest at most one:
    `lanes` is how many parts of the network may run side by side, or "auto" (`profile`:
    as measured here); `fusion` ("dnnfusion") writes the groups of a fusion
    plan as functions; with "triton" for `target`, operators that fuse become kernels,
    with `autotune` such as try several launches when they first run.
    """

    level: int = 1
    exactness: str = "real"
    rules: Sequence[Rule] | RuleFile | None = None
    lanes: int | str | None = None
    profile: bool = False
    fusion: str | None = None
    target: str = "torch"
    autotune: bool = False

    def __post_init__(self) -> None:
        """Raises FairhandError for options that don't go together."""
        if self.target not in TARGETS:
            what = f"there is no target {self.target!r}"
            raise FairhandError(what, hint=" or ".join(TARGETS))
        if self.fusion not in (None, *METHODS):
            raise FairhandError(
                f"fusion={self.fusion!r} is no way to group operators",
                hint=f"give {' or '.join(METHODS)}",
            )
        given = {
            "--lanes": self.lanes is not None,
            "--fusion": self.fusion is not None,
            "--target triton": self.target == "triton",
        }
        names = [name for name, is_given in given.items() if is_given]
        if len(names) > 1:
            raise FairhandError(f"{' and '.join(names)} don't go together")
        if self.autotune and self.target != "triton":
            raise FairhandError("--autotune needs --target triton")
        if self.autotune and self.profile:
            raise FairhandError("--profile and --autotune don't go together")


@dataclass(frozen=True)
class CompileRequest:
    """The options of one compilation."""

    options: CompileOptions
    engine: str
    precision: str
    verify: bool
    inputs: Path | None
    parallel: str | None = None  # as --parallel gives it
    devices: str = "cpu"
    memory: float | None = None  # bytes of a device

    def __post_init__(self) -> None:
        """Raises FairhandError where there is nothing to measure, or to divide."""
        if not self.parallel and (self.memory is not None or self.devices != "cpu"):
            what = "--memory and --devices need --parallel"
            raise FairhandError(what, hint="add it, or leave them out")
        lanes, target = self.options.lanes, self.options.target
        if self.options.profile and lanes is None and target != "triton":
            raise FairhandError(
                "--profile measures lanes or kernels, and none are asked for",
                hint="give --lanes or --target triton; engines are measured by Session",
            )

    @property
    def measures(self) -> bool:
        """Whether what is written may hang on what takes how long here."""
        options = self.options
        return options.profile or options.autotune or options.lanes == "auto"

    def key(self) -> dict[str, Any] | None:
        """What of it decides what is written; None where no key can tell."""
        if self.options.rules is not None or registered or self.parallel:
            return None  # code; and plans hang on the module tree, which no entry has
        key = asdict(self.options) | {
            "engine": self.engine,
            "precision": self.precision,
        }
        if self.measures:  # on these inputs, when it has verified
            given = self.inputs and hashlib.sha256(self.inputs.read_bytes()).hexdigest()
            key |= {"verify": self.verify, "inputs": given}
        return key
