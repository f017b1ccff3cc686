"""ONNX Runtime's own attention operators, expressed in ONNX's."""

from __future__ import annotations

import math

import numpy as np

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.domains.microsoft import DOMAIN


def _filter(make: Composer, mask: Value, x: Value, keys: Dim, hidden: float) -> Value:
    """What is added to the scores of x for a padding mask, as `ops.domains.heads` has it."""
    batch, dtype = x.shape[0], x.dtype
    zero, low = make.number(0, dtype), make.number(hidden, dtype)
    if mask.rank == 1:
        limits = make.cast(mask, dtypes.int64)
        if mask.shape[0] != batch * 2:
            counts = make.reshape(limits, mask.shape[0], 1, 1, 1)
            return make("Where", make("Less", make.range(keys), counts), zero, low)
        ends, starts = (
            make.reshape(make.slice(limits, 0, batch * i, batch * (i + 1)), batch, 1, 1, 1)
            for i in range(2)
        )
        hidden_before = make("Less", make.range(keys), starts)
        seen = make("And", make("Less", make.range(keys), ends), make("Not", hidden_before))
        return make("Where", seen, zero, low)
    if mask.rank not in (2, 3):
        make.unsupported(f"a mask of rank {mask.rank}")
    shape = (mask.shape[0], 1, 1 if mask.rank == 2 else mask.shape[1], mask.shape[-1])
    return make("Where", make("Equal", make.reshape(mask, *shape), 0), low, zero)


def _added(make: Composer, first: Value | None, second: Value | None) -> Value | None:
    if first is None or second is None:
        return first or second
    return make(first + second)


def _length(x: Value) -> Dim:
    return x.shape[1] if x.rank == 3 else x.shape[2]


