"""The equalities that a search tries, by what they are about."""

from infuse.search.equalities import chains, factors, linear, movement, pointwise  # noqa: F401  (each registers its equalities)
from infuse.search.equalities.base import EQUALITIES, Equal, Equality

__all__ = ["EQUALITIES", "Equal", "Equality"]
