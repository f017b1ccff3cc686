"""The order of all passes, on one page."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from infuse.budgets import check_time
from infuse.errors import InfuseError, OptionError, RuleError
from infuse.ir.clone import clone
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ir.nesting import room_for
from infuse.ir.verify import verify
from infuse.ops.core.inference import symbols_of
from infuse.ops.core.sizes import numbering
from infuse.passes.bodies import (
    InlineEqualBranches,
    InlineShortLoop,
    PassInvariantsBy,
    RemoveUnusedResults,
)
from infuse.passes.cse import EliminateCommonSubexpressions
from infuse.passes.fold import GROWTH_LIMIT, Folder
from infuse.passes.hoist import HoistFromBranches, HoistLoopInvariants
from infuse.passes.inline import InlineConstantIf
from infuse.passes.products import MergeProducts
from infuse.passes.registry import registered
from infuse.passes.rules import ALL_RULES
from infuse.passes.sizes import ShortenSizes
from infuse.passes.split import SlicesAsSplit
from infuse.rewrite import LEVELS, Driver, Explanation, Pass, Report, Rule, explain
from infuse.rewrite.record import count_operators

FIRST: tuple[Pass, ...] = (InlineConstantIf(), InlineShortLoop())
"""Passes that run before the rules: these need not look at branches that are never taken."""
LAST: tuple[Pass, ...] = (
    *(EliminateCommonSubexpressions(), ShortenSizes(), SlicesAsSplit(), MergeProducts()),
    *(
        InlineEqualBranches(),
        HoistFromBranches(),
        HoistLoopInvariants(),
        PassInvariantsBy(),
        RemoveUnusedResults(),
    ),
)
"""Passes that run when the rules have come to rest, in this order."""
PASSES = (*FIRST, *LAST)
FOLD = "FoldConstants"
ROUNDS = 50
RUNTIMES = ("", "onnxruntime")
Progress = Callable[[str, int, int], None]


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


def optimize_in_place(
    graph: Graph, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """Run the pipeline on `graph`; the record of what happened.

    basic:    fold constants, remove what does nothing, fold weights into weights; standard
              operators only
    extended: the same with fused operators (Gelu, LayerNormalization, Attention …)
    all:      the same with what only pays for native code; layout and memory belong to the code
              generator

    Finite results stay up to rounding; infinities, NaN and the sign of zero may change
    (docs/design.md, Pipeline).

    Each level: the first passes, the rules to their fixed point, the last passes; again until a
    round changes nothing. OptionError for an unknown level or name, RuleError where a rule breaks
    its contract. With the environment's INFUSE_CHECK=1 the verifier runs after every stretch of
    rules and every pass, with 2 after every rewrite.
    """
    options = options or Options()
    check_names(options)
    if os.environ.get("INFUSE_CHECK", "0") in ("1", "2"):
        verify(graph)
    report = Report(before=count_operators(graph), limit=options.stop_after)
    levels = LEVELS[1 : LEVELS.index(options.level) + 1]
    rest = _Rest(Folder(options.fold_limit) if options.folds else None)
    with numbering(_symbols(graph)), uncollected(), room_for(graph):
        for number, level in enumerate(levels):
            if progress:
                progress(level, number, len(levels))
            _run_level(graph, level, options, report, rest)
    if progress:
        progress("done", len(levels), len(levels))
    report.notes += rest.fold.notes() if rest.fold is not None else []
    report.after = count_operators(graph)
    return report


@dataclass
class _Rest:
    """What need not be looked at again: rules that came to rest, and for each step that found
    nothing to do, how many rewrites there were by then.
    """

    fold: Folder | None
    rules: list[Rule] = field(default_factory=list)
    quiet: dict[str, int] = field(default_factory=dict)


def _run_level(graph: Graph, level: str, options: Options, report: Report, rest: _Rest) -> None:
    """Run one level on a graph in which some rules and passes may have come to rest."""
    started = time.perf_counter()
    checks = os.environ.get("INFUSE_CHECK", "0")
    rules = [
        t
        for t in (*options.extensions, *ALL_RULES)
        if isinstance(t, Rule) and options.selects(t, level)
    ]
    first = [t for t in FIRST if options.selects(t, level)]
    last = [
        t for t in (*LAST, *options.extensions) if isinstance(t, Pass) and options.selects(t, level)
    ]
    check_order([*first, *last])
    driver = Driver(
        rules, report, fold=rest.fold, check=_checked if checks == "2" else None, settled=rest.rules
    )
    steps: list[tuple[str, Callable[[], object]]] = [
        (p.name, partial(_run_pass, p, graph, report)) for p in first
    ]
    steps += [
        (f"the rules at level {level}", partial(driver.run, graph)),
        *((p.name, partial(_run_pass, p, graph, report)) for p in last),
    ]
    for _ in range(ROUNDS):
        before = len(report.rewrites)
        for name, step in steps:
            check_time("optimization")
            done = len(report.rewrites)
            if report.is_full or rest.quiet.get(name) == done:
                continue
            step()
            if len(report.rewrites) == done:
                rest.quiet[name] = done
            if checks in ("1", "2") and len(report.rewrites) > done:
                _checked(graph, name)
        if len(report.rewrites) == before or report.is_full:
            break
    else:
        report.notes.append(f"level {level} was still changing the graph after {ROUNDS} rounds")
        rules = []
    rest.rules = rules
    report.seconds[level] = time.perf_counter() - started


def _run_pass(each: Pass, graph: Graph, report: Report) -> None:
    try:
        each.run(graph, report)
    except InfuseError as error:
        error.within(f"pass {each.name}")
        raise
    except Exception as error:
        raise RuleError(
            f"it failed: {type(error).__name__}: {error}",
            where=f"pass {each.name}",
            hint=f"leave it out with --disable {each.name}, and report the model",
        ) from error


def _checked(graph: Graph, name: str) -> None:
    """RuleError unless the graph is well formed after `name`."""
    root = graph
    while root.parent is not None and root.parent.graph is not None:
        root = root.parent.graph
    try:
        verify(root)
    except Exception as error:
        raise RuleError(f"{name} left a broken graph: {error}") from error


def _symbols(graph: Graph) -> set[str]:
    """Names of all symbols in the graph, which sizes made on the way must not take."""
    names: set[str] = set()
    for inner in graph.all_graphs():
        values = [*inner.inputs, *(v for node in inner.unordered_nodes for v in node.outputs)]
        names.update(*(symbols_of(v.type) for v in values))
    return names


# -- names -----------------------------------------------------------------------------------------


def check_order(passes: Sequence[Pass]) -> None:
    """RuleError unless every pass stands after those that it requires, as far as these run."""
    names = [p.name for p in passes]
    for index, each in enumerate(passes):
        later = [name for name in each.requires if name in names[index:]]
        if later:
            raise RuleError(f"pass {each.name} must run after {', '.join(later)}")


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


def why(graph: Graph, name: str, options: Options | None = None) -> list[Explanation]:
    """Why the rule `name` fires or not, on a copy of `graph` after all other rules up to its level
    have run.
    """
    options = options or Options()
    rule = find_rule(name, [t for t in options.extensions if isinstance(t, Rule)])
    copy = clone(graph)
    others = Options(
        rule.level,
        options.disable | {name},
        frozenset(),
        options.enable,
        options.extra,
        runtime=rule.runtime or options.runtime,
    )
    optimize_in_place(copy, others)
    return explain(rule, copy)


def near_misses(graph: Graph, options: Options) -> list[dict[str, str]]:
    """Where in an optimized graph the pattern of a rule fits and a condition refuses: rule, node,
    reason.
    """
    rules = [
        t
        for t in (*options.extensions, *ALL_RULES)
        if isinstance(t, Rule) and options.selects(t, options.level)
    ]
    return [
        {"rule": rule.name, "node": f"{miss.kind}({miss.node})", "reason": miss.reason}
        for rule in rules
        for miss in explain(rule, graph)
        if miss.complete and not miss.fires
    ]
