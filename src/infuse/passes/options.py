"""What a user may switch in an optimization, and the names of rules and passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from infuse.errors import OptionError, RuleError, did_you_mean
from infuse.passes.fold import GROWTH_LIMIT
from infuse.passes.order import PASSES
from infuse.passes.registry import extensions_of, registered
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

    @classmethod
    def of(
        cls,
        level: str,
        *,
        disable: str | Iterable[str] = (),
        only: str | Iterable[str] = (),
        enable: str | Iterable[str] = (),
        extra: Any = (),
        runtime: str = "",
    ) -> Options:
        """Options of names, of which one may stand alone, and of rules and passes: objects or
        classes, one or several. OptionError for what is no name, RuleError for what is no rule.
        """
        return cls(
            level,
            _names("disable", disable),
            _names("only", only),
            _names("enable", enable),
            tuple(extensions_of([extra], "extra")),
            runtime=runtime,
        )

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


def _names(option: str, value: str | Iterable[str]) -> frozenset[str]:
    names = {value} if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"{option} takes names of rules, not {value!r}",
            hint="the name of a rule, or a list of names; infuse why --list shows them",
        )
    return frozenset(names)
