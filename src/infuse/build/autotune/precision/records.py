"""Outcomes of searches on this machine, by model, inputs and bound."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuse.build.autotune.precision.report import PrecisionReport
from infuse.build.autotune.precision.request import Sample
from infuse.build.autotune.records import CacheRecord
from infuse.ir.graph import Graph, Node
from infuse.lowering.precisions import LayerPrecisions
from infuse.runtime.model import CompiledModel
from infuse.targets import Target

Outcome = tuple[LayerPrecisions, PrecisionReport]


class OutcomeRecord(CacheRecord):
    """The outcome of a search. A model is known by what it is compiled to in fp32."""

    def __init__(
        self,
        target: Target,
        exact: CompiledModel,
        tune: bool,
        max_difference: float,
        samples: Sequence[Sample],
    ) -> None:
        facts = (
            exact.folder.name,
            f"{exact.threads} threads",
            "tuned" if tune else "",
            repr(max_difference),
            _digest(samples),
        )
        super().__init__("precision", "precisions that were found", target, facts)

    def read(self, graph: Graph) -> Outcome | None:
        """The outcome for `graph`, None where there is none."""
        nodes = _nodes(graph)

        def parsed(content: Mapping[str, Any]) -> Outcome:
            layers = {nodes[place].serial: str(name) for place, name in content["layers"]}
            report = PrecisionReport.parse(content["report"])
            return LayerPrecisions(str(content["default"]), layers), report

        return self.load(parsed)

    def store(self, graph: Graph, precisions: LayerPrecisions, report: PrecisionReport) -> None:
        """Store an outcome."""
        layers = [
            (place, precisions.layers[node.serial])
            for place, node in enumerate(_nodes(graph))
            if node.serial in precisions.layers
        ]
        content = {"default": precisions.default, "layers": layers, "report": report.to_dict()}
        self.write(content)


def _nodes(graph: Graph) -> list[Node]:
    """All nodes, in an order that only depends on the graph."""
    return [node for inner in graph.all_graphs() for node in inner.nodes]


def _digest(samples: Sequence[Sample]) -> str:
    digest = hashlib.sha256()
    for sample in samples:
        for name, value in sorted(sample.feeds.items()):
            array = np.ascontiguousarray(value)
            digest.update(repr((name, array.dtype.str, array.shape)).encode())
            digest.update(array.tobytes())
    return digest.hexdigest()
