"""`infuse compress`: a smaller and faster model, with a bound on what it may lose."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

import infuse
from infuse.analysis.metrics import NAMES
from infuse.cli import options, terminal
from infuse.cli.inputs import read_array, read_data, read_metric
from infuse.cli.options import AsJson, ModelFile, ModelOutput, ReportFile, Seed, Threads
from infuse.compression import CompressionReport
from infuse.compression.report import PruningReport
from infuse.errors import ContractError, OptionError


class Goal(str, Enum):
    """What pruning makes smaller."""

    macs = "macs"
    latency = "latency"


class Calibrator(str, Enum):
    """How ranges of activations are chosen."""

    auto = "auto"
    minmax = "min-max"
    percentile = "percentile"
    entropy = "entropy"
    mse = "mse"


def compress(
    model: ModelFile,
    output: ModelOutput,
    int8: Annotated[
        bool,
        typer.Option(
            "--int8",
            help="Activations and weights as 8-bit integers, ranges from the data (default).",
        ),
    ] = False,
    int16_activations: Annotated[
        bool,
        typer.Option(
            "--int16-activations",
            help="Activations as 16-bit and weights as 8-bit integers, ranges from the data: with "
            "--int8 and --max-drop for the layers that 8 bits hurt.",
        ),
    ] = False,
    int8_dynamic: Annotated[
        bool,
        typer.Option("--int8-dynamic", help="The same, ranges of activations from each run."),
    ] = False,
    int8_weights: Annotated[
        bool, typer.Option("--int8-weights", help="Weights of products as 8-bit integers.")
    ] = False,
    int4: Annotated[
        bool, typer.Option("--int4", help="Weights of products as 4-bit integers.")
    ] = False,
    int3: Annotated[
        bool, typer.Option("--int3", help="Weights of products as 3-bit integers.")
    ] = False,
    int2: Annotated[
        bool, typer.Option("--int2", help="Weights of products as 2-bit integers.")
    ] = False,
    prune: Annotated[
        str | None,
        typer.Option(
            metavar="PART",
            help="Remove channels, heads, neurons and, where there are data, channels of hidden "
            "sizes and residual blocks: 50% of the multiplications.",
        ),
    ] = None,
    prune_goal: Annotated[
        Goal, typer.Option(help="What --prune is a part of: multiplications or time of a run.")
    ] = Goal.macs,
    prune_rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of pruning, each with its part of the tuning.")
    ] = 1,
    prune_kinds: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="What may go, with commas between: channels, hidden (sizes that normalizations "
            "join), blocks (residual ones); default: what changes the outputs least.",
        ),
    ] = None,
    tune: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="Tune the compressed model on the data, by the original's answers and the labels: "
            "with --prune, --int8, --sparse or --low-rank.",
        ),
    ] = None,
    tune_epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Tune it for so many epochs.")
    ] = None,
    tune_features: Annotated[
        float,
        typer.Option(
            metavar="WEIGHT",
            help="With --tune: draw values inside the model to the original's, too; 0.1 to 10, "
            "default: by its answers alone.",
        ),
    ] = 0.0,
    low_rank: Annotated[
        bool, typer.Option("--low-rank", help="Layers as chains of two or three smaller ones.")
    ] = False,
    clusters: Annotated[
        bool,
        typer.Option(
            "--clusters", help="Weights of few values, which the .infuse file has in few bits."
        ),
    ] = False,
    sparse: Annotated[
        str | None,
        typer.Option(
            metavar="PART", help="Zeros for this part of the weights, 80% or 0.8; also with --int8."
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Where zeros lie together: 16x1, 16x4, 4x1, 1x1 (output channels x depth) or 2:4; "
            "default: 16x1, and 16x4 with --int8.",
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.npz",
            help="Examples by input name, along the first axis of each array (repeatable).",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy", help="One label for each example of the data."),
    ] = None,
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.npz",
            help="Examples to measure the score on, which the labels belong to; default: the data.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=(
                f"{', '.join(NAMES)}; NAME:OUTPUT for one of several outputs; or FILE.py:FUNCTION, "
                "a function of the outputs of all runs and the labels."
            ),
        ),
    ] = None,
    max_drop: Annotated[
        str | None,
        typer.Option(
            metavar="LOSS",
            help="What the score may lose: 0.5% of that of the original, or 0.005 in its unit.",
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Time that the search may take.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Examples of a run, where the first axis is dynamic.")
    ] = 1,
    threads: Threads = None,
    calibrator: Annotated[
        Calibrator, typer.Option(help="How ranges of activations are chosen.")
    ] = Calibrator.auto,
    no_bias_correction: Annotated[
        bool, typer.Option("--no-bias-correction", help="Leave mean errors in the results.")
    ] = False,
    equalize: Annotated[
        bool,
        typer.Option(
            help="Move scales of channels between layers where these err less for it.",
        ),
    ] = True,
    rotate: Annotated[
        bool,
        typer.Option(
            help="Rotate channels inside the model, with data, where layers err less for it.",
        ),
    ] = True,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="onnxruntime: products with weights of few bits are its MatMulNBits.",
        ),
    ] = None,
    rounded_activations: Annotated[
        bool,
        typer.Option(
            "--rounded-activations",
            help="Products with weights of few bits round their rows to 8 bits, too: faster.",
        ),
    ] = False,
    allow_slower: Annotated[
        bool,
        typer.Option(
            "--allow-slower", help="Compress layers that float32 computes as fast here, too."
        ),
    ] = False,
    seed: Seed = 0,
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
    options.check_output(output, *((".infuse",) if clusters else (".onnx", ".infuse")))
    if report is not None:
        options.check_output(report, ".html", ".json")
    methods = {
        "int8": int8 and sparse is None,
        "int16-activations": int16_activations,
        "int8-dynamic": int8_dynamic,
        "int8-weights": int8_weights,
        "int4": int4,
        "int3": int3,
        "int2": int2,
        "low-rank": low_rank,
        "clusters": clusters,
        "sparse": sparse is not None and not int8,
        "sparse-int8": sparse is not None and int8,
    }
    if block is not None and sparse is None:
        raise OptionError("--block says where zeros lie", hint="give their part too (--sparse 80%)")
    chosen = [name for name, asked in methods.items() if asked]
    with terminal.progress(model.name) as progress:
        try:
            result = infuse.compress(
                infuse.load(model),
                chosen or None,
                prune=prune,
                prune_goal=prune_goal.value,
                prune_rounds=prune_rounds,
                prune_kinds=prune_kinds,
                tune_epochs=tune_epochs,
                tune_minutes=tune,
                tune_features=tune_features,
                data=read_data(data),
                labels=None if labels is None else read_array(labels),
                validation=read_data(validation),
                metric=read_metric(metric),
                max_drop=max_drop,
                minutes=minutes,
                level="basic" if output.suffix == ".onnx" else "all",
                batch=batch,
                threads=threads,
                seed=seed,
                calibrator=calibrator.value,
                bias_correction=not no_bias_correction,
                equalize=equalize,
                rotate=rotate,
                runtime=runtime,
                rounded_activations=rounded_activations,
                sparsity=sparse or "80%",
                block=block or "auto",
                allow_slower=allow_slower,
                progress=progress,
            )
        except ContractError as error:
            _tell(error.report, model, report, top, as_json, None)
            raise
    infuse.save(result, output, coded=clusters)
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
    if as_json:
        file = None if output is None else str(output)
        facts = {**result.to_dict(), "output": file, "output_bytes": size}
        terminal.say_json(facts | terminal.report_facts(report))
        return
    _show(result, top)
    if output is not None and size is not None:
        terminal.say(f"wrote {output}, {terminal.bytes_text(size)}")
    terminal.say_written(report)


def _show(report: CompressionReport, top: int) -> None:
    rows: list[tuple[str, ...]] = [
        (
            *(layer.node, layer.operator, layer.form, layer.calibrator),
            *("" if layer.noise is None else f"{layer.noise:.1f}",),
            *(_milliseconds(layer.float_seconds), _milliseconds(layer.seconds)),
            layer.reason,
        )
        for layer in report.layers
    ]
    shown = rows[:top] if top else rows
    if len(rows) > len(shown):
        shown = [*shown, (f"… {len(rows) - len(shown)} more", *[""] * 7)]
    columns = ("layer", "operator", "is", "range", "#error dB", "#float32 ms", "#ms", "why")
    if report.pruning is not None:
        _show_groups(report.pruning, top)
    if shown:
        terminal.say_table("", columns, shown)
    for line in report.lines():
        terminal.say(line)


def _show_groups(pruning: PruningReport, top: int) -> None:
    """The channels of each group before and after, and of each layer that had to stay why."""
    rows = [
        (", ".join(group.nodes), str(group.before), str(group.after), "")
        for group in pruning.groups
    ]
    rows += [(layer.node, "", "", layer.reason) for layer in pruning.closed]
    shown = rows[:top] if top else rows
    if len(rows) > len(shown):
        shown = [*shown, (f"… {len(rows) - len(shown)} more", "", "", "")]
    terminal.say_table("", ("layers", "#channels", "#now", "why they stay"), shown)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}"
