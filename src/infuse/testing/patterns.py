"""From a rule's pattern to graphs: alternatives chosen, variables filled with operands that the
operators accept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.expression import Call, OneOf, Variable
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.core.base import REGISTRY, Op
from infuse.ops.core.samples import Bools, Floats, Ints, sample_rows
from infuse.ops.core.signatures import signature
from infuse.rewrite import Rule
from infuse.rewrite.patch import Patch
from infuse.testing.samples import draw, type_of

SIZE = 4
RESTARTS = 100
LEAVES = 20
BUILDS = 300
_SHAPES: tuple[tuple[int, ...], ...] = (
    (4,),
    (4, 4),
    (4, 4, 4),
    (4, 4, 4, 4),
    (),
    (1, 4),
    (4, 1),
    (4, 1, 1),
    (1, 4, 4),
    (4, 4, 1, 1),
    (1, 4, 4, 4),
    (2, 4, 4),
)
_LISTS: tuple[list[int], ...] = (
    [0],
    [1],
    [-1],
    [2],
    [2, 3],
    [0, 1],
    [1, 2],
    [4, 4],
    [16],
    [2, 2, 4],
    [1, 4, 4],
    [4],
    [0] * 8,
    [1] * 4,
)
_GENERIC: list[Any] = [*_SHAPES, *(np.array(numbers, dtype=np.int64) for numbers in _LISTS)]


# -- alternatives ----------------------------------------------------------------------------------


def spellings(rule: Rule, rng: np.random.Generator) -> list[tuple[Call, Call]]:
    """Every pattern of a rule with alternatives chosen: each choice of each OneOf and each optional
    operand once.
    """
    result = []
    for pattern in rule.patterns:
        seen: set[tuple[int, int]] = set()
        for attempt in range(100):
            chooser = _Chooser(rng if attempt else None)
            concrete = chooser.call(pattern)
            if chooser.made - seen:
                seen |= chooser.made
                result.append((pattern, concrete))
            elif not attempt:
                result.append((pattern, concrete))
            if not chooser.made:
                break
    return result


class _Chooser:
    """Copies a pattern with one alternative of each choice; `made` lists what was chosen."""

    def __init__(self, rng: np.random.Generator | None) -> None:
        self.rng = rng
        self.made: set[tuple[int, int]] = set()
        self._calls: dict[int, Call] = {}
        self._choices: dict[Any, int] = {}

    def call(self, pattern: Call) -> Call:
        root = self._calls.get(id(pattern.root))
        if root is None:
            args = tuple(map(self._operand, pattern.args))
            root = Call(
                pattern.kind, args, pattern.attributes, domain=pattern.domain, label=pattern.label
            )
            self._calls[id(pattern.root)] = root
        return root if pattern.output == 0 else root[pattern.output]

    def _operand(self, pattern: Any) -> Any:
        if isinstance(pattern, OneOf):
            return self._operand(pattern.choices[self._choose(id(pattern), len(pattern.choices))])
        if isinstance(pattern, Variable) and pattern.optional:
            present = self._choose(pattern.name, 2) == 0
            return Variable(pattern.name, constant=pattern.constant) if present else None
        return self.call(pattern) if isinstance(pattern, Call) else pattern

    def _choose(self, key: Any, count: int) -> int:
        if key not in self._choices:
            self._choices[key] = 0 if self.rng is None else int(self.rng.integers(count))
            self.made.add((hash(key), self._choices[key]))
        return self._choices[key]


# -- graphs ----------------------------------------------------------------------------------------


def build(
    pattern: Call, examples: Sequence[Example], rng: np.random.Generator
) -> Iterator[tuple[Graph, Node]]:
    """Graphs of a pattern without alternatives, and its root: one per example that fits, or found
    by trying.

    A variable becomes a constant where the pattern asks for one or the operand is an array, else an
    input.
    """
    for example in examples:
        built = _Build(pattern, rng).on(example)
        if built is not None:
            yield built
    if not examples:
        for _ in range(RESTARTS):
            yield from itertools.islice(_Build(pattern, rng).search(), LEAVES)


@dataclass(frozen=True)
class _Choice:
    """Operands for the variables that a node is the first to read, its attributes, and how many
    outputs it has.
    """

    operands: Mapping[str, Any]
    attributes: Mapping[str, Any]
    outputs: int = 1


Example = Mapping[str, Any]
"""Operands by variable: a shape (of floats), `Ints`, `Bools`, a type, an array (constant), an
operator call on such operands, a list of these where the variable takes several. Under a label, or
`root`: attributes of that node. Under `outputs`: how many outputs the root has.
"""


class _Build:
    """One graph under construction."""

    def __init__(self, pattern: Call, rng: np.random.Generator) -> None:
        self.rng = rng
        self.steps = _post_order(pattern)
        inner = [arg for step in self.steps for arg in step.args if isinstance(arg, Call)]
        self.read = {
            id(arg.root): 1 + max(a.output for a in inner if a.root is arg.root) for arg in inner
        }
        self.left = BUILDS
        self.made: dict[int, Node] = {}
        self.operands: Mapping[str, Any] = {}
        self.inputs: dict[str, Value] = {}

    def on(self, example: Example) -> tuple[Graph, Node] | None:
        """The graph on given operands; None where a variable has none or an operator refuses."""
        choices = []
        for step in self.steps:
            needed = {v.name: example.get(v.name) for v in _variables(step)}
            if any(spec is None for spec in needed.values()):
                return None
            last = step is self.steps[-1]
            attributes = example.get(step.label or "root", {}) if step.label or last else {}
            choices.append(_Choice(needed, attributes, example.get("outputs", 1) if last else 1))
        return self._graph(choices)

    def search(self) -> Iterator[tuple[Graph, Node]]:
        """Graphs on random operands of the shapes that the operators' own samples have."""
        yield from self._extend([])

    def _extend(self, choices: list[_Choice]) -> Iterator[tuple[Graph, Node]]:
        if len(choices) == len(self.steps):
            built = self._graph(choices)
            if built is not None:
                yield built
            return
        for choice in self._choices(self.steps[len(choices)], choices):
            self.left -= 1
            if self.left < 0:
                return
            if self._graph([*choices, choice]) is not None:
                yield from self._extend([*choices, choice])

    def _choices(self, step: Call, before: Sequence[_Choice]) -> Iterator[_Choice]:
        labels = {name for choice in before for name in choice.operands}
        op = REGISTRY[step.domain, step.kind]
        fresh: dict[str, list[Any]] = {}
        for position, arg in enumerate(step.args):
            if isinstance(arg, Variable) and arg.name not in labels and arg.name not in fresh:
                fresh[arg.name] = self._ordered(_specs(op, position), arg)
        attributes = self._shuffled(_attributes(op, step))
        for values, *operands in itertools.product(attributes, *fresh.values()):
            outputs = values.get("num_outputs") or 1
            yield _Choice(dict(zip(fresh, operands)), values, outputs)

    def _ordered(self, likely: list[Any], variable: Variable) -> list[Any]:
        """Operands to try, mostly those first that the operator's samples have."""
        generic = [spec for spec in _GENERIC if not any(_same(spec, other) for other in likely)]
        first, second = self._shuffled(likely), self._shuffled(generic)
        specs = first + second if self.rng.random() < 0.75 else second + first
        if not variable.variadic:
            return specs
        return [*([one] for one in specs[:8]), [], *([one, one] for one in specs)]

    def _shuffled(self, items: list[Any]) -> list[Any]:
        return [items[i] for i in self.rng.permutation(len(items))]

    def _graph(self, choices: Sequence[_Choice]) -> tuple[Graph, Node] | None:
        """The graph of the first steps; None where an operator refuses."""
        graph = Graph("case")
        patch = Patch(graph)
        values: dict[str, Any] = {}
        nodes: dict[int, Node] = {}
        for step, choice in zip(self.steps, choices):
            for variable in _variables(step):
                if variable.name not in values:
                    values[variable.name] = self._operand(
                        graph, variable, choice.operands[variable.name]
                    )
            args = [operand for arg in step.args for operand in _resolved(arg, values, nodes)]
            call = Call(
                step.kind, tuple(args), {**choice.attributes, **step.attributes}, domain=step.domain
            )
            try:
                node = patch.node(call[max(choice.outputs, self.read.get(id(step), 1)) - 1])
            except (InfuseError, TypeError, ValueError, IndexError):
                return None
            node.name = f"n{len(nodes)}"
            for index, value in enumerate(node.outputs):
                value.name = f"{node.name}.{index}"
            nodes[id(step)] = node
        for index, value in enumerate(node.outputs):
            graph.add_output(value, f"y{index}")
        return graph, node

    def _operand(self, graph: Graph, variable: Variable, spec: Any) -> Any:
        if variable.variadic:
            choices = spec if isinstance(spec, list) else [spec]
            return [
                self._value(graph, f"{variable.name}{i}", one, False)
                for i, one in enumerate(choices)
            ]
        return self._value(graph, variable.name, spec, variable.constant)

    def _value(self, graph: Graph, name: str, spec: Any, fixed: bool) -> Value:
        if isinstance(spec, Call):
            return self.expression(graph, name, spec)
        if isinstance(spec, TensorType):
            return graph.add_input(name, spec)
        if isinstance(spec, (np.ndarray, np.generic)):
            return constant(np.asarray(spec), name)
        if isinstance(spec, tuple):
            spec = Floats(spec, 0.5, 2.0)
        array: Array = draw(spec, self.rng)
        return constant(array, name) if fixed else graph.add_input(name, type_of(array))

    def expression(self, graph: Graph, name: str, spec: Call) -> Value:
        """An operand made by an operator of the graph, whose operands are specs in turn."""
        made = self.made.get(id(spec.root))
        if made is None or made.graph is not graph:
            args = [self._leaf(graph, f"{name}.{i}", one) for i, one in enumerate(spec.args)]
            made = Patch(graph).node(
                Call(spec.kind, tuple(args), spec.attributes, domain=spec.domain)[spec.output]
            )
            self.made[id(spec.root)] = made
        return self._output(made, spec.output)

    def _leaf(self, graph: Graph, name: str, spec: Any) -> Any:
        if spec is None or isinstance(spec, (bool, int, float, Value)):
            return spec
        if isinstance(spec, Variable):
            if spec.name not in self.inputs:
                self.inputs[spec.name] = self._value(
                    graph, spec.name, self.operands[spec.name], spec.constant
                )
            return self.inputs[spec.name]
        return self._value(graph, name, spec, False)

    def _output(self, node: Node, index: int) -> Value:
        while len(node.outputs) <= index:
            value = Value(UNKNOWN)
            value.producer, value.index = node, len(node.outputs)
            node.outputs.append(value)
        node.op.infer_node(node)
        return node.outputs[index]


