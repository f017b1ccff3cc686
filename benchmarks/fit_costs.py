"""Fits the model of kernel costs (`src/infuse/targets/cpu/costs/costs.json`) to this machine, and
says how good it is.

`python -m benchmarks.fit_costs [--seed N] [--threads N …] [--families NAME …]
[--kinds TARGET/PRECISION …] [--other BYTES] [--json FILE] [--dry]`

Every candidate of every family is measured as `--tune` does it, on layers of usual networks and on
random ones, for vectors of each width that this processor has and for one and all threads. Weights
are found by least squares of the relative error, none negative. What is printed about choices is
held out: a part of the layers that the weights are tried on is not among those that they are fitted
to. The file gets weights that are fitted to all.
"""

import argparse
import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks import machine
from benchmarks.cost_cases import graph_of
from benchmarks.terminal import console
from infuse.build.autotune import measurement as tuning
from infuse.build.staged import generate
from infuse.errors import OptionError
from infuse.lowering.choice import Chooser
from infuse.lowering.precisions import check_precision
from infuse.lowering.program import Program
from infuse.runtime.cpus import available_cpus, cpu_features
from infuse.targets import Caches, Machine, Target
from infuse.targets.cpu.costs.cost_model import FILE, machine_data, machine_from
from infuse.targets.cpu.families.work import families, work

OTHER_BYTES = 32 << 20
HELD_OUT = 3
"""One in so many layers is held out."""
SWEEPS = 3000
_LISTS = re.compile(r"\[([^][{}]*)\]")
ROUNDS, SECONDS = 8, 600.0
Floats = NDArray[np.float64]
Which = tuple[str, str, Machine]
"""What weights are of: a family, a candidate, a machine."""


@dataclass(frozen=True)
class Sample:
    """The measured times of the candidates of one call."""

    family: str
    sizes: tuple[int, ...]
    machine: Machine
    threads: int
    times: Mapping[str, float]

    def predicted(self, weights: Mapping[Which, Floats]) -> dict[str, float]:
        """The seconds of the candidates as the model has them."""
        return {
            name: float(self.counted(name) @ weights[self.family, name, self.machine])
            for name in self.times
        }

    def counted(self, name: str) -> Floats:
        return np.array(work(self.family, name, self.sizes, self.machine, self.threads))


KINDS = ("native/fp32", "native/bf16", "native/bf16x2", "x86-64-v3/fp32", "x86-64/fp32")
"""Targets and precisions: every width of vectors."""


def measured(
    seed: int,
    threads: Sequence[int],
    chosen: Sequence[str],
    kinds: Sequence[str] = KINDS,
    other_bytes: int = OTHER_BYTES,
) -> list[Sample]:
    """Times of all cases of the chosen families, for those kinds that this machine has. Between two
    calls, `other_bytes` of other memory are read.
    """
    found = []
    for kind in kinds:
        name, precision = kind.split("/")
        target = replace(Target.resolve(name), caches=Caches.of_host())
        try:
            check_precision(precision, target)
        except OptionError:
            continue
        if target.features <= cpu_features():
            for count in threads:
                found += _measured(target, precision, count, seed, chosen, other_bytes)
    return found


def _measured(
    target: Target,
    precision: str,
    threads: int,
    seed: int,
    chosen: Sequence[str],
    other_bytes: int,
) -> Iterator[Sample]:
    graph = graph_of(
        random.Random(seed), precision, flops=4e8 if target.machine.lanes == 16 else 1.5e8
    )

    def lowered(chooser: Chooser) -> list[Program]:
        return [generate(graph, target, threads, precision, chooser)[0]]

    plain = Chooser(target.machine, threads)
    every = tuning.open_choices(lowered(plain), {}, math.inf)
    wanted = {key: names for key, names in every.items() if key.split()[0] in chosen}
    if not wanted:
        return
    trials = tuning.trials(lowered, plain, wanted)
    keys = {str(trial.choice.key): trial.choice.key for trial in trials}
    for text, times in tuning.measure(
        trials, target, threads, other_bytes, seconds=SECONDS, rounds=ROUNDS
    ).items():
        yield Sample(keys[text].family, keys[text].sizes, plain.machine, threads, times)


def fit(samples: Sequence[Sample]) -> dict[Which, Floats]:
    """Weights by family, candidate and machine."""
    rows: dict[Which, list[tuple[Floats, float]]] = {}
    for sample in samples:
        for name, seconds in sample.times.items():
            rows.setdefault((sample.family, name, sample.machine), []).append(
                (sample.counted(name), seconds)
            )
    return {
        key: _least_squares([c for c, _ in found], [s for _, s in found])
        for key, found in rows.items()
    }


