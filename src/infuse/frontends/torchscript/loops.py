"""Loops that nodes decide: Loop, with all that they change as carried values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.frontends.torchscript import numbers
from infuse.frontends.torchscript.interpreter import Frame, Interpreter
from infuse.frontends.torchscript.joining import computed_type, follow
from infuse.frontends.torchscript.journal import content
from infuse.frontends.torchscript.values import (
    UNSET,
    Cell,
    List,
    Named,
    Object,
    Stacked,
    Tensor,
    Undecided,
)
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.aten.scripting import ScriptImporter

_ROUNDS: Final = 8
"""How often the body of a loop is followed until it is certain what it carries."""


def loop(
    interpreter: Interpreter, statement: ast.While | ast.For, condition: Value, frame: Frame
) -> None:
    """A loop of which nodes decide how often it runs."""
    carried = _Carried(interpreter, frame)
    for _ in range(_ROUNDS):
        inner, after, _ = _once(interpreter, statement, carried, frame)
        if not carried.grow(inner, after):
            break
    else:
        raise UnsupportedOperatorError("what a loop carries changes its kind in each round")
    inner, after, going = _once(interpreter, statement, carried, frame)
    inner.output("going_on", inner("Identity", inner.shaped(going)))
    for number, value in enumerate(carried.results(after)):
        inner.output(f"output_{number}", inner("Identity", value))
    g, is_for = interpreter.g, isinstance(statement, ast.For)
    start = carried.start()
    count = g.shaped(g.tensor(condition, dtypes.int64)) if is_for else None
    flag = None if is_for else g.shaped(condition)
    outputs = g.control(
        len(start) + len(carried.rows), "Loop", count, flag, *start, bodies={"body": inner}
    )
    carried.finish(interpreter, outputs, frame)


def _once(
    interpreter: Interpreter, statement: ast.While | ast.For, carried: _Carried, frame: Frame
) -> tuple[ScriptImporter, _Leaves, Value]:
    """The body followed once: its importer, what everything is after it, whether it goes on."""
    inner = interpreter.g.body("body")
    number = inner.input("iteration", dtypes.int64, [])
    going: Any = inner.input("going", dtypes.bool_, [])
    local = dict(frame)
    with interpreter.inside(inner) as journal:
        carried.enter(interpreter, inner, local)
        if isinstance(statement, ast.For):
            if not isinstance(statement.target, ast.Name):
                raise UnsupportedOperatorError("a loop over what is not a range")
            local[statement.target.id] = number
        follow(interpreter, statement.body, local)
        if isinstance(statement, ast.While):
            test = interpreter.number(interpreter.evaluate(statement.test, local))
            going = inner.tensor(numbers.as_bool(inner, test), dtypes.bool_)
        after = _Leaves(local, [thing for thing, _ in journal.before.values()], frame, inner)
    return inner, after, going


Path = tuple[Any, ...]


class _Leaves:
    """Numbers and tensors by the way to them: names or things, then places in them."""

    def __init__(
        self, local: Frame, things: Sequence[Any], frame: Frame, g: ScriptImporter
    ) -> None:
        self.values: dict[Path, Any] = {}
        self.things = {id(thing): thing for thing in things}
        for name in frame:
            self._add((name,), local[name], g)
        for thing in things:
            now = content(thing)
            if isinstance(thing, Cell):
                self.values[id(thing),] = now[0]
            else:
                entries = now.items() if isinstance(now, dict) else enumerate(now)
                for key, value in entries:
                    self._add((id(thing), key), value, g)

    def _add(self, path: Path, value: Any, g: ScriptImporter) -> None:
        if isinstance(value, tuple):
            for place, item in enumerate(value):
                self._add((*path, place), item, g)
        else:
            self.values[path] = value


class _Carried:
    """What a loop carries: numbers and tensors that its body changes, and lists that it makes
    longer.
    """

    def __init__(self, interpreter: Interpreter, frame: Frame) -> None:
        self._interpreter, self._frame = interpreter, frame
        self._things: dict[int, Any] = {}
        self.slots: dict[Path, TensorType] = {}
        self.rows: dict[int, List] = {}

    def _before(self) -> _Leaves:
        return _Leaves(self._frame, list(self._things.values()), self._frame, self._interpreter.g)

    def grow(self, inner: ScriptImporter, after: _Leaves) -> bool:
        """Take into account what a round changed; whether there is anything new."""
        new = False
        for key, thing in after.things.items():
            if key not in self._things:
                self._things[key] = thing
                new = True
        before = self._before()
        for path, value in after.values.items():
            if path[0] in self.rows:
                continue
            if path not in before.values:
                new |= self._longer(path, value)
                continue
            start = before.values[path]
            if path not in self.slots and (value is start or _same(start, value)):
                continue
            new |= self._slot(path, start, value, inner)
        return new

    def _longer(self, path: Path, value: Any) -> bool:
        thing = self._things.get(path[0])
        if not isinstance(thing, List):
            raise UnsupportedOperatorError("a loop makes a new field or key")
        if not isinstance(value, Tensor) or path[1] != len(thing):
            raise UnsupportedOperatorError("a loop adds more than one tensor to a list in a round")
        self.rows[path[0]] = thing
        return True

    def _slot(self, path: Path, start: Any, value: Any, inner: ScriptImporter) -> bool:
        g = self._interpreter.g
        if start is UNSET or isinstance(start, Undecided):
            raise UnsupportedOperatorError("a loop carries what has no value before it")
        if isinstance(start, Tensor) != isinstance(value, Tensor) or not (
            isinstance(start, Tensor) or (numbers.is_number(start) and numbers.is_number(value))
        ):
            raise UnsupportedOperatorError("a loop changes what is neither a tensor nor a number")
        first, last = _as_value(g, start), _as_value(inner, value)
        known = self.slots.get(path, first.tensor)
        joined = _joined(known, first.tensor, last.tensor, inner)
        if self.slots.get(path) == joined:
            return False
        self.slots[path] = joined
        return True

    def enter(self, interpreter: Interpreter, inner: ScriptImporter, local: Frame) -> None:
        """Let what is carried be inputs of the body."""
        values = {
            path: inner.typed_input(f"state_{number}", type)
            for number, (path, type) in enumerate(self.slots.items())
        }
        self._set(interpreter, values, local)

    def start(self) -> list[Value]:
        """The values before the loop."""
        before, g = self._before(), self._interpreter.g
        return [_as_value(g, before.values[path]) for path in self.slots]

    def results(self, after: _Leaves) -> Iterator[Value]:
        """The values after a round, then the rows."""
        g = self._interpreter.g
        for path, type in self.slots.items():
            yield g.cast(_as_value(g, after.values[path]), type.dtype)
        for key, thing in self.rows.items():
            row = after.values.get((key, len(thing)))
            if row is None or (key, len(thing) + 1) in after.values:
                raise UnsupportedOperatorError("a loop adds other than one tensor to a list")
            yield row.read(g)

    def finish(self, interpreter: Interpreter, outputs: Sequence[Value], frame: Frame) -> None:
        """Let everything be as the loop leaves it."""
        self._set(interpreter, dict(zip(self.slots, outputs)), frame)
        for thing, value in zip(self.rows.values(), outputs[len(self.slots) :]):
            interpreter.touch(thing)
            thing.append(Stacked(value))

    def _set(self, interpreter: Interpreter, values: dict[Path, Value], frame: Frame) -> None:
        before = self._before()
        for path, value in values.items():
            is_tensor = isinstance(before.values[path], Tensor)
            new: Any = Tensor(Cell(value)) if is_tensor else numbers.settled(value)
            thing = self._things.get(path[0])
            if thing is None:
                frame[path[0]] = _replaced(frame[path[0]], path[1:], new)
                continue
            interpreter.touch(thing)
            if isinstance(thing, Cell):
                thing.value = value
            elif isinstance(thing, Object):
                thing.fields[path[1]] = _replaced(thing.fields[path[1]], path[2:], new)
            else:
                thing[path[1]] = _replaced(thing[path[1]], path[2:], new)


def _replaced(value: Any, path: Path, new: Any) -> Any:
    """A value with another part."""
    if not path:
        return new
    items = list(value)
    items[path[0]] = _replaced(items[path[0]], path[1:], new)
    return Named.of(value.kind, value.names, items) if isinstance(value, Named) else tuple(items)


def _same(a: Any, b: Any) -> bool:
    plain = (bool, int, float, str, type(None))
    return isinstance(a, plain) and type(a) is type(b) and a == b


def _as_value(g: ScriptImporter, x: Any) -> Value:
    if isinstance(x, Tensor):
        return x.read(g)
    return x if isinstance(x, Value) else g.tensor(x, computed_type(x, x))


def _joined(slot: TensorType, first: TensorType, last: TensorType, g: ScriptImporter) -> TensorType:
    """The type of what is of either type."""
    if first.dtype != last.dtype:
        raise UnsupportedOperatorError(f"a loop turns a {first.dtype} into a {last.dtype}")
    shapes = (slot.shape, first.shape, last.shape)
    if any(s is None or len(s) != len(first.shape or ()) for s in shapes):
        raise UnsupportedOperatorError("a loop changes the number of axes of a tensor")
    assert slot.shape is not None
    assert first.shape is not None
    assert last.shape is not None
    sizes = [
        a if a == c or a != b else g.sizes.unnamed("loop", axis)
        for axis, (a, b, c) in enumerate(zip(slot.shape, first.shape, last.shape))
    ]
    return TensorType(first.dtype, tuple(sizes))
