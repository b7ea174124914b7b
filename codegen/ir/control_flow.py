"""If, Loop, Scan and SequenceMap as one tree: statements with bodies of statements.

The tree is made when the operators are spelled and stays one until lines are written.
While modules are looked for, a block is one step; its bodies are grouped afterwards, so
that layers in a body belong to the module around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

import onnx_ir as ir

from .assignment import Assignment

if TYPE_CHECKING:
    from .module_call import ModuleCall

# What opens a block; a variable that bodies assign, and new values for several of them
# at once; a call for its effect; and what leaves a loop.
Kind = Literal["if", "for", "while", "set", "copy", "call", "break"]


@dataclass(eq=False, kw_only=True)
class Action(Assignment):
    """A line that only blocks have: `outputs = expr`, or what its `kind` says."""

    kind: Kind


@dataclass(eq=False, kw_only=True)
class Block(Assignment):
    """An `if` with two bodies, or a loop with one; `outputs` are read behind it.

    Variables are set by `entry` before the line `head` opens the bodies; `exit` makes
    of a loop's lists what it gives. `expr` says nothing: each line has its own.
    """

    head: Action
    bodies: list[list[Assignment | ModuleCall]] = field(default_factory=list)
    entry: list[Assignment | ModuleCall] = field(default_factory=list)
    exit: list[Assignment | ModuleCall] = field(default_factory=list)

    def parts(self) -> list[list[Assignment | ModuleCall]]:
        """Its lines in order, as the lists that hold them; `head` in one of its own."""
        return [self.entry, [self.head], *self.bodies, self.exit]

    def reads(self) -> list[ir.Value]:
        """The values around it that it reads, each once, in the order of its lines."""
        lines = list(laid_out([self]))
        own = {out for line in lines for out in line.outputs}
        found = dict.fromkeys(v for s in steps_of(lines) for v in s.reads())
        return [value for value in found if value not in own]


Item = TypeVar("Item", bound="Assignment | ModuleCall")


def inside(step: Assignment) -> Iterator[Assignment]:
    """The step itself, and all that is in it if it is a block."""
    yield step
    for part in step.parts() if isinstance(step, Block) else ():
        for inner in steps_of(part):
            yield from inside(inner)


def laid_out(items: Iterable[Item]) -> Iterator[Item]:
    """The items in order, the lines of blocks in the place of the blocks."""
    for item in items:
        if isinstance(item, Block):
            for part in item.parts():
                yield from laid_out(part)  # type: ignore[misc]
        else:
            yield item


def steps_of(items: Iterable[Assignment | ModuleCall]) -> Iterator[Assignment]:
    """The assignments among items, those inside of calls left out."""
    return (item for item in items if isinstance(item, Assignment))
