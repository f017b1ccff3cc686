"""What is left of channels that go: their means, in the biases of what read them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.importance import Activity, Doubles
from infuse.compression.pruning.links import Bools, Contraction
from infuse.ir.graph import Array, Node, Value, constant


def add_means(
    dependencies: Dependencies, alive: Bools, activity: Activity, values: Mapping[Value, Value]
) -> None:
    """Add to biases what readers would compute of the means of channels that are not alive, in the
    copy of the graph without them; `values` are the copies of its values. What has no constant
    bias behind it stays as it is.
    """
    for contraction in dependencies.contractions:
        stays = alive[dependencies.places[contraction.weights]]
        if stays.all():
            continue
        addend = _addend(contraction, activity.means[contraction.activation] * ~stays)
        made = values[contraction.node.output].producer
        if addend is not None and made is not None:
            own = _places_of_results(dependencies, contraction.node)
            _add_bias(made, addend[alive[own]] if own is not None else addend)


def _addend(contraction: Contraction, means: Doubles) -> Doubles | None:
    """What the means of activations come to in each channel of the result."""
    value, axis = contraction.weights
    weights = np.asarray(value.const, np.float64)
    node = contraction.node
    if node.kind == "Conv":
        result: Doubles = np.tensordot(weights.sum(tuple(range(2, weights.ndim))), means, (1, 0))
        return result
    if weights.ndim != 2 or node.kind not in ("MatMul", "Gemm") or node.inputs[1] is not value:
        return None
    if node.kind == "Gemm" and node.op.attributes()["alpha"] != 1:
        return None
    product: Doubles = np.tensordot(means, weights, (0, axis))
    return product


def _places_of_results(dependencies: Dependencies, node: Node) -> Array | None:
    axis = 1 if node.kind == "Conv" else node.output.rank - 1
    return dependencies.places.get((node.output, axis))


def _add_bias(node: Node, addend: Doubles) -> None:
    """Add to the bias of a node, or to that which is added to its result."""
    vector = addend.astype(np.float32)
    if node.kind == "Conv":
        bias = node.input(2)
        if bias is None:
            node.set_inputs([*node.inputs[:2], constant(vector)])
        elif bias.const is not None:
            node.set_operand(2, constant(np.asarray(bias.const + vector, np.float32), bias.name))
        return
    if node.kind == "Gemm":
        bias = node.input(2)
        if node.op.attributes()["beta"] == 1 and bias is not None and bias.const is not None:
            node.set_operand(2, constant(np.asarray(bias.const + vector, np.float32), bias.name))
        return
    users = list(node.output.users())
    if len(users) != 1 or users[0].kind != "Add" or node.output.is_graph_output:
        return
    for index, operand in enumerate(users[0].inputs):
        if operand is not None and operand.const is not None and operand.const.ndim == 1:
            total = np.asarray(operand.const + vector, np.float32)
            users[0].set_operand(index, constant(total, operand.name))
