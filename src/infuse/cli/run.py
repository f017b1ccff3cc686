"""`infuse run`: one inference on given or random inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from infuse.cli import inputs, terminal
from infuse.cli.flags import Only, Without, with_flags
from infuse.cli.models import Opened, open_model
from infuse.cli.options import (
    AsJson,
    InputArchive,
    InputFiles,
    ModelOrFolder,
    check_output,
)
from infuse.cli.outputs import elements, statistics, summary, type_text, write_arrays
from infuse.errors import InputError, OptionError
from infuse.ir.graph import Array
from infuse.ops.core.feeds import index_limits
from infuse.options import CompileOptions, Examples, Rules


@with_flags
def run(
    model: ModelOrFolder,
    options: Annotated[CompileOptions, Without("prefix")],
    rules: Annotated[Rules, Without("runtime")],
    data: Annotated[Examples, Only("dims", "seed")],
    files: InputFiles = None,
    archive: InputArchive = None,
    random: Annotated[
        bool, typer.Option("--random", help="Make up the inputs that are not given.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.npz", help="Write the outputs here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a model once and print what comes out."""
    if output is not None:
        check_output(output, ".npz")
    if not random:
        for flag, value in (("--dim", data.sizes), ("--seed", data.seed)):
            if value:
                what = f"{flag} has no use in a run without random inputs"
                raise OptionError(what, hint="add --random")
    opened = open_model(model, options, rules)
    with opened.model as compiled:
        arrays = inputs.read_inputs(files, archive, [spec.name for spec in compiled.inputs])
        if all(spec.name in arrays or spec.optional for spec in compiled.inputs):
            data.require_no("a run whose inputs are all given", "dims", "seed")
        fed = (
            complete(opened, arrays, data.sizes, data.seed)
            if random
            else _all_given(opened, arrays)
        )
        started = time.perf_counter()
        results = compiled.run(fed)
        seconds = time.perf_counter() - started
    if output is not None:
        write_arrays(output, results)
    facts: dict[str, Any] = {
        "inputs": [{"name": name, "type": type_text(array)} for name, array in fed.items()],
        "outputs": [
            {"name": name, "type": type_text(array), **statistics(array), **elements(array)}
            for name, array in results.items()
        ],
        "seconds": seconds,
        "output": None if output is None else str(output),
    }
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts, results)


def complete(
    opened: Opened, arrays: Mapping[str, Array], sizes: Mapping[str, int], seed: int
) -> dict[str, Array]:
    """The given inputs, and random ones for the others; sizes that given inputs show hold for
    all.
    """
    specs = opened.model.inputs
    shown = {
        size: array.shape[axis]
        for spec in specs
        if (array := arrays.get(spec.name)) is not None and array.ndim == len(spec.shape)
        for axis, size in enumerate(spec.shape)
        if isinstance(size, str) and size.isidentifier()
    }
    values = inputs.sizes(specs, {**shown, **sizes})
    limits = {} if opened.graph is None else index_limits(opened.graph)
    return {**inputs.random_inputs(specs, values, seed, limits), **arrays}


def _all_given(opened: Opened, arrays: Mapping[str, Array]) -> dict[str, Array]:
    missing = [
        spec for spec in opened.model.inputs if spec.name not in arrays and not spec.optional
    ]
    if missing:
        raise InputError(
            f"no array is given for {', '.join(map(str, missing))}",
            hint=f"give it with --input {missing[0].name}=FILE.npy, or let --random make it up",
        )
    return dict(arrays)


def _print(facts: dict[str, Any], results: Mapping[str, Any]) -> None:
    for entry in facts["inputs"]:
        terminal.say(f"input {entry['name']}: {entry['type']}")
    numbers = ("min", "max", "mean", "std")
    rows = [
        (
            entry["name"],
            entry["type"],
            *(f"{entry[key]:.6g}" if key in entry else "–" for key in numbers),
            entry.get("not_finite", "–"),
        )
        for entry in facts["outputs"]
    ]
    terminal.say_table(
        "outputs", ("name", "type", *(f"#{key}" for key in numbers), "#not finite"), rows
    )
    for name, value in results.items():
        terminal.say(summary(name, value))
    terminal.say(f"ran in {facts['seconds'] * 1e3:.2f} ms (the first run also plans the memory)")
    if facts["output"]:
        terminal.say(f"wrote {facts['output']}")
