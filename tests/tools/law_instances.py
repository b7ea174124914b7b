"""Every law on ONNX Runtime, many instances each: counts and violations."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from support.law_check import examine
from support.law_instances import element_types

from fairhand.rewrites.certificate.proof_store import proved_kinds
from fairhand.rewrites.rules.catalogue import RULES


def main() -> None:
    """Print what was compared, and all that differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--feeds", type=int, default=20, help="elements per instance")
    parser.add_argument("laws", nargs="*")
    args = parser.parse_args()
    total: Counter[str] = Counter()
    for rule in RULES:
        if args.laws and rule.name not in args.laws:
            continue
        for of in element_types(rule, proved_kinds(rule)):
            print(end=f"{rule.name} {np.dtype(of)}\r", file=sys.stderr, flush=True)
            feeds = min(args.feeds, args.instances)
            tally = examine(rule, of, models=-(-args.instances // feeds), feeds=feeds)
            total["laws and types"] += 1
            total["without kernels"] += not tally.models and tally.no_kernel > 0
            total["models"] += tally.models
            total["compared"] += tally.compared
            total["violated"] += bool(tally.violations)
            if tally.violations or not tally.models:
                said = tally.violations or f"{tally.no_kernel} without kernels"
                print(rule.name, np.dtype(of), said, flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
