"""Control flow: operators whose meaning lies in the graphs that they hold.

Bodies are subgraphs of the node: `then_branch` and `else_branch` of If, `body` of the others. They
may read values of the graphs around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import GraphError, ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.nesting import captured_outside
from infuse.ir.types import MapType, OptionalType, SequenceType, StateType, TensorType, Type
from infuse.ops.core.base import Array, Inferred, normalize_axis
from infuse.ops.core.control_flow import ControlFlow, Run
from infuse.ops.core.inference import infer_body, symbols_of
from infuse.ops.core.sizes import agree, fresh_dim, merge_types, scalar
from infuse.ops.core.traits import Trait


class If(ControlFlow):
    """The outputs of `then_branch` where the condition holds, else those of `else_branch`.

    A branch that is known to be dead is not inferred: it need not be well-typed.
    """

    traits = Trait.ZERO_FLOPS

    def infer(self, cond: Value) -> Inferred:
        raise GraphError("If has no types without its branches")

    def infer_bodies(self, node: Node) -> Sequence[Type]:
        truth = _known_truth(node.inputs[0])
        if truth is not None:
            return _inferred(self._branch(node, truth))
        then, other = _inferred(self._branch(node, True)), _inferred(self._branch(node, False))
        if len(then) != len(other):
            raise TypeMismatchError(f"its branches give {len(then)} and {len(other)} outputs")
        return [merge_types(a, b, "if") for a, b in zip(then, other)]

    def _branch(self, node: Node, condition: Any) -> Graph:
        return _body(node, "then_branch" if condition else "else_branch")

    def run_bodies(self, node: Node, inputs: Sequence[Any], run: Run) -> Sequence[Any]:
        return run(self._branch(node, scalar(inputs[0])), [])


class Loop(ControlFlow):
    """Runs its body up to `M` times while its condition holds.

    The body takes the iteration number, the condition and the carried values, and gives the
    condition, the carried values and what is stacked over all iterations.
    """

    traits = Trait.ZERO_FLOPS

    def infer(
        self, M: Value | None = None, cond: Value | None = None, *v_initial: Value
    ) -> Inferred:
        raise GraphError("Loop has no types without its body")

    def infer_bodies(self, node: Node) -> Sequence[Type]:
        body = _body(node, "body")
        carried = [_present(v).type for v in node.inputs[2:]]
        _check_counts(body, 2 + len(carried), 1 + len(carried))
        fixed: list[Type] = [TensorType(dtypes.int64, ()), TensorType(dtypes.bool_, ())]
        _infer_carried(body, fixed, carried, [], first_output=1)
        outputs = [v.type for v in body.outputs[1:]]
        seen = _visible(node)
        finals = [merge_types(a, b, "loop") for a, b in zip(carried, outputs)]
        trips = self.trips(node, body)
        return finals + [_stacked(t, trips, 0, seen) for t in outputs[len(carried) :]]

    def trips(self, node: Node, body: Graph) -> Dim:
        """How often the body runs, where the condition never ends the loop."""
        first, last = node.input(1), _source(body.outputs[0])
        endless = (first is None or _known_truth(first) is True) and (
            last is body.inputs[1] or _known_truth(last) is True
        )
        most = known_ints(node.input(0))
        return dims.maximum(most[0], 0) if endless and most else fresh_dim("loop")

    def run_bodies(self, node: Node, inputs: Sequence[Any], run: Run) -> Sequence[Any]:
        body = _body(node, "body")
        most = None if inputs[0] is None else int(scalar(inputs[0]))
        going = len(inputs) < 2 or inputs[1] is None or bool(scalar(inputs[1]))
        state = list(inputs[2:])
        rows: list[list[Any]] = []
        while going and (most is None or len(rows) < most):
            results = run(body, [np.array(len(rows), dtype=np.int64), np.array(going), *state])
            going = bool(scalar(results[0]))
            state = results[1 : 1 + len(state)]
            rows.append(results[1 + len(state) :])
        stacked = body.outputs[1 + len(state) :]
        return state + [_stack([row[i] for row in rows], v, 0) for i, v in enumerate(stacked)]


class Scan(ControlFlow):
    """Runs its body for each slice of the scanned inputs, carrying states and stacking its other
    outputs.

    The last `num_scan_inputs` inputs are scanned along `scan_input_axes`; direction 1 runs (or
    stacks) backwards.
    """

    traits = Trait.ZERO_FLOPS

    num_scan_inputs: int
    scan_input_axes: tuple[int, ...] | None = None
    scan_input_directions: tuple[int, ...] | None = None
    scan_output_axes: tuple[int, ...] | None = None
    scan_output_directions: tuple[int, ...] | None = None

    since = 9

    def infer(self, *initial_state_and_scan_inputs: Value) -> Inferred:
        raise GraphError("Scan has no types without its body")

    def infer_bodies(self, node: Node) -> Sequence[Type]:
        body = _body(node, "body")
        inputs = [_present(v) for v in node.inputs]
        count = len(inputs) - self.num_scan_inputs
        _check_counts(body, len(inputs), count)
        trips: Dim | None = None
        slices: list[Type] = []
        for place, value in enumerate(inputs[count:]):
            shape = value.tensor.shape
            if shape is None:
                slices.append(value.type)
                continue
            axis = normalize_axis(_entry(self.scan_input_axes, place), len(shape), self.name)
            trips = (
                shape[axis]
                if trips is None
                else agree(trips, shape[axis], "sizes of the scanned axes")
            )
            slices.append(TensorType(value.dtype, shape[:axis] + shape[axis + 1 :]))
        states = [v.type for v in inputs[:count]]
        _infer_carried(body, [], states, slices, first_output=0)
        outputs = [v.type for v in body.outputs]
        trips = fresh_dim("scan") if trips is None else trips
        seen = _visible(node)
        finals = [merge_types(a, b, "scan") for a, b in zip(states, outputs)]
        axes = [_entry(self.scan_output_axes, i) for i in range(len(outputs) - count)]
        return finals + [_stacked(t, trips, axis, seen) for t, axis in zip(outputs[count:], axes)]

    def run_bodies(self, node: Node, inputs: Sequence[Any], run: Run) -> Sequence[Any]:
        body = _body(node, "body")
        count = len(inputs) - self.num_scan_inputs
        state, scanned = list(inputs[:count]), []
        for place, array in enumerate(inputs[count:]):
            moved = np.moveaxis(array, _entry(self.scan_input_axes, place), 0)
            scanned.append(moved[::-1] if _entry(self.scan_input_directions, place) else moved)
        if len({len(s) for s in scanned}) != 1:
            raise ShapeError(f"scanned inputs have {[len(s) for s in scanned]} slices")
        rows: list[list[Any]] = []
        for parts in zip(*scanned):
            results = run(body, [*state, *(np.array(p, order="C") for p in parts)])
            state = results[:count]
            rows.append(results[count:])
        return state + [self._stacked_rows(rows, i, v) for i, v in enumerate(body.outputs[count:])]

    def _stacked_rows(self, rows: list[list[Any]], place: int, value: Value) -> Array:
        parts = [row[place] for row in rows]
        backwards = _entry(self.scan_output_directions, place)
        return _stack(
            parts[::-1] if backwards else parts, value, _entry(self.scan_output_axes, place)
        )


class SequenceMap(ControlFlow):
    """Runs its body for each element of the sequence (and of further sequences beside it; tensors
    stay the same).
    """

    traits = Trait.ZERO_FLOPS

    since = 17

    def infer(self, input_sequence: Value, *additional_inputs: Value) -> Inferred:
        raise GraphError("SequenceMap has no types without its body")

    def infer_bodies(self, node: Node) -> Sequence[Type]:
        body = _body(node, "body")
        types = [_present(v).type for v in node.inputs]
        _check_counts(body, len(types), 0)
        _set_inputs(body, [t.element if isinstance(t, SequenceType) else t for t in types])
        infer_body(body)
        seen = _visible(node)
        return [SequenceType(_outside(v.type, seen)) for v in body.outputs]

    def run_bodies(self, node: Node, inputs: Sequence[Any], run: Run) -> Sequence[Any]:
        body = _body(node, "body")
        rows = [
            run(body, [x[i] if isinstance(x, list) else x for x in inputs])
            for i in range(len(inputs[0]))
        ]
        return [[row[i] for row in rows] for i in range(len(body.outputs))]


def _body(node: Node, name: str) -> Graph:
    if name not in node.subgraphs:
        raise GraphError(f"{node.kind} node {node.name!r} has no {name}")
    return node.subgraphs[name]


def _inferred(body: Graph) -> list[Type]:
    """The types of a body's outputs."""
    infer_body(body)
    return [v.type for v in body.outputs]


