"""Where a value lies in memory: buffer, offset, strides. A view costs nothing; None says that data
must move.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from infuse import dtypes
from infuse.dtypes import DType
from infuse.immutable import Immutable, replace
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.types import Shape, StateType, TensorType, Type

Order = tuple[int, ...]
_UNSIGNED = {d.bytes: d for d in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)}


@dataclass(eq=False)
class Buffer:
    """A block of memory: `kind` is arena, input, output, weight, block or either; `bytes` its size
    (arena only).

    `number` is the number of the input, output or block (a place that a step points somewhere);
    `position` the byte offset of a weight.
    """

    kind: str
    bytes: Dim
    number: int = 0
    position: int = 0
    label: str = ""
    first: int = -1
    last: int = -1
    shares: Buffer | None = field(default=None)
    """The buffer whose memory this one takes over (in-place), if any."""
    trails: Buffer | None = field(default=None)
    """A smaller buffer whose rows are read before as many rows of this one are written: it may lie
    in this one where it ends behind it, or with it.
    """
    either: tuple[Dim, Tensor, Tensor] | None = field(default=None)
    """Of kind either: a size, and where the elements begin when it is 0, and else."""

    def memory(self) -> list[Buffer]:
        """The buffers in which its elements may be."""
        if self.either is None:
            return [self]
        return [buffer for tensor in self.either[1:] for buffer in tensor.buffer.memory()]

    def root(self) -> Buffer:
        buffer = self
        while buffer.shares is not None:
            buffer = buffer.shares
        return buffer


class Tensor(Immutable):
    """A view of a buffer. `shape`, `strides` (in elements) are logical; `order` names the axes from
    outermost to innermost in memory.
    """

    buffer: Buffer
    dtype: DType
    shape: Shape
    strides: Shape
    order: Order
    offset: Dim = 0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        return dims.product(self.shape)

    @property
    def physical_shape(self) -> Shape:
        """Sizes from outermost to innermost."""
        return tuple(self.shape[axis] for axis in self.order)

    def is_dense(self, order: Order | None = None) -> bool:
        """Whether the elements lie without gaps in `order` (default: its own)."""
        strides = dense_strides(self.shape, order or self.order)
        return all(
            size == 1 or have == need for size, have, need in zip(self.shape, self.strides, strides)
        )

    @property
    def last_stride(self) -> Dim:
        """Stride of the innermost axis that has more than one element; 1 for a scalar."""
        for axis in reversed(self.order):
            if self.shape[axis] != 1:
                return self.strides[axis]
        return 1

    @property
    def bits(self) -> Tensor:
        """The same as unsigned integers: what only moves elements is compiled once for all types of
        a size.
        """
        return replace(self, dtype=_UNSIGNED[self.dtype.bytes])

    # -- views -------------------------------------------------------------------------------------

    def permute(self, perm: Sequence[int]) -> Tensor:
        """Logical transpose: axis i of the result is axis perm[i]."""
        where = {old: new for new, old in enumerate(perm)}
        return replace(
            self,
            shape=tuple(self.shape[p] for p in perm),
            strides=tuple(self.strides[p] for p in perm),
            order=tuple(where[axis] for axis in self.order),
        )

    def slice(self, axis: int, start: Dim, size: Dim, step: Dim = 1) -> Tensor:
        """Elements start, start + step, … of one axis."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis] = size
        strides[axis] = strides[axis] * step
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset)

    def drop(self, axis: int) -> Tensor:
        """Without an axis of size one (or the first element along it)."""
        keep = [a for a in range(self.rank) if a != axis]
        order = tuple(a - (a > axis) for a in self.order if a != axis)
        return replace(
            self,
            shape=tuple(self.shape[a] for a in keep),
            strides=tuple(self.strides[a] for a in keep),
            order=order,
        )

    def insert(self, axis: int) -> Tensor:
        """With a new axis of size one."""
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(axis, 1)
        strides.insert(axis, 0)
        order = [a + (a >= axis) for a in self.order]
        after = list(range(axis + 1, len(shape)))
        position = order.index(after[0]) if after else len(order)
        order.insert(position, axis)
        return replace(self, shape=tuple(shape), strides=tuple(strides), order=tuple(order))

    def unfold(self, axis: int, outer: Dim, inner: Dim) -> Tensor:
        """With one axis of outer · inner elements as two axes."""
        shape, strides = list(self.shape), list(self.strides)
        shape[axis : axis + 1] = [outer, inner]
        strides[axis : axis + 1] = [strides[axis] * inner, strides[axis]]
        order: list[int] = []
        for a in self.order:
            order += [axis, axis + 1] if a == axis else [a + (a > axis)]
        return replace(self, shape=tuple(shape), strides=tuple(strides), order=tuple(order))

    def expand(self, shape: Shape) -> Tensor:
        """Broadcast to a shape of at least its rank; repeated axes get stride 0."""
        result = self
        while result.rank < len(shape):
            result = replace(
                result,
                shape=(1, *result.shape),
                strides=(0, *result.strides),
                order=(0, *(a + 1 for a in result.order)),
            )
        repeated = [
            dims.is_at_most_one(have) and have != want for have, want in zip(result.shape, shape)
        ]
        strides = tuple(0 if again else s for again, s in zip(repeated, result.strides))
        sizes = tuple(
            want if again else have for again, have, want in zip(repeated, result.shape, shape)
        )
        return replace(result, shape=sizes, strides=strides)

    def reshape(self, shape: Shape) -> Tensor | None:
        """The same elements in another shape without moving them, or None where that needs a
        copy.
        """
        groups = match_shapes(self.shape, shape)
        if groups is None:
            return None
        strides: list[Dim] = [0] * len(shape)
        order_of: dict[int, list[int]] = {}
        for old_axes, new_axes in groups:
            merged = _merge(self, old_axes)
            if merged is None:
                return None
            stride, anchor = merged
            for axis in reversed(new_axes):
                strides[axis] = stride
                stride = stride * shape[axis]
            order_of[anchor] = list(new_axes)
        order: list[int] = []
        for axis in self.order:
            order += order_of.pop(axis, [])
        loose = order_of.pop(-1, [])
        order = [*loose, *order]
        missing = [a for a in range(len(shape)) if a not in order]
        for axis in missing:
            position = next(
                (order.index(a) for a in range(axis + 1, len(shape)) if a in order), len(order)
            )
            order.insert(position, axis)
        return Tensor(self.buffer, self.dtype, shape, tuple(strides), tuple(order), self.offset)


