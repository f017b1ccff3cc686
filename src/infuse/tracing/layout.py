"""Keeps images NCHW between operators that are NCHW here, although the file has them NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Value
from infuse.tracing.calls import words
from infuse.tracing.importer import Importer

POINTWISE: Final = frozenset(
    words("""Add Sub Mul Div Max Min Pow PRelu Clip Relu Sigmoid Tanh HardSwish LeakyRelu Elu
        Gelu Exp Log Sqrt Neg Abs Floor Ceil Round Reciprocal Identity Cast""")
)
TO_CHANNELS: Final = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
"""The order of axes that brings the channels, last in the file, behind the batch, by rank."""
FROM_CHANNELS: Final = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""The order that brings them back."""
_SCALED: Final = ("DequantizeLinear", "QuantizeLinear")


class LayoutImporter(Importer):
    """An importer that moves transposes behind the operators on their results: an operator whose
    operands are tensors in another order of their axes is built on the tensors themselves.

    Values that are left without a use are taken away by `tidy`.
    """

    def permute(self, value: Value, *perm: int) -> Value:
        """`value` with its axes in another order; that of a transpose's operand where it is one."""
        first = order_of(value)
        if first is None or len(first) != len(perm):
            return super().permute(value, *perm)
        source = value.producer.inputs[0] if value.producer is not None else None
        assert source is not None
        return super().permute(source, *(first[axis] for axis in perm))

    def several(self, count: int, kind: str, *operands: Any, **attributes: Any) -> list[Value]:
        """All `count` outputs of a new node, or of one before a transpose."""
        if count == 1:
            moved = self._moved(kind, operands, attributes)
            if moved is not None:
                values, changed, perm = moved
                (made,) = super().several(1, kind, *values, **changed)
                return [super().permute(made, *perm)]
        return super().several(count, kind, *operands, **attributes)

    def _moved(
        self, kind: str, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any], tuple[int, ...]] | None:
        """Operands and attributes before a transpose, and its order; None where there is none."""
        perm = next(filter(None, map(order_of, operands)), None)
        if perm is None:
            return None
        if kind == "Pad":
            return self._padded(operands, attributes, perm)
        if kind == "Concat":
            values = [_source(v) if order_of(v) == perm else None for v in operands]
            if None in values:
                return None
            return values, {**attributes, "axis": perm[attributes["axis"]]}, perm
        if kind in _SCALED and all(v is None or v.is_const for v in operands[1:]):
            single = all(v is None or (v.const is not None and not v.rank) for v in operands[1:])
            return ([_source(operands[0]), *operands[1:]], attributes, perm) if single else None
        if kind not in POINTWISE:
            return None
        before = [self._before(operand, perm) for operand in operands]
        return None if _UNMOVED in before else (before, attributes, perm)

    def _padded(
        self, operands: Sequence[Any], attributes: dict[str, Any], perm: tuple[int, ...]
    ) -> tuple[list[Any], dict[str, Any], tuple[int, ...]] | None:
        x, pads, *rest = operands
        if pads.const is None or pads.const.size != 2 * len(perm) or len(rest) > 1:
            return None
        order = np.argsort(perm)
        moved = pads.const.reshape(2, -1)[:, order].reshape(-1)
        return [_source(x), self.constant(moved), *rest], attributes, perm

    def _before(self, operand: Any, perm: tuple[int, ...]) -> Any:
        """An operand before the transpose: its own operand, or one with its axes exchanged that is
        small or already there so.
        """
        if not isinstance(operand, Value):
            return operand
        if operand.tensor.shape is None:
            return _UNMOVED
        if operand.rank == 0:
            return operand
        if order_of(operand) == perm:
            return _source(operand)
        back = np.argsort(perm).tolist()
        if operand.const is not None and operand.rank <= len(perm):
            shape = (1,) * (len(perm) - operand.rank) + operand.const.shape
            return self.constant(np.transpose(operand.const.reshape(shape), back))
        if operand.rank == len(perm) and sum(size != 1 for size in operand.shape[1:]) <= 1:
            return super().permute(operand, *back)
        exchanged = (
            node.output
            for node in operand.users()
            if node.graph is self.graph and order_of(node.output) == tuple(back)
        )
        return next(exchanged, _UNMOVED)


_UNMOVED: Final = object()


def order_of(value: Any) -> tuple[int, ...] | None:
    """The order of axes in which a transpose brings its operand, where `value` is of one."""
    if not isinstance(value, Value) or value.producer is None or value.producer.kind != "Transpose":
        return None
    perm: tuple[int, ...] = tuple(value.producer.op.attributes()["perm"] or ())
    return perm or None


def _source(value: Value) -> Value | None:
    return value.producer.inputs[0] if value.producer is not None else None


def tidy(graph: Graph) -> None:
    """Take away transposes whose results nobody reads, here and inside."""
    for part in graph.all_graphs():
        for node in reversed(part.nodes):
            if node.kind == "Transpose" and not node.output.uses:
                part.remove(node)


def same_padding(
    sizes: Sequence[Dim], extents: Sequence[Dim], strides: Sequence[int]
) -> dict[str, Any]:
    """The attribute that pads windows so that ⌈size / stride⌉ of them fit, the larger half behind;
    with numbers where sizes are known.
    """
    begins, ends = [], []
    for size, extent, stride in zip(sizes, extents, strides):
        if not isinstance(size, int) or not isinstance(extent, int):
            return {"auto_pad": "SAME_UPPER"}
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return {"pads": (*begins, *ends)}
