"""The official ONNX backend tests, each through fairhand.compile.

    python -m tests.tools.conformance [-k REGEX] [--kind KIND] [--jobs N] [-o FILE]
    python -m tests.tools.conformance --data FOLDER --version VERSION

A test passes if the emitted package gives the type, shape and values that the test
expects, and counts as refused if compile() raises a FairhandError and leaves nothing
behind. Both are right; "wrong" (other results) and "broken" (whatever else) are faults,
and make the exit code 1. A full run writes docs/conformance.md. The second form runs
the node tests of another version of onnx, which its package holds as files, and writes
the end of that page.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import multiprocessing
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
CLASSES = ("pass", "refuse", "wrong", "broken")
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
OLDER = "\n## The tests of an older version\n"
TIME_LIMIT_S = 120  # for one test

# Relative errors of half precision that no tolerance of a test is to forbid. onnx's own
# runner says so of bfloat16; in float16 ONNX Runtime itself fails a test without it.
TWO_LAST_PLACES = {"bfloat16": 2**-6, "float16": 2**-9}

# The elements of a Fourier transform are sums of the same terms: those that cancel are
# as far off as the largest one rounds, whichever way they are added up.
CANCELS, CANCELLED = re.compile("test_dft"), 2**-22

# Random numbers, of which type and shape alone can be right.
DRAWN = re.compile("test_bernoulli|test_training_dropout(?!_zero)")

# Tests of older versions that expect what onnx has taken back since.
TAKEN_BACK = {
    "test_adam_multiple": "the values are those of an epsilon of 0.01, which its model "
    "lacks; later versions have it there",
    "test_castlike_(FLOAT_to_BF|BF)LOAT16": "the file gives `like` one element, where "
    "its model declares 12; ONNX Runtime refuses the input too",
    "test_cast(like)?_FLOAT_to_STRING": "expects no more digits than a float32 needs; "
    "ONNX Runtime, and so fairhand, gives eight; later versions don't test it",
}

# Why tests are refused: what they would need, beside what is said of it.
BEYOND = {
    "test_affine_grid_2d_.*expanded": "a Squeeze without axes leaves as many as the "
    "numbers in an input say; the operator itself passes",
    "test_affine_grid_3d_.*expanded": "of an If that looks at a number in an input, "
    "one branch gives a scalar and one a vector; the operator itself passes",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one test; `reasons` say why it did not pass."""

    name: str
    kind: str
    operator: str
    result: str  # one of CLASSES
    reasons: tuple[str, ...] = ()
    version: int = 0  # of the operator
    types: tuple[str, ...] = ()  # of the elements it takes and gives


# --------------------------------------------------------------------------- the tests


@cache
def collect(kinds: tuple[str, ...]) -> list[Any]:
    """The test cases, in an order that every process finds again.

    A path among the kinds is a folder of node tests, such as another version's suite.
    """
    if folders := [Path(kind) for kind in kinds if kind not in KINDS]:
        tests = [path for folder in folders for path in sorted(folder.glob("test_*"))]
        return [_of_folder(path) for path in tests]
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tests of overflow overflow when they are made
        found = [case for kind in kinds for case in loader.load_model_tests(kind=kind)]
    return sorted(found, key=lambda case: (KINDS.index(case.kind), case.name))


def _of_folder(path: Path) -> SimpleNamespace:
    """A test that is stored, with the tolerances that onnx's runner has for all."""
    known = {"name": path.name, "kind": "node", "model": None, "model_dir": path}
    return SimpleNamespace(**known, data_sets=None, rtol=1e-3, atol=1e-7)


