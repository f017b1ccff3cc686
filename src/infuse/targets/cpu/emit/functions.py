"""Functions of programs as C++: parameters, bodies, and the headers that these need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from infuse.lowering.expressions import Estimate, Expression, Invocation, Operation
from infuse.lowering.program import Function, Parameter, Program, Step
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
from infuse.targets.cpu.emit.formulas import scalar_type
from infuse.targets.cpu.emit.shared import Shared
from infuse.targets.cpu.emit.statements import lines
from infuse.targets.cpu.families.base import HEADERS

_KERNEL: Final = re.compile(r"\b(\w+(?:<(?:[\w, ]|<[\w, ]+>)+>)?)\(c, ")
"""A call of a kernel, whose first argument is the context."""
_TEXTS: WeakKeyDictionary[Function, str] = WeakKeyDictionary()
_NEEDED: WeakKeyDictionary[Function, frozenset[str]] = WeakKeyDictionary()
_INVOKED: Final = {
    "axis_index": "sizes.hpp",
    "count_nonzero": "sizes.hpp",
    "do_broadcast": "failure.hpp",
    "expand_sizes": "sizes.hpp",
    "is_possible": "sizes.hpp",
    "pad_sizes": "sizes.hpp",
    "range_count": "sizes.hpp",
    "reshape_sizes": "sizes.hpp",
    "slice_ranges": "sizes.hpp",
    "squeeze_sizes": "sizes.hpp",
    "unsqueeze_sizes": "sizes.hpp",
}
"""The headers of functions of sizes."""


def pointer_type(parameter: Parameter) -> str:
    """The type of a parameter that leads to a tensor."""
    assert parameter.dtype is not None
    return f"{'' if parameter.is_written else 'const '}{parameter.dtype.c_name}*"


def parameter_text(parameter: Parameter) -> str:
    """The declaration of a parameter."""
    match parameter.kind:
        case "tensor":
            return f"{pointer_type(parameter)} {parameter.name}"
        case "number":
            assert parameter.dtype is not None
            return f"const {scalar_type(parameter.dtype)} {parameter.name}"
        case "sizes":
            assert parameter.sizes is not None
            return f"const {parameter.sizes.__name__}& {parameter.name}"
        case "found size":
            return f"long* {parameter.name}"
    return f"const long {parameter.name}"


def body_of(function: Function) -> list[str]:
    """The lines of a function's body."""
    return [line for statement in function.statements for line in lines(statement)]


def text_of(function: Function) -> str:
    """Parameters and body: the identity of a function."""
    text = _TEXTS.get(function)
    if text is None:
        parameters = ", ".join(map(parameter_text, function.parameters))
        text = _TEXTS[function] = parameters + "\n" + "\n".join(body_of(function))
    return text


def headers_of(function: Function) -> frozenset[str]:
    """The headers that a finished function needs."""
    headers = _NEEDED.get(function)
    if headers is None:
        own = {HEADERS[p.sizes] for p in function.parameters if p.sizes is not None}
        own |= {"half.hpp"} if function.stores_rounded else set()
        own |= {"blocks.hpp"} if function.is_control else set()
        inner = map(_headers, _all(function.statements))
        headers = _NEEDED[function] = frozenset(function.includes.union(own, *inner))
    return headers


def _headers(statement: Statement) -> set[str]:
    match statement:
        case MapWork(work=work):
            return {"map.hpp", "element.hpp", *(["failure.hpp"] if work.divides else [])}
        case Work():
            return {"element.hpp"}
        case CopyElements():
            return {"copy.hpp"}
        case InterleavePlanes():
            return {"interleave.hpp"}
        case Require(condition=condition):
            return {"failure.hpp", *_invoked(condition)}
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
            yield "element.hpp"


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
    return ", ".join(dict.fromkeys(_KERNEL.findall("\n".join(body_of(function)))))
