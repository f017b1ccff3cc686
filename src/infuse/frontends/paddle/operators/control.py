"""Control flow, and lists of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.frontends.paddle.program import PaddleRegion, Reference
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.items import Item
from infuse.tracing.loops import Body, branch, repeat, truth

operator("builtin.combine")(lambda call: call.tensors("x"))
operator("builtin.split")(lambda call: (call.tensors("x"),))


def _region(call: PaddleCall, number: int) -> PaddleRegion:
    if number >= len(call.operator.regions):
        raise ModelFileError(f"it has {len(call.operator.regions)} regions")
    return call.operator.regions[number]


def _tensors(items: Sequence[Item]) -> list[Value]:
    return [item for item in items if isinstance(item, Value)]


@operator("if")
def if_(call: PaddleCall) -> list[Value]:
    """The results of one region where a condition holds, else of another."""
    condition = truth(call.g, call("x"))

    def body(number: int) -> Body:
        region = _region(call, number)

        def build(g: Importer, items: list[Item]) -> list[Item]:
            return [*call.scope.inner(g, region, {})(region.results)]

        return build

    made = branch(call.g, condition, body(0), body(1), [])
    return _tensors(made)


@operator("while")
def while_(call: PaddleCall) -> list[Value] | None:
    """What a region makes of tensors again and again, while a condition holds."""
    if call.has("Condition"):
        _older_while(call)
        return None
    region, (condition, *values) = _region(call, 0), call.tensors("x")
    if len(region.arguments) != len(values):
        raise ModelFileError(f"its region has {len(region.arguments)} arguments of {len(values)}")

    def build(g: Importer, items: list[Item]) -> list[Item]:
        inputs = dict(zip(region.arguments, _tensors(items[1:])))
        return [*call.scope.inner(g, region, inputs)(region.results)]

    return _tensors(_repeated(call, [condition, *values], 0, build))[1:]


def _repeated(call: PaddleCall, start: Sequence[Value], condition: int, build: Body) -> list[Item]:
    """All states after a loop; one of them says whether it goes on."""

    def going(g: Importer, items: list[Item]) -> list[Item]:
        return [items[condition]]

    return repeat(call.g, [*start], going, build)


# -- programs before PIR ---------------------------------------------------------------------------


def _written(region: PaddleRegion) -> list[Reference]:
    """What a region writes, in order, once each."""
    names = [
        reference
        for operator in region.operators
        for references in operator.results.values()
        for reference in references
    ]
    return list(dict.fromkeys(names))


def _older_while(call: PaddleCall) -> None:
    region = _region(call, 0)
    (condition,) = call.operator.operands["Condition"]
    states = [name for name in _written(region) if call.scope.defined(name)]
    if condition not in states:
        raise ModelFileError("its condition never changes")
    items = [call.scope.item(name) for name in states]
    start = [item for item in items if isinstance(item, Value)]
    if len(start) != len(items):
        raise UnsupportedOperatorError("a loop over a list of tensors is not supported")

    def build(g: Importer, states_: list[Item]) -> list[Item]:
        return [*call.scope.inner(g, region, dict(zip(states, _tensors(states_))))(states)]

    made = _repeated(call, start, states.index(condition), build)
    call.scope.update(dict(zip(states, _tensors(made))))


@operator("conditional_block")
def conditional_block(call: PaddleCall) -> None:
    """A region whose results are there where a condition holds: `select_input` chooses among them;
    those that were there before keep their values where it does not hold.
    """
    call.require("is_scalar_condition", True)
    region, results = _region(call, 0), call.operator.results.get("Out", [])
    earlier = [name for name in results if call.scope.defined(name)]
    (condition,) = [call.scope.item(name) for name in call.operator.operands["Cond"]]
    if not earlier:
        call.scope.postpone(region, results)
        return
    if len(earlier) != len(results):
        raise UnsupportedOperatorError("results of which some were there before are not supported")

    def then(g: Importer, items: list[Item]) -> list[Item]:
        return [*call.scope.inner(g, region, {})(results)]

    def other(g: Importer, items: list[Item]) -> list[Item]:
        return [item for item in map(call.scope.item, results) if isinstance(item, Value)]

    assert isinstance(condition, Value)
    made = branch(call.g, truth(call.g, condition), then, other, [])
    call.scope.update(dict(zip(results, _tensors(made))))


@operator("select_input")
def select_input(call: PaddleCall) -> None:
    """The results of one of the regions of which `conditional_block` told; all operators of one
    mask that follow each other are one If.
    """
    group = call.scope.together(call.operator)
    (mask,) = [call.scope.item(name) for name in call.operator.operands["Mask"]]
    sources = [operator.operands["X"] for operator in group]
    if not isinstance(mask, Value) or any(len(source) != 2 for source in sources):
        raise UnsupportedOperatorError("a choice among other than two regions is not supported")

    def body(number: int) -> Body:
        def build(g: Importer, items: list[Item]) -> list[Item]:
            return [*call.scope.resumed(g, [source[number] for source in sources])]

        return build

    condition = call.g.cast(call.g("Reshape", mask, call.g.ints()), dtypes.bool_)
    made = branch(call.g, condition, body(1), body(0), [])
    names = [name for operator in group for name in operator.results["Out"]]
    call.scope.update(dict(zip(names, _tensors(made), strict=True)))
