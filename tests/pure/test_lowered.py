"""Lowered programs run in Python, for processors that this machine need not be, without a
compiler.
"""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from infuse import dtypes, load, optimize
from infuse.build.staged import generate
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.immutable import replace
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ir.types import TensorType
from infuse.lowering import memory
from infuse.lowering.expressions import Element
from infuse.lowering.statements import Assign, Repeat, Statement
from infuse.ops.core.base import REGISTRY, Op, Rounding
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from infuse.testing.compare import difference
from infuse.testing.samples import results, rows
from tests.native import golden_models as models
from tests.native.builder import Builder
from tests.pure.test_axes import node_of
from tests.support import lowered
from tests.support.control_steps import ControlError
from tests.support.generators.networks import random_network
from tests.support.lowered import PlacementError, run_lowered
from tests.support.program_memory import UnknownSizeError

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4+avx512_vnni", "aarch64")
OPERATORS = [op for _, op in sorted(REGISTRY.items())]
ROUNDED = Rounding(abs=1e-3, steps=1, why="expansions round in other places")
COARSE = Rounding(abs=2.0**-7, steps=1, why="each step on the way rounds to 8 bits")
# Means of nothing and casts of what is not a number have a result, of which NumPy warns.
pytestmark = [pytest.mark.row("R1"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]


def agree(outputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert outputs.keys() == expected.keys()
    for name, array in expected.items():
        assert outputs[name].shape == array.shape
        accuracy = COARSE if array.dtype == dtypes.bfloat16.numpy else ROUNDED
        assert not difference(outputs[name], array, accuracy), name


def test_operators_without_outputs_have_no_kernels() -> None:
    """An LSTM may have none: all of its outputs are optional."""
    b = Builder("none")
    x = b.input(3, 2, 5)
    b.several(0, "LSTM", x, b.weight(1, 24, 5), b.weight(1, 24, 6), hidden_size=6)
    b.output(b("Relu", x))
    program, _ = generate(b.graph, Target.resolve("x86-64-v3"))
    assert [step.label for step in program.steps] == ["Relu"]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: f"{op.domain}::{op.name}")
def test_operators_find_their_operands_and_leave_their_results(op: type[Op]) -> None:
    for row in rows(op, np.random.default_rng(1))[:8]:
        if not all(x is None or isinstance(x, np.ndarray) for x in row.inputs):
            continue
        node = node_of(row)
        if not all(isinstance(v.type, TensorType) for v in node.outputs):
            continue
        assert node.graph is not None
        for number, value in enumerate(node.outputs):
            node.graph.add_output(value, f"y{number}")
        feeds = {v.name: row.inputs[int(v.name[1:])] for v in node.graph.inputs}
        expected = {f"y{i}": np.asarray(y) for i, y in enumerate(results(row))}
        for target in TARGETS:
            try:
                run = run_lowered(node.graph, Target.resolve(target), feeds)
            except (UnsupportedOperatorError, UnknownSizeError):
                continue
            agree(run.outputs, expected)


def test_most_operators_run_so() -> None:
    """The tests above leave out what has no native code, and sizes that only kernels find."""
    count = 0
    for op in OPERATORS:
        row = next(iter(rows(op, np.random.default_rng(1))), None)
        if row is None or not all(isinstance(x, np.ndarray) for x in row.inputs):
            continue
        node = node_of(row)
        assert node.graph is not None
        node.graph.add_output(node.outputs[0], "y0")
        feeds = {v.name: row.inputs[int(v.name[1:])] for v in node.graph.inputs}
        try:
            run_lowered(node.graph, Target.resolve("x86-64-v3"), feeds)
        except (InfuseError, UnknownSizeError):
            continue
        count += 1
    assert count > 150


@pytest.mark.parametrize("target", TARGETS)
def test_operands_may_be_read_backwards(target: str, rng: np.random.Generator) -> None:
    b = Builder("backwards")
    x = b.input(2, 3, 5, 3, name="x")
    squares = b("Mul", x, x)
    b.output(squares)
    b.output(b("Neg", b("Slice", squares, [4], [-(2**62)], [2], [-1])))
    feeds = {"x": rng.standard_normal((2, 3, 5, 3)).astype(np.float32)}
    agree(run_lowered(b.graph, Target.resolve(target), feeds).outputs, evaluate(b.graph, feeds))


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_of_formulas_of_halves_have_all_digits(target: str) -> None:
    """A sixth that is rounded to a half makes HardSwish(-3) another number than zero."""
    b = Builder("halves")
    x = b.input(3, name="x", dtype=dtypes.float16)
    b.output(b("HardSwish", x))
    feeds = {"x": np.array([-3, 1, 2], np.float16)}
    agree(run_lowered(b.graph, Target.resolve(target), feeds).outputs, evaluate(b.graph, feeds))


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_lie_well(seed: int) -> None:
    network = random_network(seed)
    for graph in (network.graph, optimize(network.graph, "all")):
        for feeds in network.feeds:
            try:
                expected = evaluate(graph, feeds)
                run = run_lowered(graph, Target.resolve(TARGETS[seed % 4]), feeds)
            except (InfuseError, UnknownSizeError):
                continue
            if not network.extreme:
                agree(run.outputs, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "model",
    [models.images, models.attention, models.quantized, models.recurrent, models.elementwise],
    ids=lambda model: model.__name__,
)
def test_small_networks_lie_well(model: Callable[[], Graph], target: str) -> None:
    graph = optimize(model(), "all")
    rng = np.random.default_rng(1)
    sizes = {"batch": 2, "length": 5}
    feeds = {}
    for value in graph.inputs:
        shape = [int(n) for n in value.tensor.substitute(sizes).shape or () if isinstance(n, int)]
        feeds[value.name] = (rng.random(shape) * 9).astype(value.dtype.numpy)
    run = run_lowered(graph, Target.resolve(target), feeds, threads=2)
    agree(run.outputs, evaluate(graph, feeds))
    assert run.reads >= run.steps // 2


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1)])
def test_operands_of_any_size_lie_well(shape: tuple[int, int]) -> None:
    b = Builder("any size")
    x, y = b.input("rows", "columns", name="x"), b.input("lines", "places", name="y")
    b.output(b("Softmax", b("Mul", b("Relu", x), b("Abs", y))))
    feeds = {"x": b.rng.random((3, 4), np.float32), "y": b.rng.random(shape, np.float32)}
    run = run_lowered(b.graph, Target.resolve("x86-64-v3"), feeds)
    agree(run.outputs, evaluate(b.graph, feeds))
    assert run.calls == 1


