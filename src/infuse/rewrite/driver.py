"""The worklist driver: applies rules until none fires, and guarantees what no rule should
repeat.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from infuse.budgets import check_time
from infuse.errors import InfuseError, RuleError
from infuse.ir.broadcasting import open_broadcasts
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Node, Use, Value
from infuse.ir.types import UnknownRank
from infuse.rewrite.glance import NARROW, key_of, may_match
from infuse.rewrite.matcher import Match, matches
from infuse.rewrite.node_ref import label, node_ref
from infuse.rewrite.patch import Patch, other_use, producers, redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite
from infuse.rewrite.refine import Change, compare_types, reinfer
from infuse.rewrite.rule import Refusal, Rule

LONGEST_LINE = 1000
"""Rewrites of one another's results without a node saved, from which on rules are held to be
endless; in a graph of more nodes, as many as that has.
"""
FIRES_PER_NODE = 10
ANALYSIS = "analysis"
"""The name by which functions of a rule ask for what `when` returns."""
REMEMBERED = 1 << 14
"""Surroundings of nodes of which it is remembered which rules may fit."""

Folder = Callable[[Node], "Sequence[Value] | None"]
Check = Callable[[Graph, str], None]


class Driver:
    """Applies `rules` to a graph and its bodies, in the order given where several fit.

    `fold` may turn a node into constants; it is tried before any rule. `check` is called after
    every rewrite. `settled` are rules of which the graph is known to be at rest, folding included:
    the first run tries them only where something changes.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        report: Report | None = None,
        *,
        fold: Folder | None = None,
        check: Check | None = None,
        settled: Collection[Rule] = (),
    ) -> None:
        self.report = report or Report()
        self.fold = fold
        self.check = check
        chosen, old = tuple(rules), frozenset(settled)
        self._all = _indexed(chosen)
        self._new = _indexed(tuple([rule for rule in chosen if rule not in old]))
        self._at_rest = bool(settled)

    @np.errstate(all="ignore")
    def run(self, graph: Graph) -> bool:
        """Rewrite to the fixed point; whether anything changed. RuleError when rules do not come to
        an end.
        """
        queue = _Worklist()
        for inner in graph.all_graphs():
            queue.push(inner.nodes if not self._at_rest else inner.unordered_nodes)
        limits = _Limits(graph.name, len(queue))
        untouched = set(queue.nodes) if self._at_rest else set()
        self._at_rest = False
        changed = False
        while not self.report.is_full and (node := queue.pop()) is not None:
            check_time("optimization")
            touched = (
                self._match(node, self._new, limits)
                if node in untouched
                else self._visit(node, limits)
            )
            if touched is not None:
                changed = True
                untouched.difference_update(touched)
                queue.push(touched)
        return changed

    def _visit(self, node: Node, limits: _Limits) -> list[Node] | None:
        """Do the first thing that can be done at a node; the nodes to look at again, None when
        nothing was done.
        """
        if _is_dead(node):
            below = producers(node)
            self.report.add(Rewrite("RemoveDead", label(remove_dead([node])), (), rows=("G6",)))
            return below
        constants = self.fold(node) if self.fold is not None else None
        if constants is not None:
            return self._replace(node, constants, (node,), (), "FoldConstants", "basic", ("G1",))
        return self._match(node, self._all, limits)

    def _match(self, node: Node, rules: _Rules, limits: _Limits) -> list[Node] | None:
        """Apply the first of `rules` that fits at a node."""
        for rule, pattern in rules.fitting(node):
            for match in matches(pattern, node):
                if _refusal(rule, match) is not None:
                    continue
                touched = self._apply(rule, match, limits)
                if touched is not None:
                    return touched
        return None

    def _apply(self, rule: Rule, match: Match, limits: _Limits) -> list[Node] | None:
        root = match.root
        assert root.graph is not None
        bound = {**match.bound, "root": root}
        try:
            nodes = tuple(dict.fromkeys((*match.nodes, *rule.covered(bound))))
        except Exception as error:
            raise _blame(rule, root, "covers", error) from error
        origin = [name for node in reversed(nodes) for name in node.origin]
        patch = Patch(root.graph, origin, root.name)
        try:
            results = _build(rule, match, patch)
            note = rule.remark(bound)
        except (Refusal, UnknownRank):
            results = None
        except Exception as error:
            patch.undo()
            raise _blame(rule, root, "build", error) from error
        if results is None or _same_as_before(root, results):
            patch.undo()
            return None
        touched = self._replace(
            root, results, nodes, patch.created, rule.name, rule.level, rule.rows, note
        )
        limits.count(rule.name, nodes, patch.created, self.report.rewrites[-1].saved)
        return touched

    def _replace(
        self,
        root: Node,
        results: Sequence[Value],
        covered: Sequence[Node],
        created: Sequence[Node],
        name: str,
        level: str,
        rows: tuple[str, ...],
        note: str = "",
    ) -> list[Node]:
        """Let `results` stand for the outputs of `root`; the nodes to look at again."""
        graph = root.graph
        assert graph is not None
        touched: list[Node] = list(created)
        operands = [v for node in covered for v in node.inputs if v is not None]
        makers = [v.producer for v in results if v.producer is not None]
        heirs = dict.fromkeys([maker for maker in makers if maker not in created])
        for old, new in zip(root.outputs, results):
            better = compare_types(old.type, new.type) is Change.BETTER
            if new.content is None:
                new.content = old.content
            readers = list(old.users())
            redirect(old, new, created)
            touched += readers
            if better:
                touched += reinfer(readers)
        gone = remove_dead([root])
        if created and results[0].producer is created[-1]:
            created[-1].name = root.name or created[-1].name
        for value in dict.fromkeys(operands):
            if value.producer is not None:
                touched.append(value.producer)
            if 0 < len(value.uses) <= 2:
                touched += value.users()
        removed = label(_in_order(gone, covered))
        new_nodes = label(created) if created else ()
        refs = tuple(map(node_ref, heirs)) if heirs else ()
        self.report.add(Rewrite(name, removed, new_nodes, level, rows, note, refs))
        if self.check is not None:
            self.check(graph, name)
        return touched


