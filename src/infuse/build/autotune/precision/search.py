"""The search for the fastest precision within a bound.

The whole model is compiled in every precision that the target computes in, and timed. One that is
clearly faster than fp32 and within the bound is taken. Where it is out of the bound, layers stay in
fp32, those first that change the outputs most: as few as bisection over compiled models finds.
These get the next precision where that is faster still. What is taken has been compiled, run and
compared; else the model stays in fp32, and the report says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from infuse.build.autotune.measurement import require_runnable
from infuse.build.autotune.precision.difference import difference, differences_alone
from infuse.build.autotune.precision.records import Outcome, OutcomeRecord
from infuse.build.autotune.precision.report import (
    LayerReport,
    PrecisionReport,
    Timing,
    finite,
    told,
)
from infuse.build.autotune.precision.request import (
    Sample,
    are_settled,
    check_comparable,
    least_seconds,
    samples_of,
)
from infuse.errors import DataError, OptionError
from infuse.ir.graph import Graph
from infuse.lowering.precisions import MIXED, LayerPrecisions, supported
from infuse.options import Auto
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel
from infuse.targets import Target

FASTER: Final = 0.95
"""The part of the time of fp32 from which on a precision is faster by more than noise."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Built:
    """A compiled model, and its layers that do not compute in fp32, by the serial number of their
    node.
    """

    model: Model
    layers: Mapping[int, str]


Build = Callable[[LayerPrecisions], Built]


@dataclass(frozen=True)
class Candidate:
    """Precisions within the bound, and what was measured of them."""

    precisions: LayerPrecisions
    difference: float
    ratio: float
    """Its time over that of fp32."""
    layers: Mapping[int, str]


