"""A rewrite rule: `match` says what to look for, `when` what must hold, `build` what stands there
afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import FunctionType, MethodType
from typing import Any, ClassVar, NamedTuple

from infuse.errors import RuleError
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, Node
from infuse.rewrite.record import ABOUT, Report, unwrapped


class Parameter(NamedTuple):
    """What a function of a rule asks for: a name, and what stands for it where a pattern does not
    bind it.
    """

    name: str
    default: Any


class Refusal(Exception):
    """A rule's statement that it does not apply here, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def require(condition: object, reason: str) -> None:
    """Refuse with this reason unless the condition holds."""
    if not condition:
        raise Refusal(reason)


class Rule:
    """A local rewrite.

    `match` gets one pattern variable per parameter and returns a pattern (or a list of spellings).
    `when` and `build` ask for what they need by parameter name: a variable's value, a node labelled
    with `name=` in the pattern, `root`; a parameter with a default may be left unbound by some
    spellings. `when` refuses through `require`; what it returns, the others may ask for as
    `analysis`, which saves them from working it out again. `build` returns the replacement of each
    output of the root: an expression or a value. `note`, where a rule has one, says of a rewrite
    what the report is to tell beside it: a cost, an error. `covers`, where a rule has one, returns
    the nodes that it replaces beyond those of the pattern, each before those that it reads. NumPy
    does not warn inside of them.

    The driver guarantees the rest: same types before and after, interior values have no other
    reader (unless `shares`), names and origins carried over, operands of commutative operators in
    any order.
    """

    level: ClassVar[str] = "basic"
    rows: ClassVar[tuple[str, ...]] = ()
    """Feature rows (docs/features.md) that this rule delivers."""
    shares: ClassVar[bool] = False
    """Whether matched nodes below the root may have other readers, and then stay for them."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Operators of which one has to make an operand of the root, where the pattern leaves open
    what does: the rule is not tried elsewhere. Empty for anything.
    """
    opt_in: ClassVar[bool] = False
    """Fires only when named in `only` or `enable`."""
    closing: ClassVar[bool] = False
    """Runs once, when the rules and passes of all levels have come to rest, and not at all for
    another runtime: nothing looks for what it builds.
    """
    runtime: ClassVar[str] = ""
    """The one runtime that has the operators it builds (onnxruntime); empty for rules that serve
    everybody.
    """
    rounding: ClassVar[str] = ""
    """Why floating results may differ in their last bits; empty where they are the same bit by bit.
    """
    error: float = 0.0
    """How far results may be off, relative to the largest, where a rule approximates; such a rule
    is `opt_in`, unless what it builds is the more exact of the two.
    """
    examples: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Operands for the generated tests, by variable: a shape, or an array. Labels give attributes
    to their nodes.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        ABOUT[cls.__name__] = unwrapped(cls.__doc__)

    @property
    def name(self) -> str:
        return type(self).__name__

    def match(self, *variables: Any) -> Any:
        """The pattern."""
        raise RuleError(f"rule {self.name} has no match")

    def build(self, *bound: Any) -> Any:
        """The replacement."""
        raise RuleError(f"rule {self.name} has no build")

    @cached_property
    def patterns(self) -> tuple[Call, ...]:
        """The spellings that `match` returns."""
        variables = [Variable(parameter.name) for parameter in _parameters(self.match)]
        try:
            result = self.match(*variables)
        except RuleError:
            raise
        except Exception as error:
            raise RuleError(
                f"rule {self.name}: match failed: {type(error).__name__}: {error}"
            ) from error
        spellings = tuple(result) if isinstance(result, (list, tuple)) else (result,)
        for spelling in spellings:
            if not isinstance(spelling, Call):
                raise RuleError(
                    f"rule {self.name}: match must return operator calls, found {spelling!r}"
                )
        return spellings

    @cached_property
    def _functions(self) -> dict[str, tuple[Callable[..., Any], tuple[Parameter, ...]]]:
        functions = {
            name: getattr(self, name, None) for name in ("when", "build", "note", "covers")
        }
        return {name: (f, _parameters(f)) for name, f in functions.items() if f is not None}

    def _call(self, name: str, bound: Mapping[str, Any], default: Any = None) -> Any:
        entry = self._functions.get(name)
        if entry is None:
            return default
        function, parameters = entry
        return function(*[bound[p[0]] if p[0] in bound else self._default(p) for p in parameters])

    def check(self, bound: Mapping[str, Any]) -> Any:
        """Run `when`, for its analysis; Refusal when it does not hold. Warnings of NumPy are the
        caller's matter.
        """
        return self._call("when", bound)

    def replacement(self, bound: Mapping[str, Any]) -> tuple[Any, ...]:
        """Run `build`; one entry per output of the root. Warnings of NumPy are the caller's
        matter.
        """
        result = self._call("build", bound)
        return result if isinstance(result, tuple) else (result,)

    def remark(self, bound: Mapping[str, Any]) -> str:
        """Run `note`; empty where the rule has none."""
        return str(self._call("note", bound, ""))

    def covered(self, bound: Mapping[str, Any]) -> Sequence[Node]:
        """Run `covers`; nothing where the rule has none."""
        return tuple(self._call("covers", bound, ()))

    def _default(self, parameter: Parameter) -> Any:
        if parameter.default is inspect.Parameter.empty:
            raise RuleError(f"it asks for {parameter.name!r}, which its pattern does not bind")
        return parameter.default


def _parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    if _is_plain(function):
        code, defaults = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[1 : code.co_argcount]
        needed = [inspect.Parameter.empty] * (len(names) - len(defaults))
        return tuple(map(Parameter, names, (*needed, *defaults)))
    return tuple(
        Parameter(p.name, p.default) for p in inspect.signature(function).parameters.values()
    )


def _is_plain(function: Callable[..., Any]) -> bool:
    """Whether a method says all of its parameters itself, for which the general way takes long."""
    if not isinstance(function, MethodType) or not isinstance(function.__func__, FunctionType):
        return False
    code = function.__code__
    several = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return not (code.co_flags & several or code.co_kwonlyargcount or vars(function.__func__))


class Pass:
    """A global transformation of a graph; `requires` names passes that must have run before."""

    level: ClassVar[str] = "basic"
    rows: ClassVar[tuple[str, ...]] = ()
    opt_in: ClassVar[bool] = False
    """Runs only when named in `only` or `enable`."""
    runtime: ClassVar[str] = ""
    """The one runtime that has the operators it builds; empty for passes that serve everybody."""
    requires: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        ABOUT[cls.__name__] = unwrapped(cls.__doc__)

    @property
    def name(self) -> str:
        return type(self).__name__

    def run(self, graph: Graph, report: Report) -> None:
        """Transform `graph` in place, adding to `report` what was done."""
        raise RuleError(f"pass {self.name} has no run")
