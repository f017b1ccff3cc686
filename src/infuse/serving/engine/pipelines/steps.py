"""What the built-in steps have in common: their contract, their options, their files, and lists of
bytes.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Generic, TypeVar

import msgspec
import numpy as np

from infuse.errors import ConfigurationError, InfuseError, RequestError
from infuse.runtime.session import Array
from infuse.serving.control.reading import convert
from infuse.serving.engine.pipelines.ports import Port
from infuse.serving.messages import JsonObject

_T = TypeVar("_T")


class Options(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Options of a built-in step; an unknown one is an error that names it."""


_O = TypeVar("_O", bound=Options)


@dataclass(frozen=True)
class Place:
    """Where a built-in step stands: `where` for messages, and the folders that its files are looked
    for in.
    """

    where: str
    folders: Sequence[Path] = ()

    def fail(self, what: str, hint: str | None = None) -> ConfigurationError:
        return ConfigurationError(what, where=self.where, hint=hint)

    def find(self, name: str) -> Path:
        """A file of the model's folder; names that lead out of it are refused."""
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise self.fail(f"'{name}' is not a name of a file in the model's folder")
        for folder in self.folders:
            if (folder / path).is_file():
                return folder / path
        places = ", ".join(folder.name for folder in self.folders) or "no folder"
        raise self.fail(
            f"there is no file '{name}' (looked in {places})", "put it beside the model's versions"
        )

    def need(self, module: str, wheel: str) -> ModuleType:
        """An optional module; without it, an error that says what to install."""
        try:
            return importlib.import_module(module)
        except ImportError as error:
            advice = f"pip install {wheel}"
            raise self.fail(f"the module '{module}' is not installed", advice) from error


class Builtin(ABC, Generic[_O]):
    """A step that is no model. `inputs` and `outputs` follow from the options; `run` is called from
    many threads.

    A subclass has `kind`, the type of its options, and does in `prepare` what costs time: reading
    files, tables.
    """

    kind: type[_O]
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    def __init__(self, options: JsonObject, place: Place) -> None:
        self.prepare(convert(self.kind, dict(options), place.where), place)

    @abstractmethod
    def prepare(self, options: _O, place: Place) -> None:
        """Check the options and set the ports; ConfigurationError when they have no meaning."""

    @abstractmethod
    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        """Compute at least the wanted outputs. InfuseErrors name the input and the element that is
        to blame.
        """


def elements(data: Array, name: str) -> list[bytes]:
    """The elements of a BYTES input that holds one per row: of shape [n], [n, 1] or [] (one)."""
    if data.ndim > 2 or (data.ndim == 2 and data.shape[1] != 1):
        raise RequestError(
            f"input '{name}' has one element per row, so shape [n] or [n, 1], not "
            f"{list(data.shape)}"
        )
    items = data.reshape(-1).tolist()
    for number, part in enumerate(items):
        if not isinstance(part, bytes | str):
            raise RequestError(
                f"it is not bytes but {type(part).__name__}",
                where=f"element {number} of input '{name}'",
            )
    return [part.encode() if isinstance(part, str) else part for part in items]


def of_each(items: Sequence[bytes], name: str, do: Callable[[bytes], _T]) -> list[_T]:
    """`do` of every element; its errors say which element it was."""
    results: list[_T] = []
    for number, item in enumerate(items):
        try:
            results.append(do(item))
        except InfuseError as error:
            error.within(f"element {number} of input '{name}'")
            raise
    return results


def objects(parts: Sequence[bytes], shape: Sequence[int]) -> Array:
    """A BYTES tensor of these elements."""
    result = np.empty(len(parts), dtype=object)
    result[:] = parts
    return result.reshape(tuple(shape))
