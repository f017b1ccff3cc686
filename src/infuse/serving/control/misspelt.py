"""Which field of a configuration somebody meant who wrote one that there is not."""

from __future__ import annotations

import re
import types
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from infuse.errors import did_you_mean

_UNIONS: Final = (Union, types.UnionType)
_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$(.*)`)?")


def meant(kind: Any, message: str) -> str:
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
    fields = [field for outer in kinds for field in getattr(outer, "__struct_fields__", ())]
    every = f"fields here are {', '.join(fields)}" if fields else ""
    return did_you_mean(unknown[1], fields, otherwise=every)


def _inside(kind: Any, name: str) -> list[Any]:
    """The types that may stand in a field, or (without a name) in the elements of a type."""
    if name and hasattr(kind, "__struct_fields__"):
        kind = get_type_hints(kind)[name]
        return (
            [part for part in get_args(kind) if part is not type(None)]
            if get_origin(kind) in _UNIONS
            else [kind]
        )
    return list(get_args(kind))