def is_native_type(type: Type) -> bool:
    """Whether native code can hold values of a type: tensors of known rank whose elements have a C
    type.
    """
    if isinstance(type, StateType):
        type = type.element
    return isinstance(type, TensorType) and type.shape is not None and bool(type.dtype.c_name)


def _merge(tensor: Tensor, axes: Sequence[int]) -> tuple[Dim, int] | None:
    """Stride of the axes seen as one, and the axis that stands for them in the order; None if they
    do not merge.
    """
    real = [a for a in axes if tensor.shape[a] != 1]
    if not real:
        return 0, -1
    for outer, inner in itertools.pairwise(real):
        if tensor.strides[outer] != tensor.strides[inner] * tensor.shape[inner]:
            return None
    return tensor.strides[real[-1]], real[-1]


def match_shapes(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Groups of axes with equal products, in order, or None where symbolic sizes leave it open."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left: list[int] = []
        right: list[int] = []
        a: Dim = 1
        b: Dim = 1
        while i < len(old) and old[i] == 1:
            i += 1
        while j < len(new) and new[j] == 1:
            j += 1
        if i == len(old) and j == len(new):
            break
        while not left or not right or a != b:
            take_left = _next_side(old, new, i, j, left, right, a, b)
            if take_left is None:
                return None
            if take_left:
                a, i = a * old[i], i + 1
                left.append(i - 1)
            else:
                b, j = b * new[j], j + 1
                right.append(j - 1)
        groups.append((left, right))
    return groups


def _next_side(
    old: Shape, new: Shape, i: int, j: int, left: list[int], right: list[int], a: Dim, b: Dim
) -> bool | None:
    """Whether the next axis is taken from the left; None when neither side can go on."""
    if not left:
        return True if i < len(old) else None
    if not right:
        return False if j < len(new) else None
    if isinstance(a, int) and isinstance(b, int):
        side = a < b
    elif dims.exact_divide(b, a) is not None:
        side = True
    elif dims.exact_divide(a, b) is not None:
        side = False
    else:
        side = i < len(old) and dims.exact_divide(b, a * old[i]) is not None
    if side:
        return True if i < len(old) else None
    return False if j < len(new) else None


def dense_strides(shape: Shape, order: Order) -> Shape:
    """Strides in elements of a tensor without gaps whose axes lie in `order`."""
    strides: list[Dim] = [0] * len(shape)
    step: Dim = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis]
    return tuple(strides)


def natural(rank: int) -> Order:
    """Row-major order."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """N, spatial…, C of a logical N, C, spatial… tensor."""
    return (0, *range(2, rank), 1)


def dense(buffer: Buffer, dtype: DType, shape: Shape, order: Order | None = None) -> Tensor:
    """A tensor without gaps at the start of a buffer."""
    axes = order or natural(len(shape))
    return Tensor(buffer, dtype, shape, dense_strides(shape, axes), axes)
