"""The memory plan: buffers that are live together never overlap, and little is wasted."""

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings, strategies as st

from infuse.lowering.memory import ALIGN, plan
from infuse.lowering.program import Function, Program, Step
from tests.native.builder import Builder, assert_plan_is_safe, planned

Interval = tuple[int, int, int]


def program_of(intervals: Sequence[Interval]) -> Program:
    """A program whose buffers have these first steps, last steps and sizes."""
    program = Program("p", [], [], [])
    buffers = [program.arena(size) for _, _, size in intervals]
    for number in range(max((last for _, last, _ in intervals), default=0) + 1):
        reads = [b for b, (first, last, _) in zip(buffers, intervals) if first < number <= last]
        writes = [b for b, (first, _, _) in zip(buffers, intervals) if first == number]
        program.steps.append(Step(Function("f"), [], reads, writes, (), ""))
    return program


def total_and_bound(intervals: Sequence[Interval]) -> tuple[int, int]:
    program = program_of(intervals)
    found = plan(program)
    assert_plan_is_safe(program, found)
    assert found.offsets is not None
    assert all(offset % ALIGN == 0 for offset in found.offsets)
    assert found.total >= found.lower_bound
    return found.total, found.lower_bound


INTERVALS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 5000)).map(
        lambda t: (t[0], t[0] + t[1], t[2])
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(intervals=INTERVALS)
def test_live_buffers_never_overlap(intervals: list[Interval]) -> None:
    total_and_bound(intervals)


@settings(max_examples=100, deadline=None)
@given(intervals=INTERVALS)
def test_equal_sizes_reach_the_lower_bound(intervals: list[Interval]) -> None:
    total, bound = total_and_bound([(first, last, 4096) for first, last, _ in intervals])
    assert total == bound


def test_plans_are_close_to_the_lower_bound() -> None:
    ratios = []
    for seed in range(150):
        source = random.Random(seed)
        steps = source.randint(2, 40)
        intervals = []
        for _ in range(source.randint(2, 60)):
            first = source.randrange(steps)
            last = min(steps - 1, first + source.choice([0, 1, 1, 2, 3, steps // 2]))
            intervals.append(
                (first, last, source.choice([64, 256, 1024, 4096, source.randint(1, 5000)]))
            )
        total, bound = total_and_bound(intervals)
        ratios.append(total / bound)
    assert np.mean(ratios) < 1.005
    assert np.mean([ratio <= 1.05 for ratio in ratios]) > 0.97
    assert max(ratios) < 1.15


def test_a_long_program_is_planned_quickly() -> None:
    total, bound = total_and_bound_without_check(
        [(i, i + i % 7, 64 * (1 + i * 37 % 50)) for i in range(20000)]
    )
    assert total < 1.5 * bound


def total_and_bound_without_check(intervals: Sequence[Interval]) -> tuple[int, int]:
    found = plan(program_of_steps(intervals))
    return found.total, found.lower_bound


def program_of_steps(intervals: Sequence[Interval]) -> Program:
    """The same in linear time: a buffer is read in its last step only."""
    program = Program("p", [], [], [])
    steps = [
        Step(Function("f"), [], [], [], (), "")
        for _ in range(max(last for _, last, _ in intervals) + 1)
    ]
    for first, last, size in intervals:
        buffer = program.arena(size)
        steps[first].writes.append(buffer)
        steps[last].reads.append(buffer)
    program.steps += steps
    return program


def test_elementwise_work_is_done_in_place() -> None:
    b = Builder()
    x = b.input(64, 64)
    hidden = b("MatMul", x, b.weight(64, 64))
    b.output(
        b("MatMul", b("Softmax", hidden), b.weight(64, 64)),
        b("MatMul", b("Exp", b("Neg", x)), b.weight(64, 64)),
    )
    residual = b("MatMul", b("Relu", hidden), b.weight(64, 64))
    b.output(
        b("MatMul", b("Add", residual, b("MatMul", residual, b.weight(64, 64))), b.weight(64, 64))
    )
    _, memory = planned(b.graph)
    assert memory.total == memory.lower_bound


def test_what_a_product_reads_is_not_overwritten_by_it() -> None:
    b = Builder()
    x = b("Sqrt", b("Exp", b.input(32, 32)))
    b.output(b("Neg", b("Add", b("MatMul", x, b.weight(32, 32)), x)))
    program, _ = planned(b.graph)
    step = next(s for s in program.steps if s.label.startswith("MatMul"))
    assert len([buffer for buffer in step.reads if buffer.kind == "arena"]) >= 2
    assert not step.in_place
