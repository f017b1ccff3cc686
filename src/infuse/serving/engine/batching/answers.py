"""What becomes of requests that were queued: rows of a batch's outputs, or an error, in their order
where that is to be kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from infuse.errors import InfuseError, ModelFailureError
from infuse.runtime.session import Array
from infuse.serving.engine.batching.padding import Padding
from infuse.serving.engine.batching.queue import Entry
from infuse.serving.workers.executor import Result


class Answers:
    """Hands results over to those that wait for them. `ordered`: in the order of `expect`."""

    def __init__(self, name: str, padding: Padding, ordered: bool) -> None:
        self._name = name
        self._padding = padding
        self._keeps_order = ordered
        self._ordered: deque[tuple[Entry, list[list[Array] | Exception]]] = deque()

    def expect(self, entry: Entry) -> None:
        """An entry was queued, and will get an answer."""
        if self._keeps_order:
            self._ordered.append((entry, []))

    def give(self, entries: Sequence[Entry], rows: int, result: Result) -> None:
        """Give every entry its rows of the outputs."""
        outputs, row = result.outputs, 0
        for entry in entries:
            try:
                if len(entries) > 1 and any(output.shape[:1] != (rows,) for output in outputs):
                    raise ModelFailureError(
                        "the model gave outputs of another batch size", where=self._name
                    )
                answers = []
                for number in entry.outputs:
                    output = outputs[number]
                    if len(entries) > 1:
                        output = output[row : row + entry.rows]
                    mine = self._padding.cut(number, output, entry)
                    answers.append(mine if result.owned else np.array(mine, copy=True))
            except InfuseError as error:
                self.fail(entry, error)
            else:
                entry.leave("answered")
                self._settle(entry, answers)
            row += entry.rows

    def fail(self, entry: Entry, error: Exception) -> None:
        """Answer an entry with an error."""
        entry.leave("failed")
        self._settle(entry, error)

    def _settle(self, entry: Entry, result: list[Array] | Exception) -> None:
        """Hand the result over; where order is to be kept, when those before are answered."""
        if not self._keeps_order:
            _hand_over(entry, result)
            return
        for waiting, remaining in self._ordered:
            if waiting is entry and not remaining:
                remaining.append(result)
        while self._ordered and (self._ordered[0][1] or self._ordered[0][0].future.done()):
            first, remaining = self._ordered.popleft()
            if remaining:
                _hand_over(first, remaining[0])


def _hand_over(entry: Entry, result: list[Array] | Exception) -> None:
    if entry.future.done():
        return
    if isinstance(result, Exception):
        entry.future.set_exception(result)
    else:
        entry.future.set_result(result)
