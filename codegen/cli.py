"""The command line: what may be given to each command, and where it is run.

Exit codes: 0 done; 1 the model can't be compiled, or doesn't verify; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from .. import __version__
from ..analysis.errors import FairhandError, message_of
from ..analysis.literals import printable
from ..analysis.oracle.process import FORKS
from ..analysis.user_code import run_file
from ..rewrites.language.exactness import LEVELS
from .request.choices import (
    AUTO,
    AUTOTUNE,
    DEVICES,
    ENGINES,
    METHODS,
    PRECISIONS,
    TARGETS,
)

# What is printed holds names from model files: no markup, no emoji codes.
out = Console(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        for file in arguments.ops or ():
            run_file(Path(file), OWN_OPERATORS)
        return arguments.run(arguments) or 0
    except Exception as error:
        if os.environ.get("FAIRHAND_TRACEBACK"):
            raise
        text = printable(message_of(error))
        err.print(Text.assemble(("error:", "red"), f" {text}"), soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        err.print("interrupted; a package is there whole, or as it was")
        return 1


OWN_OPERATORS = "--ops takes a Python file that calls fairhand.register(OpDef(...))"
MEASURE = "measure on this machine what operators and groups take, not by estimates"

Command = Callable[[str, object, str], argparse.ArgumentParser]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairhand", description="Write an ONNX model out as PyTorch source."
    )
    parser.add_argument(
        "--version", action="version", version=f"fairhand {__version__}"
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument(
            "--ops",
            action="append",
            metavar="FILE.py",
            help="Python file that registers operators with fairhand.register",
        )
        return sub

    _add_compile(command)

    _add_verify(command)

    sub = command("export", _export, "Write a package, as it is now, as an ONNX file.")
    sub.add_argument("package")
    sub.add_argument("-o", "--out", required=True, metavar="NEW.onnx")
    sub.add_argument(
        "--opset", type=_positive, help="of the file (default: as the original's)"
    )

    _add_reading(command)
    _add_laws(command)

    sub = command("bench", _bench, "Time a package beside ONNX Runtime, in turn.")
    sub.add_argument("package", nargs="?", type=Path)
    sub.add_argument("model", nargs="?", type=Path)
    sub.add_argument(
        "--mesh",
        type=Path,
        metavar="NEW.json",
        help="measure what torchrun started, as a file for --devices, and no package",
    )
    sub.add_argument("--rounds", type=_positive, default=30)
    sub.add_argument("--threads", type=_positive, default=None)

    _add_generate(command)

    sub = command("run", _run, "Run a program with packages in its models' places.")
    sub.add_argument("--packages", required=True, metavar="DIR", type=Path)
    sub.add_argument(
        "program",
        nargs="+",
        help="-- and a command that starts Python: InferenceSession(model) opens the"
        " package that was made from that file; any other goes to ONNX Runtime",
    )
    return parser


def _add_compile(command: Command) -> None:
    sub = command("compile", _compile, "Write a checked PyTorch package for a model.")
    sub.add_argument("model", help=".onnx or .onnxtxt file")
    sub.add_argument("-o", "--out", help="package folder (default: generated/<model>)")
    _flag(sub, "--no-verify", "write without comparing")
    _flag(sub, "--no-cache", "make anew what was written before")
    sub.add_argument(
        "--inputs", metavar="FILE", help=".npz or .pb inputs to check with"
    )
    sub.add_argument(
        "--shape",
        dest="shapes",
        action="append",
        type=_shape,
        default=[],
        metavar="NAME=1,576",
        help="fix the sizes of an input; ? or a name for one that stays open",
    )
    sub.add_argument("--debug", metavar="DIR", help="write the graph after each stage")
    sub.add_argument(
        "-O",
        dest="level",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="0: no stored weight changes and state_dict has the original's keys;"
        " 1: every proven rewrite that leaves the parameters trainable (default);"
        " 2: also those that take layers together",
    )
    sub.add_argument(
        "--target",
        choices=TARGETS,
        default="torch",
        help="triton: operators that fuse become kernels, in kernels.py",
    )
    sub.add_argument(
        "--exactness",
        choices=LEVELS,
        default="real",
        help="which proven rules apply: those that keep every bit, those that may also"
        " add up in another order, or all that are exact over the reals (default)",
    )
    _add_own_laws(sub)
    sub.add_argument(
        "--engine",
        choices=(AUTO, *ENGINES),
        default=AUTO,
        help="what Session runs the network on (default: it measures which is fastest)",
    )
    _flag(
        sub,
        "--shared-runtime",
        "packages in one folder read session.py and what goes with it from"
        " runtime/ beside them",
    )
    _add_ways(sub)


def _add_ways(sub: argparse.ArgumentParser) -> None:
    """What is to run, and to be seen in the text, in another way than plainly."""
    sub.add_argument(
        "--lanes",
        type=lambda text: (
            text if text == "auto" else _positive(text, "neither auto nor")
        ),
        metavar="N|auto",
        help="let up to N parts of the network run side by side, if that is predicted"
        " to be worth it; auto: as many as this machine's cores allow",
    )
    _flag(
        sub,
        "--profile",
        "measure here, with --lanes what operators take and whether lanes gain,"
        " with --target triton which kernels are worth it",
    )
    _flag(sub, "--autotune", AUTOTUNE)
    sub.add_argument(
        "--fusion",
        choices=METHODS,
        help="write the larger groups of a fusion plan as functions of their own",
    )
    _add_devices(sub, "write parallel.py, too: ")
    sub.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="bf16: compute in bfloat16; fp16: in float16, with kernels alone; int8:"
        " multiply in integers where layers are linear; the error is measured and"
        " reported",
    )


def _add_verify(command: Command) -> None:
    sub = command("verify", _verify, "Compare a package with its model again.")
    sub.add_argument("package", type=Path)
    said = "may be left out where it lies near the package"
    sub.add_argument("model", nargs="?", type=Path, help=said)
    sub.add_argument("--inputs", metavar="FILE", type=Path)
    judged = sub.add_mutually_exclusive_group()
    judged.add_argument(
        "--all-inputs",
        action="store_true",
        help="compare the calls that model.py makes with the graph's, for all inputs"
        " at once; only what was edited runs, on a few",
    )
    judged.add_argument(
        "--by-results",
        action="store_true",
        help="accept an edit by which model.py makes other calls, if results are as"
        " before on many inputs, not with --all-inputs; without it"
        " equal results by other calls are refused",
    )
    _add_own_laws(sub)
    sub.add_argument(
        "--seeds",
        type=_positive,
        help="random inputs per size (default: 2, or none beside --inputs)",
    )


def _add_devices(sub: argparse.ArgumentParser, does: str) -> None:
    """Over how many devices, of which sort."""
    sub.add_argument(
        "--parallel",
        metavar="tp=2|pp=2|dp=2,tp=2|pp=2,tp=2+1|N|annotated",
        help=does + "layers cut into tp parts (2+1: by stage), pp stages, dp parts of"
        " a batch; N devices are divided as is predicted to be best; annotated: as the"
        " file says",
    )
    sub.add_argument(
        "--memory", type=_bytes, metavar="24G", help="what each of the devices has"
    )
    sub.add_argument(
        "--devices",
        default="cpu",
        metavar="cpu|a100|h100|FILE.json",
        help="what costs are estimated for",
    )


def _bytes(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?)([KMGT]?)B?", text, re.ASCII)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory: 24G")
    return float(match[1]) * 1000.0 ** ["", "K", "M", "G", "T"].index(match[2])


def _add_generate(command: Command) -> None:
    sub = command("generate", _generate, "Generate tokens with a decoder's package.")
    sub.add_argument("package", type=Path)
    prompt = sub.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt-ids", type=_numbers, metavar="1,2,3")
    prompt.add_argument("--prompt", metavar="TEXT")
    sub.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FOLDER",
        help="tokenizer.json, or its folder; ascii: characters by their numbers",
    )
    sub.add_argument("--max-new-tokens", type=_positive, default=100)
    sub.add_argument("--eos", type=_numbers, default=[], metavar="2")
    for name, value in _SAMPLING.items():
        sub.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)


_SAMPLING = {
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "seed": 0,
}


def _numbers(text: str) -> list[int]:
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers: 1,2,3")
    return [int(part) for part in text.split(",")]


def _add_reading(command: Command) -> None:
    sub = command("where", _where, "Show the ONNX nodes behind a line of a package.")
    sub.add_argument("package", type=Path)
    either = sub.add_mutually_exclusive_group(required=True)
    either.add_argument("line", nargs="?", help="a line of model.py: model.py:87")
    either.add_argument("--node", metavar="NAME", help="the other way round")

    _add_json(sub)

    sub = command("diff", _diff, "Show what tells two networks apart.")
    sub.add_argument("one", type=Path, help="a package, or an .onnx or .onnxtxt file")
    sub.add_argument("other", type=Path, help="likewise; nothing is written")
    _flag(sub, "--markdown", "for a review")
    _add_json(sub)

    sub = command("review", _review, "Say what a change does to a repository's models.")
    sub.add_argument("base", help="the commit to compare with; Markdown is printed")
    _flag(sub, "--speed", "time packages beside ONNX Runtime")

    command("mcp", _mcp, "Serve the reading commands to agents (needs fairhand[mcp]).")

    sub = command("status", _status, "List the packages of a folder.")
    sub.add_argument("folder", type=Path)
    _flag(sub, "--check", "exit with 1 where one isn't as written")
    _add_json(sub)


def _flag(sub: argparse.ArgumentParser, name: str, text: str) -> None:
    sub.add_argument(name, action="store_true", help=text)


def _add_json(sub: argparse.ArgumentParser) -> None:
    _flag(sub, "--json", "print it for other programs")


def _add_laws(command: Command) -> None:
    sub = command("check", _check, "Repeat the rewrites that a report certifies.")
    said = "report.json of a package, or the package"
    sub.add_argument("report", type=Path, help=said)
    sub.add_argument("model", type=Path)
    _add_own_laws(sub)

    sub = command("inspect", _inspect, "Show operators, sizes and what is unsupported.")
    sub.add_argument("model", type=Path)
    sub.add_argument(
        "--explain",
        nargs=2,
        metavar=("RULE", "NODE"),
        help="say why a rule applies at a node of the rewritten graph, or why not",
    )
    _add_plans(sub)
    _add_devices(sub, "show plans: ")

    sub = command("rules", _rules, "List the rewrite rules and their proofs.")
    sub.add_argument("rule", nargs="?", help="show one rule in full")

    sub = command("prove", _prove, "Prove the rewrite rules again (needs z3-solver).")
    sub.add_argument("rule", nargs="*", help="rules or families (default: all)")
    sub.add_argument("--jobs", type=_positive, default=2)
    _flag(sub, "--write", "store the verdicts that packages ship")
    _flag(sub, "--check", "fail where another verdict is stored")
    _add_own_laws(sub)


def _add_own_laws(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--rules",
        metavar="FILE",
        type=Path,
        help="a Python file of laws of your own, which is run; their verdicts stand"
        " beside it, in FILE with the suffix .proofs.json",
    )


def _add_plans(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--fusion",
        choices=METHODS,
        nargs="?",
        const="dnnfusion",
        help="show which operators fuse, and why, in this way (default: dnnfusion)",
    )
    sub.add_argument(
        "--lanes", type=_positive, metavar="N", help="show work for N lanes"
    )
    sub.add_argument(
        "--batch", type=_positive, default=1, help="samples at a time, with --lanes"
    )
    sub.add_argument(
        "--device", choices=DEVICES, default="cpu", help="what costs are estimated for"
    )
    _flag(sub, "--profile", MEASURE)
    _flag(sub, "--json", "print the plans for other programs")
    said = "write the plans as one page (default: 2 lanes)"
    sub.add_argument("--html", metavar="FILE", type=Path, help=said)
    sub.add_argument(
        "--annotate",
        metavar="FILE.onnx",
        type=Path,
        help="write the model with the plan of --parallel as ONNX's annotations",
    )


def _positive(text: str, isnt: str = "not") -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is {isnt} a whole number above 0")
    return int(text)


def _shape(text: str) -> tuple[str, list[int | str | None]]:
    """`x=1,n,?` as the name and its sizes."""
    name, equals, listed = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=SIZE,SIZE")
    sizes = [part.strip() for part in listed.split(",")] if listed else []
    return name, [
        int(size) if size.isdecimal() else None if size == "?" else size
        for size in sizes
    ]


def _module(name: str) -> Any:
    """What a command needs is loaded by it alone, so that others don't wait for it."""
    return import_module(name, __package__)


