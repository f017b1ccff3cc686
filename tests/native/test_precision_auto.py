"""precision="auto": the fastest precision within a bound, by layer where it has to be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import infuse
from infuse.build.autotune.precision.difference import difference, differences_alone
from infuse.build.compile import Compilation
from infuse.ir.graph import constant
from infuse.lowering.precisions import LayerPrecisions
from infuse.onnxruntime import InferenceSession, SessionOptions
from infuse.options import CompileOptions
from infuse.runtime.folder import METADATA
from tests.caches import new_cache
from tests.native.auto_precision import (
    SIZE,
    Clock,
    Network,
    compiled,
    exact,
    labels,
    precisions,
    random_rows,
    sensitive,
    tame,
)
from tests.native.builder import Builder
from tests.native.test_precision_bf16 import rounds

__all__ = ["rounds"]
pytestmark = [pytest.mark.row("R3"), pytest.mark.usefixtures("plain_processor")]


# ---- whole models


def test_what_is_faster_and_within_the_bound_is_taken(tmp_path: Path) -> None:
    make = Network()
    make.output(
        make.layer(make("Relu", make.layer(make.x, "a", tame(make.rng))), "b", tame(make.rng))
    )
    clock = Clock(fp16=0.8)
    with compiled(make.graph, timer=clock, output=tmp_path / "model") as model:
        assert precisions(model) == {"a": "fp16", "b": "fp16"}
        report = model.metadata["precision_report"]
    assert clock.asked == [["fp32", "fp16"]]
    assert model.metadata["precision"] == report["precision"] == "fp16"
    assert 0 < report["difference"] <= report["max_difference"] == 1e-2
    assert report["times"] == [
        {"precision": "fp16", "seconds": 0.8, "fp32_seconds": 1.0, "noise": 1.0}
    ]
    assert report["inputs"] == [
        "random, seed 0, n = 1",
        "random, seed 1, n = 1",
        "random, seed 2, n = 1",
        "random, seed 3, n = 2",
    ]
    assert json.loads((tmp_path / "model" / METADATA).read_text())["precision_report"] == report


def test_what_is_as_fast_stays_in_float() -> None:
    make = sensitive()
    with compiled(make.graph, bound=1.0, timer=Clock(fp16=0.96)) as model:
        report = model.metadata["precision_report"]
        assert model.metadata["precision"] == report["precision"] == "fp32"
        assert set(precisions(model).values()) == {"fp32"}
    assert report["difference"] == 0
    assert report["differences"]["fp16"] > 1e-3
    assert report["notes"] == ["fp16: not faster than fp32 by more than noise"]


@pytest.mark.parametrize(("noise", "precision"), [(1.1, "fp16"), (1.2, "fp32")])
def test_a_gain_must_be_larger_than_noise(noise: float, precision: str) -> None:
    clock = Clock(fp16=0.83)
    clock.noise = noise
    with compiled(sensitive().graph, bound=1.0, timer=clock) as model:
        assert model.metadata["precision"] == precision


def test_a_model_without_layers_stays_in_float() -> None:
    make = Builder()
    make.output(make("Relu", make.input("n", 3)))
    clock = Clock()
    with compiled(make.graph, timer=clock) as model:
        report = model.metadata["precision_report"]
    assert (report["precision"], report["layers"], clock.asked) == ("fp32", [], [])
    assert report["notes"] == ["fp16: no layer of the model would compute in it"]


# ---- layers


@pytest.mark.parametrize("bound", [1e-2, 2e-3])
def test_the_layer_that_rounding_hurts_stays_in_float(bound: float) -> None:
    make = sensitive()
    clock = Clock()
    feeds = random_rows(make)
    with compiled(make.graph, bound, feeds, clock) as model:
        found = model.run(feeds)
        report = model.metadata["precision_report"]
        assert precisions(model) == {
            "first": "fp16",
            "second": "fp16",
            "third": "fp16",
            "delicate": "fp32",
        }
    assert model.metadata["precision"] == report["precision"] == "mixed"
    assert clock.asked == [["fp32", "fp16"], ["fp32", "fp16, 1 of 4 layers in fp32"]]
    assert report["differences"]["fp16"] > bound >= report["difference"] > 0
    alone = {layer["node"]: layer["difference"] for layer in report["layers"]}
    assert max(alone, key=lambda name: alone[name]) == "delicate"
    with infuse.compile(make.graph, infuse.CompileOptions(threads=1)) as full:
        assert report["difference"] == pytest.approx(difference(found, full.run(feeds)), rel=1e-2)
    expected = exact(make, feeds["x"])
    assert np.abs(found["y0"] - expected).max() <= 1.1 * bound * np.abs(expected).max()


def test_a_mixed_model_gives_what_onnx_runtime_does(tmp_path: Path) -> None:
    make = sensitive()
    infuse.save(make.graph, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    sets = [random_rows(make, rows) for rows in (1, 3, 17)]
    with compiled(make.graph, 5e-3, sets) as model:
        assert model.metadata["precision"] == "mixed"
        for feeds in sets:
            (expected,) = session.run(None, feeds)
            error = np.abs(model.run(feeds)["y0"] - expected).max()
            assert error <= 1.05 * 5e-3 * np.abs(expected).max()


def test_where_no_layer_is_within_the_bound_all_stay_in_float() -> None:
    with compiled(sensitive().graph, bound=1e-7) as model:
        report = model.metadata["precision_report"]
        assert set(precisions(model).values()) == {"fp32"}
    assert (report["precision"], report["difference"]) == ("fp32", 0)
    assert report["notes"][-1] == "fp16: out of the bound with any of its layers"


def test_mixed_layers_that_gain_nothing_stay_in_float() -> None:
    with compiled(sensitive().graph, timer=Clock(mixed=0.97)) as model:
        report = model.metadata["precision_report"]
    assert report["precision"] == "fp32"
    assert report["notes"][-1].startswith("fp16, 1 of 4 layers in fp32: within the bound, but not")


def test_layers_of_bodies_have_a_precision_each() -> None:
    text = """
      <ir_version: 10, opset_import: ["" : 21]>
      m (float[n, 32] x) => (float[n, 32] y)
      <int64 trips = {3}, bool go = {1}> {
        h = MatMul(x, v)
        y = Loop(trips, go, h) <body = b (int64 i, bool c, float[n, 32] s) =>
             (bool d, float[n, 32] t) { d = Identity(c)  p = MatMul(s, w)  t = Tanh(p) }>
      }"""
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(tame(rng), name) for name in "vw")
    feeds = {"x": rng.standard_normal((4, SIZE)).astype(np.float32)}
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    with compiled(infuse.load(proto), 1e-2, feeds) as model:
        assert list(precisions(model).values()) == ["fp16", "fp16"]
        np.testing.assert_allclose(model.run(feeds)["y"], expected, atol=1e-2)
    alone = differences_alone(
        graph := infuse.load(proto),
        feeds,
        [n.serial for inner in graph.all_graphs() for n in inner.nodes if n.kind == "MatMul"],
        "fp16",
    )
    assert all(1e-6 < error < 1e-2 for error in alone.values())


def test_layers_alone_differ_as_compiled_ones_do() -> None:
    make = sensitive()
    feeds = random_rows(make)
    layers = [node.serial for node in make.graph.nodes if node.kind == "MatMul"]
    alone = differences_alone(make.graph, feeds, layers, "fp16")
    options = CompileOptions(threads=1)
    with Compilation(make.graph, options).model() as full:
        for serial, error in alone.items():
            only = LayerPrecisions.some([serial], "fp16")
            with Compilation(make.graph, options, layers=only).model() as model:
                assert model.metadata["precision"] == "mixed"
                found = difference(model.run(feeds), full.run(feeds))
            assert found == pytest.approx(error, rel=0.2)


# ---- bfloat16


@pytest.mark.usefixtures("bf16_processor", "rounds")
def test_bfloat16_is_taken_where_the_processor_multiplies_it() -> None:
    make = Network()
    h = make("Relu", make.layer(make.x, "a", tame(make.rng)))
    make.output(make.layer(h, "b", tame(make.rng)))
    clock = Clock()
    with compiled(make.graph, bound=5e-2, timer=clock) as model:
        assert precisions(model) == {"a": "bf16", "b": "bf16"}
    assert clock.asked == [["fp32", "bf16", "fp16"]]


@pytest.mark.usefixtures("bf16_processor", "rounds")
@pytest.mark.parametrize("fastest", ["bf16", "fp16"])
def test_the_fastest_that_is_within_the_bound_is_taken(fastest: str) -> None:
    """Of mixed bf16 and mixed fp16: their times over that of fp32 decide."""
    make, bound = sensitive(), 1e-2
    feeds = random_rows(make)
    clock = Clock(**{f"{fastest}, 1 of 4 layers in fp32": 0.55})
    with compiled(make.graph, bound, feeds, clock) as model:
        found = precisions(model)
        report = model.metadata["precision_report"]
        error = np.abs(model.run(feeds)["y0"] - exact(make, feeds["x"])).max()
    assert found["delicate"] == "fp32"
    assert error <= 1.1 * bound * np.abs(exact(make, feeds["x"])).max()
    assert report["difference"] <= bound
    assert set(found.values()) == {"fp32", fastest}


@pytest.mark.usefixtures("bf16_processor", "rounds")
@pytest.mark.parametrize(
    ("bound", "seconds", "delicate"), [(0.3, 0.4, "fp16"), (0.3, 0.44, "fp32"), (0.1, 0.4, "fp32")]
)
def test_layers_that_bfloat16_hurts_may_be_halves(
    bound: float, seconds: float, delicate: str
) -> None:
    """Where that is within the bound, and faster by more than noise."""
    make = sensitive()
    feeds = random_rows(make)
    named = {"bf16, 1 of 4 layers in fp32": 0.45, "bf16, 1 of 4 layers in fp16": seconds}
    with compiled(make.graph, bound, feeds, Clock(bf16=0.3, **named)) as model:
        assert precisions(model) == {
            "first": "bf16",
            "second": "bf16",
            "third": "bf16",
            "delicate": delicate,
        }
        report = model.metadata["precision_report"]
        error = np.abs(model.run(feeds)["y0"] - exact(make, feeds["x"])).max()
    assert report["difference"] <= bound
    assert error <= 1.1 * bound * np.abs(exact(make, feeds["x"])).max()


# ---- what is no float, or not finite


def test_an_index_that_flips_is_out_of_every_bound() -> None:
    """Two columns that halves cannot tell apart: the first of equals is the largest."""
    near = np.ones((SIZE, 2), np.float32)
    near[:, 1] += 1e-4
    make = Builder()
    labels(make, near)
    feeds = {"x": np.ones((3, SIZE), np.float32)}
    with compiled(make.graph, 0.5, feeds) as model:
        report = model.metadata["precision_report"]
        assert model.run(feeds)["y1"].tolist() == [1, 1, 1]
    assert (report["precision"], report["differences"]) == ("fp32", {"fp16": None})


@pytest.mark.parametrize(("weight", "is_finite"), [(-1.0, False), (1 + 2.0**-12, True)])
def test_what_is_not_finite_is_out_of_every_bound(weight: float, is_finite: bool) -> None:
    """A logarithm of less than zero in fp32, or of zero where halves have rounded the weight."""
    make = Network()
    only = np.zeros((SIZE, 1), np.float32)
    only[0] = weight
    y = make.layer(make.x, "a", only)
    make.output(make("Log", make("Sub", y, 1.0 if is_finite else 0.0)))
    feeds = {"x": np.ones((2, SIZE), np.float32)}
    with compiled(make.graph, 0.5, feeds) as model:
        report = model.metadata["precision_report"]
        assert np.isfinite(model.run(feeds)["y0"]).all() == is_finite
    assert report["precision"] == "fp32"
    assert report["differences"] == ({"fp16": None} if is_finite else {})
    assert any("not finite" in note for note in report["notes"]) != is_finite


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (np.array([1.0, -4.0]), 0.0),
        (np.array([1.5, -4.0]), 0.125),
        (np.array([1.0, np.inf]), np.inf),
        (np.array([1.0]), np.inf),
    ],
)
def test_differences(found: np.ndarray, error: float) -> None:
    assert difference({"y": found}, {"y": np.array([1.0, -4.0])}) == error
    zeros = np.zeros(found.shape)
    assert difference({"y": zeros}, {"y": zeros}) == 0
    assert difference({"y": found}, {"y": zeros}) == np.inf
    assert difference({"y": zeros[:0]}, {"y": zeros[:0]}) == 0


# ---- other entries


def test_a_part_that_the_interpreter_runs_takes_part() -> None:
    make = Network()
    y = make.layer(make.x, "a", tame(make.rng))
    text = make("Cast", make("Relu", make.layer(y, "b", tame(make.rng))), to=infuse.dtypes.string)
    make.output(y, make("Cast", text, to=infuse.dtypes.float32))
    with compiled(make.graph) as model:
        assert model.host_steps
        assert precisions(model) == {"a": "fp16", "b": "fp16"}
        assert model.metadata["precision"] == "fp16"


def test_a_session_takes_a_bound_and_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "cache"))
    monkeypatch.setattr("infuse.build.autotune.precision.search.least_seconds", Clock())
    make = sensitive()
    infuse.save(make.graph, tmp_path / "model.onnx")
    feeds = random_rows(make)
    options = SessionOptions(intra_op_num_threads=1, max_difference=1.0, data=feeds)
    session = InferenceSession(tmp_path / "model.onnx", options, precision="auto")
    (found,) = session.run(None, feeds)
    expected = exact(make, feeds["x"])
    assert 1e-3 < np.abs(found - expected).max() / np.abs(expected).max() < 1
    with pytest.raises(infuse.errors.OptionError, match="max_difference means nothing"):
        InferenceSession(tmp_path / "model.onnx", options)


def test_halves_of_the_model_lose_nothing() -> None:
    make = Builder()
    x = make.input("n", SIZE, dtype=infuse.dtypes.float16, name="x")
    make.output(make("MatMul", x, constant(tame(make.rng).astype(np.float16))))
    with compiled(make.graph) as model:
        assert precisions(model) == {"MatMul_0": "fp16"}
        assert model.metadata["precision_report"]["difference"] == 0
