"""The networks on time series, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.compression_tasks.training import Schedule

FRAMES = 24
"""Steps of the recurrent network, at least: longer series are cut into frames of several values."""
BATCH, UPDATES = 16, 1500


def schedule(rows: int) -> Schedule:
    """UPDATES steps on that many rows."""
    return Schedule(-(-UPDATES * BATCH // rows), BATCH, rate=3e-3)


def varied(batch: torch.Tensor) -> torch.Tensor:
    """Series with a little noise, each stretched a little in height."""
    scale = 1 + 0.1 * torch.randn(len(batch), 1, 1)
    return batch * scale + 0.03 * torch.randn_like(batch)


def cnn(shape: tuple[int, int], classes: int) -> nn.Module:
    """Three convolutions with batch normalization and the mean over time (Wang et al., 2017)."""
    layers: list[nn.Module] = []
    for inputs, outputs, size in ((shape[0], 64, 7), (64, 128, 5), (128, 64, 3)):
        layers += [
            nn.Conv1d(inputs, outputs, size, padding=size // 2, bias=False),
            nn.BatchNorm1d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, classes))


class Recurrent(nn.Module):
    """A bidirectional LSTM over frames of the series, and the mean of its states."""

    def __init__(self, shape: tuple[int, int], classes: int, hidden: int = 64) -> None:
        super().__init__()
        channels, length = shape
        self.frame = max(1, length // FRAMES)
        self.steps = length // self.frame
        self.lstm = nn.LSTM(channels * self.frame, hidden, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(2 * hidden, classes)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        """Series [rows, channels, length] → scores [rows, classes]."""
        cut = series[:, :, : self.steps * self.frame]
        frames = cut.unflatten(2, (self.steps, self.frame)).transpose(1, 2).flatten(2)
        states, _ = self.lstm(frames)
        return self.scores(states.mean(1))


def lstm(shape: tuple[int, int], classes: int) -> nn.Module:
    """A bidirectional LSTM of 64 cells each way."""
    return Recurrent(shape, classes)


NETWORKS: dict[str, Callable[[tuple[int, int], int], nn.Module]] = {
    "cnn": cnn,
    "lstm": lstm,
}
