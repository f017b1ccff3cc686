"""The worklist driver: applies rules until none fires, and guarantees what no rule should repeat."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from infuse.errors import InfuseError, RuleError
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Node, Use, Value
from infuse.ir.types import TensorType, Type
from infuse.rewrite.matcher import Match, Trace, matches
from infuse.rewrite.patch import Patch, only_used_by, redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite, label
from infuse.rewrite.rule import Refusal, Rule

FIRES_PER_NODE = 40
Folder = Callable[[Node], "Sequence[Value] | None"]


class Driver:
    """Applies `rules` to a graph and its bodies, in the order given where several fit.

    `fold` may turn a node into constants; it is tried before any rule. `check` is called after every rewrite.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        report: Report | None = None,
        *,
        fold: Folder | None = None,
        check: Callable[[Graph, str], None] | None = None,
    ) -> None:
        self.report = report or Report()
        self.fold = fold
        self.check = check
        self._by_kind: dict[tuple[str, str], list[tuple[Rule, Call]]] = defaultdict(list)
        for rule in rules:
            for pattern in rule.patterns:
                self._by_kind[pattern.domain, pattern.kind].append((rule, pattern))

    def run(self, graph: Graph) -> bool:
        """Rewrite to the fixed point; whether anything changed. RuleError when rules do not come to an end."""
        queue: deque[Node] = deque()
        queued: set[Node] = set()

        def push(nodes: Iterable[Node]) -> None:
            for node in nodes:
                if node not in queued and node.graph is not None:
                    queued.add(node)
                    queue.append(node)

        for inner in graph.all_graphs():
            push(inner.nodes)
        budget = FIRES_PER_NODE * max(len(queue), 25)
        fires: dict[str, int] = defaultdict(int)
        changed = False
        while queue:
            node = queue.popleft()
            queued.discard(node)
            if node.graph is None:
                continue
            touched = self._visit(node, fires)
            if touched is None:
                continue
            changed = True
            push(touched)
            if sum(fires.values()) > budget:
                worst = max(fires, key=lambda name: fires[name])
                raise RuleError(
                    f"rewriting does not come to an end: {worst} fired {fires[worst]} times",
                    where=graph.name,
                    hint=f"disable it (--disable {worst}) and report the model",
                )
        return changed

    def _visit(self, node: Node, fires: dict[str, int]) -> list[Node] | None:
        if not any(v.uses for v in node.outputs) and node.op.domain != "host":
            below = [v.producer for v in node.operands() if v.producer is not None]
            removed = remove_dead(node.graph, [node]) if node.graph is not None else []
            fires["RemoveDead"] += 1
            self.report.add(Rewrite("RemoveDead", label(removed), (), rows=("G6",)))
            return below
        if self.fold is not None:
            constants = self.fold(node)
            if constants is not None:
                fires["FoldConstants"] += 1
                return self._replace(node, constants, (node,), (), "FoldConstants", "basic", ("G1",), "")
        for rule, pattern in self._by_kind.get((node.op.domain, node.kind), ()):
            touched = self._try(rule, pattern, node)
            if touched is not None:
                fires[rule.name] += 1
                return touched
        return None

    def _try(self, rule: Rule, pattern: Call, node: Node) -> list[Node] | None:
        for match in matches(pattern, node):
            if refusal(rule, pattern, match) is not None:
                continue
            touched = self._apply(rule, match)
            if touched is not None:
                return touched
        return None

    def _apply(self, rule: Rule, match: Match) -> list[Node] | None:
        root = match.root
        assert root.graph is not None
        origin = [name for node in reversed(match.nodes) for name in node.origin]
        patch = Patch(root.graph, origin, root.name)
        try:
            results = self._build(rule, match, patch)
        except Refusal:
            patch.undo()
            return None
        except InfuseError as error:
            patch.undo()
            error.within(f"rule {rule.name} at {root.kind} node {root.name!r}")
            raise
        if results is None or _same_as_before(root, results):
            patch.undo()
            return None
        return self._replace(root, results, match.nodes, patch.created, rule.name, rule.level, rule.rows, "")

    def _build(self, rule: Rule, match: Match, patch: Patch) -> list[Value] | None:
        try:
            built = rule.replacement({**match.bound, "patch": patch, "root": match.root})
        except (Refusal, InfuseError):
            raise
        except Exception as error:
            raise RuleError(f"build failed: {type(error).__name__}: {error}") from error
        results = [patch.value(r) for r in built]
        if any(v.uses for v in match.root.outputs[len(results) :]):
            raise RuleError(f"{len(results)} results are built for {len(match.root.outputs)} outputs that are read")
        for old, new in zip(match.root.outputs, results):
            check_type(rule.name, old.type, new.type)
        return results

    def _replace(
        self,
        root: Node,
        results: Sequence[Value],
        covered: Sequence[Node],
        created: Sequence[Node],
        name: str,
        level: str,
        rows: tuple[str, ...],
        note: str,
    ) -> list[Node]:
        graph = root.graph
        assert graph is not None
        touched: list[Node] = list(created)
        boundary = [v for node in covered for v in node.operands()]
        for old, new in zip(root.outputs, results):
            touched.extend(old.users())
            refined = new.type != old.type
            redirect(old, new)
            if refined:
                touched.extend(reinfer(new))
            touched.extend(new.users())
        removed = remove_dead(graph, covered[:1])
        for value in boundary:
            if value.producer is not None:
                touched.append(value.producer)
            if len(value.uses) <= 2:
                touched.extend(value.users())
        for node in removed:
            for value in node.outputs:
                value.uses.clear()
        self.report.add(Rewrite(name, label(removed), label(created), level, rows, note))
        if self.check is not None:
            self.check(graph, name)
        return touched


