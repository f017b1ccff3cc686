"""The choice of the layers that are compressed: as many as the contract allows, and none that is
slower than in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infuse.analysis.metrics import Outputs
from infuse.compression.contract import Bound, Deadline
from infuse.compression.evaluation import Evaluation, Memory
from infuse.compression.insertion import with_forms
from infuse.compression.layers import Layer
from infuse.compression.methods import Plan
from infuse.compression.report import CompressionReport
from infuse.compression.sensitivity import SECONDS, SHARE, change, sensitivities
from infuse.compression.speed import Region, regions
from infuse.compression.static import between_layers
from infuse.ir.graph import Graph
from infuse.profiling.progress import Progress

ROUNDS = 3
"""How often layers that are slower go back to float32."""
Selection = frozenset[Layer]


class Control:
    """A search over which layers of a plan have their forms."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        evaluation: Evaluation,
        memory: Memory,
        bound: Bound | None,
        deadline: Deadline,
        report: CompressionReport,
        progress: Progress | None,
    ) -> None:
        self._graph, self._plan, self._evaluation = graph, plan, evaluation
        self._memory, self._bound, self._deadline = memory, bound, deadline
        self._report, self._progress = report, progress
        self._numbers = {layer: number for number, layer in enumerate(plan.forms)}
        self._graphs: dict[Selection, Graph] = {}
        self._scores: dict[Selection, float] = {}
        self.sensitivity: dict[Layer, float] = {}
        self.regions: dict[Layer, Region] = {}
        """The last times of each layer's region."""
        self.slow: set[Layer] = set()
        """Layers that went back to float32 as it is as fast."""

    def graph_of(self, selection: Selection) -> Graph:
        """The graph in which these layers have their forms."""
        if not selection:
            return self._graph
        if selection not in self._graphs:
            forms = {layer: form for layer, form in self._plan.forms.items() if layer in selection}
            values = between_layers(self._graph, forms)
            between = {v: self._plan.between[v] for v in values if v in self._plan.between}
            self._graphs[selection] = with_forms(self._graph, forms, between)
        return self._graphs[selection]

    # -- what is measured --------------------------------------------------------------------------

    def score(self, selection: Selection) -> float:
        """The score with these layers compressed, measured once; that of a function of the user in
        each call, since nobody knows what it does.
        """
        if not selection:
            return self._evaluation.reference
        if selection in self._scores:
            return self._scores[selection]
        metric = self._evaluation.metric
        key = f"{metric.name} {self._key(selection)}"
        score = self._memory.get(key) if metric.is_builtin else None
        if score is None:
            score = self._evaluation.score(self.graph_of(selection))
            if metric.is_builtin:
                self._memory.put(key, score)
        self._scores[selection] = float(score)
        self._report.tried.append({"layers": len(selection), "score": float(score)})
        return float(score)

    def _key(self, selection: Iterable[Layer]) -> str:
        return ",".join(str(number) for number in sorted(self._numbers[each] for each in selection))

    def holds(self, selection: Selection) -> bool:
        """Whether the contract holds with these layers compressed."""
        if self._bound is None:
            return True
        metric = self._evaluation.metric
        reference = self._evaluation.reference
        return self._bound.holds(reference, self.score(selection), metric.higher_is_better)

    # -- accuracy ----------------------------------------------------------------------------------

    def accurate(self) -> Selection:
        """As many layers as the contract allows: all, or all but those that change the outputs
        most.
        """
        everything = frozenset(self._plan.forms)
        if not everything or self.holds(everything):
            return everything
        order = self._by_sensitivity()
        few, many = 0, len(order)
        while many - few > 1 and not self._deadline.is_over:
            middle = (few + many) // 2
            if self.holds(frozenset(order[middle:])):
                many = middle
            else:
                few = middle
        if many - few > 1:
            self._report.notes.append(
                f"the time ended with between {few + 1} and {many} layers to leave in float32"
            )
        return frozenset(order[many:])

    def _by_sensitivity(self) -> list[Layer]:
        """Layers from the one that changes the outputs most to that which changes them least."""
        stored = self._memory.get("sensitivities")
        if stored is None:
            everything = frozenset(self._plan.forms)
            outputs = self._evaluation.outputs(self.graph_of(everything))
            measured = sensitivities(
                self._graph,
                self._plan.forms,
                self._evaluation.runs,
                self._changes(outputs),
                seconds=min(SECONDS, SHARE * self._deadline.left),
                threads=self._evaluation.threads,
                progress=self._progress,
            )
            stored = [measured[layer] for layer in self._plan.forms]
            self._memory.put("sensitivities", stored)
        self.sensitivity = dict(zip(self._plan.forms, stored))
        return sorted(self._plan.forms, key=self.sensitivity.__getitem__, reverse=True)

    def _changes(self, outputs: Sequence[Outputs]) -> list[float]:
        return [change(one, exact) for one, exact in zip(outputs, self._evaluation.exact)]

    # -- speed -------------------------------------------------------------------------------------

    def faster(self, selection: Selection) -> Selection:
        """These layers without those that are slower than in float32 on this machine; none where
        the whole is no faster.
        """
        times = self._seconds({"float32": frozenset(), "all": selection})
        for number in range(ROUNDS):
            if not selection or self._deadline.is_over:
                break
            slower = self._slower(selection)
            if not slower:
                break
            smaller = selection - slower
            name = f"round {number + 1}"
            again = self._seconds({"float32": frozenset(), "all": selection, name: smaller})
            if again[name] > again["all"] or not self.holds(smaller):
                break
            times = {"float32": again["float32"], "all": again[name]}
            self.slow |= slower
            selection = smaller
        if self.slow:
            self._report.notes.append(
                f"{len(self.slow)} layers stay in float32, which is as fast on this machine"
            )
        self._report.float_seconds, self._report.seconds = times["float32"], times["all"]
        if selection and times["all"] > times["float32"]:
            self._report.notes.append("the whole is slower than float32 here, so nothing changes")
            selection = frozenset()
        if not selection:
            self._report.seconds = self._report.float_seconds
        return selection

    def _slower(self, selection: Selection) -> Selection:
        measured = regions(
            self._graph,
            self.graph_of(selection),
            [each for each in self._plan.forms if each in selection and not each.is_embedding],
            self._evaluation.runs[0],
            self._evaluation.threads,
        )
        self.regions.update((layer, region) for region in measured for layer in region.layers)
        slower = [region.layers for region in measured if region.is_slower]
        return frozenset(layer for layers in slower for layer in layers)

    def _seconds(self, selections: dict[str, Selection]) -> dict[str, float]:
        return self._evaluation.seconds(
            {name: self.graph_of(selection) for name, selection in selections.items()}
        )
