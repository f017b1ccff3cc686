"""`infuse compress`: a smaller and faster model, with a bound on what it may lose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import terminal
from infuse.cli.flags import Flag, Flags, Without, with_flags
from infuse.cli.options import (
    AsJson,
    ModelFile,
    ModelOutput,
    ReportFile,
    check_output,
    check_report,
)
from infuse.compression import CompressionReport
from infuse.compression.report import LayerReport, PruningReport
from infuse.errors import ContractError, OptionError
from infuse.options import (
    METHODS,
    Clusters,
    CompressOptions,
    Contract,
    Examples,
    Prune,
    Sparse,
    SparseInt8,
    Tune,
)
from infuse.options.compressing import Methods, with_fields
from infuse.options.fields import About, OptionField, fields_of, summary_of

COLUMNS = "layer|operator|is|range|#error dB|#float32 ms|#ms|why"
WIDE = 120
"""Columns of a terminal from which the table of layers shows everything."""


def _methods(**given: Any) -> Methods | None:
    """The methods that flags name, with those of their fields that are given."""
    names = [name for name in METHODS if given.pop(name, None)]
    if "sparsity" in given:
        names.append("sparse-int8" if "int8" in names else "sparse")
        names = [name for name in names if (name, names[-1]) != ("int8", "sparse-int8")]
    elif "block" in given:
        raise OptionError("--block says where zeros lie", hint="give their part too (--sparse 80%)")
    pruning = {each.name: given.pop(each.name) for each in fields_of(Prune) if each.name in given}
    if pruning and "part" not in pruning:
        flags = [each.flag for each in fields_of(Prune) if each.name in pruning]
        raise OptionError(
            f"{' and '.join(flags)}: options of pruning, and nothing is pruned",
            hint="prune, too (--prune 50%)",
        )
    return with_fields(names or None, Prune(**pruning) if pruning else None, given)


def _method_flags() -> Iterator[Flag]:
    """A flag for each method and for each of their fields."""
    kinds = [kind for kind in METHODS.values() if not issubclass(kind, Sparse | SparseInt8)]
    for kind in kinds:
        about = About(summary_of(kind), f"--{kind.name}")
        yield Flag(OptionField(kind.name, False, about, bool), is_optional=True)
    every = [*fields_of(Prune), *(each for kind in METHODS.values() for each in fields_of(kind))]
    for each in {each.flag: each for each in every}.values():
        yield Flag(each, is_optional=True)


@with_flags
def compress(
    model: ModelFile,
    output: ModelOutput,
    methods: Annotated[Any, Flags(_methods, list(_method_flags()))],
    tune: Tune,
    data: Annotated[Examples, Without("dims")],
    contract: Contract,
    options: Annotated[CompressOptions, Without("level")],
    top: Annotated[int, typer.Option(min=0, help="Layers to print; 0 for all.")] = 30,
    report: ReportFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a model smaller and faster.

    Of several methods each layer gets the one that is cheapest for what it changes in the outputs.
    With --max-drop, layers stay in float32 until the score is within the bound; the exit status is
    1 where it cannot be met, and no model is written. The report shows what was tried: scores, the
    time of a run, and bytes.
    """
    coded = any(isinstance(method, Clusters) for method in methods)
    check_output(output, *((".infuse",) if coded else (".onnx", ".infuse")))
    check_report(report)
    level = "basic" if output.suffix == ".onnx" else "all"
    with terminal.progress(model.name) as progress:
        try:
            result = infuse.compress(
                infuse.load(model),
                methods,
                data=data,
                contract=contract,
                tune=tune,
                options=replace(options, level=level),
                progress=progress,
            )
        except ContractError as error:
            _tell(error.report, model, report, top, as_json, None)
            raise
    infuse.save(result, output, coded=coded)
    _tell(result.compression, model, report, top, as_json, output)


def _tell(
    result: CompressionReport,
    model: Path,
    report: Path | None,
    top: int,
    as_json: bool,
    output: Path | None,
) -> None:
    """Write the report, where one is asked for, and print what it says."""
    if report is not None:
        result.write(report, model.name)
    size = None if output is None else output.stat().st_size
    file = None if output is None else str(output)
    facts = {**result.to_dict(), "output": file, "output_bytes": size}
    terminal.answer(facts | terminal.report_facts(report), as_json, lambda: _show(result, top))
    if size is not None and not as_json:
        terminal.say(f"wrote {output}, {terminal.bytes_text(size)}")
    terminal.say_written(report, as_json)


def _show(report: CompressionReport, top: int) -> None:
    if report.pruning is not None:
        _show_groups(report.pruning, top)
    if report.layers:
        is_narrow = terminal.width() < WIDE
        reasons = _reasons(report) if is_narrow else {}
        rows = [_row(layer, reasons) for layer in report.layers]
        left_out = ("operator", "range") if is_narrow else ()
        terminal.say_table("", *terminal.fitted(COLUMNS, left_out, terminal.top_rows(rows, top)))
        for reason, number in reasons.items():
            terminal.say(f"{number}: {reason}")
    for line in report.lines():
        terminal.say(line)


def _row(layer: LayerReport, reasons: Mapping[str, str]) -> tuple[str, ...]:
    """A layer by `COLUMNS`; reasons that have a number stand as that."""
    return (
        layer.node,
        layer.operator,
        layer.form,
        layer.calibrator,
        "" if layer.noise is None else f"{layer.noise:.1f}",
        _milliseconds(layer.float_seconds),
        _milliseconds(layer.seconds),
        reasons.get(layer.reason, layer.reason),
    )


def _reasons(report: CompressionReport) -> dict[str, str]:
    """Numbers of the reasons, which are told below a narrow table."""
    reasons = dict.fromkeys(layer.reason for layer in report.layers if layer.reason)
    return {reason: f"({number})" for number, reason in enumerate(reasons, 1)}


def _show_groups(pruning: PruningReport, top: int) -> None:
    """The channels of each group before and after, and of each layer that had to stay why."""
    rows = [
        (", ".join(group.nodes), str(group.before), str(group.after), "")
        for group in pruning.groups
    ]
    rows += [(layer.node, "", "", layer.reason) for layer in pruning.closed]
    columns = ("layers", "#channels", "#now", "why they stay")
    terminal.say_table("", columns, terminal.top_rows(rows, top))


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}"
