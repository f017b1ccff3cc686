"""Two graphs side by side: the original, the optimized one, and what every rewrite between them did
and saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infuse.analysis.cost import NOTHING, Cost, Sizes, cost_of, number
from infuse.analysis.description import GraphDescription, describe
from infuse.errors import GraphError
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph


@dataclass
class Step:
    """One rewrite. Nodes are ids as in the descriptions; `labels` gives their text, also of those
    in between.
    """

    rule: str
    level: str
    note: str
    removed: list[int]
    created: list[int]
    heirs: list[int]
    """Nodes that stood there before and give their results to the readers of what is gone."""
    saved: Cost

    @property
    def nodes_saved(self) -> int:
        return len(self.removed) - len(self.created)

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "level": self.level,
            "note": self.note,
            "removed": self.removed,
            "created": self.created,
            "heirs": self.heirs,
            "saved": {"nodes": self.nodes_saved, **self.saved.to_dict()},
        }


@dataclass
class RuleEffect:
    """What one rule did in total."""

    about: str
    level: str
    fired: int = 0
    nodes: int = 0
    saved: Cost = NOTHING

    def to_dict(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "level": self.level,
            "fired": self.fired,
            "saved": {"nodes": self.nodes, **self.saved.to_dict()},
        }


@dataclass
class Comparison:
    """What an optimization changed, as data."""

    before: GraphDescription
    after: GraphDescription
    steps: list[Step] = field(default_factory=list)
    rules: dict[str, RuleEffect] = field(default_factory=dict)
    """The one that fired most first."""
    labels: dict[int, str] = field(default_factory=dict)
    """`Kind(name)` of nodes that were made and removed again on the way, by id."""
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    verified: bool | None = None
    """Whether the optimized graph was compared with the original; None where the report does not
    say.
    """
    verification: str = ""
    """What the comparison found."""
    faults: list[str] = field(default_factory=list)
    """What the model's exporter did not write as its framework computes it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; the page shows nothing else."""
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "rewrites": [s.to_dict() for s in self.steps],
            "rules": {name: effect.to_dict() for name, effect in self.rules.items()},
            "labels": {str(id): text for id, text in self.labels.items()},
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
            "verified": self.verified,
            "verification": self.verification,
            "faults": list(self.faults),
        }

    def consumed(self, index: int) -> list[int]:
        """Ids of the nodes of the original graph that rewrite `index` replaced, itself or through
        those before it.
        """
        originals = {n.id for n in self.before.nodes}
        made = {id: number for number, step in enumerate(self.steps[:index]) for id in step.created}
        return _closure(
            self.steps[index].removed, originals, lambda node: self._step(made.get(node)).removed
        )

    def produced(self, index: int) -> list[int]:
        """Ids of the nodes of the optimized graph that stem from what rewrite `index` created."""
        last = {n.id for n in self.after.nodes}
        gone = {
            id: number
            for number, step in enumerate(self.steps)
            if number > index
            for id in step.removed
        }
        return _closure(
            self.steps[index].created, last, lambda node: self._step(gone.get(node)).created
        )

    def inherited(self, index: int) -> list[int]:
        """Ids of other nodes of the optimized graph that serve the readers of what rewrite `index`
        removed.
        """
        last = {n.id for n in self.after.nodes}
        gone = {node: number for number, step in enumerate(self.steps) for node in step.removed}

        def onward(node: int) -> list[int]:
            step = self._step(gone.get(node))
            return [*step.created, *step.heirs]

        start = [*self.steps[index].heirs, *self.steps[index].created]
        return sorted(set(_closure(start, last, onward)) - set(self.produced(index)))

    def _step(self, number: int | None) -> Step:
        return self.steps[number] if number is not None else Step("", "", "", [], [], [], NOTHING)

    def __str__(self) -> str:
        """Totals before and after, and what each rule did."""
        lines = [f"{'':16}{'before':>12}{'after':>12}"]
        for name, old, new in self._rows():
            change = f"  {(new - old) / old:+.0%}" if old else ""
            lines.append(f"{name:16}{quantity(old):>12}{quantity(new):>12}{change}")
        width = max((len(name) for name in self.rules), default=0)
        for name, effect in self.rules.items():
            saved = (
                f"{-effect.nodes:+d} nodes, {_signed(effect.saved.flops)} FLOPs, "
                f"{_signed(effect.saved.bytes)} bytes"
            )
            lines.append(f"  {name:{width}}  ×{effect.fired:<5d} {saved}")
        assumed = ", ".join(f"{k} = {v}" for k, v in self.before.totals.assumed.items())
        lines += [f"  counted with {assumed}"] if assumed else []
        return "\n".join(lines)

    def _rows(self) -> Iterator[tuple[str, int, int]]:
        a, b = self.before.totals, self.after.totals
        yield "nodes", a.nodes, b.nodes
        yield "FLOPs", number(a.cost.flops), number(b.cost.flops)
        yield "MACs", number(a.cost.macs), number(b.cost.macs)
        yield "memory access", number(a.cost.bytes), number(b.cost.bytes)
        yield "weights (bytes)", a.weight_bytes, b.weight_bytes
        yield "parameters", a.parameters, b.parameters


