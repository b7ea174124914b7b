"""The page docs/performance.md, from what benchmarks/cpu.py kept."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

NEAR = 0.97  # a lead over this is ahead, or as good as
PAGE = """\
# Speed on the CPU

<!-- Written by benchmarks/cpu.py; don't edit. -->

{machine}

*package* is ONNX Runtime's time over that of `Session` with the engine that `compile`
chose: over 1, the package is faster. Each is called in turn in one process, a few calls
at a time after some that don't count; medians over the rounds, and their quartiles.
*cpu* is the share of a core per thread that the process got: well under 1, the machine
was busy and the figures are worth less. Batch 1, float32.

Below are the times of others over the package's, in rounds of all of them together: of
the same package on another engine, or of the tool that is named. Where many take turns,
small networks take longer, on `onednn` more so than on others.
`benchmarks/cpu.py` measures all; [emitted_code.md](emitted_code.md#engines) says what
the engines are.
{tables}
## What is behind the low ones

What bounds them, against the ceilings above (times are of one thread):

- SqueezeNet: 0.7 GFLOP, 3.1 ms at the ceiling; its last convolution runs at 216
  GFLOP/s. oneDNN's kernels take 3.6 ms of a call, 2.0 with two threads, and the copy of
  the input, channels innermost, 0.1 ms.
- GoogLeNet: kernels are 14.7 of 15.3 ms; its largest convolution runs at 222 GFLOP/s.
- MobileNets, EfficientNet: of a call with two threads a profile finds 56 % in oneDNN's
  kernels; 18 % in what one thread does alone between them, for each of the 37 and 65
  partitions (memory, TorchScript, oneDNN Graph, Python); 26 % is the other one waiting.
  A partition takes 4 to 6 us beside its kernel where all is in the cache; a convolution
  called by itself on packed weights 25 to 45, so `packed` has none. Without the fusion
  of expanding and depthwise convolutions the kernels take a sixth less with two
  threads, and the call longer.
- DenseNet: a norm in front of each convolution can't be folded into one, and each
  layer joins all before it anew: 4.3 of 20.4 ms in kernels with two threads.
- Decoding: products of one row, bound by memory. GPT-2 reads 494 MB of weights for a
  token (12.7 ms at the ceiling), the Llama 249 MB (6.4 ms). `packed` reads 26 to 34
  GB/s on one thread, where `F.linear` reads 15; the Llama's q, k, v and gate, up as one
  product each take a twentieth less of a call. Traced, without Python between them, the
  Llama's call with two threads goes from 0.85 to 0.90 of ONNX Runtime's speed; GPT-2's
  from 0.86 to 0.97, with 19 MB of caches not copied in and out, which is 0.04 of that.
  oneDNN Graph, asked for the prefill of a Llama, takes 1.6 times as long as `packed`.
  Weights laid out for 32 rows are laid out as for two, and huge pages for them give
  nothing (33 GB/s on one thread with and without).
- LSTM: a step reads 4 MB of weights from the last cache and waits for the step before;
  `packed` takes 63 us for it, PyTorch's own layer 90.
- What is refused for tracing runs on `packed`: the LSTM call by call.
- OpenVINO, whose kernels are compiled for each network, gets the small convolutional
  networks to no more than ONNX Runtime either, alone on the machine: on two threads to
  0.79 of its speed in MobileNet v3, 0.83 in SqueezeNet, 0.86 in GoogLeNet, 0.88 in
  YOLOv5; to 0.96 in DenseNet, where it joins without copies, and 1.10 in EfficientNet.
- torch.compile multiplies frozen float32 weights by MKL, which is slow on processors of
  AMD; AOTInductor by oneDNN.
- On another machine (AMD EPYC of family 25, model 1: AVX2, no AVX-512; one thread, a
  core kept for it, the other one busy; ONNX Runtime at its better level; after some
  calls): of 13 networks of timm and transformers drawn by chance, `auto` with OpenVINO
  and torch.jit comes to 0.96 of ONNX Runtime's speed in the geometric mean (RepGhostNet
  0.69, the least, to CrossViT 1.55), the network as it stands to 0.68; `auto` took
  OpenVINO for 11 of them, and was nowhere slower than the network as it stands. Without
  both, and no library made, the better of `packed` and `eager` has 0.69. Of six small
  ones `aot`, prepared, has 0.80 (LCNet 0.69, RexNet 0.96), OpenVINO 0.94. In LCNet 5 of
  a call's 8 ms are oneDNN's kernels; a convolution by itself takes 50 us beside its
  kernel. Here oneDNN reads a row's product 10 to 30 % slower from weights laid out for
  two rows than for one, and pages of 2 MB matter: `packed` goes from 0.85 to 1.01 of
  ONNX Runtime's speed for a Llama's token and from 0.82 to 0.91 for GPT-2's (again:
  0.88 and 0.89 to 1.06 for the Llama); small networks of convolutions gain nothing. Two
  threads were not measured.
