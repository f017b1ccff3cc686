"""Data whose first axis is no batch: sequences are given whole, and batches are cut."""

from __future__ import annotations

import numpy as np
import pytest

import infuse
from infuse.compression.learning import require_examples
from infuse.data.dataset import feeds_of
from infuse.data.sequences import sequence_inputs, sequence_notes
from infuse.errors import InputError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from tests.compression_networks import image_network, text_network, weights

pytestmark = [pytest.mark.row("Z1", "Z5")]


def recurrent(rng: np.random.Generator, layout: int) -> Graph:
    """An LSTM along (0) or across (1) the first axis of its input."""
    shape, squeezed = ("n, 1, 6", 1) if layout == 0 else ("n, 4, 6", 2)
    return parse(f"""graph "cells" (%x: float32[{shape}]) {{
      %y, %h, %c = LSTM(%x, {weights(rng, 1, 20, 6)}, {weights(rng, 1, 20, 5)}, hidden_size=5,
                        layout={layout})
      %z = Squeeze(%y, int64[1]{{{squeezed}}})
      return states = %z
    }}""")


def along(rng: np.random.Generator, body: str) -> Graph:
    """Operators between an input [n, 6] and its result."""
    return parse(f'graph "rows" (%x: float32[n, 6]) {{\n{body}\nreturn y = %y\n}}')


SEQUENCES = {
    "softmax": "%y = Softmax(%x, axis=0)",
    "sums": "%y = CumSum(%x, int64[]{0})",
    "mean": "%y = ReduceMean(%x, int64[1]{0})",
    "product": "%t = Transpose(%x, perm=(1, 0))\n%y = MatMul(%t, %x)",
    "padded": "%p = Pad(%x, int64[4]{2, 0, 0, 0})\n%y = CumSum(%p, int64[]{0})",
}
BATCHES = {
    "softmax": "%y = Softmax(%x, axis=1)",
    "first rows": "%y = Slice(%x, int64[1]{0}, int64[1]{9}, int64[1]{0})",
    "elementwise": "%y = Relu(%x)",
    "folded": "%r = Reshape(%x, int64[2]{-1, 3})\n%s = Softmax(%r, axis=1)\n"
    "%y = Reshape(%s, int64[2]{-1, 6})",
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_rows_that_are_computed_from_one_another_are_a_sequence(name, rng) -> None:
    graph = along(rng, SEQUENCES[name])
    data = {"x": rng.standard_normal((8, 6)).astype(np.float32)}
    (feeds,) = feeds_of(graph, data, batch=3)
    np.testing.assert_array_equal(feeds["x"], data["x"])
    (note,) = sequence_notes(graph)
    assert "'x' are not cut" in note


@pytest.mark.parametrize("name", BATCHES)
def test_rows_that_are_computed_alone_are_a_batch(name, rng) -> None:
    graph = along(rng, BATCHES[name])
    assert not sequence_inputs(graph)
    data = {"x": rng.standard_normal((8, 6)).astype(np.float32)}
    assert [len(feeds["x"]) for feeds in feeds_of(graph, data, batch=3)] == [3, 3, 2]
    apart = [evaluate(graph, feeds)["y"] for feeds in feeds_of(graph, data, batch=4)]
    np.testing.assert_allclose(np.concatenate(apart), evaluate(graph, data)["y"], rtol=1e-6)


@pytest.mark.parametrize("layout", [0, 1])
def test_steps_of_a_recurrent_cell_are_a_sequence_and_its_examples_a_batch(layout, rng) -> None:
    graph = recurrent(rng, layout)
    data = {"x": rng.standard_normal((7, 1 if layout == 0 else 4, 6)).astype(np.float32)}
    assert [node.kind for node in sequence_inputs(graph).values()] == ["LSTM"] * (layout == 0)
    runs = feeds_of(graph, data)
    assert len(runs) == (1 if layout == 0 else 7)
    parts = [evaluate(graph, feeds)["states"] for feeds in runs]
    np.testing.assert_allclose(
        np.concatenate(parts), evaluate(graph, data)["states"], rtol=1e-5, atol=1e-6
    )


def test_usual_networks_have_batches(rng: np.random.Generator) -> None:
    assert not sequence_inputs(image_network(rng, "n"))
    assert not sequence_inputs(text_network(rng))


def test_the_report_of_a_compression_tells_of_whole_runs(rng: np.random.Generator) -> None:
    graph = parse(f"""graph "cells" (%x: float32[n, 1, 64]) {{
      %y, %h, %c = LSTM(%x, {weights(rng, 1, 64, 64)}, {weights(rng, 1, 64, 16)}, hidden_size=16)
      %z = Squeeze(%y, int64[1]{{1}})
      %p = MatMul(%z, {weights(rng, 16, 5)})
      return scores = %p
    }}""")
    data = [{"x": rng.standard_normal((count, 1, 64)).astype(np.float32)} for count in (40, 9)]
    report = infuse.compress(
        graph, "int8", data=data, options=infuse.CompressOptions(allow_slower=True)
    ).compression
    assert report.examples == 2
    assert any("LSTM" in note and "each array is a run" in note for note in report.notes)


def test_sequences_are_no_examples_to_learn_from(rng: np.random.Generator) -> None:
    graph = recurrent(rng, 0)
    steps = rng.standard_normal((7, 1, 6)).astype(np.float32)
    with pytest.raises(InputError, match="not examples to learn from"):
        require_examples(graph, {"x": steps})
    require_examples(graph, [{"x": steps[None]}])
    require_examples(recurrent(rng, 1), {"x": np.repeat(steps, 4, 1)})
