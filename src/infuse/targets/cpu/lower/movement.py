"""Operators that move elements: padding, repetition, ranges, filled tensors."""

from __future__ import annotations

import numpy as np

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import enumerator
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.operators.pads import centered, pads_before, stated_pads
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.table import lowers
from infuse.targets.text.literals import literal

_MODES = ("constant", "reflect", "edge", "wrap")
"""As kernels/pad.hpp numbers them."""


@lowers("Pad", runtime_inputs=(0, 2))
def pad(low: Lowering, node: Node, group: Group) -> None:
    stated = stated_pads(node)
    before = pads_before(low, node)
    source = low.storage.tensor(operand(node))
    target = low.storage.allocate(node.output, source.order)
    constant = node.op.attributes()["mode"] == "constant"
    grows = all(dims.is_nonnegative(p) for p in (*before, *_pads_after(node, before)))
    if stated and constant and grows and _fill_number(node) is not None:
        fill(low, target, _fill_number(node), node)
        inside = target
        for axis, size in enumerate(source.shape):
            inside = inside.slice(axis, before[axis], size)
        low.storage.copy(source, inside, "pad", node)
    else:
        _padded(low, node, low.storage.arranged(source, target.order), target, before)
    low.storage.tensors[node.output] = target


def _pads_after(node: Node, before: list[Dim]) -> list[Dim]:
    sizes = zip(node.output.shape, operand(node).shape, before)
    return [out - size - first for out, size, first in sizes]


def _fill_number(node: Node) -> float | int | bool | None:
    """The fill value where it is a constant."""
    value = node.input(2)
    if value is None:
        return 0
    return None if value.const is None else value.const.reshape(-1)[0].item()


def _padded(low: Lowering, node: Node, source: Tensor, target: Tensor, before: list[Dim]) -> None:
    """All modes, positive and negative amounts, on dense tensors of the same order; elements move
    as bits, so that types of a size share the function.
    """
    f = low.function("pad", node)
    f.include("pad.hpp")
    value = node.input(2)
    moved = source.bits.dtype
    if value is None or value.const is not None:
        f.constant("value", _bits(_fill_number(node) or 0, source), type=moved.c_name)
        number = "&value"
    else:
        number = f.read(low.storage.dense(value).bits)
    order = source.order or (0,)
    for name, each in (("size", source.shape), ("begin", before), ("out", target.shape)):
        f.array(name, f.numbers(*(each[a] if each else 1 for a in order)))
    mode = enumerator("PadMode", _MODES, node.op.attributes().get("mode", "constant"))
    sizes = len(order), "size", "begin", "out"
    ends = f.read(source.bits), f.write(target.bits)
    f.call("pad_nd", *sizes, mode, number, *ends, template=(moved.bytes,))
    f.finish("pad")


def fill(
    low: Lowering, target: Tensor, number: float | int | bool | None, node: Node | None
) -> None:
    """A step that writes one number everywhere."""
    assert number is not None
    f = low.function("fill", node)
    f.include("copy.hpp")
    f.call("fill", f.write(target.bits), f.number(target.size), _bits(number, target))
    f.finish("fill")


def _bits(number: float | int | bool, tensor: Tensor) -> str:
    """A number as an element of a tensor, as text of its bits (`Tensor.bits`)."""
    element = np.asarray(number).astype(tensor.dtype.numpy).reshape(1)
    moved = tensor.bits.dtype
    return literal(int(element.view(moved.numpy)[0]), moved)


@lowers("ConstantOfShape", runtime_inputs=())
def constant_of_shape(low: Lowering, node: Node, group: Group) -> None:
    target = low.storage.allocate(node.output)
    fill(low, target, node.op.attributes()["value"], node)
    low.storage.tensors[node.output] = target


@lowers("Range")
def range_(low: Lowering, node: Node, group: Group) -> None:
    start, step = (low.storage.tensor(operand(node, i)) for i in (0, 2))
    target = low.storage.allocate(node.output)
    f = low.function("range", node)
    f.include("sequence.hpp")
    first, delta = (_single(f, t) for t in (start, step))
    f.call("range", first, delta, f.number(node.output.shape[0]), f.write(target))
    f.finish("range")
    low.storage.tensors[node.output] = target


def _single(f: FunctionWriter, tensor: Tensor) -> str:
    """C++ text of the only element of a tensor."""
    return f"{f.read(tensor)}[0]"


@lowers("CenterCropPad", runtime_inputs=(0,))
def center_crop_pad(low: Lowering, node: Node, group: Group) -> None:
    data, target = operand(node), low.storage.allocate(node.output)
    before = centered(node)
    _padded(low, node, low.storage.arranged(low.storage.tensor(data), target.order), target, before)
    low.storage.tensors[node.output] = target
