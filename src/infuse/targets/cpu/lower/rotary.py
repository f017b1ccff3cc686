"""Rotary position embedding, and attention over a cache of keys and values that grows."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.ir.types import Shape
from infuse.lowering.expressions import Calculated, Pointed, elements, infix
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.lowering.tensors import Tensor, natural
from infuse.ops.domains.microsoft import DOMAIN
from infuse.targets.cpu.families.rotary import CacheSizes, RotarySizes
from infuse.targets.cpu.lower.attention import Heads, attend, by_heads, split_heads
from infuse.targets.cpu.lower.linear import require_float32
from infuse.targets.cpu.table import lowers, resolves_sizes


@lowers("RotaryEmbedding")
def rotary_embedding(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    x, cos, sin, places = operand(node), operand(node, 1), operand(node, 2), node.input(3)
    attributes = node.op.attributes()
    source = by_heads(low, x, attributes["num_heads"])
    order = (
        source.order
        if x.rank == 4 and source.order in ((0, 2, 1, 3), natural(4))
        else natural(x.rank)
    )
    target = low.storage.allocate(node.output, order)
    by_head = target if x.rank == 4 else split_heads(target, attributes["num_heads"])
    tables = [row_major(low, v) for v in (cos, sin)]
    f = low.function("rotary", node)
    f.include("rotary.hpp", "failure.h")
    sizes = f.sizes(
        RotarySizes._make([*source.shape, cos.shape[-1], bool(attributes["interleaved"])])
    )
    place = elements(type="EveryPlace")
    if places is not None:
        picked = f.read(row_major(low, places)), f.number(cos.shape[0]), "c"
        template = (places.dtype.c_name,)
        place = elements(*picked, type="PickedPlace", template=template)
    strides = [
        elements(*map(f.number, t.strides[:3]), type="RotaryStrides") for t in (source, by_head)
    ]
    pointers = [f.read(source), *map(f.read, tables)]
    f.call(
        "rotate",
        sizes,
        pointers[0],
        strides[0],
        *pointers[1:],
        place,
        f.write(target),
        strides[1],
        failure="BAD_INDEX",
    )
    f.finish("RotaryEmbedding")
    low.storage.tensors[node.output] = target


# -- ONNX Runtime's GroupQueryAttention ------------------------------------------------------------


@resolves_sizes("GroupQueryAttention", domain=DOMAIN)
def stored_keys(low: Lowering, node: Node) -> None:
    """How many keys there are in all, which an input tells."""
    unknown = (
        set().union(*(dims.symbols(d) for v in node.outputs for d in v.shape))
        - low.program.available_sizes
    )
    f = low.function("stored_keys", node)
    f.constant("total", _first(f.read(low.storage.dense(operand(node, 6))), "(isize)"))
    f.fail_unless(infix("total", ">=", 0))
    for name in unknown:
        f.assign(Pointed(f.resolves(name)), "total")
    f.finish("GroupQueryAttention: sizes")


@lowers("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    attributes, mask = node.op.attributes(), node.input(10)
    counts = (attributes["num_heads"], attributes["kv_num_heads"], attributes["kv_num_heads"])
    q, k, v = (by_heads(low, operand(node, i), count) for i, count in enumerate(counts))
    past, stored = node.input(3), node.outputs[1].shape[2]
    if any(v.uses for v in node.outputs[3:]):
        low.unsupported(node, "scores")
    shape = (
        q.shape[0],
        counts[1],
        0 if past is None else past.shape[2],
        q.shape[2],
        stored,
        q.shape[3],
    )
    valid = _valid(low, node, shape, stored if mask is None else mask.shape[-1])
    keys, values = (_store(low, node, i, x, shape, valid) for i, x in ((1, k), (2, v)))
    heads = Heads(
        q, keys, values, attributes["scale"] or None, mask, bool(attributes["causal"]), 0, valid
    )
    heads.softcap = attributes["softcap"]
    sinks = node.input(11)
    if sinks is not None:
        heads.sinks = low.storage.dense(sinks)
    elif attributes["smooth_softmax"] > 0:
        heads.sinks = low.program.weight(np.zeros(counts[0], np.float32))
    if attributes["local_window_size"] >= 0:
        heads.left = attributes["local_window_size"] - 1
    attend(low, node, group, heads)


def _first(pointer: str, cast: str = "") -> Calculated:
    """The element where a pointer points."""
    return Calculated(f"{cast}*{{}}", (pointer,), lambda elements: int(elements[0]))


def _valid(low: Lowering, node: Node, shape: Shape, most: Dim) -> Tensor:
    """How many keys count in each batch."""
    result = low.storage.scratch_tensor(dtypes.int64, (shape[0],), (0,), "valid")
    f = low.function("count_keys", node)
    f.include("cache.hpp", "failure.h")
    last, total = (f.read(low.storage.dense(operand(node, i))) for i in (5, 6))
    sizes, rows = f.sizes(CacheSizes(*shape)), f.number(most)
    operands = sizes, rows, last, _first(total), f.write(result)
    f.call("count_keys", *operands, failure="BAD_INDEX", context=False)
    f.finish("GroupQueryAttention: keys")
    return result


def _store(
    low: Lowering, node: Node, number: int, new: Tensor, shape: Shape, valid: Tensor
) -> Tensor:
    """The cache of keys (output 1) or values (output 2) with the new ones in it."""
    past, target = node.input(2 + number), low.storage.allocate(node.outputs[number])
    f = low.function("store_rows", node)
    f.include("cache.hpp")
    old = elements(type="HeadRows")
    if past is not None:
        old = f.strided("HeadRows", row_major(low, past))
    fresh = f.strided("HeadRows", new)
    f.call("store_rows", f.sizes(CacheSizes(*shape)), old, fresh, f.read(valid), f.write(target))
    f.finish("GroupQueryAttention: cache")
    low.storage.tensors[node.outputs[number]] = target
    return target
