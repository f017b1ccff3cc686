"""Profiles: what is counted for every step, where its time lies, and that other models have no
clocks.
"""

import itertools
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import infuse
from infuse.codegen.compile import compile_program, generate
from infuse.codegen.source import metadata, print_sources
from infuse.errors import InputError, OptionError, RuntimeFailure
from infuse.ir.graph import Graph, constant
from infuse.ir.parser import parse
from infuse.profiling import Profile, Roof, Row, measure_roof, profile_graph, roof, trace_events
from infuse.profiling.measure import without_bodies
from infuse.profiling.profile import INTERPRETER
from infuse.runtime.hosted import HostedModel
from infuse.targets import Target
from tests.cli_tools import Cli, small_network
from tests.native.builder import Builder
from tests.native.kernel_tools import seldom, targets

pytestmark = pytest.mark.row("R8")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def layers(*widths: int, rows: int | str = "n") -> Graph:
    """Matrix products, each with a bias and Relu."""
    b = Builder("layers")
    x = b.input(rows, widths[0])
    for inner, outer in itertools.pairwise(widths):
        x = b("Relu", b("Add", b("MatMul", x, b.weight(inner, outer)), b.weight(outer)))
    b.output(x)
    return b.graph


def by_label(found: Profile, part: str) -> Row:
    (row,) = (row for row in found.rows if part in row.label)
    return row


def run_for_sure(graph: Graph, feeds: dict[str, Any], **options: Any) -> Profile:
    """The profile of the graph as it is, from few runs."""
    return profile_graph(graph, feeds, **({"runs": 3, "threads": 1} | options))


# -- what is counted -------------------------------------------------------------------------------


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("target", [*targets(()), *seldom("x86-64-v4")])
def test_work_of_a_product_worked_out_by_hand(target: str) -> None:
    found = infuse.profile(layers(64, 32), set_dims={"n": 5}, runs=2, threads=1, target=target)
    row = by_label(found, "MatMul" if "MatMul" in found.rows[0].label else "Gemm")
    assert row.flops == 2 * 5 * 64 * 32 + 5 * 32 + 5 * 32  # products, bias, Relu
    assert row.bytes == 4 * (5 * 64 + 64 * 32 + 32 + 5 * 32)  # input, weights, bias, result
    assert row.calls == 1
    assert row.kernel == "gemm"
    assert row.bound == max(row.flops / found.roof.peak(), row.bytes / found.roof.bandwidth)
    assert row.efficiency == row.bound / row.time
    assert found.roof.target == target
    assert found.inputs == {"x0": "float32[5, 64]"}


def test_the_last_sizes_of_a_symbol_count() -> None:
    graph = layers(16, 16)
    small, large = (
        infuse.profile(graph, {"x0": np.ones((n, 16), np.float32)}, runs=1) for n in (1, 9)
    )
    assert (small.total.flops, large.total.flops) == (544, 9 * 544)


def test_winograd_counts_as_direct_convolution() -> None:
    b = Builder()
    x = b.input(1, 64, 56, 56)
    wide = b("Conv", x, b.weight(64, 64, 3, 3), pads=[1, 1, 1, 1])
    b.output(b("Conv", wide, b.weight(8, 64, 1, 1)))
    found = run_for_sure(b.graph, b.feeds())
    rows = {row.kernel: row for row in found.table("kind") if row.label == "Conv"}
    (winograd,) = (row for kernel, row in rows.items() if kernel.startswith("winograd"))
    assert winograd.flops == 2 * 64 * 64 * 9 * 56 * 56
    assert rows["gemm"].flops == 2 * 64 * 8 * 56 * 56
    assert {kind for row in found.rows for kind in row.kinds} == {"Conv"}


def test_sizes_that_the_run_finds_count_as_found() -> None:
    graph = parse("""graph "g" (%x: float32[n]) {
      %at = NonZero(%x)
      %zero = Squeeze(%at, int64[1]{0})
      %kept = Gather(%x, %zero)
      %y = Exp(%kept)
      return y = %y
    }""")
    x = np.zeros(1000, np.float32)
    x[[3, 5, 8]] = 1
    found = run_for_sure(graph, {"x": x})
    assert by_label(found, "Exp").flops == 3
    gather = by_label(found, "Gather")
    assert gather.bytes == 4 * 3 + 8 * 3 + 4 * 3  # of the thousand elements, three


def test_a_table_counts_as_far_as_it_is_read() -> None:
    b = Builder()
    at = b.input("n", dtype=infuse.dtypes.int64)
    b.output(b("Gather", b.weight(1000, 64), at, axis=0))
    found = run_for_sure(b.graph, {"x0": np.arange(7)})
    assert by_label(found, "Gather").bytes == 2 * 7 * 64 * 4 + 7 * 8


