"""The memory plan: lifetimes of arena buffers, in-place sharing, offsets close to the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infuse.codegen.program import Program
from infuse.codegen.tensors import Buffer
from infuse.ir.dims import Dim

ALIGN = 64


@dataclass(frozen=True)
class Plan:
    """Where the live arena buffers lie: `offsets[i]` belongs to `buffers[i]`; None for sizes known at run time only."""

    buffers: list[Buffer]
    offsets: list[int] | None
    total: int
    lower_bound: int

    def slot(self, buffer: Buffer) -> int:
        """The number of the buffer whose place `buffer` uses."""
        return self.buffers.index(buffer.root())


def lifetimes(program: Program) -> list[Buffer]:
    """Set first and last use of every arena buffer, share memory where a step may work in place, and return the
    buffers that need a place of their own.
    """
    for buffer in program.buffers:
        buffer.first, buffer.last, buffer.shares = -1, -1, None
    for number, step in enumerate(program.steps):
        for buffer in (*step.reads, *step.writes):
            if buffer.kind == "arena":
                buffer.first = number if buffer.first < 0 else buffer.first
                buffer.last = number
    for number, step in enumerate(program.steps):
        for written, read in step.in_place:
            _share(written, read, number)
    return [b for b in program.buffers if b.shares is None and b.first >= 0]


def _share(written: Buffer, read: Buffer, step: int) -> None:
    target = read.root()
    fits = written.kind == target.kind == "arena" and written.shares is None and written is not target
    if fits and written.first == step and target.last == step and written.bytes == target.bytes:
        written.shares = target
        target.last = max(target.last, written.last)


def plan(program: Program) -> Plan:
    """Lifetimes and, where all sizes are numbers, offsets."""
    buffers = lifetimes(program)
    sizes = [b.bytes for b in buffers]
    if any(not isinstance(size, int) for size in sizes):
        return Plan(buffers, None, 0, 0)
    numbers = [_aligned(size) for size in sizes]
    bound = lower_bound(buffers, numbers)
    offsets = min(
        (place(buffers, numbers, order) for order in _orders(buffers, numbers)),
        key=lambda offs: max((o + n for o, n in zip(offs, numbers)), default=0),
    )
    total = max((o + n for o, n in zip(offsets, numbers)), default=0)
    return Plan(buffers, offsets, total, bound)


def _aligned(size: Dim) -> int:
    assert isinstance(size, int)
    return max(ALIGN, -(-size // ALIGN) * ALIGN)


def lower_bound(buffers: Sequence[Buffer], sizes: Sequence[int]) -> int:
    """The largest sum of bytes that are live in one step."""
    changes: dict[int, int] = {}
    for buffer, size in zip(buffers, sizes):
        changes[buffer.first] = changes.get(buffer.first, 0) + size
        changes[buffer.last + 1] = changes.get(buffer.last + 1, 0) - size
    live = best = 0
    for step in sorted(changes):
        live += changes[step]
        best = max(best, live)
    return best


def _orders(buffers: Sequence[Buffer], sizes: Sequence[int]) -> list[list[int]]:
    """Placement orders worth trying: by size, by lifetime, by product, by start."""
    numbers = range(len(buffers))
    span = [b.last - b.first + 1 for b in buffers]
    pressure = _pressure(buffers, sizes)
    return [
        sorted(numbers, key=lambda i: (-sizes[i], buffers[i].first)),
        sorted(numbers, key=lambda i: (-sizes[i] * span[i], buffers[i].first)),
        sorted(numbers, key=lambda i: (-span[i], -sizes[i])),
        sorted(numbers, key=lambda i: (buffers[i].first, -span[i])),
        sorted(numbers, key=lambda i: (-pressure[i], -sizes[i], buffers[i].first)),
    ]


def _pressure(buffers: Sequence[Buffer], sizes: Sequence[int]) -> list[int]:
    """For every buffer the largest live sum during its life."""
    if not buffers:
        return []
    live = [0] * (max(b.last for b in buffers) + 1)
    for buffer, size in zip(buffers, sizes):
        for step in range(buffer.first, buffer.last + 1):
            live[step] += size
    return [max(live[b.first : b.last + 1]) for b in buffers]


def place(buffers: Sequence[Buffer], sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    """Offsets from placing buffers in this order, each into the tightest gap between those it lives beside."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for i in order:
        first, last = buffers[i].first, buffers[i].last
        beside = sorted(
            (offsets[j], offsets[j] + sizes[j]) for j in placed if buffers[j].first <= last and first <= buffers[j].last
        )
        best, gap, end = -1, 0, 0
        for start, stop in beside:
            room = start - end
            if room >= sizes[i] and (best < 0 or room < gap):
                best, gap = end, room
            end = max(end, stop)
        offsets[i] = best if best >= 0 else end
        placed.append(i)
    return offsets
