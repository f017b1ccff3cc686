"""How good the outputs of a model are: against labels, or against those of another model."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from infuse.errors import InfuseError, InputError, OptionError
from infuse.ir.graph import Array

Outputs = Mapping[str, Array]
Function = Callable[[Sequence[Outputs], Any], float]
"""A score of the outputs of all runs, in order, beside labels (or the outputs of another model)."""


@dataclass(frozen=True)
class Metric:
    """A score of a model. `needs_labels`: beside labels; else beside the outputs of another model.

    Examples lie along the first axis of outputs and labels.
    """

    name: str
    about: str
    function: Function
    needs_labels: bool = True
    higher_is_better: bool = True
    is_builtin: bool = False
    """Whether it is one of `NAMES`, and no function of the user."""

    def __call__(self, outputs: Sequence[Outputs], truth: Any) -> float:
        """The score. InputError where the outputs and the labels do not fit, or for a score that
        is no number.
        """
        try:
            score = float(self.function(outputs, truth))
        except InfuseError:
            raise
        except Exception as error:
            raise InputError(
                f"the metric raised {type(error).__name__}: {error}",
                where=f"metric {self.name}",
                hint="it is called with a list of the outputs of all runs, and the labels",
            ) from error
        if math.isnan(score):
            raise InputError("the score is not a number", where=f"metric {self.name}")
        return score


def joined(outputs: Sequence[Outputs], name: str = "") -> Array:
    """One output of all runs, along the first axis; without a name the only one."""
    names = list(outputs[0])
    if not name and len(names) != 1:
        raise OptionError(
            f"the model has {len(names)} outputs, and a metric of one is asked for",
            hint=f"name it: top1:{names[0]}",
        )
    if name and name not in names:
        raise OptionError(
            f"there is no output {name!r}", hint=f"outputs: {', '.join(map(repr, names))}"
        )
    arrays = [np.atleast_1d(each[name or names[0]]) for each in outputs]
    if any(array.shape[1:] != arrays[0].shape[1:] for array in arrays):
        raise InputError(
            f"output {name or names[0]!r} has different sizes in different runs",
            hint="give a function as the metric, which gets the outputs of each run",
        )
    return np.concatenate(arrays)


# -- beside labels ---------------------------------------------------------------------------------


def _labels(truth: Any, count: int) -> Array:
    labels = np.asarray(truth)
    if not labels.shape or labels.shape[0] != count:
        size = labels.shape[0] if labels.shape else 1
        raise InputError(
            f"there are {size} labels for {count} examples", hint="give one label an example"
        )
    return labels


def _top(k: int, output: str) -> Function:
    def score(outputs: Sequence[Outputs], truth: Any) -> float:
        scores = joined(outputs, output)
        labels = _labels(truth, len(scores))
        if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
            raise InputError(f"labels are numbers of classes from 0 on, found {labels.dtype}")
        if np.issubdtype(scores.dtype, np.integer):
            return float(np.mean(scores.reshape(labels.shape) == labels))
        if scores.ndim != labels.ndim + 1:
            raise InputError(
                f"outputs of shape {scores.shape} are not scores of classes for labels of shape "
                f"{labels.shape}"
            )
        if labels.max() >= scores.shape[-1]:
            raise InputError(
                f"label {labels.max()} is beyond the {scores.shape[-1]} classes of the model"
            )
        own = np.take_along_axis(scores, labels[..., None], -1)
        return float(np.mean((scores > own).sum(-1) < k) if np.isfinite(scores).all() else 0.0)

    return score


def _error(power: int, output: str) -> Function:
    def score(outputs: Sequence[Outputs], truth: Any) -> float:
        values = joined(outputs, output).astype(np.float64)
        labels = _labels(truth, len(values)).astype(np.float64)
        if values.size != labels.size:
            raise InputError(f"outputs of shape {values.shape} for labels of shape {labels.shape}")
        return float(np.mean(np.abs(values - labels.reshape(values.shape)) ** power))

    return score


# -- beside the outputs of another model -----------------------------------------------------------


def _pairs(outputs: Sequence[Outputs], truth: Any, output: str) -> list[tuple[Array, Array]]:
    if len(outputs) != len(truth):
        raise InputError(f"{len(outputs)} runs beside {len(truth)}")
    pairs = []
    for ours, theirs in zip(outputs, truth):
        for name in [output] if output else _comparable(theirs):
            if name not in ours or name not in theirs:
                raise OptionError(f"there is no output {name!r}")
            pairs.append((np.atleast_1d(ours[name]), np.atleast_1d(theirs[name])))
    return pairs


def _comparable(outputs: Outputs) -> list[str]:
    """The outputs of floats, where there are any: labels and indices follow from them."""
    arrays = {name: array for name, array in outputs.items() if isinstance(array, np.ndarray)}
    floats = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    return floats or list(arrays)


def _agreement(output: str) -> Function:
    def score(outputs: Sequence[Outputs], truth: Any) -> float:
        equal = []
        for ours, theirs in _pairs(outputs, truth, output):
            is_score = np.issubdtype(theirs.dtype, np.floating) and theirs.shape[-1] > 1
            same = ours.argmax(-1) == theirs.argmax(-1) if is_score else ours == theirs
            equal.append(np.ravel(same))
        return float(np.mean(np.concatenate(equal)))

    return score


def signal_to_noise(values: Array, reference: Array) -> float:
    """The power of the reference over that of the difference, in dB; infinite where they are
    equal.
    """
    exact = reference.astype(np.float64)
    noise = float(np.sum((values.astype(np.float64) - exact) ** 2))
    return decibels(float(np.sum(exact**2)), noise)


def decibels(signal: float, noise: float) -> float:
    """The ratio of two powers in dB; infinite without noise."""
    if noise == 0.0:
        return math.inf
    return -math.inf if signal == 0.0 else 10 * math.log10(signal / noise)


def cosine(values: Array, reference: Array) -> float:
    """The cosine of the angle between two tensors as vectors; 1 for two that are zero."""
    a, b = (np.ravel(each).astype(np.float64) for each in (values, reference))
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    if length == 0.0:
        return float(not a.any() and not b.any())
    return float(a @ b / length)


def _sqnr(output: str) -> Function:
    def score(outputs: Sequence[Outputs], truth: Any) -> float:
        pairs = _pairs(outputs, truth, output)
        ours, theirs = (np.concatenate([np.ravel(p[i]) for p in pairs]) for i in (0, 1))
        return signal_to_noise(ours, theirs)

    return score


def _cosine(output: str) -> Function:
    def score(outputs: Sequence[Outputs], truth: Any) -> float:
        return float(np.mean([cosine(*pair) for pair in _pairs(outputs, truth, output)]))

    return score


_METRICS: dict[str, tuple[str, Callable[[str], Function], bool, bool]] = {
    "top1": ("examples whose label has the highest score", lambda o: _top(1, o), True, True),
    "top5": ("examples whose label is among five scores", lambda o: _top(5, o), True, True),
    "mse": ("mean squared error", lambda o: _error(2, o), True, False),
    "mae": ("mean absolute error", lambda o: _error(1, o), True, False),
    "agreement": ("examples with the same highest score", _agreement, False, True),
    "cosine": ("mean cosine of the angle to the original's outputs", _cosine, False, True),
    "sqnr": ("power of the outputs over that of the error, in dB", _sqnr, False, True),
}
NAMES = tuple(_METRICS)


def metric(which: str | Metric | Callable[[Sequence[Outputs], Any], float]) -> Metric:
    """A metric by name (`NAMES`; `top1:scores` for the output `scores`), or of a function of the
    outputs of all runs and the labels whose result is better the higher it is. OptionError for a
    name that is not known.
    """
    if isinstance(which, Metric):
        return which
    if not isinstance(which, str):
        name = getattr(which, "__name__", "function")
        return Metric(name, "a function of the user", which)
    name, _, output = which.partition(":")
    if name not in _METRICS:
        raise OptionError(f"there is no metric {name!r}", hint=f"metrics: {', '.join(NAMES)}")
    about, make, needs_labels, higher = _METRICS[name]
    return Metric(which, about, make(output), needs_labels, higher, is_builtin=True)


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