@expands("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(make: Composer, node: Node) -> Results:
    query, key, value, bias, padding, added = (node.input(i) for i in range(6))
    past = [node.input(i) for i in (6, 7)]
    if (
        query is None
        or key is None
        or value is None
        or query.rank != 3
        or node.input(8) is not None
    ):
        make.unsupported("packed inputs or shared buffers")
    attributes = node.op.attributes()
    parts = [query, key, value]
    if bias is not None:
        parts = _shifted(make, parts, bias)
    if past[0] is not None:
        parts[1:] = [_by_heads(make, x, attributes["num_heads"]) for x in parts[1:]]
    keys = _length(key) + (past[0].shape[2] if past[0] is not None else 0)
    if padding is not None:
        mask = _filter(make, padding, query, keys, attributes["mask_filter_value"])
        added = _added(make, mask, added)
    return _attended(make, node, parts, added, past, len(node.outputs))


def _attended(
    make: Composer,
    node: Node,
    parts: list[Value],
    mask: Value | None,
    past: list[Value | None],
    outputs: int,
) -> list[Value]:
    """ONNX's attention over q, k and v with the attributes of ONNX Runtime's."""
    attributes = node.op.attributes()
    options = {"q_num_heads": attributes["num_heads"], "kv_num_heads": attributes["num_heads"]}
    options |= {
        "is_causal": attributes["unidirectional"],
        "scale": attributes["scale"] or None,
        "qk_matmul_output_mode": 2,
    }
    found = make.several(outputs, "Attention", *parts, mask, *past, **options)
    if outputs == 4 and attributes["unidirectional"]:
        found[3] = _limited(make, found[3])
    return found


def _limited(make: Composer, scores: Value) -> Value:
    """Causal scores with the lowest number, not −∞, at keys that lie behind their query."""
    queries, keys = scores.shape[2:]
    last = make.reshape(make("Add", make.range(queries), make.ints(keys - queries)), queries, 1)
    seen = make("LessOrEqual", make.range(keys), last)
    return make("Where", seen, scores, make.number(np.finfo(np.float32).min, scores.dtype))


def _shifted(make: Composer, parts: list[Value], bias: Value) -> list[Value]:
    """q, k and v with the bias of their projections added."""
    start: Dim = 0
    result = []
    for x in parts:
        width: Dim = x.shape[2] if x.rank == 3 else x.shape[1] * x.shape[3]
        part = make.slice(bias, 0, start, start + width)
        if x.rank == 4:
            part = make.reshape(part, 1, x.shape[1], 1, x.shape[3])
        result.append(make(x + part))
        start = start + width
    return result


def _by_heads(make: Composer, x: Value, heads: int) -> Value:
    """(batch, length, heads · size) as (batch, heads, length, size); the latter as it is."""
    if x.rank == 4:
        return x
    split = make.reshape(x, x.shape[0], x.shape[1], heads, dims.floordiv(x.shape[2], heads))
    return make.permute(split, 0, 2, 1, 3)


@expands("Attention", domain=DOMAIN)
def attention(make: Composer, node: Node) -> Results:
    x, weights, bias, mask, past, added = (node.input(i) for i in range(6))
    attributes = node.op.attributes()
    if attributes["do_rotary"] or node.input(6) is not None:
        make.unsupported("rotary embedding or shared buffers")
    assert x is not None
    assert weights is not None
    projected = make("MatMul", x, weights)
    if bias is not None:
        projected = make(projected + bias)
    start: Dim = 0
    heads, parts = attributes["num_heads"], []
    for width in attributes["qkv_hidden_sizes"] or (dims.floordiv(weights.shape[1], 3),) * 3:
        parts.append(make.slice(projected, 2, start, start + width))
        start = start + width
    caches: list[Value | None] = [None, None]
    if past is not None:
        caches = [make.reshape(make.slice(past, 0, i, i + 1), *past.shape[1:]) for i in range(2)]
    if past is not None or len(node.outputs) > 1:
        parts[1:] = [_by_heads(make, part, heads) for part in parts[1:]]
    if mask is not None:
        keys = x.shape[1] + (past.shape[3] if past is not None else 0)
        added = _added(make, _filter(make, mask, x, keys, attributes["mask_filter_value"]), added)
    if len(node.outputs) == 1 or not node.outputs[1].uses:
        return [*_attended(make, node, parts, added, caches, 1), None][: len(node.outputs)]
    result, keys_, values = _attended(make, node, parts, added, caches, 3)
    if values.shape != keys_.shape:
        values = make("Expand", make.number(math.nan, keys_.dtype), make.ints(*keys_.shape))
    return [result, make.reshape(make("Concat", keys_, values, axis=0), *node.outputs[1].shape)]


# -- heads that share keys -------------------------------------------------------------------------


@expands("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(make: Composer, node: Node) -> Results:
    x, places, cos, sin = (v for v in node.inputs if v is not None)
    attributes = node.op.attributes()
    if attributes["is_packed_batching"]:
        make.unsupported("packed batches")
    half, heads = cos.shape[1], attributes["num_heads"]
    if x.rank == 3 and not heads:
        size = dims.floordiv(x.shape[2], half * 2)
        if not isinstance(size, int):
            make.unsupported("an unknown number of heads")
        heads = size
    if places.rank != 2:
        length = _length(x)
        first = make.reshape(make.cast(places, dtypes.int64), 1)
        places = make("Expand", make.range(length) + first, make.ints(x.shape[0], length))
    turned = half * 2 if isinstance(half, int) else attributes["rotary_embedding_dim"]
    options = {
        "num_heads": heads,
        "rotary_embedding_dim": turned,
        "interleaved": attributes["interleaved"],
    }
    return make("RotaryEmbedding", x, cos, sin, places, **options)


@expands("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(make: Composer, node: Node) -> Results:
    """Queries, keys and values of their own, turned: what the kernel takes."""
    attributes = node.op.attributes()
    if any(node.input(i) is not None for i in range(12, 16)) or attributes["sliding_window_cache"]:
        make.unsupported("quantized or sliding caches or normalized heads")
    inputs: list[Value | None] = [*node.inputs, *[None] * (12 - len(node.inputs))][:12]
    packed, turns = inputs[1] is None, attributes["do_rotary"] and inputs[7] is not None
    if not packed and not turns and len(node.outputs) > 2:
        return None
    query = inputs[0]
    assert query is not None
    heads, shared = attributes["num_heads"], attributes["kv_num_heads"]
    if packed:
        size = dims.floordiv(query.shape[2], heads + 2 * shared)
        ends = [size * heads, size * (heads + shared), query.shape[2]]
        inputs[:3] = [make.slice(query, 2, a, b) for a, b in zip([0, *ends], ends)]
    if turns:
        places = inputs[9] or _places(make, node, query.shape)
        for i, count in enumerate((heads, shared)):
            options = {"num_heads": count, "interleaved": attributes["rotary_interleaved"]}
            table = inputs[7]
            assert table is not None
            if isinstance(table.shape[1], int):
                options["rotary_embedding_dim"] = 2 * table.shape[1]
            inputs[i] = make("RotaryEmbedding", inputs[i], table, inputs[8], places, **options)
    inputs[7:10] = [None] * 3
    while inputs[-1] is None:
        inputs.pop()
    op = node.op.replace(do_rotary=0)  # type: ignore[attr-defined]
    return make.apply(op, inputs, max(3, len(node.outputs)))[: len(node.outputs)]


def _places(make: Composer, node: Node, shape: tuple[Dim, ...]) -> Value:
    """The positions of the queries: behind the past, which is none where all that is stored is
    new.
    """
    last, total = node.inputs[5], node.inputs[6]
    assert last is not None
    assert total is not None
    batch, length = shape[:2]
    before = make(
        make.reshape(make.cast(last, dtypes.int64), batch, 1) + make.size(1) - make.size(length)
    )
    fresh = make("Equal", make.reshape(make.cast(total, dtypes.int64)), make.size(length))
    start = make("Where", fresh, make.number(0, dtypes.int64), before)
    return make(ops.add(start, make.range(length)))
