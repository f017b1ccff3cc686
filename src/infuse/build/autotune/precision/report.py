"""What a search for the fastest precision found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class LayerReport:
    """A layer that some precision changes: its node, and what it computes in.

    `difference` is that of the model when this layer alone rounds (None where none was computed,
    infinite ones too).
    """

    node: str
    operator: str
    precision: str
    difference: float | None = None


@dataclass(frozen=True)
class Timing:
    """The least seconds of a run on the first inputs, and those of fp32, measured in turns with
    it; `noise`: the largest factor between several looks at the same.
    """

    precision: str
    seconds: float
    fp32_seconds: float
    noise: float = 1.0

    @property
    def ratio(self) -> float:
        """The time over that of fp32, taken for as much worse as there is noise."""
        return self.noise * self.seconds / self.fp32_seconds

    def __str__(self) -> str:
        return f"{self.precision} {1e3 * self.seconds:.3f} ms, fp32 {1e3 * self.fp32_seconds:.3f}"


@dataclass
class PrecisionReport:
    """The precision that was chosen, and why."""

    max_difference: float
    """The bound."""
    precision: str = "fp32"
    difference: float | None = 0.0
    """That of the compiled model from fp32: the largest in all outputs and inputs."""
    inputs: list[str] = field(default_factory=list)
    """What was measured on."""
    times: list[Timing] = field(default_factory=list)
    differences: dict[str, float | None] = field(default_factory=dict)
    """Those of the whole model in each precision, None where they are infinite."""
    layers: list[LayerReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Why others were not chosen."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> PrecisionReport:
        """The report that `to_dict` made plain. TypeError for anything else."""
        layers = [LayerReport(**layer) for layer in data["layers"]]
        times = [Timing(**timing) for timing in data["times"]]
        return cls(**{**data, "layers": layers, "times": times})

    def lines(self) -> list[str]:
        """What to say of it."""
        counts = [layer.precision for layer in self.layers]
        shares = ", ".join(f"{n}: {counts.count(n)}" for n in dict.fromkeys(counts))
        named = f"{self.precision} (layers in {shares})" if shares else self.precision
        times = "; ".join(map(str, self.times)) or "nothing to time"
        chosen = (
            f"precision {named}: {told(self.difference)} of the largest element from fp32, within "
            f"the bound of {self.max_difference:g}"
        )
        return [chosen, f"measured on {'; '.join(self.inputs)}", f"times: {times}", *self.notes]


def finite(number: float) -> float | None:
    """A number as JSON has it: None where it is infinite."""
    return number if math.isfinite(number) else None


def told(number: float | None) -> str:
    """A difference for people."""
    return "more than any number" if number is None else f"{number:.1e}"
