"""The commands that compile: a folder comes out whole, runs, and is measured."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import infuse
import infuse.onnxruntime
from infuse.cli.models import open_model
from infuse.data.answers import statistics
from infuse.errors import ModelFileError
from infuse.profiling import turns
from tests.cli_tools import Cli, small_network

DIGITS = Path(__file__).parent / "data" / "digits.onnx"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_network(tmp_path_factory.mktemp("models") / "small.onnx")


@pytest.fixture(scope="module")
def folder(network: Path) -> Path:
    """The small network, compiled."""
    with infuse.compile(network, output=network.with_suffix(".compiled")) as model:
        return model.folder


def expected(network: Path, image: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    return session.run(None, {"image": image})[0]


# -- compile ---------------------------------------------------------------------------------------


@pytest.mark.row("R5")
def test_compile_writes_a_folder_that_runs(cli: Cli, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "compiled"
    facts = cli("compile", network, "-o", out, "--json").json
    assert {"model.so", "model.h", "model.cpp", "weights.bin", "metadata.json"} <= facts[
        "files"
    ].keys()
    assert facts["files"]["model.so"] == (out / "model.so").stat().st_size
    assert facts["inputs"] == ["image: float32[batch, 3, 8, 8]"]
    image = np.random.default_rng(0).standard_normal((3, 3, 8, 8), np.float32)
    with infuse.CompiledModel.load(out) as model:
        np.testing.assert_allclose(model(image), expected(network, image), rtol=1e-4, atol=1e-5)


def test_compile_replaces_its_own_output_only(cli: Cli, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "compiled"
    assert "model.so" in cli("compile", network, "-o", out, "--level", "basic").out
    assert cli("compile", network, "-o", out).status == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("keep me")
    assert "folder with other things" in cli.refused("compile", network, "-o", tmp_path / "other")
    assert "no target 'z80'" in cli.refused(
        "compile", network, "-o", tmp_path / "z", "--target", "z80"
    )


def slow_compiler(folder: Path) -> Path:
    """A C++ compiler that tells its version and never ends otherwise."""
    path = folder / "slow-c++"
    path.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo "g++ (slow) 12.2.0";; *) sleep 60;; esac\n'
    )
    path.chmod(0o755)
    return path


def test_an_interrupt_while_compiling_leaves_nothing(network: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "compiled", tmp_path / "cache"
    variables = {**os.environ, "CXX": str(slow_compiler(tmp_path)), "INFUSE_CACHE": str(cache)}
    command = [sys.executable, "-m", "infuse", "compile", str(network), "-o", str(out)]
    process = subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(cache.glob("compiled/.new-*/model.cpp")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    answer, complaint = process.communicate(timeout=30)
    assert (process.returncode, answer) == (130, "")
    assert "Traceback" not in complaint
    assert not out.exists()
    assert not [path for path in cache.glob("compiled/*") if path.name != ".locks"]
    assert not list(cache.glob("compiled/.new-*"))


def test_a_missing_compiler_is_told(
    cli: Cli, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "nowhere"))
    assert "INF-401" in cli.refused("compile", network, "-o", tmp_path / "out")


# -- run -------------------------------------------------------------------------------------------


def test_run_takes_arrays_from_files(cli: Cli, network: Path, folder: Path, tmp_path: Path) -> None:
    image = np.random.default_rng(0).standard_normal((2, 3, 8, 8), np.float32)
    np.save(tmp_path / "image.npy", image)
    np.savez(tmp_path / "feeds.npz", image=image)
    right = expected(network, image)
    for options in (
        ["--input", f"image={tmp_path / 'image.npy'}"],
        ["--inputs", tmp_path / "feeds.npz"],
    ):
        facts = cli("run", folder, *options, "-o", tmp_path / "out.npz", "--json").json
        (output,) = facts["outputs"]
        assert output["type"] == "float32[2, 4, 1, 1]"
        assert output["max"] == pytest.approx(float(right.max()), rel=1e-4)
        with np.load(tmp_path / "out.npz") as saved:
            np.testing.assert_allclose(saved["pooled [mean]"], right, rtol=1e-4, atol=1e-5)


@pytest.mark.row("R4")
def test_run_makes_up_inputs_of_any_batch(cli: Cli, folder: Path) -> None:
    for batch in (1, 5):
        facts = cli("run", folder, "--random", "--dim", f"batch={batch}", "--json").json
        assert facts["inputs"] == [{"name": "image", "type": f"float32[{batch}, 3, 8, 8]"}]
        assert facts["outputs"][0]["type"] == f"float32[{batch}, 4, 1, 1]"
    first, again, other = (
        cli("run", folder, "--random", "--seed", s, "--json").json for s in (0, 0, 1)
    )
    assert first["outputs"] == again["outputs"] != other["outputs"]


def test_run_compiles_a_model_file(cli: Cli) -> None:
    answer = cli("run", DIGITS, "--random", "--threads", 1)
    assert answer.status == 0
    assert "float32[1, 10]" in answer.out


def test_run_shows_values(cli: Cli, folder: Path) -> None:
    answer = cli("run", folder, "--random", "--json")
    (entry,) = answer.json["outputs"]
    assert np.shape(entry["values"]) == (1, 4, 1, 1)
    assert np.max(entry["values"]) == entry["max"]
    text = cli("run", folder, "--random").out
    assert f"pooled [mean] = [[[[{entry['values'][0][0][0][0]:.3f}" in text
    many = cli("run", folder, "--random", "--dim", "batch=300", "--json").json["outputs"][0]
    assert "values" not in many
    assert "..." in cli("run", folder, "--random", "--dim", "batch=300").out


def test_show_describes_a_compiled_model(cli: Cli, folder: Path, tmp_path: Path) -> None:
    facts = cli("show", folder, "--json").json
    assert facts["inputs"] == ["image: float32[batch, 3, 8, 8]"]
    assert facts["files"]["weights.bin"] == (folder / "weights.bin").stat().st_size
    assert facts["precision"] == "fp32"
    text = cli("show", folder).out
    assert "weights.bin" in text
    assert "target: native" in text
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    metadata = json.loads((other / "metadata.json").read_text())
    (other / "metadata.json").chmod(0o600)
    (other / "metadata.json").write_text(json.dumps({**metadata, "machine": "s390x"}))
    assert "machine: s390x" in cli("show", other).out
    assert "is not a compiled model" in cli.refused("show", tmp_path)


def test_what_needs_the_graph_refuses_a_compiled_model(cli: Cli, folder: Path) -> None:
    assert "no graph in it" in cli.refused("show", folder, "--kernels")
    assert "infuse bench" in cli.refused("profile", folder)
    with pytest.raises(ModelFileError, match=r"compiled model.*infuse\.load_compiled"):
        infuse.load(folder)


def test_given_inputs_tell_the_sizes_of_random_ones(tmp_path: Path, folder: Path) -> None:
    opened = open_model(folder, infuse.CompileOptions(threads=1), infuse.Rules())
    made = opened.feeds({"image": np.zeros((6, 3, 8, 8), np.float32)}, {}, 0)
    assert made["image"].shape == (6, 3, 8, 8)


def test_run_refuses_inputs_that_do_not_fit(cli: Cli, folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", np.zeros((2, 3, 4, 4), np.float32))
    np.save(tmp_path / "double.npy", np.zeros((2, 3, 8, 8)))
    (tmp_path / "junk.npy").write_bytes(b"junk")
    np.savez(tmp_path / "other.npz", picture=np.zeros(1))
    assert "float32[batch, 3, 8, 8]" in cli.refused(
        "run", folder, "--input", f"image={tmp_path / 'small.npy'}"
    )
    assert "float64" in cli.refused("run", folder, "--input", f"image={tmp_path / 'double.npy'}")
    assert "no NumPy arrays" in cli.refused(
        "run", folder, "--input", f"image={tmp_path / 'junk.npy'}"
    )
    assert "cannot be opened" in cli.refused(
        "run", folder, "--input", f"image={tmp_path / 'none.npy'}"
    )
    assert "archive" in cli.refused("run", folder, "--input", f"image={tmp_path / 'other.npz'}")
    assert "not an .npz" in cli.refused("run", folder, "--inputs", tmp_path / "small.npy")
    assert "names no input" in cli.refused("run", folder, "--input", tmp_path / "small.npy")
    assert "no array is given for image" in cli.refused(
        "run", folder, "--inputs", tmp_path / "other.npz"
    )
    assert "no input 'picture'" in cli.refused(
        "run", folder, "--random", "--inputs", tmp_path / "other.npz"
    )
    assert "'bath'" in cli.refused("run", folder, "--random", "--dim", "bath=2")
    assert "add --random" in cli.refused("run", folder, "--dim", "batch=2")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (
            np.float32([1, 3]),
            {"elements": 2, "not_finite": 0, "min": 1.0, "max": 3.0, "mean": 2.0, "std": 1.0},
        ),
        (np.float32([np.nan, np.inf]), {"elements": 2, "not_finite": 2}),
        (np.zeros((0, 3), np.float32), {"elements": 0}),
        (np.array(["a"], object), {"elements": 1}),
        (
            np.array([True]),
            {"elements": 1, "not_finite": 0, "min": 1.0, "max": 1.0, "mean": 1.0, "std": 0.0},
        ),
    ],
)
def test_statistics(array: np.ndarray, expected: dict[str, float]) -> None:
    assert statistics(array) == expected


# -- bench -----------------------------------------------------------------------------------------


@pytest.mark.row("A2")
def test_bench_measures_both_runtimes_in_turns(cli: Cli, network: Path) -> None:
    options = [
        "--against",
        "onnxruntime",
        "--rounds",
        2,
        "--seconds",
        0.01,
        "--threads",
        1,
        "--dim",
        "batch=2",
    ]
    facts = cli("bench", network, *options, "--json").json
    assert facts["threads"] == 1
    (case,) = facts["cases"]
    assert case["inputs"] == {"image": "float32[2, 3, 8, 8]"}
    assert case["batch"] == 2
    assert case["difference"]["onnxruntime"] < 1e-4
    ours, theirs = case["times"]["infuse"], case["times"]["onnxruntime"]
    assert 0 < ours["min_ms"] <= ours["p50_ms"] <= ours["p95_ms"] <= ours["p99_ms"]
    assert ours["p99_ms"] <= ours["max_ms"]
    assert ours["runs"] >= 2 <= theirs["runs"]
    assert ours["throughput"] == pytest.approx(2e3 / ours["median_ms"])
    assert case["speed"]["onnxruntime"] == pytest.approx(theirs["min_ms"] / ours["min_ms"])
    assert 0 < facts["arena_lower_bound"] <= facts["arena_bytes"]
    text = cli("bench", network, *options).out
    assert all(
        part in text
        for part in ("onnxruntime", "p99 ms", "as fast", "largest difference", "weights")
    )


def test_bench_measures_a_compiled_model_alone(cli: Cli, folder: Path) -> None:
    facts = cli("bench", folder, "--rounds", 1, "--seconds", 0, "--json").json
    (case,) = facts["cases"]
    assert case["times"].keys() == {"infuse"}
    assert case["times"]["infuse"]["runs"] == 1
    assert case["speed"] == case["difference"] == {}
    assert "another runtime cannot read" in cli.refused("bench", folder, "--against", "onnxruntime")


def test_bench_compares_an_infuse_file_by_way_of_onnx(
    cli: Cli, network: Path, tmp_path: Path
) -> None:
    infuse.save(infuse.load(network), tmp_path / "small.infuse")
    options = ["--against", "onnxruntime", "--rounds", 1, "--seconds", 0, "--json"]
    (case,) = cli("bench", tmp_path / "small.infuse", *options).json["cases"]
    assert case["difference"]["onnxruntime"] < 1e-4


def test_bench_sweeps_batches(cli: Cli, network: Path, tmp_path: Path) -> None:
    options = ("--rounds", 1, "--seconds", 0)
    facts = cli("bench", network, "--batch", "1,4,4,2", *options, "--json").json
    assert [case["batch"] for case in facts["cases"]] == [1, 4, 2]
    assert facts["cases"][1]["inputs"] == {"image": "float32[4, 3, 8, 8]"}
    for text in ("", "0", "1,x", "-1", ",", "1.5"):
        assert f"--batch {text!r} is not a list of sizes" in cli.refused(
            "bench", network, "--batch", text
        )
    both = cli.refused("bench", network, "--batch", "1,2", "--dim", "batch=3")
    assert "both set 'batch'" in both
    fixed = small_network(tmp_path / "fixed.onnx", batch=3)
    assert "needs a dynamic first axis" in cli.refused("bench", fixed, "--batch", "1,2")
    assert cli("bench", fixed, *options, "--json").json["cases"][0]["batch"] == 3


def test_bench_names_the_runtimes_that_it_knows(
    cli: Cli, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cli.refused("bench", network, "--against", "tensorrt")
    assert "onnxruntime, openvino, all" in refused
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert "cannot be imported" in cli.refused("bench", network, "--against", "openvino")
    options = ("--against", "all", "--rounds", 1, "--seconds", 0, "--json")
    (case,) = cli("bench", network, *options).json["cases"]
    assert case["speed"].keys() == {"onnxruntime"}
    monkeypatch.setitem(sys.modules, "onnxruntime", infuse.onnxruntime)
    assert "is Infuse in this process" in cli.refused("bench", network, "--against", "onnxruntime")


def test_percentiles_are_times_that_occurred() -> None:
    found = turns.distribution([0.004, 0.001, 0.003, 0.002])
    assert [found[f"p{percent}_ms"] for percent in (50, 90, 99)] == pytest.approx([2, 4, 4])
    assert found["max_ms"] == pytest.approx(4)
    assert found["median_ms"] == pytest.approx(2.5)


def test_turns_alternate() -> None:
    order: list[str] = []
    rounds: list[int] = []
    times = turns.alternate(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2, 0, rounds.append
    )
    turn = turns.WARM_UP + 1
    assert order == ["a"] * turn + ["b"] * turn + ["a"] * turn + ["b"] * turn
    assert rounds == [0, 1]
    assert [len(taken) for taken in times.values()] == [2, 2]


# -- models that need the interpreter --------------------------------------------------------------


@pytest.mark.row("C7")
def test_what_has_no_native_code_is_named_and_run(cli: Cli, tmp_path: Path) -> None:
    info, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    nodes = [
        node("Mul", ["x", "x"], ["square"]),
        node("SplitToSequence", ["square"], ["rows"], axis=0),
        node("Cast", ["square"], ["text"], to=onnx.TensorProto.STRING),
    ]
    rows = onnx.helper.make_tensor_sequence_value_info("rows", onnx.TensorProto.FLOAT, None)
    outputs = [rows, info("text", onnx.TensorProto.STRING, ["n", 2])]
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", onnx.TensorProto.FLOAT, ["n", 2])], outputs
    )
    path, folder, found = tmp_path / "m.onnx", tmp_path / "m", tmp_path / "y.npz"
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
        ),
        path,
    )
    shown = cli("show", path, "--kernels")
    made = cli("compile", path, "-o", folder)
    for text in (shown.out, made.out):
        assert "SplitToSequence" in text.partition("run by the interpreter")[2]
    for model in (path, folder):
        ran = cli("run", model, "--random", "--dim", "n=2", "-o", found)
        assert "sequence of 2" in ran.out
        assert "string[2, 2]" in ran.out
        with np.load(found) as arrays:
            assert sorted(arrays) == ["rows.0", "rows.1", "text"]
            np.testing.assert_allclose(
                arrays["text"].astype(np.float32)[0], arrays["rows.0"][0], rtol=1e-6
            )
