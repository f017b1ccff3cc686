"""Filters without the taps that meet nothing but padding, against sums over all taps in float64 and
ONNX Runtime.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.exporters.onnx import to_model
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph
from infuse.ir.types import tensor
from infuse.ops.convolution import ConvTranspose
from infuse.ops.core.evaluate import evaluate
from infuse.passes.rules.convolution.taps import DropPaddedTaps
from infuse.rewrite import Driver
from infuse.testing.patterns import graph_of
from tests.models.onnx_tools import session

Ints = tuple[int, ...]
X = Variable("x")
STEP = np.array(0.02, np.float32)


class Row(NamedTuple):
    """A convolution, and the filter that is left of it with its pads and dilations."""

    sizes: Ints
    kernel: Ints
    how: dict[str, Any]
    left: Ints
    pads: Ints
    dilations: Ints


ROWS = [
    Row((1, 6), (3, 3), {"pads": (1, 1, 1, 1)}, (1, 3), (0, 1, 0, 1), (1, 1)),
    Row((1, 1), (3, 3), {"pads": (1, 1, 1, 1)}, (1, 1), (0,) * 4, (1, 1)),
    Row((1, 1), (7, 7), {"pads": (3,) * 4, "strides": (2, 2)}, (1, 1), (0,) * 4, (1, 1)),
    Row((2, 2), (3, 3), {"pads": (1,) * 4, "strides": (2, 2)}, (2, 2), (0,) * 4, (1, 1)),
    Row((2, 3), (7, 5), {"pads": (3, 2, 3, 2)}, (3, 5), (1, 2, 1, 2), (1, 1)),
    Row((4, 2), (3, 3), {"pads": (2,) * 4, "dilations": (2, 2)}, (3, 1), (2, 0, 2, 0), (2, 2)),
    Row((1,), (3,), {"pads": (1, 1)}, (1,), (0, 0), (1,)),
    Row((1,), (5,), {"pads": (4, 4), "strides": (2,)}, (3,), (4, 4), (2,)),
    Row((2,), (3,), {"pads": (1, 5), "dilations": (3,)}, (2,), (1, 2), (3,)),
    Row((1, 5, 1), (3, 3, 3), {"pads": (1,) * 6}, (1, 3, 1), (0, 1, 0, 0, 1, 0), (1, 1, 1)),
    Row((1, 2), (3, 3), {"auto_pad": "SAME_UPPER"}, (1, 3), (0, 1, 0, 1), (1, 1)),
    Row((1, 2), (4, 2), {"auto_pad": "SAME_LOWER"}, (1, 2), (0, 1, 0, 0), (1, 1)),
    Row((1, 6), (3, 3), {"pads": (0, 1, 2, 1)}, (1, 3), (0, 1, 0, 1), (1, 1)),
]


def filters(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


def narrowed(graph: Graph) -> int:
    """How often the rule fires on a graph, which it changes."""
    driver = Driver([DropPaddedTaps()])
    driver.run(graph)
    return driver.report.fired["DropPaddedTaps"]


def summed(x: np.ndarray, w: np.ndarray, b: np.ndarray, node: Any) -> np.ndarray:
    """A convolution of a node's attributes, or a transposed one: tap by tap, in float64."""
    op, sizes, kernel = node.op, x.shape[2:], w.shape[2:]
    rank, result = len(kernel), np.zeros([int(n) for n in node.output.shape])
    transposed = isinstance(op, ConvTranspose)
    pads = op.placement(sizes, kernel)[1] if transposed else op.padding(sizes, kernel)
    inputs, outputs = (part.shape[1] // op.group for part in (x, result))
    small, large = (sizes, result.shape[2:]) if transposed else (result.shape[2:], sizes)
    for window, tap in itertools.product(np.ndindex(*small), np.ndindex(*kernel)):
        moved = zip(window, op.steps(rank), tap, op.spread(rank), pads)
        pixel = tuple(i * s + t * d - begin for i, s, t, d, (begin, _) in moved)
        if not all(0 <= p < n for p, n in zip(pixel, large)):
            continue
        source, target = (window, pixel) if transposed else (pixel, window)
        every = (slice(None), slice(None))
        taps, pixels, sums = w[every + tap], x[every + source], result[every + target]
        for g in range(op.group):
            read, made = (slice(g * n, (g + 1) * n) for n in (inputs, outputs))
            matrix = (taps[read] if transposed else taps[made].T).astype(np.float64)
            sums[:, made] += pixels[:, read] @ matrix
    return np.asarray(result + b.reshape(-1, *(1,) * rank))


@pytest.mark.row("G5")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.sizes}{row.kernel}")
@pytest.mark.parametrize("group", [1, 2, 4])
def test_taps_that_meet_padding_alone_are_dropped(row: Row, group: int) -> None:
    x, w, b = image(2, 4, *row.sizes), filters(8, 4 // group, *row.kernel), filters(8)
    graph = graph_of(Call("Conv", (X, w, b), {"group": group, **row.how}), x=x.shape)
    expected = summed(x, w, b, graph.nodes[0])
    peer = session(to_model(graph)).run(None, {"x": x})[0]
    assert narrowed(graph) == 1
    (node,) = graph.nodes
    op: Any = node.op
    assert (op.kernel_shape, op.pads, op.dilations) == (row.left, row.pads, row.dilations)
    assert node.inputs[1] is not None
    assert node.inputs[1].shape == (8, 4 // group, *row.left)
    result = evaluate(graph, {"x": x})["y0"]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result, peer, rtol=1e-5, atol=1e-5)
    after = session(to_model(graph)).run(None, {"x": x})[0]
    np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-5)
    assert narrowed(graph) == 0


