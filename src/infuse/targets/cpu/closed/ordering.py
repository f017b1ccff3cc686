"""One order for elementwise work that differs in the order of operands alone: `x + y` and `y + x`
are one function of a library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infuse.immutable import replace
from infuse.lowering.elementwise import Applied, Elementwise, Place, Scalar, Source
from infuse.ops.core.formula import Term

_NUMBER: Final = "9"
_SYMMETRIC: Final = ("add", "mul")


def in_order(work: Elementwise) -> Elementwise:
    """The same work, with operands of sums and products in an order that does not depend on names,
    and definitions in the order of their use.
    """
    return _Order(work).work()


class _Order:
    """Reads definitions from what is stored and given back."""

    def __init__(self, work: Elementwise) -> None:
        self._work = work
        self._forms: dict[Source, str] = {}
        self._numbers: dict[int, int] = {}
        self._definitions: list[Place | Applied | Scalar] = []

    def work(self) -> Elementwise:
        """All of it."""
        work = self._work
        stores = tuple(replace(store, source=self._visit(store.source)) for store in work.stores)
        result = None if work.result is None else self._visit(work.result)
        for number in range(len(work.definitions)):
            self._visit(number)
        definitions = tuple(self._definitions)
        return replace(work, definitions=definitions, stores=stores, result=result)

    def _visit(self, source: Source) -> Source:
        """The number of a definition in the new order, after those that it reads."""
        if isinstance(source, str):
            return source
        if source not in self._numbers:
            definition = self._work.definitions[source]
            if isinstance(definition, Applied):
                definition = self._applied(definition)
            self._numbers[source] = len(self._definitions)
            self._definitions.append(definition)
        return self._numbers[source]

    def _applied(self, applied: Applied) -> Applied:
        term = self._sorted(applied.term, applied.leaves)
        return Applied(term, {n: self._visit(applied.leaves[n]) for n in _inputs(term)})

    def _sorted(self, term: Term, leaves: Mapping[int, Source]) -> Term:
        if not term.args:
            return term
        args = [self._sorted(arg, leaves) for arg in term.args]
        if term.op in _SYMMETRIC:
            args.sort(key=lambda arg: self._rank(arg, leaves))
        return replace(term, args=tuple(args))

    def _rank(self, term: Term, leaves: Mapping[int, Source]) -> tuple[bool, int, str]:
        """What operands are ordered by: numbers are last, so that an activation reads the same
        behind whatever it follows.
        """
        form = self._term_form(term, leaves)
        return form.startswith(_NUMBER), len(form), form

    def _form(self, source: Source) -> str:
        """What a source is, whatever the names in it."""
        if isinstance(source, str):
            return "0"
        if source not in self._forms:
            match self._work.definitions[source]:
                case Applied(term, leaves):
                    self._forms[source] = self._term_form(term, leaves)
                case Place(_, rows, column, dtype):
                    steps = [(row.below == 1, row.size is None, row.stride == "1") for row in rows]
                    self._forms[source] = (
                        f"1 {column if column in ('', '1') else 'n'} {steps} {dtype}"
                    )
                case Scalar():
                    self._forms[source] = _NUMBER
        return self._forms[source]

    def _term_form(self, term: Term, leaves: Mapping[int, Source]) -> str:
        if term.op == "input":
            return self._form(leaves[term.value])
        if term.op == "const":
            return f"{_NUMBER} {term.value}"
        inner = [self._term_form(arg, leaves) for arg in term.args]
        if term.op in _SYMMETRIC:
            inner.sort()
        return f"5 {term.op} {term.dtype} ({', '.join(inner)})"


def _inputs(term: Term) -> dict[int, None]:
    """The numbers of the leaves of a term, in the order in which it reads them."""
    if term.op == "input":
        return {term.value: None}
    return {number: None for arg in term.args for number in _inputs(arg)}
