"""Follows a program of TorchScript: what is certain is carried out, the rest becomes nodes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from infuse import dtypes
from infuse.budgets import check_time, spend
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.torchscript import numbers, primitives
from infuse.frontends.torchscript.archive import ScriptFile, dotted
from infuse.frontends.torchscript.importer import ScriptImporter
from infuse.frontends.torchscript.journal import Journal
from infuse.frontends.torchscript.kinds import is_instance
from infuse.frontends.torchscript.modules import Modules
from infuse.frontends.torchscript.values import (
    UNSET,
    Callee,
    Cell,
    Dict,
    List,
    Named,
    Object,
    Tensor,
    Undecided,
)
from infuse.ir.graph import Value

_DEEPEST: Final = 60
"""Calls inside of calls."""
_SPACES: Final = ("torch", "ops", "__torch__", "CONSTANTS")
_NAMES: Final[Mapping[str, Any]] = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf)}
Frame = dict[str, Any]


class Raised(Exception):
    """The program raises an error wherever this place is reached."""


class Interpreter:
    """Follows functions in one graph. `control` carries out what nodes decide: branches and loops
    (`control.Control`).
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
                raise _unread(statement)
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
                raise _unread(target)
            self._load(thing, target.attr)
            self.touch(thing)
            thing.fields[target.attr] = value
        else:
            raise _unread(target)

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
            raise _unread(statement)
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

    # -- expressions -------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        """What an expression stands for."""
        step = _EXPRESSIONS.get(type(node))
        if step is None:
            raise _unread(node)
        return step(self, node, frame)

    def number(self, value: Any) -> Any:
        """A number, that of a tensor's only element where it is one."""
        if isinstance(value, Undecided):
            raise UnsupportedOperatorError(f"a value cannot be told: {value.reason}")
        if isinstance(value, Tensor):
            return primitives.item(self, value)
        if not numbers.is_number(value):
            raise ModelFileError("a number is needed where there is none")
        return value

    def _name(self, node: ast.Name, frame: Frame) -> Any:
        if node.id in frame:
            return frame[node.id]
        if node.id in _NAMES:
            return _NAMES[node.id]
        raise ModelFileError(f"the name {node.id!r} has no value")

    def _constant(self, node: ast.Constant, frame: Frame) -> Any:
        return node.value

    def _list(self, node: ast.List, frame: Frame) -> Any:
        return List(self.evaluate(e, frame) for e in node.elts)

    def _tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        return tuple(self.evaluate(e, frame) for e in node.elts)

    def _dict(self, node: ast.Dict, frame: Frame) -> Any:
        made = Dict()
        for key, value in zip(node.keys, node.values):
            if key is None:
                raise _unread(node)
            made[self.evaluate(key, frame)] = self.evaluate(value, frame)
        return made

    def _negative(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.evaluate(node.operand, frame)
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float, complex)):
            return -value
        raise _unread(node)

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        thing = self.evaluate(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            edges = (node.slice.lower, node.slice.upper)
            start, end = (None if e is None else self.evaluate(e, frame) for e in edges)
            return primitives.apply(self, "slice", [thing, start, end], {})
        return primitives.apply(self, "__getitem__", [thing, self.evaluate(node.slice, frame)], {})

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        name = dotted(node)
        root = name.partition(".")[0]
        if root == "CONSTANTS" and root not in frame:
            return self.modules.constant(name)
        if root == "__torch__" and root not in frame:
            return Callee(name)
        return self.attribute(self.evaluate(node.value, frame), node.attr)

    def attribute(self, thing: Any, name: str) -> Any:
        """A field of an object or of a NamedTuple."""
        if isinstance(thing, Named):
            if name not in thing.names:
                raise ModelFileError(f"{thing.kind} has no field {name!r}")
            return thing[thing.names.index(name)]
        if not isinstance(thing, Object):
            raise ModelFileError(f"{name!r} is read of what is no object")
        return self.modules.field(thing, name)

    def _call(self, node: ast.Call, frame: Frame) -> Any:
        name = dotted(node.func)
        root = name.partition(".")[0]
        if isinstance(node.func, ast.Name) and name not in frame:
            return self._builtin(name, node, frame)
        if root in _SPACES and root not in frame:
            return self._named_call(name, node, frame)
        arguments, options = self._arguments(node, frame)
        if isinstance(node.func, ast.Attribute):
            thing = self.evaluate(node.func.value, frame)
            if isinstance(thing, Object):
                if not thing.path and node.func.attr == "__init__":
                    if self.file.method(thing.kind, "__init__") is None:
                        return None
                return self.call_method(thing, node.func.attr, arguments, options)
            raise ModelFileError(f"the method {node.func.attr!r} is called of what is no object")
        callee = self.evaluate(node.func, frame)
        if not isinstance(callee, Callee):
            raise ModelFileError("what is called is no function")
        return self._function(callee.name, arguments, options)

    def _arguments(self, node: ast.Call, frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        arguments = [self.evaluate(a, frame) for a in node.args]
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _unread(node)
            options[keyword.arg] = self.evaluate(keyword.value, frame)
        return arguments, options

    def _named_call(self, name: str, node: ast.Call, frame: Frame) -> Any:
        space, _, rest = name.partition(".")
        if name == "ops.prim.RaiseException":
            raise Raised(ast.unparse(node)[:200])
        arguments, options = self._arguments(node, frame)
        if space == "__torch__":
            return self._function(name, arguments, options)
        called = rest.removeprefix("aten.").removeprefix("prim.") if space == "ops" else rest
        where = f"torch.{called}" if space == "torch" else name
        try:
            return primitives.apply(self, called, arguments, options)
        except InfuseError as error:
            if where not in (error.where or ""):
                error.within(where)
            raise

    def _function(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if name.endswith(".__new__"):
            return Object(name.removesuffix(".__new__"))
        definition = self.file.definition(name)
        if isinstance(definition, ast.FunctionDef):
            return self.call(definition, arguments, options)
        if isinstance(definition, ast.ClassDef):
            names = tuple(
                e.target.id
                for e in definition.body
                if isinstance(e, ast.AnnAssign) and isinstance(e.target, ast.Name)
            )
            bases = [dotted(base) for base in definition.bases]
            if bases == ["NamedTuple"] and len(names) == len(arguments):
                return Named.of(name, names, arguments)
        raise UnsupportedOperatorError(f"{name} is called, which the file has no code of")

    def _builtin(self, name: str, node: ast.Call, frame: Frame) -> Any:
        if name == "uninitialized":
            return UNSET
        if name in ("annotate", "unchecked_cast") and len(node.args) == 2:
            return self.evaluate(node.args[1], frame)
        if name == "isinstance" and len(node.args) == 2:
            return is_instance(self.g, self.evaluate(node.args[0], frame), node.args[1])
        arguments, _ = self._arguments(node, frame)
        if name in ("bool", "int", "float") and len(arguments) == 1:
            convert = {"bool": numbers.as_bool, "int": numbers.as_int, "float": numbers.as_float}
            if isinstance(arguments[0], str):
                return {"bool": bool, "int": int, "float": float}[name](arguments[0])
            return convert[name](self.g, self.number(arguments[0]))
        if name == "getattr" and len(arguments) == 2 and isinstance(arguments[1], str):
            return self.attribute(*arguments)
        if name == "print":
            return None
        if name in ("str", "ord", "list", "dict", "hash"):
            return primitives.apply(self, name, arguments, {})
        raise UnsupportedOperatorError(f"the function {name!r} of TorchScript is not known")


def _unread(node: ast.AST) -> UnsupportedOperatorError:
    text = ast.unparse(node)[:80] if isinstance(node, (ast.expr, ast.stmt)) else ""
    return UnsupportedOperatorError(f"the form {type(node).__name__} ({text!r}) is not read")


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
_EXPRESSIONS: Final[Mapping[type, Callable[[Any, Any, Frame], Any]]] = {
    ast.Attribute: Interpreter._attribute,
    ast.Call: Interpreter._call,
    ast.Constant: Interpreter._constant,
    ast.Dict: Interpreter._dict,
    ast.List: Interpreter._list,
    ast.Name: Interpreter._name,
    ast.Subscript: Interpreter._subscript,
    ast.Tuple: Interpreter._tuple,
    ast.UnaryOp: Interpreter._negative,
}
