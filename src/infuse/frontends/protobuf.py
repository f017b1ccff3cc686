"""Protobuf messages of foreign formats, declared as text and parsed by protobuf itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from infuse.errors import ModelFileError

_LIMIT: Final = 2**31 - 1
"""What protobuf can parse."""
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in ["bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64"]
}


def schema(package: str, messages: Mapping[str, str]) -> dict[str, type[Any]]:
    """The classes of messages, by name. Each is declared by its fields, `NAME NUMBER [repeated|map]
    TYPE`, with `;` between them. A type is a scalar of protobuf or another message; `map` is from
    text to this type. Enumerations are declared int32; fields that are not declared are skipped.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"infuse/{package}", package=package)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for declaration in filter(None, map(str.strip, fields.split(";"))):
            _declare(message, declaration.split(), f".{package}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _declare(message: descriptor_pb2.DescriptorProto, words: list[str], package: str) -> None:
    name, number, *label, type = words
    repeated = bool(label)
    field = message.field.add(
        name=name,
        number=int(number),
        label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
    )
    if label == ["map"]:
        entry = message.nested_type.add(name="".join(map(str.title, name.split("_"))) + "Entry")
        entry.options.map_entry = True
        _declare(entry, ["key", "1", "string"], package)
        _declare(entry, ["value", "2", type], package)
        field.type, field.type_name = (
            _Field.TYPE_MESSAGE,
            f"{package}.{message.name}.{entry.name}",
        )
    elif type in _SCALARS:
        field.type = _SCALARS[type]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f"{package}.{type}"


def parse(message: type[Any], data: bytes | memoryview, where: str, what: str) -> Any:
    """The message that `data` holds; ModelFileError, with `what` it should be, if it does not."""
    if len(data) > _LIMIT:
        raise ModelFileError(f"{what} has {len(data)} bytes; protobuf reads 2 GB", where=where)
    parsed = message()
    try:
        parsed.ParseFromString(bytes(data))
    except DecodeError as error:
        hint = "the file may be truncated, or in another format"
        raise ModelFileError(
            f"{what} is not well formed: {error}", where=where, hint=hint
        ) from None
    return parsed
