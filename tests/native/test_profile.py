"""Profiles: what is counted for every step, where its time lies, and that other models have no
clocks.
"""

import numpy as np
import onnx
import pytest

import infuse
from infuse.build.compile import Compilation
from infuse.build.staged import generate
from infuse.errors import RuntimeFailure
from infuse.ir.graph import constant
from infuse.ir.parser import parse
from infuse.lowering.metadata import metadata
from infuse.options import CompileOptions
from infuse.profiling import trace_events
from infuse.profiling.measure import without_bodies
from infuse.profiling.profile import INTERPRETER
from infuse.runtime import CompiledModel
from infuse.runtime.hosted import HostedModel
from infuse.targets import Target
from infuse.targets.cpu.emit.source import print_sources
from tests.native.builder import Builder
from tests.native.kernel_tools import seldom, targets
from tests.native.profile_graphs import LOOP, by_label, layers, run_for_sure

pytestmark = pytest.mark.row("R8")


# -- what is counted -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [*targets(()), *seldom("x86-64-v4")])
def test_work_of_a_product_worked_out_by_hand(target: str) -> None:
    found = infuse.profile(
        layers(64, 32),
        infuse.Examples(dims={"n": 5}),
        infuse.CompileOptions(threads=1, target=target),
        runs=2,
    )
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
    found = infuse.profile(
        layers(64, 64),
        infuse.Examples(dims={"n": 64}),
        infuse.CompileOptions(threads=1, precision="bf16"),
        runs=1,
    )
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
    found = infuse.profile(graph, infuse.Examples(dims={"n": 30}), runs=2)
    assert isinstance(infuse.compile(graph), HostedModel)
    interpreted = [row for row in found.rows if row.kernel == INTERPRETER]
    assert "Cast" in {kind for row in interpreted for kind in row.kinds}
    native = by_label(found, "Exp + Tanh")
    assert (native.flops, native.bytes) == (2 * 30 * 20, 3 * 4 * 30 * 20)
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
    found = infuse.profile(
        layers(512, 512, 512, 512, 512),
        infuse.Examples(dims={"n": 256}),
        infuse.CompileOptions(threads=1),
        runs=5,
    )
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
    found = infuse.profile(
        layers(64, 64, 64),
        infuse.Examples(dims={"n": 64}),
        infuse.CompileOptions(threads=2),
        runs=2,
    )
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
    folder = Compilation(graph, CompileOptions(threads=1)).build((program, plan))
    with CompiledModel.load(folder, 1) as model, model.session() as session:
        session.run({"x0": np.ones((1, 16), np.float32)})
        with pytest.raises(RuntimeFailure, match="not compiled for profiling"):
            session.records()


def test_a_profiled_model_computes_the_same() -> None:
    graph = layers(16, 16)
    target = Target.resolve("native")
    feeds = {"x0": np.random.default_rng(0).standard_normal((3, 16), np.float32)}
    found = []
    for wanted in (False, True):
        compilation = Compilation(graph, CompileOptions(threads=1))
        folder = compilation.build(generate(graph, target), profile=wanted)
        with CompiledModel.load(folder, 1) as model:
            found.append(model.run(feeds)["y0"])
    np.testing.assert_array_equal(*found)