def _least_squares(counted: Sequence[Floats], seconds: Sequence[float]) -> Floats:
    """The weights, none negative, with which the sums of counts differ least from the times,
    relatively.
    """
    scaled = np.array(counted) / np.array(seconds)[:, None]
    scale = np.maximum(np.linalg.norm(scaled, axis=0), 1e-300)
    scaled /= scale
    gram, goal = scaled.T @ scaled, scaled.sum(axis=0)
    found: Floats = np.zeros(len(scale))
    for _ in range(SWEEPS):
        for i in range(len(found)):
            if gram[i, i] > 0:
                found[i] = max(0.0, found[i] + (goal[i] - gram[i] @ found) / gram[i, i])
    return found / scale


def quality(
    samples: Sequence[Sample], weights: Mapping[Which, Floats]
) -> dict[str, dict[str, Any]]:
    """How far off the model is, and what its choices cost, by family."""
    found: dict[str, dict[str, Any]] = {}
    for family in families():
        errors, regrets = [], []
        for sample in (s for s in samples if s.family == family):
            predicted = sample.predicted(weights)
            errors += [abs(predicted[name] / seconds - 1) for name, seconds in sample.times.items()]
            chosen = min(predicted, key=predicted.__getitem__)
            regrets.append(sample.times[chosen] / min(sample.times.values()))
        if regrets:
            found[family] = {
                "calls": len(regrets),
                "median_error": float(np.median(errors)),
                "within_5_percent": float(np.mean(np.array(regrets) <= 1.05)),
                "mean_loss": float(np.mean(regrets)) - 1,
                "worst_loss": max(regrets) - 1,
            }
    return found


def _print(title: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    table = Table(title=title)
    for heading in (
        "family",
        "calls",
        "median error",
        "choice within 5 % of best",
        "mean loss",
        "worst loss",
    ):
        table.add_column(heading)
    for family, row in found.items():
        shares = [
            f"{row[name]:.1%}"
            for name in ("median_error", "within_5_percent", "mean_loss", "worst_loss")
        ]
        table.add_row(family, str(row["calls"]), *shares)
    console().print(table)


def _write(path: Path, weights: Mapping[Which, Floats]) -> None:
    """Put the weights into the file, in place of those of the same candidates of machines that are
    alike.
    """
    sets: dict[Machine, dict[str, Any]] = {}
    for (family, name, kind), found in sorted(weights.items(), key=lambda item: item[0][:2]):
        content = sets.setdefault(replace(kind, dots=()), {})
        content.setdefault(family, {})[name] = [float(f"{w:.4g}") for w in found]
    others = json.loads(path.read_text("utf-8"))["sets"] if path.exists() else []
    alike = [
        one
        for one in others
        if any(not any(k.distance(machine_from(one["machine"]))) for k in sets)
    ]
    where = {name: machine.describe()[name] for name in ("processor", "cores", "system")}
    made = [
        {
            "machine": machine_data(k),
            "measured": where,
            "weights": _merged(_weights_of(k, alike), content),
        }
        for k, content in sets.items()
    ]
    text = json.dumps({"sets": [*(one for one in others if one not in alike), *made]}, indent=1)
    path.write_text(_LISTS.sub(_in_a_line, text) + "\n", "utf-8")


def _merged(before: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """The weights by family and candidate, new ones in place of those before."""
    return {
        family: {**before.get(family, {}), **content.get(family, {})}
        for family in dict.fromkeys((*before, *content))
    }


def _in_a_line(numbers: re.Match[str]) -> str:
    return "[" + " ".join(numbers[1].split()) + "]"


def _weights_of(kind: Machine, sets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was fitted before on a machine that is alike, by family."""
    held = (s["weights"] for s in sets if not any(kind.distance(machine_from(s["machine"]))))
    return dict(next(held, {}))


def main() -> None:
    """Measure, fit, print, write."""
    parser = argparse.ArgumentParser(description="Fit the model of kernel costs to this machine.")
    parser.add_argument("--seed", type=int, default=0, help="of the random layers")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=sorted({1, available_cpus()}), metavar="N"
    )
    parser.add_argument(
        "--families", nargs="+", default=families(), choices=families(), help="what to measure"
    )
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, help="of code")
    parser.add_argument(
        "--other",
        type=int,
        default=OTHER_BYTES,
        metavar="BYTES",
        help="of other memory, read between two calls; few leave operands in the caches",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the quality of the fit there"
    )
    parser.add_argument("--dry", action="store_true", help="leave the shipped weights as they are")
    given = parser.parse_args()
    samples = measured(given.seed, given.threads, given.families, given.kinds, given.other)
    held = [s for i, s in enumerate(samples) if i % HELD_OUT == 0]
    kept = [s for i, s in enumerate(samples) if i % HELD_OUT]
    known = fit(kept)
    shown = quality(
        [s for s in held if all((s.family, name, s.machine) in known for name in s.times)], known
    )
    _print("layers that the weights are not fitted to", shown)
    weights = fit(samples)
    _print("all layers", quality(samples, weights))
    if not given.dry:
        _write(FILE, weights)
    if given.json:
        machine.save(given.json, {"held_out": shown, "all": quality(samples, weights)})


if __name__ == "__main__":
    main()
