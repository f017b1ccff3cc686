"""The search: region by region an e-graph, the cheapest choice of its terms, a check, and the graph
is changed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

from infuse.analysis.cost import Sizes
from infuse.errors import OptionError, VerificationError
from infuse.ir.graph import Graph, Node, Value, count_operators
from infuse.passes.run import close, opened, optimize_in_place
from infuse.passes.selection import Selection
from infuse.passes.verification import Witness
from infuse.rewrite import Improvement, Patch, Report, Rewrite, Search, remove_dead
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import redirect
from infuse.search.building import Builder
from infuse.search.checking import difference
from infuse.search.cost import Prices, Pricing, Roofline, SizeOf
from infuse.search.extraction import Extraction
from infuse.search.regions import Region, regions
from infuse.search.saturation import Bounds, saturate
from infuse.search.terms import Term

RULE = "Search"
Progress = Callable[[str, int, int], None]


def improve(
    graph: Graph,
    seconds: float,
    options: Selection | None = None,
    *,
    prices: Prices | None = None,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> Search:
    """Search an optimized graph for cheaper forms of its linear operators, for so many seconds at
    most.

    Each improvement is checked on random inputs, and dropped with a warning where results differ by
    more than rounding explains (the order of sums may change). Where there are improvements the
    pipeline runs once more with `options`, which fuses what is new. What was found is in the result
    and in `graph.report`. OptionError unless there is time.
    """
    if not seconds > 0:
        raise OptionError(
            "a search needs more than no time", hint="give it seconds, as in --search 10"
        )
    report = (
        graph.report if isinstance(graph.report, Report) else Report(before=count_operators(graph))
    )
    graph.report = report
    report.search = searching = _Searching(
        graph, seconds, prices or Roofline(), bounds or Bounds()
    ).run(report, progress)
    if searching.improvements:
        _merge(report, optimize_in_place(graph, options))
    report.after = count_operators(graph)
    return searching


def search(
    graph: Graph,
    seconds: float,
    options: Selection | None = None,
    *,
    witness: Witness | None = None,
    prices: Prices | None = None,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> Graph:
    """An improved copy of an optimized graph (`improve`), whose report goes on from the one of
    `graph`.

    Where there is a `witness`, the whole is compared once more; `graph` itself comes back, with a
    warning, where the result differs.
    """
    result = opened(graph)
    report = improve(result, seconds, options, prices=prices, bounds=bounds, progress=progress)
    if not report.improvements:
        close(result, options or Selection(), result.report)
    if witness is None or not witness.trials or not report.improvements:
        return result
    try:
        largest = witness.difference(result)
    except VerificationError as error:
        text = f"all improvements of the search were dropped: {error.what}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        report.improvements.clear()
        report.notes.append(text)
        graph.report.search = report
        return graph
    verdict = result.report.verification
    if verdict is not None:
        result.report.verification = replace(verdict, difference=max(largest, verdict.difference))
    return result


def _merge(report: Report, later: Report) -> None:
    """What the pipeline did after the search, in the record."""
    report.rewrites += later.rewrites
    for level, seconds in later.seconds.items():
        report.seconds[level] = report.seconds.get(level, 0.0) + seconds
    report.notes += [note for note in later.notes if note not in report.notes]


class _Searching:
    def __init__(self, graph: Graph, seconds: float, prices: Prices, bounds: Bounds) -> None:
        self.graph = graph
        self.prices = prices
        self.bounds = bounds
        self.size: SizeOf = Sizes(graph)
        self.report = Search(seconds)
        self.started = time.monotonic()

    def expired(self) -> bool:
        """Whether time is over."""
        late = time.monotonic() - self.started > self.report.limit
        self.report.is_complete = self.report.is_complete and not late
        return late

    def run(self, report: Report, progress: Progress | None) -> Search:
        """Every region, and once more with other borders."""
        for shift in (0, 1):
            groups = [
                (graph, nodes)
                for graph in self.graph.all_graphs()
                for nodes in regions(graph, shift)
            ]
            for number, (graph, nodes) in enumerate(groups):
                if progress:
                    progress("search", number + shift * len(groups), 2 * len(groups))
                if self.expired():
                    break
                self._region(graph, [n for n in nodes if n.graph is graph], report)
        self.report.seconds = time.monotonic() - self.started
        return self.report

    def _region(self, graph: Graph, nodes: Sequence[Node], report: Report) -> None:
        region = Region(graph, nodes)
        if not region.roots:
            return
        pricing = Pricing(region.g, self.prices, self.size, region.is_shared)
        before = pricing.total(region.root_classes, region.original())
        saturate(region.g, self.bounds, self.expired)
        self.report.regions += 1
        self.report.terms += len(region.g)
        extraction = Extraction(
            region.g, pricing, region.root_classes, region.original(), self.expired
        )
        choice, after = extraction.best(before)
        if after < before:
            self._take(region, choice, before, after, report)

    def _take(
        self, region: Region, choice: dict[int, Term], before: float, after: float, report: Report
    ) -> None:
        """Change the graph by a choice, if the results agree."""
        patch = Patch(region.graph, name=region.nodes[0].name)
        builder = Builder(region, choice, patch)
        pairs = self._changes(region, builder)
        if not pairs:
            return
        terms = [choice[n] for n in dict.fromkeys(builder.created)]
        equalities = tuple(region.g.proof(terms) or region.g.merged)
        try:
            error = difference(pairs, [*region.nodes, *patch.created], self.size)
        except VerificationError as reason:
            patch.undo()
            text = f"an improvement by {', '.join(equalities)} was dropped: {reason.what}"
            self.report.notes.append(text)
            warnings.warn(text, RuntimeWarning, stacklevel=5)
            return
        for old, new in pairs:
            redirect(old, new)
        gone = remove_dead(list(reversed(region.nodes)))
        patch.undo()
        for node in patch.created:
            node.origin = tuple(dict.fromkeys(name for other in gone for name in other.origin))
        created = [node for node in patch.created if node.graph is not None]
        improvement = Improvement(label(gone), label(created), equalities, before, after, error)
        self.report.improvements.append(improvement)
        note = f"{before * 1e6:.1f} → {after * 1e6:.1f} µs by {', '.join(equalities)}"
        report.add(
            Rewrite(RULE, improvement.removed, improvement.created, "search", ("G37",), note)
        )

    def _changes(self, region: Region, builder: Builder) -> list[tuple[Value, Value]]:
        """Values of the model and what takes their place, as far as they are still computed."""
        needed = set(builder.needed(region.root_classes))
        changes = []
        for node in region.nodes:
            for old in node.outputs:
                number = region.g.find(region.classes[old])
                if number in needed:
                    new = builder.value(number)
                    changes += [(old, new)] if new is not old else []
        return changes
