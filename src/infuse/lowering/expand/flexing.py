"""Attention with bodies: matrix products and a softmax, the nodes of the bodies in between."""

from __future__ import annotations

from infuse import dtypes
from infuse.dtypes import is_half
from infuse.ir import dims
from infuse.ir.clone import clone_nodes
from infuse.ir.graph import Graph, Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.domains.flexing import DOMAIN, FlexAttention


@expands("FlexAttention", domain=DOMAIN)
def flex_attention(make: Composer, node: Node) -> Results:
    op = node.op
    assert isinstance(op, FlexAttention)
    q, k, v = (x for x in node.inputs if x is not None)
    width = q.shape[3]
    if not isinstance(width, int) and op.scale is None:
        make.refuse("heads of unknown size")
    kind, wide = op.precision(q.dtype), dtypes.float32 if is_half(q.dtype) else q.dtype
    (batch, heads, queries, _), (_, groups, keys, _) = q.shape, k.shape
    grouped = batch, groups, dims.floordiv(heads, groups)
    left = make.reshape(make.cast(q, wide), *grouped, queries, width)
    right = make.permute(
        make.reshape(make.cast(k, wide), batch, groups, 1, keys, width), 0, 1, 2, 4, 3
    )
    factor = op.scale if not isinstance(width, int) else op.factor(width)
    assert factor is not None
    scores = make.cast(make(make("MatMul", left, right) * factor), kind)
    scores = _through(
        make, node.subgraphs.get("score_mod"), make.reshape(scores, batch, heads, queries, keys)
    )
    weights = _through(make, node.subgraphs.get("prob_mod"), make("Softmax", scores, axis=-1))
    last = make.reshape(make.cast(weights, wide), *grouped, queries, keys)
    result = make(
        "MatMul", last, make.reshape(make.cast(v, wide), batch, groups, 1, keys, v.shape[3])
    )
    return make.cast(make.reshape(result, *node.output.shape), node.output.dtype)


def _through(make: Composer, body: Graph | None, value: Value) -> Value:
    """What a body makes of a value, its nodes put in place."""
    if body is None:
        return value
    values = {body.inputs[0]: value}
    for node in clone_nodes(body.nodes, values):
        node.serial = make.node.serial
        make.made.append(make.graph.add_node(node))
        node.op.infer_node(node)
    return make.reshape(values.get(body.outputs[0], body.outputs[0]), *value.shape)
