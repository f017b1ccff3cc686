"""What is measured of a graph whose layers have forms that some plans offer."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.compression.contract import Deadline
from infuse.compression.costs import Costs, bytes_of_layers, bytes_of_weights, seconds_of_layers
from infuse.compression.evaluation import Evaluation, Memory
from infuse.compression.forms import has_byte_activation
from infuse.compression.insertion import with_forms
from infuse.compression.layers import Layer
from infuse.compression.planning import Selection
from infuse.compression.sensitivity import SECONDS, SHARE, change, powers_of, sensitivities
from infuse.compression.setting import Plan
from infuse.compression.static import between_layers
from infuse.ir.graph import Graph
from infuse.profiling.progress import Progress

SECONDS_PER_BYTE = 1e-11
"""What a byte of weights costs beside time: what reading it from memory takes at least."""


class Measurements:
    """Graphs, scores, costs and times of selections; what takes long is stored in `memory`, so that
    a second call goes the same way.
    """

    def __init__(
        self,
        graph: Graph,
        plans: Sequence[Plan],
        evaluation: Evaluation,
        memory: Memory,
        deadline: Deadline,
        progress: Progress | None,
        *,
        by_size: bool = False,
        is_coded: bool = False,
    ) -> None:
        """`graph` computes what the original of `evaluation` does, with scales of channels moved,
        and has the layers of the plans. With `by_size`, forms cost their bytes, with `is_coded`
        those of their coded forms, else their seconds on this machine.
        """
        self._graph, self.plans, self.evaluation = graph, plans, evaluation
        self._memory, self.deadline, self._progress = memory, deadline, progress
        self.by_size, self._is_coded = by_size, is_coded
        self.layers = list(dict.fromkeys(layer for plan in plans for layer in plan.forms))
        self._numbers = {layer: number for number, layer in enumerate(self.layers)}
        self._graphs: dict[Selection, Graph] = {}
        self.scores: dict[Selection, float] = {}
        """What was measured, in the order of the search."""

    def graph_of(self, selection: Selection) -> Graph:
        """The graph in which these layers have these forms."""
        if not selection:
            return self.evaluation.original
        if selection not in self._graphs:
            chosen = dict(selection)
            forms = {
                layer: self.plans[chosen[layer]].forms[layer]
                for layer in self.layers
                if layer in chosen
            }
            static = [layer for layer, form in forms.items() if has_byte_activation(form)]
            scales = {value: s for plan in self.plans for value, s in plan.between.items()}
            values = between_layers(self._graph, static)
            between = {value: scales[value] for value in values if value in scales}
            self._graphs[selection] = with_forms(self._graph, forms, between)
        return self._graphs[selection]

    def score(self, selection: Selection) -> float:
        """The score with these layers compressed, measured once; that of a function of the user in
        each call, since nobody knows what it does.
        """
        if not selection:
            return self.evaluation.reference
        if selection in self.scores:
            return self.scores[selection]
        metric = self.evaluation.metric
        key = f"{metric.name} {self._key(selection)}"
        score = self._memory.get(key) if metric.is_builtin else None
        if score is None:
            score = self.evaluation.score(self.graph_of(selection))
            if metric.is_builtin:
                self._memory.put(key, score)
        self.scores[selection] = float(score)
        return float(score)

    def _key(self, selection: Selection) -> str:
        return ",".join(
            f"{number}:{plan}"
            for number, plan in sorted((self._numbers[layer], plan) for layer, plan in selection)
        )

    def everything(self, plan: int) -> Selection:
        """All layers that a plan has forms for, in these."""
        return frozenset((layer, plan) for layer in self.plans[plan].forms)

    def costs(self, selection: Selection, name: str) -> Costs:
        """What each layer costs in the graph of a selection: kept, so that a second call goes the
        same way.
        """
        kind = "bytes" if self.by_size else "seconds"
        stored = self._memory.get(f"{kind} {name}")
        if stored is None:
            graph = self.graph_of(selection)
            costs = bytes_of_layers(graph, self.layers, self._is_coded)
            if not self.by_size:
                feeds, threads = self.evaluation.runs[0], self.evaluation.threads
                self.evaluation.release()
                seconds = seconds_of_layers(graph, self.layers, feeds, threads)
                costs = {each: seconds[each] + SECONDS_PER_BYTE * costs[each] for each in costs}
            stored = [costs[layer] for layer in self.layers]
            self._memory.put(f"{kind} {name}", stored)
        return dict(zip(self.layers, stored))

    def sensitivities(self, number: int) -> dict[tuple[Layer, int], float]:
        """How much each layer alone changes the outputs with its form of a plan."""
        forms = self.plans[number].forms
        if not forms:
            return {}
        measured_number = self._representative(number)
        if measured_number != number:
            return self._in_proportion(number, measured_number)
        stored = self._memory.get(f"sensitivities {number}")
        if stored is None:
            exact = self.evaluation.exact
            powers = powers_of(exact)
            outputs = self.evaluation.outputs(self.graph_of(self.everything(number)))
            self.evaluation.release()
            measured, runs = sensitivities(
                self._graph,
                forms,
                self.evaluation.runs,
                [change(one, right, powers) for one, right in zip(outputs, exact)],
                powers,
                seconds=min(SECONDS, SHARE * self.deadline.left) / len(self.plans),
                threads=self.evaluation.threads,
                progress=self._progress,
            )
            self.evaluation.model_runs += runs
            stored = [measured[layer] for layer in forms]
            self._memory.put(f"sensitivities {number}", stored)
        return {(layer, number): value for layer, value in zip(forms, stored)}

    def _representative(self, number: int) -> int:
        """The number of the plan that is measured for a plan: the middle one of its family."""
        family = self.plans[number].family
        members = [each for each, plan in enumerate(self.plans) if plan.family == family]
        return members[len(members) // 2] if family else number

    def _in_proportion(self, number: int, measured: int) -> dict[tuple[Layer, int], float]:
        """Changes of a plan from those of another one of its family, by the errors of both."""
        errors, others = self.plans[number].errors, self.plans[measured].errors
        return {
            (layer, number): change * errors[layer] / others[layer] if others[layer] else 0.0
            for (layer, _), change in self.sensitivities(measured).items()
        }

    def weight_bytes(self, selection: Selection) -> int:
        """The bytes of the weights with these layers compressed."""
        return bytes_of_weights(self.graph_of(selection), self._is_coded and bool(selection))

    def seconds(self, selections: dict[str, Selection]) -> dict[str, float]:
        """Seconds of a run with the layers of each selection compressed, by name."""
        return self.evaluation.seconds(
            {name: self.graph_of(selection) for name, selection in selections.items()}
        )
