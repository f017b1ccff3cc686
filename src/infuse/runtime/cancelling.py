"""Ending runs from another thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Final

from infuse.errors import CancelledError

ACTIVE: Final[dict[int, Cancellation]] = {}
"""What may end the runs of a thread, by its number."""


class Cancellation:
    """Ends runs: those that a thread begins in a `with` block of it. Any thread may `cancel`: a run
    of native code then ends before its next step and raises CancelledError, as do all that begin
    later, until `reset`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: list[Callable[[bool], None]] = []
        self._outer: list[tuple[int, Cancellation | None]] = []
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        """Whether runs end."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Let runs end, those under way and later ones."""
        self._set(True)

    def reset(self) -> None:
        """Let runs go on."""
        self._set(False)

    def _set(self, cancelled: bool) -> None:
        with self._lock:
            self._is_cancelled = cancelled
            for tell in self._running:
                tell(cancelled)

    @contextmanager
    def watching(self, tell: Callable[[bool], None]) -> Iterator[None]:
        """A run that is told to end by `tell(True)`, and to go on by `tell(False)`."""
        self._begin(tell)
        try:
            yield
        finally:
            self._end(tell)

    def _begin(self, tell: Callable[[bool], None]) -> None:
        with self._lock:
            if self._is_cancelled:
                raise CancelledError("the run was cancelled before it began")
            self._running.append(tell)

    def _end(self, tell: Callable[[bool], None]) -> None:
        with self._lock:
            self._running.remove(tell)
            if self._is_cancelled:
                tell(False)

    def __enter__(self) -> Cancellation:
        thread = get_ident()
        with self._lock:
            self._outer.append((thread, ACTIVE.get(thread)))
            ACTIVE[thread] = self
        return self

    def __exit__(self, *exception: object) -> None:
        thread = get_ident()
        with self._lock:
            place = max(i for i, (owner, _) in enumerate(self._outer) if owner == thread)
            outer = self._outer.pop(place)[1]
        if outer is None:
            del ACTIVE[thread]
        else:
            ACTIVE[thread] = outer
