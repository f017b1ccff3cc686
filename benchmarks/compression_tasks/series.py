"""A convolutional and a recurrent network on six sets of the UCR and UEA archives, with their
official split, from the package data of sktime.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from benchmarks.compression_tasks.base import CALIBRATION, Prepared, Recipe, top_1
from benchmarks.compression_tasks.packages import Packages

SETS = (
    "ArrowHead",
    "BasicMotions",
    "GunPoint",
    "ItalyPowerDemand",
    "JapaneseVowels",
    "OSULeaf",
)


def read_series(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """The rows of a .ts file: series [channels, length] and their classes."""
    lines = path.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.lower().startswith("@data"))
    series, classes = [], []
    for line in filter(None, lines[start + 1 :]):
        *channels, label = line.split(":")
        values = [np.array(channel.split(","), np.float32) for channel in channels]
        series.append(np.stack(values))
        classes.append(label)
    return series, classes


def joined(series: list[np.ndarray], length: int) -> np.ndarray:
    """Series as [rows, channels, length]: shorter ones end in zeros, longer ones are cut."""
    rows = np.zeros((len(series), len(series[0]), length), np.float32)
    for row, one in zip(rows, series):
        row[:, : one.shape[1]] = one[:, :length]
    return rows


def prepared(network: str, dataset: str, packages: Packages) -> Prepared:
    """The network trained on a set, with the official test."""
    from benchmarks.compression_tasks import series_networks
    from benchmarks.compression_tasks.training import onnx_file, seeded, train

    folder = packages.pypi("sktime", "1.2.0") / "sktime" / "datasets" / "data" / dataset
    train_series, train_classes = read_series(folder / f"{dataset}_TRAIN.ts")
    test_series, test_classes = read_series(folder / f"{dataset}_TEST.ts")
    names = sorted(set(train_classes))
    labels = np.array([names.index(one) for one in train_classes])
    length = max(one.shape[1] for one in train_series)
    rows = joined(train_series, length)
    mean, deviation = rows.mean((0, 2), keepdims=True), rows.std((0, 2), keepdims=True)
    rows = (rows - mean) / deviation
    tests = (joined(test_series, length) - mean) / deviation
    seeded()
    model = series_networks.NETWORKS[network](rows.shape[1:], len(names))
    train(model, rows, labels, series_networks.schedule(len(rows)), series_networks.varied)
    order = np.random.default_rng(0).permutation(len(rows))[:CALIBRATION]
    return Prepared(
        onnx_file(model, [rows[:1]], ["series"], "scores"),
        [{"series": rows[i : i + 1]} for i in order],
        [{"series": row[None]} for row in tests],
        {"labels": np.array([names.index(one) for one in test_classes])},
    )


RECIPES = tuple(
    Recipe(
        f"{network}_{dataset.lower()}",
        "top-1",
        functools.partial(prepared, network, dataset),
        top_1,
    )
    for network in ("cnn", "lstm")
    for dataset in SETS
)