def compare(
    original: Graph, optimized: Graph, values: Mapping[str, int] | None = None
) -> Comparison:
    """What the optimization of `original` to `optimized` (which has the report) did.

    `original` is the graph object that was optimized, unchanged since: nodes are known by identity.
    `values` are sizes for symbolic dimensions; others get usual ones. GraphError when the report is
    missing or belongs to another graph.
    """
    report = optimized.report
    if report is None:
        raise GraphError(
            "the graph has no report of an optimization",
            hint="compare with what infuse.optimize gave",
        )
    sizes = Sizes(original, values)
    before = describe(original, sizes)
    comparison = Comparison(before, describe(optimized, sizes))
    _add_steps(comparison, report.rewrites, sizes)
    comparison.seconds, comparison.notes = dict(report.seconds), list(report.notes)
    if report.verification is not None:
        comparison.verified, comparison.verification = (
            report.verification.checked,
            str(report.verification),
        )
    return comparison


def _add_steps(comparison: Comparison, rewrites: Sequence[Any], sizes: Sizes) -> None:
    costs = {n.id: n.cost for n in comparison.before.nodes}
    present = costs.keys() | {n.id for n in comparison.after.nodes}
    for rewrite in rewrites:
        removed, created, heirs = (
            [m for m in part if hasattr(m, "serial")] for part in _parts(rewrite)
        )
        for node_ref in created:
            if node_ref.signature is not None:
                costs[node_ref.serial] = cost_of(
                    node_ref.signature.op,
                    node_ref.signature.inputs,
                    node_ref.signature.outputs,
                    sizes,
                )
        _check_known(removed, costs, comparison.before.name)
        comparison.labels.update(
            (m.serial, str(m)) for m in (*removed, *created) if m.serial not in present
        )
        saved = _sum(costs, removed) - _sum(costs, created)
        gone, made, heirs_ = ([m.serial for m in part] for part in (removed, created, heirs))
        step = Step(rewrite.rule, rewrite.level, rewrite.note, gone, made, heirs_, saved)
        comparison.steps.append(step)
        effect = comparison.rules.setdefault(rewrite.rule, RuleEffect(rewrite.about, rewrite.level))
        effect.fired += 1
        effect.nodes += step.nodes_saved
        effect.saved = effect.saved + saved
    comparison.rules = dict(
        sorted(comparison.rules.items(), key=lambda item: (-item[1].fired, item[0]))
    )


def _parts(rewrite: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    return rewrite.removed, rewrite.created, rewrite.heirs


def _check_known(removed: Sequence[Any], costs: Mapping[int, Cost], name: str) -> None:
    for node_ref in removed:
        if node_ref.serial not in costs:
            raise GraphError(
                f"the report removes {node_ref}, which the original graph does not have",
                where=f"graph {name!r}",
                hint="give the graph object that was optimized, as it was",
            )


def _sum(costs: Mapping[int, Cost], refs: Sequence[Any]) -> Cost:
    total = NOTHING
    for node_ref in refs:
        total = total + costs.get(node_ref.serial, NOTHING)
    return total


def _closure(
    start: Sequence[int], ends: set[int], onward: Callable[[int], Sequence[int]]
) -> list[int]:
    """The ids among `ends` that are reached from `start`; the way goes on only from others."""
    closure: dict[int, None] = {}
    seen: set[int] = set()
    pending = list(start)
    while pending:
        id = pending.pop()
        if id in ends:
            closure[id] = None
        elif id not in seen:
            seen.add(id)
            pending += onward(id)
    return sorted(closure)


def quantity(count: int) -> str:
    """A number in four digits: 4.12 G, 950, 12.5 M."""
    for factor, unit in ((10**12, " T"), (10**9, " G"), (10**6, " M"), (10**4, " k")):
        if abs(count) >= factor:
            scale = 1000 if unit == " k" else factor
            return f"{count / scale:.3g}{unit}"
    return f"{count:,}"


def _signed(saved: Dim) -> str:
    change = -number(saved)
    return f"{'+' if change > 0 else '−' if change < 0 else '±'}{quantity(abs(change))}"
