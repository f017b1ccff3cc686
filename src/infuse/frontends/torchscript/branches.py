"""Branches that nodes decide: If, with all that they change as outputs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.frontends.torchscript import numbers
from infuse.frontends.torchscript.archive import dotted
from infuse.frontends.torchscript.interpreter import Frame, Interpreter, Raised
from infuse.frontends.torchscript.joining import computed_type, follow
from infuse.frontends.torchscript.journal import content, restore
from infuse.frontends.torchscript.values import (
    UNSET,
    Cell,
    Dict,
    List,
    Named,
    Object,
    Tensor,
    Undecided,
)
from infuse.ir.graph import Value
from infuse.tracing.aten.scripting import ScriptImporter


def raises(body: Sequence[ast.stmt]) -> bool:
    """Whether statements certainly raise an error."""
    return any(
        isinstance(s, ast.Expr)
        and isinstance(s.value, ast.Call)
        and dotted(s.value.func) == "ops.prim.RaiseException"
        for s in body
    )


def note_unchecked(interpreter: Interpreter, statement: ast.If) -> None:
    """Note that a check of the program is not made."""
    interpreter.unchecked[ast.unparse(statement.test)[:80]] = None


def branch(interpreter: Interpreter, statement: ast.If, condition: Value, frame: Frame) -> None:
    """An `if` that nodes decide. A branch that raises is left out."""
    bodies = [statement.body, statement.orelse]
    for raising, other in (bodies, bodies[::-1]):
        if raises(raising):
            note_unchecked(interpreter, statement)
            follow(interpreter, other, frame)
            return
    outcomes: list[_Outcome | None] = []
    for name, body in zip(("then_branch", "else_branch"), bodies):
        inner = interpreter.g.body(name)
        local = dict(frame)
        with interpreter.inside(inner) as journal:
            try:
                follow(interpreter, body, local)
            except Raised:
                outcomes.append(None)
                continue
            outcomes.append(_Outcome(inner, local, journal.now()))
    then, other_outcome = outcomes
    if then is not None and other_outcome is not None:
        _merge(interpreter, condition, then, other_outcome, frame)
        return
    if then is None and other_outcome is None:
        raise Raised("both branches raise an error")
    note_unchecked(interpreter, statement)
    follow(interpreter, bodies[0 if other_outcome is None else 1], frame)


@dataclass
class _Outcome:
    """What a branch left behind: names, and things that it changed, as they were at its end."""

    g: ScriptImporter
    frame: Frame
    changed: dict[int, tuple[Any, Any]]


def _merge(
    interpreter: Interpreter, condition: Value, then: _Outcome, other: _Outcome, frame: Frame
) -> None:
    merger = _Merger(then.g, other.g)
    plans: list[tuple[str, Callable[[Sequence[Value]], Any]]] = []
    for name in then.frame:
        if name in other.frame:
            a, b = then.frame[name], other.frame[name]
            if a is not b or a is not frame.get(name, a):
                plans.append((name, merger.plan(a, b)))
    things: list[tuple[Any, Callable[[Sequence[Value]], Any]]] = []
    for key in {**then.changed, **other.changed}:
        thing = (then.changed.get(key) or other.changed[key])[0]
        a, b = (o.changed[key][1] if key in o.changed else content(thing) for o in (then, other))
        things.append((thing, merger.plan_content(thing, a, b)))
    outputs: list[Value] = []
    if merger.pairs:
        for number, (a, b) in enumerate(merger.pairs):
            for g, value in ((then.g, a), (other.g, b)):
                g.output(f"output_{number}", g("Identity", value))
        bodies = {"then_branch": then.g, "else_branch": other.g}
        flag = interpreter.g.shaped(condition)
        outputs = interpreter.g.control(len(merger.pairs), "If", flag, bodies=bodies)
    for name, plan in plans:
        frame[name] = plan(outputs)
    for thing, plan in things:
        interpreter.touch(thing)
        restore(thing, plan(outputs))


class _Merger:
    """Plans how what two branches give becomes one value; `pairs` become outputs."""

    def __init__(self, then: ScriptImporter, other: ScriptImporter) -> None:
        self._then, self._other = then, other
        self.pairs: list[tuple[Value, Value]] = []

    def plan(self, a: Any, b: Any) -> Callable[[Sequence[Value]], Any]:
        """A function from the outputs of the node to the value."""
        if a is b:
            return lambda outputs: a
        if a is UNSET or b is UNSET:
            return self._half(b if a is UNSET else a, a is UNSET)
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            x, y = a.read(self._then), b.read(self._other)
            if x is y and a.cell is b.cell:
                return lambda outputs: a
            place = self._slot(x, y)
            return lambda outputs: Tensor(Cell(outputs[place], linked=[a.cell, b.cell]))
        if numbers.is_number(a) and numbers.is_number(b):
            return self._numbers(a, b)
        if type(a) is type(b) and isinstance(a, (tuple, List)) and len(a) == len(b):
            return self._items(a, b)
        if isinstance(a, Dict) and isinstance(b, Dict) and list(a) == list(b):
            plans = [(key, self.plan(a[key], b[key])) for key in a]
            return lambda outputs: Dict((key, plan(outputs)) for key, plan in plans)
        if type(a) is type(b) and not isinstance(a, (Tensor, Object, List, Dict)) and a == b:
            return lambda outputs: a
        return lambda outputs: Undecided("it is of another kind in each of two branches")

    def plan_content(self, thing: Any, a: Any, b: Any) -> Callable[[Sequence[Value]], Any]:
        """The same for what can change of a thing."""
        if isinstance(thing, Cell):
            spoiled = a[1] or b[1]
            if a[0] is b[0]:
                return lambda outputs: (a[0], spoiled)
            place = self._slot(a[0], b[0])
            return lambda outputs: (outputs[place], spoiled)
        if isinstance(thing, List):
            if len(a) != len(b):
                raise UnsupportedOperatorError("a list has another length in each of two branches")
            plans = [self.plan(x, y) for x, y in zip(a, b)]
            return lambda outputs: [plan(outputs) for plan in plans]
        if isinstance(thing, Dict) and set(a) != set(b):
            raise UnsupportedOperatorError("a dictionary has other keys in each of two branches")
        now = content(thing)
        a, b = {**now, **a}, {**now, **b}
        named = [(key, self.plan(a[key], b[key])) for key in a]
        return lambda outputs: {key: plan(outputs) for key, plan in named}

    def _slot(self, x: Value, y: Value) -> int:
        self.pairs.append((x, y))
        return len(self.pairs) - 1

    def _numbers(self, a: Any, b: Any) -> Callable[[Sequence[Value]], Any]:
        computed = isinstance(a, Value) or isinstance(b, Value)
        if not computed and type(a) is type(b) and (a == b or (a != a and b != b)):
            return lambda outputs: a
        dtype = computed_type(a, b)
        place = self._slot(self._then.tensor(a, dtype), self._other.tensor(b, dtype))
        return lambda outputs: numbers.settled(outputs[place])

    def _items(self, a: Any, b: Any) -> Callable[[Sequence[Value]], Any]:
        plans = [self.plan(x, y) for x, y in zip(a, b)]

        def build(outputs: Sequence[Value]) -> Any:
            items = [plan(outputs) for plan in plans]
            if isinstance(a, Named):
                return Named.of(a.kind, a.names, items)
            return List(items) if isinstance(a, List) else tuple(items)

        return build

    def _half(self, value: Any, in_other: bool) -> Callable[[Sequence[Value]], Any]:
        """What only one branch gives, and the program reads only after that one."""
        if isinstance(value, Tensor):
            g = self._other if in_other else self._then
            inner = value.read(g)
            shape = [n if isinstance(n, int) else 1 for n in inner.shape]
            blank = g.constant(np.zeros(shape, inner.dtype.numpy), dtype=inner.dtype)
            place = self._slot(blank, inner) if in_other else self._slot(inner, blank)
            return lambda outputs: Tensor(Cell(outputs[place]))
        if isinstance(value, Value):
            zero = (self._then if in_other else self._other).number(0, value.dtype)
            place = self._slot(zero, value) if in_other else self._slot(value, zero)
            return lambda outputs: outputs[place]
        if isinstance(value, (tuple, List)):
            blanks = [UNSET] * len(value)
            both = (blanks, list(value)) if in_other else (list(value), blanks)
            plans = [self.plan(x, y) for x, y in zip(*both)]
            kind = List if isinstance(value, List) else tuple
            return lambda outputs: kind(plan(outputs) for plan in plans)
        return lambda outputs: value
