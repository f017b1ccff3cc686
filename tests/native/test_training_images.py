"""Networks of images trained natively, beside PyTorch: convolutions of all kinds and poolings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import infuse
from infuse.ir.graph import Graph
from infuse.training import SGD, TrainOptions, train

pytestmark = pytest.mark.row("Z5")


def lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 3)),
    )


def separable() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.SiLU()),
        *(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 12, 1), nn.GELU()),
        *(nn.Conv2d(12, 6, 3, dilation=2, groups=2), nn.AvgPool2d(3, stride=2, padding=1)),
        *(nn.Flatten(), nn.Linear(24, 3)),
    )


def decoder() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 4, stride=4), nn.LeakyReLU(0.1), nn.GroupNorm(2, 4)),
        *(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), nn.Tanh()),
        *(nn.MaxPool2d(3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)),
    )


def graph_of(module: nn.Module) -> Graph:
    batch = torch.export.Dim("batch")
    example = torch.zeros(3, 1, 16, 16)
    return infuse.from_torch(module.eval(), (example,), dynamic_shapes=({0: batch},))


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec.*:FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [lenet, separable, pytest.param(decoder, marks=pytest.mark.full)])
def test_steps_are_those_of_torch(make: Any) -> None:
    torch.manual_seed(4)
    module = make()
    graph = graph_of(module)
    rng = np.random.default_rng(6)
    images = rng.standard_normal((12, 1, 16, 16), np.float32)
    labels = rng.integers(0, 3, 12)
    trained, report = train(
        graph,
        images,
        labels,
        TrainOptions(optimizer=SGD(rate=0.1, momentum=0.9), epochs=4, batch_size=12),
    )
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        scores = module(torch.tensor(images))
        loss = nn.functional.cross_entropy(scores, torch.tensor(labels))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # Four steps in float32, whose sums round in another order.
    np.testing.assert_allclose(report.losses, losses, rtol=1e-4)
    assert len(report.parameters) == len(list(module.parameters()))
    with infuse.compile(trained) as model:
        expected = module(torch.tensor(images)).detach().numpy()
        np.testing.assert_allclose(model(images), expected, rtol=2e-3, atol=2e-4)
