"""Layers and functions of the user's own: those that a class of operators of the domain `keras` is
there for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import TABLE, KerasCall, LayerKind
from infuse.frontends.keras.config import Config
from infuse.ir.graph import Value
from infuse.ir.registry import make_operator
from infuse.ops.core.base import REGISTRY

DOMAIN: Final = "keras"
_LAMBDA: Final = "Lambda"
_OF_ALL: Final = frozenset(
    ("name", "trainable", "dtype", "autocast", "activity_regularizer", "batch_input_shape")
)
"""Fields of the configuration of every layer."""


def kind_of(kind: str, config: Config) -> str:
    """The name of the function that a Lambda layer calls, where a class is there for it, else the
    kind of the layer. A function of another module than the user's has one, a lambda expression
    none.
    """
    function = config.get("function") if kind == _LAMBDA else None
    if not isinstance(function, Mapping):
        return kind
    registered, name = function.get("registered_name"), function.get("config")
    listed = [v for v in (registered, name) if isinstance(v, str)]
    return next((v for v in listed if REGISTRY.get((DOMAIN, v)) is not None), kind)


def entry_of(kind: str) -> LayerKind | None:
    """What builds layers of a kind: Keras' own, or those of a class of operators."""
    entry = TABLE.get(kind)
    operator = None if entry is not None else REGISTRY.get((DOMAIN, kind))
    if operator is None:
        return entry
    names = [str(name) for name in getattr(operator, "layer_weights", ())]
    return LayerKind(_built, lambda config: names, lambda config: {}, masking=False)


def _built(call: KerasCall, *args: Any, **options: Any) -> Value:
    """A node of the operator: arguments, then weights; its attributes are the other fields of the
    configuration, those of a Lambda layer its `arguments`.
    """
    inputs = [value for argument in args for value in _flat(argument)]
    if any(not isinstance(value, Value) for value in inputs):
        raise call.unsupported("an argument that is no tensor")
    if set_ones := [name for name, value in options.items() if value is not None]:
        raise call.unsupported(f"the argument {', '.join(set_ones)} of a layer of one's own")
    inputs += [call.g.constant(array, name) for name, array in call.layer.arrays.items()]
    (result,) = call.g.apply(make_operator(DOMAIN, call.layer.kind, _attributes(call)), inputs)
    return result


def _flat(argument: Any) -> list[Any]:
    return list(argument) if isinstance(argument, (list, tuple)) else [argument]


def _attributes(call: KerasCall) -> dict[str, Any]:
    fields = call.config.fields
    if "function" in fields:
        fields = fields.get("arguments") or {}
        if not isinstance(fields, Mapping):
            raise ModelFileError("its arguments are no map")
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
        if name not in _OF_ALL
    }
