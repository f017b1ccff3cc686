"""What becomes of profiles: tables, bounds of the machine, traces and the command."""

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InputError, OptionError
from infuse.ir.parser import parse
from infuse.profiling import Roof, measure_roof, roof, trace_events
from infuse.targets import Target
from tests.cli_tools import Cli, small_network
from tests.native.builder import Builder
from tests.native.profile_graphs import LOOP, layers, run_for_sure

pytestmark = pytest.mark.row("R8")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


# -- tables ----------------------------------------------------------------------------------------


def test_rows_are_grouped_and_ordered() -> None:
    found = infuse.profile(layers(64, 64, 64, 64), infuse.Examples(dims={"n": 64}), runs=2)
    steps, nodes, kinds = (found.table(by) for by in ("step", "node", "kind"))
    assert len(steps) == len(nodes) == 3
    assert [row.time for row in steps] == sorted((row.time for row in steps), reverse=True)
    assert len({row.label for row in nodes}) == 3
    (kind,) = kinds
    assert kind.calls == 3
    assert kind.time == pytest.approx(sum(row.time for row in steps))
    assert kind.flops == sum(row.flops for row in steps)
    with pytest.raises(OptionError, match="grouped by 'colour'"):
        found.table("colour")


def test_bad_arguments_are_refused() -> None:
    graph = layers(4, 4)
    with pytest.raises(OptionError, match="0 is not a valid number of runs"):
        infuse.profile(graph, runs=0)
    with pytest.raises(OptionError, match="no dynamic axis 'm'"):
        infuse.profile(graph, infuse.Examples(dims={"m": 2}))
    with pytest.raises(InputError, match="no input 'z'"):
        infuse.profile(graph, {"z": np.ones(3)})
    with pytest.raises(OptionError, match="no target"):
        infuse.profile(graph, options=infuse.CompileOptions(target="z80"))
    sequences = parse("""graph "g" (%s: seq(float32[3])) {
      %y = ConcatFromSequence(%s, axis=0)
      return y = %y
    }""")
    with pytest.raises(InputError, match="none can be made up"):
        infuse.profile(sequences)
    assert infuse.profile(sequences, {"s": [np.ones(3, np.float32)]}, runs=1).total.calls >= 1


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="other machines cannot build for foreign targets"
)
def test_what_does_not_run_here_is_not_measured() -> None:
    with pytest.raises(OptionError, match="does not run on this machine"):
        infuse.profile(layers(4, 4), options=infuse.CompileOptions(target="aarch64"))


def test_given_inputs_give_the_others_their_sizes() -> None:
    b = Builder()
    b.output(b("Add", b.input("n", 3, name="a"), b.input("n", 3, name="b")))
    found = infuse.profile(b.graph, {"a": np.ones((7, 3), np.float32)}, runs=1)
    assert found.inputs == {"a": "float32[7, 3]", "b": "float32[7, 3]"}


# -- the machine -----------------------------------------------------------------------------------


def test_the_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path))
    target = Target.resolve("x86-64")
    first = measure_roof(target, 1)
    assert first.peak() > 1e8
    assert first.peaks.keys() == {"fp32"}
    assert first.peak("bf16") == first.peak()
    assert first.bandwidth > 1e8
    monkeypatch.setattr(roof, "_measure", lambda target, threads: ({"fp32": 1e9}, 2e9))
    assert measure_roof(target, 1) == first
    assert measure_roof(target, 1, again=True) == Roof("x86-64", 1, {"fp32": 1e9}, 2e9)
    assert measure_roof(target, 1) == Roof("x86-64", 1, {"fp32": 1e9}, 2e9)
    (file,) = (tmp_path / "machines").iterdir()
    peaks = ("3", '{"int8": 5}', '{"fp32": 0}', '{"fp32": "x"}')
    for damage in ("", "[]", "{}", *(f'{{"peaks": {text}, "bandwidth": 1}}' for text in peaks)):
        file.write_text(damage)
        assert measure_roof(target, 1).peak() == 1e9


def test_the_bound_is_the_larger_of_two() -> None:
    roof = Roof("native", 1, {"fp32": 100.0, "int8": 400.0}, 10.0)
    assert roof.bound(200, 10) == 2
    assert roof.bound(200, 30) == 3
    assert roof.bound(2000, 30, "int8") == 5
    assert roof.bound(200, 10, "bf16") == 2


# -- traces ----------------------------------------------------------------------------------------