def _say(*texts: str, label: str = "") -> None:
    """Print lines whole, however wide the terminal or the pipe is."""
    for shown in map(printable, texts):
        line = Text.assemble((f"{label:9} ", "bold"), shown) if label else shown
        out.print(line, soft_wrap=True)


# Options of `compile` that are called the same here and there.
_PLAIN = """inputs debug level exactness engine lanes profile autotune fusion precision
    target rules parallel devices memory shared_runtime"""


def _compile(arguments: argparse.Namespace) -> None:
    if not arguments.no_verify:
        FORKS.warm()  # PyTorch loads there, while here fairhand does
    with err.status("load") as status:
        package = _module(".pipeline").compile(
            arguments.model,
            arguments.out,
            verify=not arguments.no_verify,
            cache=not arguments.no_cache,
            shapes=dict(arguments.shapes),
            progress=lambda stage: status.update(stage),
            **{name: getattr(arguments, name) for name in _PLAIN.split()},
        )
    for label, text in _module(".commands.compile").summary_rows(package):
        if label == "warning":
            err.print(f"{label:9} {printable(text)}", soft_wrap=True)
            continue
        _say(text, label=label)


def _verify(arguments: argparse.Namespace) -> None:
    verify, a = _module(".commands.verify"), arguments
    if a.all_inputs:
        _say(verify.verify_all_inputs(a.package, a.model, a.rules))
        return
    given = a.package, a.model, a.inputs, a.seeds, a.rules, a.by_results
    _say(*verify.verify_again(*given))


