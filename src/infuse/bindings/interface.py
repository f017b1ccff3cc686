"""What a binding states of a compiled model, read off its folder and checked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infuse import dtypes
from infuse.errors import CompiledModelError, InfuseError, OptionError
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.options import PREFIX
from infuse.runtime.folder import (
    HEADER,
    LIBRARIES,
    METADATA,
    PROGRAM,
    STAGES,
    STATIC,
    WEIGHTS,
    read_metadata,
    verify,
)
from infuse.runtime.shapes import ShapeBinder, TensorSpec
from infuse.targets.text.example import parsed_size

_REBUILD: Final = "compile the model again"
_PREFIX: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SYMBOLS: Final = 1 << 16
"""Symbols that a model may have: files are strangers'."""


class Tensor(Immutable):
    """An input or a result of the library.

    `number`: which of them. `sizes`: numbers, and formulas of symbols. `offset`: where a frame has
    its description (inputs) or its sizes (results). `lists`: the number of the result that lists
    its sizes, where only a run finds out how many there are.
    """

    name: str
    number: int
    dtype: dtypes.DType
    shape: tuple[int | str, ...]
    sizes: tuple[dims.Dim, ...]
    offset: int
    late: bool = False
    optional: bool = False
    lists: int | None = None

    @property
    def rank(self) -> int:
        """How many sizes it has, as far as is known before a run."""
        return len(self.shape)

    @property
    def signature(self) -> str:
        """Element type and sizes, for people."""
        shape = "?" if self.lists is not None else ", ".join(map(str, self.shape))
        return f"{self.dtype.name}[{shape}]"


