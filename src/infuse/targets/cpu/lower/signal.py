"""Fourier transforms, and the weights of mel filters."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Element, FieldOf, Size, infix
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.along import Along, along
from infuse.lowering.operators.operands import define, integers, operand, row_major
from infuse.lowering.tensors import Tensor, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.signal import DFT, STFT
from infuse.targets.cpu.table import lowers

Array = npt.NDArray[Any]
_MOST_RADIX = 13


@lowers("DFT", runtime_inputs=(0,))
def dft(low: Lowering, node: Node, group: Group) -> None:
    x, op, out = operand(node), node.op, node.output
    assert isinstance(op, DFT)
    line = along(low, node, x, node.input(2), -2, last=1)
    lengths = integers(low, node, 1, least=1)
    n = op.length(line.size, lengths[0] if lengths else None)
    results = op.results(n)
    _find_dft_sizes(low, node, line, n, results)
    parts, real = x.shape[-1], bool(op.inverse and op.onesided)
    inner = dims.floordiv(line.inner, parts)
    width = 1 if real else 2
    count = dims.minimum(line.size, n)
    source, target = row_major(low, x), low.storage.allocate(out)
    table = fourier_table(low, node, n)
    f = low.function("fourier", node)
    ends, begins = line.size * inner * parts, results * inner * width
    f.struct(
        "FourierShape",
        "shape",
        lines=f.number(line.outer * inner),
        n=f.number(n),
        count=f.number(count),
        parts=f.number(parts),
        out=f.number(results),
        back="true" if op.inverse else "false",
        real="true" if real else "false",
        **{"from": f.fields(group=inner, outer=ends, inner=parts, step=inner * parts)},
        to=f.fields(group=inner, outer=begins, inner=width, step=inner * width),
    )
    _transform(f, n, f.read(source), _null(x.dtype), f.read(table), target)
    f.finish("DFT")
    low.storage.tensors[out] = target


def _find_dft_sizes(low: Lowering, node: Node, line: Along, n: Dim, results: Dim) -> None:
    x, out = operand(node), node.output
    if isinstance(line.axis, int):
        if not low.are_known(node):
            define(
                low,
                node,
                out,
                (*x.shape[: line.axis], results, *x.shape[line.axis + 1 : -1], out.shape[-1]),
            )
        return
    f = low.function("sizes_of", node)
    f.fail_unless(infix(Size(n), ">", 0))
    f.arrays({"sizes": map(Size, (*x.shape[:-1], out.shape[-1]))}, constant=False)
    f.assign(Element("sizes", Size(line.axis)), Size(results))
    low.resolve_sizes(f, node, out.shape, "sizes")
    f.finish(f"DFT {node.name}: sizes")


def _null(dtype: DType) -> str:
    """No window."""
    return f"(const {dtype.c_name}*)nullptr"


def _transform(
    f: FunctionWriter, n: Dim, source: str, window: str, table: str, target: Tensor
) -> None:
    f.include("fourier.hpp")
    f.scratch("fourier_scratch", "fourier.hpp", n, str(target.dtype.bytes))
    parts = FieldOf("shape", "parts")
    f.end_when(infix(infix(parts, "<", 1), "||", infix(parts, ">", 2)), "BAD_SIZES")
    f.include("failure.h")
    f.checks = True
    f.call(
        "fourier", "shape", source, window, table, f.write(target), template=(target.dtype.c_name,)
    )


@lowers("STFT", runtime_inputs=(0, 2))
def stft(low: Lowering, node: Node, group: Group) -> None:
    x, op, out, window = operand(node), node.op, node.output, node.input(2)
    assert isinstance(op, STFT)
    steps, lengths = integers(low, node, 1, least=1), integers(low, node, 3, least=1)
    assert steps is not None
    batch, size, parts = x.shape
    n = lengths[0] if lengths else size if window is None else window.shape[0]
    _require_frame(low, node, size, n)
    frames, results = op.frames(size, steps[0], n), op.results(n)
    if not low.are_known(node):
        define(low, node, out, (batch, frames, results, 2))
    source, target = row_major(low, x), low.storage.allocate(out)
    weights = None if window is None else low.storage.dense(window)
    table = fourier_table(low, node, n)
    f = low.function("fourier", node)
    count = n if window is None else dims.minimum(n, window.shape[0])
    f.struct(
        "FourierShape",
        "shape",
        lines=f.number(batch * frames),
        n=f.number(n),
        count=f.number(count),
        parts=f.number(parts),
        out=f.number(results),
        back="false",
        real="false",
        **{"from": f.fields(group=frames, outer=size * parts, inner=steps[0] * parts, step=parts)},
        to=f.fields(group=frames, outer=frames * results * 2, inner=results * 2, step=2),
    )
    _transform(
        f,
        n,
        f.read(source),
        _null(x.dtype) if weights is None else f.read(weights),
        f.read(table),
        target,
    )
    f.finish("STFT")
    low.storage.tensors[out] = target


def _require_frame(low: Lowering, node: Node, size: Dim, n: Dim) -> None:
    """A check that a frame fits into the signal, where only the run tells."""
    if dims.compare(">=", size, n) is not True:
        f = low.function("check_frame", node)
        enough = infix(f.number(n), ">=", 1)
        f.fail_unless(infix(enough, "&&", infix(f.number(size), ">=", f.number(n))))
        f.finish(f"STFT {node.name}: sizes")


# -- roots of one ----------------------------------------------------------------------------------


def fourier_table(low: Lowering, node: Node, n: Dim) -> Tensor:
    """The table of kernels/fourier.hpp for transforms of length n: a weight, or made by a step."""
    dtype = node.output.dtype
    if isinstance(n, int):
        return low.program.weight(_table(n).astype(dtype.numpy))
    table = low.storage.scratch_tensor(dtype, (20 * n,), natural(1), "roots")
    f = low.function("fourier_table", node)
    f.include("fourier.hpp")
    f.scratch("fourier_table_scratch", "fourier.hpp", n, str(dtype.bytes))
    f.call("fourier_table", f.number(n), f.write(table), template=(dtype.c_name,))
    f.finish(f"{node.kind}: roots")
    return table


def _table(n: int) -> Array:
    """What `fourier_table` of the kernels makes, in float64."""
    m = _inner_length(n)
    if m == n:
        return _flat(_roots(np.arange(n), n))
    k = np.arange(n)
    chirp = _roots(k * k % (2 * n), 2 * n)
    filter = np.zeros(m, np.complex128)
    filter[:n] = chirp.conj()
    filter[m - k[1:]] = chirp[1:].conj()
    return _flat(
        np.concatenate([_roots(np.arange(m), m), np.fft.fft(filter) / m, chirp, _roots(k, n)])
    )


def _inner_length(n: int) -> int:
    rest = n
    for factor in range(2, _MOST_RADIX + 1):
        while rest > 1 and rest % factor == 0:
            rest //= factor
    return n if rest <= 1 else 1 << (2 * n - 2).bit_length()


def _roots(k: Array, n: int) -> Array:
    """exp(−2πi · k / n), exact for the quarters."""
    quarter = (8 * k // n + 1) // 2
    angle = np.pi / 2 * ((4 * k - quarter * n) / n)
    result: Array = np.exp(-1j * angle) * np.array([1, -1j, -1, 1j])[quarter % 4]
    return result


def _flat(numbers: Array) -> Array:
    return np.stack([numbers.real, numbers.imag], axis=-1).reshape(-1)


# -- mel -------------------------------------------------------------------------------------------


@lowers("MelWeightMatrix", runtime_inputs=(2, 3, 4))
def mel_weight_matrix(low: Lowering, node: Node, group: Group) -> None:
    out = node.output
    bins, length = (_count(low, node, i) for i in range(2))
    if not low.are_known(node):
        define(low, node, out, (dims.floordiv(length, 2) + 1, bins))
    target = low.storage.allocate(out)
    f = low.function("mel_weights", node)
    f.include("mel.hpp", "failure.h")
    numbers = [f"(double){f.read(low.storage.dense(operand(node, i)))}[0]" for i in range(2, 5)]
    sizes = f.numbers(bins, length)
    arguments, template = (sizes, *numbers, f.write(target)), (out.dtype.c_name,)
    f.call("mel_weights", *arguments, template=template, failure="BAD_SIZES", context=False)
    f.finish("MelWeightMatrix")
    low.storage.tensors[out] = target


def _count(low: Lowering, node: Node, index: int) -> Dim:
    numbers = integers(low, node, index, least=0)
    assert numbers is not None
    return numbers[0]
