"""Compression with compiled models: the verb, its contract, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.compression import Request, candidates, compress_graph, control
from infuse.compression.evaluation import Evaluation, Memory
from infuse.compression.layers import Layer, find_layers
from infuse.compression.sensitivity import sensitivities
from infuse.compression.speed import Region
from infuse.data.dataset import feeds_of
from infuse.data.metrics import metric, signal_to_noise
from infuse.errors import ContractError, InfuseError, OptionError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.compression_networks import CLASSES, image_network, images, rows, text_network
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("Z1", "Z2")]


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of earlier runs are not remembered."""
    monkeypatch.setattr(Memory, "load", lambda self, parse: None)
    monkeypatch.setattr(Memory, "write", lambda self, content: None)


def compress(
    graph: Graph,
    method: Any = "int8",
    data: Any = None,
    max_drop: Any = None,
    **options: Any,
) -> Graph:
    """Compressed, slower layers too: what -O0 makes of kernels says nothing of speed."""
    own = infuse.CompressOptions(**{"allow_slower": True, "threads": 1} | options)
    return infuse.compress(
        graph, method, data=data, contract=infuse.Contract(max_drop), options=own
    )


def answers(graph: Graph, data: dict[str, np.ndarray]) -> np.ndarray:
    """Native outputs for all examples."""
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        return np.concatenate([model.run(feeds)["scores"] for feeds in feeds_of(graph, data)])


def test_static_integers_answer_as_the_interpreter_says(rng: np.random.Generator) -> None:
    graph, data = image_network(rng), images(rng)
    result = compress(graph, data=data)
    report = result.compression
    assert [layer.form for layer in report.layers] == ["int8"] * 4
    assert report.metric == "cosine"
    assert report.score > 0.999
    assert report.weight_bytes < 0.5 * report.weight_bytes_before
    expected = np.concatenate([evaluate(result, f)["scores"] for f in feeds_of(graph, data)])
    exact = np.concatenate([evaluate(graph, f)["scores"] for f in feeds_of(graph, data)])
    assert signal_to_noise(answers(result, data), expected) > 30
    assert signal_to_noise(answers(result, data), exact) > 25


@pytest.mark.parametrize("method", ["int8-dynamic", "int8-weights", "int4"])
def test_methods_without_data(method: str, rng: np.random.Generator) -> None:
    graph, data = text_network(rng), rows(rng)
    result = compress(graph, method)
    assert len({layer.form for layer in result.compression.layers}) == 1
    assert any("random inputs" in note for note in result.compression.notes)
    expected = np.concatenate([evaluate(result, f)["scores"] for f in feeds_of(graph, data)])
    exact = np.concatenate([evaluate(graph, f)["scores"] for f in feeds_of(graph, data)])
    tolerance = 1e-3 if method == "int8-dynamic" else 1e-5  # a rounding at a half may differ
    np.testing.assert_allclose(answers(result, data), expected, atol=tolerance, rtol=tolerance)
    assert signal_to_noise(expected, exact) > (12 if method == "int4" else 30)


def test_a_compressed_graph_is_saved_and_read(tmp_path: Path, rng: np.random.Generator) -> None:
    graph, data = image_network(rng), images(rng)
    result = compress(graph, data=data)
    expected = answers(result, data)
    for name in ("small.infuse", "small.onnx"):
        infuse.save(result, tmp_path / name)
        read = infuse.load(tmp_path / name)
        assert signal_to_noise(answers(read, data), expected) > 30


