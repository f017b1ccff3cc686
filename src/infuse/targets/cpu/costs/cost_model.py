"""What a kernel call costs: sums of counted work, whose weights are fitted to measurements
(`costs.json`).

The file is written by `python -m benchmarks.fit_costs`. It has a set of weights for each kind of
machine that was measured; the set of the most similar one is used, since choices only need to know
which of two candidates is cheaper.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from infuse.targets import Caches, Machine
from infuse.targets.cpu.families.convolution import AS_LINES
from infuse.targets.cpu.families.winograd import AS_MANY_POINTS, AS_SQUARE
from infuse.targets.cpu.families.work import work

FILE: Final = Path(__file__).with_name("costs.json")
_ALIKE: Final = {**AS_MANY_POINTS, **AS_SQUARE, **AS_LINES}
"""Forms that need not be measured, and those whose weights are theirs."""


def predict(family: str, name: str, sizes: Sequence[int], machine: Machine, threads: int) -> float:
    """The seconds that a candidate takes, roughly: good for comparing candidates of one key."""
    counted = work(family, name, sizes, machine, threads)
    return sum(
        count * weight
        for count, weight in zip(counted, _weights(family, name, machine), strict=True)
    )


class Fit(NamedTuple):
    """What was fitted on one machine: by family and candidate the weights of its counted work."""

    machine: Machine
    weights: Mapping[str, Mapping[str, Sequence[float]]]


def read_fits(path: Path = FILE) -> list[Fit]:
    """The fits of a file, each of another kind of machine."""
    sets = json.loads(path.read_text("utf-8"))["sets"]
    return [Fit(machine_from(one["machine"]), one["weights"]) for one in sets]


def machine_from(data: Mapping[str, Any]) -> Machine:
    """The machine of a fit, without its units for dot products, on which no choice between weights
    depends.
    """
    return Machine(**{**data, "caches": Caches(**data["caches"])})


def machine_data(machine: Machine) -> dict[str, Any]:
    """Plain data for `machine_from`."""
    return {name: value for name, value in asdict(machine).items() if name != "dots"}


@lru_cache(maxsize=1)
def _fits() -> list[Fit]:
    return read_fits()


@lru_cache(maxsize=1 << 10)
def _weights(family: str, name: str, machine: Machine) -> Sequence[float]:
    """The weights that were fitted on the machine that is most like this one; those of the form
    that does the same work for one that was not measured.
    """
    fits = [fit for fit in _fits() if name in fit.weights.get(family, ())]
    if not fits and name in _ALIKE:
        return _weights(family, _ALIKE[name], machine)
    return min(fits, key=lambda fit: machine.distance(fit.machine)).weights[family][name]