def _export(a: argparse.Namespace) -> None:
    with err.status("export"):
        made = _module(".export.onnx_file").export(
            a.package, None, a.out, opset=a.opset
        )
    for label, text in _module(".commands.compile").exported_rows(made):
        _say(text, label=label)


def _run(arguments: argparse.Namespace) -> int:
    return int(_module(".commands.run").run(arguments.packages, arguments.program))


def _where(arguments: argparse.Namespace) -> None:
    folder, node = arguments.package, arguments.node
    key = arguments.line if node is None else node
    if arguments.json:
        facts = _module(".emit.source_map")
        _say_json((facts.line_facts if node is None else facts.node_facts)(folder, key))
        return
    where = _module(".commands.where")
    _say(*(where.nodes_behind if node is None else where.lines_of)(folder, key))


def _diff(arguments: argparse.Namespace) -> None:
    found = _module(".compare.comparison").compare(arguments.one, arguments.other)
    if arguments.json:
        _say_json(found.as_dict())
    elif arguments.markdown:
        _say(*_module(".commands.diff").markdown(found))
    else:
        _module(".commands.diff").show(found, out)


def _status(arguments: argparse.Namespace) -> int:
    packages = [*_module(".compare.status").packages_in(arguments.folder)]
    if arguments.json:
        _say_json({"packages": [one.as_dict() for one in packages]})
    else:
        none = [f"{arguments.folder} has no packages in it"] * (not packages)
        _say(*none, *map(_module(".commands.status").status_line, packages))
    return int(arguments.check and not all(one.is_as_written for one in packages))


