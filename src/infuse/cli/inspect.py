"""`infuse inspect`: what the layers of a model cost, and what this machine needs for them at
least.
"""

from __future__ import annotations

from typing import Annotated

import infuse
from infuse.analysis import write_sheet
from infuse.analysis.comparison import quantity
from infuse.cli import terminal
from infuse.cli.flags import Only, with_flags
from infuse.cli.models import require_file
from infuse.cli.options import AsJson, Calibrate, ModelFile, ReportFile, check_report
from infuse.options import CompileOptions, Examples
from infuse.options.commands import InspectOptions
from infuse.profiling import Inspection, LayerCost

_COLUMNS = (
    "##|layer|operator|output|#layers|#parameters|#weights|#FLOPs|#MACs|#memory|#FLOP/byte|"
    "#bound ms|#share|bound by"
)
_OF_KINDS = {"layer", "output"}
"""Columns that rows of kinds do not have."""
_ONLY_WIDE = {"output", "#layers", "#weights", "#MACs", "#memory", "#share", "bound by"}
"""What is left out on terminals that are narrower than _WIDE."""
_WIDE = 140
_LONGEST = 26
"""Characters of a layer's name that are printed: the last ones."""


@with_flags
def inspect(
    model: ModelFile,
    options: Annotated[CompileOptions, Only("threads", "target")],
    data: Annotated[Examples, Only("dims")],
    own: InspectOptions,
    calibrate: Calibrate = False,
    report: ReportFile = None,
    as_json: AsJson = False,
) -> None:
    """Count parameters, FLOPs, MACs and memory access of a model, per layer and in total, under
    the roof of this machine.

    Rows are the layers in execution order. The bound is the time that this machine needs at least:
    for the arithmetic, or for the memory access of a layer that reads its operands and writes its
    results.
    """
    check_report(report)
    require_file(model, "the graph of a compiled model is not in it")
    with terminal.progress(model.name) as progress:
        result = infuse.inspect(
            model, data, options, rules=own.level, calibrate=calibrate, progress=progress
        )
    if report is not None:
        write_sheet(report, "inspection", result.to_dict(), model.name)
    facts = result.to_dict() | terminal.report_facts(report)
    terminal.answer(facts, as_json, lambda: _print(result, own.by, own.top))
    terminal.say_written(report, as_json)


def _print(result: Inspection, by: str, top: int) -> None:
    roof = result.roof
    terminal.say(_heading(result))
    terminal.say(terminal.roof_text(roof.peaks, roof.bandwidth))
    rows = result.table(by)
    longest = sorted(rows, key=lambda row: -row.seconds)[: top or None]
    shown = set(map(id, longest))
    total = result.total
    lines = [
        (str(number), *_line(row, total.seconds))
        for number, row in enumerate(rows, 1)
        if id(row) in shown
    ]
    rest = [row for row in rows if id(row) not in shown]
    if rest:
        lines.append(("…", *_line(LayerCost.together(f"{len(rest)} more", rest), total.seconds)))
    lines.append(("", *_line(total, total.seconds)))
    narrow = set() if terminal.console().width >= _WIDE else _ONLY_WIDE
    left_out = narrow | ({"#layers"} if by == "layer" else _OF_KINDS)
    terminal.say_table("", *terminal.fitted(_COLUMNS, left_out, lines), last_bold=True)
    terminal.say_notes(result.notes)


def _heading(result: Inspection) -> str:
    described, sizes = (
        terminal.fields_text(result.inputs),
        terminal.fields_text(result.sizes, " = "),
    )
    threads = terminal.counted(result.roof.threads, "thread")
    parts = (described, sizes, f"level {result.level}", f"{threads}, target {result.roof.target}")
    return "; ".join(filter(None, parts))


def _line(row: LayerCost, whole: float) -> tuple[str, ...]:
    intensity = row.intensity if row.is_known else None
    return (
        row.label if len(row.label) <= _LONGEST else f"…{row.label[1 - _LONGEST :]}",
        row.kind or row.label,
        _shape(row.output),
        str(row.layers),
        quantity(row.parameters),
        terminal.bytes_text(row.weight_bytes),
        quantity(row.flops) if row.is_known else f"≥ {quantity(row.flops)}",
        quantity(row.macs) if row.is_known else f"≥ {quantity(row.macs)}",
        terminal.bytes_text(row.bytes),
        "–" if intensity is None else f"{intensity:.2f}",
        f"{row.seconds * 1e3:.4f}",
        f"{row.seconds / whole if whole else 0:.1%}",
        row.bound_by,
    )


def _shape(type: str) -> str:
    """`float32[1, 64]` → `1×64`."""
    _, bracket, sizes = type.partition("[")
    return "×".join(sizes.removesuffix("]").split(", ")) if bracket else type
