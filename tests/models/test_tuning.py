"""Measuring decides between kernels that compute the same, and says so."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.build.autotune import measurement as tuning, records
from infuse.build.compile import Compilation
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.lowering.choice import Choice
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.caches import new_cache
from tests.cli_tools import Cli
from tests.models.tuning_tools import Arrays, agree, answers, chosen_in, feeds_of
from tests.native.builder import Builder
from tests.native.choice_graphs import attention, conv, depthwise, image, windows
from tests.native.kernel_tools import has_target, is_emulated
from tests.support.emulation import NEWEST, emulated

__all__ = ["answers"]
NATIVE = Target.resolve("native")
ROUNDED = has_target(NEWEST)
BF16_MARKS = [pytest.mark.full] * (not ROUNDED or is_emulated(NEWEST))


# -- measuring -------------------------------------------------------------------------------------


def small_network(channels: int = 16) -> Graph:
    """With 16 channels also Winograd's tiles are candidates."""
    b = Builder(f"network{channels}")
    x = b("Relu", conv(b, b.input(1, 3, 20, 20), channels, (3, 3), step=2))
    y = b("Relu", conv(b, x, channels, (3, 3)))
    b.output(b("Add", conv(b, y, channels, (3, 3), group=channels), x))
    return b.graph


def small_transformer() -> Graph:
    b = Builder("transformer")
    x = b.input(1, 150, 64)
    q, k, v = (b("MatMul", x, b.weight(64, 64)) for _ in range(3))
    mixed = b(
        "Add",
        b("MatMul", b("Attention", q, k, v, q_num_heads=2, kv_num_heads=2), b.weight(64, 64)),
        x,
    )
    b.output(b("MatMul", b("Relu", b("MatMul", mixed, b.weight(64, 128))), b.weight(128, 64)))
    return b.graph


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own; every candidate is called twice however unlikely it is. Gives the folder
    of the times.
    """
    monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "cache"))
    monkeypatch.setattr(records, "kernels_hash", lambda: "these kernels")
    monkeypatch.setattr(tuning, "ROUNDS", 2)
    monkeypatch.setattr(tuning, "CLOSE", math.inf)
    return tmp_path / "cache" / "tuning"


def measured(graph: Graph, precision: str = "fp32") -> Sequence[Choice]:
    options = CompileOptions(threads=1, precision=precision, tune=True, weights="fast")
    stages = Compilation(graph, options).stages()
    assert stages.whole is not None
    return chosen_in(stages.whole[0])


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """After its call, measuring is an error."""

    def measure(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is measured again")

    return lambda: monkeypatch.setattr(tuning, "measure", measure)


@pytest.fixture
def rounding_processor() -> Iterator[None]:
    """The target "native" multiplies bfloat16 by vectors: itself, or emulated."""
    with emulated("avx512_vnni", "avx512_bf16"):
        yield


@pytest.mark.row("R1")
@pytest.mark.parametrize("make", [small_network, small_transformer])
@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=BF16_MARKS)])
def test_a_tuned_model_computes_the_same(
    make: Callable[[], Graph],
    precision: str,
    quick: Path,
    answers: Callable[[Graph], Arrays],
    refuse: Callable[[], None],
    request: pytest.FixtureRequest,
) -> None:
    if precision == "bf16":
        request.getfixturevalue("rounding_processor")
    graph = make()
    steps: list[tuple[str, int, int]] = []
    model = infuse.compile(
        graph,
        infuse.CompileOptions(threads=1, precision=precision, tune=True),
        progress=lambda *step: steps.append(step),
    )
    agree(model.run(feeds_of(graph)), answers(graph), precision)
    assert ("tune", 2, 2) in steps
    refuse()
    better = infuse.optimize(graph)
    found = measured(better, precision)
    assert found
    for choice in found:
        assert choice.by == "measured"
        assert set(choice.times) == set(choice.key.names)
        assert all(0 < seconds < 10 for seconds in choice.times.values())
    kept = json.loads(next(quick.iterdir()).read_text())
    assert {str(choice.key) for choice in found} <= set(kept["times"])


def test_a_broken_file_of_times_is_named_and_measured_again(
    quick: Path, refuse: Callable[[], None]
) -> None:
    graph = depthwise()
    measured(graph)
    (file,) = quick.iterdir()
    whole = file.read_text()
    for damage in (
        "",
        "{",
        "[]",
        '{"identity": 3}',
        whole.replace('"rows": ', '"rows": -'),
        whole.replace("threads", ""),
    ):
        file.write_text(damage)
        with pytest.warns(UserWarning, match=f"{file.name}.*measured again"):
            found = measured(graph)
        assert all(choice.by == "measured" for choice in found)
        assert json.loads(file.read_text())["times"].keys() == json.loads(whole)["times"].keys()
    refuse()
    measured(graph)


def test_times_belong_to_processor_threads_precision_and_kernels(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def file(threads: int = 1, precision: str = "fp32") -> Path:
        return tuning.Measurements(NATIVE, threads, precision).file

    first = file()
    files = {
        first,
        file(2),
        file(precision="bf16"),
        tuning.Measurements(Target.resolve("x86-64"), 1, "fp32").file,
    }
    with monkeypatch.context() as other:
        other.setattr(records, "cpu_description", lambda: "x86_64 another one")
        files.add(file())
    with monkeypatch.context() as other:
        other.setattr(records, "kernels_hash", lambda: "other kernels")
        files.add(file())
    assert len(files) == 6
    assert file() == first


def test_a_file_that_cannot_be_written_only_means_measuring_again(quick: Path) -> None:
    kept = tuning.Measurements(NATIVE, 1, "fp32")
    kept.add({"a": {"x": 1.0}})
    kept.add({"b": {"y": 2.0}})
    assert kept.read() == {"a": {"x": 1.0}, "b": {"y": 2.0}}
    assert [path.name for path in quick.iterdir()] == [kept.file.name]
    kept.file.unlink()
    quick.rmdir()
    quick.write_text("a file where the folder should be")
    kept.add({"a": {"x": 1.0}})
    assert kept.read() == {}


def test_what_is_clearly_slower_is_not_measured(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "CLOSE", 1.0)
    assert all(choice.by == "model" for choice in measured(windows()))
    assert not quick.exists()


def test_without_time_the_model_chooses(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "SECONDS", 0.0)
    assert all(choice.by == "model" for choice in measured(attention()))


def test_only_a_machine_that_runs_the_code_measures(quick: Path, tmp_path: Path) -> None:
    b = Builder()
    b.output(conv(b, image(b, 16, 8, 8), 16, (3, 3)))
    with pytest.raises(OptionError, match="does not run on this machine") as error:
        infuse.compile(
            b.graph, infuse.CompileOptions(target="aarch64", tune=True), output=tmp_path / "out"
        )
    assert "cost model" in (error.value.hint or "")
    assert not (tmp_path / "out").exists()


def test_a_session_tunes_when_its_options_say_so(quick: Path, tmp_path: Path) -> None:
    infuse.save(small_network(8), tmp_path / "model.onnx")
    options = infuse.SessionOptions(intra_op_num_threads=1)
    session = infuse.InferenceSession(tmp_path / "model.onnx", options)
    assert not quick.exists()
    feeds = feeds_of(small_network(8))
    plain = session.run(None, feeds)[0]
    options.tune = True
    found = infuse.InferenceSession(tmp_path / "model.onnx", options).run(None, feeds)[0]
    assert list(quick.iterdir())
    assert np.abs(found - plain).max() <= 1e-5 * np.abs(plain).max()


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.mark.row("R1")
def test_commands_tune_and_show_what_decided(
    quick: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    network = tmp_path / "model.onnx"
    infuse.save(small_network(8), network)

    def choices_shown(*options: str) -> list[Any]:
        calls = cli("show", network, "--kernels", "--threads", 1, "--json", *options).json[
            "kernels"
        ]["calls"]
        assert all(call["algorithm"] for call in calls if call["nodes"])
        return [call["choice"] for call in calls if call["choice"]]

    plain = choices_shown()
    assert [choice["by"] for choice in plain] == ["model"] * 3
    assert all(c["measured_ms"] is None for choice in plain for c in choice["candidates"].values())
    tuned = choices_shown("--tune")
    assert [choice["by"] for choice in tuned] == ["measured"] * 3
    assert all(
        c["measured_ms"] > 0 and c["predicted_ms"] > 0
        for x in tuned
        for c in x["candidates"].values()
    )
    assert {choice["key"].split()[0] for choice in tuned} == {"conv", "depthwise"}
    text = cli("show", network, "--kernels", "--threads", 1, "--tune").out
    assert f"{tuned[0]['chosen']} (measured)" in " ".join(text.split())
    assert cli("compile", network, "-o", tmp_path / "made", "--threads", 1, "--tune").status == 0
    assert cli("run", network, "--random", "--threads", 1, "--tune").status == 0
    assert (
        cli("bench", network, "--threads", 1, "--tune", "--rounds", 1, "--seconds", 0).status == 0
    )
    assert cli("profile", network, "--threads", 1, "--tune", "--runs", 1).status == 0
    assert "compiled already" in cli.refused("run", tmp_path / "made", "--random", "--tune")
    assert "add --kernels" in cli.refused("show", network, "--tune")
    refused = cli.refused(
        "compile", network, "-o", tmp_path / "arm", "--target", "aarch64", "--tune"
    )
    assert "does not run on this machine" in refused
