"""Attention over pages of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from infuse.ops.paging import PagedAttention
from infuse.targets.cpu.families.base import (
    Arguments,
    Size,
    Stores,
    declared_in,
    leading,
    writes,
)

MOST_TOKENS: Final = 256
"""Tokens of a page that the kernel takes."""


@declared_in("paged_attention.hpp")
class PagedSizes(NamedTuple):
    """Rows of `tokens` of several sequences, and a pool of pages of `page` tokens, of which each
    sequence lists some.
    """

    tokens: Size
    sequences: Size
    heads: Size
    kv_heads: Size
    dim: Size
    value_dim: Size
    pool: Size
    page: Size
    listed: Size


@writes("paged_attention")
def paged_attention(call: Arguments) -> Stores:
    """Attention, and the new keys and values in their pages."""
    shape, of, q, k, v, keys, values, _ = call.arguments
    s, scale, cap, left, sinks, slopes = shape.items
    starts, lengths, pages = of.items
    width = {"q": s.heads * s.dim, "k": s.kv_heads * s.dim, "v": s.kv_heads * s.value_dim}
    rows = {
        name: leading(elements, s.tokens * width[name]).reshape(s.tokens, -1)
        for name, elements in (("q", q), ("k", k), ("v", v))
    }
    caches = [
        leading(elements, s.pool * s.kv_heads * s.page * size).reshape(s.pool, s.kv_heads, *each)
        for elements, size, each in (
            (keys, s.dim, (s.dim, s.page)),
            (values, s.value_dim, (s.page, s.value_dim)),
        )
    ]
    op = PagedAttention(
        q_num_heads=s.heads,
        kv_num_heads=s.kv_heads,
        left_window_size=left,
        scale=scale,
        softcap=cap,
    )
    lists = (
        leading(starts, s.sequences + 1),
        leading(lengths, s.sequences),
        leading(pages, s.sequences * s.listed).reshape(s.sequences, s.listed),
    )
    heads = (None if each is None else leading(each, s.heads) for each in (sinks, slopes))
    operands: Sequence[Any] = (*rows.values(), *caches, *lists, *heads)
    y, new_keys, new_values = op.eval(*operands)
    return {5: new_keys.reshape(-1), 6: new_values.reshape(-1), 7: y.reshape(-1)}
