"""JSON schemas of what is answered, as far as it is not read by msgspec; and of the protocol's
words.
"""

from __future__ import annotations

from typing import Final

from infuse.serving.datatypes import NUMPY
from infuse.serving.messages import JsonObject

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_ARRAY: Final = {"type": "array"}
_COUNT: Final[JsonObject] = {"type": "integer", "minimum": 0}
OBJECT: Final[JsonObject] = {"type": "object"}


def _object(required: JsonObject, optional: JsonObject | None = None) -> JsonObject:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def _closed(parameters: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"parameters": parameters}}


def _list(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


_DATATYPE: Final[JsonObject] = {"type": "string", "enum": list(NUMPY)}
_SHAPE: Final = _list({"type": "integer"})
_PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}

ERROR: Final = _object({"error": _TEXT})
LIVE: Final = _object({"live": _FLAG})
READY: Final = _object({"ready": _FLAG})
MODEL_READY: Final = _object({"name": _TEXT, "ready": _FLAG})
SERVER: Final = _object({"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)})
_TENSORS: Final = _list(_object({"name": _TEXT, "datatype": _DATATYPE, "shape": _SHAPE}))
METADATA: Final = _object(
    {"name": _TEXT, "platform": _TEXT, "inputs": _TENSORS, "outputs": _TENSORS},
    {"versions": _list(_TEXT)},
)
STATISTICS: Final = _object({"model_stats": _list(_object({"name": _TEXT, "version": _TEXT}))})
_STATES: Final[JsonObject] = {
    "type": "string",
    "enum": ["UNKNOWN", "READY", "UNAVAILABLE", "LOADING", "UNLOADING"],
}
INDEX: Final = _list(
    _object({"name": _TEXT}, {"version": _TEXT, "state": _STATES, "reason": _TEXT})
)
ANSWER: Final = _object(
    {
        "model_name": _TEXT,
        "outputs": _list(
            _object(
                {"name": _TEXT, "datatype": _DATATYPE, "shape": _list(_COUNT)},
                {"parameters": _PARAMETERS, "data": _ARRAY},
            )
        ),
    },
    {"model_version": _TEXT, "id": _TEXT, "parameters": _PARAMETERS},
)
LOGGING: Final = _object(
    {
        "log_file": _TEXT,
        "log_info": _FLAG,
        "log_warning": _FLAG,
        "log_error": _FLAG,
        "log_verbose_level": _COUNT,
        "log_format": _TEXT,
    }
)
_TRACING: Final = (
    "trace_level",
    "trace_rate",
    "trace_count",
    "log_frequency",
    "trace_file",
    "trace_mode",
)
TRACING: Final = _object({name: {"type": ["string", "array"]} for name in _TRACING})
TRACES: Final[JsonObject] = {
    "type": "object",
    "properties": {name: {} for name in _TRACING},
    "additionalProperties": False,
}
TRAFFIC: Final = OBJECT
PLACEMENT: Final = OBJECT
STAGES: Final[JsonObject] = {"type": "array", "items": OBJECT}
LOAD: Final = _closed(
    {
        "type": ["object", "null"],
        "description": (
            "A configuration as JSON or YAML text, and files by path, such as `file:1/model.onnx`"
        ),
        "properties": {"config": _TEXT},
        "patternProperties": {
            "^file:": {"type": "string", "format": "byte", "contentEncoding": "base64"}
        },
        "additionalProperties": False,
    }
)
UNLOAD: Final = _closed(
    {
        "type": ["object", "null"],
        "description": "Whether the models that a pipeline is made of are unloaded too",
        "properties": {"unload_dependents": _FLAG},
        "additionalProperties": False,
    }
)
DONE: Final = _object({})
