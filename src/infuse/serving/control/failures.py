"""The versions of a model that could not be loaded, and when they are tried again."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from infuse.serving.tuning import RETRY_SECONDS

_MOST_WAIT: Final = 300.0  # seconds before a version that failed for a passing reason is tried


@dataclass(frozen=True)
class Failure:
    """A version that could not be loaded, as it was when that was tried: `tries` times by now, and
    where that may pass (`transient`), not `again` before a time of `time.monotonic`.
    """

    key: str
    reason: str
    transient: bool
    tries: int = 1
    again: float = 0.0

    def after(self, last: Failure | None) -> Failure:
        """The same, where `last` was the failure before it: the wait doubles."""
        tries = last.tries + 1 if last is not None and last.key == self.key else 1
        wait = min(RETRY_SECONDS * 2.0 ** min(tries - 1, 32), _MOST_WAIT)
        return replace(self, tries=tries, again=time.monotonic() + wait)


class Failures(Mapping[int, Failure]):
    """The last failure of each version that could not be loaded, by its number."""

    def __init__(self) -> None:
        self._failures: dict[int, Failure] = {}

    def __getitem__(self, number: int) -> Failure:
        return self._failures[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._failures)

    def __len__(self) -> int:
        return len(self._failures)

    def add(self, number: int, failure: Failure) -> None:
        """A version has failed, again or for the first time."""
        self._failures[number] = failure.after(self._failures.get(number))

    def is_news(self, number: int, failure: Failure) -> bool:
        """Whether a version has not failed like that the last time."""
        last = self._failures.get(number)
        return last is None or (last.key, last.reason) != (failure.key, failure.reason)

    def is_final(self, number: int, key: str) -> bool:
        """Whether a version with this key failed, and is not to be tried again yet."""
        failure = self._failures.get(number)
        return (
            failure is not None
            and (not failure.transient or time.monotonic() < failure.again)
            and failure.key == key
        )

    def forget(self, numbers: Collection[int]) -> None:
        """Try these versions again, whatever they failed for."""
        for number in numbers:
            self._failures.pop(number, None)

    def retry_soon(self) -> None:
        """Try again what failed for a passing reason: it may have passed."""
        self._failures = {
            number: replace(failure, again=0.0) if failure.transient else failure
            for number, failure in self._failures.items()
        }
