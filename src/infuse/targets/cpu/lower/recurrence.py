"""Causal convolution, linear attention, caches, determinants, and elements read as another type."""

from __future__ import annotations

from collections.abc import Mapping

from infuse import dtypes
from infuse.immutable import replace
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.lowering.tensors import Tensor, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.recurrences import LinearAttention
from infuse.targets.cpu.table import lowers
from infuse.targets.text.literals import literal


def _pointer(f: FunctionWriter, tensors: Mapping[int, Tensor], index: int) -> str:
    """The pointer to an optional input of float32."""
    return f.read(tensors[index]) if index in tensors else "(const float*)nullptr"


def _inputs(low: Lowering, node: Node) -> dict[int, Tensor]:
    return {i: row_major(low, v) for i, v in enumerate(node.inputs) if v is not None}


def _result(low: Lowering, node: Node, index: int, fallback: Value) -> Tensor:
    """Where an output goes; a place to forget where it is not asked for."""
    if index < len(node.outputs):
        low.storage.tensors[node.outputs[index]] = low.storage.allocate(node.outputs[index])
        return low.storage.tensors[node.outputs[index]]
    return low.storage.scratch_tensor(fallback.dtype, fallback.shape, natural(fallback.rank))


@lowers("CausalConvWithState")
def causal_conv(low: Lowering, node: Node, group: Group) -> None:
    x, weight = operand(node), operand(node, 1)
    if x.dtype != dtypes.float32:
        low.unsupported(node, f"element type {x.dtype}")
    (batch, channels, length), taps = x.shape, weight.shape[2]
    tensors, target = _inputs(low, node), _result(low, node, 0, x)
    if len(node.outputs) > 1:
        state = _result(low, node, 1, x)
    else:
        state = low.storage.scratch_tensor(x.dtype, (batch, channels, taps - 1), natural(3))
    f = low.function("causal_conv", node)
    f.include("recurrence.hpp")
    f.scratch("causal_conv_scratch", "recurrence.hpp", length, taps)
    gate = "false" if node.op.attributes()["activation"] == "none" else "true"
    sizes = f.numbers(batch * channels, channels, length, taps)
    pointers = ", ".join(_pointer(f, tensors, i) for i in range(4))
    f.call("causal_conv", sizes, gate, pointers, f.write(target), f.write(state))
    f.finish("CausalConvWithState")


@lowers("LinearAttention")
def linear_attention(low: Lowering, node: Node, group: Group) -> None:
    q, v, op = operand(node), operand(node, 2), node.op
    assert isinstance(op, LinearAttention)
    if q.dtype != dtypes.float32:
        low.unsupported(node, f"element type {q.dtype}")
    batch, length, _ = q.shape
    key, value = (
        dims.floordiv(q.shape[2], op.q_num_heads),
        dims.floordiv(v.shape[2], op.kv_num_heads),
    )
    decay, beta = node.input(4), node.input(5)
    decays = 0 if decay is None else dims.floordiv(decay.shape[2], op.kv_num_heads)
    rates = 0 if beta is None else beta.shape[2]
    tensors, target = _inputs(low, node), _result(low, node, 0, q)
    if len(node.outputs) > 1:
        state = _result(low, node, 1, q)
    else:
        state = low.storage.scratch_tensor(
            q.dtype, (batch, op.kv_num_heads, key, value), natural(4)
        )
    f = low.function("linear_attention", node)
    f.include("recurrence.hpp")
    f.scratch("linear_attention_scratch", "recurrence.hpp", key)
    sizes = {
        "batch": batch,
        "length": length,
        "q_heads": op.q_num_heads,
        "heads": op.kv_num_heads,
        "key": key,
        "value": value,
        "decays": decays,
        "rates": rates,
    }
    numbers = {name: f.number(size) for name, size in sizes.items()}
    pointers = ", ".join(_pointer(f, tensors, i) for i in range(6))
    f.struct("LinearAttention", "shape", **numbers, scale=literal(op.scale, dtypes.float32))
    f.call("linear_attention", "shape", pointers, f.write(target), f.write(state))
    f.finish("LinearAttention")


@lowers("TensorScatter")
def tensor_scatter(low: Lowering, node: Node, group: Group) -> None:
    cache, update, starts, out = operand(node), operand(node, 1), node.input(2), node.output
    attributes = node.op.attributes()
    axis = attributes["axis"] % cache.rank
    source, target = row_major(low, update), low.storage.allocate(out)
    low.storage.copy(low.storage.tensor(cache), target, "cache", node)
    places = None if starts is None else low.storage.dense(starts)
    f = low.function("tensor_scatter", node)
    f.include("recurrence.hpp", "failure.h")
    bytes_ = dims.product(cache.shape[axis + 1 :]) * cache.dtype.bytes
    sizes = f.numbers(
        cache.shape[0],
        dims.product(cache.shape[1:axis]),
        cache.shape[axis],
        update.shape[axis],
        bytes_,
    )
    circular = "true" if attributes["mode"] == "circular" else "false"
    index = "(const int64_t*)nullptr" if places is None else f.read(places)
    pointers = f"(const char*){f.read(source.bits)}, {index}, (char*){f.write(target.bits)}"
    f.call("tensor_scatter", sizes, circular, pointers, failure="BAD_INDEX")
    f.finish("TensorScatter")
    low.storage.tensors[out] = target


@lowers("Det")
def determinant(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("determinants", node)
    f.include("recurrence.hpp")
    f.scratch("determinant_scratch", "recurrence.hpp", x.shape[-1])
    sizes = f.numbers(dims.product(x.shape[:-2]), x.shape[-1])
    f.call("determinants", sizes, f.read(source), f.write(target))
    f.finish("Det")
    low.storage.tensors[node.output] = target


@lowers("BitCast")
def bit_cast(low: Lowering, node: Node, group: Group) -> None:
    low.storage.tensors[node.output] = replace(
        low.storage.tensor(operand(node)), dtype=node.output.dtype
    )
