"""The step of a training as one graph: data, targets, parameters and state in, the loss and the new
parameters and state out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.errors import InputError, OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Use, Value, captured, constant
from infuse.ir.types import TensorType, Type
from infuse.ops.core.base import Op
from infuse.ops.core.differentiation import nodes_between
from infuse.ops.core.signatures import SETTINGS, signature
from infuse.ops.normalization import BatchNormalization
from infuse.passes.binding import set_dims
from infuse.rewrite.patch import remove_dead
from infuse.training.differentiation import (
    Differentiator,
    gradients_of,
    require_float,
    values_of,
)
from infuse.training.losses import Loss
from infuse.training.optimizers import Optimizer
from infuse.training.statistics import use_batch_statistics

LOSS, RATE, STEPS = "loss", "rate", "steps"


@dataclass(frozen=True)
class TrainingStep:
    """The step of a training.

    Inputs are those of the network, the targets by name, the rate and the number of steps so far,
    and then what is carried on from step to step: parameters, statistics that follow the batches,
    and for each slot of the optimizer a tensor like each parameter. Outputs are the loss and what
    is carried on, in the same order.
    """

    graph: Graph
    data: tuple[str, ...]
    """The inputs that change with the batch, in order: those of the network and the targets."""
    parameters: tuple[Value, ...]
    """Constants of the original graph that the optimizer moves."""
    statistics: tuple[Value, ...]
    """Constants of the original graph that follow the batches."""
    slots: int

    def initial(self) -> list[Array]:
        """What the first step is given of what is carried on."""
        constants = [v.const for v in (*self.parameters, *self.statistics) if v.const is not None]
        zeros = [np.zeros_like(v.const) for v in self.parameters]
        return [np.ascontiguousarray(c) for c in constants] + [
            zero.copy() for _ in range(self.slots) for zero in zeros
        ]


def parameters_of(
    graph: Graph,
    chosen: str | Collection[str | Value] | None = None,
    losses: Sequence[tuple[float, Loss]] = (),
) -> list[Value]:
    """The constants of a graph that a training moves: those that are chosen, by themselves or by
    their names (a text is one name), or all floats with axes that are computed with, and that the
    losses depend on where there are any, without the statistics of batch normalizations.

    InputError for what is none of the constants, TypeMismatchError for integers.
    """
    constants = graph.constants()
    if isinstance(chosen, str):
        chosen = [chosen]
    if chosen is not None:
        named: dict[str | Value, Value] = {v.name: v for v in constants}
        named.update((v, v) for v in constants)
        unknown = [each for each in chosen if each not in named]
        if unknown:
            names = sorted(each if isinstance(each, str) else each.name for each in unknown)
            raise InputError(
                f"the graph has no constants {', '.join(map(repr, names))}",
                hint="parameters are constants of the graph that is trained",
            )
        parameters = list(dict.fromkeys(named[each] for each in chosen))
        for value in parameters:
            require_float(value)
        return parameters
    weights = [v for v in constants if v.dtype.is_float and v.rank and v.tensor.size]
    if losses:
        results = [result_of(graph, loss) for _, loss in losses]
        nodes = nodes_between(results, weights)
        reached = {v for node in nodes for v in (*node.operands(), *captured(node))}
        weights = [v for v in weights if v in reached]
    return [v for v in weights if not all(map(_is_setting, v.uses))]


def _is_setting(use: Use) -> bool:
    """Whether a value is read as a statistic, or as sizes, which no training moves."""
    node = use.user
    if not isinstance(node, Node) or not isinstance(node.op, Op):
        return False
    if isinstance(node.op, BatchNormalization):
        return use.index >= 3
    names = signature(type(node.op)).names
    return names[min(use.index, len(names) - 1)] in SETTINGS


def build_step(
    graph: Graph,
    losses: Sequence[tuple[float, Loss]],
    optimizer: Optimizer,
    parameters: Sequence[Value],
    *,
    sizes: Mapping[str, int] | None = None,
    masks: Mapping[Value, Array] | None = None,
    clip_norm: float | None = None,
    batch_statistics: bool = False,
) -> TrainingStep:
    """The step of a training of `graph`, whose constants `parameters` are trained, for these sizes
    of its symbols.

    `masks` tells of elements of some parameters whether they are trained; the others become zeros.
    Gradients are scaled so that the norm of all together is `clip_norm` at most. With
    `batch_statistics`, batch normalizations use those of the batch, and their own follow.
    InputError where there is nothing to train; errors are those of `differentiate`.
    """
    if clip_norm is not None and not clip_norm > 0:
        raise OptionError(f"the norm of the gradients must be positive, found {clip_norm}")
    if not parameters:
        raise InputError("the graph has no parameters that could be trained")
    copies: dict[Value, Value] = {}
    copy = clone(graph, copies)
    if sizes:
        set_dims(copy, sizes)
    make = Differentiator(copy, "step")
    moved = use_batch_statistics(make, copy) if batch_statistics else {}
    statistics = [v for v in graph.constants() if copies[v] in moved]
    loss = _add_loss(make, losses)
    data = tuple(v.name for v in copy.inputs)
    rate = _add_input(copy, RATE, TensorType(dtypes.float32, ()))
    steps = _add_input(copy, STEPS, TensorType(dtypes.int64, ()))
    trained = [
        _input_in_place_of(copy, copies[p], f"parameter.{n}") for n, p in enumerate(parameters)
    ]
    new_statistics = [moved[copies[v]] for v in statistics]
    for number, value in enumerate(statistics):
        _input_in_place_of(copy, copies[value], f"statistic.{number}")
    gradients = _clipped(make, gradients_of(make, loss, trained), clip_norm)
    state = [
        [_add_input(copy, f"{slot}.{n}", value.type) for n, value in enumerate(trained)]
        for slot in optimizer.slots
    ]
    new, slots = optimizer.update(make, rate, steps, trained, gradients, state)
    new = _masked(make, parameters, new, masks or {})
    carried = [*new, *new_statistics, *(v for slot in slots for v in slot)]
    _set_outputs(copy, [loss, *carried], [LOSS, *(f"new.{n}" for n in range(len(carried)))])
    remove_dead(list(copy.unordered_nodes))
    return TrainingStep(copy, data, tuple(parameters), tuple(statistics), len(state))


def _masked(
    make: Differentiator,
    parameters: Sequence[Value],
    new: Sequence[Value],
    masks: Mapping[Value, Array],
) -> list[Value]:
    """What the step makes of parameters, with zeros where masks say so; InputError for masks that
    belong to no parameter, or have another shape.
    """
    for value, mask in masks.items():
        if value not in parameters or value.shape != mask.shape:
            raise InputError(
                f"a mask of shape {mask.shape} fits no parameter that is trained "
                f"({value.name!r}: {value.type})"
            )
    return [
        make("Mul", result, constant(np.asarray(masks[value], result.dtype.numpy)))
        if value in masks
        else result
        for value, result in zip(parameters, new)
    ]


def _add_loss(make: Differentiator, losses: Sequence[tuple[float, Loss]]) -> Value:
    """The sum of losses, whose targets become inputs."""
    graph = make.graph
    targets: dict[str, Value] = {}
    terms = []
    for weight, loss in losses:
        result = result_of(graph, loss)
        type = loss.target_type(result)
        if loss.target not in targets:
            if any(v.name == loss.target for v in graph.inputs):
                raise InputError(
                    f"an input of the graph is called {loss.target!r} like the targets"
                )
            targets[loss.target] = graph.add_input(loss.target, type)
        term = loss.build(make, result, targets[loss.target])
        terms.append(term if weight == 1 else make("Mul", term, weight))
    total = terms[0]
    for term in terms[1:]:
        total = make("Add", total, term)
    return total


def result_of(graph: Graph, loss: Loss) -> Value:
    """The value that a loss is taken of; InputError where there is none."""
    if not graph.outputs:
        raise InputError("the graph has no output that a loss could be taken of")
    named = {**values_of(graph), **dict(zip(graph.output_names, graph.outputs))}
    name = loss.result or graph.output_names[0]
    if name not in named:
        raise InputError(f"there is no value {name!r} to take a loss of")
    return named[name]


def _add_input(graph: Graph, name: str, type: Type) -> Value:
    """A new input, called `name` where none is called so."""
    names = {v.name for v in graph.inputs}
    while name in names:
        name += "_"
    return graph.add_input(name, type)


def _input_in_place_of(graph: Graph, value: Value, name: str) -> Value:
    """A new input that everyone reads who read a constant."""
    new = _add_input(graph, name, value.type)
    value.replace_by(new)
    return new


def _clipped(
    make: Differentiator, gradients: Sequence[Value], norm: float | None
) -> Sequence[Value]:
    """Gradients whose norm, that of all together, is no more than `norm`."""
    if norm is None:
        return gradients
    squares = [make.cast(make("ReduceSumSquare", g, keepdims=0), dtypes.float32) for g in gradients]
    total = make("Sqrt", make("Sum", *squares))
    factor = make("Min", make("Div", make.number(norm, dtypes.float32), total), 1.0)
    return [make("Mul", g, make.cast(factor, g.dtype)) for g in gradients]


def _set_outputs(graph: Graph, values: Sequence[Value], names: Sequence[str]) -> None:
    for index, value in enumerate(graph.outputs):
        value.uses.pop(Use(graph, index), None)
    graph.outputs, graph.output_names = [], []
    for value, name in zip(values, names):
        graph.add_output(value, name)
