"""What a comparison of an optimized graph with its original found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Guilty:
    """A rule or pass that was left out, because the graph computed something else after it."""

    rule: str
    nodes: tuple[str, ...]
    """What the first wrong rewrite replaced, as `Kind(name)`."""
    what: str
    """How the result differed."""

    def __str__(self) -> str:
        at = (
            f" at {', '.join(self.nodes[:3])}{' …' if len(self.nodes) > 3 else ''}"
            if self.nodes
            else ""
        )
        return f"{self.rule} is wrong on this model{at} and was left out: {self.what}"


@dataclass(frozen=True)
class Verdict:
    """Whether two graphs were compared, on inputs of which sizes, and the largest difference,
    relative to the largest element of the output; or the reason why they were not.
    """

    checked: bool
    difference: float = 0.0
    trials: tuple[Mapping[str, int], ...] = ()
    """The sizes of the symbols in each trial."""
    given: bool = False
    """Whether the inputs were given and not random."""
    reason: str = ""
    guilty: tuple[Guilty, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if not self.checked:
            return f"not verified: {self.reason}"
        sizes = " and with ".join(filter(None, map(_sizes, self.trials)))
        same = (
            "same result"
            if not self.difference
            else f"largest difference {self.difference:.1e} of the output"
        )
        text = (
            f"verified on {'the given' if self.given else 'random'} "
            f"inputs{f' with {sizes}' if sizes else ''}: {same}"
        )
        return "\n".join([*map(str, self.guilty), text])


def _sizes(trial: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in trial.items())
