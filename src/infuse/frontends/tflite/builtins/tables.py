"""Hash tables: filled by a subgraph that runs once, constant from then on."""

from __future__ import annotations

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, builtin
from infuse.ir.graph import Array, Value
from infuse.tracing.items import Table
from infuse.tracing.semantics.lookup import looked_up


@builtin("HASHTABLE")
def hash_table(call: LiteCall) -> list[None]:
    """The handle of a table, by its number."""
    if not call.operator.outputs:
        raise ModelFileError("it has no result")
    call.scope.handles[call.operator.outputs[0]] = str(call.option("table_id"))
    return [None]


def _table(call: LiteCall) -> Table:
    name = call.scope.handles.get(call.number(0))
    if name is None:
        raise call.unsupported("a handle of a table that is an operand or comes from a branch")
    return call.scope.resources.tables.setdefault(name, Table(f"table {name}"))


def _filled(call: LiteCall) -> tuple[Array, Array]:
    table = _table(call)
    if table.keys is None or table.values is None:
        raise call.unsupported(f"{table.name}, which nothing in the model fills before,")
    return table.keys, table.values


@builtin("HASHTABLE_IMPORT")
def import_table(call: LiteCall) -> list[Value]:
    """Constant keys and values. A table that is there already stays, as in LiteRT."""
    table, keys, values = _table(call), call.const(1), call.const(2)
    if not call.scope.resources.once or keys is None or values is None:
        raise call.unsupported(f"a change of {table.name}, a state of the model,")
    if keys.size != values.size:
        raise ModelFileError(f"{table.name} has {keys.size} keys and {values.size} values")
    if table.keys is None:
        table.keys, table.values = keys.reshape(-1), values.reshape(-1)
    return []


@builtin("HASHTABLE_FIND")
def find(call: LiteCall) -> Value:
    """The values of keys, and the default for those that are none."""
    keys, values = _filled(call)
    default = call.const(2)
    if default is None or default.size != 1:
        raise call.unsupported("a default that is computed, or no single element")
    return looked_up(call.g, call.raw(1), keys, values, default)


@builtin("HASHTABLE_SIZE")
def size(call: LiteCall) -> Value:
    """How many keys there are."""
    return call.g.constant(np.array([len(_filled(call)[0])], np.int64))
