"""Every law on ONNX Runtime, many instances each: counts and violations.

    python -m tests.tools.law_instances                 all laws, 1,000 of each type
    python -m tests.tools.law_instances --part 2/8      every eighth, from the second on
    python -m tests.tools.law_instances relu_of_relu    some

ONNX Runtime ends the process of some models, and runs others for ever. Each law and
element type runs in a process of its own: where the law's left side ends it, or isn't
done in a minute, that was no instance, and is counted; where its right side does, the
law is violated.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from support.law_check import Tally, examine
from support.law_instances import element_types

from fairhand.rewrites.certificate.proof_store import proved_kinds
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.rules.catalogue import BY_NAME, RULES

_MOST = 3  # times as many models are drawn as are wanted, where few are instances
_SECONDS = 60  # that ONNX Runtime may take for one side
_NONE = 4  # so many are tried, several times each, before there is thought to be none


def main() -> None:
    """Print what was compared, and all that differs; status 1 if anything does."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--feeds", type=int, default=20, help="elements per model")
    parser.add_argument("--part", default="1/1", help="of the laws: K/N")
    parser.add_argument("laws", nargs="*")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    rules = [BY_NAME[name] for name in args.laws] or RULES[part - 1 :: parts]
    feeds = min(args.feeds, args.instances)
    total: Counter[str] = Counter(laws=len(rules))
    for rule in rules:
        for of in element_types(rule, proved_kinds(rule)):
            _law(rule, of, -(-args.instances // feeds), feeds, total)
    print(dict(total))
    sys.exit(total["violated"] > 0)


def _law(rule: Rule, of: Any, models: int, feeds: int, total: Counter[str]) -> None:
    tally, deaths = _tally(rule, of, models, feeds)
    total["laws and types"] += 1
    total["without kernels"] += not tally.models and tally.no_kernel > 0
    total["without instances"] += not tally.models and not tally.no_kernel
    total["models"] += tally.models
    total["compared"] += tally.compared
    total["left sides that stop ONNX Runtime"] += len(deaths)
    total["violated"] += bool(tally.violations)
    few = f"{tally.models} models, {tally.no_kernel} without kernels"
    said = [*tally.violations, *deaths, *[few] * (tally.models < models)]
    if said:
        print(rule.name, np.dtype(of), "; ".join(said), flush=True)


def _tally(rule: Rule, of: Any, models: int, feeds: int) -> tuple[Tally, list[str]]:
    """What became of the instances, and the left sides that ended a process."""
    tally, deaths, first, last = Tally(), list[str](), 0, _MOST * models
    while first < last and tally.models < models and not tally.violations:
        here, there = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        child = context.Process(
            target=_examine, args=(rule, of, first, last, feeds, there)
        )
        child.start()
        there.close()
        side, instance = "", ""
        try:
            while tally.models < models and not tally.violations:
                if not tally.models and first >= _NONE:
                    break
                if not here.poll(_SECONDS):
                    raise EOFError
                told = here.recv()
                if isinstance(told, Tally):
                    first += 1
                    tally.models += told.models
                    tally.compared += told.compared
                    tally.no_kernel += told.no_kernel
                    tally.violations += told.violations
                else:
                    side, instance = told
            child.terminate()
        except EOFError:
            child.kill()
            child.join()
            if first < last:  # not at its end
                first += 1
                reason = f"{instance} stops ONNX Runtime ({child.exitcode})"
                (deaths if side == "left" else tally.violations).append(reason)
        child.join()
        if len(deaths) == models or (not tally.models and first >= _NONE):
            break
    return tally, deaths


def _examine(
    rule: Rule, of: Any, first: int, last: int, feeds: int, out: Connection
) -> None:
    """Send a tally for each number, and each side before it runs."""
    for number in range(first, last):
        out.send(examine(rule, of, 1, feeds, number, lambda *about: out.send(about)))


if __name__ == "__main__":
    main()
