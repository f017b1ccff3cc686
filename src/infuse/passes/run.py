"""Runs passes and rules, level by level, and holds them to their contract."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from infuse.budgets import check_time
from infuse.errors import InfuseError, RuleError
from infuse.ir.clone import clone
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph, count_operators
from infuse.ir.nesting import room_for
from infuse.ir.verify import verify
from infuse.ops.core.inference import symbols_of
from infuse.ops.core.sizes import numbering
from infuse.options import LEVELS
from infuse.passes.countable import check_sizes
from infuse.passes.fold import Folder
from infuse.passes.order import FIRST, LAST
from infuse.passes.rules import ALL_RULES
from infuse.passes.selection import Selection, check_names, find_rule
from infuse.rewrite import Driver, Pass, Report, Rule

ROUNDS = 50
OPENING = ("WriteOutScalar", "WriteOutWeightedSum")
"""The rules that undo the closing ones."""
Progress = Callable[[str, int, int], None]


def optimize_in_place(
    graph: Graph, options: Selection | None = None, progress: Progress | None = None
) -> Report:
    """Run the pipeline on `graph`; the record of what happened.

    basic:    fold constants, remove what does nothing, fold weights into weights; standard
              operators only
    extended: the same with fused operators (Gelu, LayerNormalization, Attention …)
    all:      the same with what only pays for native code; layout and memory belong to the code
              generator; at its end the closing rules, which make attributes of scalar constants

    Finite results stay up to rounding; infinities, NaN and the sign of zero may change
    (docs/rooms/passes.md).

    Each level: the first passes, the rules to their fixed point, the last passes; again until a
    round changes nothing. OptionError for an unknown level or name, RuleError where a rule breaks
    its contract. With the environment's INFUSE_CHECK=1 the verifier runs after every stretch of
    rules and every pass, with 2 after every rewrite.
    """
    options = options or Selection()
    check_names(options)
    check_sizes(graph)
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
        close(graph, options, report)
    if progress:
        progress("done", len(levels), len(levels))
    report.notes += rest.fold.notes() if rest.fold is not None else []
    report.after = count_operators(graph)
    if report.after == report.before and _only_reopened(report):
        report.rewrites.clear()
    return report


def _only_reopened(report: Report) -> bool:
    """Whether all that was done is what the closing rules made, undone and made again."""
    closing = {rule.name for rule in ALL_RULES if rule.closing}
    return all(each.rule in closing or each.rule in OPENING for each in report.rewrites)


def close(graph: Graph, options: Selection, report: Report) -> None:
    """Run the closing rules that `options` select on a graph in which all others are at rest."""
    if options.runtime:
        return
    rules = [
        t
        for t in (*options.extensions, *ALL_RULES)
        if isinstance(t, Rule) and t.closing and options.selects(t, options.level)
    ]
    done = len(report.rewrites)
    checks = os.environ.get("INFUSE_CHECK", "0")
    if rules and not report.is_full:
        Driver(rules, report, check=_checked if checks == "2" else None).run(graph)
    if checks in ("1", "2") and len(report.rewrites) > done:
        _checked(graph, "the closing rules")


def opened(graph: Graph) -> Graph:
    """A copy in which standard operators stand for what the closing rules made, for those who look
    for them; its report goes on from the one of `graph`.
    """
    result = clone(graph)
    old = graph.report
    if isinstance(old, Report):
        result.report = replace(
            old,
            rewrites=list(old.rewrites),
            notes=list(old.notes),
            seconds=dict(old.seconds),
            search=None,
        )
    rules = [find_rule(name) for name in OPENING]
    Driver(rules, result.report).run(result)
    return result


@dataclass
class _Rest:
    """What need not be looked at again: rules that came to rest, and for each step that found
    nothing to do, how many rewrites there were by then.
    """

    fold: Folder | None
    rules: list[Rule] = field(default_factory=list)
    quiet: dict[str, int] = field(default_factory=dict)


def _run_level(graph: Graph, level: str, options: Selection, report: Report, rest: _Rest) -> None:
    """Run one level on a graph in which some rules and passes may have come to rest."""
    started = time.perf_counter()
    checks = os.environ.get("INFUSE_CHECK", "0")
    rules = [
        t
        for t in (*options.extensions, *ALL_RULES)
        if isinstance(t, Rule) and options.selects(t, level) and not t.closing
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
        names.update(*[symbols_of(type) for type in {v.type for v in values}])
    return names


# -- names -----------------------------------------------------------------------------------------


def check_order(passes: Sequence[Pass]) -> None:
    """RuleError unless every pass stands after those that it requires, as far as these run."""
    names = [p.name for p in passes]
    for index, each in enumerate(passes):
        later = [name for name in each.requires if name in names[index:]]
        if later:
            raise RuleError(f"pass {each.name} must run after {', '.join(later)}")
