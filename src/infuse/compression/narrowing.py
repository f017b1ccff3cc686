"""`compress` with pruning: what makes networks narrower comes before what rounds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infuse.analysis.dataset import Data
from infuse.compression.candidates import candidates_of_stage
from infuse.compression.contract import Deadline
from infuse.compression.evaluation import settled
from infuse.compression.pipeline import Request
from infuse.compression.pruning.request import PruneRequest
from infuse.compression.pruning.search import Pruner
from infuse.compression.report import PRUNED
from infuse.compression.stages import Stages, contract_error, halves, stages
from infuse.compression.tuning import TuneOptions
from infuse.ir.graph import Graph
from infuse.profiling.progress import Progress

HINT = "prune less (--prune), tune longer (--tune), or allow more (--max-drop)"


@dataclass(frozen=True)
class Narrowing:
    """How a graph becomes narrower, what tunes it, and by which methods it is rounded afterwards
    (None: it stays in float32).
    """

    prune: PruneRequest
    tune: TuneOptions | None = None
    method: str | Sequence[str] | None = None

    @property
    def has_integers(self) -> bool:
        """Whether activations and weights are rounded afterwards."""
        return "int8" in ([self.method] if isinstance(self.method, str) else self.method or ())


def narrow_graph(
    graph: Graph,
    request: Request,
    narrowing: Narrowing,
    data: Data | None = None,
    labels: Any = None,
    validation: Data | None = None,
    progress: Progress | None = None,
) -> Graph:
    """A narrower copy of a graph that was optimized to standard operators (see
    `infuse.compress`).
    """
    deadline = Deadline(request.minutes)
    is_tuned = narrowing.tune is not None
    with stages(graph, request, is_tuned, data, labels, validation, progress) as stage:
        for_floats, for_integers = halves(narrowing.tune, narrowing.has_integers)
        pruner = Pruner(
            stage.source,
            narrowing.prune,
            stage.evaluation,
            stage.bound,
            deadline,
            lessons=stage.lessons,
            tuning=for_floats,
            seed=request.seed,
            progress=progress,
        )
        narrow, score = pruner.run()
        result = _finished(narrow, stage, pruner, score)
        _require_narrower(result, pruner, stage)
        if not narrowing.method:
            return result
        if for_integers is not None:
            report = result.compression
            stage = stage.with_remaining(pruner.remaining)
            tuned, note = stage.tuned_for_integers(narrow, for_integers)
            report.notes.append(note)
            if tuned is not narrow:
                result = settled(tuned, request.level)
                result.compression = report
        return stage.rounded(result, narrowing.method, PRUNED, HINT)


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
