"""`infuse show`: what a model is made of."""

from __future__ import annotations

from typing import Annotated, Any

import infuse
from infuse.analysis.comparison import quantity
from infuse.analysis.summary import summary
from infuse.cli import terminal
from infuse.cli.flags import Without, flags_of, with_flags
from infuse.cli.folders import (
    say_compiled,
    say_hosted,
    say_kept,
    say_limited,
    say_precisions,
    say_rows,
    weights_text,
)
from infuse.cli.models import note_search, require_file
from infuse.cli.options import AsJson, ModelOrFolder
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.measuring import describe_folder
from infuse.ops.core.rows import RowReport, independent_rows
from infuse.options import CompileOptions, Rules
from infuse.options.commands import ShowOptions
from infuse.profiling.lowered import Lowered
from infuse.runtime.folder import is_compiled


@with_flags
def show(
    model: ModelOrFolder,
    options: Annotated[CompileOptions, Without("prefix", "embed", "single", "profile", "size")],
    rules: Annotated[Rules, Without("runtime")],
    own: ShowOptions,
    as_json: AsJson = False,
) -> None:
    """Print a model's inputs, outputs, operators and size; of a compiled model its files, target
    and precision.

    Target, threads and precision are those that the kernel calls are for.
    """
    given = [*flags_of(options), *flags_of(rules)]
    if given and not own.kernels:
        flags, verb = " and ".join(given), "is" if len(given) == 1 else "are"
        what = f"{flags} {verb} for kernels, and none are listed"
        raise OptionError(what, hint="add --kernels")
    if is_compiled(model):
        if own.text or own.kernels:
            require_file(model, "a compiled model has no graph in it")
        described = describe_folder(model)
        terminal.answer(described, as_json, lambda: say_compiled(str(model), described))
        return
    graph = infuse.load(model)
    lowered = _lower(graph, options, rules) if own.kernels else None
    if own.text and not as_json:
        print(print_graph(graph) if lowered is None else lowered.text(), end="")
        return
    facts = {**summary(graph), "rows": _rows(graph).to_dict()}
    if lowered is not None:
        facts["kernels"] = lowered.describe()
    if own.text:
        facts["text"] = print_graph(graph)
        if lowered is not None:
            facts["kernels"]["text"] = lowered.text()
    terminal.answer(facts, as_json, lambda: _print(facts))


def _lower(graph: Graph, options: CompileOptions, rules: Rules) -> Lowered:
    with terminal.progress(graph.name) as report:
        better = infuse.optimize(graph, rules, progress=report)
        note_search(better)
        return Lowered.of(better, options, report)


def _rows(graph: Graph) -> RowReport:
    """What is proven of the rows of a batch, as a server asks: of the graph or, where a node of it
    prevents the proof, of the optimized one.
    """
    report = independent_rows(graph)
    return independent_rows(infuse.optimize(graph)) if report.node else report


def _choice_text(choice: dict[str, Any] | None) -> str:
    """What was chosen and by what: "winograd4 (measured)"."""
    return "" if choice is None else f"{choice['chosen']} ({choice['by']})"


def print_interface(facts: dict[str, Any]) -> None:
    """Inputs, outputs and sizes (see `analysis.summary`)."""
    opsets = terminal.fields_text(facts["opsets"], " ")
    terminal.say(f"{facts['name']}: {facts['nodes']} nodes{opsets and f', opsets {opsets}'}")
    terminal.say(
        f"{facts['parameters']:,} parameters, {terminal.bytes_text(facts['weights_bytes'])} of "
        "constants"
    )
    cost = facts["cost"]
    sizes = terminal.fields_text(cost["sizes"], " = ")
    terminal.say(
        f"{quantity(cost['flops'])} FLOPs ({quantity(cost['macs'])} MACs)"
        f"{f' for {sizes}' if sizes else ''}"
    )
    if facts["dynamic_axes"]:
        terminal.say(f"dynamic axes: {', '.join(facts['dynamic_axes'])}")
    rows = [
        (kind, entry["name"], entry["type"])
        for kind in ("input", "output")
        for entry in facts[f"{kind}s"]
    ]
    terminal.say_table("", ("", "name", "type"), rows)


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
    say_hosted(kernels["host_steps"])
    if kernels["unknown_steps"]:
        terminal.say(
            f"unsupported, infuse compile refuses them: {', '.join(kernels['unknown_steps'])}"
        )
    sizes = (kernels["packed_weights_bytes"], kernels["constants_bytes"])
    terminal.say(f"{weights_text(*sizes, kernels['weights'])}, precision {kernels['precision']}")
    say_precisions(kernels["precision_report"])
    for line in kernels["target_remarks"]:
        terminal.say(f"target: {line}")
    say_limited(kernels["limited_kernels"])
    say_kept(kernels["kept_in_fp32"])
    if kernels["arena_bytes"] is None:
        terminal.say("arena: planned at run time, for the sizes of each call")
    else:
        arena, bound = kernels["arena_bytes"], kernels["arena_lower_bound"]
        terminal.say(f"arena: {arena:,} bytes, lower bound {bound:,} bytes")
