"""Files with contents that nothing writes: what they make Python raise, as one error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from infuse.errors import InfuseError, ModelFileError

_MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading impossible contents may raise."""


@contextmanager
def wellformed(where: str, what: str, hint: str) -> Iterator[None]:
    """Within, what impossible contents raise becomes a ModelFileError with this hint; errors say
    where.
    """
    try:
        yield
    except InfuseError as error:
        if not (error.where or "").startswith(where):
            error.within(where)
        raise
    except RecursionError as error:
        raise ModelFileError(f"{what} is nested too deeply", where=where) from error
    except KeyError as error:
        raise ModelFileError(f"{what} has no {error}", where=where, hint=hint) from error
    except _MALFORMED as error:
        raise ModelFileError(
            f"{what} is not well formed: {type(error).__name__}: {error}", where=where, hint=hint
        ) from error