@pytest.mark.usefixtures("bf16_processor")
def test_products_of_bfloat16_have_a_roof_of_their_own() -> None:
    found = infuse.profile(layers(64, 64), set_dims={"n": 64}, runs=1, threads=1, precision="bf16")
    (row,) = found.rows
    assert "bf16" in row.kernel
    assert found.roof.peak("bf16") > 0
    assert row.bound == max(row.flops / found.roof.peak("bf16"), row.bytes / found.roof.bandwidth)


def test_products_of_bytes_have_a_roof_of_their_own() -> None:
    b = Builder()
    x = b.input(64, 64, dtype=infuse.dtypes.uint8)
    w = constant(b.rng.integers(-9, 9, (64, 64)).astype(np.int8))
    b.output(b("MatMulInteger", x, w))
    found = run_for_sure(b.graph, {"x0": np.ones((64, 64), np.uint8)})
    row = max(found.rows, key=lambda row: row.flops)
    assert row.flops == 2 * 64**3
    assert row.bound == max(row.flops / found.roof.peak("int8"), row.bytes / found.roof.bandwidth)


LOOP = """graph "g" (%x: float32[500, 40], %times: int64[]) {
  %y = Loop(%times, _, %x) {
    body = graph "body" (%i: int64[], %on: bool[], %s: float32[500, 40]) {
      %t = Exp(%s)
      %u = ReduceMax(%t, int64[1]{1})
      %v = Div(%t, %u)
      return on = %on, s = %v
    }
  }
  %z = Neg(%y)
  return z = %z
}"""


def test_steps_of_a_body_count_once_per_iteration() -> None:
    x = np.random.default_rng(0).standard_normal((500, 40), np.float32)
    found = run_for_sure(parse(LOOP), {"x": x, "times": np.array(7)})
    loop, negative = by_label(found, "Loop"), by_label(found, "Neg")
    inner = [row for row in found.rows if {"Exp", "ReduceMax", "Div"} & set(row.kinds)]
    assert (loop.calls, negative.calls) == (1, 1)
    assert {row.calls for row in inner} == {7}
    assert sum(row.flops for row in inner) == 7 * 3 * 500 * 40
    assert loop.flops == loop.bytes == 0
    for run in found.runs:
        calls = run.calls()
        (outer,) = (call for call in calls if found.places[call.place].runs_bodies)
        inside = [
            call
            for call in calls
            if outer.begin <= call.begin and call.end <= outer.end and call is not outer
        ]
        assert len(inside) >= 7 * len(inner)
        assert outer.own == outer.end - outer.begin - sum(call.end - call.begin for call in inside)
    assert loop.time < sum(row.time for row in inner)


def test_a_branch_that_did_not_run_has_no_row() -> None:
    graph = parse("""graph "g" (%x: float32[50], %c: bool[]) {
      %y = If(%c) {
        then_branch = graph "t" () {
          %a = Exp(%x)
          return a = %a
        }
        else_branch = graph "e" () {
          %b = Tanh(%x)
          return b = %b
        }
      }
      return y = %y
    }""")
    found = run_for_sure(graph, {"x": np.ones(50, np.float32), "c": np.array(False)})
    assert {kind for row in found.rows for kind in row.kinds} == {"If", "Tanh"}


