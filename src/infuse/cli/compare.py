"""`infuse compare`: two models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.analysis import write_sheet
from infuse.analysis.comparison import quantity
from infuse.cli import terminal
from infuse.cli.flags import Without, with_flags
from infuse.cli.models import refuse_for_compiled
from infuse.cli.options import AsJson, ReportFile, check_report
from infuse.options import CompileOptions, Examples, Rules, Turns
from infuse.options.commands import CompareOptions
from infuse.profiling import Agreement, ModelComparison
from infuse.runtime.folder import is_compiled

_MODEL = "of any format that infuse check knows, or a compiled model's folder."


@with_flags
def compare(
    a: Annotated[
        Path,
        typer.Argument(metavar="A", help=f"The first model, {_MODEL}", show_default=False),
    ],
    b: Annotated[
        Path,
        typer.Argument(metavar="B", help=f"The second model, {_MODEL}", show_default=False),
    ],
    data: Annotated[Examples, Without("validation")],
    options: Annotated[
        CompileOptions, Without("prefix", "embed", "single", "profile", "size", "data")
    ],
    rules: Annotated[Rules, Without("runtime")],
    turns: Turns,
    own: CompareOptions,
    report: ReportFile = None,
    as_json: AsJson = False,
) -> None:
    """Hold two models beside each other: scores or agreement, speed, memory, size, and where inner
    values of B depart from those of A.

    Without --data, both get the same random inputs, which say little about accuracy.
    """
    check_report(report)
    if is_compiled(a) and is_compiled(b):
        refuse_for_compiled(a, options, rules)
    with terminal.progress(f"{a.name} | {b.name}") as progress:
        result = infuse.compare(
            a, b, data, options, rules=rules, turns=turns, layers=own.layers, progress=progress
        )
    if report is not None:
        write_sheet(report, "pair", result.to_dict(), f"{a.name} | {b.name}")
    facts = result.to_dict() | terminal.report_facts(report)
    terminal.answer(facts, as_json, lambda: _print(result, own.top))
    terminal.say_written(report, as_json)


def _print(result: ModelComparison, top: int) -> None:
    runs = f"{result.runs} {'random ' if result.is_random else ''}runs"
    threads = terminal.counted(result.threads, "thread")
    terminal.say(f"{terminal.fields_text(result.inputs)}; {runs}; {threads}")
    names = (f"#A: {result.a.name}", f"#B: {result.b.name}")
    terminal.say_table("", ("", *names, "#B / A"), _figures(result))
    rows = [(o.name, o.type, *_agreement(o.agreement, True)) for o in result.outputs]
    terminal.say_table(
        "outputs of B beside those of A",
        ("output", "type", "#SQNR dB", "#cosine", "#relative error", "#same top 1"),
        rows,
    )
    _print_layers(result, top)
    _print_operators(result)
    terminal.say(
        f"speed: B is {result.speedup:.2f} × as fast as A by the least times, "
        f"{result.median_speedup:.2f} × by the medians"
    )
    terminal.say_notes(result.notes)


def _figures(result: ModelComparison) -> list[tuple[str, str, str, str]]:
    """The rows of the first table."""
    a, b = result.a, result.b
    score = f"score: {result.metric}"

    def count(number: float) -> str:
        return quantity(int(number))

    rows: list[tuple[str, Any, Any, Any]] = [
        (score, a.score, b.score, lambda x: f"{x:.4f}"),
        ("least time, ms", a.min_ms, b.min_ms, lambda x: f"{x:.3f}"),
        ("median time, ms", a.median_ms, b.median_ms, lambda x: f"{x:.3f}"),
        ("working memory", a.arena_bytes, b.arena_bytes, terminal.bytes_text),
        ("weights in memory", a.weights_bytes, b.weights_bytes, terminal.bytes_text),
        ("library and weights", a.loaded_bytes, b.loaded_bytes, terminal.bytes_text),
        ("size on disk", a.disk_bytes, b.disk_bytes, terminal.bytes_text),
        ("parameters", a.parameters, b.parameters, count),
        ("FLOPs", a.flops, b.flops, count),
        ("nodes", a.nodes, b.nodes, count),
    ]
    return [
        (name, _text(x, write), _text(y, write), _ratio(x, y))
        for name, x, y, write in rows
        if x is not None or y is not None
    ]


def _text(number: float | None, write: Any) -> str:
    return "–" if number is None else str(write(number))


def _ratio(a: float | None, b: float | None) -> str:
    return f"{b / a:.3f}" if a and b is not None else "–"


def _agreement(agreement: Agreement, with_top1: bool) -> tuple[str, ...]:
    top1 = "–" if agreement.top1 is None else f"{agreement.top1:.2%}"
    sqnr = "equal" if agreement.is_equal else f"{agreement.sqnr:.1f}"
    texts = (sqnr, f"{agreement.cosine:.6f}", f"{agreement.relative_error:.1e}")
    return (*texts, top1) if with_top1 else texts


def _print_layers(result: ModelComparison, top: int) -> None:
    """The layers whose values differ most, in execution order."""
    if not result.layers:
        return
    worst = sorted(range(len(result.layers)), key=lambda i: result.layers[i].agreement.sqnr)
    chosen = sorted(worst[: top or None])
    rows = [
        (str(i + 1), row.name, row.kind, *_agreement(row.agreement, False))
        for i in chosen
        for row in [result.layers[i]]
    ]
    title = f"{len(rows)} of {len(result.layers)} layers, those that differ most"
    terminal.say_table(
        f"{title}, on {result.layer_runs} runs",
        ("##", "layer", "operator", "#SQNR dB", "#cosine", "#relative error"),
        rows,
    )


def _print_operators(result: ModelComparison) -> None:
    ours, theirs = result.a.operators, result.b.operators
    if not ours or not theirs:
        return
    different = [k for k in sorted(ours | theirs) if ours.get(k, 0) != theirs.get(k, 0)]
    rows = [(k, ours.get(k, 0) or "–", theirs.get(k, 0) or "–") for k in different]
    if rows:
        terminal.say_table("nodes by kind that differ", ("operator", "#A", "#B"), rows)