def geometry(rng: np.random.Generator, kind: str) -> Graph | None:
    """A random convolution of small images with much padding; None where there is no result."""
    rank = int(rng.integers(1, 4))

    def ints(high: int, count: int = rank, low: int = 1) -> Ints:
        return tuple(int(n) for n in rng.integers(low, high, count))

    group = int(rng.choice([1, 2]))
    shape = (4, 4 // group) if kind == "Conv" else (4, 2)
    how: dict[str, Any] = {"strides": ints(4), "dilations": ints(4), "pads": ints(5, 2 * rank, 0)}
    if kind == "ConvTranspose":
        how["output_padding"] = tuple(int(rng.integers(0, s)) for s in how["strides"])
    if rng.random() < 0.2:
        how["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
        del how["pads"]
    w, b = filters(*shape, *ints(5)), filters(4 if kind == "Conv" else 2 * group)
    try:
        call = Call(kind, (X, w, b), {"group": group, **how})
        graph = graph_of(call, x=(1, 4, *ints(4)))
    except infuse.InfuseError:
        return None
    return graph if min(map(int, graph.outputs[0].shape)) > 0 else None


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_random_windows_give_the_same_sums(kind: str) -> None:
    rng, fired = np.random.default_rng(5), 0
    for graph in filter(None, (geometry(rng, kind) for _ in range(600))):
        (node,) = graph.nodes
        w, b = (np.asarray(v.const) for v in node.inputs[1:] if v is not None)
        x = image(*map(int, graph.inputs[0].shape))
        expected = summed(x, w, b, node)
        before = graph.outputs[0].type
        fired += narrowed(graph)
        assert graph.outputs[0].type == before
        result = evaluate(graph, {"x": x})["y0"]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=str(graph))
    assert fired > 100


def quantized(kind: str) -> Graph:
    """A convolution of bytes of one line, with zero points."""
    w = np.random.default_rng(3).integers(-128, 128, (6, 4, 3, 3)).astype(np.int8)
    zero, zeros = np.array(9, np.uint8), np.arange(6, dtype=np.int8)
    operands: dict[str, tuple[Any, ...]] = {
        "ConvInteger": (w, zero, zeros[1]),
        "QLinearConv": (STEP, zero, w, np.full(6, STEP), zeros, STEP * 40, zero),
    }
    call = Call(kind, (X, *operands[kind]), {"pads": (1, 1, 1, 1), "strides": (2, 2)})
    return graph_of(call, x=tensor(dtypes.uint8, 2, 4, 1, 7))


@pytest.mark.parametrize("kind", ["ConvInteger", "QLinearConv"])
def test_sums_of_bytes_are_the_same(kind: str) -> None:
    """Padding is the zero point, so that its products are zero too."""
    graph = quantized(kind)
    feeds = {"x": np.random.default_rng(4).integers(0, 256, (2, 4, 1, 7)).astype(np.uint8)}
    before = evaluate(graph, feeds)["y0"]
    peer = session(to_model(graph)).run(None, feeds)[0]
    assert narrowed(graph) == 1
    np.testing.assert_array_equal(evaluate(graph, feeds)["y0"], before)
    np.testing.assert_array_equal(before, peer)


def test_filters_are_dequantized_after_the_cut() -> None:
    q = np.random.default_rng(3).integers(-128, 128, (6, 4, 3, 3)).astype(np.int8)
    scales = np.linspace(0.01, 0.06, 6, dtype=np.float32)
    w = Call("DequantizeLinear", (q, scales), {"axis": 0})
    graph = graph_of(Call("Conv", (X, w), {"pads": (1, 1, 1, 1)}), x=(1, 4, 1, 1))
    feeds = {"x": image(1, 4, 1, 1)}
    before = evaluate(graph, feeds)["y0"]
    assert narrowed(graph) == 1
    np.testing.assert_allclose(evaluate(graph, feeds)["y0"], before, rtol=1e-5, atol=1e-6)


def test_open_sizes_keep_their_taps() -> None:
    """One open axis leaves that axis alone, all open ones the whole filter; so do pads that depend
    on them.
    """
    around = {"pads": (1, 1, 1, 1)}
    call = Call("Conv", (X, filters(3, 4, 3, 3)), around)
    graph = graph_of(call, x=tensor(dtypes.float32, "n", 4, "h", "w"))
    assert narrowed(graph) == 0
    graph = graph_of(call, x=tensor(dtypes.float32, "n", 4, 1, "w"))
    assert narrowed(graph) == 1
    assert graph.nodes[0].op.attributes()["kernel_shape"] == (1, 3)
    same = Call("Conv", (X, filters(3, 4, 3, 3)), {"auto_pad": "SAME_UPPER", "strides": (1, 2)})
    assert narrowed(graph_of(same, x=tensor(dtypes.float32, "n", 4, 1, "w"))) == 0


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_filters_that_are_not_finite_keep_their_taps(number: float) -> None:
    w = filters(3, 4, 3, 3)
    w[0, 0, 0, 0] = number
    graph = graph_of(Call("Conv", (X, w), {"pads": (1, 1, 1, 1)}), x=(1, 4, 1, 5))
    assert narrowed(graph) == 0


def test_computed_filters_stay() -> None:
    graph = graph_of(
        Call("Conv", (X, Variable("w")), {"pads": (1, 1, 1, 1)}), x=(1, 4, 1, 5), w=(3, 4, 3, 3)
    )
    assert narrowed(graph) == 0
