"""A file's diagnosis: what its exporter got wrong, and what runtimes will."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from infuse.doctor.examine import Diagnostic, examine, runtimes_of
from infuse.doctor.facts import FileFacts
from infuse.doctor.graph_file import facts_of_graph
from infuse.doctor.onnx_file import facts_of
from infuse.doctor.repair import repaired
from infuse.doctor.retrace import retraced, written_calls
from infuse.doctor.trials import CallReport, compare_calls, difference
from infuse.errors import InfuseError
from infuse.frontends.formats import format_name, load
from infuse.frontends.onnx import opened
from infuse.ir.graph import Graph

MEASURED: Final = 100
"""Calls of which is measured how far the file is from them."""


@dataclass(frozen=True)
class Diagnosis:
    """What a model file shows of the table of faults, with the graph of the file."""

    model: str
    producer: str
    producer_version: str
    runtimes: Sequence[str]
    diagnostics: Sequence[Diagnostic]
    graph: Graph

    @property
    def faults(self) -> list[Diagnostic]:
        """Those that change results for ordinary numbers."""
        return [each for each in self.diagnostics if not each.fault.note]

    @property
    def notes(self) -> list[Diagnostic]:
        """Those that concern special numbers alone."""
        return [each for each in self.diagnostics if each.fault.note]

    def repaired(self) -> tuple[Graph, dict[str, str]]:
        """The graph with the framework's meaning of each call that the exporter got wrong; why the
        others, by the names of their nodes, are as they were.
        """
        texts = {each.text: each.node for each in self.diagnostics if each.repairable}
        graph, left = repaired(self.graph, texts)
        return graph, {texts[text]: why for text, why in left.items()}

    def compare_calls(self) -> CallReport:
        """Every call that the exporter recorded, traced again and compared on numbers of trials:
        finds also what no row of the table knows.
        """
        return compare_calls(self.graph)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain data."""
        return {
            "model": self.model,
            "producer": self.producer,
            "producer_version": self.producer_version,
            "runtimes": list(self.runtimes),
            "faults": [*map(_plain, self.faults)],
            "notes": [*map(_plain, self.notes)],
        }


def diagnose(source: str | PathLike[str], names: Sequence[str] | None = None) -> Diagnosis:
    """The diagnosis of a model file for these runtimes and tools (None: those of its format)."""
    path = Path(fspath(source))
    graph = load(path)
    facts = _facts(path, graph)
    found = examine(facts, names)
    texts = [*dict.fromkeys(each.text for each in found if each.repairable)][:MEASURED]
    measured = _differences(graph, texts)
    return Diagnosis(
        str(path),
        facts.producer,
        facts.producer_version,
        runtimes_of(facts.format) if names is None else names,
        [replace(each, difference=measured.get(each.text)) for each in found],
        graph,
    )


def _facts(path: Path, graph: Graph) -> FileFacts:
    name = format_name(path)
    return facts_of(opened(path), graph) if name == "ONNX" else facts_of_graph(graph, name)


def _differences(graph: Graph, texts: Collection[str]) -> dict[str, float | None]:
    """How far calls are from what they mean, where that can be computed."""
    measured = {}
    for written in written_calls(graph) if texts else ():
        if written.call.text in texts:
            try:
                measured[written.call.text] = difference(written, *retraced(written))
            except InfuseError:
                measured[written.call.text] = None
    return measured


def _plain(each: Diagnostic) -> dict[str, Any]:
    fault = each.fault
    return {
        "fault": fault.name,
        "by": fault.by,
        "versions": list(fault.versions),
        "untested": each.version if each.untested else None,
        "node": each.node,
        "operator": each.kind,
        "line": each.line,
        "call": each.call,
        "right": fault.right,
        "wrong": fault.wrong,
        "when": fault.when,
        "difference": each.difference,
        "advice": fault.advice,
        "proof": fault.proof,
    }
