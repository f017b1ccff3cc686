"""`infuse compile`: a folder that runs without a compiler."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import terminal
from infuse.cli.folders import file_sizes, say_folder
from infuse.cli.inputs import read_data
from infuse.cli.models import note_search
from infuse.cli.options import (
    AsJson,
    Cache,
    ChosenLevel,
    Data,
    Described,
    Level,
    MaxDifference,
    ModelFile,
    Precision,
    Search,
    Signature,
    Target,
    Threads,
    Tune,
    WeightSize,
    load_model,
)
from infuse.cli.outputs import weights_text
from infuse.codegen.weights import constant_bytes


def compile(
    model: ModelFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder to write.")
    ],
    target: Target = "native",
    threads: Threads = None,
    level: ChosenLevel = Level.all,
    precision: Precision = "fp32",
    max_difference: MaxDifference = None,
    data: Data = None,
    tune: Tune = False,
    search: Search = 0.0,
    weights: WeightSize = "fast",
    prefix: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="What the names of the C functions begin with; one for each model."
        ),
    ] = "infuse",
    described: Described = None,
    signature: Signature = None,
    cache: Cache = False,
    as_json: AsJson = False,
) -> None:
    """Compile a model to a folder: library, weights, header and source.

    Kernels are chosen for the number of threads that runs will have.
    """
    sets = read_data(data)
    started = time.perf_counter()
    graph = load_model(model, described, signature, cache)
    with terminal.progress(model.name) as progress:
        better = infuse.optimize(graph, level.value, search=search, progress=progress)
        optimized = time.perf_counter()
        with infuse.compile(
            better,
            target=target,
            threads=threads,
            precision=precision,
            max_difference=max_difference,
            data=sets,
            tune=tune,
            weights=weights,
            output=output,
            prefix=prefix,
            progress=progress,
        ) as compiled:
            facts = {
                "output": str(output),
                "target": target,
                "precision": compiled.metadata.get("precision", precision),
                "precision_report": compiled.metadata.get("precision_report"),
                "inputs": [str(spec) for spec in compiled.inputs],
                "outputs": [str(spec) for spec in compiled.outputs],
                "arena": compiled.metadata.get("arena"),
                "rows": compiled.metadata.get("rows"),
                "kept_in_fp32": compiled.metadata.get("kept_in_fp32", {}),
                "host_steps": compiled.host_steps,
                "weights": weights,
                "weights_bytes": compiled.weights_bytes,
                "constants_bytes": constant_bytes(better),
            }
    note_search(better)
    facts["optimize_seconds"] = optimized - started
    facts["compile_seconds"] = time.perf_counter() - optimized
    facts["files"] = file_sizes(output)
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)


def _print(facts: dict[str, Any]) -> None:
    say_folder(facts["output"], facts)
    terminal.say(weights_text(facts["weights_bytes"], facts["constants_bytes"], facts["weights"]))
    terminal.say(
        f"optimized in {facts['optimize_seconds']:.2f} s, compiled in "
        f"{facts['compile_seconds']:.2f} s"
    )
