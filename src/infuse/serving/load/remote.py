"""What a load generator knows of a server: a model's inputs and outputs, and how requests fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Literal, Protocol

from infuse.errors import (
    AccessError,
    InfuseError,
    NotFoundError,
    RequestError,
    UnavailableError,
)
from infuse.serving.datatypes import BYTES, NUMPY
from infuse.serving.messages import Tensor

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


class Failure(Exception):
    """A request that has no right answer: in words (`kind`, `text`), and why."""

    def __init__(self, kind: str, text: str, cause: Cause) -> None:
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


def described(name: str, metadata: Any) -> RemoteModel:
    """The model of a metadata message: plain data of JSON, or a message of gRPC as such. Failure
    where they are none.
    """
    try:
        inputs, outputs = (
            tuple(
                Port(str(p["name"]), str(p["datatype"]), tuple(map(int, p["shape"])))
                for p in metadata[kind]
            )
            for kind in ("inputs", "outputs")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise wrong_answer(f"its metadata are none of the protocol: {error!r}") from error
    if not inputs or not outputs:
        raise wrong_answer("its metadata name no inputs or no outputs")
    return RemoteModel(name, inputs, outputs)


def _listed(ports: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({datatype})" for name, datatype in ports.items()) or "none"
