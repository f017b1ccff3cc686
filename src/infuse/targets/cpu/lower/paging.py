"""Attention over pages of keys and values."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Node
from infuse.ir.states import is_state
from infuse.lowering.expressions import elements
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.paging import PagedAttention
from infuse.targets.cpu.families.paging import MOST_TOKENS, PagedSizes
from infuse.targets.cpu.lower.attention import scale_of
from infuse.targets.cpu.lower.linear import require_float32
from infuse.targets.cpu.table import lowers

STORED = (dtypes.float32, dtypes.float16)
"""What keys and values may be stored as."""


@lowers("PagedAttention", domain="infuse")
def paged_attention(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    op = node.op
    assert isinstance(op, PagedAttention)
    q, k, v, *lists = (
        low.storage.dense(operand(node, i), natural(operand(node, i).rank))
        for i in (0, 1, 2, 5, 6, 7)
    )
    keys, values = (_cache(low, node, number) for number in (1, 2))
    pool, kv_heads, dim, page = keys.shape
    if not (isinstance(page, int) and 1 <= page <= MOST_TOKENS):
        low.unsupported(node, f"pages of {page} tokens (1 to {MOST_TOKENS})")
    if keys.dtype not in STORED:
        low.unsupported(node, f"a cache of {keys.dtype}")
    target = low.storage.allocate(node.output)
    f = low.function("paged_attention", node)
    f.include("paged_attention.hpp", "failure.h")
    pages = lists[2]
    sizes = PagedSizes(
        tokens=q.shape[0],
        sequences=pages.shape[0],
        heads=op.q_num_heads,
        kv_heads=kv_heads,
        dim=dim,
        value_dim=values.shape[3],
        pool=pool,
        page=page,
        listed=pages.shape[1],
    )
    f.scratch("paged_attention_scratch", "paged_attention.hpp", sizes)
    scale = scale_of(f, dim, op.scale)
    numbers = (scale, f"{float(op.softcap)!r}f", str(op.left_window_size))
    heads = (_of_heads(low, f, node, index) for index in (8, 9))
    shape = elements(f.sizes(sizes), *numbers, *heads, type="PagedShape")
    of = elements(*map(f.read, lists), type="Sequences")
    caches = (f.change(each) for each in (keys, values))
    f.call(
        "paged_attention",
        shape,
        of,
        *map(f.read, (q, k, v)),
        *caches,
        f.write(target),
        failure="BAD_INDEX",
    )
    f.finish("PagedAttention")
    low.storage.tensors[node.output] = target


def _cache(low: Lowering, node: Node, number: int) -> Tensor:
    """Keys (output 1) or values (output 2): a state where it lies, else a copy."""
    before, output = operand(node, 2 + number), node.outputs[number : number + 1]
    cache = low.storage.tensor(before)
    if not is_state(before):
        shape, order = cache.shape, natural(4)
        made = (
            low.storage.allocate(output[0], order)
            if output
            else low.storage.scratch_tensor(cache.dtype, shape, order, "cache")
        )
        low.storage.copy(cache, made, "cache", node)
        cache = made
    for value in output:
        low.storage.tensors[value] = cache
    return cache


def _of_heads(low: Lowering, f: FunctionWriter, node: Node, index: int) -> str:
    value = node.input(index)
    return "nullptr" if value is None else f.read(low.storage.dense(value, natural(1)))
