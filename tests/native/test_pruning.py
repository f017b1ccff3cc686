"""Pruning and tuning with compiled models: what is narrower, what is learned back, and what is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.compression import TuneOptions, tune, tuning
from infuse.compression.lessons import Lessons, with_free_batch
from infuse.compression.pruning.candidates import Candidates
from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.importance import (
    activity_of,
    by_activation,
    by_magnitude,
    by_slope,
)
from infuse.compression.pruning.widths import Rounding, evenly, fitted
from infuse.compression.rounding_aware import tune_for_integers, with_rounding
from infuse.compression.static import StaticOptions
from infuse.compression.tuning import masks_of, tuned_parameters
from infuse.errors import ContractError, InputError, OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.training import MeanSquaredError
from tests.pruning_networks import NETWORKS, Network

pytestmark = [pytest.mark.row("Z3", "Z5")]
MANY_EPOCHS = 20_000
"""More than a processor has time for."""


def rows_network(first: int = 48, second: int = 32) -> Graph:
    """Three dense layers of any number of rows."""
    net = Network("rows", (1, 6))
    x = net("Relu", net.dense("first", net.x, first))
    x = net("Relu", net.dense("second", x, second))
    net.graph.add_output(net.dense("scores", x, 3), "scores")
    graph = with_free_batch(net.graph)
    assert graph is not None
    return graph


def examples(count: int = 400) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(5).standard_normal((count, 6)).astype(np.float32)}


def test_half_of_the_multiplications_go_and_tuning_learns_them_back() -> None:
    graph, data = rows_network(), examples()
    plain = infuse.compress(
        graph,
        infuse.Prune("50%"),
        data=infuse.Examples(data, batch=16),
        options=infuse.CompressOptions(threads=1),
    )
    report = plain.compression
    assert report.pruning.macs <= 0.5 * report.pruning.macs_before
    assert report.pruning.is_reached
    assert [(g.before, g.after < g.before) for g in report.pruning.groups] == [
        (48, True),
        (32, True),
    ]
    for group in report.pruning.groups:
        (name,) = group.nodes
        assert any(
            group.after in value.const.shape for value in plain.constants() if value.const.ndim > 1
        ), name
    assert [each.reason for each in report.pruning.closed] == ["it is an axis of an output"]
    tuned = infuse.compress(
        graph,
        infuse.Prune(0.5),
        data=infuse.Examples(data, batch=16),
        tune=infuse.Tune(epochs=6),
        options=infuse.CompressOptions(threads=1),
    ).compression
    (only,) = tuned.pruning.rounds
    assert only["after"] > only["before"]
    assert tuned.score == pytest.approx(only["after"], abs=1e-6)
    assert any("one in 5 examples" in note for note in tuned.notes)
    assert any("score" in line and "epochs of tuning" in line for line in tuned.lines())


def test_a_pruned_model_answers_in_other_runtimes(tmp_path: Path) -> None:
    graph = NETWORKS["depthwise"]()
    result = infuse.compress(
        graph, infuse.Prune("40%"), options=infuse.CompressOptions(threads=1, level="basic")
    )
    verify(result)
    infuse.save(result, tmp_path / "narrow.onnx")
    session = onnxruntime.InferenceSession(
        tmp_path / "narrow.onnx", providers=["CPUExecutionProvider"]
    )
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)}
    (expected,) = session.run(None, feeds)
    np.testing.assert_allclose(evaluate(result, feeds)["scores"], expected, atol=1e-4)
    with infuse.compile(result, infuse.CompileOptions(threads=1)) as model:
        np.testing.assert_allclose(model.run(feeds)["scores"], expected, atol=1e-4)


def test_a_bound_that_no_round_meets_is_an_error() -> None:
    graph, data = rows_network(), examples()
    with pytest.raises(ContractError, match="in every round") as caught:
        infuse.compress(
            graph,
            infuse.Prune("80%"),
            data=infuse.Examples(data, batch=16),
            contract=infuse.Contract(max_drop=1e-9),
            options=infuse.CompressOptions(threads=1),
        )
    assert not caught.value.report.pruning.is_reached
    assert caught.value.report.pruning.macs == caught.value.report.pruning.macs_before


@pytest.mark.full
def test_rounds_end_where_the_bound_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths suit the same vectors in both runs, whichever are the faster ones."""
    monkeypatch.setattr(Candidates, "rounding", lambda self, graph: Rounding(4))
    graph, data = rows_network(), examples()
    free = infuse.compress(
        graph,
        infuse.Prune("80%", rounds=3),
        data=infuse.Examples(data, batch=16),
        contract=infuse.Contract(max_drop=2.0),
        options=infuse.CompressOptions(threads=1),
    ).compression
    assert len(free.pruning.rounds) == 3
    macs = [each["macs"] for each in free.pruning.rounds]
    assert macs == sorted(macs, reverse=True)
    scores = [each["after"] for each in free.pruning.rounds]
    bound = free.reference - scores[0] + 1e-6
    some = infuse.compress(
        graph,
        infuse.Prune("80%", rounds=3),
        data=infuse.Examples(data, batch=16),
        contract=infuse.Contract(max_drop=bound),
        options=infuse.CompressOptions(threads=1),
    ).compression
    assert some.pruning.macs == macs[0]
    assert not some.pruning.is_reached
    assert any("loses more than" in note for note in some.notes)


