"""Static quantization: activations as 8-bit or 16-bit integers and weights as 8-bit integers, with
scales that data tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from infuse import dtypes
from infuse.compression.forms import StaticForm
from infuse.compression.freed import give_back_freed_memory
from infuse.compression.gptq import gptq_channels
from infuse.compression.insertion import passes_bytes
from infuse.compression.layers import Floats, Layer, multiply
from infuse.compression.observation import Observations
from infuse.compression.ranges import CALIBRATORS, Scale, candidates
from infuse.compression.scratch import ScratchArrays
from infuse.compression.weights import IntegerWeights, importance_of, round_to_nearest
from infuse.dtypes import DType
from infuse.errors import OptionError
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.lowering.expand.integer_products import digits_fit
from infuse.mapped import give_back

COMPENSATED_DEPTH = 1024
"""Products of a sum beyond which errors of rounding are as good as independent, and cancel."""
LEAST_ROWS = 32
"""Rows from which errors are made to cancel."""
WORDS_NAME = "int16 activations"
"""What reports call products of activations of 16 bits and weights of 8."""
SIGNIFICANT = 3.0
"""Standard errors that a mean error exceeds before it is corrected."""


@dataclass(frozen=True)
class StaticOptions:
    """How operands are rounded. `calibrator` is `auto` (for each activation the one with the least
    error of the layers that read it) or one of `CALIBRATORS`. `activations` is the type of their
    integers, uint8 or uint16.
    """

    calibrator: str = "auto"
    symmetric: bool = False
    per_channel: bool = True
    bias_correction: bool = True
    activations: DType = dtypes.uint8

    def __post_init__(self) -> None:
        if self.calibrator != "auto" and self.calibrator not in CALIBRATORS:
            raise OptionError(
                f"there is no calibrator {self.calibrator!r}",
                hint=f"calibrators: auto, {', '.join(CALIBRATORS)}",
            )

    @property
    def has_words(self) -> bool:
        """Whether activations have 16 bits."""
        return self.activations.bits == 16


@dataclass
class StaticPlan:
    """All that could be integers: layers, and activations between them with their scales."""

    layers: dict[Layer, StaticForm]
    between: dict[Value, Scale]
    calibrators: dict[Layer, str] = field(default_factory=dict)
    errors: dict[Layer, float] = field(default_factory=dict)
    """The power of the error of a layer's result over that of the result, on exact operands."""
    refused: dict[Layer, str] = field(default_factory=dict)
    """Layers that stay in float32, and why."""


def plan_static(
    graph: Graph,
    layers: Sequence[Layer],
    seen: Observations,
    options: StaticOptions,
    replaced: Mapping[Layer, Floats] | None = None,
    *,
    scratch: ScratchArrays | None = None,
) -> StaticPlan:
    """How each layer is computed on integers; `replaced` are matrices that are rounded in place of
    its weights. The integers lie in `scratch`, if there is one.
    """
    others = replaced or {}
    plan = StaticPlan({}, {})
    readers: dict[Value, list[Layer]] = defaultdict(list)
    for layer in layers:
        why = _refusal(layer, seen)
        if why:
            plan.refused[layer] = why
        else:
            readers[layer.activation].append(layer)
    for value, users in readers.items():
        rows_of = {layer: seen.rows[layer] for layer in users}
        weights = {
            layer: nearest_weights(others.get(layer, layer.matrices), rows, options)
            for layer, rows in rows_of.items()
        }
        exact = {layer: multiply(rows, layer.matrices) for layer, rows in rows_of.items()}
        name, scale = best_scale(value, weights, exact, seen, options)
        for layer, nearest in weights.items():
            rows = rows_of[layer]
            matrices = others.get(layer, layer.matrices)
            integers = _compensated(matrices, nearest, scale.rounded(rows), exact[layer])
            form, error = _settled(rows, exact[layer], scale, integers, options)
            if options.has_words and not _digits_fit(form):
                plan.refused[layer] = "sums of its products with 16 bits could leave 32 bits"
            else:
                plan.layers[layer] = form.stored(layer, scratch)
                plan.errors[layer], plan.calibrators[layer] = error, name
            give_back(layer.weights)
        give_back_freed_memory()
    for value in () if options.has_words else between_layers(graph, plan.layers):
        observed = seen.ranges.get(value)
        if observed is not None and observed.is_finite:
            plan.between[value] = candidates(observed, "mse")[0][1]
    return plan


def _refusal(layer: Layer, seen: Observations) -> str:
    """Why a layer cannot be computed on integers; nothing where it can."""
    if not seen.ranges[layer.activation].is_finite:
        return "its activation is not finite on the data"
    if not layer.is_finite:
        return "its weights are not finite"
    if not len(seen.rows[layer]):
        return "its activation was empty on the data"
    return ""


