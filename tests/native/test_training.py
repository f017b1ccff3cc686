"""Training: steps beside PyTorch's, what is carried on, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from infuse import dtypes
from infuse.errors import DataError, InputError, OptionError, TypeMismatchError
from infuse.ir.graph import Graph, constant
from infuse.ir.parser import parse
from infuse.ir.types import tensor
from infuse.ops.core.evaluate import evaluate
from infuse.training import (
    SGD,
    AdamW,
    Distillation,
    MeanSquaredError,
    Optimizer,
    TrainOptions,
    Watch,
    parameters_of,
    schedules,
    train,
)
from infuse.training.differentiation import Differentiator

pytestmark = pytest.mark.row("Z5")


def network(batch: int | str = "n") -> Graph:
    """Two layers, of which the first has a batch normalization."""
    rng = np.random.default_rng(3)
    graph = Graph("small")
    make = Differentiator(graph, "net")
    x = graph.add_input("x", tensor(dtypes.float32, batch, 6))

    def weight(name: str, *shape: int) -> Any:
        return constant(0.4 * rng.standard_normal(shape, np.float32), name)

    hidden = make("Gemm", x, weight("w1", 6, 8), weight("b1", 8))
    statistics = [weight("mean", 8), constant(np.full(8, 2, np.float32), "variance")]
    scale = constant(np.ones(8, np.float32), "scale")
    normal = make("BatchNormalization", hidden, scale, weight("bias", 8), *statistics)
    scores = make("Gemm", make("Tanh", normal), weight("w2", 8, 3), weight("b2", 3))
    graph.add_output(scores, "scores")
    return graph


def examples(count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((count, 6), np.float32)
    return x, (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)


class Twin(torch.nn.Module):
    """The same network in PyTorch."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.values = {v.name: torch.tensor(v.const) for v in graph.constants()}
        for name in ("w1", "b1", "scale", "bias", "w2", "b2"):
            self.values[name] = torch.nn.Parameter(self.values[name])
            self.register_parameter(name, self.values[name])

    def forward(self, x: torch.Tensor, training: bool = False) -> torch.Tensor:
        v = self.values
        hidden = torch.nn.functional.batch_norm(
            x @ v["w1"] + v["b1"],
            v["mean"],
            v["variance"],
            v["scale"],
            v["bias"],
            training=training,
        )
        return torch.tanh(hidden) @ v["w2"] + v["b2"]


def constants(graph: Graph) -> dict[str, np.ndarray]:
    return {v.name: np.asarray(v.const) for v in graph.constants()}


@pytest.mark.parametrize(
    ("own", "kind", "options"),
    [
        (SGD(rate=0.1), torch.optim.SGD, {"lr": 0.1}),
        (
            SGD(rate=0.1, momentum=0.9, weight_decay=0.01),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
        ),
        (
            SGD(rate=0.1, momentum=0.8, nesterov=True),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.8, "nesterov": True},
        ),
        (
            AdamW(rate=0.01, weight_decay=0.1),
            torch.optim.AdamW,
            {"lr": 0.01, "weight_decay": 0.1},
        ),
    ],
)
@pytest.mark.parametrize("clip", [None, 0.05])
def test_steps_are_those_of_torch(
    own: Optimizer, kind: Any, options: dict[str, Any], clip: float | None
) -> None:
    graph = network()
    x, labels = examples()
    before = constants(graph)
    trained, report = train(
        graph,
        x,
        labels,
        TrainOptions(optimizer=own, epochs=7, batch_size=40, clip_norm=clip, seed=1),
    )
    twin = Twin(graph)
    optimizer = kind(twin.parameters(), **options)
    losses = []
    for _ in range(7):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(twin(torch.tensor(x)), torch.tensor(labels))
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(twin.parameters(), clip, error_if_nonfinite=True)
        optimizer.step()
        losses.append(loss.item())
    # Seven steps in float32, whose sums round in another order; torch adds 1e-6 to the norm.
    np.testing.assert_allclose(report.losses, losses, rtol=1e-4)
    after = constants(trained)
    for name, parameter in twin.named_parameters():
        np.testing.assert_allclose(after[name], parameter.detach().numpy(), rtol=2e-4, atol=2e-5)
        assert not np.array_equal(after[name], before[name])
    for name, array in constants(graph).items():
        np.testing.assert_array_equal(array, before[name])
    np.testing.assert_array_equal(after["mean"], before["mean"])
    assert set(report.parameters) == {"w1", "b1", "scale", "bias", "w2", "b2"}


