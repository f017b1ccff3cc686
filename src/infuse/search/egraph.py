"""An e-graph: classes of terms that are equal, closed under "equal operands give equal results".

Terms are shared by hashing, classes joined by union-find; `rebuild` restores the closure after
unions (Willsey et al., "egg: Fast and Extensible Equality Saturation", POPL 2021). Everything
happens in the order in which it was added, so that the same input gives the same graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from infuse.dtypes import DType
from infuse.ir.graph import Array, constant
from infuse.ir.types import Shape, TensorType
from infuse.search.terms import Expression, Head, Leaf, Term, result_type


@dataclass(frozen=True)
class Reason:
    """Why a term is there: an equality, and the terms that it looked at."""

    equality: str
    premises: tuple[Term, ...]


@dataclass
class Class:
    """Terms that are equal, of one type; `parents` have it as an operand."""

    type: TensorType
    is_const: bool
    terms: dict[Term, None] = field(default_factory=dict)
    parents: dict[Term, int] = field(default_factory=dict)


class EGraph:
    """Classes by number. A number stays valid when classes are joined: `find` gives the class it
    belongs to now.
    """

    def __init__(self) -> None:
        self.classes: dict[int, Class] = {}
        self.reasons: dict[Term, Reason] = {}
        """How terms came in that an equality made; the others are as the model has them."""
        self.merged: dict[str, None] = {}
        """Equalities that have shown of two terms, both there before, that they are equal."""
        self.unions = 0
        self._leaders: list[int] = []
        self._known: dict[Term, int] = {}
        self._pending: list[int] = []
        self._constants: dict[tuple[bytes, str, Shape], int] = {}

    # -- reading -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of terms."""
        return len(self._known)

    def find(self, number: int) -> int:
        """The class to which a number belongs."""
        while self._leaders[number] != number:
            self._leaders[number] = self._leaders[self._leaders[number]]
            number = self._leaders[number]
        return number

    def __getitem__(self, number: int) -> Class:
        return self.classes[self.find(number)]

    def shape(self, number: int) -> Shape:
        sizes = self[number].type.shape
        assert sizes is not None
        return sizes

    def dtype(self, number: int) -> DType:
        return self[number].type.dtype

    def is_const(self, number: int) -> bool:
        return self[number].is_const

    def terms(self, number: int, *kinds: str) -> list[Term]:
        """The terms of a class of these kinds, all without any."""
        return [term for term in self[number].terms if not kinds or term.kind in kinds]

    def parents(self, number: int, *kinds: str) -> list[tuple[int, Term]]:
        """The terms of these kinds that have a class as an operand, with their own classes."""
        users = self[number].parents
        return [
            (self.find(at), self.canonical(term))
            for term, at in users.items()
            if not kinds or term.kind in kinds
        ]

    def canonical(self, term: Term) -> Term:
        """The term with its operands as they are numbered now."""
        args = tuple(map(self.find, term.args))
        return term if args == term.args else Term(term.head, args)

    def __contains__(self, term: Term) -> bool:
        return self.canonical(term) in self._known

    # -- writing -----------------------------------------------------------------------------------

    def add(self, head: Head, args: Sequence[int] = (), reason: Reason | None = None) -> int:
        """The class of a term; an InfuseError where its operands do not fit."""
        term = Term(head, tuple(map(self.find, args)))
        existing = self._known.get(term)
        if existing is not None:
            return self.find(existing)
        type = result_type(head, [self.classes[a].type for a in term.args])
        if isinstance(head, Leaf):
            is_const = head.value.is_const
        else:
            is_const = bool(term.args) and all(self.classes[a].is_const for a in term.args)
        number = len(self._leaders)
        self._leaders.append(number)
        self.classes[number] = Class(type, is_const, {term: None})
        self._known[term] = number
        if reason is not None:
            self.reasons[term] = reason
        for arg in term.args:
            self.classes[arg].parents[term] = number
        return number

    def build(self, expression: Expression, reason: Reason | None = None) -> int:
        """The class of an expression, all its terms added."""
        if isinstance(expression, int):
            return self.find(expression)
        return self.add(expression.head, [self.build(a, reason) for a in expression.args], reason)

    def constant(self, array: Array, dtype: DType) -> int:
        """The class of a constant that is not in the model; equal ones are one."""
        data = np.asarray(array, dtype=dtype.numpy)
        key = (data.tobytes(), str(data.dtype), data.shape)
        if key not in self._constants:
            self._constants[key] = self.add(Leaf(constant(data)))
        return self.find(self._constants[key])

    def union(self, a: int, b: int) -> bool:
        """Make two classes one; whether they were two. Call `rebuild` before reading again."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        first, second = min(a, b), max(a, b)
        merged, gone = self.classes[first], self.classes.pop(second)
        self._leaders[second] = first
        merged.is_const = merged.is_const or gone.is_const
        merged.terms.update(gone.terms)
        merged.parents.update(gone.parents)
        self._pending.append(first)
        self.unions += 1
        return True

    def rebuild(self) -> None:
        """Find the terms that unions have made equal, and join their classes, until there are
        none.
        """
        while self._pending:
            todo = dict.fromkeys(map(self.find, self._pending))
            self._pending = []
            for number in todo:
                self._repair(self.find(number))
        for each in self.classes.values():
            each.terms = dict.fromkeys(map(self.canonical, each.terms))

    def _repair(self, number: int) -> None:
        parents: dict[Term, int] = {}
        for term, at in list(self.classes[number].parents.items()):
            at = self._known.pop(term, at)
            fresh = self.canonical(term)
            if fresh != term and term in self.reasons:
                self.reasons.setdefault(fresh, self.reasons[term])
            elif fresh != term and fresh in self.reasons and term not in self.reasons:
                del self.reasons[fresh]
            other = self._known.get(fresh)
            if other is not None:
                self.union(at, other)
            self._known[fresh] = parents[fresh] = self.find(at)
        members = self[number]
        if self.find(number) == number:
            members.parents = parents
        else:
            members.parents.update(parents)

    # -- proofs ------------------------------------------------------------------------------------

    def proof(self, terms: Sequence[Term]) -> list[str]:
        """The names of the equalities by which these terms came in, and what those looked at, each
        once, first ones first.
        """
        names: dict[str, None] = {}
        seen: set[Term] = set()

        def walk(term: Term) -> None:
            if term in seen:
                return
            seen.add(term)
            reason = self.reasons.get(term) or self.reasons.get(self.canonical(term))
            if reason is not None:
                for premise in reason.premises:
                    walk(premise)
                names[reason.equality] = None

        for term in terms:
            walk(term)
        return list(names)
