"""Optimizations of whole networks held to the meaning of the original, and networks made small that
are not kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.exporters.onnx import to_model
from infuse.frontends.onnx import load
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.ir.printer import changed_attributes
from infuse.ir.verify import verify
from infuse.ops.core.base import Op
from infuse.ops.core.evaluate import evaluate
from infuse.passes.rules import ALL_RULES
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Report
from infuse.rewrite.refine import Change, compare_types
from tests.support.generators.networks import Network
from tests.support.sensitivity import Judge

OPSETS = (None, 13, None, 15, 18, None, 20, 21, 22, 24)
"""Opsets that graphs are written in, in turn; None is the lowest one that can express them."""
ROUNDING = frozenset(rule.name for rule in ALL_RULES if rule.rounding)


def complaint(network: Network, options: Selection, *, export: bool = True) -> str | None:
    """What an optimization with these options gets wrong on a network, None when nothing is.

    Types and names of outputs stay, the verifier is content, results agree within what rounding
    explains (to the last bit where no rule fired that rounds), and the graph comes back the same
    from an ONNX file.
    """
    graph = clone(network.graph)
    report = optimize_in_place(graph, options)
    verify(graph)
    changed = _types(network.graph, graph)
    if changed is not None:
        return changed
    opset = OPSETS[len(graph) % len(OPSETS)]
    again, stored = reloaded(graph, opset) if export else None, as_stored(graph)
    for feeds in network.feeds:
        try:
            expected = evaluate(network.graph, feeds)
        except InfuseError:
            continue
        results = evaluate(graph, feeds)
        wrong = None
        if not (network.extreme and rounds(report)):
            wrong = Judge(network.graph, feeds, expected, rewritten=rounds(report)).complaint(
                results
            )
        if wrong is None and again is not None and not network.extreme:
            judge = Judge(again, feeds, evaluate(again, feeds), rewritten=True)
            # Where an operator is written as several, its attributes keep their digits.
            wrong = judge.complaint(results) and judge.complaint(evaluate(stored, feeds))
            wrong = wrong and f"as ONNX of opset {opset or 'its own'}: {wrong}"
        if wrong is not None:
            sizes = {v.name: list(np.shape(feeds[v.name])) for v in network.graph.inputs}
            return f"{wrong}; inputs {sizes}; fired: {', '.join(sorted(report.fired))}"
    return None


def rounds(report: Report) -> bool:
    """Whether a rule fired that rounds otherwise than the original."""
    return any(name in ROUNDING for name in report.fired)


def reloaded(graph: Graph, opset: int | None = None) -> Graph | None:
    """The graph as it comes back from an ONNX model of this opset; None where that has no words for
    it.
    """
    try:
        model = to_model(graph, opset)
    except UnsupportedOperatorError:
        return None
    return load(model)


def as_stored(graph: Graph) -> Graph:
    """A copy whose attributes have the digits that come back from ONNX: as many as float32
    needs.
    """
    copy = clone(graph)
    for inner in copy.all_graphs():
        for node in inner.unordered_nodes:
            attributes = changed_attributes(node).items()
            numbers = {k: float(str(np.float32(v))) for k, v in attributes if isinstance(v, float)}
            if numbers and isinstance(node.op, Op):
                node.op = node.op.replace(**numbers)
    return copy


def _types(before: Graph, after: Graph) -> str | None:
    if before.output_names != after.output_names or [v.name for v in before.inputs] != [
        v.name for v in after.inputs
    ]:
        return f"outputs {before.output_names} became {after.output_names}"
    for name, old, new in zip(before.output_names, before.outputs, after.outputs):
        if compare_types(old.type, new.type) not in (Change.SAME, Change.BETTER):
            return f"output {name}: the type {old.type} became {new.type}"
    return None


def guilty(network: Network, options: Selection) -> list[str]:
    """Rules without any one of which the optimization is right."""
    fired = _fired(network, options)
    return [name for name in fired if failure(network, _without(options, name)) is None]


def _fired(network: Network, options: Selection) -> list[str]:
    graph = clone(network.graph)
    try:
        return sorted(optimize_in_place(graph, options).fired)
    except Exception:
        return []


def _without(options: Selection, name: str) -> Selection:
    return replace(options, disable={*options.disable, name})


def failure(network: Network, options: Selection) -> str | None:
    """The same as `complaint`; what the optimizer or the interpreter raises is a complaint too."""
    try:
        return complaint(network, options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
