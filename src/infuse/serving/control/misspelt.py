"""Which field of a configuration somebody meant who wrote one that there is not."""

from __future__ import annotations

import re
import types
from typing import Final, TypeGuard, Union, get_args, get_origin, get_type_hints

import msgspec

from infuse.errors import did_you_mean

_UNIONS: Final = (Union, types.UnionType)
_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$(.*)`)?")


def meant(kind: type, message: str) -> str:
    """The field that an unknown one is most like, among those of the tables at its place; "" if
    there is none.

    `message` is msgspec's, of data that should have been a `kind`.
    """
    unknown = _UNKNOWN_FIELD.match(message)
    if unknown is None:
        return ""
    kinds, place = [kind], unknown[2] or ""
    for name in re.findall(r"\.(\w+)|\[", place):
        kinds = [inner for outer in kinds for inner in _inside(outer, name)]
    structs = [each for each in kinds if _is_struct(each)]
    fields = [field.name for struct in structs for field in msgspec.structs.fields(struct)]
    every = f"fields here are {', '.join(fields)}" if fields else ""
    return did_you_mean(unknown[1], fields, otherwise=every)


def _is_struct(kind: type) -> TypeGuard[type[msgspec.Struct]]:
    """Whether a type (or what stands for several in annotations) is a table with fields."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _inside(kind: type, name: str) -> list[type]:
    """The types that may stand in a field, or (without a name) in the elements of a type."""
    if name and _is_struct(kind):
        kind = get_type_hints(kind)[name]
        return (
            [part for part in get_args(kind) if part is not type(None)]
            if get_origin(kind) in _UNIONS
            else [kind]
        )
    return list(get_args(kind))
