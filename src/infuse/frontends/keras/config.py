"""Configurations of layers, as Keras 2 and 3 write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.tracing.axes import axes_of, is_int

_DEFAULT: Final = object()


class Config:
    """The configuration of a layer: its fields by name; ModelFileError where one has another type
    than is asked for.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields

    def get(self, name: str, default: Any = None) -> Any:
        """A field, whatever it is."""
        return self.fields.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def flag(self, name: str, default: bool = False) -> bool:
        """A field that is true or false."""
        value = self.fields.get(name, default)
        return bool(self._typed(name, default if value is None else value, (bool, int)))

    def text(self, name: str, default: Any = _DEFAULT) -> str:
        """A field that is text."""
        return str(self._typed(name, self._field(name, default), (str,)))

    def number(self, name: str, default: Any = _DEFAULT) -> float:
        """A field that is a number."""
        return float(self._typed(name, self._field(name, default), (int, float)))

    def whole(self, name: str, default: Any = _DEFAULT) -> int:
        """A field that is a whole number."""
        value = self._typed(name, self._field(name, default), (int, float))
        if value != int(value):
            raise ModelFileError(f"{name} is {value}, and must be a whole number")
        return int(value)

    def wholes(self, name: str, count: int, default: Any = _DEFAULT) -> tuple[int, ...]:
        """A field that is a whole number for each of `count` axes, or one for all of them."""
        value = self._field(name, default)
        listed = list(value) if isinstance(value, (list, tuple)) else [value] * count
        if len(listed) != count or not all(is_int(each) for each in listed):
            raise ModelFileError(f"{name} is {value!r}, and must be {count} whole numbers")
        return tuple(listed)

    def axes(self, name: str, rank: int, default: Any = _DEFAULT) -> list[int]:
        """A field that is an axis of a tensor or a list of them, from 0 on."""
        value = self._field(name, default)
        return axes_of(value, rank, name)

    def _field(self, name: str, default: Any) -> Any:
        value = self.fields.get(name)
        if value is None:
            if default is _DEFAULT:
                raise ModelFileError(f"its configuration has no {name!r}")
            return default
        return value

    def _typed(self, name: str, value: Any, types: tuple[type, ...]) -> Any:
        if not isinstance(value, types):
            raise ModelFileError(f"{name} is {str(value)[:60]!r}, of another type than it must be")
        return value

    def require(self, name: str, *allowed: Any) -> None:
        """UnsupportedOperatorError where a field is there and has another value than these."""
        value = self.fields.get(name, allowed[0])
        if value not in allowed:
            raise UnsupportedOperatorError(f"{name} = {value!r} is not supported")

    @property
    def channels_first(self) -> bool:
        """Whether images have their channels behind the batch."""
        value = self.fields.get("data_format") or "channels_last"
        if value not in ("channels_first", "channels_last"):
            raise ModelFileError(f"there is no data_format {value!r}")
        return bool(value == "channels_first")

    @property
    def policy(self) -> str:
        """The name of the policy of element types."""
        return policy_of(self.fields.get("dtype"))

    @property
    def dtype(self) -> DType:
        """The element type that the layer computes in."""
        return compute_type(self.policy)


_QUANTIZED: Final = ("Quantized", "Int4", "GPTQ", "AWQ")
"""What the names of policies begin with that have a mode and another policy."""


def policy_of(dtype: Any) -> str:
    """The name of a policy, which is text or an object with a configuration."""
    if dtype is None:
        return "float32"
    if isinstance(dtype, str):
        return dtype
    kind, fields = dtype["class_name"], dtype["config"]
    if kind.endswith("DTypePolicy") and kind.removesuffix("DTypePolicy") in _QUANTIZED:
        return f"{fields['mode']}_from_{policy_of(fields['source_name'])}"
    if kind not in ("DTypePolicy", "Policy", "FloatDTypePolicy"):
        raise UnsupportedOperatorError(f"a policy of the class {kind} is not supported")
    return str(fields["name"])


def compute_type(policy: str) -> DType:
    """The element type in which layers of a policy compute."""
    mode, apart, source = policy.rpartition("_from_")
    if apart and mode.partition("/")[0] not in ("int8", "int4", "gptq"):
        raise UnsupportedOperatorError(f"quantization of the kind {mode} is not supported")
    name = source.removeprefix("mixed_")
    return dtypes.by_name({"bool": "bool", "_": "float32"}.get(name, name))


def class_of(serialized: Any) -> str:
    """The class of a serialized layer or operation; ModelFileError for what is none."""
    name = serialized.get("class_name") if isinstance(serialized, Mapping) else None
    if not isinstance(name, str):
        raise ModelFileError(f"there is no layer in {str(serialized)[:80]!r}")
    registered = serialized.get("registered_name")
    if isinstance(registered, str) and ">" in registered:
        return registered
    module = serialized.get("module")
    if isinstance(module, str) and module.partition(".")[0] not in ("keras", "builtins"):
        return f"{module}>{name}"
    return name


def inner_config(serialized: Any) -> Mapping[str, Any]:
    """The configuration in a serialized layer."""
    config = serialized.get("config")
    if not isinstance(config, Mapping):
        raise ModelFileError(f"the layer {class_of(serialized)} has no configuration")
    return config


def layers_of(serialized: Any) -> Sequence[Any]:
    """The serialized layers of a model."""
    config = serialized["config"]
    layers = config if isinstance(config, list) else config.get("layers")
    if not isinstance(layers, list):
        raise ModelFileError(
            f"the model is of the class {class_of(serialized)}, whose file has no layers: what it "
            "computes is Python code",
            hint="export it as a SavedModel: model.export('folder')",
        )
    return layers
