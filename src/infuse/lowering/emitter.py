"""What building asks of the room of `targets` that writes code for a machine."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from infuse.immutable import Immutable
from infuse.ir.graph import Graph
from infuse.lowering.memory import Plan
from infuse.lowering.program import Function, Program
from infuse.lowering.trials import Trial
from infuse.targets import Machine, Target


class ClosedFunctions(Protocol):
    """Functions of which a library for programs that are data is compiled (`Emitter.closed`)."""

    @property
    def names(self) -> frozenset[str]:
        """Their names."""

    def add(
        self, program: Program, plan: Plan, *, usual: bool = False, fused: bool = False
    ) -> None:
        """Those of one more program. `usual`: also faster ones that have its elementwise work in
        their text; `fused`: also such as do several elementwise operations at once.
        UnsupportedOperatorError where it cannot be data.
        """

    def without(self, names: Container[str]) -> ClosedFunctions:
        """Those with other names."""

    def sources(self, facts: str, *, executing: bool = True) -> dict[str, str]:
        """The sources of a library with all of them, by the names of files. `facts`: what it tells
        of itself; `executing`: it runs programs, and is not one of functions that such a library
        lacks.
        """


class WrittenProgram(Immutable):
    """A program as a file, and the functions that it calls. `interprets`: elementwise work of it is
    data, where the library has no function for that.
    """

    content: bytes
    functions: ClosedFunctions
    interprets: bool


class Emitter(Protocol):
    """Writes the sources of programs, by the names of files. `main`: the name of the one that is
    the model, and calls the others.
    """

    @property
    def main(self) -> str: ...

    def print_sources(
        self,
        program: Program,
        plan: Plan,
        info: Mapping[str, Any],
        *,
        apart: bool = False,
        profile: bool = False,
    ) -> dict[str, str]:
        """The sources of a model. `info`: its metadata; `apart`: functions that take long to
        compile are files of their own; `profile`: it records the time of each step.
        """

    def functions(self, program: Program) -> Mapping[str, Function]:
        """The different functions that a program and its bodies call, by their names."""

    def listing(self, program: Program, plan: Plan, target: Target, threads: int) -> str:
        """A program as text for people: its steps, where their tensors lie, and its functions."""

    def kernels_in(self, function: Function) -> str:
        """The names of the kernels that a function calls, with their sizes of tiles."""

    def alone(self, sources: Mapping[str, str]) -> list[str]:
        """The names of sources of one function each, which may be compiled together; those with the
        same headers side by side.
        """

    def join(self, names: Sequence[str]) -> str:
        """The text of a source that is all of those with these names, which lie beside it."""

    def usual_files(self, graph: Graph) -> dict[str, str]:
        """Sources that models such as this graph, which need not be optimized, most often have."""

    def interface_files(self, metadata: Mapping[str, Any]) -> dict[str, str]:
        """The files of a model folder for those who call it: a header, and an example."""

    def program_header(self) -> str:
        """The header of a library that runs programs."""

    def closed(self) -> ClosedFunctions:
        """An empty collection. UnsupportedOperatorError where there are no such libraries."""

    def write_program(
        self, program: Program, plan: Plan, available: Container[str]
    ) -> WrittenProgram:
        """A program as a file, which calls functions with elementwise work in their text where
        `available` names them, and the others whether they are there or not.
        UnsupportedOperatorError where it cannot be data.
        """

    def print_trials(self, trials: Sequence[Trial]) -> dict[str, str]:
        """The sources of a library that runs trials by their numbers."""


def emitter_of(machine: Machine) -> Emitter:
    """What writes code for a kind of machine; the first call imports it."""
    return cast(Emitter, import_module(f"infuse.targets.{machine.room}.emitter").EMITTER)