def _present(value: Value | None) -> Value:
    if value is None:
        raise TypeMismatchError("a carried or scanned input is absent")
    return value


def _check_counts(body: Graph, inputs: int, outputs: int) -> None:
    if len(body.inputs) != inputs:
        raise TypeMismatchError(f"its body takes {len(body.inputs)} inputs, {inputs} are given")
    if len(body.outputs) < outputs:
        raise TypeMismatchError(f"its body gives {len(body.outputs)} outputs, {outputs} are needed")


def _set_inputs(body: Graph, types: Sequence[Type]) -> None:
    for value, type in zip(body.inputs, types):
        value.type = type
        value.content = None


def _infer_carried(
    body: Graph,
    before: list[Type],
    carried: Sequence[Type],
    after: list[Type],
    *,
    first_output: int,
) -> None:
    """Infer a body whose carried values start with these types, widened until they hold for every
    iteration.
    """
    varying: set[str] = set()
    types = list(carried)
    while True:
        _set_inputs(body, before + types + after)
        infer_body(body)
        results = [v.type for v in body.outputs[first_output : first_output + len(types)]]
        wider = [_widened(a, b, varying) for a, b in zip(types, results)]
        if wider == types:
            return
        types = wider


def _widened(a: Type, b: Type, varying: set[str]) -> Type:
    """`a` with the sizes that differ in `b` turned into symbols, unless they are `varying` ones
    already.
    """
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype:
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return TensorType(a.dtype, None)
        return TensorType(
            a.dtype, tuple(_widened_dim(x, y, varying) for x, y in zip(a.shape, b.shape))
        )
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        return SequenceType(_widened(a.element, b.element, varying))
    if isinstance(a, OptionalType):
        return OptionalType(
            _widened(a.element, b.element if isinstance(b, OptionalType) else b, varying)
        )
    raise TypeMismatchError(f"a carried value is {a} before and {b} after an iteration")


