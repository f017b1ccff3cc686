"""From an optimized graph to a compiled model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from infuse.build.autotune.measurement import tuned
from infuse.build.autotune.precision import Built, PrecisionReport, search_precision
from infuse.build.background import Job, compiled_later
from infuse.build.build import build, compiled_ahead
from infuse.build.prebuilt import (
    build_program,
    build_with_prebuilt,
    fitting_library,
    prebuilt_for,
)
from infuse.build.refusals import only_program, require_interface
from infuse.build.single import write_single
from infuse.build.staged import Stages, stages_of
from infuse.build.toolchain import Toolchain
from infuse.errors import OptionError, ToolchainError, UnsupportedOperatorError
from infuse.ir.description import description_of
from infuse.ir.graph import Graph
from infuse.ir.types import TensorType
from infuse.lowering.choice import Chooser
from infuse.lowering.emitter import emitter_of
from infuse.lowering.expand.sequences import flatten
from infuse.lowering.labels import separate_labels
from infuse.lowering.memory import Plan
from infuse.lowering.metadata import limited_kernels, metadata
from infuse.lowering.precisions import LayerPrecisions
from infuse.lowering.program import Program, all_sizes
from infuse.lowering.tensors import is_native_type
from infuse.lowering.weight_budget import budgeted, most_bytes
from infuse.lowering.weights import hashed_once
from infuse.ops.core.feeds import drawing_nodes
from infuse.ops.core.opaque import require_known
from infuse.ops.core.rows import independent_rows
from infuse.options import BARE, PREFIX, CompileOptions
from infuse.runtime.cpus import available_cpus
from infuse.runtime.foreign import ForeignModel
from infuse.runtime.hosted import HostedModel, ValueSpec
from infuse.runtime.interface import COMPILED, Model
from infuse.runtime.model import CompiledModel
from infuse.runtime.program import Prebuilt, prebuilt_libraries
from infuse.targets import PLAIN, Target

Progress = Callable[[str, int, int], None]
PathLike = str | os.PathLike[str]
EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
_DEBUG: Final = ("-g", "-fno-omit-frame-pointer")


@dataclass(frozen=True)
class Compilation:
    """A graph on its way to native code, for these options:

        stages → expand → group → lower → plan → print → build

    A graph is cut where the interpreter has to run a part (`stages`); each native stage is lowered
    to a program, whose memory is planned (`generate`), and which is printed and built (`build`).
    """

    graph: Graph
    options: CompileOptions = field(default_factory=CompileOptions)
    progress: Progress | None = None
    layers: LayerPrecisions | None = None
    """The precision of each layer, where the options do not name one for all."""
    closed: bool = False
    """Whether only such kernels are chosen as a library of prebuilt ones has."""
    made_for: Target | None = None
    """What code is made for, where that is not what the options say."""
    library: Prebuilt | None = None
    """The library whose functions are as good as compiled ones, and are not compiled again."""

    @cached_property
    def target(self) -> Target:
        """What code is made for. OptionError where there is no such target."""
        if self.made_for is not None:
            return self.made_for
        name = self.options.target if self.prebuilt is None else self.prebuilt.facts.target
        target = Target.resolve(PLAIN if self.options.is_source and name == "native" else name)
        if self.options.is_source and target.machine.language != "c":
            raise OptionError(
                f"code for the target {name!r} is C++, and one file of C is asked for",
                hint="leave the target out, or name a microcontroller (infuse targets)",
            )
        return target.smaller() if self.options.size else target

    @property
    def is_bare(self) -> bool:
        """Whether code is to run without a system."""
        return self.options.profile == BARE or self.target.is_bare

    @cached_property
    def prebuilt(self) -> Prebuilt | None:
        """The library whose functions the model calls, where it does."""
        if self.options.compile == "never":
            return prebuilt_for(self.options.target)
        return self.library

    @cached_property
    def threads(self) -> int:
        """Threads of a run."""
        return self.options.threads or available_cpus()

    @property
    def precisions(self) -> LayerPrecisions:
        """What each layer computes in."""
        return self.layers or LayerPrecisions.of(str(self.options.precision))

    def model(self, output: PathLike | None = None) -> Model:
        """The compiled model, in the folder `output` where one is named (see `infuse.compile`)."""
        if self.options.compile == "background":
            return self._swapping(output)
        is_open = output is None and self.options.compile == "wait" and self.library is None
        if is_open and (library := self._equal_library()):
            with suppress(UnsupportedOperatorError):  # compiled as a whole, or refused, below
                return replace(self, library=library).model()
        require_known(self.graph)
        rows = independent_rows(self.graph).to_dict()
        decided, report = self.decided()
        facts: dict[str, Any] = {"model": dict(description_of(decided.graph)), "rows": rows}
        if next(drawing_nodes(self.graph), None) is not None:
            facts["random"] = True
        if report is not None:
            facts = {"precision_report": report.to_dict(), **facts}
        stages = decided.stages()
        if stages.left_out:
            decided = replace(decided, library=None)
        if self.target.is_foreign or self.options.is_source:
            folder = decided.build(only_program(stages, self.target, output), output, facts=facts)
            return ForeignModel(folder, self.threads)
        return decided.load(stages, output, facts)

    def _swapping(self, output: PathLike | None) -> Model:
        """A model that prebuilt kernels run until it is compiled; it is compiled first where they
        do not run it. OptionError for a folder, which has one of the two.
        """
        if output is not None:
            raise OptionError(
                "a folder has either a program of prebuilt kernels or compiled code",
                hint='choose which: compile="never", or compile="wait"',
            )
        if self.options.auto is not None and self.options.auto.timer is not None:
            return self._compiled_form()
        first = self._first_form()
        if first.tier == COMPILED:
            return first
        return compiled_later(first, Job(lambda: self.graph, self.options, compile_graph))

    def _equal_library(self) -> Prebuilt | None:
        """The library of prebuilt kernels whose functions are those that would be compiled."""
        options = self.options
        plain = CompileOptions(options.target, options.threads, weights=options.weights)
        if replace(options, compile="wait") != plain or self.layers is not None:
            return None
        library = fitting_library(options.target)
        if library is None:
            return None
        own = Target.resolve(options.target).machine
        made_for = Target.resolve(library.facts.target).machine
        return library if own.computes_as(made_for, integers=_has_bytes(self.graph)) else None

    def _compiled_form(self) -> Model:
        return replace(self, options=replace(self.options, compile="wait")).model()

    def _first_form(self) -> Model:
        """The model as prebuilt kernels run it, or, where they do not, as compiled code does."""
        refused: UnsupportedOperatorError | None = None
        try:
            if fitting_library(self.options.target):
                options, library = self.options.uncompiled(), self._equal_library()
                return replace(self, options=options, library=library).model()
        except UnsupportedOperatorError as error:
            refused = error
        try:
            return self._compiled_form()
        except ToolchainError as error:
            raise refused or error from None

    def decided(self) -> tuple[Compilation, PrecisionReport | None]:
        """The same with a precision for every layer of a graph whose nodes it means; and the report
        of the search, where one was asked for (`autotune/precision/search.py`).
        """
        auto = None if self.layers is not None else self.options.auto
        if auto is None:
            return self, None
        flat = replace(self, graph=separate_labels(flatten(self.graph)))

        def build(precisions: LayerPrecisions) -> Built:
            trial = replace(flat, layers=precisions, options=replace(self.options, prefix=PREFIX))
            stages = trial.stages()
            return Built(trial.load(stages), stages.layers)

        precisions, report = search_precision(
            flat.graph, auto, self.target, build, tune=self.options.tune, progress=self.progress
        )
        return replace(flat, layers=LayerPrecisions.of(precisions)), report

    @hashed_once()
    def stages(self) -> Stages:
        """The stages of the graph: the interpreter gets the nodes that have no native code.

        Where several kernels compute the same, the cost model chooses; with `tune`, measuring does
        (`tuning.tuned`); with small `weights`, only among those that keep no larger copies of
        weights, with balanced ones within their budget (`weight_budget`). OptionError where the
        target does not compute in this precision, or this machine cannot measure for it.
        """
        precisions, target = self.precisions, self.target
        precisions.check(target)
        graph = separate_labels(flatten(self.graph))
        weights = "small" if self.options.size else self.options.weights
        closed = self.closed or self.options.compile == "never"
        chooser = Chooser(target.machine, self.threads, compact=weights == "small", closed=closed)
        if self.options.tune:

            def tuned_for(name: str) -> Chooser:
                def lowered(trial: Chooser) -> list[Program]:
                    only = LayerPrecisions.of(name)
                    return stages_of(graph, target, self.threads, only, trial).programs

                return tuned(lowered, chooser, target, name, progress=self.progress)

            chooser = chooser.apart({name: tuned_for(name) for name in precisions.names})
        stages = stages_of(graph, target, self.threads, precisions, chooser)
        if weights != "balanced":
            return stages
        most = most_bytes(graph, halves={*precisions.names} == {"fp16"})
        within = budgeted(chooser, stages.programs, most)
        if within is chooser:
            return stages
        return stages_of(graph, target, self.threads, precisions, within)

    def load(
        self, stages: Stages, output: PathLike | None = None, facts: Mapping[str, Any] = EMPTY
    ) -> Model:
        """The model of these stages, on this machine; `facts` as in `build`."""
        graph = self.graph
        if stages.whole is not None and all(is_native_type(v.type) for v in graph.inputs):
            folder = self.build(stages.whole, output, facts=facts)
            return CompiledModel.load(folder, threads=self.threads)
        require_interface(stages, self.options)
        parts = [
            part
            if isinstance(part, Graph)
            else CompiledModel.load(self.build(part, facts=facts), threads=self.threads)
            for part in stages.parts
        ]
        inputs = tuple(ValueSpec.of(v.name, v.type, v.default is not None) for v in graph.inputs)
        outputs = tuple(ValueSpec.of(n, v.type) for n, v in zip(graph.output_names, graph.outputs))
        model = HostedModel(
            graph.name,
            inputs,
            outputs,
            tuple(stages.returned),
            parts,
            self.threads,
            description_of(graph),
            facts.get("rows", {}),
        )
        if output is not None:
            model.save(output)
        return model

    def build(
        self,
        generated: tuple[Program, Plan],
        output: PathLike | None = None,
        *,
        facts: Mapping[str, Any] = EMPTY,
        profile: bool = False,
        toolchain: Toolchain | None = None,
    ) -> Path:
        """The folder of one program, compiled.

        Its metadata has what its kernels were chosen for, and `facts` besides: the report of how
        its precision was chosen, the description of the model (`description_of`), what is proven of
        the rows of its batches (`RowReport`). With `profile`, sessions tell when every step ran
        (`Session.records`).
        """
        program, memory = generated
        info = self.described(program, memory) | {
            name: fact for name, fact in facts.items() if fact
        }
        if profile:
            info["profile"] = all_sizes([program, *program.bodies])
        if self.prebuilt is not None:
            if profile:
                raise OptionError(
                    "steps of prebuilt kernels leave no records of when they ran",
                    hint='let the model be compiled (compile="wait")',
                )
            return self._program(generated, info, self.prebuilt, output)
        if self.is_bare or self.options.single:
            return self._single(program, memory, info, output)
        emitter = emitter_of(self.target.machine)
        folder = build(
            emitter.print_sources(program, memory, info, apart=True, profile=profile),
            program.weights,
            program.weights.bytes,
            info,
            key=program.weights.fingerprint(),
            target=self.target,
            toolchain=toolchain or self._toolchain(),
            output=output,
            progress=self.progress,
        )
        program.weights.give_back()
        return folder

    def described(self, program: Program, memory: Plan) -> dict[str, Any]:
        """The metadata of a program, but for what `build` is told."""
        info = metadata(program, program.weights.fingerprint()) | {
            "precision": str(self.precisions),
            "weights": self.options.weights,
        }
        if self.options.prefix != PREFIX:
            info["prefix"] = self.options.prefix
        if self.options.embed:
            info["embedded"] = True
        if limited := limited_kernels(program):
            info["limited_kernels"] = limited
        if "fp16" in self.precisions.names:
            info["kept_in_fp32"] = program.weights.float32_reasons
        info |= self.target.conditions
        arena = {"bytes": memory.total, "lower_bound": memory.lower_bound}
        info["arena"] = arena if memory.offsets is not None else None
        return info

    def _single(
        self, program: Program, memory: Plan, info: dict[str, Any], output: PathLike | None
    ) -> Path:
        """The folder of a program as one file of C."""
        assert output is not None
        emitter = emitter_of(self.target.machine)
        info |= {"embedded": True, "single": True} | ({"bare": True} if self.is_bare else {})
        texts = emitter.print_sources(program, memory, info) | emitter.interface_files(info)
        compiler = self._toolchain() if self.target.is_bare else None
        return write_single(texts, info, self.target, compiler, output)

    def _program(
        self,
        generated: tuple[Program, Plan],
        info: Mapping[str, Any],
        prebuilt: Prebuilt,
        output: PathLike | None,
    ) -> Path:
        """The folder of a program that calls functions of a library."""
        if self.options.compile == "never":
            equal = self.library is not None
            return build_program(
                generated, info, prebuilt, self.target, output, is_full_speed=equal
            )
        assert output is None
        return build_with_prebuilt(
            generated, info, prebuilt, self.target, self._toolchain, self.progress
        )

    def _toolchain(self) -> Toolchain:
        """The compiler for the target, with the flags that the options ask for."""
        try:
            toolchain = Toolchain.find(self.target)
        except ToolchainError as error:
            if not prebuilt_libraries():
                raise
            hint = f'{error.hint}, or let prebuilt kernels run the model (compile="never")'
            raise ToolchainError(error.what, hint=hint) from None
        if self.options.debug:
            return replace(toolchain, command=(*toolchain.command, *_DEBUG))
        return toolchain


def compiling_ahead(graph: Graph, options: CompileOptions) -> AbstractContextManager[None]:
    """While this is open, what models such as this graph, which need not be optimized, have in
    common is compiled, where that is of use (see `compiled_ahead`).
    """
    if options.compile != "wait" or options.is_source or fitting_library(options.target):
        return nullcontext()
    return compiled_ahead(graph, options.target)


def compile_graph(
    graph: Graph,
    options: CompileOptions | None = None,
    *,
    output: PathLike | None = None,
    progress: Progress | None = None,
) -> Model:
    """Compile `graph` (see `infuse.compile`)."""
    return Compilation(graph, options or CompileOptions(), progress).model(output)


def _has_bytes(graph: Graph) -> bool:
    """Whether a graph reads integers of 8 bits or fewer."""
    types = (v.type for g in graph.all_graphs() for n in g.unordered_nodes for v in n.operands())
    dtypes = {type.dtype for type in types if isinstance(type, TensorType)}
    return any(dtype.is_integer and dtype.bits <= 8 for dtype in dtypes)