def _is_dead(node: Node) -> bool:
    return not node.is_read and node.op.domain != "host"


def _in_order(nodes: list[Node], covered: Sequence[Node]) -> list[Node]:
    """Nodes as a match has them, then the others."""
    if len(nodes) == 1:
        return nodes
    place = {node: index for index, node in enumerate(covered)}
    return sorted(nodes, key=lambda node: place.get(node, len(place)))


def _build(rule: Rule, match: Match, patch: Patch) -> list[Value] | None:
    """What the rule puts in place of the root's outputs; None where that would tell less of a
    shape.
    """
    root = match.root
    results = [
        patch.value(r) for r in rule.replacement({**match.bound, "patch": patch, "root": root})
    ]
    if any(v.uses for v in root.outputs[len(results) :]):
        raise RuleError(
            f"{len(results)} results are built for {len(root.outputs)} outputs that are read"
        )
    changes = [compare_types(old.type, new.type) for old, new in zip(root.outputs, results)]
    for old, new, change in zip(root.outputs, results, changes):
        if change is Change.CLASH:
            raise RuleError(f"it would change the type from {old.type} to {new.type}")
    return None if Change.WEAKER in changes else results


@np.errstate(all="ignore")
def refusal(rule: Rule, match: Match) -> str | None:
    """Why `rule` does not apply to a match, None when it does."""
    return _refusal(rule, match)


def _refusal(rule: Rule, match: Match) -> str | None:
    if len(match.nodes) > 1 and not rule.shares:
        covered = set(match.nodes)
        for inner in match.nodes[1:]:
            for value in inner.outputs:
                use = other_use(value, covered)
                if use is not None:
                    return _shared(value, use)
    try:
        analysis = rule.check({**match.bound, "root": match.root})
    except Refusal as stopped:
        return stopped.reason
    except UnknownRank as unknown:
        return unknown.what
    except Exception as error:
        raise _blame(rule, match.root, "when", error) from error
    for node in match.nodes:
        if open_broadcasts(node):
            return f"whether an operand of {node.kind} is repeated is known in a run only"
    if analysis is not None:
        match.bound.setdefault(ANALYSIS, analysis)
    return None


def _shared(value: Value, use: Use) -> str:
    if isinstance(use.user, Node):
        return (
            f"{value.name!r} inside the pattern is also read by {use.user.kind} node "
            f"{use.user.name!r}"
        )
    return f"{value.name!r} inside the pattern is an output of the graph"