def _review(arguments: argparse.Namespace) -> int:
    lines, good = _module(".commands.review").review(arguments.base, arguments.speed)
    _say(*lines)
    return int(not good)


def _mcp(arguments: argparse.Namespace) -> None:
    _module(".commands.mcp_server").server().run("stdio")


def _say_json(found: object) -> None:
    _say(json.dumps(found))


def _inspect(arguments: argparse.Namespace) -> None:
    a, page = arguments, arguments.html
    if a.parallel is not None:
        given = a.model, a.parallel, a.devices, a.memory, a.annotate, page
        text, data = _module(".pipeline").parallel_plans(*given)
        _say(json.dumps(data) if a.json else text)
        return
    if a.annotate is not None or a.memory is not None or a.devices != "cpu":
        what = "--annotate, --memory and --devices need --parallel"
        raise FairhandError(what, hint="add it, or leave them out")
    fusion = a.fusion or ("dnnfusion" if page else None)
    asked = fusion, a.lanes or (2 if page else None), a.batch, a.device, a.profile
    wanted = _module(".commands.inspect_plans").Wanted(*asked)
    if not wanted.any and (a.profile or a.batch > 1 or a.device != "cpu"):
        raise FairhandError("there is no plan to show", hint="add --fusion or --lanes")
    inspect_model = _module(".commands.inspect").inspect_model
    inspect_model(a.model, out, a.explain, wanted, a.json, page)


def _check(a: argparse.Namespace) -> None:
    _say(_module(".commands.check").check(a.report, a.model, a.rules))


def _rules(arguments: argparse.Namespace) -> None:
    _module(".commands.rules").show_rules(arguments.rule, out)


def _prove(arguments: argparse.Namespace) -> None:
    prove, a = _module(".commands.prove"), arguments
    how = prove.Proving(a.jobs, a.write, a.check, a.rules)
    prove.prove_rules(a.rule, how, out)


def _generate(arguments: argparse.Namespace) -> None:
    how = {name: getattr(arguments, name) for name in ("eos", *_SAMPLING)}
    prompt = arguments.prompt if arguments.prompt_ids is None else arguments.prompt_ids
    given = arguments.package, prompt, arguments.max_new_tokens, arguments.tokenizer
    _module(".generation.from_shell").generate(*given, out, err, **how)


def _bench(a: argparse.Namespace) -> None:
    if a.mesh is not None:
        _module(".parallel.measure").bench_mesh(a.mesh, out)
        return
    if a.model is None:
        raise FairhandError("bench takes a package and its model, or --mesh")
    _module(".commands.bench").bench(a.package, a.model, a.rounds, a.threads, out)


if __name__ == "__main__":
    sys.exit(main())
