"""Programs of TorchScript against torch: control flow, changes in place, modules, states."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Dict, List, NamedTuple, Tuple  # noqa: UP035  torch's words

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import infuse
from infuse.errors import InfuseError, InputError, ModelFileError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from tests.models.torchscript_cases import LETTERS
from tests.models.torchscript_programs import PROGRAMS, REFUSED
from tests.models.torchscript_tools import (
    apart,
    compare,
    difference,
    module_from,
    read,
    saved,
    scripted,
    traced,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
ALLOWED = 1e-5


def parts(body: str) -> list[str]:
    return [n for n in "fgvisk" if re.search(rf'(?<![\w."]){n}(?![\w"])', body)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*check of:UserWarning")
def test_a_program_is_what_torch_computes(name: str) -> None:
    module = module_from(PROGRAMS[name], parts(PROGRAMS[name]))
    inputs = {n: LETTERS[n] for n in parts(PROGRAMS[name])}
    graph = read(module, inputs)
    assert compare(graph, module, inputs) < ALLOWED
    others = {n: -x if x.is_floating_point() else x + 1 for n, x in inputs.items()}
    assert compare(graph, module, others) < ALLOWED


@pytest.mark.parametrize(
    "name", [n for n in PROGRAMS if n not in ("comprehension", "format", "parts changed")]
)
@pytest.mark.filterwarnings("ignore:.*check of:UserWarning")
def test_a_first_size_may_be_a_symbol(name: str) -> None:
    module = module_from(PROGRAMS[name], parts(PROGRAMS[name]))
    assert difference(module, {n: LETTERS[n] for n in parts(PROGRAMS[name])}, "batch") < ALLOWED


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_is_refused(name: str) -> None:
    body, words = REFUSED[name]
    with pytest.raises(UnsupportedOperatorError, match=words):
        read(module_from(body, parts(body)), {n: LETTERS[n] for n in parts(body)})


class Pair(NamedTuple):
    a: Tensor
    n: int


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.scales = {"scale": 2.0}
        self.sizes = [1, 2]

    def pair(self, x: Tensor, k: int = 2) -> Pair:
        return Pair(x * k, k)

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        flag: bool = True,
    ) -> Dict[str, Tensor]:  # noqa: UP006
        z = x
        for i, layer in enumerate(self.layers):
            z = layer(z) + i
        if y is not None:
            z = z + y
        p = self.pair(z)
        if flag:
            return {"u": z * self.scales["scale"], "p": p.a * len(self.sizes)}
        return {"u": z}


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.total += x.sum(0)
        self.count += 1
        return self.total / self.count


class History(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))
        self.last: float = 0.5

    def forward(self, x: Tensor) -> Tensor:
        self.rows = torch.cat([self.rows[1:], x.mean(0, keepdim=True)])
        if bool(x.sum() > 0):
            self.last = float(x.max())
        return self.rows.mean(0) + self.last


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer = kind(4, 5, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(x)
        return y


class Nested(nn.Module):
    def forward(self, xs: List[Tensor], pair: Tuple[Tensor, Tensor]) -> Tensor:  # noqa: UP006
        return torch.cat(xs, 0) + pair[0] * pair[1]


class Fresh(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(0)

    def forward(self, x: Tensor, rate: int) -> Tensor:
        if rate != 8000:
            raise ValueError(f"no rate {rate}")
        if not len(self.state):
            self.state = torch.zeros([x.size(0), 4])
        self.state = self.state * 0.5 + x
        return self.state


X = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(8, 3),
    )  # fmt: skip


def test_modules_calls_and_options() -> None:
    module = scripted(Mixed())
    assert difference(module, {"x": X}) < ALLOWED
    assert difference(module, {"x": X, "y": X, "flag": False}) < ALLOWED
    assert difference(torch.jit.freeze(module), {"x": X}) < ALLOWED
    assert read(module, {"x": X}).output_names == ["u", "p"]


@pytest.mark.parametrize("kind", [Sums, History])
def test_what_a_program_changes_is_a_state(kind: Callable[[], nn.Module]) -> None:
    module = scripted(kind())
    graph = read(module, {"x": X})
    states = {v.name: v.default for v in graph.inputs if v.default is not None}
    for step in range(4):
        x = X * (step - 1.5)
        expected = module(x)
        outputs = evaluate(graph, {"x": x.numpy(), **states})
        assert apart(outputs["output"], expected) < ALLOWED
        states = {n[:-4]: v for n, v in outputs.items() if n.endswith(".out")}
    assert len(states) == 2


def test_a_state_may_be_described() -> None:
    module = scripted(Fresh())
    with pytest.raises(InfuseError, match="state"):
        infuse.from_torchscript(saved(module), {"x": ("float32", (2, 4)), "rate": 8000})
    said = {"x": ("float32", (2, 4)), "rate": 8000, "state": infuse.Spec("float32", (2, 4))}
    graph = infuse.from_torchscript(saved(module), said)
    state = np.zeros((2, 4), np.float32)
    for _ in range(3):
        outputs = evaluate(graph, {"x": X.numpy(), "state": state})
        assert apart(outputs["output"], module(X, 8000)) < ALLOWED
        state = outputs["state.out"]
    with pytest.raises(ModelFileError, match="raises an error"):
        infuse.from_torchscript(saved(module), {**said, "rate": 1})


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    x = torch.randn(2, 3, 4)
    assert difference(scripted(Recurrent(kind)), {"x": x}, "batch") < ALLOWED
    module = traced(Recurrent(kind), x)
    assert compare(infuse.load(saved(module)), module, {"x": x}) < ALLOWED


def test_attention() -> None:
    module = scripted(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))
    assert difference(module, {"src": torch.randn(2, 3, 8)}) < ALLOWED


@pytest.mark.parametrize("form", ["traced", "scripted", "frozen"])
def test_convolutions(form: str) -> None:
    x = torch.randn(2, 3, 12, 12)
    module = traced(convolutions(), x) if form == "traced" else scripted(convolutions())
    module = torch.jit.freeze(module) if form == "frozen" else module
    assert difference(module, {"input": x}) < ALLOWED
    assert difference(module, {"input": x}, "batch") < ALLOWED


def test_lists_and_tuples_of_tensors_are_inputs() -> None:
    module = scripted(Nested())
    said = {"xs": [("float32", (2, 4))] * 2, "pair": (infuse.Spec("float32", (4, 4)),) * 2}
    graph = infuse.from_torchscript(saved(module), said)
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    feeds = {"xs_0": X, "xs_1": X, "pair_0": a, "pair_1": b}
    outputs = evaluate(graph, {name: x.numpy() for name, x in feeds.items()})
    assert apart(outputs["output"], module([X, X], (a, b))) < ALLOWED


def test_a_shape_that_the_file_does_not_say_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"inputs=\{'x': infuse.Spec"):
        infuse.load(saved(scripted(Mixed())))


def test_an_axis_that_may_have_size_one_is_not_left_out() -> None:
    module = module_from("return f.squeeze(0)", ["f"])
    assert difference(module, {"f": LETTERS["f"][:1]}) < ALLOWED
    with pytest.raises(UnsupportedOperatorError, match="size batch"):
        read(module, {"f": LETTERS["f"]}, "batch")


def test_weights_alone_are_told(tmp_path: Any) -> None:
    torch.save(convolutions().state_dict(), tmp_path / "weights.pth")
    with pytest.raises(ModelFileError, match=r"weights only .* and no graph"):
        infuse.load(tmp_path / "weights.pth")
    torch.save(convolutions(), tmp_path / "module.pth")
    with pytest.raises(ModelFileError, match="no graph"):
        infuse.load(tmp_path / "module.pth")


def test_an_operator_that_is_not_known_is_named() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"torch\.fft_fft"):
        read(module_from("return torch.fft.fft(f)", ["f"]), {"f": LETTERS["f"]})
