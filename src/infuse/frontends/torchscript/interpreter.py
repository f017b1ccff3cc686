"""Follows a program of TorchScript: what is certain is carried out, the rest becomes nodes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from infuse.budgets import check_time, spend
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.torchscript import numbers
from infuse.frontends.torchscript.archive import ScriptFile, dotted
from infuse.frontends.torchscript.expressions import Evaluator, Frame, Raised, unread
from infuse.frontends.torchscript.journal import Journal
from infuse.frontends.torchscript.modules import Modules
from infuse.frontends.torchscript.values import (
    Cell,
    Dict,
    List,
    Object,
)
from infuse.ir.graph import Value
from infuse.tracing.aten.scripting import ScriptImporter

__all__ = ["Frame", "Interpreter", "Raised"]
_DEEPEST: Final = 60
"""Calls inside of calls."""


class Interpreter(Evaluator):
    """Follows functions in one graph. `control` carries out what nodes decide: branches and loops
    (`branches`, `loops`).
    """

    def __init__(self, file: ScriptFile, g: ScriptImporter, modules: Modules) -> None:
        self.file, self.g, self.modules = file, g, modules
        self.journals = [Journal()]
        self.unchecked: dict[str, None] = {}
        self.branch: Callable[[Interpreter, ast.If, Value, Frame], None] | None = None
        self.loop: Callable[[Interpreter, ast.While | ast.For, Any, Frame], None] | None = None
        self._steps = self._depth = 0
        self._place: list[str] = []

    def touch(self, thing: Cell | Object | List | Dict) -> None:
        """Note that a thing is about to change."""
        self.journals[-1].touch(thing)

    @contextmanager
    def inside(self, g: ScriptImporter) -> Iterator[Journal]:
        """Within, nodes are made in a body; what it changes is undone at its end."""
        outer, self.g = self.g, g
        journal = Journal()
        self.journals.append(journal)
        try:
            yield journal
        finally:
            self.journals.pop()
            journal.undo()
            self.g = outer

    # -- functions ---------------------------------------------------------------------------------

    def call_method(
        self, thing: Object, name: str, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """The result of a method of an object."""
        method = self.file.method(thing.kind, name)
        if method is None:
            raise ModelFileError(f"the class {thing.kind} has no method {name!r}")
        parts = thing.path.split(".") if thing.path and name == "forward" else []
        with self.g.scope(*parts[-1:]):
            return self.call(method, [thing, *arguments], options)

    def call(
        self, function: ast.FunctionDef, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """The result of a function of the program."""
        names = [a.arg for a in function.args.args]
        frame: Frame = dict(zip(names, arguments))
        defaults = function.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults):
            if name not in frame and name not in options:
                frame[name] = self.evaluate(default, {})
        frame.update(options)
        missing = [name for name in names if name not in frame]
        if missing or len(arguments) > len(names) or len(frame) > len(names):
            raise ModelFileError(
                f"{function.name} is called with {len(arguments)} arguments, and has {names}"
            )
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ModelFileError(f"the program calls functions {_DEEPEST} deep")
        try:
            done, result = self.run(function.body, frame)
        finally:
            self._depth -= 1
        return result if done else None

    def run(self, body: Sequence[ast.stmt], frame: Frame) -> tuple[bool, Any]:
        """Carry out statements; whether they return, and what."""
        for statement in body:
            self._steps += 1
            if not self._steps & 255:
                check_time("reading the model")
                spend("nodes", self._steps / 4, "following the program takes steps of")
            if isinstance(statement, ast.Return):
                value = statement.value
                return True, None if value is None else self.evaluate(value, frame)
            step = _STATEMENTS.get(type(statement))
            if step is None:
                raise unread(statement)
            done, result = step(self, statement, frame)
            if done:
                return True, result
        return False, None

    # -- statements --------------------------------------------------------------------------------

    def _expression(self, statement: ast.Expr, frame: Frame) -> tuple[bool, Any]:
        self.evaluate(statement.value, frame)
        return False, None

    def _assign(self, statement: ast.Assign, frame: Frame) -> tuple[bool, Any]:
        value = self.evaluate(statement.value, frame)
        for target in statement.targets:
            self._bind(target, value, frame)
        return False, None

    def _annotated(self, statement: ast.AnnAssign, frame: Frame) -> tuple[bool, Any]:
        if statement.value is not None:
            self._bind(statement.target, self.evaluate(statement.value, frame), frame)
        return False, None

    def _bind(self, target: ast.expr, value: Any, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            frame[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, (tuple, list)) or len(value) != len(target.elts):
                raise ModelFileError(f"{len(target.elts)} names are given what is no such tuple")
            for inner, part in zip(target.elts, value):
                self._bind(inner, part, frame)
        elif isinstance(target, ast.Attribute):
            thing = self.evaluate(target.value, frame)
            if not isinstance(thing, Object):
                raise unread(target)
            self._load(thing, target.attr)
            self.touch(thing)
            thing.fields[target.attr] = value
        else:
            raise unread(target)

    def _load(self, thing: Object, name: str) -> None:
        """Let a field be among those that journals restore."""
        if name not in thing.fields:
            value = thing.fields[name] = self.modules.original(thing, name)
            for journal in self.journals:
                if id(thing) in journal.before:
                    journal.before[id(thing)][1].setdefault(name, value)

    def _if(self, statement: ast.If, frame: Frame) -> tuple[bool, Any]:
        condition = numbers.as_bool(self.g, self.number(self.evaluate(statement.test, frame)))
        if not isinstance(condition, Value):
            return self.run(statement.body if condition else statement.orelse, frame)
        assert self.branch is not None
        self.branch(self, statement, condition, frame)
        return False, None

    def _while(self, statement: ast.While, frame: Frame) -> tuple[bool, Any]:
        while True:
            condition = numbers.as_bool(self.g, self.number(self.evaluate(statement.test, frame)))
            if isinstance(condition, Value):
                assert self.loop is not None
                self.loop(self, statement, condition, frame)
                return False, None
            if not condition:
                return False, None
            done, result = self.run(statement.body, frame)
            if done:
                return True, result

    def _for(self, statement: ast.For, frame: Frame) -> tuple[bool, Any]:
        test = statement.iter
        if not isinstance(test, ast.Call) or dotted(test.func) != "range" or len(test.args) != 1:
            raise unread(statement)
        count = self.number(self.evaluate(test.args[0], frame))
        if isinstance(count, Value):
            assert self.loop is not None
            self.loop(self, statement, count, frame)
            return False, None
        for number in range(count):
            self._bind(statement.target, number, frame)
            done, result = self.run(statement.body, frame)
            if done:
                return True, result
        return False, None

    def _with(self, statement: ast.With, frame: Frame) -> tuple[bool, Any]:
        for item in statement.items:
            thing = self.evaluate(item.context_expr, frame)
            kind = thing.kind if isinstance(thing, Object) else ""
            if not kind.startswith("__torch__.torch.autograd."):
                raise UnsupportedOperatorError(f"the context {kind or 'of no class'} is not known")
        return self.run(statement.body, frame)


def _nothing(interpreter: Interpreter, statement: ast.stmt, frame: Frame) -> tuple[bool, Any]:
    return False, None


_STATEMENTS: Final[Mapping[type, Callable[[Any, Any, Frame], tuple[bool, Any]]]] = {
    ast.AnnAssign: Interpreter._annotated,
    ast.Assign: Interpreter._assign,
    ast.Expr: Interpreter._expression,
    ast.For: Interpreter._for,
    ast.If: Interpreter._if,
    ast.Pass: _nothing,
    ast.While: Interpreter._while,
    ast.With: Interpreter._with,
}
