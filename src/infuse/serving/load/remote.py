"""What a load generator knows of a server: a model's inputs and outputs, and how requests fail."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Literal, Protocol

from infuse.errors import (
    AccessError,
    InfuseError,
    NotFoundError,
    RequestError,
    UnavailableError,
)
from infuse.serving.datatypes import BYTES, NUMPY
from infuse.serving.messages import JSON, Tensor

Cause = Literal["connection", "timeout", "unknown", "access", "refused", "server", "wrong answer"]
_ERRORS: Final[Mapping[Cause, type[InfuseError]]] = {
    "unknown": NotFoundError,
    "access": AccessError,
    "refused": RequestError,
}
REFUSALS: Final = frozenset(_ERRORS)
"""Causes that every other request of the same kind would meet too."""
_HINTS: Final[Mapping[Cause, str]] = {
    "connection": "is a server there, and are port, scheme and certificates right?",
    "access": "the token is taken from $INFUSE_TOKEN, or from --token",
}


_MOST_PORTS: Final = 4096  # inputs, and outputs
_MOST_NAME: Final = 4096  # characters
_MOST_AXES: Final = 32  # that arrays of every NumPy have
_MOST_TEXT: Final = 2000
_MOST_LISTED: Final = 16


def printable(text: str, most: int = _MOST_TEXT) -> str:
    """A server's text for a terminal: cut, and escaped where it would do more than show."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


class Failure(Exception):
    """A request that has no right answer: in words (`kind`, `text`), and why."""

    def __init__(self, kind: str, text: str, cause: Cause) -> None:
        text = printable(text)
        super().__init__(f"{kind}: {text}")
        self.kind, self.text, self.cause = kind, text, cause

    def error(self, where: str) -> InfuseError:
        """The same for people who cannot go on."""
        kind = _ERRORS.get(self.cause, UnavailableError)
        return kind(str(self), where=where, hint=_HINTS.get(self.cause))


@dataclass(frozen=True)
class Port:
    """An input or output as the server's metadata have it; -1 in `shape` is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.datatype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class RemoteModel:
    """A model of a server, as its metadata have it."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def examples(self, feeds: Sequence[Tensor]) -> int:
        """Examples in a request: the size of the first axis where no input has it fixed and all
        have the same one, else 1.
        """
        free = {port.name for port in self.inputs if port.shape and port.shape[0] < 0}
        sizes = {tensor.shape[0] if tensor.shape else 0 for tensor in feeds}
        return sizes.pop() if len(sizes) == 1 and len(free) == len(self.inputs) else 1

    def check(self, answered: Sequence[tuple[str, str, Sequence[int], int | None]]) -> None:
        """Hold the outputs of an answer against those that are declared: name, datatype, shape and
        bytes (None: they are JSON) of each. Failure where they are others.
        """
        declared = {port.name: port.datatype for port in self.outputs}
        actual = {name: datatype for name, datatype, _, _ in answered}
        if declared != actual:
            raise wrong_answer(
                f"its outputs are {_listed(actual)}, declared are {_listed(declared)}"
            )
        for name, datatype, shape, size in answered:
            _check_axes(name, shape)
            if size is None or datatype == BYTES:
                continue
            least = prod(shape) * NUMPY[datatype].itemsize if datatype in NUMPY else size
            if size != least:
                what = f"output {name!r} of {datatype}{list(shape)} has {size} bytes, not {least}"
                raise wrong_answer(what)


class Call(Protocol):
    """A request that is made once and sent many times."""

    @property
    def size(self) -> int:
        """Bytes of its body."""

    async def send(self) -> int:
        """The bytes of the answer's body, which has the declared outputs; Failure where there is
        none.
        """


class Client(Protocol):
    """Connections to a model of a server."""

    async def describe(self) -> RemoteModel:
        """The model's metadata; Failure where the server does not tell them."""

    def call(self, model: RemoteModel, inputs: Sequence[Tensor]) -> Call:
        """A request with these inputs; InputError where they cannot be sent so."""

    async def close(self) -> None:
        """End all connections."""


def wrong_answer(text: str) -> Failure:
    """The failure of an answer that is not what the protocol or the model's metadata say."""
    return Failure("wrong answer", text, "wrong answer")


def described(name: str, metadata: JSON) -> RemoteModel:
    """The model of a metadata message: plain data of JSON, or a message of gRPC as such. Failure
    where they are none.
    """
    try:
        inputs, outputs = (_ports(metadata, kind) for kind in ("inputs", "outputs"))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise wrong_answer(f"its metadata are none of the protocol: {error!r}") from error
    if not inputs or not outputs:
        raise wrong_answer("its metadata name no inputs or no outputs")
    if max(len(inputs), len(outputs)) > _MOST_PORTS:
        raise wrong_answer(
            f"its metadata name {len(inputs)} inputs and {len(outputs)} outputs, and there may be "
            f"{_MOST_PORTS}"
        )
    return RemoteModel(name, inputs, outputs)


def _ports(metadata: JSON, kind: str) -> tuple[Port, ...]:
    """The inputs or outputs of metadata. KeyError, TypeError, ValueError where these are none."""
    if not isinstance(metadata, Mapping) or not isinstance(ports := metadata[kind], Sequence):
        raise TypeError(f"{kind} are no list")
    return tuple(map(_port, ports))


def _port(plain: JSON) -> Port:
    """An input or output of metadata. KeyError, TypeError, ValueError where it is none."""
    if not isinstance(plain, Mapping):
        raise TypeError(plain)
    name, datatype, sizes = plain["name"], plain["datatype"], plain["shape"]
    if not (isinstance(name, str) and isinstance(datatype, str) and isinstance(sizes, Sequence)):
        raise TypeError(name)
    shape = tuple(map(_size, sizes))
    if max(len(name), len(datatype)) > _MOST_NAME:
        raise ValueError("a name is too long")
    _check_axes(name, shape)
    if min(shape, default=0) < -1:
        raise ValueError(f"{printable(name)} has a size of {min(shape)}")
    return Port(name, datatype, shape)


def _size(plain: JSON) -> int:
    """A size of a shape: a number, or the text of one."""
    if not isinstance(plain, int | float | str):
        raise TypeError(plain)
    return int(plain)


def _check_axes(name: str, shape: Sequence[int]) -> None:
    """Failure where a shape has more axes than an array."""
    if len(shape) > _MOST_AXES:
        raise wrong_answer(
            f"{printable(name)} has {len(shape)} axes, and there may be {_MOST_AXES}"
        )


def _listed(ports: Mapping[str, str]) -> str:
    few = [
        f"{name} ({datatype})" for name, datatype in itertools.islice(ports.items(), _MOST_LISTED)
    ]
    more = [f"and {len(ports) - len(few)} more"] if len(ports) > len(few) else []
    return ", ".join(few + more) or "none"