def _blame(rule: Rule, root: Node, part: str, error: Exception) -> RuleError:
    """The RuleError that names rule and node for what went wrong inside a rule."""
    place = f"rule {rule.name} at {root.kind} node {root.name!r}"
    if isinstance(error, RuleError):
        error.within(place)
        return error
    what = error.what if isinstance(error, InfuseError) else f"{type(error).__name__}: {error}"
    hint = f"leave it out (disable {rule.name}) and report the model"
    return RuleError(f"{part} failed: {what}", where=place, hint=hint)


def _same_as_before(root: Node, results: Sequence[Value]) -> bool:
    """Whether a rewrite would give the matched operation back."""
    if all(new is old for old, new in zip(root.outputs, results)):
        return True
    node = results[0].producer if results else None
    return (
        node is not None
        and node.op == root.op
        and len(node.inputs) == len(root.inputs)
        and all(_same_operand(a, b) for a, b in zip(node.inputs, root.inputs))
        and not node.subgraphs
    )


def _same_operand(a: Value | None, b: Value | None) -> bool:
    if a is b:
        return True
    if a is None or b is None or a.const is None or b.const is None:
        return False
    if a.const is b.const:
        return True
    return (
        a.const.dtype == b.const.dtype
        and a.const.shape == b.const.shape
        and a.const.tobytes() == b.const.tobytes()
    )


class _Rules:
    """Rules and their patterns by what can be seen of the nodes at which they fit."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_kind: dict[tuple[str, str], list[tuple[Rule, Call]]] = defaultdict(list)
        self._fitting: dict[Hashable, list[tuple[Rule, Call]]] = {}
        for rule in rules:
            for pattern in rule.patterns:
                self._by_kind[pattern.domain, pattern.kind].append((rule, pattern))

    def fitting(self, node: Node) -> list[tuple[Rule, Call]]:
        """The patterns that may fit at a node, looked up by the kinds of what makes its operands,
        and of what makes the operands of these.
        """
        if len(node.inputs) > NARROW:
            return self._seen(node)
        key = key_of(node)
        rules = self._fitting.get(key)
        if rules is None:
            if len(self._fitting) >= REMEMBERED:
                self._fitting.clear()
            rules = self._fitting[key] = self._seen(node)
        return rules

    def _seen(self, node: Node) -> list[tuple[Rule, Call]]:
        rules = self._by_kind.get((node.op.domain, node.op.name), ())
        makers = {value.producer.op.name for value in node.operands() if value.producer is not None}
        return [
            (rule, pattern)
            for rule, pattern in rules
            if not (rule.reads and makers.isdisjoint(rule.reads)) and may_match(pattern, node)
        ]


@lru_cache(maxsize=16)
def _indexed(rules: tuple[Rule, ...]) -> _Rules:
    """The same rules are looked for in one model after the other."""
    return _Rules(rules)


class _Worklist:
    """Nodes to look at, each once."""

    def __init__(self) -> None:
        self._queue: deque[Node] = deque()
        self._queued: set[Node] = set()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def nodes(self) -> Iterable[Node]:
        return self._queue

    def push(self, nodes: Iterable[Node]) -> None:
        queued = self._queued
        for node in nodes:
            if node not in queued and node.graph is not None:
                queued.add(node)
                self._queue.append(node)

    def pop(self) -> Node | None:
        while self._queue:
            node = self._queue.popleft()
            self._queued.discard(node)
            if node.graph is not None:
                return node
        return None


class _Limits:
    """Ends rules that feed each other forever: by their number, and by how long a line of rewrites
    saved nothing.
    """

    def __init__(self, graph: str, nodes: int) -> None:
        self.graph = graph
        self.most = FIRES_PER_NODE * nodes + 2 * LONGEST_LINE
        self.longest = max(LONGEST_LINE, nodes)
        self.fires: Counter[str] = Counter()
        self.line: dict[Node, int] = {}

    def count(
        self, rule: str, covered: Iterable[Node], created: Iterable[Node], saved: int
    ) -> None:
        self.fires[rule] += 1
        length = max(self.line.pop(n, 0) for n in covered) + 1 if saved <= 0 else 0
        if length > self.longest or self.fires.total() > self.most:
            times = self.fires.most_common(1)[0][1]
            worst = [name for name, count in self.fires.most_common(4) if 2 * count >= times]
            raise RuleError(
                f"rewriting does not come to an end: {' and '.join(worst)} fired {times} times",
                where=self.graph,
                hint=f"disable one (--disable {worst[0]}) and report the model",
            )
        self.line.update((node, length) for node in created)
