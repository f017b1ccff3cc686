"""A warning for models whose exporter wrote other numbers than the framework computes."""

from __future__ import annotations

import re
import warnings
from typing import Final

from infuse.doctor.examine import Diagnostic, examine, table
from infuse.doctor.graph_file import facts_of_graph
from infuse.doctor.recorded import NODE
from infuse.doctor.table import targets_of
from infuse.ir.graph import Graph

_TARGET: Final = re.compile(r"target=torch\.ops\.(\w+\.\w+)")
_NAMED: Final = 3


class ExporterWarning(RuntimeWarning):
    """A model file does not say what its framework computes."""


def faults_of_exporter(graph: Graph) -> list[Diagnostic]:
    """What the graph of an exported file shows of its exporter's faults, notes aside."""
    if graph.metadata.get("onnx.producer_name") != "pytorch":
        return []
    called = {
        match[1]
        for inner in graph.all_graphs()
        for node in inner.unordered_nodes
        if (match := _TARGET.search(node.metadata.get(NODE, "")))
    }
    faults = [fault for fault in table() if fault.by == "torch.onnx" and not fault.note]
    if called.isdisjoint(set().union(*(targets_of(fault.detect) for fault in faults))):
        return []
    return [d for d in examine(facts_of_graph(graph, "ONNX"), ()) if not d.fault.note]


def warn_of_exporter(graph: Graph, where: str) -> None:
    """Warn of all faults that the graph of an exported file shows of its exporter, at once."""
    every = faults_of_exporter(graph)
    if not every:
        return
    shown = "; ".join(map(str, every[:_NAMED]))
    more = f"; and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    warnings.warn(
        f"{where}: the exporter did not write what PyTorch computes: {shown}{more}. "
        "`infuse doctor` says more, and repairs it",
        ExporterWarning,
        stacklevel=5,
    )
