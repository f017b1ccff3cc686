"""`infuse optimize`: rewrite a model, check it, write it, and tell what was done."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import options, terminal
from infuse.cli.options import AsJson, ChosenLevel, Dims, Level, ModelFile
from infuse.cli.verification import Verdict, verify
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.rewrite import Report

RuleNames = list[str] | None


def optimize(
    model: ModelFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The file to write: .onnx or .infuse.")],
    level: ChosenLevel = Level.all,
    disable: Annotated[RuleNames, typer.Option(metavar="RULE", help="Leave this rule out (repeatable).")] = None,
    only: Annotated[RuleNames, typer.Option(metavar="RULE", help="Try no other rules (repeatable).")] = None,
    enable: Annotated[RuleNames, typer.Option(metavar="RULE", help="Try this opt-in rule too (repeatable).")] = None,
    opset: Annotated[int | None, typer.Option(min=13, help="Opset of an .onnx file; default: the newest.")] = None,
    verification: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Compare original and result on random inputs; by default where that takes seconds.",
            show_default=False,
        ),
    ] = None,
    dim: Dims = None,
    as_json: AsJson = False,
) -> None:
    """Write an optimized copy of a model and report which rules fired."""
    options.check_output(output, ".onnx", ".infuse")
    if opset is not None and output.suffix != ".onnx":
        raise OptionError("--opset is for .onnx files", where=f"output {output}")
    sizes = options.dims(dim)
    graph = infuse.load(model)
    with terminal.progress(model.name) as progress:
        started = time.perf_counter()
        better = infuse.optimize(
            graph,
            level.value,
            disable=options.names(disable),
            only=options.names(only),
            enable=options.names(enable),
            progress=progress,
        )
        seconds = time.perf_counter() - started
        progress("verify", 0, 1)
        if verification is False:
            verdict = Verdict(False, reason="--no-verify")
        else:
            verdict = verify(graph, better, at_any_cost=verification is True, given=sizes)
        progress("write", 0, 1)
        infuse.save(better, output, opset=opset)
    facts = {**better.report.to_dict(), "optimize_seconds": seconds, "verification": verdict.to_dict()}
    facts["output"] = {"path": str(output), "bytes": output.stat().st_size}
    if as_json:
        terminal.say_json(facts)
    else:
        _print(better, facts, verdict)


def _print(better: Graph, facts: dict[str, Any], verdict: Verdict) -> None:
    report: Report = better.report
    kinds = sorted(report.before | report.after)
    rows = [(kind, report.before[kind] or "–", report.after[kind] or "–") for kind in kinds]
    rows.append(("all", report.nodes_before, report.nodes_after))
    terminal.say_table("operators", ("operator", "#before", "#after"), rows, last_bold=True)
    terminal.say_table("rules that fired", ("rule", "level", "#fired", "#nodes saved"), _fired(report))
    for remark in report.notes:
        terminal.say(remark)
    terminal.say(f"optimized in {facts['optimize_seconds']:.2f} s")
    terminal.say(str(verdict))
    terminal.say(f"wrote {facts['output']['path']} ({terminal.bytes_text(facts['output']['bytes'])})")


def _fired(report: Report) -> list[tuple[str, str, int, int]]:
    saved: Counter[str] = Counter()
    levels = {}
    for rewrite in report.rewrites:
        saved[rewrite.rule] += rewrite.saved
        levels[rewrite.rule] = rewrite.level
    return [(rule, levels[rule], count, saved[rule]) for rule, count in report.fired.most_common()]