def hosted() -> onnx.ModelProto:
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Exp", ["x"], ["e"], name="first"),
        node("SplitToSequence", ["e"], ["rows"], axis=0, name="cut"),
        node("SequenceAt", ["rows", "at"], ["row"], name="take"),
        node("Cast", ["row"], ["text"], to=onnx.TensorProto.STRING, name="print"),
        node("Tanh", ["e"], ["y"], name="last"),
    ]
    at = onnx.numpy_helper.from_array(np.array(1), "at")
    outputs = [
        info("y", onnx.TensorProto.FLOAT, ["n", 20]),
        info("text", onnx.TensorProto.STRING, [1, 20]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", onnx.TensorProto.FLOAT, ["n", 20])], outputs, [at]
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )


def test_the_interpreters_nodes_are_timed_too() -> None:
    graph = infuse.load(hosted())
    found = infuse.profile(graph, runs=2, set_dims={"n": 30})
    assert isinstance(infuse.compile(graph), HostedModel)
    interpreted = [row for row in found.rows if row.kernel == INTERPRETER]
    assert "Cast" in {kind for row in interpreted for kind in row.kinds}
    assert by_label(found, "Exp").flops == 30 * 20
    assert all(row.time > 0 for row in interpreted)
    assert by_label(found, "SplitToSequence").to_dict()["flops"] is None
    assert any("not known" in remark and "SplitToSequence" in remark for remark in found.remarks)


def test_a_run_without_steps_is_a_profile_too() -> None:
    b = Builder()
    b.output(b("Relu", b.input(0, 3)))
    found = infuse.profile(b.graph, runs=2)
    assert found.table("kind") == []
    assert found.total.time == found.outside.time > 0
    assert {event["name"] for event in trace_events(found)["traceEvents"]} >= {"run 1", "run 2"}


# -- time ------------------------------------------------------------------------------------------


def test_steps_fill_the_run_and_no_more() -> None:
    found = infuse.profile(layers(512, 512, 512, 512, 512), set_dims={"n": 256}, runs=5, threads=1)
    assert len(found.runs) == 5
    for run in found.runs:
        calls = run.calls()
        assert all(run.begin <= call.begin <= call.end <= run.end for call in calls)
        assert sum(call.own for call in calls) <= run.end - run.begin
        assert run.outside >= 0
    best = min(found.runs, key=lambda run: run.seconds)
    assert sum(call.own for call in best.calls()) > (best.end - best.begin) / 2
    rows, total = found.rows, found.total
    assert sum(row.time for row in rows) + found.outside.time == pytest.approx(total.time)
    assert sum(row.share for row in rows) + found.outside.share == pytest.approx(1)
    assert total.time <= min(total.times) * (1 + 1e-9)
    assert total.median >= min(total.times)


def test_several_threads_leave_one_record_per_step() -> None:
    found = infuse.profile(layers(64, 64, 64), set_dims={"n": 64}, runs=2, threads=2)
    assert found.roof.threads == 2
    assert {row.calls for row in found.rows} == {1}


def test_time_of_bodies_is_taken_from_the_steps_that_ran_them() -> None:
    # Place, program, begin, end, whether it runs bodies; in the order in which they ended.
    events = [
        (0, 0, 5, 10, False),
        (5, 2, 12, 14, False),
        (4, 1, 11, 15, True),
        (4, 1, 15, 15, True),
        (1, 0, 10, 20, True),
        (2, 0, 20, 23, False),
    ]
    assert without_bodies(events) == [5, 2, 2, 0, 6, 3]
    empty = [(0, 0, 7, 7, False), (1, 0, 7, 9, True)]
    assert without_bodies(empty) == [0, 2]


def test_calls_beyond_the_most_that_are_kept_are_counted() -> None:
    text = LOOP.replace("500, 40", "1, 1")
    found = run_for_sure(
        parse(text), {"x": np.ones((1, 1), np.float32), "times": np.array(60_000)}, runs=1
    )
    assert len(found.runs[0].table) == 1 << 17
    assert any("were not recorded" in remark for remark in found.remarks)


# -- other models ----------------------------------------------------------------------------------


def test_only_models_that_are_profiled_have_clocks() -> None:
    graph = layers(16, 16)
    target = Target.resolve("native")
    program, plan = generate(graph, target)
    info = metadata(program, "0")
    plain, profiled = (
        print_sources(program, plan, info, profile=wanted) for wanted in (False, True)
    )
    for text in plain.values():
        assert not any(word in text for word in ("now_ns", "profile", "records"))
    assert plain.keys() == profiled.keys()
    assert profiled["model.cpp"].count("now_ns()") == len(program.steps)
    with compile_program((program, plan), target, 1) as model, model.session() as session:
        session.run({"x0": np.ones((1, 16), np.float32)})
        with pytest.raises(RuntimeFailure, match="not compiled for profiling"):
            session.records()


def test_a_profiled_model_computes_the_same() -> None:
    graph = layers(16, 16)
    target = Target.resolve("native")
    feeds = {"x0": np.random.default_rng(0).standard_normal((3, 16), np.float32)}
    found = []
    for wanted in (False, True):
        with compile_program(generate(graph, target), target, 1, profile=wanted) as model:
            found.append(model.run(feeds)["y0"])
    np.testing.assert_array_equal(*found)


# -- tables ----------------------------------------------------------------------------------------


def test_rows_are_grouped_and_ordered() -> None:
    found = infuse.profile(layers(64, 64, 64, 64), set_dims={"n": 64}, runs=2)
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
    with pytest.raises(OptionError, match="0 is no number of runs"):
        infuse.profile(graph, runs=0)
    with pytest.raises(OptionError, match="no symbolic dimension 'm'"):
        infuse.profile(graph, set_dims={"m": 2})
    with pytest.raises(InputError, match="no input 'z'"):
        infuse.profile(graph, {"z": np.ones(3)})
    with pytest.raises(OptionError, match="no target"):
        infuse.profile(graph, target="z80")
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
        infuse.profile(layers(4, 4), target="aarch64")


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
    assert "no clocks" in cli.refused("profile", tmp_path / "folder")
    assert "does not end in .json" in cli.refused("profile", network, "--trace", tmp_path / "t.txt")
    assert "does not exist" in cli.refused(
        "profile", network, "--trace", tmp_path / "nowhere" / "t.json"
    )
    assert "INF-101" in cli.refused("profile", tmp_path / "missing.onnx")
    assert "--runs" in cli.refused("profile", network, "--runs", 0, status=2)
    assert "--by" in cli.refused("profile", network, "--by", "colour", status=2)
    assert "no symbolic dimension" in cli.refused("profile", network, "--dim", "size=2")
