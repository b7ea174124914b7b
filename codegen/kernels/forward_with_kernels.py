"""Bodies of classes that call kernels where the collection has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.spelling.expr import Name
from ..classes.module_classes import ClassTable, ModuleClass
from ..forward.variable_names import Subject
from ..forward.writer import BodyWriter
from ..ir.assignment import Assignment
from ..ir.control_flow import Action
from ..ir.module_call import ModuleCall
from ..ir.statement_tree import Statement, flat, reads
from ..modules.members import ConstructorValue
from .kernel_set import KernelSet
from .program.program import Surroundings
from .select_regions import Region, Regions, Steps


def _calls_of(classes: ClassTable) -> dict[ModuleClass, list[ModuleCall]]:
    """Every call of each class; none of those that are not called alike each time."""
    found: dict[ModuleClass, list[ModuleCall]] = {}
    unlike: set[ModuleClass] = set()

    def visit(call: ModuleCall, first: ModuleCall) -> None:
        found.setdefault(classes.of[first], []).append(call)
        if list(map(type, call.contents())) != list(map(type, first.contents())):
            unlike.update(
                classes.of[r] for r in [first, *first.all_calls()] if r in classes.of
            )
            return
        for item, twin in zip(call.contents(), first.contents(), strict=True):
            if isinstance(item, ModuleCall) and isinstance(twin, ModuleCall):
                visit(item, classes.owner(item, twin))

    visit(classes.root.call, classes.root.call)
    return {cls: calls for cls, calls in found.items() if cls not in unlike}


def kernel_bodies(
    classes: ClassTable, collection: KernelSet
) -> Callable[[Subject], BodyWriter]:
    """What writes a body: with kernels, if its class is called alike each time."""
    calls = _calls_of(classes)

    def make(of: Subject) -> BodyWriter:
        alike = calls.get(of.cls)
        return _KernelBody(of, collection, alike) if alike else BodyWriter(of)

    return make


class _KernelBody(BodyWriter):
    """Writes a forward, and offers or takes kernels for its statements."""

    def __init__(
        self, of: Subject, collection: KernelSet, calls: Sequence[ModuleCall]
    ) -> None:
        super().__init__(of)
        self.collection, self.calls = collection, calls
        self.regions = Regions(
            _around(calls, of.shapes),
            collection.group_of,
            collection.memo,
            collection.saved,
        )

    def rolled(self, statements: list[Statement]) -> list[Statement]:
        items = super().rolled(statements)
        for loop in items:
            rounds = self.loops.get(loop)
            if rounds is None or rounds.word:
                continue  # a row of layers alone reads the same values as its steps
            inside = set(flat(loop.bodies[0]))
            outside = (s for s in flat(items) if s is not loop and s not in inside)
            around = {v for s in outside for v in reads(s.expr)}
            loop.bodies[0] = self._fused(loop.bodies[0], around)
            for s in loop.bodies[0]:
                s.expr = s.expr if s in inside else rounds.inside(s.expr)
        known = set(items)
        items = self._fused(items, self.lists.collected)
        for s in items:
            for rounds in self.loops.values() if s not in known else ():
                s.expr = rounds.outside(s.expr)
        self.collection.reasons.update(self.regions.reasons)
        return items

    def _behind(self, statement: Statement) -> Steps | None:
        """The steps of a statement, in each call and in each round of a loop."""
        column = self.columns.get(statement, (statement,))
        places = [s.places[0] for s in column if s.places and not s.kind]
        found = [
            items[p] for items in map(ModuleCall.contents, self.calls) for p in places
        ]
        steps = tuple(
            s for s in found if isinstance(s, Assignment) and not isinstance(s, Action)
        )
        return steps if steps and len(steps) == len(found) else None

    def _fused(
        self, items: Sequence[Statement], handed_on: Collection[ir.Value]
    ) -> list[Statement]:
        """With a call in the place of the last statement of each region."""
        calls: dict[int, Statement] = {}
        gone: set[int] = set()
        steps = [self._behind(item) for item in items]
        for region in self.regions.find(items, steps, handed_on):
            if self.collection.collecting:
                self.collection.offer(region)
            name = self.collection.name(region)
            if name:
                gone.update(region.places)
                members = [items[place] for place in region.places]
                for member in members:
                    mask = self.hint(member) == "mask"
                    if word := "mask" if mask else member.result:
                        wishes = dict.fromkeys(region.results, word)
                        self.wishes |= {
                            v: w for v, w in wishes.items() if v in member.targets
                        }
                calls[region.places[-1]] = _call(name, region, members)
        return [
            calls.get(place, item)
            for place, item in enumerate(items)
            if place in calls or place not in gone
        ]


def _around(calls: Sequence[ModuleCall], shapes: ShapeFacts) -> Surroundings:
    steps = [
        item
        for call in calls
        for item in call.contents()
        if isinstance(item, Assignment)
    ]
    renamed: dict[ir.Value, ir.Value] = {}
    for step in steps:
        switched = any(
            isinstance(v, ConstructorValue) and v.value is False for v in step.reads()
        )
        given, result = step.reads()[-1:], step.outputs[0] if step.outputs else None
        if (step.lacks is not None or switched) and given and result is not None:
            renamed[given[0]] = result
            _learn_alike(shapes, given[0], result)
    made = {v for call in calls for item in call.contents() for v in item.outputs}
    return Surroundings(
        shapes,
        {v for v in made if v is not None},
        {v for call in calls for v in call.ints},
        renamed,
    )


def _learn_alike(shapes: ShapeFacts, *pair: ir.Value) -> None:
    """What stands in for a value where a part is left out has its sizes."""
    for one, other in (pair, pair[::-1]):
        dims = shapes.dims(one)
        if dims is not None and shapes.dims(other) is None:
            shapes.learn_dims(other, dims)


def _call(name: str, region: Region, members: Sequence[Statement]) -> Statement:
    call = Name(name)(*region.arguments, **dict(region.numbers))
    places = tuple(place for s in members for place in s.places)
    return Statement(region.results, call, True, members[-1].result, places)
