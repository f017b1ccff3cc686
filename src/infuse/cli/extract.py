"""`infuse extract`: a part of a model as a model of its own."""

from __future__ import annotations

from typing import Annotated

import infuse
from infuse.analysis.summary import summary
from infuse.cli import terminal
from infuse.cli.flags import Only, with_flags
from infuse.cli.options import AsJson, ModelFile, ModelOutput, check_model_output
from infuse.cli.show import print_interface
from infuse.options.commands import FileOptions, PartOptions


@with_flags
def extract(
    model: ModelFile,
    output: ModelOutput,
    part: PartOptions,
    file: Annotated[FileOptions, Only("opset")],
    as_json: AsJson = False,
) -> None:
    """Write the part of a model that computes some of its values from others.

    Values have the names that infuse show --text and the page of infuse view tell.
    """
    check_model_output(output, file)
    graph = infuse.extract(infuse.load(model), inputs=part.inputs, outputs=part.outputs)
    infuse.save(graph, output, opset=file.opset)
    facts = {**summary(graph), "output": terminal.file_facts(output)}
    terminal.answer(facts, as_json, lambda: print_interface(facts))
    terminal.say_written(output, as_json)
