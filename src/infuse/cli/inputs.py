"""Inputs of a model: read from NumPy's files, or random."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from infuse.data.arrays import load_arrays, read_archive
from infuse.errors import InputError, OptionError
from infuse.ir.graph import Array
from infuse.ops.core.feeds import default_size, random_array, require_symbols
from infuse.runtime.shapes import Formula, TensorSpec


def sizes(specs: Sequence[TensorSpec], chosen: Mapping[str, int]) -> dict[str, int]:
    """A size for every symbol in these inputs: the given one, or the default that `--dim`
    describes.
    """
    result: dict[str, int] = {}
    for text in (size for spec in specs for size in spec.shape if isinstance(size, str)):
        for symbol in [text] if text in chosen else _symbols(text):
            result[symbol] = chosen.get(symbol, default_size(symbol))
    require_symbols(chosen, result)
    return result


def _symbols(text: str) -> list[str]:
    return sorted(Formula(text).symbols) if any(c in text for c in "+-*/%(") else [text]


def random_inputs(
    specs: Iterable[TensorSpec], values: Mapping[str, int], seed: int, limits: Mapping[str, int]
) -> dict[str, Array]:
    """Arrays for these inputs but those with a default; `values` are the sizes of symbols, `limits`
    those of integers by input.
    """
    rng = np.random.default_rng(seed)
    made = {}
    for spec in specs:
        if spec.optional:
            continue
        shape = [size if isinstance(size, int) else _size(size, values) for size in spec.shape]
        made[spec.name] = random_array(spec.name, spec.dtype, shape, rng, limits.get(spec.name, 2))
    return made


def _size(text: str, values: Mapping[str, int]) -> int:
    return values[text] if text in values else Formula(text)(values)


def read_inputs(
    files: Iterable[str] | None, archive: Path | None, names: Sequence[str]
) -> dict[str, Array]:
    """Arrays by input name from `--inputs FILE.npz` and from `--input NAME=FILE.npy`, which
    wins.
    """
    hint = "give one array with --input"
    arrays = {} if archive is None else read_archive(archive, hint)
    for text in files or ():
        name, path = _named(text, names)
        array = load_arrays(path)
        if isinstance(array, dict):
            raise InputError(
                "it is an archive of arrays", where=str(path), hint="give it with --inputs"
            )
        arrays[name] = array
    return arrays


def read_metric(text: str, flag: str = "--metric") -> str | Callable[..., float]:
    """A metric by name, or the function of a file."""
    if ".py:" not in text:
        return text
    path, _, name = text.rpartition(":")
    where = f"{flag} {text}"
    spec = importlib.util.spec_from_file_location("metric_of_the_user", path)
    if not Path(path).is_file() or spec is None or spec.loader is None:
        raise OptionError(f"there is no file {path}", where=where)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise OptionError(f"it raised {type(error).__name__}: {error}", where=where) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise OptionError(f"there is no function {name!r} in it", where=where)
    result: Callable[..., float] = function
    return result


def _named(text: str, names: Sequence[str]) -> tuple[str, Path]:
    """Input and file of `NAME=FILE`, where the name may hold = itself."""
    for name in sorted(names, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, Path(text[len(name) + 1 :])
    name, equals, path = text.partition("=")
    if not equals:
        raise OptionError(
            f"--input {text} names no input", hint=f"write it as --input {names[0]}={text}"
        )
    return name, Path(path)
