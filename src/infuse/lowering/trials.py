"""The candidates of choices, to be called as a model would: the same steps, on memory of the same
sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from infuse import dtypes
from infuse.lowering.choice import Choice, usual
from infuse.lowering.program import Program, SizeResult, Step
from infuse.lowering.tensors import Buffer, Tensor
from infuse.lowering.weights import Array

REGIONS: Final = ("zeros", "floats", "written")
"""Parts of the memory of trials: integers that are read, floats that are read, and what is written.
"""
_COUNTS: Final = (dtypes.int32, dtypes.int64)
_ALIGN: Final = 64
_SLACK: Final = 4096


@dataclass
class Trial:
    """One candidate of one choice: the steps that it becomes, and where their buffers lie in each
    region.
    """

    choice: Choice
    program: Program
    steps: list[Step]
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REGIONS, 0))
    warm: list[tuple[str, int, int]] = field(default_factory=list)
    """Region, offset and bytes of what a run of the model would have in its caches: all but
    weights.
    """

    def integer_weights(self) -> list[tuple[str, int, Array]]:
        """Region, offset and elements of constant integers, which may tell a kernel how much there
        is to do.
        """
        buffers = {
            id(a.buffer): a.buffer
            for step in self.steps
            for a in step.arguments
            if isinstance(a, Tensor) and a.buffer.kind == "weight" and a.dtype.is_integer
        }
        weights = self.program.weights
        return [
            (*self.places[key], weights.at(b.position)) for key, b in buffers.items() if b.bytes
        ]


def trials_of(program: Program) -> list[Trial]:
    """The choices of a program, with the steps of each; those that cannot be called alone are left
    out.
    """
    trials: dict[int, Trial] = {}
    for step in program.steps:
        if step.choice is not None:
            trial = trials.setdefault(id(step.choice), Trial(step.choice, program, []))
            trial.steps.append(step)
    independent = [
        trial for trial in trials.values() if not any(map(_depends_on_the_run, trial.steps))
    ]
    for trial in independent:
        _place(trial)
    return independent


def _depends_on_the_run(step: Step) -> bool:
    """Whether a step cannot be called alone: it runs bodies, finds sizes, needs memory that the run
    reserves, or reads computed integers that may tell how much there is to do.
    """
    if step.function.is_control or step.scratch:
        return True
    return any(
        isinstance(a, SizeResult)
        or (isinstance(a, Tensor) and a.dtype in _COUNTS and a.buffer.kind != "weight")
        for a in step.arguments
    )


def _place(trial: Trial) -> None:
    """Give every buffer its place: weights after all others."""
    tensors = [a for step in trial.steps for a in step.arguments if isinstance(a, Tensor)]
    written = {id(buffer) for step in trial.steps for buffer in step.writes}
    bytes: dict[int, int] = {}
    buffers: dict[int, tuple[Buffer, str]] = {}
    for tensor in tensors:
        buffer = tensor.buffer
        region = (
            "written" if id(buffer) in written else "floats" if tensor.dtype.is_float else "zeros"
        )
        buffers.setdefault(id(buffer), (buffer, region))
        bytes[id(buffer)] = max(bytes.get(id(buffer), usual(buffer.bytes)), _extent(tensor))
    for number, (buffer, region) in sorted(
        buffers.items(), key=lambda item: item[1][0].kind == "weight"
    ):
        start, size = trial.sizes[region], bytes[number]
        trial.places[number] = region, start
        trial.sizes[region] = start + -(-size // _ALIGN) * _ALIGN
        if buffer.kind != "weight":
            trial.warm.append((region, start, size))


def _extent(tensor: Tensor) -> int:
    """Bytes from the start of its buffer to the end of a tensor."""
    steps = sum(
        max(usual(n) - 1, 0) * max(usual(s), 0) for n, s in zip(tensor.shape, tensor.strides)
    )
    return (usual(tensor.offset) + steps + 1) * tensor.dtype.bytes


def contents(trials: Sequence[Trial]) -> list[list[tuple[int, Array]]]:
    """For each trial the places in the memory of all trials, in bytes, of its constant integers,
    and these.
    """
    starts, _ = regions_of(trials)
    return [
        [(starts[region] + start, array) for region, start, array in trial.integer_weights()]
        for trial in trials
    ]


def regions_of(trials: Iterable[Trial]) -> tuple[dict[str, int], int]:
    """Where each region starts, as large as the largest trial needs it; and the bytes of all."""
    starts, total = {}, 0
    for region in REGIONS:
        starts[region] = total
        total += max((trial.sizes[region] for trial in trials), default=0) + _SLACK
    return starts, total
