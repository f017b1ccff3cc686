"""The cost model of a kind of machine, which a room of `targets` has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from infuse.ir.dims import Dim
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op
from infuse.targets import Machine

SizeOf = Callable[[Dim], int]
KernelSeconds = Callable[[Op, Sequence[TensorType], TensorType, SizeOf], "float | None"]


class Costs(Protocol):
    """What calls of kernels cost."""

    def predict(
        self, family: str, name: str, sizes: Sequence[int], machine: Machine, threads: int
    ) -> float:
        """The seconds that candidate `name` of a kernel family takes for a call, roughly."""

    def kernel_seconds(self, machine: Machine, threads: int) -> KernelSeconds:
        """A function that gives the seconds of one call of an operator on operands of these types,
        None for an operator that the cost model does not know.
        """


def costs_of(machine: Machine) -> Costs:
    """The cost model of a kind of machine; the first call imports it."""
    return cast(Costs, import_module(f"infuse.targets.{machine.room}.costs"))
