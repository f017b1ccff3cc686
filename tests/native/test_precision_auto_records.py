"""precision="auto": what is kept, what commands say of it, and what is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.build.autotune.precision import request
from infuse.build.compile import Compilation, compile_graph
from infuse.build.staged import generate
from infuse.errors import InfuseError, InputError, OptionError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.lowering.precisions import LayerPrecisions
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.caches import new_cache
from tests.cli_tools import Cli
from tests.native.auto_precision import (
    SIZE,
    Clock,
    Network,
    compiled,
    precisions,
    random_rows,
    sensitive,
    tame,
)
from tests.native.builder import Builder
from tests.support.lowered import run_lowered

pytestmark = [pytest.mark.row("R3"), pytest.mark.usefixtures("plain_processor")]
LEAST_SECONDS = "infuse.build.autotune.precision.search.least_seconds"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The usual clock replaced, and a cache of the test's own."""
    monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "cache"))
    monkeypatch.setattr(LEAST_SECONDS, clock := Clock())
    return clock


@pytest.fixture
def model(tmp_path: Path) -> Path:
    infuse.save(sensitive().graph, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


# ---- the cache


def test_precisions_of_layers_are_part_of_the_cache_key() -> None:
    make = sensitive()
    layers = [node.serial for node in make.graph.nodes if node.kind == "MatMul"]
    folders: dict[Any, Path] = {}
    for count in range(len(layers) + 1):
        some = LayerPrecisions.some(layers[:count], "fp16")
        compilation = Compilation(make.graph, CompileOptions(threads=1), layers=some)
        with compilation.model() as found:
            folders[count] = found.folder
        with compilation.model() as found:
            assert found.folder == folders[count]
    with compile_graph(make.graph, CompileOptions(threads=1)) as found:
        assert found.folder == folders.pop(0)
    assert len(set(folders.values())) == len(layers)


def test_what_was_found_is_kept_for_the_same_model_bound_and_inputs(clock: Clock) -> None:
    def found(make: Network, bound: float = 1e-2, **options: Any) -> Any:
        chosen = infuse.CompileOptions.flat("auto", bound, threads=1, **options)
        with infuse.compile(make.graph, chosen) as compiled_model:
            report = compiled_model.metadata["precision_report"]
            return report, compiled_model.folder, precisions(compiled_model)

    first = found(sensitive())
    assert first[0]["precision"] == "mixed"
    assert len(clock.asked) == 2
    assert found(sensitive()) == first
    assert len(clock.asked) == 2
    feeds = random_rows(sensitive())
    found(sensitive(), 5e-3)
    found(sensitive(), data=feeds)
    other = sensitive()
    other.weights["third"][0, 0] += 1
    found(other)
    assert len(clock.asked) == 8
    found(sensitive(), data=feeds)
    found(other)
    assert len(clock.asked) == 8


def test_what_a_busy_machine_says_is_not_kept(clock: Clock, tmp_path: Path) -> None:
    clock.noise = 1.3
    for searches in (1, 2):
        with infuse.compile(
            sensitive().graph, infuse.CompileOptions(precision="auto", threads=1)
        ) as found:
            notes = found.metadata["precision_report"]["notes"]
        assert len(clock.asked) == 2 * searches
    assert any("the machine is busy" in note for note in notes)
    assert not (tmp_path / "cache" / "precision").exists()


def test_runs_take_turns_until_their_times_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run that something else slows down for 40 rounds."""
    now, order = 0.0, list[str]()
    noise = {"a": itertools.repeat(1.5), "b": itertools.chain([2.0, 3.0] * 20, itertools.repeat(1))}

    def run(name: str) -> None:
        nonlocal now
        order.append(name)
        now += 0.1 * next(noise[name])

    monkeypatch.setattr(request, "time", SimpleNamespace(perf_counter=lambda: now))
    runs = {name: partial(run, name) for name in noise}
    least_seconds = partial(request.least_seconds, least=request.LEAST, most=request.MOST)
    assert least_seconds(runs) == {
        "a": pytest.approx([0.15] * 2),
        "b": pytest.approx([0.1] * 2),
    }
    assert order == ["a", "a", "b", "b", *["a", "b"] * 40]
    noise["b"] = itertools.cycle([2.0, 3.0])
    varying = least_seconds(runs)
    assert sorted(varying["b"]) == pytest.approx([0.2, 0.3])
    assert not request.are_settled(varying)


def test_a_broken_file_is_named_and_measured_again(clock: Clock, tmp_path: Path) -> None:
    graph = sensitive().graph
    infuse.compile(graph, infuse.CompileOptions(precision="auto", threads=1)).close()
    (file,) = (tmp_path / "cache" / "precision").iterdir()
    whole = json.loads(file.read_text())
    damaged = [whole | {"layers": [[99, "fp16"]]}, whole | {"report": {}}, {"identity": "other"}]
    for number, damage in enumerate(damaged, 2):
        file.write_text(json.dumps(damage))
        with pytest.warns(UserWarning, match="measured again"):
            infuse.compile(graph, infuse.CompileOptions(precision="auto", threads=1)).close()
        assert len(clock.asked) == 2 * number
        assert json.loads(file.read_text()) == whole


# ---- commands


def test_compile_says_which_layer_computes_in_what(
    cli: Cli, clock: Clock, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    options = ("--precision", "auto", "--max-difference", 0.01, "--threads", 1)
    facts = cli("compile", model, "-o", tmp_path / "out", *options, "--json").json
    assert facts["precision"] == "mixed"
    report = json.loads((tmp_path / "out" / "metadata.json").read_text())["precision_report"]
    assert facts["precision_report"] == report
    text = cli("compile", model, "-o", tmp_path / "out", *options).out
    assert "precision mixed (layers in fp16: 3, fp32: 1)" in text
    for layer in report["layers"]:
        row = next(line for line in text.splitlines() if layer["node"] in line)
        assert layer["precision"] in row


def test_compile_measures_on_given_inputs(
    cli: Cli, clock: Clock, model: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        np.savez(file, **random_rows(sensitive()))
    data = [argument for file in files for argument in ("--data", file)]
    options = ("-o", tmp_path / "out", "--precision", "auto", *data, "--threads", 1, "--json")
    report = cli("compile", model, *options).json["precision_report"]
    assert report["inputs"] == ["inputs 1 of data", "inputs 2 of data"]
    np.save(tmp_path / "c.npy", np.zeros(3))
    refused = cli.refused("compile", model, "-o", tmp_path / "out", "--data", tmp_path / "c.npy")
    assert "no .npz archive" in refused.replace("not an", "no")


def test_show_lists_the_precision_of_each_layer(
    cli: Cli, clock: Clock, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    options = ("--kernels", "--threads", 1)
    shown = cli("show", model, *options, "--precision", "auto", "--json").json["kernels"]
    assert shown["precision"] == "mixed"
    report = {layer["node"]: layer["precision"] for layer in shown["precision_report"]["layers"]}
    calls = {
        name: call["precision"]
        for call in shown["calls"]
        for name in call["nodes"]
        if name in report
    }
    assert calls == report
    assert sorted(report.values()) == ["fp16", "fp16", "fp16", "fp32"]
    text = cli("show", model, *options, "--precision", "auto").out
    assert text.count("fp16") >= 3
    plain = cli("show", model, *options, "--json").json["kernels"]
    assert {call["precision"] for call in plain["calls"]} == {"fp32", None}
    assert plain["precision_report"] is None
    assert "add --kernels" in cli.refused("show", model, "--precision", "auto")


def test_other_commands_take_it(cli: Cli, clock: Clock, model: Path) -> None:
    options = ("--precision", "auto", "--threads", 1, "--json")
    facts = cli("bench", model, *options, "--rounds", 1, "--seconds", 0).json
    assert facts["precision"] == "mixed"
    assert 0 < facts["cases"][0]["difference_from_fp32"] <= 1e-2
    assert cli("run", model, "--random", *options).json["outputs"][0]["not_finite"] == 0
    found = infuse.profile(
        model, options=infuse.CompileOptions(threads=1, precision="auto"), runs=1
    )
    assert len(found.runs) == 1


# ---- what is refused


def drawing() -> Graph:
    make = Network()
    noise = make("RandomNormalLike", make.x)
    make.output(make("Add", make.layer(make.x, "a", tame(make.rng)), noise))
    return make.graph


def integers() -> Graph:
    make = Network()
    make.output(make("ArgMax", make.layer(make.x, "a", tame(make.rng)), axis=-1))
    return make.graph


def of_sequences() -> Graph:
    return parse("""graph "s" (%s: seq(float32[n, 4]), %i: int64[]) {
      %y = SequenceAt(%s, %i)
      return y = %y
    }""")


ROWS = np.zeros((2, SIZE), np.float32)


def given(data: Any) -> Callable[[], infuse.Auto]:
    """The automatic choice by the outputs for these inputs."""
    return lambda: infuse.Auto(data=data)


@pytest.mark.parametrize(
    ("make", "asked", "kind", "message"),
    [
        (sensitive, lambda: infuse.Auto(0.0), OptionError, "max_difference is 0.0"),
        (sensitive, lambda: infuse.Auto(-1.0), OptionError, "max_difference is -1.0"),
        (sensitive, lambda: infuse.Auto(float("nan")), OptionError, "max_difference is nan"),
        (sensitive, lambda: infuse.Auto(data=[]), OptionError, "no inputs in data"),
        (sensitive, given({"x": ROWS[:, 1:]}), InputError, "inputs 1 of data.*must be 32"),
        (sensitive, given([{"x": ROWS}, {}]), InputError, "inputs 2 of data.*missing"),
        (sensitive, given({"x": ROWS, "z": ROWS}), InputError, "'z' not known"),
        (sensitive, given({"x": ROWS.astype(float)}), InputError, "takes float32"),
        (drawing, infuse.Auto, OptionError, "draws random numbers"),
        (integers, infuse.Auto, OptionError, "no output of the model is a tensor of floats"),
        (of_sequences, infuse.Auto, OptionError, "no random inputs.*--data"),
    ],
)
def test_what_is_refused(
    make: Callable[[], Any],
    asked: Callable[[], infuse.Auto],
    kind: type[InfuseError],
    message: str,
) -> None:
    made = make()
    graph = made if isinstance(made, Graph) else made.graph
    with pytest.raises(kind, match=f"(?s){message}"):
        infuse.compile(graph, infuse.CompileOptions(precision=asked()))


@pytest.mark.parametrize(
    "fields",
    [
        {"max_difference": 0.1, "precision": "fp16"},
        {"data": {"x": ROWS}, "precision": "fp32"},
    ],
)
def test_other_precisions_have_no_use_for_bound_and_data(fields: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="means nothing"):
        infuse.CompileOptions.flat(**fields)


def test_another_machine_is_not_measured(tmp_path: Path) -> None:
    options = infuse.CompileOptions(target="aarch64", precision="auto")
    with pytest.raises(OptionError, match="does not run on this"):
        infuse.compile(sensitive().graph, options, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_random_inputs_that_the_model_does_not_take_are_named() -> None:
    make = Builder()
    index = make.input("n", dtype=infuse.dtypes.int64, name="index")
    make.output(make("Gather", np.ones((3, 4), np.float32), make("Add", index, np.array(7))))
    with pytest.raises(OptionError, match=r"(?s)cannot be run on random inputs.*--data"):
        compiled(make.graph)
    feeds = {"index": np.array([-7, -5])}
    with compiled(make.graph, data=feeds) as found:
        assert found.run(feeds)["y0"].shape == (2, 4)


def test_a_precision_that_is_none_names_all() -> None:
    with pytest.raises(OptionError, match="fp32, bf16x2, bf16, fp16, auto"):
        infuse.compile(sensitive().graph, infuse.CompileOptions(precision="half"))
    with pytest.raises(OptionError, match="max_difference is inf"):
        infuse.Auto(float("inf"))


# ---- programs


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_any_layers_may_be_low(precision: str, rng: np.random.Generator) -> None:
    """Whatever layers are: a program places its values so that each step reads what it needs."""
    make = Builder()
    h = make("Conv", make.input(2, 8, 12, 12, name="x"), make.weight(16, 8, 1, 1))
    h = make("Relu", make("Conv", h, make.weight(16, 1, 3, 3), group=16, pads=(1, 1, 1, 1)))
    h = make("Flatten", make("GlobalAveragePool", make("Conv", h, make.weight(24, 16, 1, 1))))
    for _ in range(3):
        h = make("Relu", make("MatMul", h, make.weight(h.shape[1], 32)))
    make.output(h)
    layers = [n.serial for n in make.graph.nodes if n.kind in ("Conv", "MatMul")]
    target = Target.resolve("x86-64-v4+avx512_bf16")
    for _ in range(24):
        some = [layer for layer in layers if rng.integers(2)]
        precisions_of = LayerPrecisions.some(some, precision)
        program, _ = generate(make.graph, target, precision=precisions_of)
        assert program.layers.keys() <= set(some)
        with np.errstate(invalid="ignore"):  # memory that nobody wrote, as bfloat16
            run_lowered(make.graph, target, make.feeds(), precision=precisions_of)