def test_statistics_follow_the_batches_where_that_is_asked_for() -> None:
    graph = network()
    x, labels = examples()
    trained, _ = train(
        graph,
        x,
        labels,
        TrainOptions(optimizer=SGD(rate=0.1), batch_size=40, epochs=2, batch_statistics=True),
    )
    twin = Twin(graph)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    momentum = 0.9
    mean, variance = (twin.values[n].numpy().copy() for n in ("mean", "variance"))
    for _ in range(2):
        optimizer.zero_grad()
        hidden = (torch.tensor(x) @ twin.w1 + twin.b1).detach().numpy()
        mean = momentum * mean + (1 - momentum) * hidden.mean(0)
        variance = momentum * variance + (1 - momentum) * hidden.var(0)
        scores = twin(torch.tensor(x), training=True)
        torch.nn.functional.cross_entropy(scores, torch.tensor(labels)).backward()
        optimizer.step()
    after = constants(trained)
    np.testing.assert_allclose(after["w1"], twin.w1.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(after["mean"], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(after["variance"], variance, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chosen", ["w2", ["w2"]])
def test_only_chosen_parameters_are_trained(chosen: str | list[str]) -> None:
    graph = network()
    x, labels = examples()
    trained, report = train(
        graph, x, labels, TrainOptions(epochs=2, batch_size=16), parameters=chosen
    )
    before, after = constants(graph), constants(trained)
    assert [n for n in before if not np.array_equal(before[n], after[n])] == ["w2"]
    assert report.parameters == ["w2"]
    assert report.steps == 5
    assert len(report.losses) == 2


def test_zeros_of_masks_stay_zeros_and_the_rest_is_trained() -> None:
    graph = network()
    value = next(v for v in graph.constants() if v.name == "w1")
    mask = np.random.default_rng(0).random((6, 8)) < 0.3
    for rule in (AdamW(rate=0.05), SGD(rate=0.05, momentum=0.9)):
        trained, _ = train(
            graph, *examples(), options=TrainOptions(optimizer=rule, threads=1), masks={value: mask}
        )
        weights = constants(trained)["w1"]
        assert (weights[~mask] == 0).all()
        assert (weights[mask] != value.const[mask]).all()


def test_a_mask_that_fits_no_parameter_is_refused() -> None:
    graph = network()
    values = {v.name: v for v in graph.constants()}
    for value, shape in ((values["w1"], (8, 6)), (values["mean"], (8,))):
        with pytest.raises(InputError, match="fits no parameter"):
            train(
                graph,
                *examples(),
                options=TrainOptions(threads=1),
                masks={value: np.ones(shape, bool)},
            )


def test_a_training_is_watched_after_every_epoch_and_can_be_ended() -> None:
    seen = []

    def watch(epoch: int, graph_so_far: Any) -> bool:
        seen.append((epoch, constants(graph_so_far())["w1"]))
        return epoch == 3

    graph, report = train(
        network(),
        *examples(),
        options=TrainOptions(epochs=9, batch_size=10, threads=1),
        watch=Watch(after_epoch=watch),
    )
    assert [epoch for epoch, _ in seen] == [1, 2, 3]
    assert report.steps == 12
    assert len(report.losses) == 3
    np.testing.assert_array_equal(constants(graph)["w1"], seen[-1][1])
    assert not np.array_equal(seen[0][1], seen[1][1])


def test_losses_have_weights_and_targets_of_their_own() -> None:
    graph = network()
    x, _ = examples()
    teacher = np.random.default_rng(8).standard_normal((40, 3)).astype(np.float32)
    losses = [
        (0.25, Distillation(target="soft", temperature=3.0)),
        (2.0, MeanSquaredError(target="hard")),
    ]
    targets = {"soft": teacher, "hard": -teacher}
    _, report = train(graph, x, targets, TrainOptions(loss=losses, batch_size=40))
    scores = torch.tensor(evaluate(graph, {"x": x})["scores"])
    soft = torch.nn.functional.kl_div(
        torch.log_softmax(scores / 3, 1),
        torch.log_softmax(torch.tensor(teacher) / 3, 1),
        reduction="batchmean",
        log_target=True,
    )
    hard = torch.nn.functional.mse_loss(scores, torch.tensor(-teacher))
    assert report.losses == [pytest.approx(0.25 * 9 * soft.item() + 2 * hard.item(), rel=1e-5)]


def test_every_example_comes_once_before_any_comes_again() -> None:
    graph = network()
    x, labels = examples(10)
    seen: list[float] = []

    def watch(batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        seen.extend(batch["x"][:, 0].tolist())
        return batch

    done: list[tuple[int, int]] = []
    train(
        graph,
        x,
        labels,
        TrainOptions(epochs=2, batch_size=4, augment=watch),
        watch=Watch(progress=lambda step, steps, loss: done.append((step, steps))),
    )
    assert sorted(seen[:10]) == sorted(x[:, 0].tolist())
    assert sorted(seen[10:]) == sorted(x[:, 0].tolist())
    assert done == [(n, 5) for n in range(1, 6)]


def test_schedules() -> None:
    assert [schedules.stepped(2, 0.5)(n, 9) for n in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    assert schedules.cosine(0, 8) == 1
    assert schedules.cosine(8, 8) == pytest.approx(0)
    factors = [schedules.warmed_up(3, schedules.cosine)(n, 11) for n in range(5)]
    assert factors == pytest.approx([0.25, 0.5, 0.75, 1, schedules.cosine(1, 8)])
    for wrong in (lambda: schedules.stepped(0), lambda: schedules.warmed_up(-1)):
        with pytest.raises(OptionError):
            wrong()


def test_sizes_and_what_the_loss_does_not_depend_on_are_no_parameters() -> None:
    graph = Graph("resized")
    make = Differentiator(graph, "net")
    x = graph.add_input("rate", tensor(dtypes.float32, "n", 1, 2, 2))
    scales = constant(np.array([1, 1, 2, 2], np.float32), "scales")
    w = constant(np.ones((16, 3), np.float32), "w")
    other = constant(np.ones((16, 3), np.float32), "other")
    flat = make("Flatten", make("Resize", x, None, scales, mode="nearest"))
    graph.add_output(make("MatMul", flat, w), "scores")
    graph.add_output(make("MatMul", flat, other), "more")
    images = np.random.default_rng(0).standard_normal((8, 1, 2, 2)).astype(np.float32)
    labels = np.arange(8) % 3
    trained, report = train(graph, images, labels, TrainOptions(batch_size=8))
    assert report.parameters == ["w"]
    assert [v.name for v in parameters_of(graph)] == ["w", "other"]
    assert np.array_equal(constants(trained)["other"], other.const)


X, LABELS = examples()


@pytest.mark.parametrize(
    ("change", "kind", "what"),
    [
        ({"labels": LABELS + 1}, InputError, "labels lie between 0 and 3"),
        ({"labels": LABELS - 1}, InputError, "labels lie between -1"),
        ({"labels": LABELS.astype(np.int32)}, InputError, "takes int64, found int32"),
        ({"labels": LABELS[:-1]}, InputError, "different numbers of examples"),
        ({"labels": LABELS[:, None]}, InputError, "an example in each row"),
        ({"labels": {"other": LABELS}}, InputError, "take the targets target, found other"),
        ({"data": X[:0], "labels": LABELS[:0]}, InputError, "no examples"),
        ({"data": X[:, :5]}, InputError, "axis 1 of 6, found 5"),
        ({"data": X[:, :, None]}, InputError, "found the shape"),
        ({"data": X.astype(np.float64)}, InputError, "found float64"),
        ({"data": {"z": X}}, InputError, "the graph takes 'x'"),
        ({"data": np.where(X > 2, np.nan, X)}, InputError, "not finite"),
        ({"options": TrainOptions(loss="mse")}, InputError, "takes float32, found int64"),
        (
            {"options": TrainOptions(loss=MeanSquaredError(result="z")), "labels": X},
            InputError,
            "no value 'z'",
        ),
        ({"parameters": ["w3"]}, InputError, "no constants 'w3'"),
        ({"parameters": []}, InputError, "no parameters"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        train(network(), **{"data": X, "labels": LABELS, **change})


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"loss": "hinge"}, "no loss 'hinge'"),
        ({"loss": []}, "needs a loss"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"clip_norm": -1.0}, "clip_norm is -1.0"),
    ],
)
def test_options_that_mean_nothing_are_refused(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        train(network(), X, LABELS, TrainOptions(**fields))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (SGD, {"rate": 0.0}),
        (SGD, {"rate": float("nan")}),
        (SGD, {"momentum": 1.0}),
        (SGD, {"nesterov": True}),
        (AdamW, {"beta1": -0.1}),
        (Distillation, {"temperature": 0.0}),
    ],
)
def test_bad_options_are_refused(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        kind(**options)


def test_a_batch_that_the_graph_does_not_take_is_refused() -> None:
    with pytest.raises(InputError, match="batches of 1, found 32"):
        train(network(batch=1), X, LABELS)


def test_integers_are_no_parameters() -> None:
    graph = parse(
        """graph "integers" (%x: float32[n, 2]) {
          %y = Gather(%x, %where, axis=1)
          return y = %y
        }""".replace("%where", "int64[2]{0, 1}")
    )
    (places,) = graph.constants()
    places.name = "places"
    with pytest.raises(TypeMismatchError, match="only floats"):
        parameters_of(graph, ["places"])


def test_a_loss_that_is_no_number_ends_the_training() -> None:
    graph = network()
    before = constants(graph)
    with pytest.raises(DataError, match=r"the loss is (nan|inf) at step"):
        train(
            graph,
            X,
            1e18 * np.ones((40, 3), np.float32),
            TrainOptions(loss="mse", optimizer=SGD(rate=1e20), epochs=20),
        )
    for name, array in constants(graph).items():
        np.testing.assert_array_equal(array, before[name])


def test_former_keywords_train_the_same_with_a_warning() -> None:
    plain, _ = train(network(), X, LABELS, TrainOptions(epochs=2, batch_size=8, threads=1))
    words: dict[str, Any] = {"epochs": 2, "batch_size": 8, "threads": 1}
    with pytest.warns(FutureWarning, match=r"options=TrainOptions\(epochs=2, batch_size=8, "):
        former, _ = train(network(), X, LABELS, **words)
    expected = constants(plain)
    for name, array in constants(former).items():
        np.testing.assert_array_equal(array, expected[name])
