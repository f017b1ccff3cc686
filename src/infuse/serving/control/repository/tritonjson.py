"""Triton's model configuration as JSON, the form in which its clients send one, as the message that
it stands for.
"""

from __future__ import annotations

import re
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.repository.textformat import Message, Value
from infuse.serving.control.repository.tritonfields import FIELDS
from infuse.serving.messages import JSON, JsonObject

_MAPS: Final = frozenset({"parameters", "input_map", "output_map", "metric_tags", "inputs"})
_UPPER: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_TEXTS: Final = frozenset(
    {"name", "model_name", "string_value", "key", "value", "version", "label_filename"}
)
_OWN: Final = frozenset(ModelConfig.__struct_fields__)


def is_triton(plain: JsonObject) -> bool:
    """Whether a table has Triton's fields rather than those of `ModelConfig`."""
    names = {_snake(name) for name in plain}
    policy = plain.get("version_policy", plain.get("versionPolicy"))
    of_policy = isinstance(policy, dict) and any(
        isinstance(value, dict) for value in policy.values()
    )
    return bool(names & (FIELDS - _OWN)) or of_policy


def to_message(plain: JsonObject, where: str) -> Message:
    """The message that the JSON of one stands for; ConfigurationError when it is none."""
    return {
        _snake(name): _values(_snake(name), value, where)
        for name, value in plain.items()
        if value is not None
    }


def _values(name: str, value: JSON, where: str) -> list[Value]:
    if name in _MAPS and isinstance(value, dict):
        return [
            {"key": [key], "value": [_value("value", inner, where)]} for key, inner in value.items()
        ]
    return [_value(name, inner, where) for inner in (value if isinstance(value, list) else [value])]


def _value(name: str, value: JSON, where: str) -> Value:
    if isinstance(value, dict):
        return to_message(value, where)
    if (
        isinstance(value, str)
        and name not in _TEXTS
        and re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII)
    ):
        return int(value)  # numbers of 64 bits are text in the JSON of messages
    if isinstance(value, (str, int, float, bool)):
        return value
    raise ConfigurationError(f"{name}: a message has no value like {value!r}", where=where)


def _snake(name: str) -> str:
    """`maxBatchSize` → `max_batch_size`."""
    return (
        _UPPER.sub(lambda letter: f"_{letter[1].lower()}", name)
        if isinstance(name, str)
        else str(name)
    )
