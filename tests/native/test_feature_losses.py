"""Distillation by features: which values of a compressed graph are compared with the original's,
what their loss and its gradient are, and what is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import infuse
from infuse.compression import TuneOptions, features, tune
from infuse.compression.features import MOST_PAIRS, Pair, block_values, evenly, maker, pairs_of
from infuse.compression.lessons import Lessons, with_free_batch
from infuse.compression.pipeline import Request, compress_graph, named
from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.lineage import Lineage
from infuse.compression.pruning.removal import removed_from
from infuse.compression.report import CompressionReport
from infuse.compression.tuning import losses_of, tuned_parameters
from infuse.errors import InputError, OptionError
from infuse.ir.clone import clone, clone_exposing
from infuse.ir.graph import Graph, Value
from infuse.ops.core.evaluate import evaluate
from infuse.training import SGD, build_step
from tests.native.test_pruning import examples, rows_network
from tests.native.test_recovery import nearly_of_low_rank
from tests.pruning_networks import NETWORKS, Network, feeds_for

pytestmark = [pytest.mark.row("Z5")]


def residual_rows(hidden: int = 20) -> Graph:
    """Dense layers of any number of rows with one residual sum."""
    net = Network("residual_rows", (1, 6))
    x = net("Tanh", net.dense("first", net.x, hidden))
    x = net("Add", net.dense("second", x, hidden), x)
    net.graph.add_output(net.dense("scores", x, 3), "scores")
    graph = with_free_batch(net.graph)
    assert graph is not None
    return named(graph)


def disturbed(graph: Graph) -> Graph:
    """A copy with other weights."""
    rng, copy = np.random.default_rng(3), clone(graph)
    for value in tuned_parameters(copy):
        change = 1 + 0.3 * rng.standard_normal(value.const.shape)
        value.const = (value.const * change).astype(np.float32)
    return copy


def values_inside(graph: Graph, values: list[Value], feeds: dict[str, Any]) -> list[np.ndarray]:
    exposing, names = clone_exposing(graph, values)
    outputs = evaluate(exposing, feeds)
    return [outputs[name] for name in names]


def pairs_named(pairs: list[Pair]) -> list[str]:
    return [maker(pair.original).kind for pair in pairs]


def test_the_gradient_of_all_losses_together_is_that_of_torch() -> None:
    """One step of rate 1 against the gradient changes weights by it. In float32, sums of 32 rows
    leave errors of some 1e-6 of gradients that are up to 1.
    """
    original, weight = residual_rows(), 0.7
    student, data = disturbed(original), {"x": examples()["x"][:32]}
    lessons = Lessons.of(original, data, threads=1)
    (value,) = block_values(original)
    (expected,) = values_inside(original, [value], data)
    weights = [np.asarray(v.const) for v in tuned_parameters(student)]
    losses, targets = losses_of(student, lessons, TuneOptions(epochs=1))
    inner = features.feature_losses(student, lessons, weight, 1)
    assert inner.nodes == [maker(value).name]
    step = build_step(
        student,
        [*losses, *inner.losses],
        SGD(rate=1.0),
        tuned_parameters(student),
        sizes={str(student.inputs[0].shape[0]): 32},
    )
    arrays = {**data, **targets, **inner.targets}
    inputs = [arrays[name] for name in step.data]
    inputs += [np.float32(1), np.int64(0), *step.initial()]
    outputs = evaluate(step.graph, dict(zip((v.name for v in step.graph.inputs), inputs)))
    loss, *changed = outputs.values()

    w = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in weights]
    x, answers, inside = (
        torch.tensor(array, dtype=torch.float64)
        for array in (data["x"], lessons.answers["scores"], expected)
    )
    first = torch.tanh(x @ w[0] + w[1])
    joined = first @ w[2] + w[3] + first
    scores = joined @ w[4] + w[5]
    whole = ((scores - answers) ** 2).mean() / answers.var(unbiased=False)
    whole = whole + weight * ((joined - inside) ** 2).mean() / (inside**2).mean()
    whole.backward()
    np.testing.assert_allclose(loss, whole.item(), rtol=1e-5)
    for before, after, each in zip(weights, changed, w):
        assert each.grad is not None
        np.testing.assert_allclose(before - after, each.grad.numpy(), atol=2e-5)


def test_pairs_have_equal_weights_over_their_mean_squares() -> None:
    graph, data = named(rows_network()), examples(50)
    lessons = Lessons.of(graph, data, threads=1)
    values = block_values(graph)
    arrays = values_inside(graph, values, data)
    inner = features.feature_losses(clone(graph), lessons, 3.0, 1)
    assert len(inner.losses) == len(values) == 2
    for (scale, loss), array in zip(inner.losses, arrays):
        np.testing.assert_allclose(inner.targets[loss.target], array, atol=1e-5)
        mean_square = np.mean(array.astype(np.float64) ** 2)
        assert scale * mean_square == pytest.approx(1.5, rel=1e-5)


@pytest.mark.parametrize(
    ("network", "kinds"),
    [
        ("residual", ["Add", "Add"]),
        ("depthwise", ["Add"]),
        ("flattened", ["Relu", "Tanh", "Relu"]),
        ("series", ["Relu", "Relu"]),
        ("attending", ["Add"] * 4),
    ],
)
def test_sums_or_else_last_activations_are_compared(network: str, kinds: list[str]) -> None:
    graph = named(NETWORKS[network]())
    assert [maker(value).kind for value in block_values(graph)] == kinds


@pytest.mark.parametrize("network", ["residual", "depthwise", "flattened", "series", "attending"])
def test_remaining_channels_are_compared_after_two_rounds(network: str) -> None:
    """Channels that are zero go: what is left is what the original has at the same places."""
    graph = named(NETWORKS[network]())
    rng = np.random.default_rng(2)
    first = Dependencies(graph)
    going = {}
    for group in first.groups:
        order = rng.permutation(group.size)
        going[group] = (order[: group.size // 4], order[group.size // 4 : group.size // 2])
        for member in group.constants:
            is_gone = np.isin(member.channels, order[: group.size // 2])
            shape = [-1 if axis == member.axis else 1 for axis in range(member.value.rank)]
            member.value.const = np.where(is_gone.reshape(shape), 0, member.value.const)
    names = {group.name: rounds for group, rounds in going.items()}

    def without(number: int, dependencies: Dependencies, lineage: Lineage) -> tuple[Graph, Lineage]:
        removed = {}
        for group in dependencies.groups:
            early, late = names[group.name]
            original = np.arange(group.size + (len(early) if number else 0))
            left = np.delete(original, early) if number else original
            removed[group] = np.isin(left, late if number else early)
        narrow, values = removed_from(dependencies, removed)
        return narrow, lineage.narrowed(dependencies, dependencies.alive(removed), values)

    narrow, lineage = without(0, first, Lineage(first))
    narrow, lineage = without(1, Dependencies(narrow), lineage)
    lessons = Lessons(graph, {}, {}, remaining=lineage.remaining)
    pairs = pairs_of(lessons, narrow)
    assert [pair.original for pair in pairs] == block_values(graph)
    feeds = feeds_for(graph)
    before = values_inside(graph, [pair.original for pair in pairs], feeds)
    after = values_inside(narrow, [pair.tuned for pair in pairs], feeds)
    for pair, whole, own in zip(pairs, before, after):
        assert (whole.shape != own.shape) == bool(pair.remaining)
        np.testing.assert_allclose(pair.reduced(whole), own, atol=2e-4)
    if network != "attending":
        assert any(pair.remaining for pair in pairs)


def test_without_a_lineage_only_values_of_the_same_shape_are_compared() -> None:
    graph = named(rows_network(48, 32))
    other = named(rows_network(40, 32))
    pairs = pairs_of(Lessons(graph, {}, {}), other)
    assert [pair.original.shape[1] for pair in pairs] == [32]


def test_values_of_a_graph_of_low_rank_are_compared() -> None:
    graph = named(nearly_of_low_rank())
    small = compress_graph(
        graph,
        Request(
            (infuse.LowRank(),),
            examples=infuse.Examples(examples(), batch=16),
            options=infuse.CompressOptions(level="basic", threads=1, allow_slower=True),
        ),
    )
    assert any(layer.form != "float32" for layer in small.compression.layers)
    pairs = pairs_of(Lessons(graph, {}, {}), small)
    assert pairs_named(pairs) == ["Relu", "Relu"]
    feeds = {"x": examples()["x"][:16]}
    before = values_inside(graph, [pair.original for pair in pairs], feeds)
    after = values_inside(small, [pair.tuned for pair in pairs], feeds)
    for whole, own in zip(before, after):
        assert np.mean((own - whole) ** 2) < 0.05 * np.mean(whole**2)


def test_pairs_lie_evenly_and_the_last_is_one() -> None:
    pairs: list[Any] = list(range(10))
    chosen: list[Any] = list(evenly(pairs))
    assert len(chosen) == MOST_PAIRS
    assert chosen[-1] == 9
    assert min(np.diff(chosen)) >= 2
    assert evenly(pairs[:2]) == pairs[:2]


def test_tuning_draws_values_to_the_original() -> None:
    original, data = residual_rows(), examples()
    student, unseen = disturbed(original), {"x": examples(600)["x"][400:]}
    lessons = Lessons.of(original, data, threads=1)
    (expected,) = values_inside(original, block_values(original), unseen)

    def error(graph: Graph) -> float:
        (own,) = values_inside(graph, block_values(graph), unseen)
        return float(np.mean((own - expected) ** 2) / np.mean(expected**2))

    def tuned_error(weight: float) -> float:
        options = TuneOptions(epochs=10, features=weight)
        tuned, report = tune(student, lessons, options, lambda graph: 0.0, threads=1)
        assert len(report.features) == (weight > 0)
        return error(tuned)

    assert tuned_error(3.0) < 0.5 * tuned_error(0.0)


def by_features(graph: Graph, methods: Any, epochs: int) -> CompressionReport:
    """The report of a graph that was compressed and tuned by features."""
    report = infuse.compress(
        graph,
        methods,
        data=infuse.Examples(examples(), batch=16),
        tune=infuse.Tune(epochs=epochs, features=1.0),
        options=infuse.CompressOptions(allow_slower=True, threads=1),
    ).compression
    assert report is not None
    return report


@pytest.mark.parametrize("method", [None, "int8"])
def test_a_pruned_model_is_tuned_by_features(method: str | None) -> None:
    methods = [infuse.Prune("60%", rounds=2), *([method] if method else [])]
    report = by_features(rows_network(), methods, 4)
    assert [len(each["features"]) for each in report.pruning.rounds] == [2, 2]
    assert all(group.after < group.before for group in report.pruning.groups)
    if method:
        (note,) = (note for note in report.notes if note.startswith("tuned for integers"))
        assert "drawn to the original's values of" in note


@pytest.mark.parametrize("method", [infuse.Sparse(sparsity="60%"), "int8"])
def test_other_methods_are_tuned_by_features(method: Any) -> None:
    report = by_features(nearly_of_low_rank(), method, 2)
    (note,) = (note for note in report.notes if note.startswith("tuned"))
    assert "drawn to the original's values of" in note


def test_the_largest_values_are_left_out_where_memory_ends(monkeypatch: Any) -> None:
    graph, data = named(rows_network(48, 32)), examples(100)
    lessons = Lessons.of(graph, data, threads=1)
    monkeypatch.setattr(features, "MOST_BYTES", 100 * 4 * 40)
    inner = features.feature_losses(clone(graph), lessons, 1.0, 1)
    assert [array.shape for array in inner.targets.values()] == [(100, 32)]
    monkeypatch.setattr(features, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="no value inside the model can be compared"):
        features.feature_losses(clone(graph), lessons, 1.0, 1)


def test_a_model_without_such_values_is_refused() -> None:
    net = Network("single", (1, 6))
    net.graph.add_output(net.dense("scores", net.x, 32), "scores")
    with pytest.raises(InputError, match="no value inside the model can be compared"):
        infuse.compress(
            *(net.graph, "int8"),
            data=examples(),
            tune=infuse.Tune(epochs=1, features=0.5),
            options=infuse.CompressOptions(threads=1),
        )


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"features": 1.0}, "nothing is tuned"),
        ({"epochs": 1, "features": -1.0}, "features is -1"),
        ({"epochs": 1, "features": float("nan")}, "features is nan"),
        ({"epochs": 1, "features": float("inf")}, "features is inf"),
    ],
)
def test_weights_that_mean_nothing_are_refused(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        infuse.Tune(**fields)
