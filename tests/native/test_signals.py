"""Fourier transforms, losses, optimizers, linear attention, unique elements and sums over any axes
beside others' code: NumPy in float64, PyTorch and onnx.reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from infuse import dtypes
from infuse.codegen.compile import compile_graph, generate
from infuse.errors import InfuseError, RuntimeFailure
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.core.base import Rounding
from infuse.targets import Target
from infuse.testing.compare import difference

RNG = np.random.default_rng(5)
TRAINING = "ai.onnx.preview.training"


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return np.asarray(RNG.uniform(-1, 1, shape)).astype(dtype)


@dataclass
class Several:
    """Nodes of one graph, so that one library holds them all, each with what it must give."""

    graph: Graph = field(default_factory=lambda: Graph("several"))
    feeds: dict[str, Any] = field(default_factory=dict)
    wanted: list[tuple[str, Any, Rounding]] = field(default_factory=list)

    def input(self, x: Any, symbolic: bool = False) -> Value:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = x
        shape = [dims.symbol(f"{name}_{i}") for i in range(x.ndim)] if symbolic else x.shape
        return self.graph.add_input(name, TensorType(dtypes.by_numpy(x.dtype), tuple(shape)))

    def add(
        self,
        kind: str,
        inputs: Sequence[Any],
        wanted: Sequence[Any],
        accuracy: Rounding,
        *,
        domain: str = "",
        symbolic: bool = False,
        held: Sequence[int] = (),
        **attributes: Any,
    ) -> None:
        """A node whose inputs are fed but for those `held` as constants, and what its outputs must
        be.
        """
        values: list[Value | None] = [
            None if x is None else constant(x) if i in held else self.input(x, symbolic)
            for i, x in enumerate(inputs)
        ]
        outputs = [Value(UNKNOWN, f"v{len(self.graph)}_{i}") for i in range(len(wanted))]
        node = Node(
            make_operator(domain, kind, attributes),
            values,
            outputs,
            name=f"{kind}_{len(self.graph)}",
        )
        node.op.infer_node(self.graph.add_node(node))
        for value, exact in zip(outputs, wanted):
            self.graph.add_output(value, f"y{len(self.wanted)}")
            self.wanted.append((f"{node.op}", exact, accuracy))

    def check(self) -> None:
        generate(self.graph, Target.resolve("x86-64"))  # no stage of the interpreter
        with compile_graph(self.graph, threads=2) as model:
            found = model.run(self.feeds)
        wrong = [
            f"{what}: {problem}"
            for (what, exact, accuracy), actual in zip(self.wanted, found.values())
            if (problem := difference(actual, exact, accuracy))
        ]
        assert not wrong, "\n".join(wrong[:20])


# -- Fourier transforms ----------------------------------------------------------------------------

FOURIER = {np.float32: Rounding(abs=2e-6), np.float64: Rounding(abs=2e-14)}
LENGTHS = (
    *range(1, 41),
    49,
    64,
    97,
    100,
    121,
    127,
    128,
    143,
    169,
    210,
    251,
    997,
    1000,
    1024,
    4096,
    4099,
    5000,
)


def pairs(x: Any) -> Any:
    return np.stack([x.real, x.imag], axis=-1)


def complexes(x: Any) -> Any:
    return x[..., 0].astype(np.float64) + (
        1j * x[..., 1].astype(np.float64) if x.shape[-1] == 2 else 0
    )


@pytest.mark.parametrize("dtype", FOURIER)
def test_transforms_of_every_length(dtype: Any) -> None:
    several = Several()
    for n in LENGTHS:
        lines = 3 if n < 200 else 1
        for parts in (1, 2):
            x = floats(lines, n, parts, dtype=dtype)
            several.add("DFT", [x], [pairs(np.fft.fft(complexes(x)))], FOURIER[dtype])
        several.add("DFT", [x], [pairs(np.fft.ifft(complexes(x)))], FOURIER[dtype], inverse=1)
        real = floats(lines, n, 1, dtype=dtype)
        half = np.fft.rfft(real[..., 0].astype(np.float64))
        several.add("DFT", [real], [pairs(half)], FOURIER[dtype], onesided=1)
        back = [pairs(half).astype(dtype), np.array(n)]
        several.add(
            "DFT",
            back,
            [np.fft.irfft(half, n)[..., None]],
            FOURIER[dtype],
            held=[1],
            inverse=1,
            onesided=1,
        )
    several.check()


@pytest.mark.parametrize("symbolic", [False, True], ids=["known sizes", "open sizes"])
def test_axis_and_length_of_a_transform_come_from_the_run(symbolic: bool) -> None:
    several = Several()
    x = floats(20, 3, 17, 2)
    for axis, length in itertools.product((0, 1, -2), (None, 5, 16, 34)):
        given = None if length is None else np.array(length)
        exact = pairs(np.fft.fft(complexes(x), length, axis=axis if axis >= 0 else 2))
        inputs = [x, given, np.array(axis)]
        several.add("DFT", inputs, [exact], FOURIER[np.float32], symbolic=symbolic)
        several.add("DFT", inputs, [exact], FOURIER[np.float32], symbolic=symbolic, held=[2])
    several.check()


def test_short_transforms_agree_with_pytorch() -> None:
    several = Several()
    for size, step, width, onesided in (
        (400, 80, 160, 1),
        (64, 7, 16, 0),
        (50, 50, 50, 1),
        (33, 4, 9, 1),
    ):
        x, window = floats(2, size, 1), floats(width)
        exact = torch.stft(
            torch.tensor(x[..., 0], dtype=torch.float64),
            width,
            step,
            window=torch.tensor(window, dtype=torch.float64),
            center=False,
            onesided=bool(onesided),
            return_complex=True,
        ).numpy()
        wanted = [pairs(exact.swapaxes(1, 2))]
        for held in ([1, 3], []):
            inputs = [x, np.array(step), window, np.array(width)]
            several.add("STFT", inputs, wanted, FOURIER[np.float32], held=held, onesided=onesided)
        several.add(
            "STFT",
            [x, np.array(step), window],
            wanted,
            FOURIER[np.float32],
            symbolic=True,
            onesided=onesided,
        )
    several.check()


WINDOWS = {dtypes.float32: 2e-7, dtypes.float64: 1e-15, dtypes.float16: 1e-7}


def test_windows_agree_with_pytorch_in_every_type() -> None:
    several = Several()
    kinds = {
        "HannWindow": lambda n, p: torch.hann_window(n, p, dtype=torch.float64),
        "HammingWindow": lambda n, p: torch.hamming_window(
            n, p, 25 / 46, 21 / 46, dtype=torch.float64
        ),
        "BlackmanWindow": lambda n, p: torch.blackman_window(n, p, dtype=torch.float64),
    }
    for (kind, make), periodic, dtype in itertools.product(kinds.items(), (0, 1), WINDOWS):
        exact = make(23, bool(periodic)).numpy()
        accuracy = Rounding(ulp=1, abs=WINDOWS[dtype])
        for held in ([0], []):
            options = {"periodic": periodic, "output_datatype": dtype}
            several.add(kind, [np.array(23)], [exact], accuracy, held=held, **options)
    several.check()


def test_an_impulse_keeps_other_lines_as_they_are() -> None:
    """Lines are transformed side by side, but what is no number in one stays there."""
    x = floats(9, 12, 1)
    x[4, 3] = np.nan
    several = Several()
    several.add("DFT", [x], [pairs(np.fft.fft(complexes(x)))], FOURIER[np.float32])
    exact = several.wanted[0][1]
    exact[4] = np.nan
    several.check()


# -- losses and optimizers -------------------------------------------------------------------------

LOSS = Rounding(ulp=8, abs=1e-5)


def losses() -> Iterator[tuple[Any, Any, Any, str, int | None]]:
    for shape, weighed, reduction, ignore in itertools.product(
        ((5, 4), (2, 4, 6), (2, 4, 3, 2), (1, 4, 2, 3, 2)),
        (False, True),
        ("mean", "sum", "none"),
        (None, 2, -100),
    ):
        classes = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
        if ignore is not None:
            classes.reshape(-1)[::3] = ignore
        yield (
            floats(*shape),
            classes,
            np.abs(floats(4)) + 0.1 if weighed else None,
            reduction,
            ignore,
        )


def test_losses_agree_with_pytorch() -> None:
    several = Several()
    for scores, classes, weights, reduction, ignore in losses():
        wide = torch.tensor(scores, dtype=torch.float64)
        more: dict[str, Any] = {
            "reduction": reduction,
            "ignore_index": -7 if ignore is None else ignore,
        }
        more["weight"] = None if weights is None else torch.tensor(weights, dtype=torch.float64)
        target = torch.tensor(classes)
        given = [scores, classes] if weights is None else [scores, classes, weights]
        options = {"reduction": reduction, "ignore_index": ignore}
        exact = torch.nn.functional.nll_loss(wide, target, **more).numpy()
        several.add("NegativeLogLikelihoodLoss", given, [exact], LOSS, **options)
        wanted = [
            torch.nn.functional.cross_entropy(wide, target, **more).numpy(),
            wide.log_softmax(1).numpy(),
        ]
        several.add("SoftmaxCrossEntropyLoss", given, wanted, LOSS, **options)
    several.check()


def test_optimizers_agree_with_pytorch() -> None:
    """A first step of PyTorch's is one with the count 1, whose epsilon stands beside the root
    without bias.
    """
    x, g, v, h = floats(3, 4), floats(3, 4), floats(3, 4), np.abs(floats(3, 4))
    rate, several = np.float32(0.01), Several()
    one = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    one.grad = torch.tensor(g, dtype=torch.float64)
    torch.optim.Adam([one], lr=0.01, eps=0.0).step()
    zeros = np.zeros_like(x)
    several.add(
        "Adam",
        [rate, np.array(1), x, g, zeros, zeros],
        [one.detach().numpy()],
        Rounding(ulp=8, abs=1e-6),
        domain=TRAINING,
        epsilon=0.0,
    )
    two = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    two.grad = torch.tensor(g, dtype=torch.float64)
    optimizer = torch.optim.SGD([two], lr=0.01, momentum=0.9, nesterov=True)
    optimizer.state[two]["momentum_buffer"] = torch.tensor(v, dtype=torch.float64)
    optimizer.step()
    options = {"alpha": 0.9, "beta": 1.0, "mode": "nesterov", "norm_coefficient": 0.0}
    given = [rate, np.array(3), x, g, v]
    several.add(
        "Momentum",
        given,
        [two.detach().numpy()],
        Rounding(ulp=8, abs=1e-6),
        domain=TRAINING,
        **options,
    )
    three = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    three.grad = torch.tensor(g, dtype=torch.float64)
    adagrad = torch.optim.Adagrad([three], lr=0.01, eps=1e-3, lr_decay=0.5)
    adagrad.state[three]["sum"].copy_(torch.tensor(h, dtype=torch.float64))
    adagrad.step()
    options = {"epsilon": 1e-3, "decay_factor": 0.5}
    given = [rate, np.array(0), x, g, h]
    several.add(
        "Adagrad",
        given,
        [three.detach().numpy()],
        Rounding(ulp=8, abs=1e-6),
        domain=TRAINING,
        **options,
    )
    several.check()


def test_gradient_says_that_it_cannot_run() -> None:
    graph = Graph("gradient")
    x = graph.add_input("x", TensorType(dtypes.float32, (2,)))
    op = make_operator(TRAINING, "Gradient", {"xs": ("x",), "y": "y"})
    node = graph.add_node(Node(op, [x], [Value(UNKNOWN, "dx")], name="gradient"))
    node.op.infer_node(node)
    assert node.output.type == x.type
    graph.add_output(node.output, "dx")
    with (
        compile_graph(graph) as model,
        pytest.raises(InfuseError, match="differentiates the graph"),
    ):
        model.run({"x": np.zeros(2, np.float32)})


# -- attention with bodies -------------------------------------------------------------------------


def flexed(several: Several, shapes: Sequence[tuple[int, ...]], **attributes: Any) -> None:
    """Attention whose scores are capped and whose weights are halved, and how PyTorch does it."""
    q, k, v = (floats(*shape) for shape in shapes)
    bodies = {}
    for name, kinds in (("score_mod", ("Tanh",)), ("prob_mod", ("Neg", "Abs"))):
        body = Graph(name)
        value = body.add_input("x", UNKNOWN)
        for kind in kinds:
            node = body.add_node(
                Node(make_operator("", kind, {}), [value], [Value(UNKNOWN, kind)], name=kind)
            )
            value = node.output
        body.add_output(value, "y")
        bodies[name] = body
    inputs = [several.input(x) for x in (q, k, v)]
    op = make_operator("ai.onnx.preview", "FlexAttention", attributes)
    node = several.graph.add_node(
        Node(op, inputs, [Value(UNKNOWN, "flexed")], name="flex", subgraphs=bodies)
    )
    node.op.infer_node(node)
    several.graph.add_output(node.output, f"y{len(several.wanted)}")
    wide = [torch.tensor(x, dtype=torch.float64) for x in (q, k, v)]
    keys, values = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in wide[1:])
    scores = wide[0] @ keys.transpose(2, 3) * attributes.get("scale", q.shape[3] ** -0.5)
    exact = torch.softmax(torch.tanh(scores), dim=-1) @ values
    several.wanted.append(("FlexAttention", exact.numpy(), Rounding(ulp=8, abs=4e-6)))


def test_attention_goes_through_its_bodies() -> None:
    several = Several()
    flexed(several, [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)])
    flexed(several, [(1, 6, 4, 8), (1, 2, 9, 8), (1, 2, 9, 16)], scale=0.25)
    flexed(several, [(1, 4, 1, 8), (1, 4, 3, 8), (1, 4, 3, 8)], softmax_precision=dtypes.float64)
    several.check()


# -- unique elements -------------------------------------------------------------------------------


def uniques(x: Any, axis: int | None, sorted_: int) -> list[Any]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted_:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [values, first, inverse, counts]


def test_unique_elements_and_slices_of_every_type() -> None:
    several = Several()
    numbers = [
        RNG.integers(0, 5, (4, 3, 6)).astype(t)
        for t in (np.int8, np.uint16, np.int32, np.uint64, np.float64)
    ]
    special = np.array([3, np.nan, 0.0, -0.0, np.inf, np.nan, 3, -np.inf], np.float32)
    columns = np.array([[1, np.nan, 1, 0], [2, 1, 2, 0]], np.float32)
    rows = [
        *numbers,
        numbers[0] > 2,
        special,
        np.zeros((0,), np.float32),
        np.float32(4),
        numbers[4].astype(np.float16),
    ]
    for x, sorted_ in itertools.product(rows, (0, 1)):
        for axis in (None, *range(-1, x.ndim - 1)) if x.size > 8 else (None,):
            several.add(
                "Unique", [x], uniques(x, axis, sorted_), Rounding(ulp=0), axis=axis, sorted=sorted_
            )
    several.add("Unique", [columns], uniques(columns, 1, 1), Rounding(ulp=0), axis=1, symbolic=True)
    several.check()


# -- Einstein's summation --------------------------------------------------------------------------

EQUATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("i->", ((5,),)),
    ("->", ((),)),
    ("iii->i", ((3, 3, 3),)),
    ("iijj->ij", ((2, 2, 3, 3),)),
    ("ijij", ((2, 3, 2, 3),)),
    ("...ii->...", ((2, 4, 3, 3),)),
    ("...->...", ((2, 3),)),
    ("...i,...i", ((2, 1, 4), (3, 4))),
    ("i...,i...->...", ((4, 2), (4, 2))),
    ("ij...,jk...->ik...", ((2, 3, 1), (3, 4, 5))),
    ("ab,bc,cd,de->ae", ((2, 3), (3, 4), (4, 2), (2, 5))),
    ("a,b,c->abc", ((2,), (3,), (4,))),
    ("ij,ij,ij->", ((3, 4), (3, 4), (3, 4))),
    ("ij,->ij", ((2, 3), ())),
    ("aB,Bc->cA".replace("A", "a"), ((2, 3), (3, 4))),
    ("ii,jj->ij", ((2, 2), (3, 3))),
    ("bij,bjk,bk->bi", ((2, 3, 4), (2, 4, 5), (2, 5))),
    ("ji", ((2, 3),)),
    ("i,i", ((1,), (4,))),
    ("ij,jk", ((2, 1), (3, 4))),
    ("hq...,k...->...qk", ((2, 3, 4), (5, 4))),
)


@pytest.mark.parametrize("symbolic", [False, True], ids=["known sizes", "open sizes"])
def test_summation_in_every_form(symbolic: bool) -> None:
    several = Several()
    for equation, shapes in EQUATIONS:
        if symbolic and any(
            1 in s or len(set(t)) < len(t)
            for s, t in zip(shapes, equation.split("->")[0].split(","))
        ):
            continue
        for dtype in (np.float32, np.float64, np.int32):
            xs = [(floats(*s) * 8).astype(dtype) for s in shapes]
            exact = np.einsum(equation, *(x.astype(np.float64) for x in xs))
            wanted = np.asarray(exact).astype(np.float64 if dtype != np.int32 else dtype)
            several.add(
                "Einsum",
                xs,
                [wanted],
                Rounding(ulp=4, abs=2e-6),
                equation=equation,
                symbolic=symbolic,
            )
    several.check()


# -- numbers that are none -------------------------------------------------------------------------


def test_extremes_take_what_is_no_number() -> None:
    nan, inf = np.nan, np.inf
    several, exact = Several(), Rounding(ulp=0)
    for dtype in (np.float32, np.float64, np.float16):
        a, b = np.array([1, nan, nan, inf, 0], dtype), np.array([nan, 2, nan, -inf, 1], dtype)
        several.add("Max", [a, b], [np.maximum(a, b)], exact)
        several.add("Min", [a, b], [np.minimum(a, b)], exact)
        several.add("Clip", [a, dtype(0.5), dtype(2)], [np.clip(a, 0.5, 2).astype(dtype)], exact)
        wide = RNG.choice([0, 1, 2, nan, inf], (7, 75), p=[0.3, 0.3, 0.3, 0.05, 0.05]).astype(dtype)
        for rows in (np.array([[1, nan, 3, nan, -inf], [5, 5, inf, inf, 1]], dtype), wide):
            for kind, axis, last in itertools.product(("ArgMax", "ArgMin"), (0, 1), (0, 1)):
                find = np.argmax if kind == "ArgMax" else np.argmin
                size = rows.shape[axis]
                first = find(rows, axis=axis)
                flipped = size - 1 - find(np.flip(rows, axis), axis=axis)
                options = {"axis": axis, "keepdims": 0, "select_last_index": last}
                several.add(kind, [rows], [flipped if last else first], exact, **options)
    several.check()


# -- bad input -------------------------------------------------------------------------------------

BAD: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "a transform of no length": ("DFT", [floats(2, 4, 1), np.array(0)], {}),
    "a transform along the parts": ("DFT", [floats(2, 4, 2), None, np.array(2)], {}),
    "a transform along no axis": ("DFT", [floats(2, 4, 2), None, np.array(-4)], {}),
    "frames that do not move": ("STFT", [floats(1, 9, 1), np.array(0), None, np.array(3)], {}),
    "frames longer than the signal": (
        "STFT",
        [floats(1, 9, 1), np.array(1), None, np.array(10)],
        {},
    ),
    "filters outside of the spectrum": (
        "MelWeightMatrix",
        [np.array(4), np.array(16), np.array(100), np.float32(0), np.float32(90)],
        {},
    ),
    "a class that there is not": (
        "NegativeLogLikelihoodLoss",
        [floats(2, 3), np.array([0, 3])],
        {},
    ),
    "a cache that is too short": (
        "TensorScatter",
        [floats(2, 5, 3), floats(2, 2, 3), np.array([0, 4])],
        {},
    ),
    "a sum along no axis": ("CumSum", [floats(2, 3), np.array(2)], {}),
    "a reduction along no axis": ("ReduceSum", [floats(2, 3), np.array([-3])], {}),
}


def _bad_model(name: str) -> Any:
    kind, inputs, attributes = BAD[name]
    several = Several()
    several.add(kind, inputs, [None], Rounding(), **attributes)
    return several


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_an_error(name: str) -> None:
    several = _bad_model(name)
    generate(several.graph, Target.resolve("x86-64"))
    with compile_graph(several.graph) as model, pytest.raises(RuntimeFailure):
        model.run(several.feeds)
