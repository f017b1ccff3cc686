"""Functions that are called, and control flow of TensorFlow 2; variables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.frames import origin
from infuse.frontends.tensorflow.regions import Ref
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.items import Item, Stored, Variable
from infuse.tracing.loops import branch, repeat, truth


@operator("PartitionedCall", "StatefulPartitionedCall")
def partitioned_call(call: FlowCall) -> list[Item]:
    """The results of a function."""
    return call.scope.function(call.g, call.name_of("f"), call.items)


def _body(call: FlowCall, name: str) -> Callable[[Importer, list[Item]], list[Item]]:
    return lambda g, items: call.scope.function(g, name, items)


@operator("If", "StatelessIf")
def if_(call: FlowCall) -> list[Item]:
    """The results of one function where operand 0 holds, else of another."""
    then, other = (_body(call, call.name_of(f"{name}_branch")) for name in ("then", "else"))
    condition = call.item(0)
    if isinstance(condition, Value) and condition.rank:
        raise call.unsupported("a condition of several elements")
    return branch(call.g, truth(call.g, condition), then, other, call.items[1:])


@operator("Case", "StatelessCase")
def case(call: FlowCall) -> list[Item]:
    """The results of the function of a number, or of the last where there is none."""
    names = [function.name for function in call.option("branches", None) or []]
    if not names:
        raise ModelFileError("it has no branches")
    number = call.raw(0)

    def chosen(place: int) -> Callable[[Importer, list[Item]], list[Item]]:
        def body(g: Importer, items: list[Item]) -> list[Item]:
            if place == len(names) - 1:
                return call.scope.function(g, names[place], items)
            here = g("Equal", number, g.constant(np.array(place, number.dtype.numpy)))
            then = _body(call, names[place])
            return branch(g, truth(g, here), then, chosen(place + 1), items)

        return body

    return chosen(0)(call.g, call.items[1:])


@operator("While", "StatelessWhile")
def while_(call: FlowCall) -> list[Item]:
    """What a function makes of the operands, again and again while another one holds for them."""
    condition, body = call.name_of("cond"), call.name_of("body")
    region = call.scope.model.function(body)
    if len(region.results) != call.count or len(region.arguments) != call.count:
        raise ModelFileError(f"its body makes {len(region.results)} of {call.count} operands")
    same = [
        origin(region, result) == Ref(argument)
        for result, argument in zip(region.results, region.arguments)
    ]
    changing = [
        i
        for i, (still, item) in enumerate(zip(same, call.items))
        if not still and not isinstance(item, Variable)
    ]

    def whole(items: list[Item]) -> list[Item]:
        every = list(call.items)
        for place, item in zip(changing, items):
            every[place] = item
        return every

    def going(g: Importer, items: list[Item]) -> list[Item]:
        return call.scope.function(g, condition, whole(items))

    def round_(g: Importer, items: list[Item]) -> list[Item]:
        results = call.scope.function(g, body, whole(items))
        return [results[place] for place in changing]

    return whole(repeat(call.g, [call.items[i] for i in changing], going, round_))


# -- variables -------------------------------------------------------------------------------------


@operator("VarHandleOp", "VariableV2", "Variable")
def variable(call: FlowCall) -> Variable:
    """A variable, by its name."""
    name = str(call.option("shared_name", "") or call.node.name)
    container = str(call.option("container", "") or "")
    return call.scope.variable(f"{container}/{name}" if container else name)


operator("ReadVariableOp")(lambda call: call.raw(0))
operator("VarIsInitializedOp")(lambda call: call.g.constant(np.array(True)))


@operator("RestoreV2", "RestoreSlice")
def restore(call: FlowCall) -> list[Item]:
    """Tensors of the checkpoint, by name."""
    names, slices = call.const(1), call.const(2)
    if names is None or slices is None or names.size != slices.size:
        raise call.unsupported("a name of a variable that is computed")
    if any(slices.reshape(-1)):
        raise call.unsupported("a part of a variable")
    return [Stored(str(name)) for name in names.reshape(-1)]


@operator("Assign", "AssignVariableOp")
def assign(call: FlowCall) -> list[Item]:
    """Another value for a variable, where it is restored."""
    item, stored = call.item(0), call.item(1)
    if not isinstance(item, Variable):
        raise ModelFileError("its operand is not a variable")
    is_constant = isinstance(stored, Value) and stored.const is not None
    if not isinstance(stored, Stored) and not (call.scope.restoring and is_constant):
        raise call.unsupported(
            f"the assignment to the variable {item.name!r}, a state of the model"
        )
    if isinstance(stored, Stored):
        item.elements = call.scope.restored(stored.name)
    elif isinstance(stored, Value):
        item.elements = stored.const
    return [item]


def _stateful(call: FlowCall) -> None:
    raise call.unsupported("a change of a variable, a state of the model")


for _name in ("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp",
              "ResourceScatterUpdate", "ResourceScatterAdd"):  # fmt: skip
    operator(_name)(_stateful)
