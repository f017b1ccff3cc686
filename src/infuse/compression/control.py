"""The choice of the forms of layers: the cheapest that the contract allows, and none that is slower
than float32.
"""

from __future__ import annotations

import numpy as np

from infuse.compression.contract import Bound
from infuse.compression.forms import Form
from infuse.compression.layers import Layer
from infuse.compression.measurements import Measurements
from infuse.compression.planning import Option, Selection, ladder
from infuse.compression.report import CompressionReport
from infuse.compression.speed import Region, regions

ROUNDS = 3
"""How often layers that are slower go back to float32."""
CHANGES_MOST = "it changes the outputs most"


class Control:
    """A search over the forms of layers that some plans offer."""

    def __init__(
        self, measurements: Measurements, bound: Bound | None, report: CompressionReport
    ) -> None:
        """What is chosen, and why, is noted in `report`."""
        self.measurements, self._bound, self._report = measurements, bound, report
        self._plans, self._evaluation = measurements.plans, measurements.evaluation
        self._layers = self.measurements.layers
        self.sensitivity: dict[tuple[Layer, int], float] = {}
        self.regions: dict[Layer, Region] = {}
        """The last times of each layer's region."""
        self.slow: set[Layer] = set()
        """Layers that stay in float32 as it is as fast, or as small."""
        self.needed: dict[Layer, str] = {}
        """Why layers are compressed that are slower for it."""

    def holds(self, selection: Selection) -> bool:
        """Whether the contract holds with these layers compressed."""
        if self._bound is None:
            return True
        metric = self._evaluation.metric
        reference = self._evaluation.reference
        return self._bound.holds(
            reference, self.measurements.score(selection), metric.higher_is_better
        )

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
            everything = self.measurements.everything(0)
            if self.holds(everything):
                return everything
        rungs = self._ladder()
        if self.holds(rungs[0]):
            return rungs[0]
        bad, good = 0, len(rungs) - 1
        while good - bad > 1 and not self.measurements.deadline.is_over:
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
            self.sensitivity.update(self.measurements.sensitivities(number))
        return ladder(self._options(self.sensitivity))

    def _options(self, changes: dict[tuple[Layer, int], float]) -> dict[Layer, list[Option]]:
        """What each layer could be: float32, or a form whose change of the outputs is told."""
        before = self.measurements.costs(frozenset(), "")
        offers = {layer: [Option(None, before[layer], 0.0)] for layer in self._layers}
        for number, plan in enumerate(self._plans):
            after = self.measurements.costs(self.measurements.everything(number), str(number))
            for layer in plan.forms:
                if (layer, number) in changes:
                    offers[layer].append(Option(number, after[layer], changes[layer, number]))
        for layer, options in offers.items():
            if len(options) > 1 and min(each.cost for each in options[1:]) >= options[0].cost:
                self.slow.add(layer)
        return offers

    # -- speed -------------------------------------------------------------------------------------

    def faster(self, selection: Selection) -> Selection:
        """These layers without those that are slower than in float32 on this machine; none where
        the whole is no faster.
        """
        times = self.measurements.seconds({"float32": frozenset(), "all": selection})
        for number in range(ROUNDS):
            if not selection or self.measurements.deadline.is_over:
                break
            slower = self._slower(selection)
            if not slower:
                break
            smaller = frozenset(each for each in selection if each[0] not in slower)
            name = f"round {number + 1}"
            again = self.measurements.seconds({"all": selection, name: smaller})
            if again[name] > again["all"]:
                self._need(slower, "slower alone, the whole is faster with it")
                break
            if not self.holds(smaller):
                self._need(slower, "slower, the contract does not hold without it")
                break
            times = self.measurements.seconds({"float32": frozenset(), name: smaller})
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

    def _need(self, layers: set[Layer], why: str) -> None:
        self.needed.update(dict.fromkeys(layers, why))

    def _slower(self, selection: Selection) -> set[Layer]:
        chosen = dict(selection)
        self._evaluation.release()
        measured = regions(
            self.measurements.graph_of(frozenset()),
            self.measurements.graph_of(selection),
            [layer for layer in self._layers if layer in chosen and not layer.is_embedding],
            self._evaluation.runs[0],
            self._evaluation.threads,
        )
        self.regions.update((layer, region) for region in measured for layer in region.layers)
        return {layer for region in measured if region.is_slower for layer in region.layers}

    # -- what is told ------------------------------------------------------------------------------

    def form_of(self, layer: Layer, number: int) -> Form:
        """The form of a layer that a plan offers."""
        return self._plans[number].forms[layer]

    def reason(self, layer: Layer) -> str:
        """Why a layer that could have a form is in float32."""
        if layer in self.slow:
            return (
                "float32 takes no more bytes" if self.measurements.by_size else "float32 is as fast"
            )
        return "its result would be too far off" if self._bound is None else CHANGES_MOST

    def reason_to_compress(self, layer: Layer) -> str:
        """Why a layer has a form that is slower than float32; nothing for others."""
        return self.needed.get(layer, "")

    def noise(self, layer: Layer, number: int) -> float | None:
        """The error in dB of a layer's result with its form of a plan."""
        error = self._plans[number].errors.get(layer)
        return float(10 * np.log10(error)) if error else None
