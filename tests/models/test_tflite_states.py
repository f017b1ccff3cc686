"""Operators and models of TensorFlow Lite that keep states from run to run, against LiteRT."""

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from tests.models.tflite_cases import floats
from tests.models.tflite_tools import Net, Quant, compare, litert_runs

BATCH, TIMES, INPUTS, CELLS = 2, 3, 4, 5


def agree_in_runs(net: Net, *runs: list[np.ndarray], tolerance: float = 2e-6) -> None:
    """Assert that runs one after another compute what LiteRT computes, each with the states that
    the one before left.
    """
    graph, states = infuse.load(net.bytes()), {}
    names = [v.name for v in graph.inputs if v.default is None]
    for feeds, expected in zip(runs, litert_runs(net.bytes(), runs)):
        found = evaluate(graph, {**dict(zip(names, feeds)), **states})
        states = {n.removesuffix(".out"): v for n, v in found.items() if n.endswith(".out")}
        assert states
        compare(net, list(found.values())[: len(expected)], expected, tolerance)


def parts(scale: float = 0.5) -> Any:
    """Makes weights that differ from each other."""
    rng = np.random.default_rng(11)
    return lambda net, *shape: net.const(rng.uniform(-scale, scale, shape).astype(np.float32))


def state(net: Net, *shape: int) -> int:
    return net.tensor("float32", shape, variable=True)


def runs(*shape: int) -> list[list[np.ndarray]]:
    return [[floats(*shape)], [floats(*shape) * 2]]


@pytest.mark.parametrize("activation", ["tanh", "relu", "relu6", "none"])
def test_rnn(activation: str) -> None:
    net, made = Net(), parts()
    x = net.input("float32", (BATCH, INPUTS))
    weights = [made(net, CELLS, INPUTS), made(net, CELLS, CELLS), made(net, CELLS)]
    net.outputs(net.op("RNN", [x, *weights, state(net, BATCH, CELLS)], "float32",
                       table="RNNOptions", fusedActivationFunction=activation))  # fmt: skip
    agree_in_runs(net, *runs(BATCH, INPUTS))


@pytest.mark.parametrize("major", [False, True])
def test_sequence_rnn(major: bool) -> None:
    net, made = Net(), parts()
    shape = (TIMES, BATCH, INPUTS) if major else (BATCH, TIMES, INPUTS)
    x = net.input("float32", shape)
    weights = [made(net, CELLS, INPUTS), made(net, CELLS, CELLS), made(net, CELLS)]
    net.outputs(net.op("UNIDIRECTIONAL_SEQUENCE_RNN", [x, *weights, state(net, BATCH, CELLS)],
                       "float32", table="SequenceRNNOptions", timeMajor=major,
                       fusedActivationFunction="tanh"))  # fmt: skip
    agree_in_runs(net, *runs(*shape))


@pytest.mark.parametrize("merged", [False, True])
def test_bidirectional_rnn(merged: bool) -> None:
    net, made = Net(), parts()
    inputs = [net.input("float32", (BATCH, TIMES, INPUTS))]
    for _ in range(2):
        inputs += [made(net, CELLS, INPUTS), made(net, CELLS, CELLS), made(net, CELLS)]
        inputs.append(state(net, BATCH, CELLS))
    results = ["float32"] if merged else ["float32", "float32"]
    made_of = net.op("BIDIRECTIONAL_SEQUENCE_RNN", [*inputs, -1, -1, -1], *results,
                     table="BidirectionalSequenceRNNOptions", mergeOutputs=merged,
                     fusedActivationFunction="tanh")  # fmt: skip
    net.outputs(*([made_of] if merged else made_of))
    agree_in_runs(net, *runs(BATCH, TIMES, INPUTS))


def test_svdf() -> None:
    net, made, rank, memory = Net(), parts(), 2, 3
    x = net.input("float32", (BATCH, INPUTS))
    filters = CELLS * rank
    inputs = [x, made(net, filters, INPUTS), made(net, filters, memory), made(net, CELLS)]
    net.outputs(net.op("SVDF", [*inputs, state(net, BATCH, memory * filters)], "float32",
                       table="SVDFOptions", rank=rank, fusedActivationFunction="relu")
                )  # fmt: skip
    agree_in_runs(net, *runs(BATCH, INPUTS), *runs(BATCH, INPUTS))


def weights(
    net: Net, made: Any, outputs: int, coupled: bool, peepholes: bool, projected: bool
) -> list[int]:
    """Operands 1 to 17 of an LSTM."""
    gates = [-1 if coupled and gate == 0 else 1 for gate in range(4)]
    listed = [made(net, CELLS, INPUTS) if g > 0 else -1 for g in gates]
    listed += [made(net, CELLS, outputs) if g > 0 else -1 for g in gates]
    listed += [made(net, CELLS) if peepholes and (n or not coupled) else -1 for n in range(3)]
    listed += [made(net, CELLS) if g > 0 else -1 for g in gates]
    return [*listed, made(net, outputs, CELLS) if projected else -1,
            made(net, outputs) if projected else -1]  # fmt: skip


LSTMS = {
    "plain": {},
    "time major": {"major": True},
    "coupled": {"coupled": True},
    "peepholes": {"peepholes": True},
    "projected": {"projected": True},
    "clipped": {"clip": 0.3},
    "normalized": {"normalized": True},
    "all": {"coupled": True, "peepholes": True, "projected": True, "clip": 0.4},
}


