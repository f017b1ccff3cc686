"""`infuse show`: what a model is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.analysis.comparison import quantity
from infuse.analysis.summary import summary
from infuse.build.compile import Compilation
from infuse.cli import terminal
from infuse.cli.flags import Without, flags_of, with_flags
from infuse.cli.folders import describe_folder, say_compiled, say_rows
from infuse.cli.models import note_search, require_file
from infuse.cli.options import AsJson, ModelOrFolder
from infuse.cli.outputs import kept_lines, say_precisions, weights_text
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.ops.core.rows import RowReport, independent_rows
from infuse.options import CompileOptions, Rules
from infuse.profiling.lowered import Lowered
from infuse.runtime.folder import is_compiled


@with_flags
def show(
    model: ModelOrFolder,
    options: Annotated[CompileOptions, Without("prefix")],
    rules: Annotated[Rules, Without("runtime")],
    text: Annotated[
        bool,
        typer.Option(
            "--text",
            help="Print the graph in its text form; with --kernels, the lowered program.",
        ),
    ] = False,
    kernels: Annotated[
        bool,
        typer.Option(
            "--kernels", help="List the kernel calls of the compiled form, and its memory."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print a model's inputs, outputs, operators and size; of a compiled model its files, target
    and precision.

    Target, threads and precision are those that the kernel calls are for.
    """
    given = [*flags_of(options), *flags_of(rules)]
    if given and not kernels:
        raise OptionError(
            f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for kernels, and none are "
            "listed",
            hint="add --kernels",
        )
    if is_compiled(model):
        if text or kernels:
            require_file(model, "a compiled model has no graph in it")
        _show_folder(model, as_json)
        return
    graph = infuse.load(model)
    lowered = None
    if kernels:
        lowered = lower(graph, options, rules)
    if text and not as_json:
        print(print_graph(graph) if lowered is None else lowered.text(), end="")
        return
    facts = {**summary(graph), "rows": _rows(graph).to_dict()}
    if lowered is not None:
        facts["kernels"] = lowered.describe()
    if text:
        facts["text"] = print_graph(graph)
        if lowered is not None:
            facts["kernels"]["text"] = lowered.text()
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)


def _show_folder(folder: Path, as_json: bool) -> None:
    facts = describe_folder(folder)
    if as_json:
        terminal.say_json(facts)
    else:
        say_compiled(str(folder), facts)


def _rows(graph: Graph) -> RowReport:
    """What is proven of the rows of a batch, as a server asks: of the graph or, where a node of it
    prevents the proof, of the optimized one.
    """
    report = independent_rows(graph)
    return independent_rows(infuse.optimize(graph)) if report.node else report


def lower(
    graph: Graph, options: CompileOptions = CompileOptions(), rules: Rules = Rules()
) -> Lowered:
    """The optimized graph as programs of kernel calls for a target."""
    with terminal.progress(graph.name) as report:
        better = infuse.optimize(graph, rules, progress=report)
        note_search(better)
        compilation, found = Compilation(better, options, report).decided()
        return Lowered(compilation, compilation.stages(), found)


def _choice_text(choice: dict[str, Any] | None) -> str:
    """What was chosen and by what: "winograd4 (measured)"."""
    return "" if choice is None else f"{choice['chosen']} ({choice['by']})"


def print_interface(facts: dict[str, Any]) -> None:
    """Inputs, outputs and sizes (see `analysis.summary`)."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    terminal.say(f"{facts['name']}: {facts['nodes']} nodes{opsets and f', opsets {opsets}'}")
    terminal.say(
        f"{facts['parameters']:,} parameters, {terminal.bytes_text(facts['weights_bytes'])} of "
        "constants"
    )
    cost = facts["cost"]
    sizes = ", ".join(f"{name} = {size}" for name, size in cost["sizes"].items())
    terminal.say(
        f"{quantity(cost['flops'])} FLOPs ({quantity(cost['macs'])} MACs)"
        f"{f' for {sizes}' if sizes else ''}"
    )
    if facts["dynamic_axes"]:
        terminal.say(f"dynamic axes: {', '.join(facts['dynamic_axes'])}")
    rows = [
        (kind, entry["name"], entry["type"])
        for kind in ("inputs", "outputs")
        for entry in facts[kind]
    ]
    terminal.say_table(
        "", ("", "name", "type"), [(kind.removesuffix("s"), *rest) for kind, *rest in rows]
    )


def _print(facts: dict[str, Any]) -> None:
    print_interface(facts)
    say_rows(facts["rows"])
    terminal.say_table("operators", ("operator", "#count"), facts["operators"].items())
    if "kernels" in facts:
        _print_kernels(facts["kernels"])


def _print_kernels(kernels: dict[str, Any]) -> None:
    calls = kernels["calls"]
    rows = [
        (
            i,
            call["kernel"],
            call["algorithm"],
            _choice_text(call["choice"]),
            call["precision"] or "",
            len(call["nodes"]),
            ", ".join(call["nodes"]),
        )
        for i, call in enumerate(calls)
    ]
    columns = ("##", "computes", "kernel", "chosen (by)", "precision", "#nodes", "names")
    terminal.say_table("kernel calls", columns, rows)
    free = kernels["nodes_without_call"]
    terminal.say(
        f"{len(calls)} calls of {kernels['functions']} functions for {kernels['nodes']} nodes"
        + (f"; {free} of them need none (views, sizes)" if free else "")
    )
    if kernels["host_steps"]:
        terminal.say(
            f"without a native kernel, run by the interpreter: {', '.join(kernels['host_steps'])}"
        )
    if kernels["unknown_steps"]:
        terminal.say(
            f"unsupported, infuse compile refuses them: {', '.join(kernels['unknown_steps'])}"
        )
    sizes = (kernels["packed_weights_bytes"], kernels["constants_bytes"])
    terminal.say(f"{weights_text(*sizes, kernels['weights'])}, precision {kernels['precision']}")
    say_precisions(kernels["precision_report"])
    for line in kernels["target_remarks"]:
        terminal.say(f"target: {line}")
    for line in kept_lines(kernels["kept_in_fp32"]):
        terminal.say(line)
    if kernels["arena_bytes"] is None:
        terminal.say("arena: planned at run time, for the sizes of each call")
    else:
        arena, bound = kernels["arena_bytes"], kernels["arena_lower_bound"]
        terminal.say(f"arena: {arena:,} bytes, lower bound {bound:,} bytes")
