"""Initializers that are inputs too: defaults that a call may replace, held against ONNX Runtime."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

import infuse
from infuse.errors import InputError, ModelFileError
from infuse.ir.equality import equal
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ir.printer import big_constants, print_graph
from infuse.onnxruntime import InferenceSession
from infuse.ops.core.evaluate import evaluate
from infuse.runtime.hosted import HostedModel
from infuse.runtime.model import CompiledModel
from infuse.serving.workers.build import build, described
from infuse.serving.workers.main import Runner
from infuse.targets.text.example import example
from infuse.targets.text.interface import header
from tests.cli_tools import Cli
from tests.models.onnx_tools import assert_close, model, run, session

pytestmark = [
    pytest.mark.row("C1"),
    pytest.mark.filterwarnings("ignore:calls may replace the defaults:RuntimeWarning"),
]
X = np.float32([[1, 2], [3, 4]])
IMAGE = np.linspace(-1, 1, 3 * 6 * 6, dtype=np.float32).reshape(1, 3, 6, 6)


def listed(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Any],
    constants: dict[str, np.ndarray],
    ir_version: int = 8,
) -> ModelProto:
    """A model whose initializers are all inputs, too; its output is y."""
    types = {name: (array.dtype.name, array.shape) for name, array in constants.items()}
    return model(nodes, {**inputs, **types}, ["y"], constants=constants, ir_version=ir_version)


def scaled(ir_version: int = 8) -> ModelProto:
    """y = x + w · s"""
    nodes = [node("Mul", ["w", "s"], ["ws"]), node("Add", ["x", "ws"], ["y"])]
    return listed(
        nodes, {"x": ["n", 2]}, {"w": np.float32([1, 2]), "s": np.float32([10])}, ir_version
    )


def network() -> ModelProto:
    """Everything that the rules would put together if it were constant, and a shape."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.uniform(0.5, 1, shape).astype(np.float32)  # noqa: E731
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("Reshape", ["r", "shape"], ["f"]),
        node("MatMul", ["f", "m"], ["y"]),
    ]
    constants = {"w": draw(4, 3, 3, 3), "b": draw(4), "m": draw(36, 5), "shape": np.int64([4, -1])}
    constants |= {name: draw(4) for name in ("scale", "shift", "mean", "variance")}
    return listed(nodes, {"x": [1, 3, 6, 6]}, constants)


def captured() -> ModelProto:
    """A body that reads an input with a default of the graph around it."""
    branches = {}
    for name, kind in (("then_branch", "Add"), ("else_branch", "Sub")):
        out = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
        branches[name] = helper.make_graph([node(kind, ["x", "w"], ["o"])], name, [], [out])
    nodes = [node("If", ["which"], ["y"], **branches)]
    return listed(nodes, {"x": ["n", 2]}, {"w": np.float32([1, 2]), "which": np.array(True)})


def in_stages() -> ModelProto:
    """Random numbers, which the interpreter makes, beside what reads the default before and
    after.
    """
    nodes = [
        node("Mul", ["x", "w"], ["a"]),
        node("RandomNormalLike", ["a"], ["r"]),
        node("Sub", ["r", "r"], ["zero"]),
        node("Add", ["zero", "a"], ["b"]),
        node("Add", ["b", "w"], ["y"]),
    ]
    return listed(nodes, {"x": ["n", 2]}, {"w": np.float32([1, 2])})


CASES: dict[str, tuple[ModelProto, dict[str, Any], dict[str, Any]]] = {
    "scaled": (scaled(), {"x": X}, {"w": np.float32([5, 6])}),
    "network": (
        network(),
        {"x": IMAGE},
        {"b": np.float32([1, -1, 2, -2]), "mean": np.zeros(4, np.float32)},
    ),
    "shape": (network(), {"x": IMAGE}, {"shape": np.int64([-1, 36])}),
    "captured": (captured(), {"x": X}, {"which": np.array(False), "w": np.float32([3, 4])}),
    "in_stages": (in_stages(), {"x": X}, {"w": np.float32([5, 6])}),
}