def _widened_dim(a: Dim, b: Dim, varying: set[str]) -> Dim:
    if a == b or dims.symbols(a) & varying:
        return a
    result = fresh_dim("loop")
    varying |= dims.symbols(result)
    return result


def _visible(node: Node) -> set[str]:
    """Symbols that mean the same inside and outside the bodies of `node`."""
    outer = (*node.operands(), *captured_outside(node))
    return set().union(*(symbols_of(v.type) for v in outer))


def _outside(type: Type, seen: set[str]) -> Type:
    """`type` as it is known outside a body: sizes that only the body knows are fresh."""
    if isinstance(type, SequenceType):
        return SequenceType(_outside(type.element, seen))
    if isinstance(type, OptionalType):
        return OptionalType(_outside(type.element, seen))
    if isinstance(type, MapType):
        return MapType(type.key, _outside(type.element, seen))
    if isinstance(type, StateType) or type.shape is None:
        return type
    return TensorType(
        type.dtype, tuple(d if dims.symbols(d) <= seen else fresh_dim("body") for d in type.shape)
    )


def _stacked(type: Type, trips: Dim, axis: int, seen: set[str]) -> Type:
    """The type of a body's output stacked over its iterations."""
    outer = _outside(type, seen)
    if not isinstance(outer, TensorType):
        raise TypeMismatchError(f"a stacked output of a body must be a tensor, found {type}")
    if outer.shape is None:
        return outer
    place = normalize_axis(axis, len(outer.shape) + 1, "a stacked output")
    return TensorType(outer.dtype, (*outer.shape[:place], trips, *outer.shape[place:]))


def _stack(parts: list[Any], value: Value, axis: int) -> Array:
    if parts:
        return np.stack(parts, axis)
    sizes = [d if isinstance(d, int) else 0 for d in value.tensor.shape or ()]
    return np.expand_dims(np.zeros(sizes, dtype=value.dtype.numpy), axis).take([], axis)


def _entry(entries: tuple[int, ...] | None, place: int) -> int:
    return 0 if entries is None else entries[place]


def _source(value: Value) -> Value:
    """The value that Identity nodes pass on as `value`."""
    while value.producer is not None and value.producer.kind == "Identity":
        value = _present(value.producer.inputs[0])
    return value


def _known_truth(value: Value | None) -> bool | None:
    """Whether a condition holds, where that is known."""
    if value is None:
        return None
    for content in (value.const, value.content):
        if content is not None and content.size == 1 and not isinstance(scalar(content), dims.Expr):
            return bool(scalar(content))
    return None
