"""Attention by blocks: no buffer of scores, any strides of Q, K and V."""

from __future__ import annotations

import math
from dataclasses import dataclass

from infuse import dtypes
from infuse.immutable import replace
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.choice import usual
from infuse.lowering.expressions import Aggregate, Calculated, Expression, FieldOf, elements
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, natural
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.families.attention import (
    BLOCKS,
    MOST_FEW,
    MOST_KEYS,
    USUAL_FEW,
    AttentionSizes,
    forms,
)
from infuse.targets.cpu.lower.linear import label, require_float32
from infuse.targets.cpu.table import lowers


@dataclass
class Heads:
    """What attention is computed of: q, k and v by heads (batch, heads, length, size), and which
    keys a query sees.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float | None
    mask: Value | None = None
    causal: bool = False
    first: Dim = 0
    """The place of the first query among the keys."""
    valid: Tensor | None = None
    """How many keys count in each batch, the queries' own being the last of them."""
    sinks: Tensor | None = None
    """For each head of queries a score that takes part in the softmax alone."""
    left: int = -1
    right: int = -1
    softcap: float = 0.0


@lowers("Attention", has_epilogue=True)
def attention(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    if any(v.uses for v in node.outputs[3:]):
        low.unsupported(node, "scores")
    attributes = node.op.attributes()
    q, k, v = (_heads(low, node, i) for i in range(3))
    past = node.input(4)
    first: Dim = 0 if past is None else past.shape[2]
    k, v = (_present(low, node, i, x) for i, x in ((1, k), (2, v)))
    heads = Heads(q, k, v, attributes["scale"], node.input(3), bool(attributes["is_causal"]), first)
    heads.left, heads.right = attributes["left_window_size"], attributes["right_window_size"]
    heads.softcap = attributes["softcap"]
    valid = node.input(6)
    if valid is not None:
        if valid.dtype != dtypes.int64:
            low.unsupported(node, f"numbers of keys as {valid.dtype}")
        heads.valid = low.storage.dense(valid)
    attend(low, node, group, heads)


def attend(low: Lowering, node: Node, group: Group, heads: Heads) -> None:
    """The step that computes attention, its result (batch, length, heads · size) or by heads as the
    node's is.
    """
    q, k, v = heads.q, heads.k, heads.v
    merged = node.output.rank == 4
    order = (0, 2, 1, 3) if merged else natural(3)
    f = low.function("attention", *group.nodes)
    sizes = AttentionSizes(
        batch=q.shape[0],
        heads=q.shape[1],
        kv_heads=k.shape[1],
        queries=q.shape[2],
        keys=k.shape[2],
        dim=q.shape[3],
        value_dim=v.shape[3],
        causal_offset=heads.first,
    )
    names = forms(sizes.queries, usual(sizes.keys), low.precision)
    form = low.choose("attention", [*sizes[:2], *sizes[3:7]], *names)
    kernel = f"attention_{form}" if form == low.precision else "attention"
    f.include(f"{kernel}.hpp")
    sink = low.fusing.sink(f, group, order, inner=2 if merged else 1)
    f.scratch("attention_scratch", "attention.hpp", elements(sizes, type="AttentionShape"))
    causal = "true" if heads.causal else "false"
    shape = elements(f.sizes(sizes), scale_of(f, q.shape[3], heads.scale), causal)
    f.variable("AttentionShape", shape=shape)
    for name, tensor, type in (("valid", heads.valid, "int64_t"), ("sinks", heads.sinks, "float")):
        pointer = f"(const {type}*)nullptr" if tensor is None else f.read(tensor)
        f.assign(FieldOf("shape", name), pointer)
    few = {"rows": MOST_FEW, "panels": 0}.get(form, USUAL_FEW)
    for name, number in (
        ("left", heads.left),
        ("few", few),
        ("block", BLOCKS.get(form, MOST_KEYS)),
    ):
        f.assign(FieldOf("shape", name), number)
    mask = _mask(low, f, heads)
    rows = [f.strided("HeadRows", t) for t in (q, k, v)]
    f.call(kernel, "shape", *rows, mask, sink)
    f.finish(label(group))


def scale_of(f: FunctionWriter, size: Dim, scale: float | None) -> Expression:
    """What the scores are multiplied by: 1/√size where `scale` is not stated."""
    if scale is None and not isinstance(size, int):
        operands = (f.number(size),)
        return Calculated("1.0f / __builtin_sqrtf({})", operands, lambda n: 1 / math.sqrt(n))
    number = scale if scale is not None else 1 / math.sqrt(int(str(size)))
    return f"{float(number)!r}f"


def _heads(low: Lowering, node: Node, index: int) -> Tensor:
    """Q, K or V as (batch, heads, sequence, size) with neighbouring elements of a head side by
    side.
    """
    count = node.op.attributes()["q_num_heads" if index == 0 else "kv_num_heads"]
    return by_heads(low, operand(node, index), count)


def by_heads(low: Lowering, value: Value, heads: int) -> Tensor:
    """A value (batch, sequence, heads · size), or by heads already, as (batch, heads, sequence,
    size).
    """
    tensor = low.storage.tensor(value)
    if value.rank == 3:
        tensor = split_heads(tensor, heads)
    if tensor.strides[3] != 1 and tensor.shape[3] != 1:
        tensor = low.storage.arranged(tensor, (0, 2, 1, 3))
    return tensor


def split_heads(tensor: Tensor, heads: int) -> Tensor:
    """A tensor (batch, sequence, heads · size) seen as (batch, heads, sequence, size)."""
    batch, length, width = tensor.shape
    size = dims.floordiv(width, heads)
    outer, row, step = tensor.strides
    order = tuple(axis for a in tensor.order for axis in ((0,), (2,), (1, 3))[a])
    return replace(
        tensor,
        shape=(batch, heads, length, size),
        strides=(outer, size * step, row, step),
        order=order,
    )


def _present(low: Lowering, node: Node, number: int, new: Tensor) -> Tensor:
    """All keys (output 1) or values (output 2): the new ones behind those of the past."""
    output = node.outputs[number] if number < len(node.outputs) else None
    past, whole = node.input(3 + number), new
    if past is not None:
        before = past.shape[2]
        shape = (*new.shape[:2], before + new.shape[2], new.shape[3])
        if output is not None:
            whole = low.storage.allocate(output, strided=True)
        else:
            whole = low.storage.scratch_tensor(new.dtype, shape, natural(4), "present")
        low.storage.copy(low.storage.tensor(past), whole.slice(2, 0, before), "past", node)
        low.storage.copy(new, whole.slice(2, before, new.shape[2]), "present", node)
    if output is not None:
        low.storage.tensors[output] = whole
    return whole


def _mask(low: Lowering, f: FunctionWriter, heads: Heads) -> Aggregate:
    """What masks the scores."""
    mask = _own_mask(low, f, heads.mask)
    if heads.left >= 0 or heads.right >= 0:
        valid = "(const int64_t*)nullptr" if heads.valid is None else f.read(heads.valid)
        f.constant("inner", mask, type="auto")
        window = str(heads.left), str(heads.right), f.number(heads.first), valid
        queries = Calculated("{}.queries", ("shape",), lambda shape: shape.items[0].queries)
        how = ("decltype(inner)",)
        mask = elements("inner", *window, queries, type="Windowed", template=how)
    if heads.softcap:
        f.constant("seen", mask, type="auto")
        cap = f"{float(heads.softcap)!r}f"
        mask = elements("seen", cap, type="Capped", template=("decltype(seen)",))
    return mask


def _own_mask(low: Lowering, f: FunctionWriter, value: Value | None) -> Aggregate:
    """What a mask of the model's does to scores; it may repeat along its axes."""
    if value is None:
        return elements(type="NoMask")
    tensor = _mask_tensor(low, value)
    strides = []
    for axis in range(4):
        own = axis - 4 + tensor.rank
        repeated = own < 0 or tensor.shape[own] == 1
        strides.append(f.number(0 if repeated else tensor.strides[own]))
    kind = "BoolMask" if value.dtype == dtypes.bool_ else "AddMask"
    return elements(f.read(tensor), *strides, type=kind)


def _mask_tensor(low: Lowering, value: Value) -> Tensor:
    tensor = low.storage.tensor(value)
    if value.rank and tensor.shape[-1] != 1 and tensor.strides[-1] not in (0, 1):
        return low.storage.dense(value, natural(value.rank))
    return tensor
