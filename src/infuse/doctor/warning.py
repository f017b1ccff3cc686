"""A warning for models whose exporter wrote other numbers than the framework computes."""

from __future__ import annotations

import warnings
from typing import Final

from infuse.doctor.examine import Diagnostic, examine
from infuse.doctor.graph_file import facts_of_graph
from infuse.ir.graph import Graph

_NAMED: Final = 3


class ExporterWarning(RuntimeWarning):
    """A model file does not say what its framework computes."""


def faults_of_exporter(graph: Graph) -> list[Diagnostic]:
    """What the graph of an exported file shows of its exporter's faults, notes aside."""
    if graph.metadata.get("onnx.producer_name") != "pytorch":
        return []
    return examine(facts_of_graph(graph, "ONNX"), (), notes=False)


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
