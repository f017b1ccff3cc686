"""The methods by name: what they make of the layers of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from infuse.analysis.dataset import Feeds
from infuse.compression.forms import BlockForm, DynamicForm, Form
from infuse.compression.layers import Layer
from infuse.compression.observation import Observations, Progress, observe
from infuse.compression.ranges import Scale
from infuse.compression.static import StaticOptions, between_layers, plan_static, relative_error
from infuse.compression.weights import blocks, round_to_nearest
from infuse.errors import OptionError
from infuse.ir.graph import Graph, Value

CALIBRATION_RUNS = 300
"""Runs that tell ranges at most."""
BLOCK = 32
"""Rows of weights of few bits that share a scale."""


@dataclass
class Plan:
    """The forms that layers could have, and what is to be said of them."""

    forms: dict[Layer, Form] = field(default_factory=dict)
    between: dict[Value, Scale] = field(default_factory=dict)
    calibrators: dict[Layer, str] = field(default_factory=dict)
    errors: dict[Layer, float] = field(default_factory=dict)
    """The power of the error of a layer's result over that of the result."""
    refused: dict[Layer, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """What methods work with."""

    graph: Graph
    layers: Sequence[Layer]
    runs: Sequence[Feeds] | None
    static: StaticOptions
    threads: int | None
    seed: int
    progress: Progress | None

    def observed(self, values: Sequence[Value] = ()) -> Observations:
        """What layers see on the data. OptionError where there are none."""
        if self.runs is None:
            raise OptionError(
                "static quantization needs data that tell the ranges of activations",
                hint="give some (--data, data=), or quantize dynamically (--int8-dynamic)",
            )
        picked = np.linspace(0, len(self.runs) - 1, min(len(self.runs), CALIBRATION_RUNS))
        runs = [self.runs[int(number)] for number in picked]
        return observe(
            self.graph,
            self.layers,
            values,
            runs,
            threads=self.threads,
            seed=self.seed,
            progress=self.progress,
        )


def static_int8(setting: Setting) -> Plan:
    """Activations and weights as 8-bit integers, ranges of activations from data."""
    seen = setting.observed(between_layers(setting.graph, setting.layers))
    plan = plan_static(setting.graph, setting.layers, seen, setting.static)
    forms: dict[Layer, Form] = dict(plan.layers)
    return Plan(forms, plan.between, plan.calibrators, plan.errors, plan.refused)


def dynamic_int8(setting: Setting) -> Plan:
    """Activations and weights as 8-bit integers, ranges of activations from each run: products
    only, as convolutions gain nothing by it.
    """
    plan = Plan()
    for layer in setting.layers:
        if layer.kind == "Conv":
            plan.refused[layer] = "convolutions gain nothing by ranges of each run"
        elif not np.isfinite(layer.matrices).all():
            plan.refused[layer] = "its weights are not finite"
        else:
            weights = round_to_nearest(layer.matrices)
            plan.forms[layer] = DynamicForm(weights)
            plan.errors[layer] = relative_error(weights.numbers, layer.matrices)
    return plan


def _weights_of(bits: int) -> Callable[[Setting], Plan]:
    def method(setting: Setting) -> Plan:
        plan = Plan()
        for layer in setting.layers:
            depth = layer.matrices.shape[1]
            if layer.kind == "Conv":
                plan.refused[layer] = "weights of convolutions are not stored in few bits"
            elif not np.isfinite(layer.matrices).all():
                plan.refused[layer] = "its weights are not finite"
            elif depth % BLOCK:
                plan.refused[layer] = f"its {depth} rows are no multiple of a block of {BLOCK}"
            else:
                weights = blocks(layer.matrices[0], bits, BLOCK)
                plan.forms[layer] = BlockForm(weights)
                plan.errors[layer] = relative_error(weights.numbers, layer.matrices[0])
        return plan

    return method


METHODS: Mapping[str, Callable[[Setting], Plan]] = {
    "int8": static_int8,
    "int8-dynamic": dynamic_int8,
    "int8-weights": _weights_of(8),
    "int4": _weights_of(4),
}
NEEDS_DATA = frozenset({"int8"})
