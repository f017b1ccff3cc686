"""An inspection: what every layer of a model costs, and the time that this machine needs for it at
least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infuse.analysis.cost import number
from infuse.analysis.layers import Layer, Layers, layers_of
from infuse.analysis.sheets import render_sheet
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ir.html import frame
from infuse.options.commands import LAYER_GROUPINGS
from infuse.profiling.roof import Roof

ARITHMETIC, MEMORY, NOTHING = "arithmetic", "memory", "nothing"
"""What bounds the speed of a layer."""


@dataclass
class LayerCost:
    """What some layers cost together in one run of the model.

    `flops` and `macs` count what is known. `seconds` is the time that the machine needs at least:
    of each layer the longer of its arithmetic at the peak for its numbers, and of its memory access
    at the bandwidth. `bound_by` says which of the two takes longer.
    """

    label: str
    kind: str
    output: str
    layers: int
    runs: int
    parameters: int
    weight_bytes: int
    macs: int
    flops: int
    read: int
    written: int
    seconds: float
    bound_by: str
    number: str
    is_known: bool

    @classmethod
    def together(cls, label: str, rows: Sequence[LayerCost], kind: str = "") -> LayerCost:
        """The sum of rows; bound by what bounds those that take most of the time."""
        times = {
            bound: sum(row.seconds for row in rows if row.bound_by == bound)
            for bound in (ARITHMETIC, MEMORY)
        }
        slower = max(times, key=lambda bound: times[bound])
        return cls(
            label,
            kind,
            "",
            sum(row.layers for row in rows),
            sum(row.runs for row in rows),
            sum(row.parameters for row in rows),
            sum(row.weight_bytes for row in rows),
            sum(row.macs for row in rows),
            sum(row.flops for row in rows),
            sum(row.read for row in rows),
            sum(row.written for row in rows),
            sum(times.values()),
            slower if times[slower] else NOTHING,
            ", ".join(sorted({row.number for row in rows if row.macs})),
            all(row.is_known for row in rows),
        )

    @property
    def bytes(self) -> int:
        """Memory access: bytes read and written."""
        return self.read + self.written

    @property
    def intensity(self) -> float | None:
        """Arithmetic operations for every byte of memory access; None where there is none."""
        return self.flops / self.bytes if self.bytes else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `flops` and `macs` are None where some are not known."""
        return {
            "label": self.label,
            "kind": self.kind,
            "output": self.output,
            "layers": self.layers,
            "runs": self.runs,
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
            "macs": self.macs if self.is_known else None,
            "flops": self.flops if self.is_known else None,
            "read": self.read,
            "written": self.written,
            "intensity": self.intensity if self.is_known else None,
            "bound_ms": self.seconds * 1e3,
            "bound_by": self.bound_by,
            "number": self.number,
        }


@dataclass
class Inspection:
    """What `infuse.inspect` has counted: the layers of a model under a machine's roof."""

    model: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    level: str
    sizes: dict[str, int]
    roof: Roof
    layers: list[LayerCost]
    notes: list[str] = field(default_factory=list)

    def _repr_html_(self) -> str:
        """The page of the report, as notebooks show it."""
        return frame(render_sheet("inspection", self.to_dict(), self.model))

    @property
    def total(self) -> LayerCost:
        """All layers together, one after another."""
        return LayerCost.together("total", self.layers)

    @property
    def kinds(self) -> list[LayerCost]:
        """A row for every kind of operator, from the longest least time to the shortest."""
        groups: dict[str, list[LayerCost]] = {}
        for layer in self.layers:
            groups.setdefault(layer.kind, []).append(layer)
        rows = [LayerCost.together(kind, layers, kind) for kind, layers in groups.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    def table(self, by: str = "layer") -> list[LayerCost]:
        """Rows for every layer in execution order, or for every kind of operator. OptionError for
        another grouping.
        """
        if by not in LAYER_GROUPINGS:
            raise OptionError(
                f"rows cannot be grouped by {by!r}",
                hint=f"one of: {', '.join(LAYER_GROUPINGS)}",
            )
        return self.layers if by == "layer" else self.kinds

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; the page shows nothing else."""
        roof = self.roof
        return {
            "model": self.model,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "level": self.level,
            "sizes": dict(self.sizes),
            "target": roof.target,
            "threads": roof.threads,
            "peak_flops": dict(roof.peaks),
            "peak_bytes": roof.bandwidth,
            "total": self.total.to_dict(),
            "layers": [row.to_dict() for row in self.layers],
            "kinds": [row.to_dict() for row in self.kinds],
            "notes": list(self.notes),
        }


def inspect_graph(
    graph: Graph, roof: Roof, sizes: Mapping[str, int] | None = None, level: str = "none"
) -> Inspection:
    """The inspection of a graph as it is, with these sizes for its symbols (see `infuse.inspect`).

    OptionError for symbols that the graph does not have.
    """
    counted = layers_of(graph, sizes)
    return Inspection(
        graph.name,
        {value.name: str(value.type) for value in graph.inputs},
        {name: str(v.type) for name, v in zip(graph.output_names, graph.outputs)},
        level,
        counted.sizes,
        roof,
        [_under(roof, layer) for layer in counted.rows],
        _notes(counted, roof),
    )


def _under(roof: Roof, layer: Layer) -> LayerCost:
    macs, flops, read, written = (
        number(size)
        for size in (layer.cost.macs, layer.cost.flops, layer.cost.read, layer.cost.written)
    )
    arithmetic, memory = flops / roof.peak(layer.number), (read + written) / roof.bandwidth
    slower = ARITHMETIC if arithmetic > memory else MEMORY
    return LayerCost(
        f"{layer.body} / {layer.name}" if layer.body else layer.name,
        layer.kind,
        layer.output,
        1,
        layer.runs,
        layer.parameters,
        layer.weight_bytes,
        macs,
        flops,
        read,
        written,
        max(arithmetic, memory),
        slower if arithmetic or memory else NOTHING,
        layer.number,
        layer.cost.is_known,
    )


def _notes(counted: Layers, roof: Roof) -> list[str]:
    notes = list(counted.notes)
    used = {layer.number for layer in counted.rows if layer.cost.macs}
    notes += [
        f"target {roof.target} has no instruction for products of {kind}: their peak is that of "
        "fp32"
        for kind in sorted(used - roof.peaks.keys())
    ]
    return notes