def test_onnx_runtime_answers_the_same(tmp_path: Path, rng: np.random.Generator) -> None:
    import onnxruntime

    graph, data = image_network(rng), images(rng)
    exact = answers(graph, data)
    for method in ("int8", "int8-dynamic"):
        result = compress(graph, method, data=data)
        infuse.save(result, tmp_path / "small.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "small.onnx")
        theirs = np.concatenate([session.run(None, f)[0] for f in feeds_of(graph, data)])
        assert signal_to_noise(theirs, answers(result, data)) > 30
        assert signal_to_noise(theirs, exact) > 25


# -- contracts -------------------------------------------------------------------------------------


def labelled(graph: Graph, data: dict[str, np.ndarray]) -> np.ndarray:
    """Labels that the network itself gives."""
    labels: np.ndarray = answers(graph, data).argmax(-1)
    return labels


def test_a_contract_that_holds_compresses_everything(rng: np.random.Generator) -> None:
    graph, data = image_network(rng), images(rng)
    result = compress(graph, data=infuse.Examples(data, labelled(graph, data)), max_drop="20%")
    report = result.compression
    assert report.reference == 1
    assert report.is_met
    assert report.max_drop == "20%"
    assert report.relative_drop <= 0.2
    assert {layer.form for layer in report.layers} == {"int8"}
    assert report.validations == 2
    assert [each.seconds for each in report.tried] == [report.float_seconds, report.seconds]


class Flawed:
    """A metric that loses a tenth for each of some layers that is compressed, as far as outputs
    tell: the error of the scores.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, outputs: list[dict[str, np.ndarray]], labels: np.ndarray) -> float:
        scores = np.concatenate([each["scores"] for each in outputs])
        return 1.0 if signal_to_noise(scores, labels) > self.limit else 0.0


def test_layers_that_change_most_stay_in_float32(rng: np.random.Generator) -> None:
    graph, data = image_network(rng), images(rng)
    exact = answers(graph, data)
    everything = compress(graph, data=data)
    limit = signal_to_noise(answers(everything, data), exact) + 1
    result = compress(graph, data=infuse.Examples(data, exact, Flawed(limit)), max_drop=0.5)
    report = result.compression
    floats = [layer for layer in report.layers if layer.form == "float32"]
    assert 0 < len(floats) < 4
    assert report.is_met
    assert all(layer.reason == "it changes the outputs most" for layer in floats)
    others = [layer.sensitivity for layer in report.layers if layer.form == "int8"]
    assert min(layer.sensitivity or 0 for layer in floats) >= max(each or 0 for each in others)
    assert report.validations <= 5
    assert {each.layers for each in report.tried} >= {0, 4}


def test_candidates_are_timed_and_weighed(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, data = image_network(rng), images(rng)
    exact = answers(graph, data)
    everything = compress(graph, data=data)
    limit = signal_to_noise(answers(everything, data), exact) + 1
    turns: list[int] = []

    def timer(runs: dict[str, Any]) -> dict[str, list[float]]:
        turns.append(len(runs))
        return {name: [float(place + 1)] for place, name in enumerate(runs)}

    monkeypatch.setattr(candidates, "MOST_TIMED", 3)
    metric = Flawed(limit)
    request = Request(
        contract=infuse.Contract(max_drop=0.5),
        examples=infuse.Examples(data, labels=exact, metric=metric),
        options=infuse.CompressOptions(allow_slower=True, threads=1),
        timer=timer,
    )
    report = compress_graph(graph, request).compression
    first, *others = report.tried
    assert (first.name, first.score, first.layers) == ("original", 1.0, 0)
    assert first.weight_bytes == report.weight_bytes_before
    (result,) = (each for each in others if each.is_result)
    assert result.score == report.score
    assert result.weight_bytes == report.weight_bytes
    assert result.forms == {"int8": result.layers}
    assert others[0].forms == {"int8": 4}
    assert turns == [2, 2, 1]  # the original and the result, and then candidates, two at a time
    assert [each.seconds for each in report.tried if each.seconds] == [1.0, 2.0, 1.0]
    assert None not in (first.seconds, result.seconds)


def test_each_layer_gets_one_of_several_methods(rng: np.random.Generator) -> None:
    graph, data = text_network(rng), rows(rng)
    exact = answers(graph, data)
    methods = ["int4", "int8-dynamic", "low-rank"]
    result = compress(graph, methods, data=data)
    assert {layer.form for layer in result.compression.layers} == {"int4 weights"}
    limit = signal_to_noise(answers(result, data), exact) + 2
    mixed = compress(graph, methods, infuse.Examples(data, exact, Flawed(limit)), 0.5)
    report = mixed.compression
    assert report.is_met
    assert {layer.form for layer in report.layers} == {"int4 weights", "int8 dynamic"}
    assert report.weight_bytes < 0.3 * report.weight_bytes_before
    assert signal_to_noise(answers(mixed, data), exact) > limit


def test_layers_of_low_rank_become_chains(rng: np.random.Generator) -> None:
    graph, data = text_network(rng), rows(rng)
    data["x"][:, 10:] = 0  # ranks of 10 at most
    result = compress(graph, "low-rank", data=data)
    forms = {layer.form for layer in result.compression.layers}
    assert "low rank 16" in forms
    assert result.compression.weight_bytes < 0.8 * result.compression.weight_bytes_before
    assert signal_to_noise(answers(result, data), answers(graph, data)) > 15


def test_a_contract_that_cannot_be_met_is_refused(rng: np.random.Generator) -> None:
    graph, data = image_network(rng), images(rng)
    exact = answers(graph, data)
    with pytest.raises(ContractError, match=r"falls by more than 0\.5") as error:
        compress(graph, "int8", infuse.Examples(data, exact, Flawed(200)), 0.5)
    assert error.value.report.layers != []
    assert isinstance(error.value.best, Graph)


def test_a_second_call_goes_on_where_the_first_ended(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = iter(range(10))
    files: dict[str, Path] = {}

    def load(self: Memory, parse: Any) -> Any:
        self.file = files.setdefault(self.identity, tmp_path / f"{next(places)}.json")
        return original(self, parse)

    original = Memory.__mro__[1].load
    monkeypatch.undo()
    monkeypatch.setattr(Memory, "load", load)
    graph, data = text_network(rng), rows(rng)
    labels = labelled(graph, data)
    first = compress(graph, "int8", infuse.Examples(data, labels), "30%").compression
    stored = []
    monkeypatch.setattr(Memory, "put", lambda self, key, value: stored.append(key))
    second = compress(graph, "int8", infuse.Examples(data, labels), "30%").compression
    assert stored == []
    assert second.score == first.score
    assert second.validations == 1
    assert [each.score for each in second.tried] == [each.score for each in first.tried]
    assert all(each.seconds for each in second.tried)
    other = compress(graph, data=infuse.Examples(data, (labels + 1) % CLASSES)).compression
    assert stored
    assert other.score != first.score


def test_sensitivities_are_those_of_layers_alone(rng: np.random.Generator) -> None:
    from infuse.compression.forms import DynamicForm, Form
    from infuse.compression.weights import round_to_nearest

    graph = text_network(rng)
    runs = feeds_of(graph, rows(rng, 3))
    layers = find_layers(graph)
    forms: dict[Layer, Form] = {
        layer: DynamicForm(round_to_nearest(layer.matrices, per_channel=False)) for layer in layers
    }
    coarse = round_to_nearest(np.asarray(np.sign(layers[1].matrices), np.float32))
    forms[layers[1]] = DynamicForm(coarse)
    measured, count = sensitivities(graph, forms, runs, [0.0, 1.0, 0.5], {"scores": 1.0}, threads=1)
    assert count == len(runs) * (1 + len(layers))
    assert max(measured, key=measured.__getitem__) is layers[1]
    assert all(value > 0 for value in measured.values())


# -- speed -----------------------------------------------------------------------------------------


_SECONDS = {"float32": 1.0, "all": 0.6}


def test_layers_that_are_slower_go_back(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, data = image_network(rng), images(rng)

    def regions(graph: Graph, small: Graph, layers: list[Layer], *_: Any) -> list[Region]:
        return [
            Region((layer,), 1.0, 2.0 if layer.node.kind == "Gemm" else 0.5) for layer in layers
        ]

    def timer(runs: dict[str, Any]) -> dict[str, list[float]]:
        return {
            name: [1.0 if name == "float32" else 0.6 - 0.1 * ("round" in name)] for name in runs
        }

    monkeypatch.setattr(control, "regions", regions)
    result = compress_graph(
        graph,
        Request(
            examples=infuse.Examples(data), options=infuse.CompressOptions(threads=1), timer=timer
        ),
    )
    forms = {layer.operator: (layer.form, layer.reason) for layer in result.compression.layers}
    assert forms["Gemm"] == ("float32", "float32 is as fast")
    assert forms["Conv"] == ("int8", "")
    assert result.compression.speed == pytest.approx(2)


def test_a_slower_form_says_why_it_was_chosen(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, data = image_network(rng), images(rng)

    def regions(graph: Graph, small: Graph, layers: list[Layer], *_: Any) -> list[Region]:
        return [
            Region((layer,), 1.0, 2.0 if layer.node.kind == "Gemm" else 0.5) for layer in layers
        ]

    def timer(runs: dict[str, Any]) -> dict[str, list[float]]:
        return {name: [{"float32": 1.0, "all": 0.6}.get(name, 0.7)] for name in runs}

    monkeypatch.setattr(control, "regions", regions)
    result = compress_graph(
        graph,
        Request(
            examples=infuse.Examples(data), options=infuse.CompressOptions(threads=1), timer=timer
        ),
    )
    told = {layer.operator: (layer.form, layer.reason) for layer in result.compression.layers}
    assert told["Gemm"] == ("int8", "slower alone, the whole is faster with it")
    assert told["Conv"] == ("int8", "")


def test_what_is_no_faster_as_a_whole_stays_as_it_was(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, data = image_network(rng), images(rng)
    monkeypatch.setattr(control, "regions", lambda *_: [])

    def timer(runs: dict[str, Any]) -> dict[str, list[float]]:
        return {name: [1.0 if name == "float32" else 1.1] for name in runs}

    result = compress_graph(
        graph,
        Request(
            examples=infuse.Examples(data), options=infuse.CompressOptions(threads=1), timer=timer
        ),
    )
    report = result.compression
    assert {layer.form for layer in report.layers} == {"float32"}
    assert any("slower than float32" in note for note in report.notes)
    np.testing.assert_array_equal(answers(result, data), answers(graph, data))


# -- what is refused -------------------------------------------------------------------------------


def ones(count: int) -> dict[str, np.ndarray]:
    return {"x": np.ones((count, 64), np.float32)}


@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        (lambda: ("int1",), "no method 'int1'"),
        (lambda: ("int8",), "needs data"),
        (lambda: ("int8", {"y": np.zeros((2, 64), np.float32)}), "'y' not known"),
        (lambda: ("int8", {"x": np.zeros((2, 63), np.float32)}), "a size of input 'x'"),
        (lambda: ("int8", {"x": np.zeros((0, 64), np.float32)}), "no examples"),
        (lambda: ("int8", {"x": np.zeros((2, 64))}), "takes float32"),
        (lambda: ("int8", infuse.Examples(ones(2), [0])), "1 labels for 2"),
        (lambda: ("int8", infuse.Examples(ones(1), [9])), "label 9 is beyond"),
        (lambda: ("int8", infuse.Examples(ones(1), metric="top1")), "needs labels"),
        (lambda: ("int8", infuse.Examples(ones(1), [0], "cosine")), "no use for labels"),
        (lambda: ("int4", None, "1%"), "needs data to measure"),
        (lambda: ("int8", ones(1), "-1"), "bounds nothing"),
        (lambda: (infuse.Int8(calibrator="guess"), ones(1)), "no calibrator"),
        (lambda: ("int8", ones(1), infuse.Contract(minutes=0)), "minutes is 0"),
        (lambda: ("int8", infuse.Examples(ones(1), batch=0)), "batch is 0"),
    ],
)
def test_requests_that_mean_nothing_are_refused(
    request_of: Callable[[], tuple[Any, ...]], said: str
) -> None:
    graph = text_network(np.random.default_rng(0))
    with pytest.raises(InfuseError, match=said):
        compress(graph, *request_of())


def test_a_metric_that_raises_is_named(rng: np.random.Generator) -> None:
    graph, data = text_network(rng), rows(rng, 2)

    def broken(outputs: Any, labels: Any) -> float:
        raise RuntimeError("no")

    with pytest.raises(InfuseError, match="the metric raised RuntimeError: no"):
        compress(graph, data=infuse.Examples(data, [0, 1], broken))
    with pytest.raises(InfuseError, match="not a number"):
        compress(graph, data=infuse.Examples(data, [0, 1], lambda *_: float("nan")))


def test_a_quantized_model_stays_as_it_is(rng: np.random.Generator) -> None:
    graph, data = image_network(rng), images(rng)
    small = compress(graph, data=data)
    again = compress(small, data=data)
    assert {layer.form for layer in again.compression.layers} <= {"float32"}
    with pytest.raises(ContractError, match="no layer of the model can be compressed"):
        compress(small, "int8", infuse.Examples(data, labelled(small, data)), "1%")


def test_symbolic_batches_run_in_the_size_that_is_asked_for(rng: np.random.Generator) -> None:
    graph, data = image_network(rng, "batch"), images(rng, 10)
    result = compress(graph, data=infuse.Examples(data, batch=4))
    assert result.compression.examples == 3
    assert signal_to_noise(answers(result, data), answers(graph, data)) > 25


def test_options_without_meaning_say_what_there_is() -> None:
    with pytest.raises(
        OptionError, match="methods: int8, int16-activations, int8-dynamic, int8-weights"
    ):
        infuse.compress(image_network(np.random.default_rng(0)), "int1")


def wide_network(rng: np.random.Generator) -> tuple[Graph, dict[str, np.ndarray]]:
    """Products and a convolution that are large enough for blocks, and data."""
    write = Builder("wide", 3)
    x = write.input("n", 32, 6, 6, name="x")
    y = write("Relu", write("Conv", x, write.weight(64, 32, 3, 3), pads=(1, 1, 1, 1)))
    y = write("Relu", write("Conv", y, write.weight(96, 64, 1, 1), write.weight(96)))
    y = write("Flatten", write("GlobalAveragePool", y))
    write.graph.add_output(write("MatMul", y, write.weight(96, 48)), "scores")
    data = rng.standard_normal((24, 32, 6, 6)).astype(np.float32)
    return infuse.optimize(write.graph), {"x": data}


@pytest.mark.parametrize(
    ("method", "form"),
    [
        (infuse.Sparse(sparsity="50%"), "50% zero"),
        (infuse.SparseInt8(sparsity="50%"), "int8, 50% zero"),
    ],
)
def test_sparse_weights_answer_as_the_interpreter_says(
    method: Any, form: str, rng: np.random.Generator
) -> None:
    graph, data = wide_network(rng)
    result = compress(graph, method, data=data)
    layers = result.compression.layers
    assert [layer.form for layer in layers] == [form] * 3
    assert any("fitted" in layer.calibrator for layer in layers)
    expected = np.concatenate([evaluate(result, f)["scores"] for f in feeds_of(graph, data)])
    exact = np.concatenate([evaluate(graph, f)["scores"] for f in feeds_of(graph, data)])
    assert signal_to_noise(answers(result, data), expected) > (35 if "int8" in form else 100)
    assert signal_to_noise(expected, exact) > 3


def test_every_run_on_examples_is_counted(rng: np.random.Generator) -> None:
    network = image_network(rng)
    runs = [{"x": each[None]} for each in images(rng, 3)["x"]]
    with Evaluation(network, runs, metric("cosine"), None, threads=1) as evaluation:
        assert (evaluation.validations, evaluation.model_runs) == (1, 3)
        assert evaluation.score_once(network) == pytest.approx(1.0, abs=1e-6)
        assert (evaluation.validations, evaluation.model_runs) == (2, 6)
        evaluation.score(network)  # those of the latest graph are there
        assert evaluation.model_runs == 6
