"""Recurrent modules of torch with sequences of several lengths: the ways of docs/frontends.md."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import infuse
from infuse.errors import UnsupportedOperatorError

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
LAYERS = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)


class Packed(torch.nn.Module):
    """Both directions, without the padding."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer(4, 8, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y: torch.Tensor = pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]
        return y


class Last(torch.nn.Module):
    """One direction, the last step of each row."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer(4, 8, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)[0]
        last: torch.Tensor = y[torch.arange(x.shape[0]), lengths - 1]
        return last


def check(model: Any, module: torch.nn.Module, shapes: list[tuple[int, list[int]]]) -> None:
    for time, lengths in shapes:
        x, counts = torch.randn(len(lengths), time, 4), torch.tensor(lengths)
        (result,) = model.run({"x": x, "lengths": counts}).values()
        np.testing.assert_allclose(result, module(x, counts).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_packed_sequences_by_way_of_onnx(layer: Any) -> None:
    module, file = Packed(layer).eval(), io.BytesIO()
    torch.onnx.export(
        module,
        (torch.zeros(2, 5, 4), torch.tensor([5, 3])),
        file,
        dynamo=False,
        input_names=["x", "lengths"],
        output_names=["y"],
        dynamic_axes={"x": {0: "batch", 1: "time"}, "lengths": {0: "batch"}},
    )
    with infuse.compile(file.getvalue()) as model:
        check(model, module, [(5, [5, 3]), (9, [2, 9, 4]), (1, [1]), (7, [1, 7])])


@pytest.mark.parametrize("layer", LAYERS)
def test_any_length_by_way_of_torchscript(layer: Any, tmp_path: Path) -> None:
    module = Last(layer).eval()
    torch.jit.save(torch.jit.script(module), tmp_path / "last.pt")
    specs = {
        "x": infuse.Spec("float32", ("batch", "time", 4)),
        "lengths": infuse.Spec("int64", ("batch",)),
    }
    with infuse.compile(infuse.from_torchscript(tmp_path / "last.pt", specs)) as model:
        check(model, module, [(5, [5, 3]), (9, [2, 9, 4]), (1, [1])])


def test_a_fixed_length_is_exported() -> None:
    module, example = Last(torch.nn.LSTM).eval(), (torch.zeros(2, 5, 4), torch.tensor([5, 3]))
    graph = infuse.from_torch(module, example, dynamic_shapes=({0: "batch"}, {0: "batch"}))
    with infuse.compile(graph) as model:
        check(model, module, [(5, [5, 3]), (5, [1, 2, 3])])


@pytest.mark.parametrize(
    ("module", "dynamic"),
    [
        (Packed(torch.nn.LSTM), None),
        (Last(torch.nn.GRU), ({0: "batch", 1: "time"}, {0: "batch"})),
    ],
    ids=["packed", "time"],
)
def test_what_torch_does_not_export_names_the_ways(module: torch.nn.Module, dynamic: Any) -> None:
    example = (torch.zeros(2, 5, 4), torch.tensor([5, 3]))
    with pytest.raises(UnsupportedOperatorError, match=r"from_torchscript.*dynamo=False"):
        infuse.from_torch(module.eval(), example, dynamic_shapes=dynamic)
