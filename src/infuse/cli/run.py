"""`infuse run`: one inference on given or random inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.flags import Only, Without, with_flags
from infuse.cli.models import Opened, open_model
from infuse.cli.options import AsJson, InputArchive, InputFiles, ModelOrFolder, check_output
from infuse.data.answers import elements, statistics, summary, type_text, write_arrays
from infuse.data.arrays import read_inputs
from infuse.errors import InputError, OptionError
from infuse.ir.graph import Array
from infuse.options import CompileOptions, Examples, Rules


@with_flags
def run(
    model: ModelOrFolder,
    options: Annotated[CompileOptions, Without("prefix", "embed", "single", "profile", "size")],
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
        arrays = read_inputs(files, archive, [spec.name for spec in compiled.inputs])
        if all(spec.name in arrays or spec.optional for spec in compiled.inputs):
            data.require_no("a run whose inputs are all given", "dims", "seed")
        if not random:
            _require_all(opened, arrays)
        fed = opened.feeds(arrays, data.sizes, data.seed) if random else arrays
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
    terminal.answer(facts, as_json, lambda: _print(facts, results))


def _require_all(opened: Opened, arrays: Mapping[str, Array]) -> None:
    missing = [
        spec for spec in opened.model.inputs if spec.name not in arrays and not spec.optional
    ]
    if missing:
        raise InputError(
            f"no array is given for {', '.join(map(str, missing))}",
            hint=f"give it with --input {missing[0].name}=FILE.npy, or let --random make it up",
        )


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