class Interface(Immutable):
    """A compiled model as bindings see it.

    `results`: all that the library gives; `outputs`: those that a caller gets. A frame is memory of
    `words` numbers of 64 bits: the description of every input (elements, axes, sizes), then at
    `symbols_at` the values of symbols, at `sizes_at` the sizes of all results, at `inputs_at` and
    `results_at` the addresses of arrays.
    """

    folder: Path
    metadata: dict[str, Any]
    prefix: str
    inputs: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    symbols: tuple[str, ...]

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What a caller gets: lists of sizes are put to use."""
        lists = {each.lists for each in self.results}
        return tuple(each for each in self.results if each.number not in lists)

    @property
    def id(self) -> int:
        """A number that other models do not have."""
        keys = ("inputs", "outputs", "symbols", "weights_hash", "prefix")
        text = json.dumps({key: self.metadata.get(key) for key in keys}, sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1

    @property
    def weights_bytes(self) -> int:
        """Bytes of the file of weights that a program needs; 0 where it needs none."""
        if self.metadata.get("embedded"):
            return 0
        return int(self.metadata["files"][WEIGHTS]["bytes"])

    @property
    def symbols_at(self) -> int:
        """Where a frame has the values of symbols."""
        return sum(2 + each.rank for each in self.inputs)

    @property
    def sizes_at(self) -> int:
        """Where a frame has the sizes of results."""
        return self.symbols_at + len(self.symbols)

    @property
    def inputs_at(self) -> int:
        """Where a frame has the addresses of inputs."""
        return self.sizes_at + sum(each.rank for each in self.results)

    @property
    def results_at(self) -> int:
        """Where a frame has the addresses of results."""
        return self.inputs_at + len(self.inputs)

    @property
    def words(self) -> int:
        """How many numbers a frame has."""
        return self.results_at + len(self.results)

    @property
    def library(self) -> str:
        """The file of the library: the static one where the system takes no other."""
        files = self.metadata["files"]
        return next(name for name in (*LIBRARIES, STATIC) if name in files)


def read_interface(folder: Path) -> Interface:
    """The interface of the compiled model in a folder. OptionError for what is none, or has no C
    interface; CompiledModelError for a folder that is broken.
    """
    where = str(folder)
    if folder.is_file():
        raise OptionError(
            "a binding is made of a compiled model, and this is a file",
            where=where,
            hint=f"infuse compile {folder.name} -o FOLDER makes one",
        )
    if (folder / STAGES).is_file():
        raise OptionError(
            "Python runs a part of this model, so that it has no C interface",
            where=where,
            hint="infuse show --kernels names that part",
        )
    metadata = read_metadata(folder)
    if (folder / PROGRAM).is_file():
        raise OptionError(
            "prebuilt kernels run this model, so that it has no library of its own",
            where=where,
            hint="compile it with a C++ compiler: infuse compile MODEL -o FOLDER",
        )
    _require_library(folder, metadata)
    verify(folder, metadata)
    _require_files(folder)
    try:
        return _interface(folder, metadata)
    except CompiledModelError:
        raise
    except (InfuseError, KeyError, TypeError, ValueError) as error:
        path = str(folder / METADATA)
        raise CompiledModelError(
            f"the interface cannot be read: {error}", where=path, hint=_REBUILD
        ) from error


def _require_library(folder: Path, metadata: Mapping[str, Any]) -> None:
    """OptionError for a folder that is a file of C, and for weights that need a key."""
    files = metadata.get("files")
    if metadata.get("single") or (isinstance(files, dict) and not {*files} & {*LIBRARIES, STATIC}):
        raise OptionError(
            "it is one file of C, without a library",
            where=str(folder),
            hint="a program in C takes it as it is; for a package, compile without --single",
        )
    if metadata.get("encrypted"):
        raise OptionError(
            "the weights are encrypted, and packages do not decrypt",
            where=str(folder),
            hint="bind the model without --encrypt; a package takes weights as bytes that its "
            "program has decrypted",
        )


def _require_files(folder: Path) -> None:
    """CompiledModelError where a file that packages take from the folder is missing."""
    for name in (HEADER, STATIC):
        if not (folder / name).is_file():
            raise CompiledModelError("the file is missing", where=str(folder / name), hint=_REBUILD)


def _interface(folder: Path, metadata: dict[str, Any]) -> Interface:
    prefix, symbols = metadata.get("prefix", PREFIX), metadata.get("symbols", [])
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise CompiledModelError(f"the prefix {prefix!r} is no name of C", where=str(folder))
    if len(symbols) > _SYMBOLS or not all(isinstance(each, str) for each in symbols):
        raise CompiledModelError("the table of symbols makes no sense", where=str(folder))
    specs = [TensorSpec.from_metadata(each) for each in metadata["inputs"]]
    ShapeBinder(specs, symbols)  # every size is a formula of symbols that inputs tell
    inputs = _tensors(metadata["inputs"], symbols, 0, 2)
    described = sum(2 + each.rank for each in inputs)
    results = _tensors(metadata["outputs"], symbols, described + len(symbols), 0)
    lists = {each.lists for each in results} - {None}
    if not lists <= set(range(len(results))):
        raise CompiledModelError("a list of sizes is no output", where=str(folder))
    return Interface(folder, metadata, prefix, inputs, results, tuple(symbols))


def _tensors(
    entries: list[Mapping[str, Any]], symbols: list[str], first: int, words: int
) -> tuple[Tensor, ...]:
    """Tensors one behind another in a frame, each with so many words before its sizes."""
    tensors = []
    for number, entry in enumerate(entries):
        spec = TensorSpec.from_metadata(entry)
        dtype = dtypes.by_name(entry["dtype"])
        if not dtype.bits or dtype.kind == "c":
            raise OptionError(
                f"{spec.name} has elements of type {dtype.name}, which the C interface has not"
            )
        if any(isinstance(size, int) and size < 0 for size in spec.shape):
            raise CompiledModelError(f"{spec.name} has a negative size")
        late = spec.late or spec.sizes is not None
        sizes = () if late else tuple(_size(size, symbols) for size in spec.shape)
        tensors.append(
            Tensor(
                spec.name,
                number,
                dtype,
                spec.shape,
                sizes,
                first,
                late,
                spec.optional,
                spec.sizes,
            )
        )
        first += words + len(spec.shape)
    return tuple(tensors)


def _size(size: int | str, symbols: list[str]) -> dims.Dim:
    return size if isinstance(size, int) else parsed_size(size, symbols)
