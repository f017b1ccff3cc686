"""How operators are made by name: whoever knows them says how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from infuse.errors import UnsupportedOperatorError
from infuse.ir.operator import Operator

_SOURCES: list[Callable[[str, str], Callable[..., Operator] | None]] = []
_FALLBACK: list[Callable[[str, str, Mapping[str, Any]], Operator]] = []


def register_source(source: Callable[[str, str], Callable[..., Operator] | None]) -> None:
    """Let `factory(**attributes)` be the way to build an operator, where `source(domain, name)` has
    a factory; None for those that it does not know.
    """
    _SOURCES.append(source)


def register_fallback(factory: Callable[[str, str, Mapping[str, Any]], Operator]) -> None:
    """Make `factory(domain, name, attributes)` the way to build operators that nobody
    registered.
    """
    _FALLBACK[:] = [factory]


def make_operator(domain: str, name: str, attributes: Mapping[str, Any]) -> Operator:
    """The operator object for these attributes; UnsupportedOperatorError when it is unknown or does
    not take them.
    """
    factory = next(filter(None, (source(domain, name) for source in _SOURCES)), None)
    if factory is None:
        if _FALLBACK:
            return _FALLBACK[0](domain, name, attributes)
        raise UnsupportedOperatorError(f"there is no operator {domain or 'ai.onnx'}::{name}")
    try:
        return factory(**attributes)
    except TypeError as error:
        names = ", ".join(attributes) or "none"
        raise UnsupportedOperatorError(
            f"operator {name} does not take these attributes: {names}"
        ) from error
