"""`compress` with pruning: what makes networks narrower comes before what rounds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from infuse.compression.candidates import candidates_of_stage
from infuse.compression.contract import Deadline
from infuse.compression.evaluation import settled
from infuse.compression.pipeline import Request
from infuse.compression.pruning.search import Pruner
from infuse.compression.report import PRUNED
from infuse.compression.stages import Stages, contract_error, halves, stages
from infuse.compression.tuning import TuneOptions
from infuse.ir.graph import Graph
from infuse.options.methods import Int8, Method, Prune
from infuse.profiling.progress import Progress, enter

HINT = "prune less (--prune), tune longer (--tune), or allow more (--max-drop)"


@dataclass(frozen=True)
class Narrowing:
    """How a graph becomes narrower, what tunes it, and by which methods it is rounded afterwards
    (none: it stays in float32).
    """

    prune: Prune
    tune: TuneOptions | None = None
    methods: tuple[Method, ...] = ()

    @property
    def has_integers(self) -> bool:
        """Whether activations and weights are rounded afterwards."""
        return any(type(method) is Int8 for method in self.methods)


def narrow_graph(
    graph: Graph,
    request: Request,
    narrowing: Narrowing,
    progress: Progress | None = None,
) -> Graph:
    """A narrower copy of a graph that was optimized to standard operators (see
    `infuse.compress`).
    """
    deadline = Deadline(request.contract.minutes)
    is_tuned, has_data = narrowing.tune is not None, request.examples.inputs is not None
    with stages(graph, request, is_tuned, progress) as stage:
        for_floats, for_integers = halves(narrowing.tune, narrowing.has_integers)
        pruner = Pruner(
            stage.source,
            replace(narrowing.prune, kinds=narrowing.prune.kinds_for(has_data)),
            stage.evaluation,
            stage.bound,
            deadline,
            lessons=stage.lessons,
            tuning=for_floats,
            seed=request.seed,
            progress=progress,
        )
        enter(progress, "prune")
        narrow, score = pruner.run()
        result = _finished(narrow, stage, pruner, score)
        _require_narrower(result, pruner, stage)
        if not narrowing.methods:
            return result
        if for_integers is not None:
            report = result.compression
            stage = stage.with_remaining(pruner.remaining)
            tuned, note = stage.tuned_for_integers(narrow, for_integers)
            report.notes.append(note)
            if tuned is not narrow:
                result = settled(tuned, request.options.level)
                result.compression = report
        return stage.rounded(result, narrowing.methods, PRUNED, HINT)


def _finished(narrow: Graph, stage: Stages, pruner: Pruner, score: float) -> Graph:
    """The narrow graph, optimized, with its report."""
    result = stage.measured(narrow, score)
    report = result.compression
    report.pruning, report.notes = pruner.report, [*pruner.notes, *stage.notes]
    if report.seconds >= report.float_seconds:
        report.notes.append("the narrower model is no faster on this machine")
    is_narrower = pruner.report.macs < pruner.report.macs_before
    report.tried = candidates_of_stage(report, PRUNED if is_narrower else None)
    return result


def _require_narrower(result: Graph, pruner: Pruner, stage: Stages) -> None:
    """ContractError where there is a bound, and no round was within it."""
    pruning = pruner.report
    if stage.bound is None or pruning.macs < pruning.macs_before:
        return
    report = result.compression
    tried = ", ".join(f"{each['macs'] / 1e6:.2f}: {each['after']:.6g}" for each in pruning.rounds)
    why = (
        f"{report.metric} of {report.reference:.6g} falls by more than {stage.bound} in every "
        f"round (million MACs, and the score: {tried})"
        if pruning.rounds
        else "nothing can be removed: " + "; ".join(pruner.notes)
    )
    raise contract_error(why, result, HINT)
