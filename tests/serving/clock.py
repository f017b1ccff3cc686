"""A clock that stands still until a test moves it on, in place of the module `time` of what is
tested.
"""

from dataclasses import dataclass


@dataclass
class Clock:
    """`seconds` is the time of both clocks."""

    seconds: float = 100.0

    def perf_counter(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """So much time goes by."""
        self.seconds += seconds
