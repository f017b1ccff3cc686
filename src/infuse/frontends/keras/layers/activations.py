"""Activations: functions by name, and layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.tree import layer_of
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.semantics.activations import FUNCTIONS, elu, leaky_relu, relu


def activated(
    call: KerasCall, value: Value, name: str = "activation", default: Any = None
) -> Value:
    """A value after the activation that a field of the configuration is."""
    return activation(call.runner, call.g, call.config.get(name, default), value)


def function_name(serialized: Any, generation: int) -> str | None:
    """The name of an activation that is a function; None for a layer."""
    if serialized is None:
        return "linear"
    if isinstance(serialized, Mapping):
        if serialized.get("class_name") != "function":
            return None
        serialized = serialized.get("registered_name") or serialized.get("config")
        if isinstance(serialized, Mapping):
            serialized = serialized.get("config") or serialized.get("name")
    if not isinstance(serialized, str):
        raise ModelFileError(f"there is no activation {str(serialized)[:60]!r}")
    if serialized == "hard_sigmoid" and generation == 2:
        return "hard_sigmoid-2"
    return serialized


def activation(runner: Any, g: Importer, serialized: Any, value: Value) -> Value:
    """A value after an activation: a function by name, or a serialized layer."""
    name = function_name(serialized, runner.generation)
    if name is None:
        inner = layer_of(serialized)
        if any(True for _ in inner.slots()):
            raise UnsupportedOperatorError(f"an activation with weights, {inner.kind}")
        result = runner.run(inner, [value], {})
        assert isinstance(result, Value)
        return result
    function = FUNCTIONS.get(name)
    if function is None:
        raise UnsupportedOperatorError(f"the activation {name!r} is not known")
    return function(g, value)


# -- layers ----------------------------------------------------------------------------------------


def _softened(call: KerasCall, x: Value) -> Value:
    return x if x.dtype.is_float else call.floats(x)


@layer("ReLU", masking=True)
def relu_layer(call: KerasCall, x: Value) -> Value:
    """Relu with its options."""
    c = call.config
    limit = c.get("max_value")
    slope, low = c.number("negative_slope", 0.0), c.number("threshold", 0.0)
    return relu(call.g, _softened(call, x), slope, None if limit is None else float(limit), low)


@layer("LeakyReLU", masking=True)
def leaky_relu_layer(call: KerasCall, x: Value) -> Value:
    """x, or a part of it below zero; `alpha` in Keras 2."""
    slope = call.config.number("negative_slope", call.config.number("alpha", 0.3))
    return leaky_relu(call.g, _softened(call, x), slope)


@layer("ELU", masking=True)
def elu_layer(call: KerasCall, x: Value) -> Value:
    """x, or alpha · (eˣ - 1) below zero."""
    return elu(call.g, _softened(call, x), call.config.number("alpha", 1.0))


@layer("ThresholdedReLU", masking=True)
def thresholded_relu(call: KerasCall, x: Value) -> Value:
    """X above a number, else zero."""
    return call.g("ThresholdedRelu", x, alpha=call.config.number("theta", 1.0))


@layer("PReLU", weights=lambda config: ["alpha"], masking=True)
def prelu(call: KerasCall, x: Value) -> Value:
    """x, or its product with a weight below zero."""
    return call.g("PRelu", x, call.weight("alpha"))


@layer("Softmax", masking=True)
def softmax_layer(call: KerasCall, x: Value, mask: Value | None = None) -> Value:
    """Softmax over axes, in which masked elements are zero."""
    axis = call.config.get("axis", -1)
    if mask is None and (mask := call.mask(x)) is not None and mask.rank > x.rank:
        mask = None
    return masked_softmax(call, x, mask, axis)


def masked_softmax(
    call: KerasCall, x: Value, mask: Value | None, axis: Any = -1, zeroed: bool = True
) -> Value:
    """Softmax of elements whose mask is true; the others are zero, also where all are hidden if
    they are `zeroed`.
    """
    if mask is None:
        return FUNCTIONS["softmax"](call.g, x, axis=axis)
    low = -3e4 if x.dtype.name == "float16" else -1e9
    mask = call.boolean(mask)
    y = FUNCTIONS["softmax"](call.g, call.where(mask, x, low), axis=axis)
    return call.where(mask, y, 0) if zeroed and call.runner.generation == 3 else y


layer("Activation", masking=True)(activated)