def assert_nested(events: list[dict[str, Any]]) -> None:
    """Events of one track come in order, and each lies inside of the one that is open or after
    it.
    """
    open_: list[float] = []
    last = 0.0
    for event in events:
        begin, end = event["ts"], event["ts"] + event["dur"]
        assert begin >= last
        last = begin
        while open_ and begin >= open_[-1] - 1e-6:
            open_.pop()
        assert not open_ or end <= open_[-1] + 1e-6
        open_.append(end)


def test_a_trace_shows_runs_steps_and_nodes() -> None:
    x = np.ones((500, 40), np.float32)
    found = run_for_sure(parse(LOOP), {"x": x, "times": np.array(3)})
    trace = json.loads(json.dumps(trace_events(found)))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {
        event["tid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    assert set(names.values()) >= {"run 1", "run 2", "run 3"}
    for track in names:
        own = [event for event in events if event["tid"] == track]
        assert_nested(own)
        assert all(event["dur"] >= 0 and event["pid"] == 1 for event in own)
    for number, run in enumerate(found.runs, 1):
        whole, *steps = (event for event in events if event["tid"] == number)
        assert whole["name"] == f"run {number}"
        assert whole["ts"] == 0
        assert len(steps) == len(run.table)
        (exp, *_) = (event for event in steps if "Exp" in event["args"]["kinds"])
        assert exp["args"]["flops"] >= 500 * 40
        assert exp["args"]["bytes"] > 0
        assert exp["args"]["nodes"]
    assert {event["name"] for event in events if event["tid"] == 0} >= {"y", "z"}
    assert trace["otherData"]["peak_flops"] == found.roof.peaks


# -- the command -----------------------------------------------------------------------------------


def test_the_command_prints_a_table(cli: Cli, tmp_path: Path) -> None:
    network = small_network(tmp_path / "small.onnx")
    trace = tmp_path / "trace.json"
    answer = cli(
        "profile",
        network,
        "--runs",
        2,
        "--threads",
        1,
        "--dim",
        "batch=2",
        "--top",
        1,
        "--trace",
        trace,
    )
    assert answer.status == 0, answer.err
    for text in (
        "image: float32[2, 3, 8, 8]",
        "GFLOP/s",
        "GB/s",
        "Conv",
        "of roof",
        " more ",
        "outside",
        "total",
    ):
        assert text in answer.out
    assert json.loads(trace.read_text())["traceEvents"]
    assert {path.name for path in tmp_path.iterdir()} == {"small.onnx", "trace.json"}


def test_a_narrow_terminal_gets_fewer_columns(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    text = cli(
        "profile",
        small_network(tmp_path / "small.onnx"),
        "--runs",
        1,
        "--threads",
        1,
        "--by",
        "kind",
    ).out
    (header,) = (line for line in text.splitlines() if "of roof" in line)
    assert "min ms" in header
    assert "median" not in header
    assert max(len(line) for line in text.splitlines()[2:] if not line.startswith("note:")) <= 90


def test_the_command_answers_with_data(cli: Cli, tmp_path: Path) -> None:
    network = small_network(tmp_path / "small.onnx")
    np.save(tmp_path / "image.npy", np.ones((3, 3, 8, 8), np.float32))
    given = ["--input", f"image={tmp_path / 'image.npy'}"]
    facts = cli("profile", network, "--runs", 2, *given, "--by", "kind", "--json").json
    assert facts["inputs"] == {"image": "float32[3, 3, 8, 8]"}
    assert facts["runs"] == 2
    assert facts["by"] == "kind"
    conv = next(row for row in facts["rows"] if row["label"] == "Conv")
    assert conv["flops"] >= 3 * 2 * 4 * 36 * 27
    assert 0 < conv["least_ms"] <= conv["run_ms"] <= conv["median_ms"]
    assert facts["total"]["flops"] == sum(row["flops"] for row in facts["rows"])
    assert facts["peak_flops"]["fp32"] > 0


def test_the_command_refuses_with_a_reason(cli: Cli, tmp_path: Path) -> None:
    network = small_network(tmp_path / "small.onnx")
    (tmp_path / "folder").mkdir()
    assert "without clocks" in cli.refused("profile", tmp_path / "folder")
    assert "does not end in .json" in cli.refused("profile", network, "--trace", tmp_path / "t.txt")
    assert "does not exist" in cli.refused(
        "profile", network, "--trace", tmp_path / "nowhere" / "t.json"
    )
    assert "INF-101" in cli.refused("profile", tmp_path / "missing.onnx")
    assert "--runs" in cli.refused("profile", network, "--runs", 0, status=2)
    assert "--by" in cli.refused("profile", network, "--by", "colour", status=2)
    assert "no dynamic axis" in cli.refused("profile", network, "--dim", "size=2")
