"""The memory plan: lifetimes of arena buffers, in-place sharing, and the order in which buffers are
placed, chosen so that they end close to the lower bound.

Where sizes are symbols, there is an order for small, one for usual and one for large sizes; the run
places the buffers in each (kernels/arena.h, with the same result as `place`) and takes the best.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

from infuse.immutable import Immutable, field, replace
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.lowering.program import Program
from infuse.lowering.tensors import Buffer
from infuse.ops.core.feeds import default_size

ALIGN = 64


class Plan(Immutable):
    """Where the live arena buffers lie: `offsets[i]` belongs to `buffers[i]`; None for sizes known
    at run time only. `orders`: the numbers of the buffers as they are placed, the first for usual
    sizes.

    A buffer whose size the run itself finds out lies in a block, whose number `late` tells.
    """

    buffers: list[Buffer]
    orders: list[tuple[int, ...]]
    offsets: list[int] | None
    total: int
    lower_bound: int
    late: dict[Buffer, int] = field(default_factory=dict)
    bodies: list[Plan] = field(default_factory=list)
    """The plans of the program's bodies."""

    @property
    def blocks(self) -> int:
        """How many blocks late buffers share."""
        return max(self.late.values(), default=-1) + 1


def lifetimes(program: Program) -> list[Buffer]:
    """Set first and last use of every arena buffer, share memory where a step may work in place,
    and return the buffers that need a place of their own.
    """
    for buffer in program.buffers:
        buffer.first, buffer.last, buffer.shares, buffer.trails = -1, -1, None, None
    for number, step in enumerate(program.steps):
        for buffer in (*step.reads, *step.writes):
            if buffer.kind == "arena":
                buffer.first = number if buffer.first < 0 else buffer.first
                buffer.last = number
    for number, step in enumerate(program.steps):
        for written, read in step.in_place:
            _share(written, read, number)
    for number, step in enumerate(program.steps):
        for written, read in step.trailing:
            _trail(written, read.root(), number)
    return [b for b in program.buffers if b.shares is None and b.first >= 0]


def _share(written: Buffer, read: Buffer, step: int) -> None:
    target = read.root()
    fits = (
        written.kind == target.kind == "arena" and written.shares is None and written is not target
    )
    if fits and written.first == step and target.last == step and written.bytes == target.bytes:
        written.shares = target
        target.last = max(target.last, written.last)


def _trail(written: Buffer, read: Buffer, step: int) -> None:
    """Let a buffer be written over one that is not larger and is read for the last time."""
    fits = written.kind == read.kind == "arena" and written.shares is None and written is not read
    if not fits or written.first != step or read.last != step:
        return
    small, large = read.bytes, written.bytes
    if isinstance(small, int) and isinstance(large, int) and small <= large and not small % ALIGN:
        written.trails = read


def plan(program: Program) -> Plan:
    """Lifetimes and, where all sizes are numbers, offsets; of the bodies too."""
    result = _plan_one(program)
    result.bodies.extend(map(_plan_one, program.bodies))
    return result


def isolated_plan(program: Program) -> Plan:
    """A plan in which no two buffers share memory and each has a block of its own: for memory
    checkers, which then see every access outside of a tensor.
    """
    plans = []
    for one in (program, *program.bodies):
        for step in one.steps:
            step.in_place = []
        blocks = {buffer: number for number, buffer in enumerate(lifetimes(one))}
        plans.append(Plan([], [], [], 0, 0, blocks))
    return replace(plans[0], bodies=plans[1:])


def _plan_one(program: Program) -> Plan:
    everything = lifetimes(program)
    late = share_blocks([b for b in everything if program.is_late(b.bytes)])
    buffers = [b for b in everything if b not in late]
    sizes = [b.bytes for b in buffers if isinstance(b.bytes, int)]
    if len(sizes) < len(buffers):
        typical = [[_typical(b.bytes, scale) for b in buffers] for scale in SCALES]
        orders = dict.fromkeys(best_order(buffers, numbers) for numbers in typical)
        return Plan(buffers, list(orders), None, 0, 0, late)
    numbers = list(map(aligned, sizes))
    order = best_order(buffers, numbers)
    offsets = place(buffers, numbers, order)
    return Plan(
        buffers,
        [order],
        offsets,
        arena_bytes(offsets, numbers),
        lower_bound(buffers, numbers),
        late,
    )


def _typical(size: Dim, scale: int) -> int:
    """The bytes of a buffer when symbols have their usual sizes, so many times; 0: all are 1."""
    sizes = {name: max(1, default_size(name) * scale) for name in dims.symbols(size)}
    return aligned(max(0, dims.evaluate(size, sizes)))


def share_blocks(buffers: Sequence[Buffer]) -> dict[Buffer, int]:
    """A block for each of these buffers; those that are not needed at the same time may share
    one.
    """
    ends: list[int] = []
    chosen: dict[Buffer, int] = {}
    for buffer in sorted(buffers, key=lambda b: b.first):
        free = next((i for i, end in enumerate(ends) if end < buffer.first), len(ends))
        ends[free : free + 1] = [buffer.last]
        chosen[buffer] = free
    return chosen


