"""engines.py of a package: the engines that its network may run on."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.engine_plan import EnginePlan
from ..request.choices import AUTO
from .runtime_files import put_together

EXCEEDS = "of the largest result: what a wrong operator would exceed"
DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
# Of templates/runtime/engines, in their order in engines.py.
FILES = (
    "base.py",
    "half.py",
    "int8.py",
    "packed.py",
    "recorded.py",
    "layers/joined.py",
    "layers/integers.py",
    "layers/packed_layers.py",
    "layers/float16.py",
    "by_size.py",
    "onednn.py",
    "aot.py",
    "openvino.py",
    "auto.py",
    "results.py",
)
PACKED_TYPE = "dict[type[nn.Module], Callable[[Any], nn.Module]]"
EXACT_TYPE = "dict[type[nn.Module], type[ExactProduct]]"
# Layers that multiply integers, and what has their weights converted once.
EXACT = {
    "DynamicQuantizedConv2d": "Ranged",
    "DynamicQuantizedLinear": "Ranged",
    "QLinearConv2d": "Requantized",
    "QLinearLinear": "Requantized",
}
# Layers, and what `packed` has in their place.
PACKED = {
    "nn.Linear": "LaidOutLinear",
    "nn.LSTM": "PackedLSTM",
    "PackedLinear": "UnpackedLinear",
    "nn.Conv2d": "by_channels",
}


def engines_text(plan: EnginePlan) -> str:
    """The text of engines.py."""
    only = {"recorded.py": plan.caches, "layers/float16.py": plan.rows}
    used = [f"engines/{file}" for file in FILES if only.get(file, True)]
    given = {"ENGINES": _engines(plan)}
    others = dict.fromkeys(["nn.Linear", *plan.layers])
    made = PACKED | {"nn.Linear": "LaidOutHalves"} if plan.rows else PACKED
    rows = ", ".join(f"{layer}: {made[layer]}" for layer in others)
    given["PACKED"] = f"PACKED: {PACKED_TYPE} = {{{rows}}}"
    if not (plan.layers or plan.integers or plan.exact):
        given["FOR_ALL"] = "FOR_ALL = ()  # engines that take all sizes as they come"
    if plan.precision != "float32" or plan.halves:
        given["CLOSE"] = f"CLOSE = 0.1  # {EXCEEDS}"
    if plan.integers:
        layers = ", ".join(plan.integers[1:])
        given["INTEGER_LAYERS"] = f"INTEGER_LAYERS = ({layers},)"
    if plan.exact:
        rows = ", ".join(f"{layer}: {EXACT[layer]}" for layer in plan.exact)
        given["EXACT"] = f"EXACT: {EXACT_TYPE} = {{{rows}}}"
    if plan.precision in DTYPES or plan.halves:
        dtype = DTYPES.get(plan.precision, "float32")
        given["PRECISION"] = f"PRECISION = torch.{dtype}  # of weights and arithmetic"
    docstring = "\n".join([*_table(plan), "", *_notes(plan), ""])
    return put_together(docstring, used, ["HUGE_PAGES", "make_engine"], given)


def _offered(plan: EnginePlan) -> dict[str, tuple[list[str], str]]:
    """Of each engine the functions that the network goes through, and what it is."""
    first = ["Converted"] if plan.precision in DTYPES else []
    first += ["in_int8"] if plan.precision == "int8" else []
    # Results in lists may come in another order than that of OUTPUTS and their types.
    whole = plan.halves and not plan.lists
    wide = [*dict.fromkeys([*first, *["Converted"] * whole])]
    packs = ["join_when_called" if plan.joins else "packed"]
    packs += ["Widened"] if plan.rows else []
    packs += ["take_integers_when_called"] if plan.integers else []
    packs += ["convert_once"] if plan.exact else []
    packs += ["Recorded"] if plan.caches else []
    layers = "linear layers" + " and LSTMs" * ("nn.LSTM" in plan.layers)
    packing = f"the same, {layers} by oneDNN, their weights laid out once"
    packing += HALVES * plan.halves
    packing += EXACTLY * bool(plan.exact) + UNPACKED * ("PackedLinear" in plan.layers)
    packing += DEPTHWISE * ("nn.Conv2d" in plan.layers)
    packing += INTEGERS * bool(plan.integers)
    found = {
        "eager": (first, "the network as it stands, call by call"),
        "packed": ([*(first if plan.rows else wide), *packs], packing),
        "onednn": ([*wide, *["Tuples"] * plan.lists, "OneDNN"], ONEDNN),
        "openvino": ([*wide, "OpenVINO"], OPENVINO),
        "aot": ([*wide, "AOT"], LIBRARY),
        "compile": ([*first, "compiled"], COMPILE),
        AUTO: (["Auto"], MEASURED),
    }
    names = (*plan.candidates(), AUTO)
    return {name: found[name] for name in names if name in found}


def _engines(plan: EnginePlan) -> str:
    """The table of engines, as text."""
    offered = _offered(plan).items()
    rows = (f'"{name}": {_chain(functions)}' for name, (functions, _) in offered)
    return f"ENGINES = {{{', '.join(rows)}}}"


def _chain(functions: list[str]) -> str:
    if len(functions) == 1:
        return functions[0]
    text = "model"
    for function in functions:
        text = f"{function}({text})"
    return f"lambda model: {text}"


def _table(plan: EnginePlan) -> Iterator[str]:
    yield "Engines: ways to run model.py's network on a CPU, for Session(engine=...)."
    yield ""
    for name, (_, what) in _offered(plan).items():
        yield f"{name:<8} {what}"


def _notes(plan: EnginePlan) -> Iterator[str]:
    if plan.precision in DTYPES:
        dtype = DTYPES[plan.precision]
        yield (
            f"All compute in {dtype}, from float32 inputs to float32 results;"
            " report.json has the"
        )
        yield HALF
    elif plan.precision == "int8":
        yield INT8
    elif not plan.refused:
        yield TRACED
    else:
        yield f"There are no others: {plan.refused}."
        if plan.caches:
            yield RECORDED


UNPACKED = """
         in float32, those of few bits too: for speed, not for memory"""
DEPTHWISE = """
         and convolutions of each channel by itself in quicker words"""
HALVES = """
         and products of float16 in float32"""
EXACTLY = """
         and weights of integers converted once"""
INTEGERS = """
         and what FakeQuantize rounded multiplied as integers of 8 bits"""
ONEDNN = "traced, frozen, and run by oneDNN Graph: layers fused, weights laid out once"
OPENVINO = "compiled by OpenVINO: where its wheel is installed"
LIBRARY = "a library by AOTInductor: 20 to 90 s and a C++ compiler, once for each size"
MEASURED = "the fastest but for `compile`, measured after a few calls of each size"
COMPILE = "torch.compile: needs a C++ compiler, and 10 to 60 s for each new size"
HALF = """\
error that was measured. Weights are taken over when a size is prepared: make a new
Session after changing them."""
INT8 = """\
In all of them linear layers multiply integers of 8 bits: each row of a weight has a
scale, taken once, and what a layer is given has one that is taken anew in each call, so
that a result hangs on all that is in its batch. report.json has the error that was
measured. Make a new Session after changing weights."""
TRACED = """\
All give the same results within the tolerance of report.json. Weights are taken over
when a size is prepared: make a new Session after changing them."""
RECORDED = """\
What `packed` does is recorded in the second call, and run without Python from then on:
make a new Session after changing weights."""
