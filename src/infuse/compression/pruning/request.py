"""What a pruning is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infuse.compression.contract import part_or_number
from infuse.errors import OptionError

GOALS = ("macs", "latency")
CHANNELS, HIDDEN, BLOCKS = "channels", "hidden", "blocks"
KINDS = (CHANNELS, HIDDEN, BLOCKS)
"""What can go: channels (neurons and heads are such, too), those of a hidden size that
normalizations join, and residual blocks.
"""


@dataclass(frozen=True)
class PruneRequest:
    """The part of the multiplications (`macs`) or of the time of a run (`latency`) that is to go,
    and in how many rounds.
    """

    part: float
    goal: str = "macs"
    rounds: int = 1
    kinds: tuple[str, ...] = KINDS
    """What may go."""

    @classmethod
    def parse(
        cls,
        text: str | float,
        goal: str = "macs",
        rounds: int = 1,
        kinds: str | Sequence[str] | None = None,
        has_data: bool = True,
    ) -> PruneRequest:
        """`"50%"` or `0.5` of what there is; `kinds` are some of `KINDS`, in a text with commas
        between them: by default all, and channels alone where there are no data. OptionError for
        anything else, and for other kinds without data.
        """
        number, is_percentage = part_or_number(text)
        if (isinstance(text, str) and not is_percentage) or not 0 < number < 1:
            raise OptionError(
                f"prune is {text!r}, which is not a part of the model",
                hint="50% of the multiplications, or 0.5",
            )
        if goal not in GOALS:
            raise OptionError(f"there is no goal {goal!r}", hint=f"one of {', '.join(GOALS)}")
        if rounds < 1:
            raise OptionError(f"{rounds} rounds prune nothing", hint="1 or more")
        return cls(number, goal, rounds, _kinds(kinds, has_data))


def _kinds(kinds: str | Sequence[str] | None, has_data: bool) -> tuple[str, ...]:
    if kinds is None:
        return KINDS if has_data else (CHANNELS,)
    listed = kinds.split(",") if isinstance(kinds, str) else kinds
    named = {each.strip() for each in listed}
    unknown = sorted(named - set(KINDS))
    if unknown or not named:
        raise OptionError(
            f"nothing that can be pruned is called {', '.join(unknown) or 'so'}",
            hint=f"one or more of {', '.join(KINDS)}",
        )
    if not has_data and named != {CHANNELS}:
        raise OptionError(
            "what hidden sizes and blocks change is measured on data, and there are none",
            hint="give some (--data, data=), or prune channels alone",
        )
    return tuple(kind for kind in KINDS if kind in named)
