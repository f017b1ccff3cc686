"""`infuse check` and `infuse convert`: what is in a model file, whether all of it can be run, and
the same graph in another format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

import infuse
from infuse.analysis.summary import summary
from infuse.build.compile import Compilation
from infuse.cli import options, terminal
from infuse.cli.flags import with_flags
from infuse.cli.models import load_model
from infuse.cli.options import AsJson, ModelFile, ModelOutput, Opset
from infuse.cli.show import print_interface
from infuse.frontends.formats import format_name
from infuse.ir.graph import Graph, Node
from infuse.ops.core.opaque import unknown_nodes
from infuse.options import FormatOptions

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
    graph = load_model(model, format)
    facts |= summary(graph)
    missing = unknown_nodes(graph)
    hosted = [] if missing else _hosted(graph)
    facts["problems"] = [*_problems(missing, MISSING), *_problems(hosted, HOSTED)]
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)
    if missing:
        raise typer.Exit(1)


@with_flags
def convert(
    model: ModelFile,
    output: ModelOutput,
    format: FormatOptions,
    opset: Opset = None,
    coded: Annotated[
        bool,
        typer.Option("--coded", help="Entropy code the weights of an .infuse file, without loss."),
    ] = False,
    cluster_bits: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=8,
            help="With --coded: cluster each weight to 2^BITS values first, which loses accuracy.",
        ),
    ] = None,
) -> None:
    """Write a model in another format, as it is: no rule is applied."""
    options.check_model_output(output, opset)
    graph = load_model(model, format)
    infuse.save(graph, output, opset=opset, coded=coded, cluster_bits=cluster_bits)
    size = terminal.bytes_text(output.stat().st_size)
    terminal.say(f"{output}: {len(graph)} nodes, {size}, from {format_name(model)}")


def _hosted(graph: Graph) -> list[Node]:
    """The nodes that the interpreter would run in the compiled model."""
    return Compilation(infuse.optimize(graph)).stages().host_nodes


def _problems(nodes: Iterable[Node], kind: str) -> list[dict[str, Any]]:
    """Operators with how often they occur, and where first."""
    rows: dict[str, dict[str, Any]] = {}
    for node in nodes:
        name = f"{node.op.domain}::{node.kind}" if node.op.domain else node.kind
        place = node.metadata.get("source", "")
        first = f"{node.name} ({place})" if place else node.name
        row = rows.setdefault(name, {"operator": name, "is": kind, "count": 0, "first": first})
        row["count"] += 1
    return list(rows.values())


def _print(facts: dict[str, Any]) -> None:
    terminal.say(f"format: {facts['format']}")
    print_interface(facts)
    rows = [
        (problem["operator"], problem["count"], problem["is"], problem["first"])
        for problem in facts["problems"]
    ]
    if not rows:
        terminal.say(f"all {facts['nodes']} nodes have native code")
        return
    terminal.say_table("without native code", ("operator", "#count", "run by", "first"), rows)
    if any(problem["is"] == MISSING for problem in facts["problems"]):
        terminal.say("infuse compile refuses the model for its unsupported operators")
