"""Texts as the numbers that CatBoost knows its categories by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Elementwise
from infuse.ops.core.city_hashing import city_hashes
from infuse.ops.core.samples import cases
from infuse.ops.core.stored_hashes import Hashes
from infuse.ops.core.traits import Trait
from infuse.ops.text import require_text, texts
from infuse.ops.tokens import decoded


class HashText(Elementwise):
    """The number that CatBoost knows a category by: the lowest 32 bits of the CityHash64 (version
    1) of its text in UTF-8, as a signed number in int64.
    """

    traits = Trait.ZERO_FLOPS

    domain = "infuse"
    samples = cases(
        x=[
            texts("", "a", "red", "1234", "-17", "ünï", "nine char", "sixteen letters!"),
            texts("seventeen letters", "t" * 32, "u" * 33, "v" * 64, shape=(2, 2)),
            texts("w" * 65, "x" * 128, "yz" * 100, "猫" * 43),
            texts(shape=(0, 3)),
        ],
    )

    @cached_property
    def _hashes(self) -> Hashes[str]:
        return Hashes(_numbers)

    def result_dtype(self, x: Value) -> DType:
        require_text(self.name, x)
        return dtypes.int64

    def eval(self, x: Array) -> Array:
        flat = x.reshape(-1)
        try:
            return self._hashes.of(flat.tolist()).reshape(x.shape)
        except (AttributeError, TypeError):
            # Bytes are texts too, and what is none is named.
            return self._hashes.of(decoded(flat)).reshape(x.shape)


def _numbers(listed: Sequence[str]) -> Array:
    hashes = city_hashes([text.encode() for text in listed])
    return hashes.astype(np.uint32).view(np.int32).astype(np.int64)
