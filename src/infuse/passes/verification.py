"""Whether an optimized graph computes what the original computes; and which rule is to blame where
it does not.

The original runs in the interpreter, on given or random inputs and for several sizes of its
symbols. Where the result of the optimization differs, the rewrites are replayed up to a point that
is found by bisection: the first rewrite after which the result is wrong names the guilty rule,
which is left out. The pipeline always does the same on the same graph, so that replaying is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import InfuseError, VerificationError
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.feeds import (
    drawing_nodes,
    has_tensor_inputs,
    random_feeds,
    trial_sizes,
)
from infuse.passes.run import Progress, optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Report, Rewrite
from infuse.rewrite.verdict import Guilty, Verdict

TOLERANCES: Mapping[int, float] = {64: 1e-8, 32: 1e-4, 16: 2e-2, 8: 2e-1}
"""Largest difference allowed by bits of a float, in parts of the largest element of the output."""
NUDGE = 1e-6
"""Relative change of inputs that shows how far an output is determined at all."""
NUDGES = 3
SHAKINESS = 8.0
"""How many times the effect of such a change an output may differ."""


@dataclass(frozen=True)
class Trial:
    """Inputs, and what the original answers on them."""

    feeds: Mapping[str, Any]
    expected: Mapping[str, Any]
    sizes: Mapping[str, int]


@dataclass
class Witness:
    """The original's answers, with which any number of other graphs can be compared."""

    original: Graph
    trials: list[Trial]
    given: bool = False
    reason: str = ""
    """Why there are no trials."""

    @classmethod
    def on_given(cls, original: Graph, feeds: Mapping[str, Any]) -> Witness:
        """The answers on these inputs; an InfuseError when they do not fit."""
        return cls(original, [Trial(feeds, evaluate(original, feeds), {})], given=True)

    @classmethod
    def on_random(
        cls, original: Graph, sizes: Mapping[str, int] | None = None, seed: int = 0
    ) -> Witness:
        """The answers on random inputs, for two sets of sizes where the model has symbols that
        `sizes` leaves open.
        """
        reason = _obstacle(original)
        if reason:
            return cls(original, [], reason=reason)
        trials = []
        for number, values in enumerate(trial_sizes(original, sizes or {})):
            try:
                feeds = random_feeds(original, values, seed + number)
                trials.append(Trial(feeds, evaluate(original, feeds), values))
            except InfuseError as error:
                reason = reason or f"the original cannot be evaluated on random inputs: {error}"
        return cls(original, trials, reason=reason)

    def difference(self, graph: Graph) -> float:
        """The largest difference in all trials; VerificationError where it is larger than rounding
        explains.
        """
        return max((self._trial(graph, trial) for trial in self.trials), default=0.0)

    def _trial(self, graph: Graph, trial: Trial) -> float:
        try:
            result = evaluate(graph, trial.feeds)
        except InfuseError as error:
            raise VerificationError(f"the optimized model cannot be evaluated: {error}") from error
        errors = {
            name: relative_difference(result[name], exact) for name, exact in trial.expected.items()
        }
        suspects = [
            name for name, error in errors.items() if error > tolerance(trial.expected[name])
        ]
        if suspects:
            self._check_shaky(trial, result, suspects)
        return max((error for name, error in errors.items() if name not in suspects), default=0.0)

    def _check_shaky(
        self, trial: Trial, result: Mapping[str, Any], suspects: Sequence[str]
    ) -> None:
        """VerificationError unless the outputs that differ do so as well when the inputs change a
        little.

        The index of a maximum among nearly equal elements, or the sum of a series that cancels,
        says nothing.
        """
        shaken = [evaluate(self.original, _nudged(trial.feeds, seed)) for seed in range(NUDGES)]
        for name in suspects:
            exact = trial.expected[name]
            error = distance(result[name], exact)
            if error > SHAKINESS * max(distance(answer[name], exact) for answer in shaken):
                raise VerificationError(
                    f"output {name!r} differs{_amount(error, exact)}{_at(trial.sizes)}"
                )


def _amount(error: float, expected: Any) -> str:
    if math.isinf(error):
        return " in its shape, type or special values"
    return (
        f" by {error:.1e} of its largest element"
        if _is_float(expected)
        else f" in {error:.1%} of its elements"
    )


def _at(sizes: Mapping[str, int]) -> str:
    return f" with {', '.join(f'{name} = {size}' for name, size in sizes.items())}" if sizes else ""


def _obstacle(graph: Graph) -> str:
    if not has_tensor_inputs(graph):
        return "an input is a sequence, or its rank is not known"
    drawing = next(drawing_nodes(graph), None)
    return f"{drawing.kind} node {drawing.name!r} draws random numbers" if drawing else ""


def _nudged(feeds: Mapping[str, Any], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: _nudge(array, rng) for name, array in feeds.items()}


