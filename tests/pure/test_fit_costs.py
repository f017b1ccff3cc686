"""The fit of kernel costs: it finds the weights that made the times, and tells how good choices are."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fit_costs
from benchmarks.cost_cases import graph_of
from benchmarks.fit_costs import Sample, fit, quality
from infuse.codegen.costs import candidates, families, work

NAMES = ("taps", "winograd2", "winograd4")


def samples(noise: float = 0.0, count: int = 60) -> list[Sample]:
    """Convolutions whose times come of weights that grow from candidate to candidate."""
    rng = random.Random(1)
    found = []
    for _ in range(count):
        side, c, oc = rng.choice((7, 14, 28, 56)), rng.choice((16, 48, 64, 128)), rng.choice((16, 32, 96, 256))
        sizes = (1, side, side, c, side, side, oc, 3, 3, 1, 1, 1, 1, 1, 1, 1)
        times = {}
        for name in NAMES:
            counted = np.array(work("conv", name, sizes, 16, 1))
            weights = np.linspace(1, 2, len(counted)) * (2 if name == "taps" else 1) * 1e-9
            times[name] = float(counted @ weights) * (1 + noise * rng.uniform(-1, 1))
        found.append(Sample("conv", sizes, 16, 1, times))
    return found


def test_times_that_the_model_can_express_are_found_again() -> None:
    known = samples()
    weights = fit(known)
    assert set(weights) == {("conv", name, 16) for name in NAMES}
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
    slow = Sample(sample.family, sample.sizes, 16, 1, sample.times | {"taps": min(sample.times.values()) / 2})
    weights = fit(samples())
    assert quality([slow], weights)["conv"]["worst_loss"] >= 0.9
    assert quality([slow], weights)["conv"]["within_5_percent"] == 0.0


def test_weights_are_written_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_costs.machine, "versions", dict)
    weights = fit(samples())
    fit_costs._write(tmp_path / "costs.json", weights)
    found = json.loads((tmp_path / "costs.json").read_text())["weights"]
    for (family, name, lanes), values in weights.items():
        assert found[family][name][str(lanes)] == pytest.approx(values, rel=1e-3)


def test_cases_are_the_same_for_one_seed_and_reach_every_family() -> None:
    first, again, other = (graph_of(random.Random(seed), "bf16", 1e8) for seed in (0, 0, 1))
    shapes = [[value.shape for node in graph.nodes for value in node.outputs] for graph in (first, again, other)]
    assert shapes[0] == shapes[1] != shapes[2]
    kinds = {node.kind for node in first.nodes}
    assert {"Conv", "MatMul", "Attention"} <= kinds
    assert all(candidates(family) for family in families())
