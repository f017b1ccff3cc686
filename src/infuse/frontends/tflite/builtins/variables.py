"""Resource variables: handles, which are no tensors here, and what is read and assigned by them."""

from __future__ import annotations

from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, builtin
from infuse.ir.graph import Value


@builtin("CALL_ONCE")
def call_once(call: LiteCall) -> list[Value]:
    """A subgraph that gives variables their first values."""
    resources = call.scope.resources
    resources.once = True
    try:
        call.scope.inner(call.g, int(call.option("init_subgraph_index")), [])
    finally:
        resources.once = False
    return []


@builtin("VAR_HANDLE")
def var_handle(call: LiteCall) -> list[None]:
    """The handle of a variable, by its name."""
    name = str(call.option("shared_name", "")) or f"variable_{call.operator.number}"
    container = str(call.option("container", ""))
    if not call.operator.outputs:
        raise ModelFileError("it has no result")
    call.scope.handles[call.operator.outputs[0]] = f"{container}/{name}" if container else name
    return [None]


def _name(call: LiteCall) -> str:
    name = call.scope.handles.get(call.number(0))
    if name is None:
        raise call.unsupported("a handle of a variable that is an operand or comes from a branch")
    return name


@builtin("READ_VARIABLE")
def read_variable(call: LiteCall) -> Value:
    """What was assigned to a variable last: in this run, in the one before, or at first."""
    name, resources = _name(call), call.scope.resources
    if name not in resources.values:
        resources.values[name] = call.scope.variable(name, call.result())
    return call.g("Identity", resources.values[name])


@builtin("ASSIGN_VARIABLE")
def assign_variable(call: LiteCall) -> list[Value]:
    """Another value for a variable."""
    name, resources, value = _name(call), call.scope.resources, call.raw(1)
    if resources.once:
        if value.const is None:
            raise call.unsupported("a first value of a variable that is computed")
        resources.first[name] = value.const
        return []
    if call.scope.depth:
        raise call.unsupported("an assignment inside of control flow")
    resources.values[name] = value
    resources.assigned.add(name)
    return []
