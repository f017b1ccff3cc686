"""Models of frameworks beside these frameworks: what a framework's file must say of its models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import infuse
from infuse.ir.graph import Graph

Feeds = dict[str, np.ndarray]
Outputs = Mapping[str, np.ndarray] | Sequence[np.ndarray]


class CannotRun(Exception):
    """The framework itself makes or runs nothing of this model."""


@dataclass(frozen=True)
class Case:
    """A model: how Infuse reads it, what it is given, and what the framework answers.

    `near` are answers of the framework that are as good as those of `run`: a model agrees within
    the tolerance, or within `slack` times their difference.
    """

    name: str
    load: Callable[[], Graph]
    run: Callable[[Feeds], Outputs]
    feeds: Callable[[Graph], Feeds]
    near: Callable[[Feeds], Outputs] | None = None
    slack: float = 1.0
    is_output: Callable[[str], bool] = lambda name: True


def file_case(
    path: Path,
    run: Callable[[Feeds], Outputs],
    feeds: Callable[[Graph], Feeds] | None = None,
    name: str = "",
) -> Case:
    """The model of a file, by default on random inputs."""
    return Case(name or path.name, lambda: infuse.load(path), run, feeds or random_feeds)


def files(places: Iterable[Path], pattern: str) -> list[Path]:
    """Files that are named, and those of a pattern in folders that are."""
    return [f for p in places for f in (sorted(p.rglob(pattern)) if p.is_dir() else [p])]


def random_feeds(graph: Graph, batch: int = 2, size: int = 96) -> Feeds:
    """Inputs for a graph; sizes that are not fixed are `batch` in front, and else `size`."""
    rng, feeds = np.random.default_rng(0), {}
    for value in graph.inputs:
        if value.default is not None:
            continue
        free = (batch, *[size] * len(value.shape))
        shape = [n if isinstance(n, int) else free[axis] for axis, n in enumerate(value.shape)]
        dtype = value.dtype.numpy
        if dtype.kind == "f":
            feeds[value.name] = rng.random(shape).astype(dtype)
        else:
            most = 2 if dtype.kind == "b" else 128 if dtype.itemsize == 1 else 200
            feeds[value.name] = rng.integers(0, most, shape).astype(dtype)
    return feeds
