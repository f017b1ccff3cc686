"""A program of Paddle, old or new, in one form: inputs, parameters, operators under the names of
PIR, results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from infuse.dtypes import DType
from infuse.ir.graph import Array

Reference = str | int
"""What names a tensor: text before PIR, a number in it."""


@dataclass(frozen=True)
class Input:
    """An input of a program; a size of -1 is not fixed."""

    name: str
    reference: Reference
    dtype: DType
    shape: Sequence[int]


@dataclass(eq=False)
class PaddleOperator:
    """A call of an operator: references by the names of operands and results.

    `listed` are results that are lists of tensors under one reference; `replaced` is the operand in
    whose place the first result is written.
    """

    name: str
    number: int
    operands: dict[str, list[Reference]]
    results: dict[str, list[Reference]]
    attributes: dict[str, Any]
    regions: list[PaddleRegion] = field(default_factory=list)
    listed: frozenset[str] = frozenset()
    path: tuple[str, ...] = ()
    replaced: Reference | None = None


@dataclass(eq=False)
class PaddleRegion:
    """Operators, the arguments that they get, and the results that they give."""

    operators: list[PaddleOperator]
    arguments: list[Reference] = field(default_factory=list)
    results: list[Reference] = field(default_factory=list)


@dataclass(eq=False)
class Program:
    """A whole program; `results` are outputs by their names."""

    region: PaddleRegion
    inputs: list[Input]
    results: list[tuple[str, Reference]]
    parameters: dict[Reference, tuple[str, Array]]


def all_operators(region: PaddleRegion) -> Iterator[PaddleOperator]:
    """The operators of a region, and of those inside, every region once."""
    left, seen = [region], {id(region)}
    while left:
        for operator in left.pop().operators:
            yield operator
            for inner in operator.regions:
                if id(inner) not in seen:
                    seen.add(id(inner))
                    left.append(inner)
