"""What a layer becomes in a compressed graph: a product of integers, a product of integers whose
scales are computed in each run, or one with weights of few bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from infuse import dtypes
from infuse.compression.layers import Layer
from infuse.compression.ranges import Scale
from infuse.compression.scratch import ScratchArrays
from infuse.compression.weights import BlockWeights, IntegerWeights
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.types import UNKNOWN
from infuse.ops.core.building import GraphBuilder
from infuse.ops.domains.microsoft_bits import ROUNDED, MatMulNBits

LARGEST_BIAS = 2**30


class Writer(GraphBuilder):
    """Adds nodes to a graph that belong to one of its nodes, and have its serial number."""

    def __init__(self, graph: Graph, node: Node | None, name: str) -> None:
        super().__init__(graph)
        self.node, self.name = node, name

    def apply(self, op: Operator, inputs: Sequence[Value | None], count: int = 1) -> list[Value]:
        """The outputs of a new node."""
        name = f"{self.name}/{op.name}"
        outputs = [Value(UNKNOWN, name) for _ in range(count)]
        origin = () if self.node is None else self.node.origin
        node = Node(op, inputs, outputs, name=name, origin=origin)
        if self.node is not None:
            node.serial = self.node.serial
        node.op.infer_node(node)
        self.graph.add_node(node)
        return outputs

    def ints(self, *values: Dim) -> Value:
        """A list of fixed sizes or axes."""
        return constant(np.array([int(str(v)) for v in values], np.int64))

    # -- quantization ------------------------------------------------------------------------------

    def quantize(self, value: Value, scale: Scale) -> Value:
        """The integers of an activation."""
        return self("QuantizeLinear", value, *_parameters(scale))

    def dequantize(self, integers: Value, scale: Scale) -> Value:
        """What they stand for."""
        return self("DequantizeLinear", integers, *_parameters(scale))

    def integers(self, array: Array, scales: Array, axis: int, block_size: int = 0) -> Value:
        """Constant integers with a scale for each index of an axis, or each block of that size, as
        numbers.
        """
        how = {"axis": axis, **({"block_size": block_size} if block_size else {})}
        return self("DequantizeLinear", constant(array), constant(scales), **how)


def _parameters(scale: Scale) -> tuple[Value, Value]:
    step = constant(np.asarray(scale.step))
    return step, constant(np.asarray(scale.zero, scale.dtype.numpy))


class Form(Protocol):
    """How a layer is computed, other than in float32."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def activation(self) -> Scale | None:
        """How its activation is rounded; None where it stays as it is."""
        ...

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        """Turn `node`, the copy of the layer's node in `graph`, into this form."""
        ...


def has_byte_activation(form: Form) -> bool:
    """Whether a layer reads its activation as 8-bit integers."""
    return form.activation is not None and form.activation.dtype.bits == 8


@dataclass(frozen=True, eq=False)
class StaticForm:
    """A product of 8-bit integers, or of 16-bit ones and weights of 8 bits: how the activation is
    rounded, the weights, and what is added to the output channels in place of what the rounding
    takes away (None: nothing).
    """

    activation: Scale
    weights: IntegerWeights
    correction: Array | None = None
    name: str = "int8"

    def stored(self, layer: Layer, scratch: ScratchArrays | None) -> StaticForm:
        """The same with integers in the layout of the operator, which all graphs then share; in
        `scratch`, if there is one.
        """
        integers = layer.in_layout(self.weights.integers)
        if scratch is not None:
            integers = scratch.store(integers)
        return replace(self, weights=replace(self.weights, integers=layer.as_matrices(integers)))

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        write = Writer(graph, node, layer.name or layer.kind)
        weights, correction = self.weights, self.correction
        array = layer.in_layout(weights.integers)
        node.set_operand(1, write.integers(array, weights.channel_scales, layer.channel_axis))
        bias = bias_of(layer)
        if not takes_bias(layer):
            if correction is not None:
                add_behind(write, node, np.asarray(correction, np.float32))
            return
        if correction is not None:
            bias = correction if bias is None else bias + correction
        if bias is not None:
            steps = np.asarray(weights.channel_scales * self.activation.step, np.float32)
            node.set_inputs([*node.inputs[:2], _rounded_bias(write, bias, steps)])


@dataclass(frozen=True, eq=False)
class DynamicForm:
    """A product of 8-bit integers whose activation is rounded by its range in each run."""

    weights: IntegerWeights
    name: str = "int8 dynamic"
    activation: None = None

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        write = Writer(graph, node, layer.name or layer.kind)
        x, step, zero = _range_of(write, node)
        kind = "ConvInteger" if layer.kind == "Conv" else "MatMulInteger"
        array = self.weights.integers
        integers = constant(layer.in_layout(array) if layer.kind == "Conv" else array[0])
        attributes = node.op.attributes() if layer.kind == "Conv" else {}
        total = write.cast(write(kind, x, integers, zero, **attributes), dtypes.float32)
        scales = constant(self._along_channels(layer, self.weights.channel_scales))
        result = write("Mul", total, write("Mul", scales, step))
        bias = node.input(2)
        if bias is not None:
            vector = bias_of(layer)
            addend = constant(self._along_channels(layer, vector)) if vector is not None else bias
            result = write("Add", result, addend)
        node.output.replace_by(result)
        graph.remove(node)

    @staticmethod
    def _along_channels(layer: Layer, vector: Array) -> Array:
        behind = layer.node.output.rank - 1 - layer.output_axis
        return np.ascontiguousarray(vector.reshape(-1, *(1,) * behind), dtype=np.float32)


