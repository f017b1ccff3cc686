"""Texts that end an answer, also where they lie across the borders of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.errors import OptionError


class StopTexts:
    """Text as it comes, held back where it may be the beginning of a text that ends the answer."""

    def __init__(self, stop: str | Sequence[str]) -> None:
        self._stop = (stop,) if isinstance(stop, str) else tuple(stop)
        if not all(isinstance(text, str) and text for text in self._stop):
            raise OptionError("a text that ends an answer is empty, or no text")
        self._waiting = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """What of the text so far is surely a part of the answer."""
        if self.stopped:
            return ""
        self._waiting += text
        places = [at for stop in self._stop if (at := self._waiting.find(stop)) >= 0]
        if places:
            self.stopped = True
            sure, self._waiting = self._waiting[: min(places)], ""
            return sure
        held = max((_begun(self._waiting, stop) for stop in self._stop), default=0)
        cut = len(self._waiting) - held
        sure, self._waiting = self._waiting[:cut], self._waiting[cut:]
        return sure

    def finish(self) -> str:
        """What was held back, when no more text comes."""
        rest, self._waiting = self._waiting, ""
        return rest


def _begun(text: str, stop: str) -> int:
    """Characters at the end of a text that are the beginning of another."""
    for count in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:count]):
            return count
    return 0