@pytest.mark.parametrize("name", CASES)
def test_defaults_may_be_replaced(name: str, tmp_path: Path) -> None:
    proto, feeds, others = CASES[name]
    graph = infuse.load(proto)
    better = infuse.optimize(graph)
    infuse.save(better, tmp_path / "saved.infuse")
    reread = infuse.load(tmp_path / "saved.infuse")
    assert equal(better, reread) is None
    assert (
        equal(better, parse(print_graph(better), big_constants(better)), annotations=False) is None
    )
    with infuse.compile(better, output=tmp_path / "compiled") as compiled:
        for given in (feeds, {**feeds, **others}):
            expected = run(proto, given)
            for result in (evaluate(graph, given), evaluate(reread, given), compiled.run(given)):
                assert_close(list(result.values()), expected)
    with infuse.load_compiled(tmp_path / "compiled") as loaded:
        assert_close([loaded(*feeds.values())], run(proto, feeds))


def test_the_session_tells_them_apart_as_onnxruntime_does() -> None:
    ours, theirs = InferenceSession(scaled().SerializeToString()), session(scaled())
    for method in ("get_inputs", "get_overridable_initializers"):
        rows = [[(a.name, a.type, a.shape) for a in getattr(s, method)()] for s in (ours, theirs)]
        assert rows[0] == rows[1]
    assert_close(
        ours.run(None, {"x": X, "s": np.float32([2])}),
        theirs.run(None, {"x": X, "s": np.float32([2])}),
    )


def test_before_version_4_they_are_constants() -> None:
    old = scaled(3)
    assert session(old).get_overridable_initializers() == []
    graph = infuse.load(old)
    assert [v.name for v in graph.inputs] == ["x"]
    assert [n.kind for n in infuse.optimize(graph).nodes] == ["Add"]
    with pytest.raises(InputError, match="'w' not known"):
        evaluate(graph, {"x": X, "w": np.float32([5, 6])})


def test_fixed_defaults_are_constants() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fixed = infuse.optimize(infuse.load(scaled()), fix_defaults=True)
        infuse.optimize(infuse.load(scaled()), fix_defaults=False)
    assert [v.name for v in fixed.inputs] == ["x"]
    assert [n.kind for n in fixed.nodes] == ["Add"]
    assert_close([evaluate(fixed, {"x": X})["y"]], run(scaled(), {"x": X}))
    shaped = infuse.optimize(infuse.load(network()), fix_defaults=True)
    assert shaped.outputs[0].shape == (4, 5)


def test_that_nothing_is_computed_from_them_is_told() -> None:
    with pytest.warns(RuntimeWarning, match=r"the defaults of 2 inputs \(w, s\)"):
        better = infuse.optimize(infuse.load(scaled()))
    assert [n.kind for n in better.nodes] == ["Mul", "Add"]


def test_written_models_keep_them_overridable(tmp_path: Path) -> None:
    infuse.save(infuse.optimize(infuse.load(scaled())), tmp_path / "out.onnx")
    written = session(tmp_path / "out.onnx")
    assert [a.name for a in written.get_overridable_initializers()] == ["w", "s"]
    given = {"x": X, "w": np.float32([5, 6])}
    assert_close(written.run(None, given), run(scaled(), given))


def test_what_is_given_must_fit() -> None:
    with infuse.compile(infuse.load(scaled())) as compiled:
        with pytest.raises(InputError, match="size 3 instead of 2"):
            compiled.run({"x": X, "w": np.zeros(3, np.float32)})
        with pytest.raises(InputError, match="no input 'v'"):
            compiled.run({"x": X, "v": X})
        with pytest.raises(InputError, match="'x' is missing"):
            compiled.run({"w": np.float32([5, 6])})
        assert_close([compiled(X), compiled(X, None, None)], 2 * run(scaled(), {"x": X}))
        with pytest.raises(InputError, match="0 arrays were given"):
            compiled()
    with infuse.compile(infuse.load(in_stages())) as hosted:
        assert isinstance(hosted, HostedModel)
        with pytest.raises(InputError, match="inputs x are missing"):
            hosted.run({"w": np.float32([5, 6])})
    wrong = scaled()
    wrong.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.int64([1, 2]), "w"))
    with pytest.raises(ModelFileError, match=r"'w' is float32\[2\], its initializer int64\[2\]"):
        infuse.load(wrong)


