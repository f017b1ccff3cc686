"""SentencePiece's merging of pairs by the scores of pieces, with bytes for what has no piece."""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from typing import Final

SPACE: Final = "▁"
"""What stands for a space in pieces."""
_MOST_WORDS: Final = 1 << 16
_LONGEST_WORD: Final = 64
"""Words that are remembered, and how long they may be."""


class PieceEncoder:
    """Texts → numbers of pieces. Of all pairs of neighbours that make a piece, the one of the
    highest score is merged first, and of equal ones the leftmost. What is no piece in the end is
    its bytes in UTF-8, and `unknown` where these have no pieces.

    `pieces`: numbers by text; `scores`: by number; `of_bytes`: numbers of the pieces of bytes, or
    none. Source: Kudo and Richardson, SentencePiece (2018).
    """

    def __init__(
        self,
        pieces: Mapping[str, int],
        scores: Sequence[float],
        of_bytes: Sequence[int],
        unknown: int | None,
    ) -> None:
        self._pieces, self._of_bytes, self._unknown = pieces, of_bytes, unknown
        self._costs = [-score for score in scores]
        joined = re.findall(rf"[^{SPACE}\0]{SPACE}", "\0".join(pieces))
        before = "".join(sorted({pair[0] for pair in joined}))
        inside = f"(?<![{re.escape(before)}])" if before else ""
        # No piece has a space after another character, but after these: a word ends before it.
        self._words = re.compile(rf"(?<=[^{SPACE}]){inside}(?={SPACE})")
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The numbers of the pieces of a text, whose spaces stand as U+2581."""
        ids: list[int] = []
        for word in self._words.split(text):
            numbers = self._cache.get(word)
            if numbers is None:
                numbers = self._encoded(word)
                if len(word) <= _LONGEST_WORD:
                    if len(self._cache) >= _MOST_WORDS:
                        self._cache.clear()
                    self._cache[word] = numbers
            ids += numbers
        return ids

    def _encoded(self, word: str) -> list[int]:
        ids: list[int] = []
        for symbol in self._merged(word):
            number = self._pieces.get(symbol)
            if number is not None:
                ids.append(number)
            elif self._of_bytes:
                ids += [self._of_bytes[byte] for byte in symbol.encode()]
            elif self._unknown is not None:
                ids.append(self._unknown)
        return ids

    def _merged(self, word: str) -> list[str]:
        symbols: list[str] = list(word)
        count, pieces, costs = len(symbols), self._pieces, self._costs
        after, before = list(range(1, count + 1)), list(range(-1, count - 1))
        queue: list[tuple[float, int, str]] = []
        for left in range(count - 1):
            pair = symbols[left] + symbols[left + 1]
            if pair in pieces:
                queue.append((costs[pieces[pair]], left, pair))
        heapq.heapify(queue)
        while queue:
            _, left, pair = heapq.heappop(queue)
            right = after[left]
            if not symbols[left] or right >= count or symbols[left] + symbols[right] != pair:
                continue
            symbols[left], symbols[right] = pair, ""
            follower = after[left] = after[right]
            if follower < count:
                before[follower] = left
                self._queue(queue, left, pair + symbols[follower])
            if before[left] >= 0:
                self._queue(queue, before[left], symbols[before[left]] + pair)
        return [symbol for symbol in symbols if symbol]

    def _queue(self, queue: list[tuple[float, int, str]], left: int, pair: str) -> None:
        number = self._pieces.get(pair)
        if number is not None:
            heapq.heappush(queue, (self._costs[number], left, pair))
