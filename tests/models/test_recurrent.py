"""Recurrent networks: ONNX Runtime as the witness of every attribute, PyTorch of whole networks
that it exports.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import infuse
from infuse import dtypes, ops
from infuse.errors import InfuseError
from infuse.exporters.onnx import to_model
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op
from infuse.ops.core.evaluate import evaluate
from infuse.testing.samples import Row, results, rows, type_of
from tests.models import onnx_tools

CELLS = ("RNN", "GRU", "LSTM")


def graph_of(row: Row) -> Graph:
    """One node of which every input is an input of the graph, and every output an output."""
    graph = Graph("one")
    values: list[Value | None] = []
    for name, x in zip(("X", "W", "R", "B", "lengths", "h", "c", "P"), row.inputs):
        values.append(None if x is None else graph.add_input(name, type_of(x)))
    count = len(results(row))
    node = graph.add_node(
        Node(row.op, values, [Value(TensorType(None, None), f"y{i}") for i in range(count)])
    )  # type: ignore[arg-type]
    node.op.infer_node(node)
    for i, value in enumerate(node.outputs):
        graph.add_output(value, f"y{i}")
    return graph


def feeds_of(graph: Graph, row: Row) -> dict[str, Any]:
    return dict(zip((v.name for v in graph.inputs), (x for x in row.inputs if x is not None)))


def is_known_to_the_runtime(row: Row) -> bool:
    """It takes no batch first, and dies of sequences without elements."""
    lengths = row.inputs[4] if len(row.inputs) > 4 else None
    return (
        not row.op.attributes()["layout"]
        and row.inputs[0].size > 0
        and (lengths is None or lengths.min() > 0)
    )


def witnessed(kind: str) -> list[Row]:
    found = []
    for row in rows(ops.REGISTRY["", kind], np.random.default_rng(1)):
        inputs = list(row.inputs)
        if len(inputs) > 4 and inputs[4] is not None:
            inputs[4] = np.maximum(inputs[4], 1)
        found.append(Row(row.op.replace(hidden_size=inputs[2].shape[2]), tuple(inputs), row.fixed))
    return [row for row in found if is_known_to_the_runtime(row)]


@pytest.mark.row("C1")
@pytest.mark.parametrize("kind", CELLS)
def test_the_meaning_is_that_of_onnxruntime(kind: str) -> None:
    chosen = witnessed(kind)
    assert len(chosen) >= 10
    for row in chosen:
        graph = graph_of(row)
        found = onnx_tools.run(to_model(graph), feeds_of(graph, row))
        for one, other in zip(results(row), found, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-6, err_msg=str(row))


@pytest.mark.row("C1")
@pytest.mark.parametrize("opset", [13, 14, 22])
@pytest.mark.parametrize("kind", CELLS)
def test_operators_are_written_and_read_back(kind: str, opset: int) -> None:
    for row in rows(ops.REGISTRY["", kind], np.random.default_rng(1)):
        graph = graph_of(row)
        if opset < 14 and row.op.attributes()["layout"]:
            with pytest.raises(InfuseError, match="layout"):
                to_model(graph, opset)
            continue
        again = infuse.load(to_model(graph, opset))
        size = graph.nodes[0].inputs[2].shape[-1]  # the runtime wants it, so it is written
        assert [node.op for node in again.nodes] == [row.op.replace(hidden_size=size)]
        assert [v.type for v in again.outputs] == [v.type for v in graph.outputs]


@pytest.mark.row("C1")
@pytest.mark.parametrize(
    ("kind", "opset", "attributes", "given"),
    [
        ("RNN", 1, {"output_sequence": 1}, {}),
        ("RNN", 7, {"activations": ["Tanh", "Tanh"]}, {"activations": ("Tanh", "Tanh")}),
        ("GRU", 1, {}, {}),
        ("GRU", 3, {"linear_before_reset": 1}, {"linear_before_reset": 1}),
        ("GRU", 14, {"layout": 0}, {}),
        ("LSTM", 1, {"output_sequence": 1, "clip": 0.5}, {"clip": 0.5}),
        ("LSTM", 7, {"input_forget": 1}, {"input_forget": 1}),
        ("LSTM", 22, {"layout": 0}, {}),
    ],
)
def test_older_forms_are_lifted(
    kind: str, opset: int, attributes: dict[str, Any], given: dict[str, Any]
) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    node = helper.make_node(kind, ["x", "w", "r"], ["", "h"], hidden_size=4, **attributes)
    inputs = {"x": (3, 2, 5), "w": (1, gates * 4, 5), "r": (1, gates * 4, 4)}
    graph = infuse.load(onnx_tools.model([node], inputs, ["h"], opset))
    assert graph.nodes[0].op == ops.REGISTRY["", kind](hidden_size=4, **given)
    assert graph.outputs[0].shape == (1, 2, 4)


# -- sizes and bad input ---------------------------------------------------------------------------


def node_of(kind: str, *types: tuple[Any, ...] | None, **attributes: Any) -> Node:
    values = []
    for i, shape in enumerate(types):
        values.append(
            None
            if shape is None
            else Value(TensorType(dtypes.int32 if i == 4 else dtypes.float32, shape))
        )
    op: Op = ops.REGISTRY["", kind](**attributes)
    return Node(
        op,
        values,
        [Value(TensorType(dtypes.float32, None)) for _ in range(3 if kind == "LSTM" else 2)],
    )


def test_sizes_are_symbols() -> None:
    t, b, i, h = map(dims.symbol, "tbih")
    node = node_of("LSTM", (t, b, i), (2, 4 * h, i), (2, 4 * h, h), direction="bidirectional")
    every, last, memory = (type.shape for type in node.op.infer_types(node))  # type: ignore[union-attr]
    assert every == (t, 2, b, h)
    assert last == memory == (2, b, h)
    node = node_of("GRU", (b, t, i), (1, 3 * h, i), (1, 3 * h, h), layout=1)
    assert [type.shape for type in node.op.infer_types(node)] == [(b, t, 1, h), (b, 1, h)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "message"),
    [
        ("RNN", [(3, 2, 5), (1, 4, 6), (1, 4, 4)], {}, "the shape of W"),
        ("RNN", [(3, 2, 5), (1, 4, 5), (1, 4, 4)], {"hidden_size": 3}, "hidden_size and R"),
        ("GRU", [(3, 2, 5), (1, 12, 5), (1, 12, 4), (1, 12)], {}, "the shape of B"),
        (
            "GRU",
            [(3, 2, 5), (1, 12, 5), (1, 12, 4)],
            {"direction": "sideways"},
            "no direction 'sideways'",
        ),
        (
            "LSTM",
            [(3, 2, 5), (1, 16, 5), (1, 16, 4), None, (3,)],
            {},
            "the number of sequence_lens",
        ),
        (
            "LSTM",
            [(3, 2, 5), (1, 16, 5), (1, 16, 4)],
            {"activations": ("Tanh",)},
            "needs 3 activation functions",
        ),
        ("LSTM", [(3, 2), (1, 16, 5), (1, 16, 4)], {}, "must have rank 3"),
        ("LSTM", [(3, 2, 5), (1, 16, 5), (1, 16, 4), *[None] * 4, (1, 4)], {}, "the shape of P"),
    ],
)
def test_wrong_shapes_are_named(
    kind: str, shapes: list[Any], attributes: dict[str, Any], message: str
) -> None:
    node = node_of(kind, *shapes, **attributes)
    with pytest.raises(InfuseError, match=message):
        node.op.infer_types(node)


def test_lengths_past_the_end_are_refused() -> None:
    row = Row(
        ops.REGISTRY["", "RNN"](),
        tuple(np.zeros(s, np.float32) for s in ((3, 2, 5), (1, 4, 5), (1, 4, 4))),
        (),
    )
    for bad in ([3, 4], [-1, 2]):
        wrong = Row(row.op, (*row.inputs, None, np.array(bad, np.int32)), ())
        graph = graph_of(Row(row.op, (*row.inputs, None, np.array([3, 2], np.int32)), ()))
        with pytest.raises(InfuseError, match="sequence_lens"):
            evaluate(graph, feeds_of(graph, wrong))
        with infuse.compile(graph) as model, pytest.raises(InfuseError, match="sizes"):
            model.run(feeds_of(graph, wrong))


def test_not_a_number_stays_in_its_example() -> None:
    rng = np.random.default_rng(3)
    x, w, r = (
        rng.uniform(-1, 1, s).astype(np.float32) for s in ((4, 3, 5), (1, 80, 5), (1, 80, 20))
    )
    x[1, 1, 2] = np.nan
    x[0, 2] = np.inf
    graph = graph_of(row := Row(ops.REGISTRY["", "LSTM"](), (x, w, r), (False,) * 3))
    wanted = evaluate(graph, feeds_of(graph, row))
    with infuse.compile(graph) as model:
        found = model.run(feeds_of(graph, row))
    np.testing.assert_allclose(found["y0"], wanted["y0"], atol=1e-5)
    assert np.isnan(found["y0"][1:, 0, 1]).all()
    assert np.isfinite(found["y0"][:, 0, 0]).all()


# -- PyTorch ---------------------------------------------------------------------------------------

missing = [package for package in ("torch", "onnxscript") if find_spec(package) is None]
needs_torch = pytest.mark.skipif(
    bool(missing), reason=f"{', '.join(missing)} is needed to export the networks"
)
SIZES = ((2, 7), (1, 1), (5, 3))
LENGTH = 6


def networks() -> dict[str, Any]:
    """A tagger, a classifier and an encoder, with an example of their input."""
    import torch

    class Tagger(torch.nn.Module):
        """Scores of tags for every token, by two layers in both directions."""

        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(50, 24)
            self.lstm = torch.nn.LSTM(24, 20, num_layers=2, bidirectional=True, batch_first=True)
            self.tags = torch.nn.Linear(40, 9)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.tags(self.lstm(self.words(tokens))[0])

    class Encoder(torch.nn.Module):
        """All states and the last one of each layer, from the one that a decoder would begin
        with.
        """

        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(50, 16)
            self.gru = torch.nn.GRU(16, 32, num_layers=2, batch_first=True)
            self.start = torch.nn.Linear(32, 32)

        def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            states, last = self.gru(self.words(tokens))
            return states, torch.tanh(self.start(last))

    class Classifier(torch.nn.Module):
        """One class for each sequence, by a plain network with rectifiers, time first."""

        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(50, 8)
            self.rnn = torch.nn.RNN(8, 19, nonlinearity="relu", bidirectional=True)
            self.out = torch.nn.Linear(38, 3)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            states, last = self.rnn(self.words(tokens.transpose(0, 1)))
            return self.out(states.mean(dim=0) + torch.cat([last[0], last[1]], dim=-1))

    torch.manual_seed(5)
    return {
        "tagger": Tagger().eval(),
        "encoder": Encoder().eval(),
        "classifier": Classifier().eval(),
    }


def export(network: Any, path: Path, dynamo: bool) -> Path:
    """The network as ONNX, batch and length open."""
    import torch

    tokens = torch.arange(3 * LENGTH).reshape(3, LENGTH)
    with warnings.catch_warnings():
        # The exporters warn of themselves: deprecated functions, and batches of recurrent networks.
        warnings.simplefilter("ignore")
        if dynamo:
            shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)
            torch.onnx.export(
                network, (tokens,), path, dynamo=True, dynamic_shapes=shapes, verbose=False
            )
        else:
            axes = {"tokens": {0: "batch", 1: "length"}}
            torch.onnx.export(
                network, (tokens,), path, dynamo=False, input_names=["tokens"], dynamic_axes=axes
            )
    return path


@needs_torch
@pytest.mark.row("C1")
@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("name", ["tagger", "encoder", "classifier"])
def test_exported_networks_agree_with_pytorch(
    name: str, dynamo: bool, tmp_path: Path, capfd: Any
) -> None:
    import torch

    network = networks()[name]
    graph = infuse.optimize(infuse.load(export(network, tmp_path / "network.onnx", dynamo)))
    capfd.readouterr()
    cells = [node for node in graph.nodes if node.kind in CELLS]
    assert bool(cells) == (not (name == "classifier" and dynamo))
    assert all(node.input(5) is None for node in cells), "states of zeros are left out"
    # This exporter has no plain cells: it unrolls them for the length that it sees.
    unrolled = name == "classifier" and dynamo
    with infuse.compile(graph) as model:
        for batch, length in SIZES:
            shape = (batch, LENGTH if unrolled else length)
            tokens = np.random.default_rng(batch).integers(0, 50, shape)
            with torch.no_grad():
                wanted = network(torch.from_numpy(tokens))
            found = model.run({graph.inputs[0].name: tokens})
            expected = wanted if isinstance(wanted, tuple) else (wanted,)
            onnx_tools.assert_close(list(found.values()), [t.numpy() for t in expected], 2e-6)
