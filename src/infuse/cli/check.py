"""`infuse check` and `infuse convert`: what is in a model file, whether all of it can be run, and
the same graph in another format.
"""

from __future__ import annotations

import warnings
from typing import Any

import typer

import infuse
from infuse.analysis.summary import by_operator, summary
from infuse.build.compile import Compilation
from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.models import load_model
from infuse.cli.options import AsJson, ModelFile, ModelOutput, check_model_output
from infuse.cli.show import print_interface
from infuse.doctor.warning import ExporterWarning, faults_of_exporter
from infuse.frontends.formats import format_name
from infuse.ir.graph import Graph, Node
from infuse.ops.core.opaque import unknown_nodes
from infuse.options import FormatOptions
from infuse.options.commands import FileOptions

MISSING = "unknown"
HOSTED = "interpreter"


@with_flags
def check(
    model: ModelFile,
    format: FormatOptions,
    as_json: AsJson = False,
) -> None:
    """Say what a model file holds, and every operator in it that is not known or has no native
    code.

    Exit status 1 where an operator is not known.
    """
    facts: dict[str, Any] = {"format": format_name(model)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExporterWarning)
        graph = load_model(model, format)
    facts |= summary(graph)
    missing = unknown_nodes(graph)
    hosted = [] if missing else _hosted(graph)
    facts["problems"] = [*by_operator(missing, MISSING), *by_operator(hosted, HOSTED)]
    facts["faults"] = [
        {"node": d.node, "line": d.line, "is": d.fault.wrong, "should": d.fault.right}
        for d in faults_of_exporter(graph)
    ]
    terminal.answer(facts, as_json, lambda: _print(facts))
    if missing:
        raise typer.Exit(1)


@with_flags
def convert(
    model: ModelFile,
    output: ModelOutput,
    format: FormatOptions,
    own: FileOptions,
) -> None:
    """Write a model in another format, as it is: no rule is applied."""
    check_model_output(output, own)
    graph = load_model(model, format)
    infuse.save(graph, output, **vars(own))
    size = terminal.bytes_text(output.stat().st_size)
    terminal.say(f"{output}: {len(graph)} nodes, {size}, from {format_name(model)}")


def _hosted(graph: Graph) -> list[Node]:
    """The nodes that the interpreter would run in the compiled model."""
    return Compilation(infuse.optimize(graph)).stages().host_nodes


def _print(facts: dict[str, Any]) -> None:
    terminal.say(f"format: {facts['format']}")
    print_interface(facts)
    rows = [
        tuple(each[key] for key in ("operator", "count", "is", "first"))
        for each in facts["problems"]
    ]
    if facts["faults"]:
        title = "not what the framework computes (infuse doctor says more, and repairs it)"
        lines = [tuple(each[key] for key in ("node", "line", "is")) for each in facts["faults"]]
        terminal.say_table(title, ("node", "called at", "the file's"), lines)
    if not rows:
        terminal.say(f"all {facts['nodes']} nodes have native code")
        return
    terminal.say_table("without native code", ("operator", "#count", "run by", "first"), rows)
    if any(problem["is"] == MISSING for problem in facts["problems"]):
        terminal.say("infuse compile refuses the model for its unsupported operators")
