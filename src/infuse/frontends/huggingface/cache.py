"""Keys and values of the tokens before, which a decoder is given and hands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infuse.frontends.huggingface.layers import join_heads
from infuse.tracing.arrays.array import Array, node, nodes
from infuse.tracing.arrays.creation import arange


class Cache:
    """Keys and values of the tokens before, by layer: `present` are those before and the new
    ones. Without any before, queries attend to the new tokens alone.
    """

    def __init__(self, past: Mapping[str, Array]) -> None:
        self._past = past
        self.present: dict[str, Array] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no token ever comes before."""
        return not self._past

    @property
    def length(self) -> Any:
        """How many tokens came before."""
        return 0 if self.is_empty else self._past[past_names(0)[0]].shape[2]

    def attend(self, number: int, qkv: Sequence[Array], mask: Array, **attributes: Any) -> Array:
        """What the queries of a layer, [batch, heads, length, size], make of keys and values up to
        their own places, heads joined.
        """
        if self.is_empty:
            return join_heads(node("Attention", *qkv, mask, is_causal=1, **attributes))
        past = [self._past[name] for name in past_names(number)]
        results = nodes(3, "Attention", *qkv, mask, *past, is_causal=1, **attributes)
        names = (name.replace("past_key_values", "present") for name in past_names(number))
        self.present.update(zip(names, results[1:]))
        return join_heads(results[0])


def past_names(number: int) -> tuple[str, str]:
    """The names of the inputs for a layer's keys and values, as Optimum exports them."""
    return f"past_key_values.{number}.key", f"past_key_values.{number}.value"


def places(input_ids: Array, cache: Cache) -> Array:
    """The places of the new tokens in their texts: [length]."""
    numbers = arange(input_ids.shape[1])
    return numbers if cache.is_empty else numbers + cache.length
