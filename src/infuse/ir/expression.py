"""Operator expressions: `0.5 * x * (1 + ops.erf(x))` as data, read as a pattern or built into
nodes.

A `Call` names an operator, its operands and the attributes that are given; operands are values,
numbers, arrays, pattern variables or further calls. Python's operators make the calls that ONNX has
for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Expression:
    """Anything that Python's operators combine into calls."""

    __slots__ = ()
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Call:
        return Call("Add", (self, other))

    def __radd__(self, other: Any) -> Call:
        return Call("Add", (other, self))

    def __sub__(self, other: Any) -> Call:
        return Call("Sub", (self, other))

    def __rsub__(self, other: Any) -> Call:
        return Call("Sub", (other, self))

    def __mul__(self, other: Any) -> Call:
        return Call("Mul", (self, other))

    def __rmul__(self, other: Any) -> Call:
        return Call("Mul", (other, self))

    def __truediv__(self, other: Any) -> Call:
        return Call("Div", (self, other))

    def __rtruediv__(self, other: Any) -> Call:
        return Call("Div", (other, self))

    def __pow__(self, other: Any) -> Call:
        return Call("Pow", (self, other))

    def __matmul__(self, other: Any) -> Call:
        return Call("MatMul", (self, other))

    def __neg__(self) -> Call:
        return Call("Neg", (self,))


class Call(Expression):
    """Output `output` of operator `kind` applied to `args`; attributes that are not given are free
    (in a pattern) or defaults (in a build). `label` names the matched node for `when` and `build`.
    """

    __slots__ = ("args", "attributes", "domain", "kind", "label", "output", "root")

    def __init__(
        self,
        kind: str,
        args: tuple[Any, ...],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        label: str = "",
        output: int = 0,
        root: Call | None = None,
    ) -> None:
        self.kind, self.domain = kind, domain
        self.args = args
        self.attributes = dict(attributes or {})
        self.label = label
        self.output = output
        self.root = root or self

    def __getitem__(self, output: int) -> Call:
        """Another output of the same operation."""
        return Call(
            self.kind,
            self.args,
            self.attributes,
            domain=self.domain,
            label=self.label,
            output=output,
            root=self.root,
        )

    def __iter__(self) -> Any:
        raise TypeError("an operator call is not a sequence; take its outputs by index")

    def __repr__(self) -> str:
        arguments = [
            str(a) if isinstance(a, (Call, Variable, OneOf, int, float)) else "…" for a in self.args
        ]
        arguments += [f"{k}={v}" for k, v in self.attributes.items()]
        return f"{self.kind}({', '.join(arguments)})"


class Variable(Expression):
    """A pattern variable: stands for any value, the same value wherever it occurs.

    `optional` also matches an absent input (None); `variadic` takes all remaining inputs as a
    tuple; `constant` only matches constants.
    """

    __slots__ = ("constant", "name", "optional", "variadic")

    def __init__(
        self, name: str, *, optional: bool = False, variadic: bool = False, constant: bool = False
    ) -> None:
        self.name = name
        self.optional, self.variadic, self.constant = optional, variadic, constant

    def __repr__(self) -> str:
        return self.name


class OneOf(Expression):
    """The first of several patterns that matches."""

    __slots__ = ("_by_kind", "choices")

    def __init__(self, *choices: Any) -> None:
        self.choices = choices
        self._by_kind: dict[str | None, tuple[Any, ...]] = {}

    def of_kind(self, kind: str | None) -> tuple[Any, ...]:
        """The choices that a result of an operator of this kind may be, or that of none."""
        if kind not in self._by_kind:
            self._by_kind[kind] = tuple(
                [c for c in self.choices if not isinstance(c, Call) or c.kind == kind]
            )
        return self._by_kind[kind]

    def __repr__(self) -> str:
        return " | ".join(map(str, self.choices))


def maybe(variable: Variable) -> Variable:
    """The same variable, which also matches an absent input."""
    return Variable(variable.name, optional=True, constant=variable.constant)


def const(variable: Variable) -> Variable:
    """The same variable, for constants only."""
    return Variable(variable.name, optional=variable.optional, constant=True)


def rest(variable: Variable) -> Variable:
    """The same variable, taking all remaining inputs."""
    return Variable(variable.name, variadic=True)


def one_of(*choices: Any) -> OneOf:
    """The first of several patterns that matches."""
    return OneOf(*choices)
