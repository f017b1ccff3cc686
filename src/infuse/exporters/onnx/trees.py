"""Ensembles whose branches are graphs, written as the trees that ONNX Runtime (from 1.23 on) wants:
there, no two branches may lead to one other branch.

Splits of sets and of several intervals (`tracing/semantics/forests.py`) are a search whose branches
lead to the same two places again and again. Written out, these would be copied for each interval,
and again in each copy. So an ensemble of small trees says first, for each such split, on which side
a row is, and the trees read that as a further column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.ops.domains.ml_ensembles import TreeEnsemble

_LEQ: Final = 0
_LESS: Final = 1
_MOST: Final = 10_000_000
"""Branches that copies may make of an ensemble."""
End = tuple[int, bool]
"""A branch or a leaf by its number, and whether it is a leaf."""


@dataclass
class Branches:
    """The branches of an ensemble: what each asks, and where it leads."""

    feature: list[int] = field(default_factory=list)
    mode: list[int] = field(default_factory=list)
    split: list[float] = field(default_factory=list)
    nan: list[bool] = field(default_factory=list)
    ends: list[tuple[End, End]] = field(default_factory=list)

    @classmethod
    def of(cls, op: TreeEnsemble) -> Branches:
        count = len(op.nodes_featureids)
        true = zip(op.nodes_truenodeids, map(bool, op.nodes_trueleafs))
        false = zip(op.nodes_falsenodeids, map(bool, op.nodes_falseleafs))
        return cls(
            list(op.nodes_featureids),
            np.asarray(op.nodes_modes).tolist(),
            np.asarray(op.nodes_splits).tolist(),
            [bool(flag) for flag in op.nodes_missing_value_tracks_true] or [False] * count,
            list(zip(true, false)),
        )

    def add(self, feature: int, mode: int, split: float, nan: bool) -> int:
        """A branch more, whose ends are to come; its number."""
        self.feature.append(feature)
        self.mode.append(mode)
        self.split.append(split)
        self.nan.append(nan)
        self.ends.append(((0, True), (0, True)))
        return len(self.ends) - 1

    def copied(self, source: Branches, number: int) -> int:
        """A branch of `source`, without its ends; its number here."""
        feature, mode = source.feature[number], source.mode[number]
        return self.add(feature, mode, source.split[number], source.nan[number])

    def readers(self, roots: Any) -> list[int]:
        """How many branches and roots lead to each branch."""
        counts = [0] * len(self.ends)
        for number in roots:
            counts[number] += 1
        for pair in self.ends:
            for number, is_leaf in pair:
                if not is_leaf:
                    counts[number] += 1
        return counts

    def attributes(self, like: np.ndarray[Any, Any]) -> dict[str, Any]:
        """As TreeEnsemble has them, with numbers of the type of `like`."""
        (true, true_leaf), (false, false_leaf) = (
            ([e[side][0] for e in self.ends], [int(e[side][1]) for e in self.ends])
            for side in (0, 1)
        )
        return {
            "nodes_featureids": tuple(self.feature),
            "nodes_modes": np.array(self.mode, np.uint8),
            "nodes_splits": np.array(self.split, like.dtype),
            "nodes_truenodeids": tuple(true),
            "nodes_trueleafs": tuple(true_leaf),
            "nodes_falsenodeids": tuple(false),
            "nodes_falseleafs": tuple(false_leaf),
            "nodes_missing_value_tracks_true": tuple(map(int, self.nan)) if any(self.nan) else (),
        }


@dataclass(frozen=True)
class Search:
    """A split that is a search: its first branch, those below it, and the two ends of all."""

    first: int
    inner: frozenset[int]
    ends: tuple[End, End]


def search_at(branches: Branches, first: int, readers: list[int]) -> Search | None:
    """The search that begins at a branch; None where none does, or it has more than two ends."""
    if branches.mode[first] != _LESS or branches.split[first] != -np.inf:
        return None
    inner, ends, waiting = set[int](), list[End](), [first]
    while waiting:
        for end in branches.ends[waiting.pop()]:
            number, is_leaf = end
            if not is_leaf and readers[number] == 1 and _goes_on(branches, first, number):
                inner.add(number)
                waiting.append(number)
            elif end not in ends:
                ends.append(end)
    return Search(first, frozenset(inner), (ends[0], ends[1])) if len(ends) == 2 else None


def _goes_on(branches: Branches, first: int, number: int) -> bool:
    same = branches.feature[number] == branches.feature[first]
    return same and branches.mode[number] == _LEQ and not branches.nan[number]


def searches(branches: Branches, readers: list[int]) -> list[Search]:
    """All searches that lead to one branch more than once."""
    found = (search_at(branches, first, readers) for first in range(len(branches.ends)))
    return [
        search
        for search in found
        if search and any(not leaf and readers[number] > 1 for number, leaf in search.ends)
    ]


def sides(branches: Branches, found: list[Search], like: np.ndarray[Any, Any]) -> Any:
    """The ensemble that says for each search whether a row leaves it by its first end: 1, or 0."""
    made, roots = Branches(), []
    for number, search in enumerate(found):
        places = {old: made.copied(branches, old) for old in (search.first, *sorted(search.inner))}
        leaf: dict[End, End] = {end: (2 * number + i, True) for i, end in enumerate(search.ends)}
        for old, new in places.items():
            one, other = (
                leaf[end] if end in leaf else (places[end[0]], False) for end in branches.ends[old]
            )
            made.ends[new] = (one, other)
        roots.append(places[search.first])
    return make_operator(
        "ai.onnx.ml",
        "TreeEnsemble",
        {
            **made.attributes(like),
            "tree_roots": tuple(roots),
            "leaf_targetids": tuple(np.repeat(np.arange(len(found)), 2).tolist()),
            "leaf_weights": np.array([1, 0] * len(found), like.dtype),
            "n_targets": len(found),
        },
    )


def parted(branches: Branches, roots: Any, found: list[Search], columns: int) -> Any:
    """The branches and roots as trees, where each search is one branch that reads its side, and
    what two others still lead to is copied.
    """
    begins = {search.first: (columns + k, search) for k, search in enumerate(found)}
    made, tops = Branches(), []
    for root in roots:
        tops.append(_begun(branches, made, begins, root))
        waiting = [(root, tops[-1])]
        while waiting:
            old, new = waiting.pop()
            ends = branches.ends[old]
            if old in begins:
                ends = begins[old][1].ends[::-1]  # a side of 0 is at most one half
            placed: list[End] = []
            for number, is_leaf in ends:
                if is_leaf:
                    placed.append((number, True))
                    continue
                placed.append((_begun(branches, made, begins, number), False))
                waiting.append((number, placed[-1][0]))
            made.ends[new] = (placed[0], placed[1])
            if len(made.ends) > _MOST:
                raise UnsupportedOperatorError(
                    f"a TreeEnsemble whose branches share others has more than {_MOST:,} as trees",
                    hint="save it as .infuse, which keeps what they share",
                )
    return made, tuple(tops)


def _begun(branches: Branches, made: Branches, begins: Any, number: int) -> int:
    if number in begins:
        return made.add(begins[number][0], _LEQ, 0.5, False)
    return made.copied(branches, number)


def part_trees(graph: Graph) -> None:
    """Let no two branches of an ensemble in a graph lead to one other branch."""
    for node in list(_ensembles(graph)):
        op, x = node.op, node.inputs[0]
        assert isinstance(op, TreeEnsemble)
        branches = Branches.of(op)
        readers = branches.readers(op.tree_roots)
        if max(readers, default=0) < 2 or x is None or x.tensor.rank != 2:
            continue
        columns = x.shape[1]
        found = searches(branches, readers) if isinstance(columns, int) else []
        numbers = np.asarray(op.nodes_splits)
        made, roots = parted(branches, op.tree_roots, found, int(columns) if found else 0)
        read = _with_sides(graph, node, x, sides(branches, found, numbers)) if found else x
        attributes = dict(op.attributes()) | made.attributes(numbers) | {"tree_roots": roots}
        _replace(graph, node, make_operator(op.domain, op.name, attributes), read)


def _ensembles(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        if isinstance(node.op, TreeEnsemble) and node.op.membership_values is None:
            yield node


def _with_sides(graph: Graph, node: Node, x: Value, op: Any) -> Value:
    """The columns of x, and those that `op` makes of them."""
    side, joined = (Value(UNKNOWN, f"{node.outputs[0].name}/{name}") for name in ("sides", "read"))
    concat = make_operator("", "Concat", {"axis": 1})
    for kind, inputs, output in ((op, [x], side), (concat, [x, side], joined)):
        made = graph.add_node(Node(kind, inputs, [output], name=output.name))
        made.op.infer_node(made)
    return joined


def _replace(graph: Graph, node: Node, op: Any, x: Value) -> None:
    output = node.outputs[0]
    result = Value(output.type, output.name)
    graph.add_node(Node(op, [x], [result], name=node.name))
    output.replace_by(result)
    graph.remove(node)