def test_integers_come_after_pruning() -> None:
    graph, data = rows_network(), examples()
    result = infuse.compress(
        graph,
        [infuse.Prune("50%"), "int8"],
        data=infuse.Examples(data, batch=16),
        tune=infuse.Tune(epochs=4),
        options=infuse.CompressOptions(threads=1, allow_slower=True),
    )
    report = result.compression
    assert any(node.kind == "QuantizeLinear" for node in result.nodes)
    assert report.pruning.macs <= 0.5 * report.pruning.macs_before
    assert report.weight_bytes < report.weight_bytes_before / 4
    assert any("tuned for integers" in note for note in report.notes)
    outputs = evaluate(result, {"x": data["x"][:16]})["scores"]
    assert np.isfinite(outputs).all()


def test_the_channel_that_does_nothing_matters_least() -> None:
    graph = rows_network()
    dependencies = Dependencies(graph)
    group = dependencies.groups[0]
    for member in group.constants:
        array = member.value.const.copy()
        place = [slice(None)] * array.ndim
        place[member.axis] = 7
        array[tuple(place)] = 0
        member.value.const = array
    runs = [{"x": examples()["x"][:50]}]
    answers = evaluate(graph, runs[0])["scores"] + 1
    batch = {**runs[0], "target": answers}
    measures = [
        by_magnitude(dependencies),
        by_activation(dependencies, activity_of(dependencies, runs, 1)),
        by_slope(dependencies, [(1.0, MeanSquaredError())], [batch], {"rows": 50}, 1),
    ]
    for measure in measures:
        assert measure[group][7] == 0
        assert (np.delete(measure[group], 7) >= 0).all()
        assert measure[group].sum() == pytest.approx(1)


def test_slopes_are_what_a_loss_changes_by_to_first_order() -> None:
    graph = rows_network()
    dependencies = Dependencies(graph)
    feeds = {"x": examples()["x"][:20]}
    target = evaluate(graph, feeds)["scores"] + 1
    (slopes,) = [
        by_slope(
            dependencies,
            [(1.0, MeanSquaredError())],
            [{**feeds, "target": target}],
            {"rows": 20},
            1,
        )
    ]

    def loss(changed: Graph) -> float:
        apart = evaluate(changed, feeds)["scores"].astype(np.float64) - target
        return float(np.mean(apart**2))

    group, step = dependencies.groups[1], 1e-3
    changes = []
    for channel in range(group.size):
        values: dict = {}
        copy = clone(graph, values)
        for member in group.constants:
            scale = np.where(member.channels == channel, 1 - step, 1.0)
            shape = [-1 if axis == member.axis else 1 for axis in range(member.value.rank)]
            array = member.value.const * scale.reshape(shape)
            values[member.value].const = array.astype(np.float32)
        changes.append((loss(graph) - loss(copy)) / step)
    squares = np.square(changes)
    np.testing.assert_allclose(slopes[group], squares / squares.sum(), atol=2e-3)


def test_widths_suit_kernels() -> None:
    dependencies = Dependencies(rows_network())
    importance = by_magnitude(dependencies)
    rounding = Rounding(8)
    shrink = evenly(dependencies, importance, rounding)
    widths = fitted(shrink, lambda w: sum(w.values()) / 80, 0.5, rounding)
    assert widths is not None
    assert all(width % rounding.step(group) == 0 for group, width in widths.items())
    assert sum(widths.values()) <= 40
    assert fitted(shrink, lambda w: 1.0, 0.5, rounding) is None


def sparse() -> Graph:
    """The network with zeros for most of the weights of its first layer."""
    graph = rows_network()
    first = next(value for value in tuned_parameters(graph) if value.shape == (6, 48))
    rng = np.random.default_rng(0)
    first.const = np.where(rng.random((6, 48)) < 0.3, first.const, 0).astype(np.float32)
    return graph


def agreement(original: Graph, feeds: dict[str, np.ndarray]) -> Any:
    expected = evaluate(original, feeds)["scores"]
    return lambda graph: -float(np.mean((evaluate(graph, feeds)["scores"] - expected) ** 2))


