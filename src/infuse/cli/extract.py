"""`infuse extract`: a part of a model as a model of its own."""

from __future__ import annotations

from typing import Annotated

import typer

import infuse
from infuse.analysis.summary import summary
from infuse.cli import options, terminal
from infuse.cli.options import AsJson, ModelFile, ModelOutput, Opset
from infuse.cli.show import print_interface

Names = list[str] | None


def extract(
    model: ModelFile,
    output: ModelOutput,
    inputs: Annotated[
        Names,
        typer.Option(
            "--input",
            metavar="VALUE",
            help="A value that the part takes (repeatable, or with commas); default: the model's "
            "inputs that it needs.",
        ),
    ] = None,
    outputs: Annotated[
        Names,
        typer.Option(
            "--output-value",
            metavar="VALUE",
            help="A value that the part gives (repeatable, or with commas); default: the model's "
            "outputs.",
        ),
    ] = None,
    opset: Opset = None,
    as_json: AsJson = False,
) -> None:
    """Write the part of a model that computes some of its values from others.

    Values have the names that infuse show --text and the page of infuse view tell.
    """
    options.check_model_output(output, opset)
    graph = infuse.load(model)
    taken, computed = _values("--input", inputs), _values("--output-value", outputs)
    part = infuse.extract(graph, inputs=taken, outputs=computed)
    infuse.save(part, output, opset=opset)
    facts = {**summary(part), "output": {"path": str(output), "bytes": output.stat().st_size}}
    if as_json:
        terminal.say_json(facts)
        return
    print_interface(facts)
    terminal.say(f"wrote {output} ({terminal.bytes_text(output.stat().st_size)})")


def _values(flag: str, texts: Names) -> list[str]:
    refusal = f"{flag} {{!r}} names no value"
    return options.listed(texts or (), refusal, "infuse show --text lists them")