def _resolved(arg: Any, values: Mapping[str, Any], nodes: Mapping[int, Node]) -> list[Any]:
    if isinstance(arg, Variable):
        value = values[arg.name]
        return value if isinstance(value, list) else [value]
    return [nodes[id(arg.root)].outputs[arg.output]] if isinstance(arg, Call) else [arg]


def _post_order(pattern: Call) -> list[Call]:
    calls: dict[int, Call] = {}

    def visit(call: Call) -> None:
        if id(call.root) not in calls:
            for arg in call.args:
                if isinstance(arg, Call):
                    visit(arg)
            calls[id(call.root)] = call.root

    visit(pattern)
    return list(calls.values())


def names_of(pattern: Call) -> set[str]:
    """Names of the variables and labels of a pattern without alternatives."""
    steps = _post_order(pattern)
    return {v.name for step in steps for v in _variables(step)} | {
        step.label for step in steps if step.label
    }


def _variables(step: Call) -> list[Variable]:
    return [arg for arg in step.args if isinstance(arg, Variable)]


def graph_of(*results: Call, rng: np.random.Generator | None = None, **operands: Any) -> Graph:
    """A graph with these outputs, y0, y1, …; a variable is the operand of its name (as in an
    `Example`).

    The same call is the same node. Arguments of calls may also be operands themselves.
    """
    graph = Graph("written")
    builder = _Build(results[0], rng or np.random.default_rng(0))
    builder.operands = operands
    for index, result in enumerate(results):
        graph.add_output(builder.expression(graph, "x", result), f"y{index}")
    for number, node in enumerate(graph.nodes):
        node.name = f"n{number}"
        for index, value in enumerate(node.outputs):
            value.name = f"{node.name}.{index}"
    return graph


