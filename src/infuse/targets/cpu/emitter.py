"""Sources of programs for processors."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from infuse.lowering.emitter import Emitter, WrittenProgram
from infuse.lowering.memory import Plan
from infuse.lowering.program import Function, Program
from infuse.runtime.folder import SOURCE
from infuse.targets import Target
from infuse.targets.cpu.closed.collection import Collection
from infuse.targets.cpu.closed.program import closed_program
from infuse.targets.cpu.emit.functions import kernels_in
from infuse.targets.cpu.emit.language import CPP
from infuse.targets.cpu.emit.shared_files import usual_files
from infuse.targets.cpu.emit.source import print_sources
from infuse.targets.cpu.emit.trials import print_trials
from infuse.targets.cpu.emit.units import alone, distinct, join
from infuse.targets.text.interface import interface_files, program_header
from infuse.targets.text.javascript import javascript_files
from infuse.targets.text.listing import listing


class CppEmitter:
    """Writes C++ that includes the headers of `kernels/`."""

    main = SOURCE
    print_sources = staticmethod(print_sources)
    print_trials = staticmethod(print_trials)
    alone = staticmethod(alone)
    join = staticmethod(join)

    def functions(self, program: Program) -> Mapping[str, Function]:
        programs = (program, *program.bodies)
        functions = distinct([step for p in programs for step in p.steps], programs)
        return {functions.names[CPP.text_of(f)]: f for f in functions.all}

    def listing(self, program: Program, plan: Plan, target: Target, threads: int) -> str:
        return listing(program, plan, target, threads, self.functions(program), CPP)

    kernels_in = staticmethod(kernels_in)
    usual_files = staticmethod(usual_files)

    def interface_files(self, metadata: Mapping[str, Any]) -> dict[str, str]:
        is_web = str(metadata.get("library", "")).endswith(".wasm")
        return interface_files(metadata) | (javascript_files(metadata) if is_web else {})

    program_header = staticmethod(program_header)
    closed = Collection

    def write_program(
        self, program: Program, plan: Plan, available: Container[str]
    ) -> WrittenProgram:
        closed = closed_program(program, plan, available)
        functions = Collection(closed.functions, closed.elements)
        return WrittenProgram(closed.content, functions, closed.interprets)


EMITTER: Final[Emitter] = CppEmitter()
