"""ONNX Runtime's GroupQueryAttention, expressed in what its kernel takes."""

from __future__ import annotations

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.domains.microsoft import DOMAIN


@expands("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(make: Composer, node: Node) -> Results:
    """Queries, keys and values of their own, turned: what the kernel takes."""
    attributes = node.op.attributes()
    if any(node.input(i) is not None for i in range(12, 16)) or attributes["sliding_window_cache"]:
        make.refuse("quantized or sliding caches or normalized heads")
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
