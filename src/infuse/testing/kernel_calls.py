"""The calls of kernels in a lowered program, done in NumPy by what their families mean.

What that shows is all that stands between a node and its kernel: how weights are packed, sizes,
strides, and where pointers begin, for any target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from infuse.codegen.kernel_table import has_kernel
from infuse.codegen.program import Argument, SizeResult, Step
from infuse.codegen.tensors import Tensor, channels_last
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Node, Value
from infuse.ops.domains.microsoft import DOMAIN
from infuse.targets.cpu.emit.statements import KernelCall
from infuse.targets.cpu.families.base import MEANINGS, Arguments
from infuse.testing.function_values import scope_of
from infuse.testing.kernel_results_data import RESULTS

_CAST = re.compile(r"\(const \w+\*\)")
_PARAMETER = re.compile(r"(?:p|n|sizes)(\d+)")
_MARK = re.compile(r"(as_\w+)\((\w+)\)")
TOLERANCES = {"bf16": 4e-2, "Pairs": 4e-2, "fp16": 1e-2, "Halves": 1e-2}
"""How far what a node means may be from what its kernel is given, relative to the largest element,
by what the kernel or what it is specialized for is called after: bfloat16 has 8 bits, halves have
11, and transformed filters are rounded after the transform.
"""
ROUNDING = 1e-4


class KernelError(AssertionError):
    """A kernel is called so that it does not compute its node."""


def check_calls(
    step: Step,
    values: Mapping[Value, Array],
    number: Callable[[Dim], int],
    elements: Callable[[Tensor], Array],
    lanes: int,
) -> int:
    """How many calls of kernels in a step were done, and agree with what the step's nodes mean.

    `values`: of the graph. `number`: a size as a number. `elements`: what lies from the first
    element of a tensor on, flat. KernelError where a call gives something else.
    """
    calls = [s for s in step.function.statements if isinstance(s, KernelCall)]
    anchors = [n for n in step.sources if has_kernel(n.op.domain, n.kind)]
    if len(anchors) != 1 or len(calls) != 1 or calls[0].kernel not in MEANINGS:
        return 0
    (call,), (node,) = calls, anchors
    meant = RESULTS.get((node.op.domain, node.kind))
    expected = product_of(node, values) if meant is None else meant(call.kernel, node, values)
    if expected is None or not np.isfinite(expected).all():
        return 0
    arguments = _arguments(call, step.arguments, number, elements, lanes)
    scope = scope_of(step, number, lambda p: elements(p.tensor)[p.start :], {})
    shown = (inner.shown(call) for _, inner in scope.run(step.function.statements))
    arguments = replace(arguments, arguments=next(shown))
    what = f"{call.kernel} in step {step.label} of {node.kind} node {node.name!r}"
    try:
        result = MEANINGS[call.kernel](arguments)
    except (IndexError, ValueError) as error:
        raise KernelError(f"{what} leaves its operands: {error}") from error
    if result is None:
        return 0
    text = " ".join((call.kernel, *call.template))
    tolerance = max((t for name, t in TOLERANCES.items() if name in text), default=ROUNDING)
    allowed = tolerance * float(np.abs(expected).max(initial=1e-30))
    rows = result.reshape(expected.shape) if result.size == expected.size else None
    if rows is None or np.abs(rows - expected).max(initial=0) > allowed:
        raise KernelError(f"{what} is given other operands than those of the node")
    return 1


def product_of(node: Node, values: Mapping[Value, Array]) -> Array | None:
    """What a node computes without its bias, in the order of a sink; None for other operators than
    products, convolutions and pooling.
    """
    result = values[node.outputs[0]].astype(np.float64)
    kind, attributes = (node.op.domain, node.kind), node.op.attributes()
    if kind in _ADDENDS:
        addend = node.input(_ADDENDS[kind])
        beta, alpha = float(attributes.get("beta", 1)), float(attributes.get("alpha", 1))
        if addend is not None:
            result = result - beta * _array(addend, values)
        return result / alpha if alpha else None
    if kind == ("", "MatMulInteger"):
        return result
    if kind not in _IMAGES:
        return None
    bias = node.input(2) if node.kind == "Conv" else None
    if bias is not None:
        result = result - _array(bias, values).reshape(-1, *(1,) * (result.ndim - 2))
    rows: Array = result.transpose(channels_last(result.ndim))
    return rows


_ADDENDS = {("", "MatMul"): 2, ("", "Gemm"): 2, (DOMAIN, "MatMulNBits"): 5}
"""Products, and which input is added to them."""
_POOLS = ("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool")
_IMAGES = {("", kind) for kind in ("Conv", "ConvInteger", *_POOLS)}
"""What computes images, channels last."""


def _array(value: Value, values: Mapping[Value, Array]) -> Array:
    return values[value] if value.const is None else value.const


def _arguments(
    call: KernelCall,
    parameters: list[Argument],
    number: Callable[[Dim], int],
    elements: Callable[[Tensor], Array],
    lanes: int,
) -> Arguments:
    words: list[str] = []
    operands, numbers, sizes = [], [], None
    for text in ", ".join(map(str, call.arguments)).split(", "):
        mark = _MARK.fullmatch(text)
        words += [mark[1]] if mark else []
        name = mark[2] if mark else _CAST.sub("", text)
        parameter = _PARAMETER.fullmatch(name)
        argument = parameters[int(parameter[1])] if parameter else None
        if isinstance(argument, Tensor):
            operands.append(elements(argument).astype(np.float64))
        elif isinstance(argument, tuple):
            fields = [n if isinstance(n, bool) else number(n) for n in argument]
            sizes = argument._replace(**dict(zip(argument._fields, fields)))  # type: ignore[attr-defined]
        elif argument is None:
            words.append(text)
        elif not isinstance(argument, SizeResult):
            numbers.append(number(argument))
    return Arguments(sizes, tuple(operands), tuple(numbers), tuple(words), call.template, lanes)
