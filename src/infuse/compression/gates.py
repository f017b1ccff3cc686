"""Recurrent layers, whose weights become integers of 8 bits; states, sums and biases stay as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from infuse import dtypes
from infuse.compression.forms import Writer
from infuse.compression.layers import Layer
from infuse.compression.static import relative_error
from infuse.compression.weights import IntegerWeights, round_to_nearest
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ops.recurrent_base import Recurrent

if TYPE_CHECKING:
    from infuse.compression.methods import Plan

OPERANDS = (1, 2)
"""W, which multiplies the input, and R, which multiplies the state."""


class Gates(Layer):
    """An RNN, GRU or LSTM with constant weights [directions, gates · hidden, k] of float32."""

    @property
    def arrays(self) -> list[Array]:
        """The elements of W and R."""
        return [_constant(self.node, index) for index in OPERANDS]

    @property
    def is_finite(self) -> bool:
        return all(bool(np.isfinite(array).all()) for array in self.arrays)


def find_gates(graph: Graph) -> list[Gates]:
    """The recurrent layers of a graph in order, without those of bodies of control flow."""
    return [Gates(node) for node in graph.nodes if _has_constant_weights(node)]


def _has_constant_weights(node: Node) -> bool:
    if not isinstance(node.op, Recurrent) or node.op.domain:
        return False
    x, weights = node.input(0), [node.input(index) for index in OPERANDS]
    if x is None or x.const is not None or x.dtype != dtypes.float32:
        return False
    return all(w is not None and w.const is not None and w.const.size for w in weights)


def _constant(node: Node, index: int) -> Array:
    value = node.inputs[index]
    assert value is not None
    assert value.const is not None
    return value.const


@dataclass(frozen=True, eq=False)
class GatesForm:
    """A recurrent layer with weights of 8 bits: W and R as [directions, k, gates · hidden]."""

    weights: Sequence[IntegerWeights]
    name: str = "int8 weights"
    activation: None = None

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        write = Writer(graph, node, layer.name or layer.kind)
        for index, each in zip(OPERANDS, self.weights):
            node.set_operand(index, _dequantized(write, each))


def _dequantized(write: Writer, weights: IntegerWeights) -> Value:
    """What integers stand for, with a scale for each row: along one axis, as every runtime has it,
    where there is one direction, else in blocks as long as a row.
    """
    integers = np.ascontiguousarray(weights.integers.transpose(0, 2, 1))
    directions, _, k = integers.shape
    if directions == 1:
        return write.integers(integers, weights.channel_scales, 1)
    scales = np.ascontiguousarray(weights.scales.transpose(0, 2, 1))
    return write.integers(integers, scales, 2, block_size=k)


def add_gates(plan: Plan, layers: Sequence[Gates]) -> None:
    """Give recurrent layers their form in a plan."""
    for layer in layers:
        if not layer.is_finite:
            plan.refused[layer] = "its weights are not finite"
            continue
        exact = [np.ascontiguousarray(array.transpose(0, 2, 1)) for array in layer.arrays]
        weights = [round_to_nearest(matrices) for matrices in exact]
        plan.forms[layer] = GatesForm(weights)
        plan.errors[layer] = max(
            relative_error(each.numbers, matrices) for each, matrices in zip(weights, exact)
        )
