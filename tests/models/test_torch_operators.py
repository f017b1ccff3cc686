"""Operators of torch as Infuse's importer builds them, against torch on the samples of torch's own
tests: a part of `python -m benchmarks.torch_operators`.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

import infuse
from infuse.errors import InputError, UnsupportedOperatorError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

# -- operators -------------------------------------------------------------------------------------

EVERY = 19
"""Of the operators of torch's table, one in so many is compared here."""
KNOWN = ("refused: ", "aten.group_norm", "aten.native_group_norm")
"""What is not right: forms that are refused with an error, and groups of images that are none."""


@pytest.mark.parametrize("symbolic", [False, True])
def test_operators_give_what_torch_gives(symbolic: bool) -> None:
    pytest.importorskip("expecttest", reason="torch's own tests need it")
    from torch.testing._internal.common_methods_invocations import op_db

    from benchmarks.torch_calls import checked, recorded

    operators = op_db[1 + symbolic :: EVERY]
    right, wrong = 0, []
    for call in recorded(operators, [torch.float32, torch.int64, torch.bool], 1):
        why = checked(call, symbolic)
        right += not why
        if why and not why.startswith(KNOWN) and not call.overload.startswith(KNOWN):
            wrong.append(f"{call.signature}: {why}")
    assert not wrong, "\n".join(wrong)
    assert right > 60


# -- programs --------------------------------------------------------------------------------------


def compared(module: torch.nn.Module, *args: torch.Tensor, compiled: bool = False) -> Graph:
    """The graph of a module, which gives what the module gives."""
    graph = infuse.from_torch(module.eval(), args)
    same(graph, module, *args, compiled=compiled)
    return graph


def same(graph: Graph, module: Any, *args: torch.Tensor, compiled: bool = False) -> None:
    """Assert that a graph gives what a module gives."""
    names = [v.name for v in graph.inputs if v.default is None]
    feeds = {name: arg.numpy() for name, arg in zip(names, args, strict=True)}
    run = infuse.compile(graph).run if compiled else lambda feeds: evaluate(graph, feeds)
    outputs = [v for k, v in run(feeds).items() if not k.endswith(".out")]
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(module(*args))
    assert len(outputs) == len(expected)
    for output, reference in zip(outputs, expected):
        np.testing.assert_allclose(output, reference.numpy(), rtol=1e-4, atol=1e-5)


