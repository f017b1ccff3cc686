"""What a task is, and how it lies in its folder.

| file                           | what                                                            |
|--------------------------------|-----------------------------------------------------------------|
| `model.onnx`                   | the network in float32                                          |
| `calibration.npz`, `test.npz`  | all runs: an array for each input, whose rows are one run each  |
| `calibration/`, `test/`        | instead, where runs differ in shape: `0000.npz` is one run      |
| `truth.npz`                    | what the right answers are; `labels` where answers are classes  |
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.compression_tasks.packages import Packages

Feeds = dict[str, np.ndarray]
Answers = dict[str, np.ndarray]
Run = Callable[[Feeds], Answers]
Truth = dict[str, np.ndarray]
Judge = Callable[[Sequence[Answers], Truth], float]
CALIBRATION = 300
"""Runs that calibrate, at most."""


@dataclass(frozen=True)
class Task:
    """A network, data and its score. Feeds are one run each; those that calibrate are not among
    those of the test.

    `metric` says what the score is: "top-1", "1 - character error rate", …
    """

    name: str
    model: Path
    metric: str
    higher_is_better: bool
    calibration: list[Feeds]
    test: list[Feeds]
    truth: Truth
    judge: Judge

    @property
    def labels(self) -> np.ndarray | None:
        """The class of each run of the test, where the network gives scores of classes."""
        return self.truth.get("labels")

    def score(self, run: Run) -> float:
        """The score of the whole test, each of its feeds answered by `run`."""
        return self.judge([run(feeds) for feeds in self.test], self.truth)


def whole_runs(feeds: Sequence[Feeds]) -> list[Feeds]:
    """Feeds as parts of data for `infuse.compress` with one example each, so that nothing is cut: a
    sequence of free length is no batch.
    """
    return [{name: array[None] for name, array in each.items()} for each in feeds]


@dataclass(frozen=True)
class Prepared:
    """All that is stored of a task: the bytes of its ONNX file, feeds, and right answers."""

    model: bytes
    calibration: Sequence[Feeds]
    test: Sequence[Feeds]
    truth: Truth


@dataclass(frozen=True)
class Recipe:
    """How a task is made, from packages and training, and how its answers are judged."""

    name: str
    metric: str
    prepare: Callable[[Packages], Prepared]
    judge: Judge
    higher_is_better: bool = True

    def task(self, folder: Path) -> Task:
        """The task, made below `folder` unless it is there already."""
        place = folder / self.name
        if not place.exists():
            _store(self.prepare(Packages(folder / "packages")), place)
        with np.load(place / "truth.npz") as truth:
            right = dict(truth)
        return Task(
            self.name,
            place / "model.onnx",
            self.metric,
            self.higher_is_better,
            _feeds(place, "calibration"),
            _feeds(place, "test"),
            right,
            self.judge,
        )


def _store(prepared: Prepared, place: Path) -> None:
    """Write a task's folder, which appears whole or not at all."""
    if not 0 < len(prepared.calibration) <= CALIBRATION:
        raise ValueError(f"{place.name}: {len(prepared.calibration)} runs cannot calibrate")
    draft = place.with_name(f".{place.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    (draft / "model.onnx").write_bytes(prepared.model)
    _store_feeds(draft, "calibration", prepared.calibration)
    _store_feeds(draft, "test", prepared.test)
    np.savez_compressed(draft / "truth.npz", **prepared.truth)
    draft.rename(place)


def _store_feeds(folder: Path, name: str, feeds: Sequence[Feeds]) -> None:
    rows = {key: [one[key] for one in feeds] for key in feeds[0]}
    if all(
        array.ndim and array.shape == (1, *arrays[0].shape[1:])
        for arrays in rows.values()
        for array in arrays
    ):
        joined = {key: np.concatenate(arrays) for key, arrays in rows.items()}
        np.savez_compressed(folder / f"{name}.npz", **joined)
        return
    (folder / name).mkdir()
    for number, one in enumerate(feeds):
        np.savez_compressed(folder / name / f"{number:04}.npz", **one)


def _feeds(folder: Path, name: str) -> list[Feeds]:
    if (folder / name).is_dir():
        return [_arrays(path) for path in sorted((folder / name).glob("*.npz"))]
    rows = _arrays(folder / f"{name}.npz")
    count = len(next(iter(rows.values())))
    return [{key: array[i : i + 1] for key, array in rows.items()} for i in range(count)]


def _arrays(path: Path) -> Feeds:
    with np.load(path) as arrays:
        return dict(arrays)


def top_1(answers: Sequence[Answers], truth: Truth) -> float:
    """The share of runs whose first output has its largest score at the label."""
    scores = np.concatenate([next(iter(one.values())) for one in answers])
    return float(np.mean(scores.argmax(-1) == truth["labels"]))