def _nudge(array: Any, rng: np.random.Generator) -> Any:
    if not _is_float(array):
        return array
    return (array.astype(np.float64) * (1 + NUDGE * rng.standard_normal(array.shape))).astype(
        array.dtype
    )


# -- comparison ------------------------------------------------------------------------------------


def tolerance(expected: Any) -> float:
    """The largest relative difference that rounding explains in an output like this."""
    bits = expected.dtype.itemsize * 8 if isinstance(expected, np.ndarray) else 32
    return TOLERANCES.get(bits, TOLERANCES[32])


def relative_difference(result: Any, expected: Any) -> float:
    """Largest |found − expected| over the largest |expected|; infinite where shapes, types or
    special values differ, and where elements that are no floats are not equal.
    """
    if isinstance(expected, (list, tuple)):
        if not isinstance(result, (list, tuple)) or len(result) != len(expected):
            return math.inf
        return max((relative_difference(a, b) for a, b in zip(result, expected)), default=0.0)
    if expected is None or result is None:
        return 0.0 if result is expected else math.inf
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return math.inf
    if not dtypes.by_numpy(expected.dtype).is_float:
        return 0.0 if np.array_equal(result, expected) else math.inf
    return _float_difference(result.astype(np.float64), expected.astype(np.float64))


def distance(result: Any, expected: Any) -> float:
    """How far apart two results are: for floats their relative difference, for others the share of
    unequal elements.
    """
    error = relative_difference(result, expected)
    if math.isfinite(error) or _is_float(expected) or not isinstance(expected, np.ndarray):
        return error
    return (
        error
        if result.shape != expected.shape or result.dtype != expected.dtype
        else float(np.mean(result != expected))
    )


def _is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and dtypes.by_numpy(array.dtype).is_float


def _float_difference(result: Array, expected: Array) -> float:
    finite = np.isfinite(expected)
    if not np.array_equal(result[~finite], expected[~finite], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    error = float(np.abs(result[finite] - expected[finite]).max())
    largest = float(np.abs(expected[finite]).max()) or 1.0
    return math.inf if math.isnan(error) else error / largest


# -- optimization ----------------------------------------------------------------------------------


def optimize_verified(
    source: Graph, options: Selection, witness: Witness, progress: Progress | None = None
) -> Graph:
    """An optimized copy of `source` that computes what `witness` says; its report has the verdict.

    Rules after which the result differs are found, left out and named in the verdict.
    VerificationError where the difference remains without any rule.
    """
    guilty: list[Guilty] = []
    while True:
        result, report = _optimized(source, options, progress)
        if not witness.trials:
            report.verification = Verdict(False, reason=witness.reason, guilty=tuple(guilty))
            return result
        if progress:
            progress("verify", 0, 1)
        try:
            difference = witness.difference(result)
        except VerificationError as error:
            culprit = _bisect(source, options, witness, report, error)
            guilty += culprit
            options = replace(options, disable={*options.disable, *(g.rule for g in culprit)})
            continue
        sizes = tuple(trial.sizes for trial in witness.trials)
        report.verification = Verdict(True, difference, sizes, witness.given, guilty=tuple(guilty))
        report.notes += map(str, guilty)
        return result


def _optimized(
    source: Graph, options: Selection, progress: Progress | None = None
) -> tuple[Graph, Report]:
    result = clone(source)
    report = result.report = optimize_in_place(result, options, progress)
    return result, report


def _bisect(
    source: Graph, options: Selection, witness: Witness, report: Report, error: VerificationError
) -> list[Guilty]:
    """The rules of the first rewrite that makes the result wrong: between `right` and `wrong`
    rewrites.
    """
    right, wrong = 0, len(report.rewrites)
    what, latest = error.what, report.rewrites
    while wrong - right > 1:
        middle = (right + wrong) // 2
        graph, partial = _optimized(source, replace(options, stop_after=middle))
        try:
            witness.difference(graph)
        except VerificationError as difference:
            wrong, what, latest = middle, difference.what, partial.rewrites
        else:
            right = max(middle, len(partial.rewrites))
    return _blamed(latest[right:], options, what, error)


def _blamed(
    culprits: Sequence[Rewrite], options: Selection, what: str, error: VerificationError
) -> list[Guilty]:
    by_rule = {rewrite.rule: rewrite for rewrite in reversed(culprits)}
    suspects = [
        Guilty(name, rewrite.removed, what)
        for name, rewrite in by_rule.items()
        if name != "RemoveDead"
    ]
    if not suspects or all(g.rule in options.disable for g in suspects):
        raise VerificationError(
            f"the optimized model is wrong, and no rule is to blame: {error.what}",
            hint="this is a defect of Infuse; please report it with the model",
        ) from error
    return suspects
