"""`infuse optimize`: rewrite a model, check it, write it, and tell what was done."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.analysis import totals, write_report
from infuse.api import rewritten
from infuse.cli import terminal
from infuse.cli.flags import Only, Without, with_flags
from infuse.cli.options import AsJson, ModelFile, ModelOutput, check_model_output, check_report
from infuse.doctor.warning import faults_of_exporter
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ops.core.feeds import trial_sizes
from infuse.options import Examples, Rules
from infuse.options.commands import FileOptions
from infuse.options.rules import OptimizeOptions
from infuse.passes.binding import (
    fix_defaults,
    set_dims,
    warn_of_defaults,
    warn_of_frozen_states,
)
from infuse.passes.explain import near_misses
from infuse.passes.selection import Selection
from infuse.passes.verification import Witness
from infuse.rewrite import Report, Search as Found

LIMIT = 5e10
"""Multiplications up to which a model is evaluated in NumPy without being asked to: some ten
seconds.
"""
FUSED_OPSET = 23
"""The first opset with Attention, RMSNormalization and RotaryEmbedding."""


@with_flags
def optimize(
    model: ModelFile,
    output: ModelOutput,
    rules: Annotated[Rules, Without("level")],
    data: Annotated[Examples, Only("dims")],
    own: OptimizeOptions,
    file: Annotated[FileOptions, Only("opset")],
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page (.html): both graphs, every rewrite; or its data (.json).",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Also list every rewrite, and where rules nearly fired and why not."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write an optimized copy of a model and report which rules fired."""
    check_model_output(output, file)
    check_report(report)
    if data.sizes and not own.is_random and report is None:
        raise OptionError(
            "--dim sets sizes of random inputs, and there are none", hint="leave it out"
        )
    graph = infuse.load(model)
    usual = _default_level(output, file.opset or graph.opsets.get("", 0), rules.runtime)
    chosen = replace(rules, level=own.level or usual)
    _bind(graph, own, chosen.level)
    with terminal.progress(model.name) as progress:
        progress("read", 0, 1)
        witness = _witness(graph, own, data.sizes)
        better = rewritten(graph, chosen, witness, progress)
        progress("write", 0, 1)
        infuse.save(better, output, opset=file.opset)
        if report is not None:
            write_report(
                report,
                graph,
                better,
                data.sizes,
                model.name,
                faults=[*map(str, faults_of_exporter(graph))],
            )
    facts = {**better.report.to_dict(), "level": chosen.level}
    facts["optimize_seconds"] = sum(better.report.seconds.values())
    facts["output"] = terminal.file_facts(output)
    facts |= terminal.report_facts(report)
    if explain:
        facts["near_misses"] = near_misses(better, Selection.of(chosen))
    terminal.answer(facts, as_json, lambda: _print(better.report, facts))


def _default_level(output: Path, opset: int, runtime: str) -> str:
    """What serves whoever reads the file: fused operators only where they stay fused."""
    if output.suffix == ".infuse":
        return "all"
    return "extended" if runtime or opset >= FUSED_OPSET else "basic"


def _bind(graph: Graph, options: OptimizeOptions, level: str) -> None:
    """Fix sizes and defaults of inputs."""
    if options.fix_defaults:
        warn_of_frozen_states(graph)
        fix_defaults(graph)
    elif level != "none":
        warn_of_defaults(graph)
    set_dims(graph, options.dims or {})


def _witness(graph: Graph, options: OptimizeOptions, sizes: dict[str, int]) -> Witness:
    """The original's answers to compare with; none where that is not asked for, or takes long."""
    if options.verify is False:
        return Witness(graph, [], reason="--no-verify")
    if options.inputs is not None:
        return Witness.on_given(graph, options.inputs)
    work = sum(_multiplications(graph, values) for values in trial_sizes(graph, sizes))
    if work > LIMIT and not options.verify:
        reason = f"it takes {work:.1e} multiplications in NumPy; --verify does it all the same"
        return Witness(graph, [], reason=reason)
    return Witness.on_random(graph, sizes)


def _multiplications(graph: Graph, sizes: dict[str, int]) -> int:
    macs = totals(graph, sizes).cost.macs
    assert isinstance(macs, int)
    return macs


def _print(report: Report, facts: dict[str, Any]) -> None:
    kinds = sorted(report.before | report.after)
    rows = [(kind, report.before[kind] or "–", report.after[kind] or "–") for kind in kinds]
    rows.append(("all", report.nodes_before, report.nodes_after))
    terminal.say_table("operators", ("operator", "#before", "#after"), rows, last_bold=True)
    terminal.say_table(
        "rules that fired", ("rule", "level", "#fired", "#nodes saved"), _fired(report)
    )
    if "near_misses" in facts:
        _explain(report, facts["near_misses"])
    if report.search is not None:
        _print_search(report.search)
    terminal.say(f"optimized at level {facts['level']} in {facts['optimize_seconds']:.2f} s")
    for remark in report.remarks:
        terminal.say(remark)
    for written in filter(None, (facts["output"], facts.get("report"))):
        terminal.say_written(Path(written["path"]))


def _print_search(search: Found) -> None:
    """What the search found, and by which equalities."""
    rows = [
        (
            number,
            ", ".join(each.removed),
            ", ".join(each.created),
            ", ".join(each.equalities),
            f"{each.before * 1e6:.1f}",
            f"{each.after * 1e6:.1f}",
        )
        for number, each in enumerate(search.improvements, 1)
    ]
    if rows:
        columns = ("#", "removed", "created", "by", "#µs before", "#µs after")
        terminal.say_table("found by the search, with prices of the region around", columns, rows)
    for remark in search.notes:
        terminal.say(remark)
    terminal.say(str(search))


def _fired(report: Report) -> list[tuple[str, str, int, int]]:
    saved: Counter[str] = Counter()
    levels = {}
    for rewrite in report.rewrites:
        saved[rewrite.rule] += rewrite.saved
        levels[rewrite.rule] = rewrite.level
    return [(rule, levels[rule], count, saved[rule]) for rule, count in report.fired.most_common()]


def _explain(report: Report, misses: list[dict[str, str]]) -> None:
    rows = [
        (number, r.rule, ", ".join(r.removed) or "–", ", ".join(r.created) or "–")
        for number, r in enumerate(report.rewrites, 1)
    ]
    terminal.say_table("rewrites in order", ("#", "rule", "removed", "created"), rows)
    terminal.say_table(
        "rules that nearly fired",
        ("rule", "node", "why not"),
        [(m["rule"], m["node"], m["reason"]) for m in misses],
    )