"""


def page(results: dict[str, Any], columns: Iterable[str], picture: str = "") -> str:
    """Of all that was measured; `picture` is a file beside the page, if any."""
    tables = "".join(
        f"\n## {threads} thread{'s' if int(threads) > 1 else ''}\n\n"
        + table(results["threads"][threads], columns)
        for threads in sorted(results["threads"], key=int)
    )
    shown = f"\n![The ratios as a picture]({picture})\n" if picture else ""
    return PAGE.format(machine=results["machine"], tables=shown + tables)


def table(rows: dict[str, Row], columns: Iterable[str]) -> str:
    """Of one number of threads; what isn't there is a dash, and why stands below."""
    good = {name: row for name, row in sorted(rows.items()) if "package" in row}
    tried = {c for row in good.values() for c in (*row, *row["failed"])}
    others = [c for c in columns if c in tried]
    head = ["model", "ONNX Runtime, ms", "engine", "package", "cpu", "error"]
    lines = [head, ["---", "---:", "---", "---:", "---:", "---:"]]
    for name, row in good.items():
        ours = row["package"]
        spread = f"{ours['ratio']:.2f} ({ours['low']:.2f}-{ours['high']:.2f})"
        measured = (f"{row['cpu']:.2f}", f"{ours['error']:.0e}")
        theirs = f"{row['onnxruntime']['ms']:.2f}"
        lines.append([name, theirs, row["engine"], spread, *measured])
    text = drawn(lines)
    if good:
        mean = geometric(row["package"]["ratio"] for row in good.values())
        text += f"\nGeometric mean: {mean:.2f} over {len(good)} models.\n"
    if others:
        text += "\n" + drawn([["model", *others], ["---", *["---:"] * len(others)]])
        for name, row in good.items():
            cells = (f"{lead(row, c):.2f}" if c in row else "-" for c in others)
            text += drawn([[name, *cells]])
        text += "".join(f"\n{summary(column, good)}\n" for column in others)
    for name, row in sorted(rows.items()):
        if "broken" in row:
            text += f"\n{name}: {row['broken']}\n"
    return text


def drawn(lines: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def geometric(numbers: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, numbers)))


def lead(row: Row, column: str) -> float:
    """A column's time over the package's in the same rounds."""
    measured: float = row[column].get(
        "lead", row["package"]["ratio"] / row[column]["ratio"]
    )
    return measured


def summary(column: str, rows: dict[str, Row]) -> str:
    """What a column comes to, where the package leads it, and what it lacks."""
    leads = {name: lead(row, column) for name, row in rows.items() if column in row}
    parts = []
    if leads:
        behind = [f"{name} {x:.2f}" for name, x in leads.items() if x < NEAR]
        parts.append(
            f"{column} takes {geometric(leads.values()):.2f} of the package's time in"
            f" the geometric mean. The package is ahead of it, or less than 3 % behind,"
            f" on {len(leads) - len(behind)} of {len(leads)}"
            + (f"; not on {', '.join(behind)}." if behind else ".")
        )
        firsts = [rows[name][column]["first_s"] for name in leads]
        if max(firsts) > 5:
            parts.append(f"First calls: {min(firsts):.0f} to {max(firsts):.0f} s.")
    failed = defaultdict(list)
    for name, row in rows.items():
        if column in row["failed"]:
            failed[row["failed"][column]].append(name)
    for reason, names in failed.items():
        parts.append(f"No {column} of {', '.join(names)}: {reason.rstrip('.')}.")
    return " ".join(parts)
