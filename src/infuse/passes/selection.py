"""Which rules and passes an optimization runs, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from infuse.errors import OptionError, RuleError, did_you_mean
from infuse.options import LEVELS, Rules
from infuse.passes.fold import GROWTH_LIMIT
from infuse.passes.order import PASSES
from infuse.passes.registry import extensions_of, registered
from infuse.passes.rules import ALL_RULES
from infuse.rewrite import Pass, Rule

FOLD = "FoldConstants"


@dataclass(frozen=True)
class Selection(Rules):
    """The rules and passes of an optimization, and where it stops. RuleError for an extra that is
    neither.
    """

    fold_limit: int = GROWTH_LIMIT
    """Bytes by which constant folding may enlarge a constant."""
    stop_after: int | None = None
    """Number of rewrites after which the pipeline stops; a pass that has begun still finishes."""

    @classmethod
    def of(cls, rules: Rules | str) -> Selection:
        """What rules select, or the level that a text names."""
        if isinstance(rules, Selection):
            return rules
        return cls(rules) if isinstance(rules, str) else cls(**vars(rules))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "extra", tuple(extensions_of([self.extra], "extra")))

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


def check_names(options: Selection) -> None:
    """OptionError for an unknown rule or pass."""
    own = {FOLD, *(rule.name for rule in ALL_RULES), *(each.name for each in PASSES)}
    taken = [t.name for t in options.extensions if t.name in own]
    if taken:
        raise RuleError(
            f"{taken[0]} is the name of a rule of Infuse",
            hint="give your rule or pass another name",
        )
    names = own | {t.name for t in options.extensions}
    for name in sorted(options.mentioned):
        if name not in names:
            raise _no_rule(name, names)


def find_rule(name: str, extra: Sequence[Rule] = ()) -> Rule:
    """The rule called `name`; OptionError when there is none."""
    rules = {r.name: r for r in (*ALL_RULES, *extra)}
    if name not in rules:
        raise _no_rule(name, rules)
    return rules[name]


def _no_rule(name: str, names: Iterable[str]) -> OptionError:
    hint = did_you_mean(name, names, otherwise="infuse why --list names all rules")
    return OptionError(f"there is no rule {name!r}", hint=hint)
