"""Tables of keys and values: filled when a model is restored, constant from then on."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.ir.graph import Array, Value
from infuse.tracing.items import Item, Stored, Table
from infuse.tracing.semantics.lookup import looked_up

_WHOLE_LINE, _LINE_NUMBER = -2, -1


@operator("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2")
def table(call: FlowCall) -> list[Item]:
    """A table by its name."""
    shared = str(call.option("shared_name", "") or "")
    return [call.scope.table(shared or call.node.name)]


def _table(call: FlowCall) -> Table:
    item = call.item(0)
    if not isinstance(item, Table):
        raise ModelFileError("its operand is not a table")
    return item


def _filled(call: FlowCall) -> tuple[Array, Array]:
    item = _table(call)
    if item.keys is None or item.values is None:
        raise call.unsupported(f"the table {item.name!r}, which nothing in the model fills,")
    return item.keys, item.values


@operator("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2")
def fill(call: FlowCall) -> list[Item]:
    """Keys and values that are constants, or tensors of the checkpoint."""
    item = _table(call)
    if not call.scope.restoring:
        raise call.unsupported(f"a change of the table {item.name!r}, a state of the model,")
    keys, values = (_elements(call, index) for index in (1, 2))
    if keys.ndim != 1 or keys.shape != values.shape:
        raise call.unsupported(f"a table of keys {keys.shape} and values {values.shape}")
    item.keys, item.values = keys, values
    return []


def _elements(call: FlowCall, index: int) -> Array:
    item = call.item(index)
    if isinstance(item, Stored):
        return call.scope.restored(item.name)
    if isinstance(item, Value) and item.const is not None:
        return item.const
    raise call.unsupported(f"operand {index}, which is computed,")


@operator("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
def fill_from_file(call: FlowCall) -> list[Item]:
    """Keys and values from the lines of a file: whole, their numbers, or a column of them."""
    item, name = _table(call), call.const(1)
    if name is None or name.size != 1:
        raise call.unsupported("a file whose name is computed")
    lines = _lines(bytes(call.scope.asset(str(name.reshape(-1)[0]))))
    size, skipped = int(call.option("vocab_size", -1)), int(call.option("offset", 0))
    lines = lines[skipped:]
    lines = lines if size < 0 else lines[:size]
    if size > len(lines):
        raise ModelFileError(f"the file has {len(lines)} lines, and the table {size} entries")
    separator = str(call.option("delimiter", "\t") or "\t")
    item.keys, item.values = (
        _column(lines, int(call.option(index, kind)), separator)
        for index, kind in (("key_index", _WHOLE_LINE), ("value_index", _LINE_NUMBER))
    )
    return []


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def _column(lines: list[str], index: int, separator: str) -> Array:
    if index == _LINE_NUMBER:
        return np.arange(len(lines), dtype=np.int64)
    parts = lines if index == _WHOLE_LINE else [_part(line, index, separator) for line in lines]
    column = np.empty(len(parts), object)
    column[:] = parts
    return column


def _part(line: str, index: int, separator: str) -> str:
    parts = line.split(separator)
    if not 0 <= index < len(parts):
        raise ModelFileError(f"the line {line[:40]!r} of a table has no column {index}")
    return parts[index]


@operator("LookupTableFind", "LookupTableFindV2")
def find(call: FlowCall) -> Value:
    """The values of keys, and the default for those that are none."""
    keys, values = _filled(call)
    default = call.const(2)
    if default is None or default.size != 1:
        raise call.unsupported("a default that is computed, or no single element")
    dtype = call.type("Tout")
    return looked_up(call.g, call.raw(1), _as(keys, call.type("Tin")), _as(values, dtype), default)


def _as(elements: Array, dtype: Any) -> Array:
    """Elements of a file, which are texts, in the type of the table."""
    if dtype == dtypes.string or elements.dtype != object:
        return elements
    try:
        return elements.astype(dtype.numpy)
    except ValueError as error:
        raise ModelFileError(f"a table of {dtype} holds a text: {error}") from error


@operator("LookupTableSize", "LookupTableSizeV2")
def size(call: FlowCall) -> Value:
    """How many keys there are."""
    return call.g.constant(np.array(len(_filled(call)[0]), np.int64))


@operator("LookupTableExport", "LookupTableExportV2")
def export(call: FlowCall) -> list[Item]:
    """All keys, and all values."""
    return [call.g.constant(elements) for elements in _filled(call)]
