"""What a graph becomes before it is compiled: kernel calls and memory, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infuse import dtypes
from infuse.analysis.cost import node_cost
from infuse.build.autotune.precision import PrecisionReport
from infuse.build.compile import Compilation
from infuse.build.staged import Stages
from infuse.ir.graph import Graph, Node
from infuse.lowering.emitter import Emitter, emitter_of
from infuse.lowering.memory import Plan
from infuse.lowering.metadata import limited_kernels
from infuse.lowering.program import Program, Step
from infuse.lowering.weights import constant_bytes
from infuse.ops.core.opaque import unknown_nodes
from infuse.options import CompileOptions
from infuse.profiling.progress import Progress


@dataclass(frozen=True)
class Lowered:
    """What a graph becomes after optimization, stage by stage."""

    compilation: Compilation
    stages: Stages
    report: PrecisionReport | None

    @classmethod
    def of(cls, graph: Graph, options: CompileOptions, progress: Progress) -> Lowered:
        """What an optimized graph becomes for these options, whose precision is looked for where
        it is auto.
        """
        compilation, report = Compilation(graph, options, progress).decided()
        return cls(compilation, compilation.stages(), report)

    @property
    def emitter(self) -> Emitter:
        """What writes the code of the target."""
        return emitter_of(self.compilation.target.machine)

    @property
    def parts(self) -> list[tuple[Program, Plan]]:
        """The programs of native stages, and the plans of their working memory."""
        return [part for part in self.stages.parts if isinstance(part, tuple)]

    def text(self) -> str:
        """The programs as text, and the nodes that the interpreter runs."""
        texts = [
            self.emitter.listing(*part, self.compilation.target, self.compilation.threads)
            for part in self.parts
        ]
        hosted = [f"# run by the interpreter: {_label(node)}\n" for node in self.stages.host_nodes]
        return "\n".join([*texts, *hosted])

    def describe(self) -> dict[str, Any]:
        """The kernel calls and the plan of the working memory, as plain data."""
        programs = [inner for program, _ in self.parts for inner in (program, *program.bodies)]
        plans = [inner for _, plan in self.parts for inner in (plan, *plan.bodies)]
        steps = [step for program in programs for step in program.steps]
        called = {name for step in steps for name in step.nodes}
        static = all(plan.offsets is not None for plan in plans)
        hosted = self.stages.host_nodes
        graph = self.compilation.graph
        uncalled = sum(node.name not in called for node in graph.unordered_nodes)
        return {
            "calls": [_call(step, self.emitter) for step in steps],
            "functions": sum(len(self.emitter.functions(program)) for program, _ in self.parts),
            "nodes": len(graph),
            "nodes_without_call": uncalled - len(hosted),
            "host_steps": [_label(node) for node in hosted if not unknown_nodes(node)],
            "unknown_steps": [_label(node) for node in hosted if unknown_nodes(node)],
            "precision": str(self.compilation.precisions),
            "precision_report": None if self.report is None else self.report.to_dict(),
            "target_remarks": self.compilation.target.remarks,
            "weights": self.compilation.options.weights,
            "packed_weights_bytes": self.stages.weights_bytes,
            "constants_bytes": constant_bytes(graph),
            "limited_kernels": {
                node: kernels
                for program, _ in self.parts
                for node, kernels in limited_kernels(program).items()
            },
            "kept_in_fp32": {
                name: why
                for program, _ in self.parts
                for name, why in program.weights.float32_reasons.items()
            },
            "arena_bytes": sum(plan.total for plan in plans) if static else None,
            "arena_lower_bound": sum(plan.lower_bound for plan in plans) if static else None,
        }


def _label(node: Node) -> str:
    return f"{node.kind} {node.name!r}"


def _call(step: Step, emitter: Emitter) -> dict[str, Any]:
    """One call; copies that a kernel needs before it have no choice of their own."""
    chosen = step.choice if step.nodes else None
    return {
        "kernel": step.label,
        "function": step.function.name,
        "algorithm": emitter.kernels_in(step.function),
        "choice": None if chosen is None else chosen.to_dict(),
        "precision": step.precision if _multiplies(step) else None,
        "nodes": list(step.nodes),
    }


def _multiplies(step: Step) -> bool:
    """Whether a call is of a layer that has a precision: it multiplies floats, or reads rounded
    ones.
    """
    floats = [node for node in step.sources if node.outputs[0].dtype == dtypes.float32]
    return step.precision != "fp32" or any(node_cost(node).macs != 0 for node in floats)