class Layers(torch.nn.Module):
    """A recurrent layer of one kind."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layer = kind(5, 4, **options)

    def forward(self, x: torch.Tensor) -> Any:
        """All results."""
        return self.layer(x)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
        (torch.nn.LSTM, {"bias": False}),
        (torch.nn.GRU, {"num_layers": 2, "bidirectional": True}),
        (torch.nn.GRU, {"batch_first": True}),
        (torch.nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
        (torch.nn.RNN, {}),
    ],
)
def test_recurrent_layers_have_their_gates_in_order(kind: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    compared(Layers(kind, **options), torch.randn(3, 6, 5))


class Cache(torch.nn.Module):
    """Keys of the steps so far, in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 8, 4))
        self.register_buffer("step", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of what is in the cache, after one more step."""
        self.keys.index_copy_(1, self.step, x)
        self.step.add_(1)
        return self.keys.sum(1)


def test_buffers_that_change_are_inputs_and_outputs() -> None:
    module = Cache().eval()
    graph = infuse.from_torch(module, (torch.randn(1, 1, 4),))
    assert {v.name for v in graph.inputs if v.default is not None} == {"keys", "step"}
    assert graph.output_names[:2] == ["keys.out", "step.out"]
    state: dict[str, Any] = {}
    for _ in range(3):
        x = torch.randn(1, 1, 4)
        *new, total = evaluate(graph, {"x": x.numpy(), **state}).values()
        state = dict(zip(("keys", "step"), new))
        np.testing.assert_allclose(total, module(x).numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state["keys"], module.keys.numpy())
    assert state["step"] == 3


class Loop(torch.nn.Module):
    """Doubles until a count is reached."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> Any:
        """The count, and the last state."""
        from torch._higher_order_ops.while_loop import while_loop

        start = (torch.zeros((), dtype=torch.int64), x)
        return while_loop(lambda i, a: i < count, lambda i, a: (i + 1, a * 2), start)


class Scanned(torch.nn.Module):
    """A sum of rows as they come."""

    def forward(self, state: torch.Tensor, rows: torch.Tensor) -> Any:
        """The last state, and all products."""
        from torch._higher_order_ops.scan import scan

        weight = state * 0.5
        return scan(lambda c, x: (c + x * weight, c * x), state, rows, dim=0)


class Mapped(torch.nn.Module):
    """The same of every row."""

    def forward(self, rows: torch.Tensor, y: torch.Tensor) -> Any:
        """All results."""
        from torch._higher_order_ops.map import map as over

        return over(lambda x, y: x * y + 1, rows, y)


def test_loops_are_read() -> None:
    graph = compared(Loop(), torch.randn(3), torch.tensor(4))
    same(graph, Loop(), torch.randn(3), torch.tensor(0))
    compared(Scanned(), torch.randn(3), torch.randn(5, 3))
    compared(Mapped(), torch.randn(4, 3), torch.randn(3))


# -- names of sizes --------------------------------------------------------------------------------


class Pair(torch.nn.Module):
    """Takes a list and a named input."""

    def forward(self, xs: list[torch.Tensor], scale: torch.Tensor) -> torch.Tensor:
        """Their sum."""
        return (xs[0] + xs[1]) * scale


def test_sizes_have_the_names_of_their_dims() -> None:
    linear = torch.nn.Linear(4, 5).eval()
    batch = torch.export.Dim("batch")
    for shapes in ({"input": {0: batch}}, ({0: "batch"},), [{0: batch}]):
        graph = infuse.from_torch(linear, (torch.randn(3, 4),), dynamic_shapes=shapes)
        assert str(graph.inputs[0].type) == "float32[batch, 4]"
        same(graph, linear, torch.randn(7, 4))
    graph = infuse.from_torch(
        Pair().eval(),
        ([torch.randn(3, 2), torch.randn(3, 2)],),
        {"scale": torch.randn(2)},
        dynamic_shapes={"xs": [{0: "rows"}, {0: "rows"}], "scale": None},
    )
    assert [str(v.type) for v in graph.inputs] == [
        *("float32[rows, 2]", "float32[rows, 2]", "float32[2]")
    ]


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="not a name"):
        infuse.from_torch(torch.nn.ReLU().eval(), (torch.randn(3),), dynamic_shapes=({0: "a b"},))


# -- in place --------------------------------------------------------------------------------------


class InPlace(torch.nn.Module):
    """Changes a tensor that nothing else shares."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Twice x, plus one, without what is negative, plus itself."""
        y = x * 2
        z = y.add_(1)
        y.relu_()
        return y + z


class Shared(torch.nn.Module):
    """Changes a tensor whose first row is read later."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The row."""
        y = x * 2
        row = y[0]
        y.add_(1)
        return row + 1


def written(module: torch.nn.Module, *args: torch.Tensor) -> bytes:
    """The file of a program that was not made functional."""
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(module.eval(), args), buffer)
    return buffer.getvalue()


def test_changes_in_place_are_made_where_nothing_shares() -> None:
    x = torch.randn(3, 2)
    same(infuse.load(written(InPlace(), x)), InPlace(), x)
    with pytest.raises(UnsupportedOperatorError, match="shares"):
        infuse.load(written(Shared(), x))
    compared(Shared(), x)


class ChangedInput(torch.nn.Module):
    """Changes its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X plus one."""
        return x.add_(1)


def test_a_change_of_an_input_is_refused_or_an_output() -> None:
    with pytest.raises(UnsupportedOperatorError, match="changes an input"):
        infuse.load(written(ChangedInput(), torch.randn(3)))
    graph = infuse.from_torch(ChangedInput().eval(), (torch.randn(3),))
    assert graph.output_names[0] == "x.out"