def lstm(
    kind: str,
    coupled: bool = False,
    peepholes: bool = False,
    projected: bool = False,
    normalized: bool = False,
    clip: float = 0.0,
    major: bool = False,
) -> tuple[Net, Any]:
    net, made, outputs = Net(), parts(), 3 if projected else CELLS
    shape = (BATCH, INPUTS) if kind == "LSTM" else (BATCH, TIMES, INPUTS)
    shape = (TIMES, BATCH, INPUTS) if major else shape
    x = net.input("float32", shape)
    inputs = [x, *weights(net, made, outputs, coupled, peepholes, projected)]
    inputs += [state(net, BATCH, outputs), state(net, BATCH, CELLS)]
    inputs += [made(net, CELLS) for _ in range(4)] if normalized else [-1] * 4
    options = {"table": "LSTMOptions"} if kind == "LSTM" else {
        "table": "UnidirectionalSequenceLSTMOptions", "timeMajor": major}  # fmt: skip
    net.outputs(net.op(kind, inputs, "float32", cellClip=clip, projClip=clip / 2,
                       fusedActivationFunction="tanh", **options))  # fmt: skip
    return net, shape


@pytest.mark.parametrize("form", LSTMS)
def test_sequence_lstm(form: str) -> None:
    net, shape = lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", **LSTMS[form])
    agree_in_runs(net, *runs(*shape))


@pytest.mark.parametrize("form", [form for form in LSTMS if form != "time major"])
def test_one_step_of_an_lstm(form: str) -> None:
    net, shape = lstm("LSTM", **LSTMS[form])
    agree_in_runs(net, *runs(*shape))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_bidirectional_lstm(merged: bool, clip: float) -> None:
    # LiteRT 2.3 writes merged results of rows after the first to wrong places unless time is first.
    net, made = Net(), parts()
    shape = (TIMES, BATCH, INPUTS) if merged else (BATCH, TIMES, INPUTS)
    inputs = [net.input("float32", shape)]
    for _ in range(2):
        inputs += weights(net, made, CELLS, False, False, False)
    inputs += [state(net, BATCH, CELLS) for _ in range(4)]
    results = ["float32"] if merged else ["float32", "float32"]
    made_of = net.op("BIDIRECTIONAL_SEQUENCE_LSTM", [*inputs, *[-1] * 9], *results,
                     table="BidirectionalSequenceLSTMOptions", mergeOutputs=merged, cellClip=clip,
                     fusedActivationFunction="tanh", timeMajor=merged)  # fmt: skip
    net.outputs(*([made_of] if merged else made_of))
    agree_in_runs(net, *runs(*shape))


def test_the_basic_lstm() -> None:
    net, made = Net(), parts()
    x, h = net.input("float32", (BATCH, INPUTS)), net.input("float32", (BATCH, CELLS))
    c = net.input("float32", (BATCH, CELLS))
    w, b = made(net, 4 * CELLS, INPUTS + CELLS), made(net, 4 * CELLS)
    results = net.op("LSTM", [x, h, w, b, c], *["float32"] * 4, table="LSTMOptions", kernelType=1,
                     fusedActivationFunction="tanh", version=2)  # fmt: skip
    net.outputs(results[0], results[1])
    feeds = [floats(BATCH, INPUTS), floats(BATCH, CELLS), floats(BATCH, CELLS) * 2]
    graph = infuse.load(net.bytes())
    found = evaluate(graph, dict(zip((v.name for v in graph.inputs), feeds)))
    compare(net, list(found.values()), litert_runs(net.bytes(), [feeds])[0], 2e-6)


# -- variables -------------------------------------------------------------------------------------


def counter(assigns: bool = True) -> Net:
    """What was added up so far, beginning with three numbers; or only those."""
    net = Net()
    main, start = net.graph, net.subgraph()
    handle = net.op("VAR_HANDLE", [], "resource", table="VarHandleOptions", sharedName="sum")
    first = net.const(np.array([1, 2, 3], np.float32))
    net.op("ASSIGN_VARIABLE", [handle, first])
    net.graph = main
    x = net.input("float32", (3,))
    net.op("CALL_ONCE", [], initSubgraphIndex=start)
    handle = net.op("VAR_HANDLE", [], "resource", table="VarHandleOptions", sharedName="sum")
    old = net.op("READ_VARIABLE", [handle], "float32")
    main.tensors[old].shape = [3]
    new = net.op("ADD", [old, x], "float32", fusedActivationFunction="none")
    if assigns:
        net.op("ASSIGN_VARIABLE", [handle, new])
    return net.outputs(new)


def test_a_variable_is_an_input_and_an_output() -> None:
    net = counter()
    agree_in_runs(net, *runs(3), *runs(3))
    graph = infuse.load(net.bytes())
    assert [v.name for v in graph.inputs] == ["t0", "sum"]
    assert graph.output_names == ["t3", "sum.out"]


def test_a_variable_that_stays_is_a_constant() -> None:
    graph = infuse.load(counter(assigns=False).bytes())
    assert [v.name for v in graph.inputs] == ["t0"]
    found = evaluate(graph, {"t0": np.ones(3, np.float32)})
    np.testing.assert_array_equal(found["t3"], [2, 3, 4])


def test_states_of_scaled_integers_are_refused() -> None:
    net, made = Net(), parts()
    x = net.input("int8", (BATCH, INPUTS), Quant(0.1))
    inputs = [made(net, CELLS, INPUTS), made(net, CELLS, CELLS), made(net, CELLS)]
    net.outputs(net.op("RNN", [x, *inputs, state(net, BATCH, CELLS)], "float32",
                       table="RNNOptions"))  # fmt: skip
    with pytest.raises(UnsupportedOperatorError, match="scaled integers"):
        infuse.load(net.bytes())
