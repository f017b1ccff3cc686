"""The models that a search tried, for its report: what each of them is, weighs, and takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from infuse.compression.contract import Deadline
from infuse.compression.control import Control
from infuse.compression.evaluation import Evaluation
from infuse.compression.frontier import nearest
from infuse.compression.planning import Selection
from infuse.compression.report import ORIGINAL, CandidateReport, CompressionReport
from infuse.errors import InfuseError
from infuse.ir.graph import Graph

MOST_TIMED = 12
"""Models that are timed at most, the original and the result among them."""
SHORTEST, LONGEST = 0.5, 1.5
"""Seconds of measuring for each of them."""
OPEN = 2
"""Models that are open at once, each with its weights in memory."""


def candidates(
    control: Control,
    evaluation: Evaluation,
    deadline: Deadline,
    result: Selection,
    report: CompressionReport,
) -> list[CandidateReport]:
    """The original and all models whose score was measured, each with its layers by form and the
    bytes of its weights; and with the seconds of a run, where it is one of the `MOST_TIMED`.

    Where nothing but the original and the result was tried, their seconds are those of the report.
    Else they are measured, `OPEN` at a time in turns: after the deadline, those that are compiled.
    A note in the report says what could not be compiled.
    """
    original: Selection = frozenset()
    scores = {original: evaluation.reference, **control.measurements.scores}
    rows = {
        selection: CandidateReport(
            "" if selection else ORIGINAL,
            score,
            _forms(control, selection),
            control.measurements.weight_bytes(selection),
            is_result=selection == result,
        )
        for selection, score in scores.items()
    }
    rows[result].weight_bytes = report.weight_bytes
    if rows.keys() <= {original, result}:
        rows[result].seconds = report.seconds
        rows[original].seconds = report.float_seconds
        return list(rows.values())
    graphs = {}
    for number in _to_be_timed(list(rows.values()), evaluation.metric.higher_is_better):
        selection = list(rows)[number]
        graph = control.measurements.graph_of(selection)
        if _is_compiled(graph, evaluation, deadline, report):
            graphs[str(number)] = graph
    times: dict[str, float] = {}
    for start in range(0, len(graphs), OPEN):
        part = dict(list(graphs.items())[start : start + OPEN])
        times |= evaluation.seconds(part, (SHORTEST, LONGEST))
    for number, row in enumerate(rows.values()):
        row.seconds = times.get(str(number))
    return list(rows.values())


def candidates_of_stage(report: CompressionReport, name: str | None) -> list[CandidateReport]:
    """The original and what a stage in float32 made of it, by the name of the stage, as its report
    has them; the original alone where the stage changed nothing (None).
    """
    original = CandidateReport(
        ORIGINAL,
        report.reference,
        {},
        report.weight_bytes_before,
        report.float_seconds,
        is_result=name is None,
    )
    if name is None:
        return [original]
    result = CandidateReport(
        name, report.score, {}, report.weight_bytes, report.seconds, is_result=True
    )
    return [original, result]


def candidates_of_both(
    stage: Sequence[CandidateReport], report: CompressionReport, name: str, *, are_comparable: bool
) -> list[CandidateReport]:
    """The candidates of a stage of this name and of what rounded its result, whose report has the
    score and the seconds beside the original. Scores beside the outputs of the stage's model cannot
    be held against those beside the original's: then the result alone is added.
    """
    rows = [replace(row, name=row.name and name) for row in report.tried]
    (result,) = (row for row in rows if row.is_result)
    result.score, result.seconds = report.score, report.seconds
    before = [replace(row, is_result=False) for row in stage]
    before[0].seconds = report.float_seconds
    if are_comparable:
        return [before[0], *rows]
    return [*(row for row in before if row.name != result.name), result]


def _forms(control: Control, selection: Selection) -> dict[str, int]:
    """How many layers have each form, the most frequent first."""
    names = [control.form_of(layer, plan).name for layer, plan in selection]
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _to_be_timed(rows: Sequence[CandidateReport], higher_is_better: bool) -> list[int]:
    """The numbers of the original, the result, and those that are nearest to the front of score and
    bytes.
    """
    fixed = [number for number, row in enumerate(rows) if row.name or row.is_result]
    others = [number for number in range(len(rows)) if number not in fixed]
    places = nearest(
        [rows[number].weight_bytes for number in others],
        [rows[number].score for number in others],
        higher_is_better,
        MOST_TIMED - len(fixed),
    )
    return sorted([*fixed, *(others[place] for place in places)])


def _is_compiled(
    graph: Graph, evaluation: Evaluation, deadline: Deadline, report: CompressionReport
) -> bool:
    """Whether there is a model of a graph; it is compiled while there is time."""
    if deadline.is_over and not evaluation.is_compiled(graph):
        return False
    try:
        evaluation.compile(graph)
    except InfuseError as error:
        report.notes.append(f"a model that was scored by an earlier call is not timed: {error}")
        return False
    return True
