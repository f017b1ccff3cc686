"""What inference relies on that sizes have to be: equal, or not larger. A run checks what types do
not prove.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim


class Relation(Immutable):
    """`a kind b`, where kind is one of ==, <=, < and ~: equal, or one of them 1."""

    kind: str
    a: Dim
    b: Dim

    @property
    def symbols(self) -> set[str]:
        """The names of its symbols."""
        return dims.symbols(self.a) | dims.symbols(self.b)

    def substitute(self, values: Mapping[str, Dim]) -> Relation:
        """The same with the named symbols replaced."""
        return Relation(self.kind, dims.substitute(self.a, values), dims.substitute(self.b, values))

    def __str__(self) -> str:
        """As a reader says it: n = min(512, n) is n <= 512."""
        if self.kind == "==":
            for one, other in ((self.a, self.b), (self.b, self.a)):
                limit = dims.limit_of(one, other)
                if limit is not None:
                    return f"{one} {limit[0]} {limit[1]}"
        if self.kind == "~":
            ones = " or ".join(f"{d} = 1" for d in (self.a, self.b) if isinstance(d, dims.Expr))
            return f"{self.a} = {self.b} or {ones}"
        return f"{self.a} {'=' if self.kind == '==' else self.kind} {self.b}"


_COLLECTED: ContextVar[list[Relation] | None] = ContextVar("collected", default=None)


def must_hold(a: Dim, kind: str, b: Dim) -> bool:
    """State that two sizes have to be in a relation, ==, <= or ~: False when they cannot be; where
    it depends on the symbols' values it is taken for granted, and noted for whoever collects
    `relations`.
    """
    verdict = dims.broadcasts(a, b) if kind == "~" else dims.compare(kind, a, b)
    collected = _COLLECTED.get()
    if verdict is None and collected is not None:
        collected.append(Relation(kind, a, b))
    return verdict is not False


def must_equal(a: Dim, b: Dim) -> bool:
    """State that two sizes have to be equal (see `must_hold`)."""
    return must_hold(a, "==", b)


@contextmanager
def relations() -> Iterator[list[Relation]]:
    """Collect what inference inside this context takes for granted: a run must check it."""
    collected: list[Relation] = []
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)
