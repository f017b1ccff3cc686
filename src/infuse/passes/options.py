"""What a user may switch in an optimization, and the names of rules and passes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from infuse.errors import OptionError, RuleError
from infuse.passes.fold import GROWTH_LIMIT
from infuse.passes.order import PASSES
from infuse.passes.registry import registered
from infuse.passes.rules import ALL_RULES
from infuse.rewrite import LEVELS, Pass, Rule

FOLD = "FoldConstants"


RUNTIMES = ("", "onnxruntime")


@dataclass
class Options:
    """What a user may switch: the level, rules and passes left out, the only ones, those that need
    asking for.
    """

    level: str = "all"
    disable: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    enable: frozenset[str] = frozenset()
    extra: Sequence[Rule | Pass] = ()
    """Rules and passes of the user's own; the rules are tried before the others."""
    fold_limit: int = GROWTH_LIMIT
    """Bytes by which constant folding may enlarge a constant."""
    stop_after: int | None = None
    """Number of rewrites after which the pipeline stops; a pass that has begun still finishes."""
    runtime: str = ""
    """Whose own operators the result may use: onnxruntime, or empty for standard operators only."""

    @property
    def extensions(self) -> tuple[Rule | Pass, ...]:
        """The user's own rules and passes: those given here, and those registered."""
        return (*self.extra, *registered())

    def selects(self, thing: Rule | Pass, level: str) -> bool:
        """Whether a rule or pass runs at a level."""
        if LEVELS.index(thing.level) > LEVELS.index(level) or not self._named(thing.name):
            return False
        if thing.runtime not in ("", self.runtime):
            return False
        return not thing.opt_in or thing.name in self.enable or thing.name in self.only

    def _named(self, name: str) -> bool:
        return name not in self.disable and (not self.only or name in self.only)

    @property
    def folds(self) -> bool:
        """Whether constants are folded."""
        return self._named(FOLD)


def check_names(options: Options) -> None:
    """OptionError for an unknown level, rule or pass."""
    if options.level not in LEVELS:
        raise OptionError(
            f"there is no level {options.level!r}", hint=f"one of: {', '.join(LEVELS)}"
        )
    if options.runtime not in RUNTIMES:
        raise OptionError(
            f"nothing is known of a runtime {options.runtime!r}",
            hint=f"one of: {', '.join(RUNTIMES[1:])}",
        )
    own = {FOLD, *(rule.name for rule in ALL_RULES), *(each.name for each in PASSES)}
    taken = [t.name for t in options.extensions if t.name in own]
    if taken:
        raise RuleError(
            f"{taken[0]} is the name of a rule of Infuse",
            hint="give your rule or pass another name",
        )
    names = own | {t.name for t in options.extensions}
    for name in sorted(options.disable | options.only | options.enable):
        if name not in names:
            raise OptionError(
                f"there is no rule {name!r}", hint=f"did you mean {_nearest(name, names)!r}?"
            )


def find_rule(name: str, extra: Sequence[Rule] = ()) -> Rule:
    """The rule called `name`; OptionError when there is none."""
    rules = {r.name: r for r in (*ALL_RULES, *extra)}
    if name not in rules:
        raise OptionError(
            f"there is no rule {name!r}", hint=f"did you mean {_nearest(name, rules)!r}?"
        )
    return rules[name]


def _nearest(name: str, names: Iterable[str]) -> str:
    return (difflib.get_close_matches(name, sorted(names), 1, 0.0) or [""])[0]
