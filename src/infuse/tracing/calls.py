"""What calls of foreign operators have in common, whatever format they stand in."""

from __future__ import annotations

from infuse.errors import UnsupportedOperatorError


class Call:
    """A call of a foreign operator, of which nodes are built."""

    def unsupported(self, what: str) -> UnsupportedOperatorError:
        """The error for a form of the operator that has no translation."""
        return UnsupportedOperatorError(f"{what} is not supported")


def words(text: str) -> tuple[str, ...]:
    """The words of a text: a list of names as a table has them."""
    return tuple(text.split())