def load_case(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """The model of a test, and (inputs, outputs) of each of its data sets."""
    if case.model is not None:
        return case.model, case.data_sets
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        values = []
        for side, infos in (
            ("input", model.graph.input),
            ("output", model.graph.output),
        ):
            files = [data / f"{side}_{i}.pb" for i in range(len(infos))]
            pairs = zip(files, infos, strict=True)
            values.append([_read(file, info) for file, info in pairs if file.exists()])
        sets.append((values[0], values[1]))
    return model, sets


def _read(file: Path, info: onnx.ValueInfoProto) -> Any:
    protos = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    proto = protos.get(info.type.WhichOneof("value"), onnx.TensorProto)
    found = proto.FromString(file.read_bytes())
    kinds = (info.type.tensor_type.elem_type, getattr(found, "data_type", None))
    if kinds == (onnx.TensorProto.BFLOAT16, onnx.TensorProto.UINT16):
        found.data_type = onnx.TensorProto.BFLOAT16  # onnx 1.14 stored the bits as such
    return found


def operator_of(case: Any, model: onnx.ModelProto) -> str:
    """What a test is about; an expanded function counts for the function."""
    if case.kind != "node":
        return f"({case.kind})"
    if "_expanded" in case.name:
        stem = case.name.partition("_expanded")[0]
        model = _node_models().get(stem, model)
    node = model.graph.node[-1]
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def version_of(case: Any, model: onnx.ModelProto) -> int:
    """The version of the operator that a node test is about; 0 where it has none."""
    if "_expanded" in case.name or case.kind != "node":
        return 0
    node = model.graph.node[-1]
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    try:
        found = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain)
    except (KeyError, onnx.defs.SchemaError):
        return 0
    return int(found.since_version)


def types_of(model: onnx.ModelProto) -> tuple[str, ...]:
    """The element types of a test's inputs and outputs."""
    infos = (*model.graph.input, *model.graph.output)
    found = (_tensor_type(info.type).elem_type for info in infos)
    names = onnx.TensorProto.DataType.Name
    return tuple(sorted({names(code).lower() for code in found if code}))


def _tensor_type(kind: onnx.TypeProto) -> Any:
    """The tensors of a list or of an optional."""
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _tensor_type(getattr(kind, which).elem_type)
    return kind.tensor_type


@cache
def _node_models() -> dict[str, onnx.ModelProto]:
    return {case.name: case.model for case in collect(("node",))}


# ------------------------------------------------------------------------- one test


def run_case(case: Any, folder: Path) -> Outcome:
    """Compile and run one test in this process; `folder` is empty before and after."""
    model, sets = load_case(case)
    found = _run(case, model, sets, folder)
    return replace(found, version=version_of(case, model), types=types_of(model))


def _run(
    case: Any,
    model: onnx.ModelProto,
    sets: list[tuple[list[Any], list[Any]]],
    folder: Path,
) -> Outcome:
    import fairhand

    about = (case.name, case.kind, operator_of(case, model))
    package = folder / re.sub(r"\W", "_", case.name)
    try:
        fairhand.compile(model, package, verify=False)
    except fairhand.FairhandError as error:
        left = sorted(path.name for path in folder.iterdir())
        if left:
            return Outcome(*about, "broken", (f"refused, but left {left}",))
        return Outcome(*about, "refuse", reasons_of(error))
    except Exception as error:
        return Outcome(*about, "broken", (f"compile: {shown(error)}",))
    try:
        with imported(package) as module:
            session = module.Session()
            for inputs, expected in sets:
                names = [info.name for info in model.graph.input]
                feed = {n: array(x) for n, x in zip(names, inputs, strict=False)}
                dtypes = [dtype for dtype, _ in module.model.OUTPUTS.values()]
                pairs = zip(session.run(None, feed), dtypes, strict=True)
                found = [from_bits(result, dtype) for result, dtype in pairs]
                if DRAWN.match(case.name):
                    expected = [
                        like(a, e) for a, e in zip(found, expected, strict=True)
                    ]
                atol = case.atol
                if CANCELS.match(case.name):
                    atol = max(
                        atol, CANCELLED * float(np.abs(array(expected[0])).max())
                    )
                reason = mismatch(found, expected, case.rtol, atol)
                if reason:
                    return Outcome(*about, "wrong", (reason,))
    except Exception as error:
        return Outcome(*about, "broken", (f"run: {shown(error)}",))
    return Outcome(*about, "pass")


