"""Functions of `keras.ops` beside Keras with TensorFlow, for `benchmarks.reader_values`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np

import infuse
from benchmarks.reader_values import Array, Form
from infuse.ir.graph import Graph

_SKIPPED = {"arange", "custom_gradient", "while_loop", "fori_loop", "vectorized_map", "scan", "map"}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All functions of `keras.ops`."""
    for name in sorted(dir(keras.ops)):
        function = getattr(keras.ops, name)
        if callable(function) and not name.startswith("_") and name not in _SKIPPED:
            yield name, function
    for name in ("sum", "max", "min", "any", "all", "argmax", "argmin", "nansum", "count_nonzero"):
        if hasattr(keras.ops, name):
            yield f"{name} of all", getattr(keras.ops, name)


def _flat(nested: Any) -> list[Any]:
    if isinstance(nested, dict):
        return [each for key in sorted(nested) for each in _flat(nested[key])]
    if isinstance(nested, (list, tuple)):
        return [each for part in nested for each in _flat(part)]
    return [nested]


def eager(function: Callable[..., Any], form: Form) -> list[Array]:
    """Keras' answer; a scalar is none of a model's inputs."""
    if any(feed.ndim == 0 for feed in form.feeds):
        raise ValueError("a model has no scalars")
    tensors = [keras.ops.convert_to_tensor(feed) for feed in form.feeds]
    made = [np.asarray(each) for each in _flat(function(*tensors, **form.options))]
    if any(array.dtype.kind not in "biuf" or "complex" in str(array.dtype) for array in made):
        raise TypeError("results are no numbers")
    return made


def exported(function: Callable[..., Any], form: Form) -> bytes:
    """A file with a model of one operation."""
    keras.utils.clear_session(free_memory=False)
    inputs = [keras.Input(batch_shape=x.shape, dtype=x.dtype.name) for x in form.feeds]
    model = keras.Model(inputs, function(*inputs, **form.options))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        return path.read_bytes()


def read(model: bytes) -> Graph:
    """What the reader makes of it."""
    return infuse.load(model)
