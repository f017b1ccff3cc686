"""The memory of a lowered program, as its plan lays it out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import numpy as np

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Value
from infuse.ir.types import TensorType
from infuse.lowering.memory import Plan, aligned, arena_bytes, place
from infuse.lowering.program import Program
from infuse.lowering.tensors import Buffer, Tensor
from tests.support.step_memory import strided

POISON = 0xA5
"""What memory holds that nobody has written yet."""


class UnknownSizeError(Exception):
    """A size is found by a kernel, and no value of the graph has it."""


class ProgramMemory:
    """Where the values of a program lie; those that no step makes are there."""

    def __init__(
        self,
        program: Program,
        plan: Plan,
        values: Mapping[Value, Array],
        around: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`around`: the sizes of the program whose body this one is."""
        self.program, self.plan, self.values = program, plan, values
        self.sizes = {**around, **sizes_of(values)}
        self._memory: dict[object, Array] = {}
        self._offsets = self._arena_offsets()
        for value in program.places:
            if value in values and not self._is_made_here(value):
                self.write(value)

    def _is_made_here(self, value: Value) -> bool:
        return value.producer is not None and value.producer.graph is self.program.graph

    def _arena_offsets(self) -> dict[Buffer, int]:
        buffers = self.plan.buffers
        numbers = [aligned(self.size(b.bytes)) for b in buffers]
        offsets = self.plan.offsets
        if offsets is None:
            placed = [place(buffers, numbers, order) for order in self.plan.orders]
            offsets = min(placed, key=lambda offsets: arena_bytes(offsets, numbers))
        total = max((o + n for o, n in zip(offsets, numbers)), default=0)
        self._memory["arena"] = np.full(total, POISON, np.uint8)
        return dict(zip(buffers, offsets))

    def size(self, size: Dim) -> int:
        """A size as a number."""
        result = dims.substitute(size, self.sizes)
        if not isinstance(result, int):
            raise UnknownSizeError(f"no value has the size {result}")
        return result

    def _block(self, buffer: Buffer, need: int) -> tuple[object, int]:
        """The key of the memory of a buffer, made to hold so many bytes at least, and where in it
        the buffer begins.
        """
        root = buffer.root()
        if root in self._offsets:
            return "arena", self._offsets[root]
        key: object = (root.kind, root.number, root.position)
        if root.kind == "arena":
            key = ("late", self.plan.late[root])
        block = self._memory.get(key, np.empty(0, np.uint8))
        if root.kind == "weight" and key not in self._memory:
            array = np.ascontiguousarray(self._weights[root.position])
            block = np.array(array.reshape(-1).view(np.uint8))
        missing = np.full(max(0, need - block.size), POISON, np.uint8)
        self._memory[key] = np.concatenate([block, missing]) if missing.size else block
        return key, 0

    @cached_property
    def _weights(self) -> dict[int, Array]:
        return dict(self.program.weights)

    def resolved(self, tensor: Tensor) -> Tensor:
        """A tensor whose place follows from a size."""
        while tensor.buffer.either is not None:
            size, direct, copy = tensor.buffer.either
            tensor = direct if self.size(size) == 0 else copy
        return tensor

    def byte_places(self, tensor: Tensor) -> tuple[object, Array]:
        """The key of a tensor's memory, and the places of the bytes of each element in it."""
        tensor = self.resolved(tensor)
        places = self.size(tensor.offset) + strided(tensor, self.size)
        starts = places * tensor.dtype.bytes
        need = int(starts.max(initial=-1)) + tensor.dtype.bytes if starts.size else 0
        key, begin = self._block(tensor.buffer, need)
        return key, begin + starts[..., None] + np.arange(tensor.dtype.bytes)

    def load(self, tensor: Tensor) -> Array:
        """The elements of a tensor as they lie in memory."""
        key, places = self.byte_places(tensor)
        result: Array = self._memory[key][places].reshape(-1).view(tensor.dtype.numpy)
        return np.asarray(result.reshape(places.shape[:-1]))

    def elements(self, tensor: Tensor) -> Array:
        """What lies in the memory of a tensor from its first element on, flat."""
        tensor = self.resolved(tensor)
        key, begin = self._block(tensor.buffer, 0)
        block = self._memory[key][begin + self.size(tensor.offset) * tensor.dtype.bytes :]
        whole = block.size // tensor.dtype.bytes * tensor.dtype.bytes
        result: Array = block[:whole].copy().view(tensor.dtype.numpy)
        return result

    def take(self, tensor: Tensor, at: Array) -> Array:
        """Elements so many behind the first one of a tensor, or before it where that is negative;
        IndexError outside of the memory that it is a part of.
        """
        tensor = self.resolved(tensor)
        width = tensor.dtype.bytes
        key, begin = self._block(tensor.buffer, 0)
        starts = (at + self.size(tensor.offset)) * width
        if starts.min(initial=0) < 0:
            raise IndexError(f"byte {starts.min()} of what it reads")
        places = begin + starts.reshape(-1, 1) + np.arange(width)
        flat: Array = self._memory[key][places].reshape(-1).view(tensor.dtype.numpy)
        return flat.reshape(at.shape)

    def put(self, tensor: Tensor, at: Array, elements: Array) -> None:
        """Store elements so many behind the first one of a tensor; IndexError outside of what it
        is a part of.
        """
        tensor = self.resolved(tensor)
        width = tensor.dtype.bytes
        starts = (at + self.size(tensor.offset)) * width
        end = int(starts.max(initial=-width)) + width
        if starts.min(initial=0) < 0 or end > self._room(tensor, end):
            raise IndexError(f"byte {end} of what it writes")
        key, begin = self._block(tensor.buffer, end)
        places = begin + starts[:, None] + np.arange(width)
        flat = np.ascontiguousarray(elements.astype(tensor.dtype.numpy))
        self._memory[key][places.reshape(-1)] = flat.view(np.uint8)

    def _room(self, tensor: Tensor, least: int) -> int:
        """How many bytes a buffer has, `least` where that is not stated."""
        buffer = tensor.buffer
        if buffer.kind == "output":
            _, dtype, shape = self.program.outputs[buffer.number]
            return dtype.bytes * self.size(dims.product(shape))
        return self.size(buffer.bytes) if buffer.kind == "arena" else least

    def store(self, tensor: Tensor, array: Array) -> None:
        """Put elements where a tensor lies."""
        key, places = self.byte_places(tensor)
        flat = np.ascontiguousarray(array.astype(tensor.dtype.numpy)).reshape(-1)
        self._memory[key][places.reshape(-1)] = flat.view(np.uint8)

    def write(self, value: Value) -> None:
        """Put a value where it lies."""
        self.store(self.program.places[value], self.values[value])

    def spoil(self, buffer: Buffer) -> bool:
        """Leave nothing in a buffer; whether anything was there."""
        size = self.size(buffer.bytes)
        key, begin = self._block(buffer, size)
        self._memory[key][begin : begin + size] = POISON
        return size > 0


def sizes_of(values: Mapping[Value, Array]) -> dict[str, int]:
    """The sizes of all symbols."""
    sizes: dict[str, int] = {}
    for value, array in values.items():
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            for dim, size in zip(value.type.shape, array.shape):
                for name in dims.symbols(dim):
                    if dim == dims.symbol(name):
                        sizes.setdefault(name, size)
    return sizes