@dataclass(frozen=True)
class BlockOptions:
    """How products with weights of few bits are written and computed.

    `for_onnxruntime`: as MatMulNBits, which ONNX Runtime computes as it stands, in place of
    standard operators. `rounds_activations`: these are rounded to integers of 8 bits, block by
    block, in each run; MatMulNBits alone can say so.
    """

    for_onnxruntime: bool = False
    rounds_activations: bool = False

    @property
    def is_contributed(self) -> bool:
        """Whether products become MatMulNBits."""
        return self.for_onnxruntime or self.rounds_activations


@dataclass(frozen=True, eq=False)
class BlockForm:
    """A product in float32 with weights of few bits, in blocks that share a scale."""

    weights: BlockWeights
    options: BlockOptions = BlockOptions()
    activation: None = None

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"int{self.weights.bits} weights"

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        write = Writer(graph, node, layer.name or layer.kind)
        if self.options.is_contributed:
            self._write_contributed(write, node)
            return
        node.set_operand(1, _numbers(write, self.weights, 1 - layer.channel_axis))

    def _write_contributed(self, write: Writer, node: Node) -> None:
        weights, x, bias = self.weights, node.inputs[0], node.input(2)
        assert weights.zeros is not None
        depth, columns = weights.integers.shape
        op = MatMulNBits(
            K=depth,
            N=columns,
            block_size=weights.block,
            bits=dtypes.by_numpy(weights.integers.dtype).bits,
            accuracy_level=ROUNDED if self.options.rounds_activations else 0,
        )
        arrays = op.packed(weights.integers.T, weights.scales.T, weights.zeros.T)
        (result,) = write.apply(op, [x, *map(constant, arrays)])
        node.output.replace_by(result if bias is None else write("Add", result, bias))
        write.graph.remove(node)


def _numbers(write: Writer, weights: BlockWeights, axis: int) -> Value:
    """What weights in blocks of rows stand for, the rows along this axis."""
    parts = (weights.integers, weights.scales, weights.zeros)
    arrays = [None if part is None else part if axis == 0 else part.T for part in parts]
    values = [None if a is None else constant(np.ascontiguousarray(a)) for a in arrays]
    how = {"axis": axis, "block_size": weights.block, "output_dtype": dtypes.float32}
    return write("DequantizeLinear", *values, **how)


@dataclass(frozen=True, eq=False)
class RowsForm:
    """An embedding whose rows are 8-bit integers [rows, columns], each with a scale [rows, 1]."""

    integers: Array
    scales: Array
    name: str = "int8 rows"
    activation: None = None

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        write = Writer(graph, node, layer.name or layer.kind)
        codes, scales = (
            write("Gather", constant(array), node.inputs[1], axis=0)
            for array in (self.integers, self.scales)
        )
        result = write("Mul", write.cast(codes, dtypes.float32), scales)
        node.output.replace_by(result)
        graph.remove(node)


@dataclass(frozen=True, eq=False)
class BlockRowsForm:
    """An embedding whose rows are integers of few bits in blocks: the table's transpose as weights
    [columns, rows].
    """

    weights: BlockWeights
    activation: None = None

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"int{self.weights.bits} rows"

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        write = Writer(graph, node, layer.name or layer.kind)
        node.set_operand(0, _numbers(write, self.weights, 1))


def _range_of(write: Writer, node: Node) -> list[Value]:
    """The integers of a layer's activation, their scale and zero point, once for all readers."""
    x = node.inputs[0]
    assert x is not None
    for user in x.users():
        if user.kind == "DynamicQuantizeLinear" and user.graph is write.graph:
            return user.outputs
    return write.several(3, "DynamicQuantizeLinear", x)


def _rounded_bias(write: Writer, bias: Array, steps: Array) -> Value:
    """A bias as 32-bit integers in steps of the sums, where these hold it."""
    whole = np.rint(bias.astype(np.float64) / steps)
    if np.abs(whole).max(initial=0) > LARGEST_BIAS:
        return constant(np.asarray(bias, np.float32))
    return write.integers(whole.astype(np.int32), steps, 0)


def bias_of(layer: Layer) -> Array | None:
    """The constant for each output channel that a layer adds; None where it adds nothing, or
    anything else.
    """
    value = layer.node.input(2) if layer.kind != "MatMul" else None
    if value is None or value.const is None:
        return None
    groups, _, columns = layer.sizes
    channels = groups * columns
    is_vector = value.const.size in (1, channels) and value.const.shape[-1:] in (
        (channels,),
        (1,),
        (),
    )
    return np.broadcast_to(value.const.reshape(-1), (channels,)) if is_vector else None


def takes_bias(layer: Layer) -> bool:
    """Whether a constant for each output channel can be a part of the layer itself."""
    if layer.kind == "MatMul":
        return False
    return layer.node.input(2) is None or bias_of(layer) is not None


def add_behind(write: Writer, node: Node, addend: Array) -> None:
    """Let all who read the result of a node read it with a constant added."""
    result = node.output
    readers = list(result.uses)
    total = write("Add", result, constant(addend))
    for user, index in readers:
        user.set_operand(index, total)
