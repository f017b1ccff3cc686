"""The functions of a library, collected from programs."""

from __future__ import annotations

from collections.abc import Container, Mapping

from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.targets.cpu.closed.hosted import HostFunction
from infuse.targets.cpu.closed.parts import ClosedCall
from infuse.targets.cpu.closed.program import closed_program, usual_elements, usual_functions
from infuse.targets.cpu.closed.sources import closed_files
from infuse.targets.cpu.closed.work import ElementFunction


class Collection:
    """Closed functions that programs call, by name (`ClosedFunctions`)."""

    def __init__(
        self,
        functions: Mapping[str, ClosedCall | HostFunction] | None = None,
        elements: Mapping[str, ElementFunction] | None = None,
    ) -> None:
        self._functions, self._elements = dict(functions or {}), dict(elements or {})

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset({*self._functions, *self._elements})

    def add(
        self, program: Program, plan: Plan, *, usual: bool = False, fused: bool = False
    ) -> None:
        """Those of one more program (see `ClosedFunctions.add`)."""
        closed = closed_program(program, plan)
        self._functions |= closed.functions
        self._elements |= closed.elements
        if usual:
            self._functions |= usual_functions(program)
        if usual or fused:
            self._elements |= usual_elements(program)

    def without(self, names: Container[str]) -> Collection:
        """Those with other names."""
        return Collection(
            {name: each for name, each in self._functions.items() if name not in names},
            {name: each for name, each in self._elements.items() if name not in names},
        )

    def sources(self, facts: str, *, executing: bool = True) -> dict[str, str]:
        """The sources of a library with all of them (see `ClosedFunctions.sources`)."""
        return closed_files(self._functions, self._elements, facts, executing=executing)
