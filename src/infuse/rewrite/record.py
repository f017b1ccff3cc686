"""What happened to a graph: every rewrite with its rule, its nodes and what it saved."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from infuse.ir.html import paragraphs, table
from infuse.rewrite.verdict import Verdict

ABOUT: dict[str, str] = {
    "FoldConstants": "a node whose inputs are all known → constants",
    "RemoveDead": "a node that nobody reads → nothing",
    "Search": "nodes → cheaper ones that compute the same by the algebra of linear operators",
}
"""What rules and passes do, by name: their docstrings."""


MOST_PLACES = 3
"""Nodes that the text of a report names for each rule."""


def unwrapped(docstring: str | None) -> str:
    """A docstring with the lines of every paragraph joined."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class Rewrite(NamedTuple):
    """One rewrite that fired. Nodes are given as `Kind(name)`; `label` makes these, and they know
    which node it was.
    """

    rule: str
    removed: tuple[str, ...]
    """Nodes that are gone, those in the bodies of gone nodes among them."""
    created: tuple[str, ...]
    level: str = "basic"
    rows: tuple[str, ...] = ()
    note: str = ""
    heirs: tuple[str, ...] = ()
    """Nodes that stood there before and give their results to the readers of what is gone."""

    @property
    def saved(self) -> int:
        """Nodes fewer than before."""
        return len(self.removed) - len(self.created)

    @property
    def about(self) -> str:
        """The equation of the rule, or what the pass does."""
        return ABOUT.get(self.rule, "")


@dataclass
class Effect:
    """What one rule did in total."""

    fired: int = 0
    saved: int = 0
    """Nodes fewer than before."""
    level: str = "basic"


@dataclass(frozen=True)
class Improvement:
    """What a search found: the nodes before and after, the equalities that show they compute the
    same, what both cost in the eyes of the cost model, and how far their results were apart on
    random inputs.
    """

    removed: tuple[str, ...]
    created: tuple[str, ...]
    equalities: tuple[str, ...]
    before: float
    """Seconds of one run of the nodes around."""
    after: float
    difference: float

    def __str__(self) -> str:
        gone = ", ".join(self.removed)
        return f"{gone} → {', '.join(self.created)} by {', '.join(self.equalities)}"


@dataclass
class Search:
    """What a search did: how far it came in its time, and what it found."""

    limit: float
    """Seconds that it was given."""
    seconds: float = 0.0
    regions: int = 0
    """Groups of nodes that were looked at."""
    terms: int = 0
    """Operators in all e-graphs together."""
    is_complete: bool = True
    """Whether it looked at everything; else time ran out, and another run may find something else.
    """
    improvements: list[Improvement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was found and not taken, and why."""

    def to_dict(self) -> dict[str, Any]:
        """The search as plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        count = len(self.improvements)
        saved = sum(i.before - i.after for i in self.improvements)
        text = f"search: {count} improvement{'s' * (count != 1)}"
        text += f", which save {saved * 1e6:.0f} µs by the cost model" if count else ""
        text += f", in {self.seconds:.1f} s ({self.regions} regions, {self.terms} terms)"
        return text if self.is_complete else f"{text}; its time ran out"


@dataclass
class Report:
    """The record of an optimization: operator counts before and after, rewrites in order, seconds
    per level.
    """

    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    rewrites: list[Rewrite] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What was not done, and why."""
    verification: Verdict | None = None
    """What the comparison with the original found, None where there was none."""
    limit: int | None = None
    """Number of rewrites after which no more are made."""
    search: Search | None = None
    """What a search found, None where there was none."""

    @property
    def is_full(self) -> bool:
        return self.limit is not None and len(self.rewrites) >= self.limit

    def add(self, rewrite: Rewrite) -> None:
        self.rewrites.append(rewrite)

    @property
    def fired(self) -> Counter[str]:
        """How often each rule fired."""
        return Counter(r.rule for r in self.rewrites)

    @property
    def effects(self) -> dict[str, Effect]:
        """What each rule did, the one that fired most first."""
        by_rule: dict[str, Effect] = {}
        for rewrite in self.rewrites:
            effect = by_rule.setdefault(rewrite.rule, Effect(level=rewrite.level))
            effect.fired += 1
            effect.saved += rewrite.saved
        return dict(sorted(by_rule.items(), key=lambda item: (-item[1].fired, item[0])))

    @property
    def nodes_before(self) -> int:
        return self.before.total()

    @property
    def nodes_after(self) -> int:
        return self.after.total()

    @property
    def remarks(self) -> list[str]:
        """What was not done, and what the comparison with the original found, each line once."""
        verdict = [] if self.verification is None else str(self.verification).splitlines()
        return list(dict.fromkeys([*self.notes, *verdict]))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON."""
        return {
            "nodes": {"before": self.nodes_before, "after": self.nodes_after},
            "operators": {
                "before": dict(self.before.most_common()),
                "after": dict(self.after.most_common()),
            },
            "fired": dict(self.fired.most_common()),
            "rules": {name: asdict(effect) for name, effect in self.effects.items()},
            "rewrites": [
                {
                    "rule": r.rule,
                    "level": r.level,
                    "removed": list(r.removed),
                    "created": list(r.created),
                    "heirs": list(r.heirs),
                    "note": r.note,
                }
                for r in self.rewrites
            ],
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
            "verification": self.verification.to_dict() if self.verification else None,
            **({"search": self.search.to_dict()} if self.search else {}),
        }

    def __str__(self) -> str:
        """A table: nodes before and after, what each rule did and where, which operators are fewer
        or more, and what a comparison with the original found.
        """
        head = (
            f"{self.nodes_before} → {self.nodes_after} nodes in {sum(self.seconds.values()):.2f} s"
        )
        remarks = [f"  {remark}" for remark in self.remarks]
        if not self.rewrites:
            return "\n".join([f"{head}; no rewrite", *remarks])
        width = max(len(name) for name in self.effects)
        rules = [
            f"  {name:{width}}  ×{e.fired:<5d} {-e.saved:+d} nodes{self._places(name)}"
            for name, e in self.effects.items()
        ]
        changes = {
            kind: self.after[kind] - self.before[kind] for kind in {*self.before, *self.after}
        }
        moved = sorted((n, kind) for kind, n in changes.items() if n)
        operators = ", ".join(f"{kind} {self.before[kind]}→{self.after[kind]}" for _, kind in moved)
        return "\n".join([head, *rules, f"  operators: {operators}", *remarks])

    def _repr_html_(self) -> str:
        """What each rule did and where, as notebooks show it."""
        rows = [
            (
                name,
                effect.level,
                effect.fired,
                effect.saved,
                self._places(name).removeprefix(", at "),
            )
            for name, effect in self.effects.items()
        ]
        seconds = sum(self.seconds.values())
        title = f"{self.nodes_before} → {self.nodes_after} nodes in {seconds:.2f} s"
        columns = ("rule", "level", "#fired", "#nodes saved", "at")
        return table(title, columns, rows) + paragraphs(self.remarks)

    def _places(self, rule: str) -> str:
        """Where a rule fired: the first nodes that it replaced."""
        places = [r.removed[0] for r in self.rewrites if r.rule == rule and r.removed]
        if not places:
            return ""
        rest = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        return f", at {', '.join(places[:MOST_PLACES])}{rest}"
