"""Control flow over subgraphs, and variables."""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, alike, builtin
from infuse.frontends.tflite.model import LiteTensor
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer


def _close(g: Importer, values: Sequence[Value]) -> None:
    for number, value in enumerate(values):
        g.output(f"output_{number}", g("Identity", value))


def _agree(
    call: LiteCall, subgraph: int, passed: Sequence[LiteTensor], made: Sequence[LiteTensor]
) -> None:
    """ModelFileError unless scaled integers mean the same in a subgraph and around it."""
    for part, others in zip(call.scope.signature(subgraph), (passed, made)):
        for inside, outside in zip(part, others):
            if inside.type == outside.type and not alike(inside, outside):
                raise ModelFileError(
                    f"{outside.name!r} is {inside.name!r} in subgraph {subgraph}, of another scale"
                )


def _results(call: LiteCall) -> list[LiteTensor]:
    return [call.result(number) for number in range(call.results)]


@builtin("IF")
def if_(call: LiteCall) -> list[Value]:
    """The results of one subgraph where operand 0 holds, else of another."""
    operands = [call.raw(index) for index in range(1, call.count)]
    bodies = {}
    for name in ("then", "else"):
        inner = call.g.body(f"{name}_branch")
        index = int(call.option(f"{name}_subgraph_index"))
        _agree(call, index, [call.tensor(i) for i in range(1, call.count)], _results(call))
        _close(inner, call.scope.inner(inner, index, operands))
        bodies[f"{name}_branch"] = inner
    counts = {len(inner.graph.outputs) for inner in bodies.values()}
    if len(counts) != 1:
        raise ModelFileError("its subgraphs have different numbers of results")
    condition = call.g("Reshape", call.raw(0), call.g.ints())
    return call.g.control(counts.pop(), "If", condition, bodies=bodies)


@builtin("WHILE")
def while_(call: LiteCall) -> list[Value]:
    """What a subgraph makes of the operands, again and again while another one holds for them."""
    g, scope = call.g, call.scope
    condition, body = (int(call.option(f"{n}_subgraph_index")) for n in ("cond", "body"))
    operands = [call.raw(index) for index in range(call.count)]
    tensors = [call.tensor(index) for index in range(call.count)]
    _agree(call, condition, tensors, ())
    _agree(call, body, tensors, tensors)
    _agree(call, body, (), _results(call))
    inner = g.body("body")
    inner.typed_input("iteration", g.number(0, dtypes.int64).type)
    inner.typed_input("going", g.number(0, dtypes.bool_).type)
    carried = [
        inner.typed_input(f"carried_{number}", value.type) for number, value in enumerate(operands)
    ]
    results = scope.inner(inner, body, carried)
    if len(results) != len(carried):
        raise ModelFileError(f"its body makes {len(results)} of {len(carried)} operands")
    _close(inner, [_going(call, inner, condition, results), *results])
    first = _going(call, g, condition, operands)
    return g.control(len(operands), "Loop", None, first, *operands, bodies={"body": inner})


def _going(call: LiteCall, g: Importer, condition: int, values: Sequence[Value]) -> Value:
    results = call.scope.inner(g, condition, values)
    if len(results) != 1 or not results[0].dtype.is_bool:
        raise ModelFileError("its condition does not make one truth value")
    return g("Reshape", results[0], g.ints())


@builtin("CALL")
def call_(call: LiteCall) -> list[Value]:
    """The results of a subgraph."""
    operands = [call.raw(index) for index in range(call.count)]
    subgraph = int(call.option("subgraph"))
    _agree(call, subgraph, [call.tensor(index) for index in range(call.count)], _results(call))
    return call.scope.inner(call.g, subgraph, operands)
