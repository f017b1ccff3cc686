"""What libraries of boosted trees make of the sums of votes."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer


def squeezed(g: Importer, x: Value) -> Value:
    """A vector of a matrix of one column."""
    return g("Squeeze", x, g.ints(1))


def sigmoid(g: Importer, x: Value) -> Value:
    """1 / (1 + exp(-x)): the sum is not to lose small numbers."""
    return g("Sigmoid", x)


def best(g: Importer, x: Value) -> Value:
    """The number of the first of the largest columns of each row."""
    return g("ArgMax", x, axis=1, keepdims=0)


def signed_square(g: Importer, x: Value) -> Value:
    """The square with the number's sign."""
    return g("Mul", x, g("Abs", x))


def beside(g: Importer, only: Value) -> Value:
    """Both probabilities of two classes, from that of the second."""
    column = g("Unsqueeze", only, g.ints(1)) if only.rank == 1 else only
    return g("Concat", g("Sub", 1.0, column), column, axis=1)


def labels(g: Importer, places: Value, names: list[int] | list[str]) -> Value:
    """Class labels by their places."""
    if all(isinstance(name, str) for name in names):
        return g("Gather", g.constant(names, dtype=dtypes.string), places)
    return g("Gather", g.constant(names, dtype=dtypes.int64), places)
