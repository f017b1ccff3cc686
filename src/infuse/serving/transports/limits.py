"""What a request may have besides the elements of its tensors, in whatever form it comes."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final, Protocol

from infuse.errors import RequestError, UnsupportedRequestError
from infuse.serving.messages import Parameter

MOST_TENSORS: Final = 4096
"""Inputs, or outputs, of one request."""
MOST_NAME: Final = 4096
"""Characters of the name of a tensor."""
MOST_PARAMETERS: Final = 4096
"""Parameters of one request, those of its tensors included."""
MOST_TEXT: Final = 1 << 16
"""Characters of a parameter that is a text."""
_INTEGERS: Final = range(-(1 << 63), 1 << 64)


class Named(Protocol):
    """An input or output of a message."""

    @property
    def name(self) -> str: ...


def check_names(kind: str, parts: Sequence[Named]) -> None:
    """RequestError for more inputs or outputs than one request may have, or longer names, before
    any is read.
    """
    if len(parts) > MOST_TENSORS:
        raise RequestError(
            f"the request has {len(parts)} {kind}s, at most {MOST_TENSORS} are taken"
        )
    for number, part in enumerate(parts):
        if len(part.name) > MOST_NAME:
            what = f"its name has {len(part.name)} characters, at most {MOST_NAME} are taken"
            raise RequestError(what, where=f"{kind} {number}")


def check_id(id: str) -> None:
    """RequestError for a longer id of a request than any caller needs."""
    if len(id) > MOST_NAME:
        raise RequestError(f"its id has {len(id)} characters, at most {MOST_NAME} are taken")


def check_parameters(several: Sequence[Mapping[str, Parameter]]) -> None:
    """RequestError for more or longer parameters, of a request and its tensors, than are taken."""
    count = sum(map(len, several))
    if count > MOST_PARAMETERS:
        raise RequestError(
            f"the request has {count} parameters, at most {MOST_PARAMETERS} are taken"
        )
    for parameters in several:
        for name, value in parameters.items():
            if len(name) > MOST_NAME:
                what = (
                    f"the name of a parameter has {len(name)} characters, at most {MOST_NAME} are "
                    "taken"
                )
                raise RequestError(what)
            if isinstance(value, str) and len(value) > MOST_TEXT:
                what = f"it has {len(value)} characters, at most {MOST_TEXT} are taken"
                raise RequestError(what, where=f"parameter {name[:100]!r}")
            if isinstance(value, int) and value not in _INTEGERS:
                raise RequestError("it has more than 64 bits", where=f"parameter {name[:100]!r}")


def refuse_shared_memory(parameters: Container[str], where: str) -> None:
    """UnsupportedRequestError when a tensor is said to lie in shared memory."""
    if "shared_memory_region" in parameters:
        raise UnsupportedRequestError(
            "shared memory between client and server is not supported",
            where=where,
            hint="send the tensor as binary data",
        )
