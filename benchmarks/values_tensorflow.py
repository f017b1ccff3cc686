"""Operators of TensorFlow beside TensorFlow in eager mode, for `benchmarks.reader_values`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

import infuse
from benchmarks.reader_values import Array, Form
from infuse.frontends import tensorflow  # noqa: F401  its table
from infuse.frontends.tensorflow.calls import TABLE
from infuse.ir.graph import Graph

_AXES = {"reduction_indices", "axis", "dimension"}
_CASTS = ("int32", "int64", "bool", "float16", "float64")
_SKIPPED = ("Random", "Multinomial", "Variable", "Assign", "TensorList", "TensorArray", "Print")


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All operators whose operands are tensors, perhaps with an axis."""
    for name in sorted(TABLE):
        definition = op_def_registry.get(name)
        if definition is None or not hasattr(tf.raw_ops, name) or name.startswith(_SKIPPED):
            continue
        names = [argument.name for argument in definition.input_arg]
        if name == "Cast":
            for to in _CASTS:
                yield f"Cast-{to}", partial(_called, name, names, {"DstT": to})
        elif 1 <= len([n for n in names if n not in _AXES]) <= 2:
            yield name, partial(_called, name, names, {})


def _called(kind: str, names: list[str], options: dict[str, Any], *xs: Any, axis: Any = None,
            keepdims: bool = False) -> Any:  # fmt: skip
    taken = [name for name in names if name not in _AXES]
    if len(taken) != len(xs) or (len(taken) < len(names)) != (axis is not None):
        raise TypeError("operands of another number")
    given = dict(zip(taken, xs)) | dict.fromkeys(_AXES & set(names), axis) | options
    if keepdims:
        given["keep_dims"] = True
    return getattr(tf.raw_ops, kind)(**given)


def eager(function: Callable[..., Any], form: Form) -> list[Array]:
    """TensorFlow's answer."""
    made = tf.nest.flatten(function(*map(tf.constant, form.feeds), **form.options))
    return [each.numpy() for each in made]


def exported(function: Callable[..., Any], form: Form) -> bytes:
    """A frozen graph with the operator."""
    specs = [tf.TensorSpec(x.shape, x.dtype, name=f"x{i}") for i, x in enumerate(form.feeds)]

    def named(*tensors: Any) -> Any:
        made = tf.nest.flatten(function(*tensors, **form.options))
        return [tf.identity(each, name=f"y{i}") for i, each in enumerate(made)]

    concrete = tf.function(named, autograph=False).get_concrete_function(*specs)
    return bytes(concrete.graph.as_graph_def().SerializeToString())


def read(model: bytes) -> Graph:
    """What the reader makes of it."""
    return infuse.load(model)