def arena_bytes(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    """What buffers of these sizes take up at these offsets."""
    return max((o + n for o, n in zip(offsets, sizes)), default=0)


WORK = 2_000_000
"""Comparisons of buffers that a better plan may cost."""
SCALES = (1, 16, 0)
"""How many times their usual sizes symbols have where an order is chosen; 0: all are 1."""


def best_order(buffers: Sequence[Buffer], sizes: Sequence[int]) -> tuple[int, ...]:
    """The best of several orders of placing; then what sticks out at the top is placed earlier,
    again and again, and two change places, as long as that does no harm.
    """
    best = sorted(range(len(buffers)), key=lambda i: (buffers[i].first, -sizes[i]))
    if len(buffers) ** 2 > WORK:
        return tuple(best)
    bound = lower_bound(buffers, sizes)
    offsets = place(buffers, sizes, best)
    least = arena_bytes(offsets, sizes)
    for order in _orders(buffers, sizes):
        if least <= bound:
            break
        tried = place(buffers, sizes, order)
        if arena_bytes(tried, sizes) < least:
            best, offsets, least = order, tried, arena_bytes(tried, sizes)
    order, tries = best, min(100, WORK // (len(buffers) ** 2 + 1))
    for _ in range(tries):
        if least <= bound:
            break
        top = arena_bytes(offsets, sizes)
        high = {i for i in order if offsets[i] + sizes[i] == top}
        order = [i for i in order if i in high] + [i for i in order if i not in high]
        offsets = place(buffers, sizes, order)
        if arena_bytes(offsets, sizes) < least:
            best, least = order, arena_bytes(offsets, sizes)
    chance = random.Random(0)  # noqa: S311 (the same plan each time)
    for _ in range(tries):
        if least <= bound:
            break
        a, b = chance.sample(range(len(best)), 2)
        order = list(best)
        order[a], order[b] = order[b], order[a]
        bytes_now = arena_bytes(place(buffers, sizes, order), sizes)
        if bytes_now <= least:
            best, least = order, bytes_now
    return tuple(best)


def aligned(size: int) -> int:
    """What a buffer of so many bytes takes up in the arena."""
    return -(-size // ALIGN) * ALIGN


def lower_bound(buffers: Sequence[Buffer], sizes: Sequence[int]) -> int:
    """The largest sum of bytes that are live in one step."""
    changes: dict[int, int] = {}
    trailed = {id(buffer.trails) for buffer in buffers if buffer.trails is not None}
    for buffer, size in zip(buffers, sizes):
        end = buffer.last + (id(buffer) not in trailed)
        changes[buffer.first] = changes.get(buffer.first, 0) + size
        changes[end] = changes.get(end, 0) - size
    live = best = 0
    for step in sorted(changes):
        live += changes[step]
        best = max(best, live)
    return best


def _orders(buffers: Sequence[Buffer], sizes: Sequence[int]) -> list[list[int]]:
    """Placement orders worth trying: by size, by size and lifetime, by lifetime, by how full memory
    is meanwhile.
    """
    numbers = range(len(buffers))
    span = [b.last - b.first + 1 for b in buffers]
    pressure = _pressure(buffers, sizes)
    return [
        sorted(numbers, key=lambda i: (-sizes[i], buffers[i].first)),
        sorted(numbers, key=lambda i: (-sizes[i] * span[i], buffers[i].first)),
        sorted(numbers, key=lambda i: (-span[i], -sizes[i])),
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
    """Offsets from placing buffers in this order, each into the tightest gap between those it lives
    beside.
    """
    offsets = [0] * len(buffers)
    earliest = list(accumulate((buffers[i].first for i in reversed(order)), min))
    placed: list[int] = []
    for i in order:
        soonest, first, last = earliest.pop(), buffers[i].first, buffers[i].last
        placed = [j for j in placed if buffers[j].last >= soonest]
        beside = [j for j in placed if buffers[j].first <= last and first <= buffers[j].last]
        taken = sorted(_taken(buffers, sizes, offsets, i, j) for j in beside)
        offsets[i] = _tightest_gap(sizes[i], taken)
        placed.append(i)
    return offsets


def _taken(
    buffers: Sequence[Buffer], sizes: Sequence[int], offsets: Sequence[int], i: int, j: int
) -> tuple[int, int]:
    """What of buffer j, which has its place, buffer i must not reach into."""
    start, end = offsets[j], offsets[j] + sizes[j]
    if buffers[j].trails is buffers[i]:  # which ends where j does, or behind
        return start, end - min(sizes[i], sizes[j] - ALIGN)
    if buffers[i].trails is buffers[j]:  # before whose end i ends, or behind which it starts
        return end, end
    return start, end


def _tightest_gap(size: int, taken: Sequence[tuple[int, int]]) -> int:
    """Where `size` bytes go: into the tightest gap between sorted ranges, else behind them."""
    best, gap, end = -1, 0, 0
    for start, stop in taken:
        room = start - end
        if room >= size and (best < 0 or room < gap):
            best, gap = end, room
        end = max(end, stop)
    return best if best >= 0 else end
