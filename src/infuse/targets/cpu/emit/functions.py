"""The headers and the kernels of functions of programs in C++."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from infuse.lowering.expressions import Estimate, Expression, Invocation, Operation
from infuse.lowering.program import Function, Program, Step
from infuse.lowering.statements import (
    Arrays,
    Constant,
    CopyElements,
    Define,
    If,
    InterleavePlanes,
    MapCall,
    MapWork,
    Repeat,
    Require,
    Scope,
    Scratch,
    Statement,
    Work,
)
from infuse.targets.cpu.emit.language import CPP
from infuse.targets.cpu.emit.shared import Shared
from infuse.targets.cpu.families.base import HEADERS

_KERNEL: Final = re.compile(r"\b(\w+(?:<(?:[\w, ]|<[\w, ]+>)+>)?)\(c, ")
"""A call of a kernel, whose first argument is the context."""
_NEEDED: WeakKeyDictionary[Function, frozenset[str]] = WeakKeyDictionary()
_INVOKED: Final = {
    "all_at_most": "sizes.h",
    "all_equal": "sizes.h",
    "axis_index": "sizes.h",
    "count_nonzero": "sizes.hpp",
    "do_broadcast": "whole.h",
    "expand_sizes": "sizes.h",
    "is_possible": "sizes.h",
    "pad_sizes": "sizes.h",
    "range_count": "sizes.hpp",
    "reduced_sizes": "sizes.h",
    "reshape_sizes": "sizes.h",
    "slice_ranges": "sizes.h",
    "squeeze_sizes": "sizes.h",
    "unsqueeze_sizes": "sizes.h",
}
"""The headers of functions of sizes."""


def headers_of(function: Function) -> frozenset[str]:
    """The headers that a finished function needs."""
    headers = _NEEDED.get(function)
    if headers is None:
        own = {HEADERS[p.sizes] for p in function.parameters if p.sizes is not None}
        own |= {"half.hpp"} if function.stores_rounded else set()
        own |= {"blocks.h"} if function.is_control else set()
        inner = map(_headers, _all(function.statements))
        headers = _NEEDED[function] = frozenset(function.includes.union(own, *inner))
    return headers


def _headers(statement: Statement) -> set[str]:
    match statement:
        case MapWork(work=work):
            return {"map.hpp", "element.hpp", *(["failure.h"] if work.divides else [])}
        case Work():
            return {"element.hpp"}
        case CopyElements():
            return {"copy.hpp"}
        case InterleavePlanes():
            return {"interleave.hpp"}
        case Require(condition=condition):
            return {"failure.h", *_invoked(condition)}
        case Constant(value=value):
            return set(_invoked(value))
        case Arrays(lists=lists):
            return {
                header for _, elements in lists for each in elements for header in _invoked(each)
            }
    return set()


def _invoked(expression: Expression) -> Iterator[str]:
    """The headers of what an expression calls."""
    match expression:
        case Invocation(function, arguments):
            if function in _INVOKED:
                yield _INVOKED[function]
            for argument in arguments:
                yield from _invoked(argument)
        case Operation(_, operands):
            for operand in operands:
                yield from _invoked(operand)
        case Estimate():
            yield "whole.h"


def _all(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Statements, and those inside of them."""
    for statement in statements:
        yield statement
        match statement:
            case If(then=then, otherwise=otherwise):
                yield from _all((*then, *otherwise))
            case Repeat(body=body) | Define(body=body) | Scope(body=body) | MapCall(body=body):
                yield from _all(body)


def shared_of(function: Function) -> set[Shared]:
    """What the kernels of a function share with those of other models."""
    copies = [s for s in _all(function.statements) if isinstance(s, CopyElements)]
    own = {Shared("copy.hpp", "INFUSE_SHARED_COPY", (s.bytes,)) for s in copies}
    return {Shared(*each) for each in function.shared} | own


def call_headers(program: Program) -> set[str]:
    """The headers of what calls of a program name: structs of sizes, and what tells the scratch
    memory.
    """
    scratch = {each.header for each in (*program.scratch, *_scratch(program.steps))}
    structs = {
        HEADERS[parameter.sizes]
        for step in program.steps
        for parameter in step.function.parameters
        if parameter.sizes is not None
    }
    return scratch | structs


def _scratch(steps: Sequence[Step]) -> Iterator[Scratch]:
    for step in steps:
        yield from step.scratch


def kernels_in(function: Function) -> str:
    """The names of the kernels that a function calls, with their sizes of tiles."""
    return ", ".join(dict.fromkeys(_KERNEL.findall("\n".join(CPP.body_of(function)))))
