"""Are the same bytes written as before? Hashes of whole packages, kept and compared.

python -m tests.tools.emitted_bytes --write                 the repository's own models
python -m tests.tools.emitted_bytes                         compares; exits 1 where one
differs python -m tests.tools.emitted_bytes ~/models --hashes F     and every .onnx file
of a folder

A change that is meant to leave the emitter's text alone runs it before and after. The
models are those of examples/ and tests/goldens/, and onnx's light ones and node tests.
A model that is refused has its message as its hash. Nothing is verified: that is what
the test suite is for.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "goldens" / "emitted_bytes.json"
# How a model is compiled: every file once, the repository's own in all of these ways.
PLAIN = {"O1": {}}
WAYS: dict[str, dict[str, Any]] = {
    "O0": {"level": 0},
    **PLAIN,
    "O2": {"level": 2},
    "triton": {"target": "triton"},
    "fusion": {"fusion": "dnnfusion"},
    "lanes": {"lanes": 2},
    "int8": {"precision": "int8"},
    "fp16": {"precision": "fp16"},
}
# What hangs on the prover's source and on where the compiler ran, not on the emitter.
_PROVER = re.compile(rb'(?<=\b[0-9a-f]{16})-[0-9a-f]{8}\b|(?<="kernel": ")[0-9a-f]{16}')


def compiled(task: tuple[str, str, str]) -> tuple[str, dict[str, str]]:
    """`key`, and the hash of model.py and of all files beside it, or of the refusal."""
    key, source, way = task
    import fairhand
    from fairhand.rewrites.certificate import proof_store

    # Laws count as proved as they are stored: whether the verdicts are stale is not the
    # question here, and without them everything would differ.
    stored = json.loads(proof_store.FILE.read_text("utf-8"))["kernel"]
    proof_store.kernel_hash = lambda: stored  # type: ignore[assignment]
    with TemporaryDirectory() as folder:
        try:
            package = fairhand.compile(
                model_at(source),
                Path(folder) / "net",
                verify=False,
                cache=False,
                **WAYS[way],
            )
        except fairhand.FairhandError as error:
            return key, {"refused": _hash(str(error).encode())}
        except Exception as error:  # a fault of ours is to stay the same one, too
            return key, {"fault": f"{type(error).__name__}: {error}"[:200]}
        files = {p.name: p.read_bytes() for p in sorted(package.path.iterdir())}
        text = files.pop("model.py")
        rest = b"".join(name.encode() + b"\0" + b for name, b in files.items())
        return key, {"model.py": _hash(text), "beside": _hash(rest)}


def model_at(source: str) -> Any:
    """A model by its source in `tasks`: a path, or ONNX of the repository's own."""
    kind, _, name = source.partition(":")
    if kind == "file":
        return name
    if kind == "golden":
        sys.path.insert(0, str(ROOT / "tests"))
        from support.golden_images import IMAGES
        from support.golden_sequences import SEQUENCES

        model = {**IMAGES, **SEQUENCES}[name]()
        model.graph.name = name
        return model
    return _node_tests()[name]


def _node_tests() -> dict[str, Any]:
    from onnx.backend.test.case.node import collect_testcases

    return {case.name: case.model for case in collect_testcases(None)}  # type: ignore


def _hash(content: bytes) -> str:
    return hashlib.sha256(_PROVER.sub(b"", content)).hexdigest()[:16]


def tasks(folders: list[Path], own: bool, node_tests: bool) -> Iterator[Any]:
    """(key, source, way) of everything to compile."""
    if own:
        sys.path.insert(0, str(ROOT / "tests"))
        import onnx.backend.test
        from support.golden_images import IMAGES
        from support.golden_sequences import SEQUENCES

        examples = sorted((ROOT / "examples").glob("*.onnx"))
        sources = [(p.stem, f"file:{p}") for p in examples]
        sources += [(f"goldens/{n}", f"golden:{n}") for n in {**IMAGES, **SEQUENCES}]
        for name, source in sources:
            yield from ((f"{name} {way}", source, way) for way in WAYS)
        light = Path(onnx.backend.test.__file__).parent / "data" / "light"
        for path in sorted(light.glob("*.onnx")):
            yield f"light/{path.stem} O1", f"file:{path}", "O1"
    if node_tests:
        yield from ((f"node/{n} O1", f"node:{n}", "O1") for n in sorted(_node_tests()))
    for folder in folders:
        for path in sorted(folder.rglob("*.onnx")):
            name = path.relative_to(folder).with_suffix("").as_posix()
            ways = WAYS if path.stat().st_size < 2**20 else {"O0": 0, "O1": 0, "O2": 0}
            yield from ((f"{name} {way}", f"file:{path}", way) for way in ways)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--hashes", type=Path, default=KEPT)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--no-node-tests", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    own = not asked.folders
    wanted = list(tasks(asked.folders, own, own and not asked.no_node_tests))
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = dict(pool.map(compiled, wanted, chunksize=4))
    if asked.write:
        if own and asked.no_node_tests:
            found = json.loads(asked.hashes.read_text("utf-8")) | found
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found.items())]
        asked.hashes.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return
    kept = json.loads(asked.hashes.read_text("utf-8"))
    faults = []
    for key, files in sorted(found.items()):
        old = kept.get(key, {})
        changed = sorted(n for n in {*old, *files} if old.get(n) != files.get(n))
        if changed:
            faults.append(f"{key}: {', '.join(changed)}")
    print("\n".join([*faults, f"{len(found)} compiled, {len(faults)} differ"]))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
