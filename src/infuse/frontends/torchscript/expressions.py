"""What expressions of TorchScript stand for."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.pickles import Member
from infuse.frontends.torchscript import numbers, primitives, tensors
from infuse.frontends.torchscript.archive import ScriptFile, dotted
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
from infuse.tracing.aten.scripting import ScriptImporter

_SPACES: Final = ("torch", "ops", "__torch__", "CONSTANTS")
_NAMES: Final[Mapping[str, Any]] = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf)}
Frame = dict[str, Any]


class Raised(Exception):
    """The program raises an error wherever this place is reached."""


class Evaluator(ABC):
    """Evaluates expressions; calls of functions of the program are carried out by a subclass."""

    file: ScriptFile
    g: ScriptImporter
    modules: Modules

    @abstractmethod
    def touch(self, thing: Cell | Object | List | Dict) -> None:
        """Note that a thing is about to change."""

    @abstractmethod
    def call(
        self, function: ast.FunctionDef, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """The result of a function of the program."""

    @abstractmethod
    def call_method(
        self, thing: Object, name: str, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """The result of a method of an object."""

    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        """What an expression stands for."""
        step = _EXPRESSIONS.get(type(node))
        if step is None:
            raise unread(node)
        return step(self, node, frame)

    def number(self, value: Any) -> Any:
        """A number, that of a tensor's only element where it is one."""
        if isinstance(value, Undecided):
            raise UnsupportedOperatorError(f"a value cannot be told: {value.reason}")
        if isinstance(value, Tensor):
            return tensors.item(self, value)
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
                raise unread(node)
            made[self.evaluate(key, frame)] = self.evaluate(value, frame)
        return made

    def _negative(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.evaluate(node.operand, frame)
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float, complex)):
            return -value
        raise unread(node)

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
            return self._member(name) or Callee(name)
        return self.attribute(self.evaluate(node.value, frame), node.attr)

    def _member(self, name: str) -> Member | None:
        """The member of an enumeration of this qualified name; None where there is none."""
        kind, _, last = name.rpartition(".")
        definition = self.file.definition(kind)
        if not isinstance(definition, ast.ClassDef) or not any(
            dotted(base) == "Enum" for base in definition.bases
        ):
            return None
        for entry in definition.body:
            if isinstance(entry, ast.Assign) and dotted(entry.targets[0]) == last:
                return Member(kind, self.evaluate(entry.value, {}))
        return None

    def attribute(self, thing: Any, name: str) -> Any:
        """A field of an object or of a NamedTuple."""
        if isinstance(thing, Named):
            if name not in thing.names:
                raise ModelFileError(f"{thing.kind} has no field {name!r}")
            return thing[thing.names.index(name)]
        if not isinstance(thing, Object):
            raise ModelFileError(f"{name!r} is read of what is not an object")
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
                is_new = not thing.path and node.func.attr == "__init__"
                if is_new and self.file.method(thing.kind, "__init__") is None:
                    return None
                return self.call_method(thing, node.func.attr, arguments, options)
            raise ModelFileError(
                f"the method {node.func.attr!r} is called of what is not an object"
            )
        callee = self.evaluate(node.func, frame)
        if not isinstance(callee, Callee):
            raise ModelFileError("what is called is not a function")
        return self._function(callee.name, arguments, options)

    def _arguments(self, node: ast.Call, frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        arguments = [self.evaluate(a, frame) for a in node.args]
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise unread(node)
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


def unread(node: ast.AST) -> UnsupportedOperatorError:
    """The error for a form of Python that is not read."""
    text = ast.unparse(node)[:80] if isinstance(node, (ast.expr, ast.stmt)) else ""
    return UnsupportedOperatorError(f"the form {type(node).__name__} ({text!r}) is not read")


_EXPRESSIONS: Final[Mapping[type, Callable[[Any, Any, Frame], Any]]] = {
    ast.Attribute: Evaluator._attribute,
    ast.Call: Evaluator._call,
    ast.Constant: Evaluator._constant,
    ast.Dict: Evaluator._dict,
    ast.List: Evaluator._list,
    ast.Name: Evaluator._name,
    ast.Subscript: Evaluator._subscript,
    ast.Tuple: Evaluator._tuple,
    ast.UnaryOp: Evaluator._negative,
}
