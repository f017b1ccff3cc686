"""What `config.yaml` may say of compiling: the options of `infuse.compile`, by the names of their
fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from infuse.options import CompileOptions
from infuse.options.fields import Checked, fields_of, nested
from infuse.serving.config import Config

_OWN: Final = frozenset(
    ("target", "threads", "prefix", "embed", "single", "profile", "size", "data")
)
"""What a server decides itself, or a file cannot say."""

_DEFAULTS: Final = {"compile": "background"}
"""Defaults of a server, where those of `CompileOptions` are others."""


def _fields(kind: type[Checked], *, is_optional: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of each field; those of options that a field may be are 0 or empty
    where they are not given.
    """
    for each in fields_of(kind):
        if each.name in _OWN:
            continue
        plain: Any = type(each.default)
        if each.about.choices:
            plain = Literal[each.about.choices]
        elif each.about.least is not None:
            plain = Annotated[plain, msgspec.Meta(ge=each.about.least)]
        default = _DEFAULTS.get(each.name, each.default)
        yield each.name, plain, type(each.default)() if is_optional else default
        inner = nested(each)
        if inner is not None:
            yield from _fields(inner, is_optional=True)


_FIELDS: Final = tuple(_fields(CompileOptions))
_NESTED: Final = frozenset(name for name, *_ in _FIELDS) - {
    each.name for each in fields_of(CompileOptions)
}

if TYPE_CHECKING:
    Compiling = Config
else:
    Compiling = msgspec.defstruct(
        "Compiling", _FIELDS, bases=(Config,), module=__name__, frozen=True, kw_only=True
    )


def compile_options(config: Compiling) -> dict[str, Any]:
    """The fields of options that a configuration has, by name (`CompileOptions.flat`); None for
    what is not given.
    """
    return {
        name: getattr(config, name) or (None if name in _NESTED else default)
        for name, _, default in _FIELDS
    }