# -- bodies of control flow ------------------------------------------------------------------------

LOOP = """graph "g" (%x: float32[5, 4], %w: float32[4, 4], %times: int64[]) {
  %y, %rows = Loop(%times, _, %x) {
    body = graph "body" (%i: int64[], %on: bool[], %s: float32[5, 4]) {
      %more = ReduceSum(%s)
      %positive = Less(%more, float32[]{100.0})
      %t = If(%positive) {
        then_branch = graph "then" () {
          %a = MatMul(%s, %w)
          %b = Tanh(%a)
          return b = %b
        }
        else_branch = graph "else" () {
          %c = Neg(%s)
          return c = %c
        }
      }
      return on = %on, s = %t, row = %t
    }
  }
  return y = %y, rows = %rows
}"""


def loop_feeds(times: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    x, w = rng.random((5, 4), np.float32), rng.random((4, 4), np.float32)
    return {"x": x, "w": w, "times": np.array(times)}


@pytest.mark.parametrize("target", TARGETS)
def test_bodies_run_as_often_as_they_are_run(target: str) -> None:
    reads = []
    for times in (0, 1, 4):
        run = run_lowered(parse(LOOP), Target.resolve(target), loop_feeds(times))
        agree(run.outputs, evaluate(parse(LOOP), loop_feeds(times)))
        reads.append(run.reads)
    assert reads[2] - reads[0] == 4 * (reads[1] - reads[0]) > 0


def node_tests() -> list[tuple[str, ModelProto, list[np.ndarray]]]:
    """ONNX's own tests of operators with bodies whose inputs are tensors."""
    found = []
    for case in load_model_tests(kind="node"):
        model = case.model
        if model is None or not {n.op_type for n in model.graph.node} & {"If", "Loop", "Scan"}:
            continue
        inputs = case.data_sets[0][0]
        arrays = [numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in inputs]
        if all(isinstance(array, np.ndarray) for array in arrays):
            found.append((case.name, model, arrays))
    return found


def test_steps_of_control_flow_leave_what_their_statements_say() -> None:
    """The rest has sequences, ranks that the run finds, or sizes that only the bodies find."""
    ran = 0
    for number, (_, model, arrays) in enumerate(node_tests()):
        for level in ("none", "all"):
            graph = optimize(load(model), level)
            feeds = {value.name: array for value, array in zip(graph.inputs, arrays)}
            try:
                run = run_lowered(graph, Target.resolve(TARGETS[number % len(TARGETS)]), feeds)
            except (InfuseError, UnknownSizeError):
                continue
            agree(run.outputs, evaluate(graph, feeds))
            ran += 1
    assert ran > 30


# -- what is wrong is seen -------------------------------------------------------------------------


@pytest.fixture
def images() -> tuple[Graph, dict[str, np.ndarray]]:
    graph = optimize(models.images(), "all")
    return graph, {"image": np.random.default_rng(1).random((1, 3, 32, 32), np.float32)}


def run_broken(
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[..., object],
    graph: Graph,
    feeds: dict[str, np.ndarray],
) -> None:
    def spoilt(*args: object) -> object:
        program, plan = generate(*args)  # type: ignore[arg-type]
        return spoil(program, plan)

    monkeypatch.setattr(lowered, "generate", spoilt)
    run_lowered(graph, Target.resolve("x86-64-v3"), feeds)


def test_memory_that_is_shared_too_early_is_seen(
    monkeypatch: pytest.MonkeyPatch, images: tuple[Graph, dict[str, np.ndarray]]
) -> None:
    def spoil(program: object, plan: memory.Plan) -> object:
        return program, replace(plan, offsets=[0] * len(plan.buffers))

    with pytest.raises(PlacementError, match="reads"):
        run_broken(monkeypatch, spoil, *images)


def test_a_step_too_few_in_a_body_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(program: lowered.Program, plan: memory.Plan) -> object:
        (body,) = (body for body in program.bodies if body.name == "then")
        del body.steps[0]
        return program, plan

    with pytest.raises(PlacementError, match="the body 'then' does not leave"):
        run_broken(monkeypatch, spoil, parse(LOOP), loop_feeds(2))


def test_a_state_that_is_not_carried_on_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(program: lowered.Program, plan: memory.Plan) -> object:
        (step,) = (step for step in program.steps if step.function.is_control)
        for number, statement in enumerate(step.function.statements):
            if isinstance(statement, Repeat):
                kept = [s for s in statement.body if not is_carried(s)]
                assert len(kept) < len(statement.body)
                step.function.statements[number] = replace(statement, body=tuple(kept))
        return program, plan

    def is_carried(statement: Statement) -> bool:
        places = statement.pairs if isinstance(statement, Assign) else ()
        return any(isinstance(place, Element) and place.array == "in" for place, _ in places)

    with pytest.raises(ControlError, match="does not leave 'y'"):
        run_broken(monkeypatch, spoil, parse(LOOP), loop_feeds(3))


def test_a_step_too_few_is_seen(
    monkeypatch: pytest.MonkeyPatch, images: tuple[Graph, dict[str, np.ndarray]]
) -> None:
    def spoil(program: lowered.Program, plan: memory.Plan) -> object:
        del program.steps[1]
        return program, plan

    with pytest.raises(PlacementError, match="does not lie where step"):
        run_broken(monkeypatch, spoil, *images)


def test_steps_in_another_order_are_seen(
    monkeypatch: pytest.MonkeyPatch, images: tuple[Graph, dict[str, np.ndarray]]
) -> None:
    def spoil(program: lowered.Program, plan: memory.Plan) -> object:
        program.steps.reverse()
        return program, plan

    with pytest.raises(PlacementError, match="does not lie where step"):
        run_broken(monkeypatch, spoil, *images)


def test_offsets_of_other_windows_are_refused_by_the_interpreter() -> None:
    """Sizes by name that do not fit: the operator says so when it is evaluated, as kernels do."""
    b = Builder("deformed")
    x, offsets = b.input(1, 2, "m", "m", name="x"), b.input(1, 8, 3, 3, name="offsets")
    b.output(b("DeformConv", x, b.weight(4, 2, 2, 2), offsets, strides=(2, 2)))
    feeds = {"x": np.zeros((1, 2, 6, 6), np.float32), "offsets": np.zeros((1, 8, 3, 3), np.float32)}
    evaluate(b.graph, feeds)
    with pytest.raises(InfuseError, match="windows of DeformConv"):
        evaluate(b.graph, feeds | {"x": np.zeros((1, 2, 9, 9), np.float32)})
