"""Custom operators: those that a class of operators of the domain `tensorflow` is there for."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from flatbuffers import flexbuffers

from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import TABLE, Handler, LiteCall
from infuse.ir.graph import Value
from infuse.ir.registry import make_operator
from infuse.ops.core.base import REGISTRY

DOMAIN: Final = "tensorflow"
_PREFIX: Final = "CUSTOM "


class Known(Container[str]):
    """Names of operators that can be read."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in TABLE or _is_registered(name))


def handler(name: str) -> Handler:
    """What builds an operator of this name, which is known."""
    return TABLE.get(name, custom)


def _is_registered(name: str) -> bool:
    code = name.removeprefix(_PREFIX)
    return code != name and REGISTRY.get((DOMAIN, code)) is not None


def custom(call: LiteCall) -> list[Value]:
    """The operator of the class; its attributes are the map of options in the file."""
    code = call.operator.name.removeprefix(_PREFIX)
    operator = make_operator(DOMAIN, code, _attributes(call.operator.custom_options))
    inputs = [call.real(i) if call.has(i) else None for i in range(call.count)]
    return call.g.apply(operator, inputs, len(call.operator.outputs))


def _attributes(options: bytes) -> dict[str, Any]:
    if not options:
        return {}
    try:
        loaded = flexbuffers.Loads(options)
    except Exception as error:  # of the library, which does not say which it raises
        raise ModelFileError(f"its options are no flexible buffer: {error}") from error
    if not isinstance(loaded, dict):
        raise ModelFileError(f"its options are a {type(loaded).__name__}, and no map")
    return {name: tuple(v) if isinstance(v, list) else v for name, v in loaded.items()}
