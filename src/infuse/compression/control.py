"""The choice of the forms of layers: the cheapest that the contract allows, and none that is slower
than float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.compression.contract import Bound, Deadline
from infuse.compression.costs import Costs, bytes_of_layers, bytes_of_weights, seconds_of_layers
from infuse.compression.evaluation import Evaluation, Memory
from infuse.compression.forms import Form, has_byte_activation
from infuse.compression.insertion import with_forms
from infuse.compression.layers import Layer
from infuse.compression.methods import Plan
from infuse.compression.planning import Option, Selection, ladder
from infuse.compression.report import CompressionReport
from infuse.compression.sensitivity import SECONDS, SHARE, change, powers_of, sensitivities
from infuse.compression.speed import Region, regions
from infuse.compression.static import between_layers
from infuse.ir.graph import Graph
from infuse.profiling.progress import Progress

ROUNDS = 3
"""How often layers that are slower go back to float32."""
CHANGES_MOST = "it changes the outputs most"
SECONDS_PER_BYTE = 1e-11
"""What a byte of weights costs beside time: what reading it from memory takes at least."""


class Control:
    """A search over the forms of layers that some plans offer."""

    def __init__(
        self,
        graph: Graph,
        plans: Sequence[Plan],
        evaluation: Evaluation,
        memory: Memory,
        bound: Bound | None,
        deadline: Deadline,
        report: CompressionReport,
        progress: Progress | None,
        *,
        by_size: bool = False,
        is_coded: bool = False,
    ) -> None:
        """`graph` computes what the original of `evaluation` does, with scales of channels moved,
        and has the layers of the plans. With `by_size`, forms cost their bytes, with `is_coded`
        those of their coded forms, else their seconds on this machine.
        """
        self._is_coded = is_coded
        self._graph, self._plans, self._evaluation = graph, plans, evaluation
        self._memory, self._bound, self._deadline = memory, bound, deadline
        self._report, self._progress, self._by_size = report, progress, by_size
        self._layers = list(dict.fromkeys(layer for plan in plans for layer in plan.forms))
        self._numbers = {layer: number for number, layer in enumerate(self._layers)}
        self._graphs: dict[Selection, Graph] = {}
        self.scores: dict[Selection, float] = {}
        """What was measured, in the order of the search."""
        self.sensitivity: dict[tuple[Layer, int], float] = {}
        self.regions: dict[Layer, Region] = {}
        """The last times of each layer's region."""
        self.slow: set[Layer] = set()
        """Layers that stay in float32 as it is as fast, or as small."""

    def graph_of(self, selection: Selection) -> Graph:
        """The graph in which these layers have these forms."""
        if not selection:
            return self._evaluation.original
        if selection not in self._graphs:
            chosen = dict(selection)
            forms = {
                layer: self._plans[chosen[layer]].forms[layer]
                for layer in self._layers
                if layer in chosen
            }
            static = [layer for layer, form in forms.items() if has_byte_activation(form)]
            scales = {value: s for plan in self._plans for value, s in plan.between.items()}
            values = between_layers(self._graph, static)
            between = {value: scales[value] for value in values if value in scales}
            self._graphs[selection] = with_forms(self._graph, forms, between)
        return self._graphs[selection]

    # -- what is measured --------------------------------------------------------------------------

    def score(self, selection: Selection) -> float:
        """The score with these layers compressed, measured once; that of a function of the user in
        each call, since nobody knows what it does.
        """
        if not selection:
            return self._evaluation.reference
        if selection in self.scores:
            return self.scores[selection]
        metric = self._evaluation.metric
        key = f"{metric.name} {self._key(selection)}"
        score = self._memory.get(key) if metric.is_builtin else None
        if score is None:
            score = self._evaluation.score(self.graph_of(selection))
            if metric.is_builtin:
                self._memory.put(key, score)
        self.scores[selection] = float(score)
        return float(score)

    def _key(self, selection: Selection) -> str:
        return ",".join(
            f"{number}:{plan}"
            for number, plan in sorted((self._numbers[layer], plan) for layer, plan in selection)
        )

    def holds(self, selection: Selection) -> bool:
        """Whether the contract holds with these layers compressed."""
        if self._bound is None:
            return True
        metric = self._evaluation.metric
        reference = self._evaluation.reference
        return self._bound.holds(reference, self.score(selection), metric.higher_is_better)

    # -- accuracy ----------------------------------------------------------------------------------

    def accurate(self) -> Selection:
        """The cheapest selection that the contract allows. Where one method is offered and all
        layers together hold, that is found without looking at any alone.
        """
        if not self._layers:
            return frozenset()
        if self._bound is None:
            return self._without_contract()
        if len(self._plans) == 1:
            everything = self._everything(0)
            if self.holds(everything):
                return everything
        rungs = self._ladder()
        if self.holds(rungs[0]):
            return rungs[0]
        bad, good = 0, len(rungs) - 1
        while good - bad > 1 and not self._deadline.is_over:
            middle = (bad + good) // 2
            if self.holds(rungs[middle]):
                good = middle
            else:
                bad = middle
        if good - bad > 1:
            self._report.notes.append(
                f"the time ended with {good - bad - 1} plans between the last that lost too much "
                "and the one that was taken"
            )
        return rungs[good] if self.holds(rungs[good]) else frozenset()

    def _everything(self, plan: int) -> Selection:
        return frozenset((layer, plan) for layer in self._plans[plan].forms)

    def _without_contract(self) -> Selection:
        """The cheapest form of each layer, of those that a plan gives without a contract."""
        allowed = {
            (layer, number)
            for number, plan in enumerate(self._plans)
            for layer in plan.forms
            if plan.errors.get(layer, 0.0) <= plan.limit
        }
        if len(self._plans) == 1 or not allowed:
            return frozenset(allowed)
        changes = {each: self._plans[each[1]].errors.get(each[0], 0.0) for each in allowed}
        return ladder(self._options(changes))[0]

    def _ladder(self) -> list[Selection]:
        for number in range(len(self._plans)):
            self.sensitivity.update(self._sensitivities(number))
        return ladder(self._options(self.sensitivity))

    def _options(self, changes: dict[tuple[Layer, int], float]) -> dict[Layer, list[Option]]:
        """What each layer could be: float32, or a form whose change of the outputs is told."""
        before = self._costs(frozenset(), "")
        offers = {layer: [Option(None, before[layer], 0.0)] for layer in self._layers}
        for number, plan in enumerate(self._plans):
            after = self._costs(self._everything(number), str(number))
            for layer in plan.forms:
                if (layer, number) in changes:
                    offers[layer].append(Option(number, after[layer], changes[layer, number]))
        for layer, options in offers.items():
            if len(options) > 1 and min(each.cost for each in options[1:]) >= options[0].cost:
                self.slow.add(layer)
        return offers

    def _costs(self, selection: Selection, name: str) -> Costs:
        """What each layer costs in the graph of a selection: kept, so that a second call goes the
        same way.
        """
        kind = "bytes" if self._by_size else "seconds"
        stored = self._memory.get(f"{kind} {name}")
        if stored is None:
            graph = self.graph_of(selection)
            costs = bytes_of_layers(graph, self._layers, self._is_coded)
            if not self._by_size:
                feeds, threads = self._evaluation.runs[0], self._evaluation.threads
                self._evaluation.release()
                seconds = seconds_of_layers(graph, self._layers, feeds, threads)
                costs = {each: seconds[each] + SECONDS_PER_BYTE * costs[each] for each in costs}
            stored = [costs[layer] for layer in self._layers]
            self._memory.put(f"{kind} {name}", stored)
        return dict(zip(self._layers, stored))

    def _sensitivities(self, number: int) -> dict[tuple[Layer, int], float]:
        """How much each layer alone changes the outputs with its form of a plan."""
        forms = self._plans[number].forms
        if not forms:
            return {}
        measured_number = self._representative(number)
        if measured_number != number:
            return self._in_proportion(number, measured_number)
        stored = self._memory.get(f"sensitivities {number}")
        if stored is None:
            exact = self._evaluation.exact
            powers = powers_of(exact)
            outputs = self._evaluation.outputs(self.graph_of(self._everything(number)))
            self._evaluation.release()
            measured, runs = sensitivities(
                self._graph,
                forms,
                self._evaluation.runs,
                [change(one, right, powers) for one, right in zip(outputs, exact)],
                powers,
                seconds=min(SECONDS, SHARE * self._deadline.left) / len(self._plans),
                threads=self._evaluation.threads,
                progress=self._progress,
            )
            self._evaluation.model_runs += runs
            stored = [measured[layer] for layer in forms]
            self._memory.put(f"sensitivities {number}", stored)
        return {(layer, number): value for layer, value in zip(forms, stored)}

    def _representative(self, number: int) -> int:
        """The number of the plan that is measured for a plan: the middle one of its family."""
        family = self._plans[number].family
        members = [each for each, plan in enumerate(self._plans) if plan.family == family]
        return members[len(members) // 2] if family else number

    def _in_proportion(self, number: int, measured: int) -> dict[tuple[Layer, int], float]:
        """Changes of a plan from those of another one of its family, by the errors of both."""
        errors, others = self._plans[number].errors, self._plans[measured].errors
        return {
            (layer, number): change * errors[layer] / others[layer] if others[layer] else 0.0
            for (layer, _), change in self._sensitivities(measured).items()
        }

    def weight_bytes(self, selection: Selection) -> int:
        """The bytes of the weights with these layers compressed."""
        return bytes_of_weights(self.graph_of(selection), self._is_coded and bool(selection))

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
            smaller = frozenset(each for each in selection if each[0] not in slower)
            name = f"round {number + 1}"
            again = self._seconds({"all": selection, name: smaller})
            if again[name] > again["all"] or not self.holds(smaller):
                break
            times = self._seconds({"float32": frozenset(), name: smaller})
            times["all"] = times[name]
            self.slow |= slower
            selection = smaller
        if self.slow:
            self._report.notes.append(
                f"{len(self.slow)} layers stay in float32, which is as fast on this machine"
            )
        self._report.float_seconds, self._report.seconds = times["float32"], times["all"]
        if selection and times["all"] > times["float32"]:
            self._report.notes.append("the whole is slower than float32 here, so nothing changes")
            self.slow |= {layer for layer, _ in selection}
            selection = frozenset()
        if not selection:
            self._report.seconds = self._report.float_seconds
        return selection

    def _slower(self, selection: Selection) -> set[Layer]:
        chosen = dict(selection)
        self._evaluation.release()
        measured = regions(
            self.graph_of(frozenset()),
            self.graph_of(selection),
            [layer for layer in self._layers if layer in chosen and not layer.is_embedding],
            self._evaluation.runs[0],
            self._evaluation.threads,
        )
        self.regions.update((layer, region) for region in measured for layer in region.layers)
        return {layer for region in measured if region.is_slower for layer in region.layers}

    def _seconds(self, selections: dict[str, Selection]) -> dict[str, float]:
        return self._evaluation.seconds(
            {name: self.graph_of(selection) for name, selection in selections.items()}
        )

    # -- what is told ------------------------------------------------------------------------------

    def form_of(self, layer: Layer, number: int) -> Form:
        """The form of a layer that a plan offers."""
        return self._plans[number].forms[layer]

    def reason(self, layer: Layer) -> str:
        """Why a layer that could have a form is in float32."""
        if layer in self.slow:
            return "float32 takes no more bytes" if self._by_size else "float32 is as fast"
        return "its result would be too far off" if self._bound is None else CHANGES_MOST

    def noise(self, layer: Layer, number: int) -> float | None:
        """The error in dB of a layer's result with its form of a plan."""
        error = self._plans[number].errors.get(layer)
        return float(10 * np.log10(error)) if error else None
