"""The order of all passes, on one page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.passes.cse import EliminateCommonSubexpressions
from infuse.passes.fold import Folder
from infuse.passes.rules import ALL_RULES
from infuse.rewrite import LEVELS, Driver, Pass, Report, Rule
from infuse.rewrite.record import count_operators

ROUNDS = 4
Progress = Callable[[str, int, int], None]


@dataclass
class Options:
    """What a user may switch: the level, rules left out, the only rules, opt-in rules."""

    level: str = "all"
    disable: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    enable: frozenset[str] = frozenset()
    extra: Sequence[Rule | Pass] = field(default_factory=tuple)
    fold_limit: int | None = None

    def selects(self, thing: Rule | Pass) -> bool:
        """Whether a rule or pass runs."""
        if thing.name in self.disable or LEVELS.index(thing.level) > LEVELS.index(self.level):
            return False
        if self.only and thing.name not in self.only:
            return False
        return not getattr(thing, "opt_in", False) or thing.name in self.enable or thing.name in self.only


def optimize_in_place(graph: Graph, options: Options, progress: Progress | None = None) -> Report:
    """Run the pipeline on `graph`.

    basic:    fold constants, rewrite to the fixed point, merge equal nodes; again while that changes anything
    extended: the same with the fused operators
    all:      the same; layout, memory and target belong to the code generator
    """
    check_names(options)
    report = Report(before=count_operators(graph))
    if options.level != "none":
        stages = [level for level in ("basic", "extended", "all") if LEVELS.index(level) <= LEVELS.index(options.level)]
        for number, level in enumerate(stages):
            if progress:
                progress(level, number, len(stages))
            _stage(graph, level, options, report)
        if progress:
            progress("done", len(stages), len(stages))
    report.after = count_operators(graph)
    return report


def _stage(graph: Graph, level: str, options: Options, report: Report) -> None:
    rules = [r for r in (*ALL_RULES, *options.extra) if isinstance(r, Rule)]
    active = [r for r in rules if options.selects(r) and LEVELS.index(r.level) <= LEVELS.index(level)]
    passes: list[Pass] = [EliminateCommonSubexpressions(), *(p for p in options.extra if isinstance(p, Pass))]
    fold = None
    if "FoldConstants" not in options.disable and (not options.only or "FoldConstants" in options.only):
        fold = Folder() if options.fold_limit is None else Folder(options.fold_limit)
    driver = Driver(active, report, fold=fold, check=_checker())
    for _ in range(ROUNDS):
        started = time.perf_counter()
        changed = driver.run(graph)
        before = len(report.rewrites)
        for each in passes:
            if options.selects(each):
                each.run(graph, report)
        report.seconds[level] = report.seconds.get(level, 0.0) + time.perf_counter() - started
        if not changed or len(report.rewrites) == before:
            break
    if fold is not None:
        report.notes += [f"not folded: {name}: {why}" for name, why in fold.skipped.items()]


def _checker() -> Callable[[Graph, str], None] | None:
    if os.environ.get("INFUSE_CHECK", "0") in ("", "0"):
        return None
    from infuse.ir.verify import verify

    def check(graph: Graph, name: str) -> None:
        verify(graph)

    return check


def check_names(options: Options) -> None:
    """OptionError for an unknown level or rule name."""
    if options.level not in LEVELS:
        raise OptionError(f"there is no level {options.level!r}", hint=f"one of: {', '.join(LEVELS)}")
    known = {r.name for r in ALL_RULES} | {t.name for t in options.extra}
    known |= {"FoldConstants", EliminateCommonSubexpressions().name}
    for name in sorted(options.disable | options.only | options.enable):
        if name not in known:
            raise OptionError(f"there is no rule {name!r}", hint=f"did you mean {_nearest(name, known)!r}?")


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    return (difflib.get_close_matches(name, sorted(known), 1, 0.0) or [""])[0]


def find_rule(name: str, extra: Sequence[Rule] = ()) -> Rule:
    """The rule called `name`; OptionError when there is none."""
    for rule in (*ALL_RULES, *extra):
        if rule.name == name:
            return rule
    names = [r.name for r in (*ALL_RULES, *extra)]
    raise OptionError(f"there is no rule {name!r}", hint=f"did you mean {_nearest(name, names)!r}?")
