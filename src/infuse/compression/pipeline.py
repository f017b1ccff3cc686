"""`compress`: from a graph and data to a smaller and faster graph with a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from infuse.compression.candidates import candidates
from infuse.compression.contract import Bound, Deadline
from infuse.compression.control import Control
from infuse.compression.costs import bytes_of_weights
from infuse.compression.equalization import equalize, mark_layers
from infuse.compression.evaluation import Evaluation, Memory, digest_of, settled
from infuse.compression.freed import give_back_constants, give_back_freed_memory
from infuse.compression.gates import find_gates
from infuse.compression.layers import Layer, find_embeddings, find_layers, products_left_out
from infuse.compression.measurements import Measurements
from infuse.compression.methods import plans_of
from infuse.compression.planning import Selection
from infuse.compression.report import CompressionReport, LayerReport
from infuse.compression.rotations import Rotations, rotate
from infuse.compression.setting import MethodOptions, Plan, Setting
from infuse.data.dataset import Data, Feeds, feeds_of, require_numbers
from infuse.data.metrics import Metric, metric as metric_of
from infuse.data.sequences import sequence_notes
from infuse.errors import ContractError, OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.ops.core.feeds import has_tensor_inputs, random_feeds, trial_sizes
from infuse.options import CompressOptions, Contract, Examples, Int8, Method
from infuse.options.compiling import Timer
from infuse.profiling.progress import Progress, enter

RANDOM_RUNS = 4


@dataclass(frozen=True)
class Request:
    """What is asked for: methods, of which each layer gets one, the contract, and how to
    measure.
    """

    methods: tuple[Method, ...] = (Int8(),)
    contract: Contract = Contract()
    examples: Examples = Examples()
    options: CompressOptions = CompressOptions()
    timer: Timer | None = None
    """What measures in place of the clock."""

    def __post_init__(self) -> None:
        for method in self.methods:
            self.settings_of(method)

    @property
    def threads(self) -> int | None:
        """Threads of a run."""
        return self.options.threads

    @property
    def seed(self) -> int:
        """That of random inputs, and of the order of examples."""
        return self.examples.seed

    @property
    def batch(self) -> int:
        """Examples of a run."""
        return self.examples.batch or 1

    @property
    def is_coded(self) -> bool:
        """Whether the result is meant for a file whose weights are entropy coded."""
        return any(method.is_coded for method in self.methods)

    @property
    def by_size(self) -> bool:
        """Whether bytes count, and not seconds."""
        return self.options.allow_slower or self.is_coded

    def settings_of(self, method: Method) -> MethodOptions:
        """What a method is asked for. OptionError for what means nothing."""
        return MethodOptions.of(method, self.options.equalize, self.options.rotate)

    @property
    def settings(self) -> tuple[object, ...]:
        """What measurements belong to, beside graph and data."""
        own = [self.settings_of(method) for method in self.methods]
        whole = MethodOptions.joined(own)
        names = tuple(method.name for method in self.methods)
        shared = (names, whole, self.threads, self.seed, self.batch)
        same = all(MethodOptions.joined([each, whole]) == whole for each in own)
        return shared if same else (*shared, self.methods)


def compress_graph(graph: Graph, request: Request, progress: Progress | None = None) -> Graph:
    """A compressed copy of a graph (see `infuse.compress`)."""
    data, labels = request.examples.inputs, request.examples.labels
    bound = None if request.contract.max_drop is None else Bound.parse(request.contract.max_drop)
    deadline = Deadline(request.contract.minutes)
    original = named(settled(graph))
    calibration = None if data is None else feeds_of(original, data, request.batch)
    runs = examples_of(original, calibration, request.examples.validation, request)
    measured = metric_for(request.examples.metric, labels, bound, has_data=calibration is not None)
    setting, plans, notes = _planned(original, calibration, request, progress)
    source, layers = setting.graph, [*setting.embeddings, *setting.recurrent, *setting.layers]
    enter(progress, "score")
    memory = Memory(_facts(source, request, calibration, runs, labels))
    with Evaluation(
        original,
        runs,
        measured,
        labels,
        threads=request.threads,
        timer=request.timer,
        progress=progress,
        data=data if request.examples.validation is None else request.examples.validation,
    ) as evaluation:
        report = _report(measured, len(runs), evaluation.reference, bound)
        report.notes += [*_data_notes(original, calibration), *notes]
        measurements = Measurements(
            source,
            plans,
            evaluation,
            memory,
            deadline,
            progress,
            by_size=request.by_size,
            is_coded=request.is_coded,
        )
        control = Control(measurements, bound, report)
        selection = accurate = control.accurate()
        if not request.by_size:
            enter(progress, "time")
            selection = control.faster(accurate)
        result = _finished(
            control,
            selection,
            source,
            plans,
            layers,
            report,
            evaluation,
            request.options.level,
            request.is_coded,
        )
        enter(progress, "try others")
        report.tried = candidates(control, evaluation, deadline, selection, report)
    _require_met(result, plans, accurate, deadline)
    return result


def _report(
    measured: Metric, runs: int, reference: float, bound: Bound | None
) -> CompressionReport:
    """The report of a model that is not compressed yet."""
    return CompressionReport(
        measured.name,
        runs,
        reference,
        reference,
        measured.higher_is_better,
        "" if bound is None else str(bound),
    )


def _planned(
    graph: Graph,
    calibration: list[Feeds] | None,
    request: Request,
    progress: Progress | None,
) -> tuple[Setting, list[Plan], list[str]]:
    """What a graph is compressed from, its channels turned and scaled where that is asked for; a
    plan for every layer that a method takes; and what is to be known of them.
    """
    setting = Setting(
        graph,
        find_layers(graph),
        find_embeddings(graph),
        find_gates(graph),
        calibration,
        MethodOptions(),
        request.threads,
        request.seed,
        progress,
    )
    rotations, serials = Rotations(), frozenset[int]()
    if request.options.rotate:
        enter(progress, "rotate")
        setting, rotations = rotate(setting, request.methods)
    if request.options.equalize:
        enter(progress, "equalize")
        setting, serials = equalize(setting, request.methods)
    enter(progress, "calibrate")
    plans = [
        plan
        for method in request.methods
        for plan in plans_of(method, replace(setting, options=request.settings_of(method)))
    ]
    give_back_freed_memory()
    mark_layers(plans, rotations.serials, "rotated")
    mark_layers(plans, serials, "equalized")
    return setting, plans, list(rotations.notes)


def _data_notes(graph: Graph, calibration: Sequence[Feeds] | None) -> list[str]:
    """What is to be known of the data that scores were measured on."""
    if calibration is None:
        return ["measured on random inputs, which say little of accuracy"]
    return sequence_notes(graph)


def examples_of(
    graph: Graph, calibration: list[Feeds] | None, validation: Data | None, request: Request
) -> list[Feeds]:
    """The runs on which scores are measured. InputError for data without numbers."""
    if calibration is not None:
        require_numbers(calibration)
    if validation is not None:
        runs = feeds_of(graph, validation, request.batch)
        require_numbers(runs)
        return runs
    if calibration is not None:
        return calibration
    if not has_tensor_inputs(graph):
        raise OptionError(
            "there are no random inputs for this model: one is a sequence, or of unknown rank",
            hint="give data (--data, data=)",
        )
    sizes = trial_sizes(graph, request.examples.sizes)[0]
    return [random_feeds(graph, sizes, request.seed + number) for number in range(RANDOM_RUNS)]


def metric_for(which: Any, labels: Any, bound: Bound | None, has_data: bool) -> Metric:
    """The metric of a request: top1 beside labels, else agreement with the original."""
    chosen = metric_of(which or ("top1" if labels is not None else "cosine"))
    if chosen.needs_labels and labels is None:
        raise OptionError(
            f"the metric {chosen.name} needs labels", hint="give them (--labels, labels=)"
        )
    if labels is not None and not chosen.needs_labels:
        raise OptionError(
            f"the metric {chosen.name} compares with the original and has no use for labels",
            hint="leave the labels out, or choose a metric that reads them",
        )
    if labels is not None and not has_data:
        raise OptionError("there are labels without data", hint="give the data (--data, data=)")
    if bound is not None and not has_data:
        raise OptionError(
            "a bound on what is lost needs data to measure it on", hint="give some (--data, data=)"
        )
    return chosen


def _facts(
    graph: Graph,
    request: Request,
    calibration: Sequence[Feeds] | None,
    runs: Sequence[Feeds],
    labels: Any,
) -> list[str]:
    """What measurements belong to."""
    told = runs if calibration is None or calibration is runs else [*calibration, *runs]
    arrays = digest_of([*told, None if labels is None else np.asarray(labels)])
    text = digest_of([print_graph(graph)])
    give_back_constants(graph)
    return [text, arrays, repr(request.settings)]


def named(graph: Graph) -> Graph:
    """A copy in which every node has a name of its own, so that reports can tell them apart."""
    copy = clone(graph)
    copy.report = graph.report
    taken: set[str] = set()
    for inner in copy.all_graphs():
        for node in inner.nodes:
            base, number = node.name or node.kind, 1
            while node.name in taken or not node.name:
                node.name, number = f"{base}_{number}", number + 1
            taken.add(node.name)
    return copy


# -- reports ---------------------------------------------------------------------------------------


def _finished(
    control: Control,
    selection: Selection,
    source: Graph,
    plans: Sequence[Plan],
    layers: Sequence[Layer],
    report: CompressionReport,
    evaluation: Evaluation,
    level: str,
    is_coded: bool,
) -> Graph:
    """The graph with these layers compressed, optimized, and its report."""
    result = settled(control.measurements.graph_of(selection), level)
    if result is evaluation.original:
        result = clone(evaluation.original)
        result.report = evaluation.original.report
    report.score = control.measurements.score(selection)
    report.is_met = control.holds(selection)
    report.validations = evaluation.validations
    report.model_runs = evaluation.model_runs
    if not report.seconds:
        times = evaluation.seconds(
            {"float32": evaluation.original, "all": control.measurements.graph_of(selection)}
        )
        report.float_seconds, report.seconds = times["float32"], times["all"]
    report.weight_bytes_before = control.measurements.weight_bytes(frozenset())
    report.weight_bytes = bytes_of_weights(result, is_coded and bool(selection))
    chosen = dict(selection)
    report.layers = [_layer(layer, control, chosen.get(layer), plans) for layer in layers]
    report.layers += [
        LayerReport(node.name, node.kind, "float32", why)
        for node, why in products_left_out(source, layers)
    ]
    result.compression = report
    return result


def _layer(
    layer: Layer, control: Control, number: int | None, plans: Sequence[Plan]
) -> LayerReport:
    """What is told of a layer whose form is of the plan of this number; None for float32."""
    region = control.regions.get(layer)
    offers = [each for each, plan in enumerate(plans) if layer in plan.forms]
    reason = ""
    if not offers:
        reason = next((plan.refused[layer] for plan in plans if layer in plan.refused), "")
    else:
        reason = control.reason(layer) if number is None else control.reason_to_compress(layer)
    shown = number if number is not None else next(iter(offers), None)
    return LayerReport(
        layer.name,
        layer.kind,
        "float32" if number is None else plans[number].forms[layer].name,
        reason,
        "" if shown is None else plans[shown].calibrators.get(layer, ""),
        None if shown is None else control.noise(layer, shown),
        None if shown is None else control.sensitivity.get((layer, shown)),
        None if region is None else region.float_seconds,
        None if region is None else region.seconds,
    )


def _require_met(
    result: Graph, plans: Sequence[Plan], accurate: Selection, deadline: Deadline
) -> None:
    """ContractError where there is a bound, and nothing can be compressed within it."""
    report = result.compression
    if not report.max_drop or accurate:
        return
    if not any(plan.forms for plan in plans):
        why = "no layer of the model can be compressed by this method"
    else:
        ended = ", and the time ended" if deadline.is_over else ""
        tried = [each for each in report.tried if not each.name]
        scores = ", ".join(f"{each.layers}: {each.score:.6g}" for each in tried)
        why = (
            f"{report.metric} of {report.reference:.6g} falls by more than {report.max_drop} with "
            f"any layers that were tried (how many, and the score: {scores}){ended}"
        )
    error = ContractError(
        why,
        where="compress",
        hint="allow more (--max-drop), more time (--minutes), or try another method",
    )
    error.best, error.report = result, report
    raise error
