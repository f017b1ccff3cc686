"""Rows, scores and labels as the operators of ai.onnx.ml have them, in plain Python."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any


def matrix(x: Array) -> Array:
    return np.atleast_2d(x).astype(np.float64)


def finished(rows: Sequence[Sequence[float]], transform: str) -> Array:
    return np.array([one_finished(row, transform) for row in rows]).astype(np.float64)


def one_finished(row: Sequence[float], transform: str) -> list[float]:
    if transform == "NONE" or len(row) == 1:
        return list(row)
    if transform == "LOGISTIC":
        return [1 / (1 + math.exp(-v)) for v in row]
    most = max(row)
    if transform == "SOFTMAX_ZERO":
        powers = [v * math.exp(-most) if abs(v) <= 1e-7 else math.exp(v - most) for v in row]
    else:
        assert transform == "SOFTMAX"
        powers = [math.exp(v - most) for v in row]
    return [p / sum(powers) if sum(powers) else 0.5 for p in powers]


def single(values: Sequence[float]) -> list[float]:
    """The numbers as ONNX keeps them."""
    return [float(np.float32(v)) for v in values]


def of_one(score: float, whole: bool, transform: str) -> list[float]:
    """The scores of two classes from the only one."""
    return one_finished([1 - score if whole else -score, score], transform)


def texts(values: Sequence[Any], shape: tuple[int, ...]) -> Array:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result.reshape(shape)


def as_labels(chosen: list[Any]) -> Array:
    return (
        texts(chosen, (len(chosen),)) if isinstance(chosen[0], str) else np.array(chosen, np.int64)
    )