def _digits_fit(form: StaticForm) -> bool:
    """Whether kernels multiply the weights of a layer by activations of 16 bits."""
    return all(digits_fit(matrix) for matrix in form.weights.integers)


def nearest_weights(matrices: Floats, rows: Floats, options: StaticOptions) -> IntegerWeights:
    """Weights rounded to nearest, for rows that they multiply."""
    return round_to_nearest(matrices, importance_of(rows), options.per_channel)


def _compensated(
    matrices: Floats, nearest: IntegerWeights, rows: Floats, exact: Array
) -> IntegerWeights:
    """Integers whose errors make up for each other on the rows (GPTQ), where that holds for rows
    that they were not made from, else the nearest ones.
    """
    if matrices.shape[1] > COMPENSATED_DEPTH or len(rows) < LEAST_ROWS:
        return nearest
    trial = gptq_channels(matrices, nearest.scales, rows[::2])
    errors = [
        relative_error(multiply(rows[1::2], each.numbers), exact[1::2]) for each in (nearest, trial)
    ]
    return gptq_channels(matrices, nearest.scales, rows) if errors[1] < errors[0] else nearest


def best_scale(
    value: Value,
    weights: Mapping[Layer, IntegerWeights],
    exact: Mapping[Layer, Array],
    seen: Observations,
    options: StaticOptions,
) -> tuple[str, Scale]:
    """The scale of an activation with the least error of the layers that read it."""
    offers = candidates(
        seen.ranges[value], options.calibrator, options.activations, options.symmetric
    )
    if len(offers) == 1:
        return offers[0]

    def error(scale: Scale) -> float:
        return sum(
            relative_error(multiply(scale.rounded(seen.rows[layer]), w.numbers), exact[layer])
            for layer, w in weights.items()
        )

    return min(offers, key=lambda offer: error(offer[1]))


def relative_error(values: Array, exact: Array) -> float:
    """The power of a difference over that of the exact values."""
    power = _power(exact.astype(np.float64))
    noise = _power(values.astype(np.float64) - exact)
    return noise / power if power > 0 else float(noise > 0)


def _power(values: Array) -> float:
    flat = values.reshape(-1)
    return float(np.dot(flat, flat))


def _settled(
    rows: Floats, exact: Array, scale: Scale, weights: IntegerWeights, options: StaticOptions
) -> tuple[StaticForm, float]:
    """A layer on integers, its bias corrected, and its error; `exact` are its products of rows."""
    values = multiply(scale.rounded(rows), weights.numbers)
    correction = mean_error(values - exact) if options.bias_correction else None
    if correction is not None:
        values = values - correction.reshape(values.shape[1:])
    negative = None if correction is None else -correction
    form = StaticForm(scale, weights, negative, WORDS_NAME if options.has_words else "int8")
    return form, relative_error(values, exact)


def mean_error(errors: Array) -> Array | None:
    """The mean of errors [rows, groups, columns] for each channel, where it stands out of their
    spread; None where it does nowhere.
    """
    count = len(errors)
    if count < 8:
        return None
    mean, spread = errors.mean(0).reshape(-1), errors.std(0).reshape(-1)
    stands_out = np.abs(mean) > SIGNIFICANT * spread / np.sqrt(count)
    return np.asarray(np.where(stands_out, mean, 0), np.float32) if stands_out.any() else None


def between_layers(graph: Graph, layers: Iterable[Layer]) -> list[Value]:
    """Activations of images that no layer reads and that are better integers all the same: the
    operand of a sum that waits for the other one.
    """
    rounded = {layer.activation for layer in layers}
    order = {node: number for number, node in enumerate(graph.nodes)}
    waiting = []
    for node in order:
        if node.kind != "Add" or len(node.inputs) != 2 or not _feeds(node, rounded):
            continue
        first, second = node.inputs
        if first is None or second is None or not passes_bytes(node, first):
            continue
        operands = [v for v in (first, second) if v.producer is not None]
        if len(operands) < 2 or rounded.intersection(operands) or first is second:
            continue
        earlier = min(operands, key=lambda v: order.get(_maker(v), -1))
        if earlier.shape == node.output.shape:
            waiting.append(earlier)
    return list(dict.fromkeys(waiting))


def _maker(value: Value) -> Node:
    assert value.producer is not None
    return value.producer


def _feeds(node: Node, rounded: set[Value]) -> bool:
    """Whether the result of a node is an activation that is rounded, with an activation function
    between at most.
    """
    result = node.output
    if result in rounded:
        return True
    return any(user.kind in ("Relu", "Clip") and user.output in rounded for user in result.users())
