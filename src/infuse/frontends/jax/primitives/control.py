"""Functions inside functions, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infuse import dtypes
from infuse.frontends.jax.calls import JaxCall, JaxImporter, primitive
from infuse.ir.graph import Value
from infuse.ir.types import TensorType

_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")


@primitive("jit", "pjit", "closed_call", "core_call", "core_closed_call", "remat", "remat2",
           "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
           "custom_vmap_call")  # fmt: skip
def inlined(call: JaxCall) -> list[Value]:
    """What a function does, in place of its call."""
    name = next((name for name in _BODIES if name in call.parameters), None)
    if name is None:
        raise call.unsupported("a call whose function is not told")
    return call.run(call.g, call[name], call.operands)


def _close(body: JaxImporter, results: Sequence[Value]) -> None:
    for number, value in enumerate(results):
        body.output(f"output_{number}", body("Identity", value))


@primitive("platform_index")
def platform_index(call: JaxCall) -> Value:
    """The number of the branch for CPUs, or of that for all platforms."""
    platforms = list(call["platforms"])
    number = next((i for i, names in enumerate(platforms) if names and "cpu" in names), None)
    if number is None and None not in platforms:
        raise call.unsupported("a function that has nothing for CPUs")
    return call.g.number(platforms.index(None) if number is None else number, call.dtype)


@primitive("cond")
def cond(call: JaxCall) -> list[Value]:
    """What the branch does that the first operand has the number of."""
    branches = call["branches"]
    if call.x.const is not None:
        place = min(max(int(call.x.const), 0), len(branches) - 1)
        return call.run(call.g, branches[place], call.operands[1:])
    number = call.g.cast(call.x, dtypes.int64)
    return _branch(call, call.g, branches, 0, number)


def _branch(
    call: JaxCall, g: JaxImporter, branches: Sequence[Any], first: int, number: Value
) -> list[Value]:
    """The results of one of the branches from the first on; the last one stands for all above."""
    if first == len(branches) - 1:
        return call.run(g, branches[first], call.operands[1:])
    if not call.types:
        return []
    then, other = g.body("then_branch"), g.body("else_branch")
    _close(then, call.run(then, branches[first], call.operands[1:]))
    _close(other, _branch(call, other, branches, first + 1, number))
    chosen = g("LessOrEqual", number, g.number(first, dtypes.int64))
    bodies = {"then_branch": then, "else_branch": other}
    return g.control(len(call.types), "If", chosen, bodies=bodies)


@primitive("while")
def while_(call: JaxCall) -> list[Value]:
    """A state that a function changes as long as another one says so."""
    g, run = call.g, call.run
    asked, done = int(call["cond_nconsts"]), int(call["body_nconsts"])
    asking, doing = call.operands[:asked], call.operands[asked : asked + done]
    start = call.operands[asked + done :]
    if not start:
        return []
    (going,) = run(g, call["cond_jaxpr"], [*asking, *start])
    batched = going.rank > 0
    body = g.body("body")
    body.typed_input("iteration", TensorType(dtypes.int64, ()))
    body.typed_input("going", TensorType(dtypes.bool_, ()))
    state = [body.typed_input(f"state_{i}", type) for i, type in enumerate(call.types)]
    after = run(body, call["body_jaxpr"], [*doing, *state])
    if batched:
        (live,) = run(body, call["cond_jaxpr"], [*asking, *state])
        after = [_where(body, live, new, old) for new, old in zip(after, state)]
    (further,) = run(body, call["cond_jaxpr"], [*asking, *after])
    _close(body, [_any(body, further), *after])
    return g.control(len(start), "Loop", None, _any(g, going), *start, bodies={"body": body})


def _any(g: JaxImporter, conditions: Value) -> Value:
    """Whether one of the conditions of a batch holds."""
    return g("ReduceMax", conditions, keepdims=0) if conditions.rank else conditions


def _where(g: JaxImporter, live: Value, new: Value, old: Value) -> Value:
    """A state that changes where the condition of its part of the batch holds."""
    return g("Where", g.reshape(live, *live.shape, *[1] * (new.rank - live.rank)), new, old)


@primitive("scan")
def scan(call: JaxCall) -> list[Value]:
    """A state that a function changes with one slice of arrays after the other, and what it makes
    of them, put together.
    """
    g = call.g
    constants, carried = int(call["num_consts"]), int(call["num_carry"])
    fixed = call.operands[:constants]
    start, rows = call.operands[constants:][:carried], call.operands[constants + carried :]
    if not call.types:
        return []
    counted = not rows
    if counted:
        rows = [g.indices(call.size(call["length"]))]
    body = g.body("body")
    state = [body.typed_input(f"state_{i}", type) for i, type in enumerate(call.types[:carried])]
    slices = [
        body.typed_input(f"row_{i}", TensorType(row.dtype, row.shape[1:]))
        for i, row in enumerate(rows)
    ]
    _close(body, call.run(body, call["jaxpr"], [*fixed, *state, *([] if counted else slices)]))
    way = int(bool(call["reverse"]))
    return g.control(
        len(call.types), "Scan", *start, *rows, bodies={"body": body}, num_scan_inputs=len(rows),
        scan_input_directions=(way,) * len(rows),
        scan_output_directions=(way,) * (len(call.types) - carried),
    )  # fmt: skip
