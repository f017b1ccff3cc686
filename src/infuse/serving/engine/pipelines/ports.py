"""What a step takes and makes: names, element types and shapes, and whether two of them fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from infuse.errors import ConfigurationError, did_you_mean
from infuse.serving.control.model_config import TensorConfig
from infuse.serving.datatypes import NUMPY
from infuse.serving.messages import TensorMetadata

FLOATS: Final = frozenset({"FP16", "BF16", "FP32", "FP64"})
INTEGERS: Final = frozenset({"INT32", "INT64"})


@dataclass(frozen=True)
class Port:
    """An input or output of a step. Without `datatypes` it has any; without a `shape` any rank; -1
    is any size.
    """

    name: str
    datatypes: frozenset[str] = frozenset()
    shape: tuple[int, ...] | None = None
    optional: bool = False

    def __str__(self) -> str:
        types = " or ".join(sorted(self.datatypes)) or "any type"
        return types if self.shape is None else f"{types}{list(self.shape)}"

    def fits(self, other: Port) -> bool:
        """Whether a value that one of them makes may be one that the other takes."""
        if self.datatypes and other.datatypes and not self.datatypes & other.datatypes:
            return False
        if self.shape is None or other.shape is None:
            return True
        return shape_fits(self.shape, other.shape)


def shape_fits(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes may be the same; -1 is any size."""
    return len(one) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(one, other))


def declared(tensors: Iterable[TensorConfig], what: str, where: str) -> dict[str, Port]:
    """The inputs or outputs that a pipeline declares, by name."""
    ports: dict[str, Port] = {}
    for tensor in tensors:
        if tensor.datatype not in NUMPY:
            raise ConfigurationError(
                f"{what} '{tensor.name}' has no type of the protocol: '{tensor.datatype}'",
                where=where,
                hint=f"types are {', '.join(NUMPY)}",
            )
        if tensor.name in ports:
            raise ConfigurationError(f"{what} '{tensor.name}' is declared twice", where=where)
        if any(size < -1 for size in tensor.shape):
            raise ConfigurationError(
                f"{what} '{tensor.name}' has a negative size: {list(tensor.shape)}", where=where
            )
        ports[tensor.name] = Port(tensor.name, frozenset({tensor.datatype}), tensor.shape)
    return ports


def described(tensors: Iterable[TensorMetadata]) -> dict[str, Port]:
    """The inputs or outputs of a model, by name, from its metadata in the form of the protocol."""
    return {
        tensor["name"]: Port(
            tensor["name"],
            frozenset({tensor["datatype"]}),
            tuple(int(size) for size in tensor["shape"]),
        )
        for tensor in tensors
    }


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint: the one of `names` that is most like `name`, else all of them."""
    names = sorted(names)
    every = f"there are {', '.join(names)}" if names else "there are none"
    return did_you_mean(name, names, otherwise=every)