def search_precision(
    graph: Graph,
    request: Auto,
    target: Target,
    build: Build,
    *,
    tune: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """The precisions to compile `graph` in, and the report of how they were found.

    `build` compiles for precisions, with tuned kernels where `tune`. What was found with the usual
    clock is kept in the cache folder, unless times varied. InputError where the inputs do not fit;
    OptionError where the target does not run here, no difference can be measured, or the model
    cannot be run on random inputs.
    """
    require_runnable(target, hint="choose a precision by name: fp32, fp16 or bf16")
    check_comparable(graph)
    samples = samples_of(request, graph)
    with ExitStack() as opened:
        search = _Search(graph, request, samples, build, opened, progress)
        model = search.exact.model
        if request.timer is not None or not isinstance(model, CompiledModel):
            return search.run(supported(target))
        record = OutcomeRecord(target, model, tune, request.max_difference, samples)
        outcome = record.read(graph)
        if outcome is None:
            outcome = search.run(supported(target))
            if search.is_settled:
                record.store(graph, *outcome)
        return outcome


class _Search:
    """A search: the models compiled so far, and the outputs of the one in fp32."""

    def __init__(
        self,
        graph: Graph,
        request: Auto,
        samples: Sequence[Sample],
        build: Build,
        opened: ExitStack,
        progress: Progress | None,
    ) -> None:
        self._graph, self._request, self._samples = graph, request, samples
        self._build, self._opened = build, opened
        self._progress, self._builds = progress, 0
        self._report = PrecisionReport(
            request.max_difference, inputs=[sample.description for sample in samples]
        )
        self.is_settled = True
        """Whether all times were steady."""
        self._alone: dict[int, float] = {}
        self._expected: list[dict[str, Any]] = []
        self.exact = self._compiled(LayerPrecisions())

    def run(self, candidates: Sequence[str]) -> Outcome:
        """Look at every precision, and take the fastest that is within the bound."""
        self._expected = [self._answer(sample) for sample in self._samples]
        if any(difference(answer, answer) > 0 for answer in self._expected):
            self._report.notes.append("outputs in fp32 are not finite, so nothing can be near them")
            return LayerPrecisions(), self._report
        low = self._candidates(candidates)
        times = self._timed(low) if low else {}
        within = [self._within(name, built, times[name].ratio) for name, built in low.items()]
        best = min(filter(None, within), key=lambda c: c.ratio, default=None)
        if best is not None and str(best.precisions) == MIXED:
            best = self._filled(best, low, [n for n in low if times[n].ratio <= FASTER])
        touched = {serial for built in low.values() for serial in built.layers}
        self._report.layers = self._layers(touched, {} if best is None else best.layers)
        if best is None:
            return LayerPrecisions(), self._report
        self._report.precision, self._report.difference = str(best.precisions), best.difference
        return best.precisions, self._report

    # -- whole models ------------------------------------------------------------------------------

    def _candidates(self, names: Sequence[str]) -> dict[str, Built]:
        """The model in each precision that changes anything of it."""
        low = {}
        for name in names:
            if name == "fp32":
                continue
            built = self._compiled(LayerPrecisions(name))
            if built.layers:
                low[name] = built
            else:
                self._report.notes.append(f"{name}: no layer of the model would compute in it")
        return low

    def _timed(self, low: Mapping[str, Built]) -> dict[str, Timing]:
        """How long models run, and fp32 in turns with them; the report gets it too."""
        feeds = self._samples[0].feeds
        models = {"fp32": self.exact, **low}
        timer = self._request.timer or least_seconds
        looks = timer({name: partial(built.model.run, feeds) for name, built in models.items()})
        if not are_settled(looks):
            self.is_settled = False
            self._report.notes.append(
                f"times of {', '.join(models)} vary: the machine is busy, and another search may "
                "find otherwise"
            )
        seconds = {name: min(times) for name, times in looks.items()}
        noise = {name: max(times) / seconds[name] for name, times in looks.items()}
        times = {
            name: Timing(name, seconds[name], seconds["fp32"], max(noise[name], noise["fp32"]))
            for name in low
        }
        self._report.times += times.values()
        return times

    def _within(self, name: str, whole: Built, ratio: float) -> Candidate | None:
        """The whole model in a precision, or as many of its layers as the bound allows; None where
        that is not faster.
        """
        error = self._difference(whole.model)
        self._report.differences[name] = finite(error)
        if ratio > FASTER:
            self._report.notes.append(f"{name}: not faster than fp32 by more than noise")
            return None
        if error <= self._request.max_difference:
            return Candidate(LayerPrecisions(name), error, ratio, whole.layers)
        self._report.notes.append(
            f"{name}: the whole model differs from fp32 by {told(finite(error))}, beyond the bound"
        )
        return self._mixed(name, list(whole.layers))

    # -- layers ------------------------------------------------------------------------------------

    def _mixed(self, name: str, layers: Sequence[int]) -> Candidate | None:
        """As many layers as possible in a precision, the others in fp32; None where that is out of
        the bound or not faster.
        """
        alone = differences_alone(self._graph, self._samples[0].feeds, layers, name)
        for serial, error in alone.items():
            self._alone[serial] = max(error, self._alone.get(serial, 0.0))
        order = sorted(layers, key=alone.__getitem__, reverse=True)
        best: tuple[LayerPrecisions, Built, float] | None = None
        few, many = 0, len(order)
        while many - few > 1:
            middle = (few + many) // 2
            precisions = LayerPrecisions.some(order[middle:], name)
            built = self._compiled(precisions)
            error = self._difference(built.model)
            if error <= self._request.max_difference:
                best, many = (precisions, built, error), middle
            else:
                built.model.close()
                few = middle
        if best is None:
            self._report.notes.append(f"{name}: out of the bound with any of its layers")
            return None
        precisions, built, error = best
        mixed = f"{name}, {many} of {len(order)} layers in fp32"
        ratio = self._timed({mixed: built})[mixed].ratio
        if ratio > FASTER:
            self._report.notes.append(
                f"{mixed}: within the bound, but not faster than fp32 by more than noise"
            )
            return None
        return Candidate(precisions, error, ratio, built.layers)

    def _filled(self, best: Candidate, low: Mapping[str, Built], names: Sequence[str]) -> Candidate:
        """Mixed layers of which those in fp32 have another precision, where that is within the
        bound and faster.
        """
        (own,) = set(best.precisions.layers.values())
        for name in names:
            rest = [s for s in low[own].layers if s not in best.layers and s in low[name].layers]
            if name == own or not rest:
                continue
            layers = {**best.precisions.layers, **dict.fromkeys(rest, name)}
            built = self._compiled(precisions := LayerPrecisions("fp32", layers))
            error = self._difference(built.model)
            mixed = f"{own}, {len(rest)} of {len(low[own].layers)} layers in {name}"
            if error > self._request.max_difference:
                self._report.notes.append(f"{mixed}: beyond the bound")
            elif (ratio := self._timed({mixed: built})[mixed].ratio) < FASTER * best.ratio:
                return Candidate(precisions, error, ratio, built.layers)
        return best

    def _layers(self, serials: set[int], chosen: Mapping[int, str]) -> list[LayerReport]:
        nodes = {n.serial: n for inner in self._graph.all_graphs() for n in inner.nodes}
        return [
            LayerReport(
                node.name,
                node.kind,
                chosen.get(serial, "fp32"),
                finite(self._alone[serial]) if serial in self._alone else None,
            )
            for serial, node in nodes.items()
            if serial in serials
        ]

    # -- models ------------------------------------------------------------------------------------

    def _compiled(self, precisions: LayerPrecisions) -> Built:
        if self._progress is not None:
            self._progress(f"precision, build {self._builds + 1}", 0, 1)
        self._builds += 1
        built = self._build(precisions)
        self._opened.enter_context(built.model)
        return built

    def _answer(self, sample: Sample) -> dict[str, Any]:
        try:
            return self.exact.model.run(sample.feeds)
        except DataError as error:
            if self._request.data is not None:
                raise
            raise OptionError(
                f"the model cannot be run on random inputs: {error.what}",
                hint="give inputs that it takes (data=, --data)",
            ) from error

    def _difference(self, model: Model) -> float:
        """The largest difference from fp32 on all inputs."""
        pairs = zip(self._samples, self._expected)
        return max(difference(model.run(sample.feeds), exact) for sample, exact in pairs)