# -- operands --------------------------------------------------------------------------------------


def _attributes(op: type[Op], step: Call) -> list[Mapping[str, Any]]:
    """Attributes to try: the defaults, and those of the operator's samples."""
    result: list[Mapping[str, Any]] = [{}]
    for sample in sample_rows(op):
        free = {k: v for k, v in sample.attributes.items() if k not in step.attributes}
        if not any(repr(free) == repr(other) for other in result):
            result.append(free)
    return result


def _specs(op: type[Op], position: int) -> list[Any]:
    """Operands like those of an operator's samples at one input, all sizes alike."""
    names = signature(op).names
    name = names[min(position, len(names) - 1)] if names else ""
    result: list[Any] = []
    for sample in sample_rows(op):
        spec = sample.inputs.get(name)
        for one in spec if isinstance(spec, list) else [spec]:
            like = _like(one)
            if like is not None and not any(_same(like, other) for other in result):
                result.append(like)
    return result


def _like(spec: Any) -> Any:
    """A spec of a sample with all its sizes alike, so that most operands fit each other."""
    if isinstance(spec, (np.ndarray, np.generic)):
        return spec if spec.dtype.kind in "iub" else None
    if spec is None:
        return None
    if isinstance(spec, Bools):
        return Bools(_even(spec.shape))
    if isinstance(spec, Ints):
        return Ints(_even(spec.shape), 0, SIZE, spec.dtype)
    return _even(spec.shape if isinstance(spec, Floats) else spec)


def _even(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(SIZE if size > 1 else size for size in shape)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and repr(a) == repr(b)


__all__ = ["Example", "build", "graph_of", "names_of", "spellings"]
