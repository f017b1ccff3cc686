"""The calls of kernels in a lowered program, done in NumPy by what their families mean.

What that shows is all that stands between a node and its kernel: how weights are packed, sizes,
strides, and where pointers begin, for any target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from infuse.codegen.kernel_table import has_kernel
from infuse.codegen.program import SizeResult, Step
from infuse.codegen.tensors import Tensor
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Value
from infuse.targets.cpu.emit import statements as cpp
from infuse.targets.cpu.emit.statements import KernelCall
from infuse.targets.cpu.families.base import MEANINGS, Arguments, Struct
from infuse.testing import epilogues
from infuse.testing.epilogues import check_work, sink_of
from infuse.testing.kernel_results import Made, result_of

_CAST = re.compile(r"\(const \w+\*\)")
_PARAMETER = re.compile(r"(?:p|n|sizes)(\d+)")
_RESULT = re.compile(r"\*s(\d+)")
_MARK = re.compile(r"(as_\w+)\((\w+)\)")
_NUMBER = re.compile(r"(-?\d+)L?|(-?[\d.]+(?:e[-+]?\d+)?)f")
_WORDS = {"nullptr": None, "true": True, "false": False}
TOLERANCES = {"bf16": 4e-2, "Pairs": 4e-2, "fp16": 1e-2, "Halves": 1e-2}
"""How far what a node means may be from what its kernel is given, relative to the largest element,
by what the kernel or what it is specialized for is called after: bfloat16 has 8 bits, halves have
11, and transformed filters are rounded after the transform.
"""
ROUNDING = 1e-4


class KernelError(AssertionError):
    """A kernel is called so that it does not compute its node."""


class Memory(Protocol):
    """Where a lowered program runs: the values of its graph, and what its memory holds."""

    values: Mapping[Value, Array]
    lanes: int

    def size(self, size: Dim) -> int:
        """A size as a number."""
        ...

    def elements(self, tensor: Tensor) -> Array:
        """What lies from the first element of a tensor on, flat."""
        ...

    def place(self, value: Value) -> Tensor:
        """Where a value lies."""
        ...


def check_calls(step: Step, results: Sequence[Value], memory: Memory) -> int:
    """How many calls of kernels in a step were done, and agree with what the step's nodes mean.

    `results`: the values that it leaves in memory. KernelError where a call gives something else.
    """
    call = _call_of(step)
    anchors = [n for n in step.sources if has_kernel(n.op.domain, n.kind)]
    if call is None or len(anchors) != 1:
        return 0
    node, target = anchors[0], _target(step, call)
    output = next((v for v in results if v in node.outputs), node.outputs[0])
    tensors = [a for a in step.arguments if isinstance(a, Tensor)]
    if target is None:
        expected = result_of(Made(node, output, memory.values, tensors))
    else:
        expected = memory.values[output] if output in results else None
    if expected is None or not np.isfinite(expected.astype(np.float64)).all():
        return 0
    what = f"{call.kernel} in step {step.label} of {node.kind} node {node.name!r}"
    result = _computed(step, call, memory, what, None if target is None else memory.place(output))
    if result is None:
        return 0
    if not _agree(result.astype(np.float64), expected.astype(np.float64), _tolerance(call)):
        raise KernelError(f"{what} is given other operands than those of the node")
    sink = call.arguments[-1]
    work = sink_of(step, sink) if isinstance(sink, str) else None
    if work is not None and result.ndim == 2:
        place = epilogues.Memory(memory.size, memory.elements)
        how = memory.values, place, _tolerance(call)
        check_work(work, step, result, result.shape, *how)
    return 1


def scratch_made(step: Step, memory: Memory) -> tuple[Tensor, Array] | None:
    """A tensor that the kernel of a step writes itself, and what it leaves there; None where that
    is not stated.
    """
    call = _call_of(step)
    target = None if call is None else _target(step, call)
    if call is None or target is None:
        return None
    made = _computed(step, call, memory, f"{call.kernel} in step {step.label}", target)
    return None if made is None else (target, made)


def sizes_told(step: Step, memory: Memory) -> dict[str, int]:
    """The sizes that a step tells, as far as statements tell how, by symbol."""
    if not any(isinstance(argument, SizeResult) for argument in step.arguments):
        return {}
    told, names = {}, _Names(step, memory)
    for statement in step.function.statements:
        for place, value in statement.pairs if isinstance(statement, cpp.Assign) else ():
            result = _RESULT.fullmatch(place)
            argument = step.arguments[int(result[1])] if result else None
            number = names.value(value)
            if isinstance(argument, SizeResult) and isinstance(number, int):
                told[argument.symbol] = number
    return told


def _computed(
    step: Step, call: KernelCall, memory: Memory, what: str, place: Tensor | None
) -> Array | None:
    """What a kernel hands to its sink, or leaves in `place`; KernelError where it reads or writes
    elsewhere.
    """
    try:
        result = MEANINGS[call.kernel](_Names(step, memory).arguments(call))
        target = _target(step, call)
        if result is None or place is None or target is None:
            return result
        written: Array = result[_places(place, target, memory.size)]
    except (IndexError, ValueError) as error:
        raise KernelError(f"{what} leaves its operands: {error}") from error
    return written


def _call_of(step: Step) -> KernelCall | None:
    """The call of a step that calls one kernel, if that has a meaning."""
    calls = [s for s in step.function.statements if isinstance(s, KernelCall)]
    return calls[0] if len(calls) == 1 and calls[0].kernel in MEANINGS else None


def _target(step: Step, call: KernelCall) -> Tensor | None:
    """The tensor that a kernel writes itself, without a sink."""
    names = [_PARAMETER.fullmatch(text) for text in _separate(call) if isinstance(text, str)]
    numbers = [int(name[1]) for name in names if name is not None]
    written = [step.arguments[n] for n in numbers if _is_written(step, n)]
    tensors = [argument for argument in written if isinstance(argument, Tensor)]
    return tensors[0] if len(tensors) == 1 else None


def _separate(call: KernelCall) -> Iterator[cpp.Expression]:
    for argument in call.arguments:
        yield from argument.split(", ") if isinstance(argument, str) else (argument,)


def _is_written(step: Step, number: int) -> bool:
    return not step.function.parameters[number].startswith("const ")


def _tolerance(call: KernelCall) -> float:
    text = " ".join((call.kernel, *call.template))
    return max((t for name, t in TOLERANCES.items() if name in text), default=ROUNDING)


def _agree(result: Array, expected: Array, tolerance: float) -> bool:
    """Whether results agree; in rows of as many columns, unless there is one for each row."""
    columns = result.shape[-1:]
    if result.size != expected.size or columns not in (expected.shape[-1:], (1,), ()):
        return False
    allowed = tolerance * float(np.abs(expected).max(initial=1e-30))
    return bool((np.abs(result.reshape(expected.shape) - expected) <= allowed).all())


def _places(tensor: Tensor, pointer: Tensor, number: Callable[[Dim], int]) -> Array:
    """Where the elements of a tensor lie, counted from a pointer; IndexError where they lie
    elsewhere.
    """
    if tensor.buffer.root() is not pointer.buffer.root():
        raise IndexError("it writes to another place")
    places = np.array(number(tensor.offset) - number(pointer.offset))
    for size, stride in zip(tensor.shape, tensor.strides):
        places = np.add.outer(places, np.arange(number(size)) * number(stride))
    if places.min(initial=0) < 0:
        raise IndexError("it writes behind the first element of its result")
    return places


class _Names:
    """What the names in the function of a step stand for."""

    def __init__(self, step: Step, memory: Memory) -> None:
        self.step, self.memory = step, memory
        self._locals: dict[str, Any] = {}
        for statement in step.function.statements:
            self._define(statement)

    def _define(self, statement: cpp.Statement) -> None:
        match statement:
            case cpp.Loader(name, pointer, columns):
                fields = self.value(pointer), self.value(columns)
                self._locals[name] = Struct("Loader", fields)
            case cpp.Constant(_, name, value):
                self._locals[name] = self.value(value)
            case cpp.Variable(_, values):
                self._locals.update((name, self.value(value)) for name, value in values)
            case cpp.Assign(pairs):
                for place, value in pairs:
                    self._assign(place, value)

    def _assign(self, place: str, value: cpp.Expression) -> None:
        name, _, field = place.partition(".")
        struct = self._locals.get(name)
        if field and isinstance(struct, Struct):
            named = {**struct.named, field: self.value(value)}
            self._locals[name] = replace(struct, named=named)

    def value(self, expression: cpp.Expression) -> Any:
        """What an expression stands for; itself where that is not stated."""
        match expression:
            case cpp.Aggregate(kind, fields):
                return Struct(kind, tuple(map(self.value, fields)))
            case cpp.Calculated(_, operands, meaning):
                return meaning(*map(self.value, operands))
            case cpp.PrintedSize(_, size):
                return self.memory.size(size)
        name = _CAST.sub("", expression)
        if name in self._locals or name in _WORDS:
            return self._locals[name] if name in self._locals else _WORDS[name]
        parameter, number = _PARAMETER.fullmatch(name), _NUMBER.fullmatch(name)
        if parameter is not None:
            return self._argument(int(parameter[1]), name)
        if number is not None:
            return int(number[1]) if number[1] else float(number[2])
        return expression

    def _argument(self, number: int, name: str) -> Any:
        argument = self.step.arguments[number]
        if isinstance(argument, Tensor):
            return name if _is_written(self.step, number) else self.memory.elements(argument)
        if isinstance(argument, SizeResult):
            return name
        if isinstance(argument, tuple):
            size = self.memory.size
            fields = [n if isinstance(n, bool) else size(n) for n in argument]
            kind: Any = type(argument)
            return kind(*fields)
        return self.memory.size(argument)

    def arguments(self, call: KernelCall) -> Arguments:
        """All that a kernel is called with."""
        words: list[str] = []
        operands, numbers, values, sizes = [], [], [], None
        for text in _separate(call):
            mark = _MARK.fullmatch(text) if isinstance(text, str) else None
            words += [mark[1]] if mark else []
            value = self.value(mark[2] if mark else text)
            values.append(value)
            is_parameter = isinstance(text, str) and _PARAMETER.fullmatch(_CAST.sub("", text))
            if isinstance(value, np.ndarray):
                operands.append(value.astype(np.float64))
            elif isinstance(value, tuple):
                sizes = value
            elif is_parameter and isinstance(value, int):
                numbers.append(value)
            elif isinstance(text, str) and not is_parameter:
                words.append(text)
        given = tuple(operands), tuple(numbers), tuple(words)
        return Arguments(sizes, *given, call.template, self.memory.lanes, tuple(values))