def refusal(rule: Rule, pattern: Call, match: Match) -> str | None:
    """Why `rule` does not apply to a match, None when it does."""
    if not rule.shares:
        for inner in match.nodes[1:]:
            for value in inner.outputs:
                use = only_used_by(value, match.nodes)
                if use is not None:
                    return _shared(value, use)
    try:
        rule.check({**match.bound, "root": match.root})
    except Refusal as stopped:
        return stopped.reason
    except InfuseError:
        raise
    except Exception as error:
        raise RuleError(
            f"when failed: {type(error).__name__}: {error}", where=f"rule {rule.name} at {match.root.name!r}"
        ) from error
    return None


def _shared(value: Value, use: Use) -> str:
    if isinstance(use.user, Node):
        return f"{value.name!r} inside the pattern is also read by {use.user.kind} node {use.user.name!r}"
    return f"{value.name!r} inside the pattern is an output of the graph"


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
    return a.const.dtype == b.const.dtype and a.const.shape == b.const.shape and a.const.tobytes() == b.const.tobytes()


def check_type(name: str, old: Type, new: Type) -> None:
    """RuleError unless the type after a rewrite is the one before, or says more where little was known."""
    if old == new or not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return
    if old.dtype == new.dtype and (old.shape is None or new.shape is None):
        return
    if old.dtype == new.dtype and old.shape is not None and new.shape is not None and len(old.shape) == len(new.shape):
        clash = [(a, b) for a, b in zip(old.shape, new.shape) if isinstance(a, int) and isinstance(b, int) and a != b]
        if not clash:
            return
    raise RuleError(f"rule {name} would change the type from {old} to {new}")


def reinfer(value: Value) -> list[Node]:
    """Infer again downstream of a value whose type says more than before; the nodes that changed."""
    changed: list[Node] = []
    pending: deque[Node] = deque(value.users())
    while pending:
        node = pending.popleft()
        before = [v.type for v in node.outputs]
        node.op.infer_node(node)
        if before != [v.type for v in node.outputs]:
            changed.append(node)
            for output in node.outputs:
                pending.extend(output.users())
    return changed


def explain(rule: Rule, graph: Graph) -> list[dict[str, Any]]:
    """Why `rule` fires or does not: complete matches with their refusal, else the best partial match."""
    found: list[dict[str, Any]] = []
    best = Trace()
    roots = {(p.domain, p.kind) for p in rule.patterns}
    for inner in graph.all_graphs():
        for node in inner.nodes:
            if (node.op.domain, node.kind) not in roots:
                continue
            for pattern in rule.patterns:
                for match in matches(pattern, node, best):
                    reason = refusal(rule, pattern, match)
                    found.append(
                        {"node": node.name, "kind": node.kind, "fires": reason is None, "reason": reason or ""}
                    )
    if found:
        return found
    if best.node is None:
        kinds = ", ".join(sorted(kind for _, kind in roots))
        return [{"node": "", "kind": "", "fires": False, "reason": f"the graph has no {kinds} node"}]
    covered = " ← ".join(f"{n.kind}({n.name})" for n in best.covered)
    return [
        {
            "node": best.node.name,
            "kind": best.node.kind,
            "fires": False,
            "reason": f"{best.reason} (matched so far: {covered or 'nothing'})",
        }
    ]
