"""`infuse profile`: where the time of a model goes."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

import infuse
from infuse.cli import inputs, terminal
from infuse.cli.flags import Only, Without, with_flags
from infuse.cli.models import note_search, require_file
from infuse.cli.options import (
    AsJson,
    Calibrate,
    InputArchive,
    InputFiles,
    ModelFile,
    check_output,
)
from infuse.cli.outputs import write_json
from infuse.options import CompileOptions, Examples, Rules
from infuse.profiling import GROUPINGS, Profile, Row, trace_events


class By(str, Enum):
    """What a row stands for."""

    step = "step"
    node = "node"
    kind = "kind"


_COLUMNS = (
    "##",
    "computes",
    "kernel",
    "#calls",
    "#min ms",
    "#median",
    "#share",
    "#MFLOP",
    "#MB",
    "#bound ms",
    "#of roof",
    "of",
)
_NARROW = (
    "##",
    "computes",
    "kernel",
    "#min ms",
    "#share",
    "#MFLOP",
    "#MB",
    "#bound ms",
    "#of roof",
)
"""What is printed on terminals that are narrower than _WIDE."""
_WIDE = 140

assert tuple(by.value for by in By) == GROUPINGS


@with_flags
def profile(
    model: ModelFile,
    options: Annotated[CompileOptions, Without("prefix")],
    rules: Annotated[Rules, Without("runtime")],
    data: Annotated[Examples, Only("dims", "seed")],
    runs: Annotated[int, typer.Option(min=1, help="Runs that are measured.")] = 20,
    by: Annotated[
        By, typer.Option(help="A row for every kernel call, node, or kind of operator and kernel.")
    ] = By.step,
    top: Annotated[int, typer.Option(min=0, help="Rows to print; 0 for all.")] = 30,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Write the runs as a trace for Perfetto or chrome://tracing."
        ),
    ] = None,
    files: InputFiles = None,
    archive: InputArchive = None,
    calibrate: Calibrate = False,
    as_json: AsJson = False,
) -> None:
    """Time every kernel call of a model, beside its FLOPs, its bytes and what this machine could
    do.

    Inputs that are not given are random.
    """
    if trace is not None:
        check_output(trace, ".json")
    require_file(
        model,
        "its kernels were compiled without clocks",
        "name the model file, or time the compiled model as a whole with infuse bench",
    )
    graph = infuse.load(model)
    arrays = inputs.read_inputs(files, archive, [value.name for value in graph.inputs])
    with terminal.progress(model.name) as progress:
        better = infuse.optimize(graph, rules, progress=progress)
        report = infuse.profile(
            better,
            replace(data, inputs=arrays),
            options,
            runs=runs,
            calibrate=calibrate,
            progress=progress,
        )
    note_search(better)
    if trace is not None:
        write_json(trace, trace_events(report))
    if as_json:
        terminal.say_json(
            report.to_dict(by.value) | {"trace": None if trace is None else str(trace)}
        )
    else:
        _print(report, by.value, top)
        if trace is not None:
            terminal.say(f"wrote {trace}: open it at ui.perfetto.dev or in chrome://tracing")


def _print(report: Profile, by: str, top: int) -> None:
    roof, total = report.roof, report.total
    described = ", ".join(f"{name}: {kind}" for name, kind in report.inputs.items())
    threads = f"{roof.threads} thread{'' if roof.threads == 1 else 's'}"
    terminal.say(f"{described}; {threads}, target {roof.target}")
    terminal.say(
        f"{terminal.roof_text(roof.peaks, roof.bandwidth)}; "
        f"{len(report.runs)} runs: least {min(total.times) * 1e3:.3f} ms, median "
        f"{total.median * 1e3:.3f} ms"
    )
    rows = report.table(by)
    shown = rows[:top] if top else rows
    rest = rows[len(shown) :]
    lines = [(str(number), *_line(row), _detail(row, by)) for number, row in enumerate(shown, 1)]
    if rest:
        lines.append(("…", *_summary(f"{len(rest)} more", rest)))
    outside = report.outside
    lines.append(
        ("", outside.label, "", "", *_times(outside), f"{outside.share:.1%}", "", "", "", "", "")
    )
    lines.append(_total(report))
    terminal.say_table("", *terminal.fitted(_COLUMNS, _NARROW, _WIDE, lines), last_bold=True)
    for remark in report.remarks:
        terminal.say(f"note: {remark}")


def _times(row: Row) -> tuple[str, str]:
    return f"{row.time * 1e3:.3f}", f"{row.median * 1e3:.3f}"


def _line(row: Row) -> tuple[str, ...]:
    roof = f"{row.efficiency:.0%}" if row.is_known and row.bound else "–"
    return (
        row.label,
        row.kernel,
        str(row.calls),
        *_times(row),
        f"{row.share:.1%}",
        *_work([row]),
        roof,
    )


def _detail(row: Row, by: str) -> str:
    """What the label does not tell."""
    if by == "kind":
        return f"{len(row.nodes)} node{'' if len(row.nodes) == 1 else 's'}"
    return row.nodes[0] if by == "step" and row.nodes else ", ".join(row.kinds)


def _work(rows: list[Row]) -> tuple[str, str, str]:
    flops, size, bound = (
        sum(getattr(row, name) for row in rows) for name in ("flops", "bytes", "bound")
    )
    return f"{flops / 1e6:.2f}", f"{size / 1e6:.3f}", f"{bound * 1e3:.3f}"


def _summary(label: str, rows: list[Row]) -> tuple[str, ...]:
    least, median = (
        f"{sum(getattr(row, name) for row in rows) * 1e3:.3f}" for name in ("time", "median")
    )
    calls, share = sum(row.calls for row in rows), sum(row.share for row in rows)
    return (label, "", str(calls), least, median, f"{share:.1%}", *_work(rows), "", "")


def _total(report: Profile) -> tuple[str, ...]:
    total = report.total
    roof = f"{total.efficiency:.0%}"
    return ("", "total", "", str(total.calls), *_times(total), "100.0%", *_work([total]), roof, "")
