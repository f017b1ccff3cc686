"""Attention by blocks: no buffer of scores, any strides of Q, K and V."""

from __future__ import annotations

import math

from infuse import dtypes
from infuse.codegen.groups import Group
from infuse.codegen.lower.linear import label, require_float32
from infuse.codegen.lower.views import operand
from infuse.codegen.lowering import Lowering, lowers
from infuse.codegen.program import FunctionWriter, size_text
from infuse.codegen.tensors import Tensor, natural
from infuse.ir.graph import Node, Value


@lowers("Attention", fuses=True)
def attention(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    _check(low, node)
    q, k, v = (_heads(low, node, i) for i in range(3))
    given = node.op.attributes()
    merged = operand(node).rank == 4
    order = (0, 2, 1, 3) if merged else natural(3)
    scale = given["scale"] if given["scale"] is not None else 1 / math.sqrt(_number(low, node, q.shape[3]))
    f = low.function("attention", *group.nodes)
    f.include("attention.hpp")
    sink = low.sink(f, group, order, inner=2 if merged else 1)
    mask = _mask(low, node, f, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
    sizes = [q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]]
    causal = "true" if given["is_causal"] else "false"
    rest = f"{float(scale)!r}f, {causal}, 0L, true"
    f.scratch(f"attention_scratch(AttentionShape{{{', '.join(map(size_text, sizes))}, {rest}}})", "attention.hpp")
    rows = [f"HeadRows{{{f.read(t)}, {f.numbers(*t.strides[:3])}}}" for t in (q, k, v)]
    f.line(f"attention(c, AttentionShape{{{f.numbers(*sizes)}, {rest}}}, {', '.join(rows)}, {mask}, {sink});")
    f.finish(label(group))


def _check(low: Lowering, node: Node) -> None:
    given = node.op.attributes()
    if any(v.uses for v in node.outputs[1:]):
        low.unsupported(node, "present keys and values")
    if any(node.input(i) is not None for i in (4, 5, 6)):
        low.unsupported(node, "past keys and values")
    if given["softcap"] or given["left_window_size"] >= 0 or given["right_window_size"] >= 0:
        low.unsupported(node, "softcap or a window")


def _number(low: Lowering, node: Node, size: object) -> int:
    if not isinstance(size, int):
        low.unsupported(node, "heads of unknown size")
    assert isinstance(size, int)
    return size


def _heads(low: Lowering, node: Node, index: int) -> Tensor:
    """Q, K or V as (batch, heads, sequence, size) with neighbouring elements of a head side by side."""
    value = operand(node, index)
    if value.rank == 3:
        heads = node.op.attributes()["q_num_heads" if index == 0 else "kv_num_heads"]
        batch, length, width = value.shape
        whole = low.tensor(value).reshape((batch, length, heads, width // heads))
        if whole is None:
            whole = low.dense(value, natural(3)).reshape((batch, length, heads, width // heads))
        assert whole is not None
        tensor = whole.permute((0, 2, 1, 3))
    else:
        tensor = low.tensor(value)
    if tensor.strides[3] != 1 and tensor.shape[3] != 1:
        tensor = low.arranged(tensor, (0, 2, 1, 3))
    return tensor


def _mask(low: Lowering, node: Node, f: FunctionWriter, scores: tuple[object, ...]) -> str:
    value = node.input(3)
    if value is None:
        return "NoMask{}"
    tensor = _mask_tensor(low, value)
    strides = []
    for axis in range(4):
        own = axis - 4 + tensor.rank
        repeated = own < 0 or tensor.shape[own] == 1
        strides.append(f.number(0 if repeated else tensor.strides[own]))
    kind = "BoolMask" if value.dtype == dtypes.bool_ else "AddMask"
    return f"{kind}{{{f.read(tensor)}, {', '.join(strides)}}}"


def _mask_tensor(low: Lowering, value: Value) -> Tensor:
    tensor = low.tensor(value)
    if value.rank and tensor.shape[-1] != 1 and tensor.strides[-1] not in (0, 1):
        return low.dense(value, natural(value.rank))
    return tensor
