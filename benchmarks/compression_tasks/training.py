"""Networks trained with PyTorch, and written as ONNX files. The same seed gives the same network
on the same machine.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: AdamW whose rate rises and falls once."""

    epochs: int
    batch: int = 64
    rate: float = 2e-3
    decay: float = 1e-2


def train(
    network: nn.Module,
    inputs: np.ndarray,
    labels: np.ndarray,
    schedule: Schedule,
    augmented: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> nn.Module:
    """The network, fitted to the classes of the inputs [rows, …] in place; `augmented` varies a
    batch.
    """
    rows, classes = torch.from_numpy(inputs), torch.from_numpy(labels)
    steps = schedule.epochs * -(-len(rows) // schedule.batch)
    optimizer = torch.optim.AdamW(network.parameters(), schedule.rate, weight_decay=schedule.decay)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, schedule.rate, total_steps=steps)
    loss = nn.CrossEntropyLoss()
    network.train()
    for _ in range(schedule.epochs):
        for chosen in torch.randperm(len(rows)).split(schedule.batch):
            batch = augmented(rows[chosen]) if augmented else rows[chosen]
            optimizer.zero_grad()
            loss(network(batch), classes[chosen]).backward()
            optimizer.step()
            rate.step()
    return network.eval()


def seeded(seed: int = 0) -> None:
    """One thread, and random numbers that are the same each time."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)


def onnx_file(
    network: nn.Module,
    examples: Sequence[np.ndarray],
    inputs: Sequence[str],
    output: str,
    sizes: Sequence[dict[int, str]] | None = None,
) -> bytes:
    """The network in evaluation mode as the bytes of an ONNX file of opset 18.

    `sizes` names the axes of each input whose size is free; without it, that is axis 0, `batch`.
    """
    named = sizes or [{0: "batch"} for _ in inputs]
    dimensions: dict[str, Any] = {
        name: torch.export.Dim(name, min=1) for axes in named for name in axes.values()
    }
    shapes = [{axis: dimensions[name] for axis, name in axes.items()} for axes in named]
    # An example of one row would fix its size.
    rows = [np.repeat(array, 2, 0) if 0 in axes else array for array, axes in zip(examples, named)]
    program = torch.onnx.export(
        network.eval(),
        tuple(torch.from_numpy(array) for array in rows),
        input_names=list(inputs),
        output_names=[output],
        opset_version=18,
        dynamo=True,
        dynamic_shapes=tuple(shapes),
        verbose=False,
    )
    file = io.BytesIO()
    program.save(file)
    return file.getvalue()
