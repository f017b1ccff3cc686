"""What nodes mean for their kernels: results in the order in which a kernel hands them on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from infuse.ir.graph import Array, Node, Value
from infuse.lowering.tensors import Tensor, channels_last
from infuse.ops.domains.microsoft import DOMAIN


@dataclass(frozen=True)
class Made:
    """A node, the kernel of its step, the values of the graph, and what the step reads and
    writes.
    """

    node: Node
    kernel: str
    values: Mapping[Value, Array]
    tensors: Sequence[Tensor] = ()

    @property
    def result(self) -> Array:
        """The first output in float64."""
        array: Array = self.values[self.node.outputs[0]].astype(np.float64)
        return array

    def operand(self, number: int) -> Array | None:
        """An operand of the node; None where it has none of this number."""
        value = self.node.input(number)
        if value is None:
            return None
        array: Array = self.values[value] if value.const is None else value.const
        return array


Result = Callable[[Made], "Array | None"]
_RESULTS: Final[dict[tuple[str, str], Result]] = {}
"""By the domain and kind of operators."""


def result_of(made: Made) -> Array | None:
    """What a kernel with a sink hands on for a node: without a bias, which the sink adds; None for
    nodes of which that is not stated.
    """
    kind = made.node.op.domain, made.node.kind
    return _RESULTS[kind](made) if kind in _RESULTS else None


def _results(*kinds: str, domain: str = "") -> Callable[[Result], Result]:
    def register(result: Result) -> Result:
        _RESULTS.update({(domain, kind): result for kind in kinds})
        return result

    return register


@_results("MatMulInteger", "LayerNormalization", "RMSNormalization")
def _plain(made: Made) -> Array:
    return made.result


@_results("MatMul", "Gemm")
def _product(made: Made) -> Array | None:
    return _without(made, 2)


@_results("MatMulNBits", domain=DOMAIN)
def _few_bits(made: Made) -> Array | None:
    return _without(made, 5)


def _without(made: Made, addend: int) -> Array | None:
    """A product as it is before it is scaled and an operand added."""
    attributes, added = made.node.op.attributes(), made.operand(addend)
    beta, alpha = float(attributes.get("beta", 1)), float(attributes.get("alpha", 1))
    result = made.result if added is None else made.result - beta * added
    return result / alpha if alpha else None


@_results("ConvInteger", "GlobalAveragePool", "GlobalMaxPool")
def _image(made: Made) -> Array:
    return np.transpose(made.result, channels_last(made.result.ndim))


@_results("Resize", "InstanceNormalization", "GroupNormalization")
@_results("MaxPool", "AveragePool", "LpPool")
def _image_or_planes(made: Made) -> Array:
    """Planes, where the kernel's name says so, or images with their channels last."""
    result = made.result
    if made.kernel in ("resize_planes", "pool_planes"):
        return result
    if made.kernel.endswith("_planes"):
        return result.reshape(*result.shape[:2], -1)
    return np.transpose(result, channels_last(result.ndim))


@_results("Conv")
def _convolution(made: Made) -> Array:
    bias, result = made.operand(2), made.result
    if bias is not None:
        result = result - bias.reshape(-1, *(1,) * (result.ndim - 2))
    if made.kernel == "conv_planes":
        return result.reshape(*result.shape[:2], -1)
    return np.transpose(result, channels_last(result.ndim))


@_results("Softmax", "LogSoftmax")
def _along_axis(made: Made) -> Array:
    """Rows along the axis, or (before the axis, along it) × what lies behind it."""
    result, axis = made.result, made.node.op.attributes()["axis"] % made.result.ndim
    if not made.kernel.endswith("_axis"):
        return np.moveaxis(result, axis, -1)
    value = made.node.input(0)
    assert value is not None
    order = [t.order for t in made.tensors if t.shape == value.shape][-1]
    turned = np.transpose(result, order)
    return turned.reshape(-1, math.prod(turned.shape[order.index(axis) + 1 :]))


@_results("LpNormalization")
def _as_it_lies(made: Made) -> Array:
    """The axes in the order in which they lie in the operand."""
    order = [t.order for t in made.tensors if t.shape == made.node.outputs[0].shape][-1]
    return np.transpose(made.result, order)


@_results("Attention")
@_results("GroupQueryAttention", domain=DOMAIN)
def _by_positions(made: Made) -> Array:
    """Heads side by side."""
    result = made.result
    if result.ndim == 3:
        return result
    batch, heads, length, size = result.shape
    return np.reshape(result.transpose(0, 2, 1, 3), (batch, length, heads * size))


@_results("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
@_results("ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
def _reduced(made: Made) -> Array | None:
    """The axes that are left, in the order in which they lie in what is reduced, which the kernel
    reads after what its sink reads.
    """
    value = made.node.input(0)
    assert value is not None
    numbers, attributes = made.operand(1), made.node.op.attributes()
    axes = {int(a) % value.rank for a in (() if numbers is None else numbers.reshape(-1))}
    if not axes and not attributes["noop_with_empty_axes"]:
        axes = set(range(value.rank))
    read = [t.order for t in made.tensors if t.shape == value.shape]
    if not read:
        return None
    left = [axis for axis in read[-1] if axis not in axes]
    result = made.result.reshape([n for a, n in enumerate(_sizes(made)) if a not in axes])
    return np.transpose(result, [sorted(left).index(axis) for axis in left])


def _sizes(made: Made) -> tuple[int, ...]:
    operand = made.operand(0)
    assert operand is not None
    return operand.shape