def test_tuning_keeps_zeros_and_is_never_worse() -> None:
    original, graph, data = rows_network(), sparse(), examples()
    lessons = Lessons.of(original, data, threads=1)
    score = agreement(original, {"x": data["x"][:50]})
    tuned, report = tune(graph, lessons, TuneOptions(epochs=4), score, threads=1)
    (value,) = masks_of(tuned_parameters(graph))
    (weights,) = [v.const for v in tuned.constants() if v.shape == (6, 48)]
    assert (weights[value.const == 0] == 0).all()
    assert report.after > report.before
    assert report.after == score(tuned)
    assert report.best_epoch > 0
    wild, report = tune(graph, lessons, TuneOptions(epochs=1, rate=50.0), score, threads=1)
    assert report.best_epoch == 0
    assert wild is graph
    assert report.after == report.before


def test_tuning_with_rounding_makes_integers_better() -> None:
    original, data = rows_network(), examples()
    lessons = Lessons.of(original, data, threads=1)
    runs = [{"x": data["x"][:100]}]
    rounded, copies = with_rounding(original, runs, StaticOptions(), 0, 1)
    assert sum(node.kind == "QuantizeLinear" for node in rounded.nodes) == 6
    assert all(copies[value].const is value.const for value in tuned_parameters(original))
    tuned, report = tune_for_integers(
        original,
        runs,
        lessons,
        TuneOptions(epochs=6, rate=3e-4),
        agreement(original, {"x": data["x"][:200]}),
        threads=1,
        static=StaticOptions(),
    )
    assert report.after > report.before
    assert not any(node.kind == "QuantizeLinear" for node in tuned.nodes)
    again, _ = with_rounding(tuned, runs, StaticOptions(), 0, 1)
    score = agreement(original, {"x": data["x"][200:]})
    assert score(again) > score(rounded)


def test_a_tuning_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "MANY_EPOCHS", MANY_EPOCHS)
    original, data = rows_network(), examples()
    lessons = Lessons.of(original, data, threads=1)
    score = agreement(original, {"x": data["x"][:20]})
    _, report = tune(sparse(), lessons, TuneOptions(minutes=0.02), score, threads=1)
    assert report.steps > 0
    assert report.epochs < MANY_EPOCHS


def test_classes_are_learned_from_probabilities_too() -> None:
    net = Network("classes", (1, 6))
    x = net("Relu", net.dense("first", net.x, 24))
    net.graph.add_output(net("Softmax", net.dense("scores", x, 3), axis=-1), "scores")
    data = examples()
    labels = np.random.default_rng(1).integers(0, 3, 400)
    lessons = Lessons.of(net.graph, data, labels, tells_classes=True, threads=1)
    assert lessons.answers["scores"].shape == (400, 3)
    graph = clone(net.graph)
    for value in tuned_parameters(graph):
        value.const = (value.const * 0.8).astype(np.float32)
    score = agreement(with_free_batch(net.graph) or net.graph, data)

    def free_score(candidate: Graph) -> float:
        return score(with_free_batch(candidate) or candidate)

    _, report = tune(
        graph, lessons, TuneOptions(epochs=3, labels_weight=0.1), free_score, threads=1
    )
    assert report.losses[-1] < report.losses[0]


def test_examples_that_lie_otherwise_are_refused() -> None:
    with pytest.raises(InputError, match="examples along the first axis"):
        Lessons.of(rows_network(), {"x": np.zeros((0, 6), np.float32)})


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: infuse.Prune("half"), "not a part of the model"),
        (lambda: infuse.Prune("150%"), "not a part of the model"),
        (lambda: infuse.Prune(1.5), "not a part of the model"),
        (lambda: infuse.Prune("50%", of="energy"), "no goal"),
        (lambda: infuse.Prune("50%", rounds=0), "rounds is 0"),
        (lambda: infuse.Tune(epochs=0), "epochs is 0"),
        (lambda: infuse.Tune(minutes=-1), "minutes is -1"),
    ],
)
def test_options_that_mean_nothing_are_refused(make: Callable[[], Any], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        make()


@pytest.mark.parametrize(
    ("methods", "data", "what"),
    [
        (infuse.Prune("50%"), None, "needs data"),
        (infuse.Prune("50%"), examples(3), "too few"),
        (None, None, "needs data"),
        (["int8", "low-rank"], examples(20), "be tuned"),
    ],
)
def test_what_cannot_be_tuned_is_refused(methods: Any, data: Any, what: str) -> None:
    tune, options = infuse.Tune(epochs=1), infuse.CompressOptions(threads=1)
    with pytest.raises(OptionError, match=what):
        infuse.compress(rows_network(), methods, data=data, tune=tune, options=options)


def test_parts_are_read() -> None:
    assert infuse.Prune("25%").share == infuse.Prune(0.25).share == 0.25
