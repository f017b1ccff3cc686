"""Reverse-mode differentiation: the gradients of inputs from those of outputs, node by node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from infuse.catalog import Catalog, calling_module
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ir.graph import Node, Value
from infuse.ir.nesting import captured_outside
from infuse.ir.types import TensorType
from infuse.ops.core.base import Elementwise, Op
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.core.traits import Trait, has_trait

_FAMILIES: Final = Catalog("infuse.ops.gradients")
_LISTED = 20
"""Operators without a gradient that an error names."""
_Gradient = TypeVar("_Gradient", bound=Callable[..., Gradients])


def gradient_of(*kinds: type[Op]) -> Callable[[_Gradient], _Gradient]:
    """Let a function be the method `gradient` of operators: it gets the operator, the builder, the
    node and the gradients of its outputs. Behind those of the inputs it may give those of
    `captured_outside`.
    """
    module = calling_module()

    def state(function: _Gradient) -> _Gradient:
        for kind in kinds:
            kind.gradient = function  # type: ignore[method-assign]
            _FAMILIES.note_class(kind, module)
        return function

    return state


def pull_back(
    make: GradientBuilder,
    seeds: Mapping[Value, Value],
    values: Sequence[Value],
    *,
    leaves: Collection[Value] = (),
) -> list[Value | None]:
    """The gradients of `values`, None where nothing depends on one.

    `seeds` has the gradients of results. Only nodes on the way from `values` to these are looked
    at, and none above `leaves`, which count as given even where one depends on another.
    UnsupportedOperatorError names every operator on it that has no gradient.
    """
    order = nodes_between(seeds, values, leaves)
    _require_gradients(order)
    reached = {*values, *(v for node in order for v in node.outputs if flows(v))}
    parts: dict[Value, list[Value]] = {v: [g] for v, g in seeds.items()}
    with make.needing(reached):
        for node in reversed(order):
            grads = [_total(make, parts, value) for value in node.outputs]
            if all(g is None for g in grads):
                continue
            reads = [*node.inputs, *captured_outside(node)]
            for value, gradient in zip(reads, _gradients(make, node, grads)):
                if value is not None and gradient is not None and value in reached:
                    parts.setdefault(value, []).append(gradient)
        return [_total(make, parts, value) for value in values]


def operand(node: Node, index: int = 0) -> Value:
    """An input that has to be there."""
    value = node.input(index)
    assert value is not None
    return value


def first(grads: Gradients) -> Value:
    """The gradient of the first output of an operator whose others carry none."""
    assert grads[0] is not None
    return grads[0]


def _gradients(make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
    assert isinstance(node.op, Op)
    try:
        return node.op.gradient(make, node, grads)
    except InfuseError as error:
        error.within(f"the gradient of {node.kind} node {node.name!r}")
        raise


def _total(make: GradientBuilder, parts: dict[Value, list[Value]], value: Value) -> Value | None:
    """The sum of what came for a value, which takes the place of its parts."""
    terms = parts.get(value, [])
    if len(terms) > 1:
        parts[value] = [make("Sum", *terms) if len(terms) > 2 else make("Add", *terms)]
    return parts[value][0] if terms else None


def through(
    make: GradientBuilder, node: Node, grads: Gradients, results: Sequence[Value | None]
) -> list[Value | None]:
    """The gradients of a node's inputs where `results`, made of these inputs by simpler operators,
    are what the node gives.
    """
    seeds: dict[Value, Value] = {}
    for result, gradient in zip(results, grads):
        if result is not None and gradient is not None:
            seeds[result] = make("Add", seeds[result], gradient) if result in seeds else gradient
    inputs = [v for v in node.inputs if v is not None and flows(v) and make.needs(v)]
    leaves = [v for v in node.inputs if v is not None]
    found = dict(zip(inputs, pull_back(make, seeds, inputs, leaves=leaves)))
    return [None if v is None else found.get(v) for v in node.inputs]


def flows(value: Value) -> bool:
    """Whether gradients flow through a value: floats do, what holds values may, and rounded
    integers do as if they had not been rounded.
    """
    if not isinstance(value.type, TensorType) or value.type.dtype.is_float:
        return True
    return value.producer is not None and has_trait(value.producer, Trait.STRAIGHT_THROUGH)


def nodes_between(
    results: Collection[Value], values: Collection[Value], leaves: Collection[Value] = ()
) -> list[Node]:
    """The nodes through which `results` depend on `values`, in execution order, but for those above
    `leaves`.
    """
    order: list[Node] = []
    dependent = set(values)
    for node in _above(results, frozenset(leaves)):
        reads: list[Any] = [*node.operands(), *captured_outside(node)]
        if has_trait(node, Trait.ZERO_GRADIENT) or dependent.isdisjoint(reads):
            continue
        outputs = [v for v in node.outputs if flows(v)]
        if outputs:
            dependent.update(outputs)
            order.append(node)
    return order


def _above(results: Collection[Value], leaves: Collection[Value]) -> list[Node]:
    """The nodes that make `results` and what they are made of down to `leaves`, each after those it
    reads.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = []
    for value in results:
        if value.producer is not None and value not in leaves:
            stack.append((value.producer, False))
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            reads = [*node.operands(), *captured_outside(node)]
            stack += [(v.producer, False) for v in reads if v.producer and v not in leaves]
    return order


def has_gradient(op: Any) -> bool:
    """Whether an operator, or a class of them, can be differentiated."""
    kind = op if isinstance(op, type) else type(op)
    if not issubclass(kind, Op):
        return False
    _FAMILIES.import_for_class(kind)
    if issubclass(kind, Elementwise) and kind.gradient is Elementwise.gradient:
        return kind.scalar is not Elementwise.scalar
    return kind.gradient is not Op.gradient


def _require_gradients(nodes: Sequence[Node]) -> None:
    missing = [node for node in nodes if not has_gradient(node.op)]
    if not missing:
        return
    names = [f"{node.kind} ({node.name!r})" for node in missing[:_LISTED]]
    more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
    raise UnsupportedOperatorError(
        f"these operators have no gradient: {', '.join(names)}{more}",
        hint="differentiate with respect to values behind them",
    )
