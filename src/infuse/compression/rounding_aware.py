"""Tuning for integers: weights learn with activations and weights rounded as they will be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from infuse.compression.forms import StaticForm, Writer
from infuse.compression.layers import Layer, find_layers
from infuse.compression.lessons import Lessons
from infuse.compression.observation import observe
from infuse.compression.static import StaticOptions, between_layers, plan_static
from infuse.compression.tuning import TuneOptions, TuningReport, tune, tuned_parameters
from infuse.data.dataset import Feeds
from infuse.errors import OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Value, constant
from infuse.profiling.progress import Progress


def tune_for_integers(
    graph: Graph,
    runs: Sequence[Feeds],
    lessons: Lessons,
    options: TuneOptions,
    score: Callable[[Graph], float],
    *,
    static: StaticOptions,
    higher_is_better: bool = True,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Graph, TuningReport]:
    """A copy of a graph in float32 whose weights were tuned while the layers that static
    quantization takes were rounded to 8 bits, by scales from `runs`; gradients pass the rounding as
    if there were none. Scores are those of the rounded graph. OptionError where no layer can be
    rounded.
    """
    rounded, copies = with_rounding(graph, runs, static, seed, threads)
    parameters = [copies[value] for value in tuned_parameters(graph)]
    best, report = tune(
        rounded,
        lessons,
        options,
        score,
        higher_is_better=higher_is_better,
        parameters=parameters,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    learned = dict(zip(rounded.constants(), best.constants()))
    values: dict[Value, Value] = {}
    result = clone(graph, values)
    for value in tuned_parameters(graph):
        values[value].const = learned[copies[value]].const
    return result, report


def with_rounding(
    graph: Graph, runs: Sequence[Feeds], static: StaticOptions, seed: int, threads: int | None
) -> tuple[Graph, dict[Value, Value]]:
    """A copy in which activations and weights of layers are rounded to 8 bits and back, the weights
    constants in float32 still; and the copies of all values.
    """
    layers = find_layers(graph)
    seen = observe(graph, layers, between_layers(graph, layers), runs, threads=threads, seed=seed)
    plan = plan_static(graph, layers, seen, static)
    if not plan.layers:
        raise OptionError("no layer of the model can be rounded to 8 bits", where="tuning")
    copies: dict[Value, Value] = {}
    copy = clone(graph, copies)
    for layer, form in plan.layers.items():
        _round_layer(copy, copies, layer, form)
    return copy, copies


def _round_layer(copy: Graph, copies: dict[Value, Value], layer: Layer, form: StaticForm) -> None:
    node = copies[layer.node.output].producer
    assert node is not None
    write = Writer(copy, node, layer.name or layer.kind)
    activation = copies[layer.activation]
    node.set_operand(
        0, write.dequantize(write.quantize(activation, form.activation), form.activation)
    )
    steps = constant(np.asarray(form.weights.channel_scales, np.float32))
    zeros = constant(np.zeros(steps.shape, np.int8))
    axis = layer.channel_axis
    integers = write("QuantizeLinear", copies[layer.constant], steps, zeros, axis=axis)
    node.set_operand(1, write("DequantizeLinear", integers, steps, zeros, axis=axis))
