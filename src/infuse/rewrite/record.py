"""What happened to a graph: every rewrite with its rule, its nodes and what it saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from infuse.ir.graph import Graph


@dataclass(frozen=True)
class Rewrite:
    """One rewrite that fired."""

    rule: str
    removed: tuple[str, ...]
    """Nodes that are gone, as `Kind(name)`."""
    created: tuple[str, ...]
    level: str = "basic"
    rows: tuple[str, ...] = ()
    note: str = ""

    @property
    def saved(self) -> int:
        """Nodes fewer than before."""
        return len(self.removed) - len(self.created)


@dataclass
class Report:
    """The record of an optimization: operator counts before and after, rewrites in order, seconds per pass."""

    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    rewrites: list[Rewrite] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What was not done, and why."""

    def add(self, rewrite: Rewrite) -> None:
        self.rewrites.append(rewrite)

    @property
    def fired(self) -> Counter[str]:
        """How often each rule fired."""
        return Counter(r.rule for r in self.rewrites)

    @property
    def nodes_before(self) -> int:
        return sum(self.before.values())

    @property
    def nodes_after(self) -> int:
        return sum(self.after.values())

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON."""
        return {
            "nodes": {"before": self.nodes_before, "after": self.nodes_after},
            "operators": {"before": dict(self.before), "after": dict(self.after)},
            "fired": dict(self.fired),
            "rewrites": [
                {
                    "rule": r.rule,
                    "level": r.level,
                    "removed": list(r.removed),
                    "created": list(r.created),
                    "note": r.note,
                }
                for r in self.rewrites
            ],
            "seconds": self.seconds,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        rules = ", ".join(f"{name} ×{count}" for name, count in self.fired.most_common())
        return f"{self.nodes_before} → {self.nodes_after} nodes; {rules or 'no rewrite'}"


def count_operators(graph: Graph) -> Counter[str]:
    """Operators of a graph and its bodies by kind."""
    return Counter(node.kind for g in graph.all_graphs() for node in g.unordered_nodes)


def label(nodes: Iterable[Any]) -> tuple[str, ...]:
    """`Kind(name)` of nodes."""
    return tuple(f"{n.kind}({n.name})" for n in nodes)