@contextlib.contextmanager
def imported(package: Path) -> Iterator[Any]:
    sys.path.insert(0, str(package.parent))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(package.name)
    finally:
        sys.path.remove(str(package.parent))
        for name in [n for n in sys.modules if n.partition(".")[0] == package.name]:
            del sys.modules[name]


def array(value: Any) -> Any:
    """The array of a tensor, the arrays of a list; what is neither stays as it is."""
    if isinstance(value, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    if isinstance(value, list):
        return [array(item) for item in value]
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def from_bits(result: Any, dtype: str) -> Any:
    """A session gives bfloat16 and float8, which NumPy lacks, as their bits.

    Numbers of fewer bits it gives as such, in a type that NumPy has.
    """
    import ml_dtypes

    if dtype.startswith(("bfloat16", "float8")):
        return result.view(getattr(ml_dtypes, dtype))
    narrow = dtype.startswith(("float4_", "float6_", "int2", "int4", "uint2", "uint4"))
    return result.astype(getattr(ml_dtypes, dtype)) if narrow else result


def like(found: Any, expected: Any) -> Any:
    """What was found, if its type and shape are those of what is expected."""
    e = array(expected)
    return found if (found.dtype, found.shape) == (e.dtype, e.shape) else e


def mismatch(
    found: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float
) -> str:
    """Why the outputs are not those expected, or ""."""
    if len(found) != len(expected):
        return f"{len(found)} outputs, expected {len(expected)}"
    for i, (a, e) in enumerate(zip(found, map(array, expected), strict=True)):
        if isinstance(a, list) and isinstance(e, list):
            reason = mismatch(a, e, rtol, atol)
            if reason:
                return f"output {i}: {reason}"
            continue
        if a is None and e is None:
            continue
        if not isinstance(e, np.ndarray) or a is None or isinstance(a, list):
            return f"output {i} is {type(a).__name__}, expected {type(e).__name__}"
        e = e.astype(object) if e.dtype.kind == "U" else e
        if a.dtype != e.dtype or a.shape != e.shape:
            return f"output {i} is {a.dtype} {a.shape}, expected {e.dtype} {e.shape}"
        relative = max(rtol, TWO_LAST_PLACES.get(a.dtype.name, 0))
        if a.dtype.kind == "V":
            a, e = a.astype(np.float32), np.asarray(e).astype(np.float32)
        with np.errstate(all="ignore"):
            close = (
                a == e
                if a.dtype == object
                else np.isclose(a, e, relative, atol, equal_nan=a.dtype.kind in "fc")
            )
        if not np.all(close):
            first = tuple(int(k) for k in np.argwhere(~np.asarray(close))[0])
            count = int(np.size(close) - np.count_nonzero(close))
            place = f"{list(first)}: {np.asarray(a)[first]}, expected {e[first]}"
            return (
                f"output {i} differs in {count} of {np.size(close)}, first at {place}"
            )
    return ""


def shown(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def reasons_of(error: Any) -> tuple[str, ...]:
    """What was refused, without where: equal causes give equal texts."""
    lines = error.what.splitlines()
    if len(lines) == 1:
        return (lines[0],)
    found = []
    for line in lines[1:]:
        missing = re.match(r"  (\S+) \(opset \S+\) x\d+, first at ", line)
        if missing:
            found.append(f"{missing[1]} is not supported")
        elif not line.startswith(("    at ", "    hint: ", "     ")):
            found.append(line.strip())
    return tuple(dict.fromkeys(found))


# ---------------------------------------------------------------- many, in processes


def worker(connection: Connection, kinds: tuple[str, ...]) -> None:
    """Runs the tests whose numbers arrive, until it is killed."""
    import torch

    torch.set_num_threads(1)
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    cases = collect(kinds)
    while True:
        index = connection.recv()
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            outcome = run_case(cases[index], Path(folder))
        connection.send(outcome)


class Worker:
    """A process that is handed one test at a time, so that a crash is one test's."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, other = spawn.Pipe()
        self.process = spawn.Process(target=worker, args=(other, kinds), daemon=True)
        self.process.start()
        other.close()
        self.index = -1
        self.since = 0.0

    def give(self, index: int) -> None:
        self.index, self.since = index, time.monotonic()
        self.connection.send(index)

    def take(self) -> Outcome | str | None:
        """The outcome; or what befell the process; None while it is at work."""
        if self.connection.poll():
            try:
                found: Outcome = self.connection.recv()
                return found
            except (EOFError, ConnectionError):
                return "the process died"
        late = time.monotonic() - self.since > TIME_LIMIT_S
        return f"took more than {TIME_LIMIT_S} s" if late else None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def run_all(kinds: tuple[str, ...], chosen: list[int], jobs: int) -> list[Outcome]:
    """The outcomes of the tests of these numbers, in their order."""
    outcomes: dict[int, Outcome] = {}
    todo = list(reversed(chosen))
    workers = [Worker(kinds) for _ in range(min(jobs, len(chosen)))]
    for each in workers:
        each.give(todo.pop())
    while workers:
        wait([each.connection for each in workers], timeout=5)
        for i, each in reversed(list(enumerate(workers))):
            found = each.take()
            if found is None:
                continue
            if isinstance(found, str):
                each.stop()
                case = collect(kinds)[each.index]
                about = (case.name, case.kind, operator_of(case, load_case(case)[0]))
                found = Outcome(*about, "broken", (found,))
                workers[i] = Worker(kinds)
            outcomes[each.index] = found
            if todo:
                workers[i].give(todo.pop())
            else:
                workers.pop(i).stop()
    return [outcomes[index] for index in chosen]


# ---------------------------------------------------------------------------- the page


def page(outcomes: list[Outcome]) -> str:
    """docs/conformance.md: the same outcomes give the same bytes."""
    kinds = {kind: [o for o in outcomes if o.kind == kind] for kind in KINDS}
    rows = [(kind, some) for kind, some in kinds.items() if some]
    operators: dict[str, list[Outcome]] = {}
    for outcome in sorted(kinds["node"], key=lambda o: o.operator):
        operators.setdefault(outcome.operator, []).append(outcome)
    faults = [o for o in outcomes if o.result in ("wrong", "broken")]
    parts = [
        "# The official ONNX backend tests",
        "Written by `python -m tests.tools.conformance`, which runs every test by\n"
        "`fairhand.compile` and the emitted package, and compares types, shapes and\n"
        "values with what the test expects: at its tolerance, within two units of the\n"
        "last place in half precision, or of a Fourier transform's largest element.\n"
        "Of random numbers, types and shapes count. The tests are those of onnx "
        f"{onnx.__version__}.\nA function's expansion into other operators counts for "
        "the function.",
        "*pass*: as expected. *refuse*: not compiled, with a clear error and nothing\n"
        "left behind. *wrong*: other results. *broken*: anything else.",
        counts("kind", [*rows, ("all", outcomes)]),
    ]
    if faults:
        lines = [f"- `{o.name}` {o.result}: {plain(o.reasons[0])}" for o in faults]
        parts += ["## Faults", "\n".join(lines)]
    parts += [
        "## Operators",
        "With the versions that the tests are in, and the types that pass.",
        by_operator(operators),
    ]
    parts += ["## What is refused", refusals(outcomes)]
    return "\n\n".join(parts) + "\n"


def older_page(outcomes: list[Outcome], version: str) -> str:
    """The part of docs/conformance.md on another version's tests, each miss by name."""
    lines = [
        "",
        f"Those of onnx {version}, as the files of its package have them "
        f"(`python -m tests.tools.conformance\n--data FOLDER --version {version}`):",
        "",
        counts("kind", [("node", outcomes)]),
        "",
        "| test | result | reason |",
        "|---|---|---|",
    ]
    for outcome in outcomes:
        if outcome.result != "pass":
            known = [
                t for name, t in TAKEN_BACK.items() if re.match(name, outcome.name)
            ]
            reason = known[0] if known else plain(outcome.reasons[0])
            lines.append(f"| {plain(outcome.name)} | {outcome.result} | {reason} |")
    return OLDER + "\n".join(lines) + "\n"


def counts(title: str, rows: list[tuple[str, list[Outcome]]]) -> str:
    lines = [f"| {title} | tests | {' | '.join(CLASSES)} |", "|---|" + "--:|" * 5]
    for name, some in rows:
        found = Counter(outcome.result for outcome in some)
        cells = [str(found[c] or "") for c in CLASSES]
        lines.append(f"| {name} | {len(some)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_operator(operators: dict[str, list[Outcome]]) -> str:
    titles = ("operator", "versions", "types", "tests", *CLASSES)
    lines = [f"| {' | '.join(titles)} |", "|---|---|---|" + "--:|" * 5]
    for name, some in operators.items():
        found = Counter(outcome.result for outcome in some)
        versions = sorted({o.version for o in some if o.version})
        types = {t for o in some if o.result == "pass" for t in o.types}
        cells = [name, ", ".join(map(str, versions)), " ".join(sorted(types))]
        cells += [str(len(some)), *(str(found[c] or "") for c in CLASSES)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def refusals(outcomes: list[Outcome]) -> str:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        for reason in outcome.reasons if outcome.result == "refuse" else ():
            groups.setdefault(plain(reason), []).append(outcome)
    lines = ["| reason | tests | of |", "|---|--:|---|"]
    for reason, some in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
        names = sorted({outcome.operator for outcome in some})
        more = f", and {len(names) - 4} more" if len(names) > 4 else ""
        lines.append(f"| {reason} | {len(some)} | {', '.join(names[:4])}{more} |")
    lines += ["", "| test | why |", "|---|---|"]
    for outcome in outcomes:
        if outcome.result == "refuse":
            known = [
                why for name, why in BEYOND.items() if re.match(name, outcome.name)
            ]
            why = known[0] if known else plain(outcome.reasons[0])
            lines.append(f"| {plain(outcome.name)} | {why} |")
    return "\n".join(lines)


def plain(text: str) -> str:
    """Text for a table cell, in which Markdown finds no mark-up."""
    return re.sub(r"([\\`*_<|\[\]])", r"\\\1", text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "conformance", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "-k", default="", metavar="REGEX", help="tests of such names only"
    )
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("-o", type=Path, help=f"page to write (full run: {PAGE.name})")
    parser.add_argument("--data", help="folder of node tests instead of onnx's own")
    parser.add_argument("--version", help="of these; ends the page with them")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    kinds = (options.data,) if options.data else tuple(options.kind or KINDS)
    cases = collect(kinds)
    chosen = [i for i, case in enumerate(cases) if re.search(options.k, case.name)]
    if not chosen:
        parser.error("there are no such tests")
    outcomes = run_all(kinds, chosen, options.jobs)
    for outcome in outcomes:
        if outcome.result in ("wrong", "broken"):
            print(f"{outcome.result:6} {outcome.name}: {outcome.reasons[0]}")
    found = Counter(outcome.result for outcome in outcomes)
    totals = ", ".join(f"{found[c]} {c}" for c in CLASSES)
    print(f"{len(outcomes)} tests: {totals}; {time.monotonic() - started:.0f} s")
    part = options.k or options.kind or options.data
    target = options.o or (None if part and not options.version else PAGE)
    if target is not None:
        written, mark, older = (
            target.read_text("utf-8") if target.is_file() else ""
        ).partition(OLDER)
        if options.version:
            text = written + older_page(outcomes, options.version)
        else:
            text = page(outcomes) + mark + older
        target.write_text(text, encoding="utf-8", newline="\n")
    return 1 if found["wrong"] or found["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
