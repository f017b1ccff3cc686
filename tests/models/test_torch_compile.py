"""`torch.compile(backend="infuse")` against torch itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
import torch

from infuse.dynamo import backend, report

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.compile leaves a part:RuntimeWarning"),
]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The compiled models, as they are made."""
    import infuse.api

    models: list[Any] = []
    compile_graph = infuse.api.compile

    def compile(*args: Any, **options: Any) -> Any:
        models.append(compile_graph(*args, **options))
        return models[-1]

    monkeypatch.setattr(infuse.api, "compile", compile)
    return models


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    result: Callable[..., Any] = torch.compile(function, backend=backend, **options)
    return result


class Block(torch.nn.Module):
    """A layer that counts its calls, with attention over the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.calls.add_(1)
        y = torch.relu(self.norm(self.linear(x)))[None, None]
        y = torch.nn.functional.scaled_dot_product_attention(y, y, y)[0, 0]
        return y, y.t(), x.view(-1)


def test_torch_knows_the_backend_by_name() -> None:
    (point,) = entry_points(group="torch_dynamo_backends", name="infuse")
    assert point.load() is backend
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(torch.sin, backend="infuse")(x), x.sin())


def test_sizes_that_change_are_compiled_once_more(graphs: list[Any]) -> None:
    module = Block().eval()
    function = compiled(module)
    for rows in (3, 5, 7, 9):
        x = torch.randn(rows, 8)
        results = function(x)
        for result, expected in zip(results, module(x)):
            torch.testing.assert_close(result, expected)
            assert result.stride() == expected.stride()
        assert results[2].data_ptr() == x.data_ptr()  # a view stays one
    assert module.calls == 8
    assert len(graphs) == 2


def test_weights_are_constants_until_they_change(graphs: list[Any]) -> None:
    module = Block().eval()
    function, x = compiled(module), torch.randn(3, 8)
    for number in range(6):
        torch.testing.assert_close(function(x)[0], module(x)[0])
        torch.testing.assert_close(function(x)[0], module(x)[0])
        assert len(graphs) == min(number + 1, 4)
        module.linear.weight.mul_(1.5)
    assert [len(model.inputs) for model in graphs] == [2, 2, 2, 3]  # the count, x; the weight


def test_graphs_break_where_python_decides(graphs: list[Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y.exp() if y.sum() > 0 else y - 1

    for x in (torch.ones(4), -torch.ones(4)):
        torch.testing.assert_close(compiled(function)(x), function(x))
    assert len(graphs) == 3


def test_inputs_may_change_in_place_and_lie_anyhow() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[1:].mul_(2)
        return x + y

    x, y = torch.randn(4, 3), torch.randn(3, 4).t()
    copy = x.clone()
    torch.testing.assert_close(compiled(function)(x, y), function(copy, y))
    torch.testing.assert_close(x, copy)


def test_element_types_and_numbers() -> None:
    def function(x: torch.Tensor, n: int) -> tuple[Any, ...]:
        return x.to(torch.bfloat16) * 2, x > 0, x.long(), x.shape[0] + n, x.sum()

    x = torch.randn(5, 2, 3)
    for number in (1, 2, 3):
        results = compiled(function, dynamic=True)(x, number)
        for result, expected in zip(results, function(x, number)):
            assert type(result) is type(expected)
            torch.testing.assert_close(result, expected)


def test_channels_last_results_stay_so() -> None:
    module = torch.nn.Conv2d(3, 4, 3).eval().to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 6, 6).to(memory_format=torch.channels_last)
    result, expected = compiled(module)(x), module(x)
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result, expected)


def test_results_may_be_empty_and_none() -> None:
    def function(x: torch.Tensor) -> tuple[Any, ...]:
        return x[:0] * 2, None, x + 1

    x = torch.randn(2, 3)
    for result, expected in zip(compiled(function)(x), function(x)):
        assert (result is None) == (expected is None)
        if expected is not None:
            torch.testing.assert_close(result, expected)


def test_options_go_to_the_compiler(graphs: list[Any]) -> None:
    module = torch.nn.Linear(8, 8).eval()
    x = torch.randn(2, 8)
    result = compiled(module, options={"precision": "fp16", "threads": 1})(x)
    torch.testing.assert_close(result, module(x), atol=1e-2, rtol=1e-2)
    (model,) = graphs
    assert model.threads == 1
    assert model.metadata["precision"] == "fp16"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"options": {"fast": True}}, "no option fast"),
        ({"mode": "reduce-overhead"}, "no mode 'reduce-overhead'"),
    ],
)
def test_other_options_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(torch.sin, **how)(torch.ones(2))


def test_gradients_are_refused() -> None:
    with torch.enable_grad(), pytest.raises(Exception, match="computes no gradients"):
        compiled(torch.sin)(torch.ones(2, requires_grad=True))


def test_operators_that_are_missing_are_named() -> None:
    with pytest.raises(Exception, match=r"aten\._linalg_eigh"):
        compiled(torch.linalg.eigh)(torch.eye(3))


class Tagger(torch.nn.Module):
    """A recurrent layer between others."""

    def __init__(self, layer: type[torch.nn.Module]) -> None:
        super().__init__()
        self.layer, self.linear = layer(4, 8, batch_first=True), torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(self.layer(torch.relu(x))[0])
        return result


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_what_torch_does_not_trace_is_reported(layer: type[torch.nn.Module]) -> None:
    report()
    module, x = Tagger(layer).eval(), torch.randn(2, 5, 4)
    with pytest.warns(RuntimeWarning, match=r"leaves a part of Tagger\.forward .*from_torch"):
        result = compiled(module)(x)
    torch.testing.assert_close(result, module(x))
    made = report()
    assert (made.graphs, made.operators) == (0, 0)
    (reason,) = made.breaks
    assert f"({layer.__name__}(4, 8, batch_first=True))" in reason
    assert "nothing" in str(made)
    assert f"{__file__}:" in str(made)


def test_parts_are_counted_and_the_warning_comes_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + 1
        return y.exp() * 3 - 1 if y.sum() > 0 else y

    report()
    again = compiled(function)
    with pytest.warns(RuntimeWarning, match="leaves a part of") as warned:
        torch.stack([compiled(function)(torch.ones(4)), again(torch.ones(4, 2))[:, 0]])
    assert sum("leaves a part" in str(each.message) for each in warned) == 1
    made = report()
    assert made.graphs >= 2
    assert made.traced[0].operators == 4  # sin, +, sum, >
    assert made.traced[0].graphs[0]["sin"] == 1
    assert made.traced[0].breaks
    assert made.traced[1].operators == 3  # exp, *, -
    torch._dynamo.reset()
    assert report().traced == ()


def test_other_backends_and_whole_programs_are_not_warned_of(
    recwarn: pytest.WarningsRecorder,
) -> None:
    report()
    x = torch.randn(2, 5, 4)
    torch.compile(Tagger(torch.nn.LSTM).eval(), backend="eager")(x)
    assert report().traced == ()
    compiled(torch.nn.Linear(4, 3))(x)
    assert (report().graphs, report().operators, report().breaks) == (1, 1, ())
    assert not [each for each in recwarn if "leaves a part" in str(each.message)]
