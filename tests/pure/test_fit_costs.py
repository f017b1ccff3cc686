"""The fit of kernel costs: it finds the weights that made the times, and tells how good choices
are.
"""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fit_costs
from benchmarks.cost_cases import graph_of
from benchmarks.fit_costs import Sample, fit, quality
from infuse.targets import Machine
from infuse.targets.cpu.costs.cost_model import read_fits
from infuse.targets.cpu.families.work import candidates, families, work
from infuse.targets.machine import USUAL

WIDE = Machine.of("x86_64", frozenset(("avx", "avx512f")), USUAL)
NAMES = ("taps", "winograd2", "winograd4")


def samples(noise: float = 0.0, count: int = 60) -> list[Sample]:
    """Convolutions whose times come of weights that grow from candidate to candidate."""
    rng = random.Random(1)
    found = []
    for _ in range(count):
        side, c, oc = (
            rng.choice((7, 14, 28, 56)),
            rng.choice((16, 48, 64, 128)),
            rng.choice((16, 32, 96, 256)),
        )
        sizes = (1, side, side, c, side, side, oc, 3, 3, 1, 1, 1, 1, 1, 1, 1, c)
        times = {}
        for name in NAMES:
            counted = np.array(work("conv", name, sizes, WIDE, 1))
            weights = np.linspace(1, 2, len(counted)) * (2 if name == "taps" else 1) * 1e-9
            times[name] = float(counted @ weights) * (1 + noise * rng.uniform(-1, 1))
        found.append(Sample("conv", sizes, WIDE, 1, times))
    return found


def test_times_that_the_model_can_express_are_found_again() -> None:
    known = samples()
    weights = fit(known)
    assert set(weights) == {("conv", name, WIDE) for name in NAMES}
    for sample in known:
        for name, seconds in sample.predicted(weights).items():
            assert seconds == pytest.approx(sample.times[name], rel=0.02)
    found = quality(known, weights)["conv"]
    assert found["calls"] == len(known)
    assert found["median_error"] < 0.01
    assert found["within_5_percent"] == 1.0
    assert found["worst_loss"] <= 0.05


def test_weights_are_never_negative() -> None:
    for weights in fit(samples(noise=0.5, count=12)).values():
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert weights.max() > 0


def test_a_wrong_choice_counts_as_loss() -> None:
    sample = samples()[0]
    slow = Sample(
        sample.family,
        sample.sizes,
        WIDE,
        1,
        sample.times | {"taps": min(sample.times.values()) / 2},
    )
    weights = fit(samples())
    assert quality([slow], weights)["conv"]["worst_loss"] >= 0.9
    assert quality([slow], weights)["conv"]["within_5_percent"] == 0.0


def test_weights_are_written_as_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_costs.machine, "versions", dict)
    file = tmp_path / "costs.json"
    narrow = replace(WIDE, vector_bits=256, registers=16, tile_rows=6, dots=())
    fit_costs._write(
        file, {("conv", "taps", narrow): np.ones(8), ("conv", "taps", WIDE): np.ones(8)}
    )
    weights = fit(samples())
    fit_costs._write(file, weights)
    other, same = read_fits(file)
    assert other == (narrow, {"conv": {"taps": [1.0] * 8}})
    assert same.machine == replace(WIDE, dots=())
    for (family, name, _), values in weights.items():
        assert same.weights[family][name] == pytest.approx(values, rel=1e-3)


def test_cases_are_the_same_for_one_seed_and_reach_every_family() -> None:
    first, again, other = (graph_of(random.Random(seed), "bf16", 1e8) for seed in (0, 0, 1))
    shapes = [
        [value.shape for node in graph.nodes for value in node.outputs]
        for graph in (first, again, other)
    ]
    assert shapes[0] == shapes[1] != shapes[2]
    kinds = {node.kind for node in first.nodes}
    assert {"Conv", "MatMul", "Attention"} <= kinds
    assert all(candidates(family) for family in families())
