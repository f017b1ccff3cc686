"""The functions of traced arrays beside NumPy, for `benchmarks.reader_values`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import infuse
from benchmarks.reader_values import Array, Form
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.tracing.arrays import namespace


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All functions of the standard, each a function of a namespace and operands."""
    for name in sorted(dir(np)):
        if callable(getattr(namespace, name, None)) and not name.startswith("_"):
            yield name, lambda xp, *xs, n=name, **options: getattr(xp, n)(*xs, **options)
    for name in sorted(dir(np.linalg)):
        if hasattr(namespace.linalg, name):
            yield (
                f"linalg.{name}",
                lambda xp, *xs, n=name, **options: getattr(xp.linalg, n)(*xs, **options),
            )


def _flat(made: Any) -> list[Any]:
    if isinstance(made, (list, tuple)):
        return [each for part in made for each in _flat(part)]
    return [made]


def eager(function: Callable[..., Any], form: Form) -> list[Array]:
    """NumPy's answer."""
    made = [np.asarray(each) for each in _flat(function(np, *form.feeds, **form.options))]
    if any(array.dtype.kind not in "biuf" for array in made):
        raise TypeError("results are no numbers")
    return made


def exported(function: Callable[..., Any], form: Form) -> tuple[Callable[..., Any], Any]:
    """A program of the function, and its operands."""
    specs = {f"x{i}": infuse.Spec(feed.dtype.name, feed.shape) for i, feed in enumerate(form.feeds)}

    def program(**given: Any) -> Any:
        xp = next(iter(given.values())).__array_namespace__()
        try:
            made = _flat(function(xp, *given.values(), **form.options))
        except TypeError as error:  # a form of NumPy's own, which the standard does not have
            raise UnsupportedOperatorError(str(error)) from error
        return {f"y{i}": xp.asarray(each) for i, each in enumerate(made)}

    return program, specs


def read(model: tuple[Callable[..., Any], Any]) -> Graph:
    """The traced program."""
    return infuse.trace(*model)