# -- what torch takes apart ------------------------------------------------------------------------


class Rare(torch.nn.Module):
    """Operators that Infuse does not read."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A sum of theirs."""
        return torch.special.ndtr(x) + torch.kron(x, x)[:3] + torch.nn.functional.huber_loss(x, -x)


def test_torch_takes_apart_what_is_not_read() -> None:
    compared(Rare(), torch.randn(3))


def test_all_operators_that_are_missing_are_named() -> None:
    class Missing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.linalg.lu(x)[0], torch.linalg.householder_product(x, x[0])

    with pytest.raises(UnsupportedOperatorError) as caught:
        infuse.from_torch(Missing().eval(), (torch.randn(3, 3),))
    assert "linalg_lu" in str(caught.value)
    assert "linalg_householder_product" in str(caught.value)


def test_a_network_is_right_when_compiled() -> None:
    torch.manual_seed(0)
    attention = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    graph = infuse.from_torch(
        attention.eval(), (torch.randn(2, 5, 16),), dynamic_shapes={"src": {0: "batch"}}
    )
    same(graph, attention, torch.randn(3, 5, 16), compiled=True)


# -- complex numbers -------------------------------------------------------------------------------


class Spectrum(torch.nn.Module):
    """Magnitudes of frames, and what comes back of their transform."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        z = torch.fft.irfft(torch.fft.rfft(x)[..., :20] * 2, n=40, norm="ortho")
        return y.abs(), torch.view_as_real(y.conj().resolve_conj()), y.angle().cos(), z


class Rotary(torch.nn.Module):
    """Places as complex factors, as the first Llama had them."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
        self.register_buffer("factors", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.factors).flatten(-2)


def test_complex_numbers_inside_of_a_program() -> None:
    torch.manual_seed(0)
    compared(Spectrum(), torch.randn(2, 64), compiled=True)
    compared(Rotary(), torch.randn(3, 5, 4), compiled=True)


def test_fourier_transforms_give_what_torch_gives() -> None:
    pytest.importorskip("expecttest", reason="torch's own tests need it")
    from torch.testing._internal.common_methods_invocations import op_db

    from benchmarks.torch_calls import checked, recorded

    operators = [op for op in op_db if op.name.startswith("fft.")]
    every = recorded(operators, [torch.float32, torch.complex64], 2)
    calls = [call for call in every if "_fft_" in call.overload]
    assert len(calls) > 20
    assert not [f"{call.signature}: {why}" for call in calls if (why := checked(call))]


@pytest.mark.parametrize("place", ["input", "output"])
def test_complex_inputs_and_outputs_are_refused(place: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.real * 2 if place == "input" else torch.fft.rfft(x)

    x = torch.zeros(4, dtype=torch.complex64 if place == "input" else torch.float32)
    with pytest.raises(UnsupportedOperatorError, match=f"the {place} .* is complex"):
        infuse.from_torch(Module().eval(), (x,))


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("symbolic", [False, True])
def test_windows_of_windows(symbolic: bool, decomposed: bool) -> None:
    """Decomposed, they are views of the storage of what they are windows of."""

    class Windows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            padded = torch.nn.functional.pad(x, [1, 1, 1, 1])
            blocks = padded.unfold(2, 4, 2).unfold(-2, 4, 3)
            return blocks.reshape(x.shape[0], 3, -1, 16), x.unfold(0, 1, 1)

    x = torch.randn(2, 3, 8, 10)
    sizes = {"x": {0: torch.export.Dim("batch", max=9)}} if symbolic else None
    program = torch.export.export(Windows(), (x,), dynamic_shapes=sizes)
    graph = infuse.from_torch(program.run_decompositions() if decomposed else program)
    results = evaluate(graph, {"x": x.numpy()}).values()
    for result, right in zip(results, Windows()(x), strict=True):
        np.testing.assert_array_equal(result, right.numpy())
