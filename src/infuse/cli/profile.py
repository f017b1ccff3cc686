"""`infuse profile`: where the time of a model goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import infuse
from infuse.cli import terminal
from infuse.cli.flags import Only, Without, with_flags
from infuse.cli.models import note_search, require_file
from infuse.cli.options import AsJson, Calibrate, InputArchive, InputFiles, ModelFile, check_output
from infuse.data.arrays import read_inputs
from infuse.options import CompileOptions, Examples, Rules
from infuse.options.commands import ProfileOptions
from infuse.profiling import Profile, Row
from infuse.profiling.trace import write_trace

_COLUMNS = "##|computes|kernel|#calls|#min ms|#median|#share|#MFLOP|#MB|#bound ms|#of roof|of"
_ONLY_WIDE = ("#calls", "#median", "of")
"""What is left out on terminals that are narrower than _WIDE."""
_WIDE = 140


@with_flags
def profile(
    model: ModelFile,
    options: Annotated[CompileOptions, Without("prefix", "embed", "single", "profile", "size")],
    rules: Annotated[Rules, Without("runtime")],
    data: Annotated[Examples, Only("dims", "seed")],
    own: ProfileOptions,
    files: InputFiles = None,
    archive: InputArchive = None,
    calibrate: Calibrate = False,
    as_json: AsJson = False,
) -> None:
    """Time every kernel call of a model, beside its FLOPs, its bytes and what this machine could
    do.

    Inputs that are not given are random.
    """
    if own.trace is not None:
        check_output(own.trace, ".json")
    require_file(
        model,
        "its kernels were compiled without clocks",
        "name the model file, or time the compiled model as a whole with infuse bench",
    )
    graph = infuse.load(model)
    arrays = read_inputs(files, archive, [value.name for value in graph.inputs])
    with terminal.progress(model.name) as progress:
        better = infuse.optimize(graph, rules, progress=progress)
        report = infuse.profile(
            better,
            replace(data, inputs=arrays),
            options,
            runs=own.runs,
            calibrate=calibrate,
            progress=progress,
        )
    note_search(better)
    if own.trace is not None:
        write_trace(own.trace, report)
    facts = {**report.to_dict(own.by), "trace": None if own.trace is None else str(own.trace)}
    terminal.answer(facts, as_json, lambda: _print(report, own))


def _print(report: Profile, options: ProfileOptions) -> None:
    roof, total = report.roof, report.total
    threads = terminal.counted(roof.threads, "thread")
    terminal.say(f"{terminal.fields_text(report.inputs)}; {threads}, target {roof.target}")
    terminal.say(
        f"{terminal.roof_text(roof.peaks, roof.bandwidth)}; "
        f"{len(report.runs)} runs: least {min(total.times) * 1e3:.3f} ms, median "
        f"{total.median * 1e3:.3f} ms"
    )
    rows = report.table(options.by)
    shown = rows[: options.top or None]
    rest = rows[len(shown) :]
    lines = [
        (str(number), *_line(row), _detail(row, options.by)) for number, row in enumerate(shown, 1)
    ]
    if rest:
        lines.append(("…", *_summary(f"{len(rest)} more", rest)))
    outside = report.outside
    share = f"{outside.share:.1%}"
    lines.append(("", outside.label, "", "", *_times(outside), share, *[""] * 5))
    lines.append(_total(report))
    left_out = () if terminal.console().width >= _WIDE else _ONLY_WIDE
    terminal.say_table("", *terminal.fitted(_COLUMNS, left_out, lines), last_bold=True)
    terminal.say_notes(report.remarks)
    if options.trace is not None:
        terminal.say(f"wrote {options.trace}: open it at ui.perfetto.dev or in chrome://tracing")


def _times(row: Row) -> tuple[str, str]:
    return f"{row.time * 1e3:.3f}", f"{row.median * 1e3:.3f}"


def _line(row: Row) -> tuple[str, ...]:
    roof = f"{row.efficiency:.0%}" if row.is_known and row.bound else "–"
    share = f"{row.share:.1%}"
    return (row.label, row.kernel, str(row.calls), *_times(row), share, *_work([row]), roof)


def _detail(row: Row, by: str) -> str:
    """What the label does not tell."""
    if by == "kind":
        return terminal.counted(len(row.nodes), "node")
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