def test_in_c_an_absent_pointer_stands_for_the_default(tmp_path: Path) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("needs a C compiler")
    with infuse.compile(infuse.load(scaled()), output=tmp_path / "made") as compiled:
        assert isinstance(compiled, CompiledModel)
        assert "w, float32[2] (optional)" in header(compiled.metadata)
        text = example(compiled.metadata)
        assert text.count("optional: its default") == 2
    shown = (
        '  for (int i = 0; i < 2; i++) printf("%g\\n", ((float*)outputs[0])[i]);\n  infuse_close'
    )
    (tmp_path / "made" / "example.c").write_text(text.replace("  infuse_close", shown))
    command = [compiler, "example.c", "model.so", "-Wl,-rpath,.", "-o", "example"]
    subprocess.run(command, cwd=tmp_path / "made", check=True)
    printed = subprocess.run(
        ["./example"], cwd=tmp_path / "made", check=True, capture_output=True, text=True
    )
    assert printed.stdout.split()[-2:] == ["10", "20"]


def test_a_server_takes_them_as_constants(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(scaled().SerializeToString())
    job = build(
        tmp_path / "model.onnx",
        tmp_path / "made",
        options={"precision": "fp32", "threads": 1},
        compiled=False,
        seconds=200,
        memory=None,
    )
    assert [spec.name for spec in asyncio.run(job).inputs] == ["x"]


def test_requests_to_a_compiled_folder_leave_them_out(tmp_path: Path) -> None:
    infuse.compile(infuse.load(scaled()), output=tmp_path / "made").close()
    runner = Runner(str(tmp_path / "made"), 1)
    assert [row["name"] for row in described(runner.model)["inputs"]] == ["x"]
    assert_close(runner([X]), run(scaled(), {"x": X}))
    runner.close()


# -- states ----------------------------------------------------------------------------------------


def decoder(past: str, present: str, size: int, weight: bool) -> Graph:
    """A cache that grows by what comes in, and a factor that may have a default."""
    graph = parse(f"""graph "decoder" (%x: float32[1, 2, n, 4], %past: float32[1, 2, {size}, 4],
        %w: float32[4]) {{
      %grown = Concat(%past, %x, axis=2)
      %sum = ReduceSum(%grown, int64[1]{{2}}, keepdims=0)
      %y = Mul(%sum, %w)
      return y = %y, present = %grown
    }}""")
    graph.inputs[1].name, graph.output_names[1] = past, present
    graph.inputs[1].default = np.zeros((1, 2, size, 4), np.float32)
    if weight:
        graph.inputs[2].default = np.arange(4, dtype=np.float32)
    return graph


@pytest.mark.filterwarnings("always:calls may replace the defaults:RuntimeWarning")
@pytest.mark.parametrize(
    ("past", "present", "size"),
    [
        ("past_key_values.0.key", "present.0.key", 0),
        ("past_key_values.0.key", "present.0.key", 3),
        ("b_cache", "b_cache.out", 3),
        ("key_cache_0", "output_1", 3),
        ("state_in", "other", 0),
    ],
)
@pytest.mark.parametrize("weight", [False, True])
def test_a_cache_is_never_advised_to_be_a_constant(
    past: str, present: str, size: int, weight: bool
) -> None:
    graph = decoder(past, present, size, weight)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        better = infuse.optimize(graph)
    said = [str(each.message) for each in caught]
    assert not any("--fix-defaults" in each for each in said)
    assert len(said) == weight
    assert all(f"({past}), which fix_defaults would freeze" in each for each in said)
    assert all("defaults of 1 inputs (w)" in each for each in said)
    assert past in {value.name for value in better.inputs}


def test_weights_alone_are_advised_to_be_constants() -> None:
    graph = infuse.load(scaled())
    with pytest.warns(RuntimeWarning, match=r"--fix-defaults\) makes them constants"):
        infuse.optimize(graph)


@pytest.mark.filterwarnings("always:.*which each run takes from the one before:RuntimeWarning")
def test_states_that_become_constants_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    infuse.save(decoder("past", "present", 0, True), tmp_path / "decoder.infuse")
    command = ["optimize", tmp_path / "decoder.infuse", "-o", tmp_path / "o.infuse"]
    answer = Cli(capsys)(*command, "--fix-defaults")
    assert answer.status == 0
    assert "warning: states (past), which each run takes from the one before" in answer.err
    assert "leave --fix-defaults out" in answer.err
