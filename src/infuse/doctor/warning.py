"""A warning for models whose exporter wrote other numbers than the framework computes."""

from __future__ import annotations

import re
import warnings
from typing import Final

from infuse.doctor.examine import examine, table
from infuse.doctor.graph_file import facts_of_graph
from infuse.doctor.recorded import NODE
from infuse.doctor.table import targets_of
from infuse.ir.graph import Graph

_TARGET: Final = re.compile(r"target=torch\.ops\.(\w+\.\w+)")
_NAMED: Final = 3


def warn_of_exporter(graph: Graph, where: str) -> None:
    """Warn of each fault that the graph of an exported file shows, in one warning.

    Notes on special numbers are for `infuse doctor` alone.
    """
    called = {
        match[1]
        for inner in graph.all_graphs()
        for node in inner.unordered_nodes
        if (match := _TARGET.search(node.metadata.get(NODE, "")))
    }
    faults = [fault for fault in table() if fault.by == "torch.onnx" and not fault.note]
    if called.isdisjoint(set().union(*(targets_of(fault.detect) for fault in faults))):
        return
    every = [d for d in examine(facts_of_graph(graph, "ONNX"), ()) if not d.fault.note]
    if not every:
        return
    shown = "; ".join(
        f"{each.node}{f' ({each.line})' if each.line else ''}: {each.fault.wrong}, where "
        f"{each.fault.right}"
        for each in every[:_NAMED]
    )
    more = f"; and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    warnings.warn(
        f"{where}: the exporter did not write what PyTorch computes: {shown}{more}. "
        "`infuse doctor` says more, and repairs it",
        RuntimeWarning,
        stacklevel=5,
    )
