"""Hashes of texts that come again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, Generic, TypeVar

import numpy as np

from infuse.ops.core.byte_slices import Ints

_MOST: Final = 1 << 16
"""Texts whose hashes are stored."""
_LONGEST: Final = 256
"""Characters of such a text."""
_NONE: Final = 1 << 40

Text = TypeVar("Text", str, bytes)


class Hashes(Generic[Text]):
    """The hashes of texts, below 2^40; the most recent are stored. Threads may share it."""

    def __init__(self, function: Callable[[Sequence[Text]], Ints]) -> None:
        self._function: Callable[[Sequence[Text]], Ints] = function
        self._stored: dict[Text, int] = {}

    def of(self, listed: Sequence[Text]) -> Ints:
        """The hash of each."""
        stored = self._stored
        hashes = np.fromiter(map(stored.get, listed, repeat(_NONE)), np.int64, len(listed))
        fresh = np.flatnonzero(hashes == _NONE)
        if len(fresh):
            others = [listed[i] for i in fresh.tolist()]
            distinct = list(dict.fromkeys(others))
            numbers = dict(zip(distinct, self._function(distinct).tolist()))
            hashes[fresh] = np.fromiter(map(numbers.__getitem__, others), np.int64, len(others))
            if len(stored) + len(numbers) > _MOST:
                stored = self._stored = {}
            few = list(numbers.items())[:_MOST]
            stored.update((text, number) for text, number in few if len(text) <= _LONGEST)
        return hashes
