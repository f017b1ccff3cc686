"""Pruning and tuning: `python -m benchmarks.compression_pruning FOLDER [NAME…] [--json FILE]`.

`wide_resnet8_mnist`, `wide_mobilenet_mnist`, `resnet20_mnist` and `transformer_mnist` (made below
FOLDER with their data, where they are not there) lose half of their multiplications, and are tuned;
with `--kinds channels channels,blocks`, once for each of what may go. `dense_mnist` loses most of
its weights, is tuned with zeros that stay zeros, clustered and entropy coded; told are the bytes of
the file beside those in float32, and the score of the file that was read again.

Tuned is on 7,000 of the digits that trained the networks, moved by up to two pixels as in their
training (an epoch is one copy of them); the best epoch is told by 1,000 others of these, and all
scores by the 2,000 that nothing has seen.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.compression_tasks.base import Task
from benchmarks.compression_tasks.mnist import PRUNED, TRAINED, digits
from benchmarks.compression_tasks.packages import Packages
from infuse.compression import TuneOptions, tune
from infuse.compression.lessons import Lessons
from infuse.data.dataset import feeds_of
from infuse.data.metrics import metric
from infuse.ir.clone import clone
from infuse.ir.graph import Graph

PARTS = (0.4, 0.25, 0.15, 0.1)
"""Weights that stay after the first rounds, as parts of all."""
LEARNED = 7000
COPIES = 4
"""Copies of the digits, each moved its own way."""


@dataclass(frozen=True)
class Digits:
    """Digits with their classes: to learn from, and to tell the best epoch."""

    learned: np.ndarray
    classes: np.ndarray
    held: np.ndarray
    held_classes: np.ndarray


def narrower(
    one: Task, data: Digits, options: argparse.Namespace, kinds: str | None
) -> dict[str, Any]:
    """A row of the first table, of a network that lost what these kinds tell."""
    original = infuse.load(one.model)
    result = infuse.compress(
        original,
        infuse.Prune(options.prune, of=options.goal, rounds=options.rounds, kinds=kinds),
        data=infuse.Examples(
            {"image": data.learned}, validation={"image": data.held}, labels=data.held_classes
        ),
        tune=infuse.Tune(epochs=max(1, options.epochs // COPIES)),
        options=infuse.CompressOptions(threads=options.threads),
    )
    test = _joined(one), one.labels
    scores = {"reference": accuracy(original, *test), "score": accuracy(result, *test)}
    return {"name": one.name, "kinds": kinds, **result.compression.to_dict(), **scores}


def stored(one: Task, data: Digits, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of the second table, one for each number of bits of a cluster."""
    original = infuse.optimize(one.model, "basic")
    lessons = Lessons.of(original, {"image": data.learned}, data.classes, tells_classes=True)
    held, test = ({"image": data.held}, data.held_classes), (_joined(one), one.labels)
    graph = original
    for part in (*PARTS, options.stay):
        graph = without_weights(graph, part, original)
        last = part == options.stay
        epochs = TuneOptions(epochs=3 * options.epochs if last else 3, batch_size=64)
        graph, _ = tune(graph, lessons, epochs, lambda g: accuracy(g, *held))
    nonzero, size = _weights(graph)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "plain.infuse")
        infuse.save(original, plain)
        for bits in options.bits:
            path = Path(folder, "coded.infuse")
            infuse.save(graph, path, coded=True, cluster_bits=bits)
            rows.append(
                {
                    "name": one.name,
                    "bits": bits,
                    "stay": nonzero / size,
                    "bytes_before": plain.stat().st_size,
                    "weight_bytes_before": 4 * size,
                    "bytes": path.stat().st_size,
                    "reference": accuracy(original, *test),
                    "tuned": accuracy(graph, *test),
                    "score": accuracy(infuse.load(path), *test),
                }
            )
    return rows


def without_weights(graph: Graph, part: float, original: Graph) -> Graph:
    """A copy without the smallest weights of each matrix, of which a part stays; of the last layer,
    which is small, three times as much.
    """
    result = clone(graph)
    matrices = [value for value in result.constants() if value.const.ndim == 2]
    for value in matrices:
        share = min(1.0, 3 * part) if value is matrices[-1] else part
        limit = np.quantile(np.abs(value.const), 1 - share)
        value.const = np.where(np.abs(value.const) >= limit, value.const, 0).astype(np.float32)
    assert len(original.constants()) == len(result.constants())
    return result


def moved(pictures: np.ndarray) -> np.ndarray:
    """Copies of pictures, moved by up to two pixels as in the training."""
    rng = np.random.default_rng(0)
    copies = [pictures]
    for _ in range(COPIES - 1):
        steps = rng.integers(-2, 3, (len(pictures), 2))
        copies.append(np.stack([np.roll(p, s, (1, 2)) for p, s in zip(pictures, steps)]))
    return np.concatenate(copies)


def accuracy(graph: Graph, data: dict[str, np.ndarray], labels: Any) -> float:
    """The part of digits that are told right."""
    with infuse.compile(graph) as model:
        return metric("top1")([model.run(feeds) for feeds in feeds_of(graph, data, 100)], labels)


def _joined(one: Task) -> dict[str, np.ndarray]:
    return {"image": np.concatenate([feeds["image"] for feeds in one.test])}


def _weights(graph: Graph) -> tuple[int, int]:
    """Weights that are not zero, and all."""
    arrays = [value.const for value in graph.constants() if value.const.dtype == np.float32]
    return sum(np.count_nonzero(array) for array in arrays), sum(array.size for array in arrays)


def told(row: dict[str, Any]) -> str:
    """A row as a line."""
    if "bits" in row:
        times = row["bytes_before"] / row["bytes"]
        return (
            f"{row['name']}: {row['stay']:.1%} of the weights, {row['bits']} bits: "
            f"{row['bytes_before'] / 1e3:.1f} → {row['bytes'] / 1e3:.1f} kB, {times:.1f} × less, "
            f"top-1 {row['reference']:.4f} → {row['tuned']:.4f} tuned → {row['score']:.4f} stored"
        )
    pruning = row["pruning"]
    gone = sum(block["is_removed"] for block in pruning["blocks"])
    return (
        f"{row['name']}, {row['kinds'] or 'all kinds'}: {gone} blocks fewer, "
        f"{pruning['macs_before'] / pruning['macs']:.2f} × fewer MACs, "
        f"{row['float_seconds'] * 1e3:.3f} → {row['seconds'] * 1e3:.3f} ms, {row['speed']:.2f} ×, "
        f"top-1 {row['reference']:.4f} → {row['score']:.4f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    recipes = {recipe.name: recipe for recipe in PRUNED}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(recipes))
    parser.add_argument("--prune", default="50%")
    parser.add_argument("--goal", default="macs")
    parser.add_argument(
        "--kinds", nargs="*", default=[None], help="what may go, a row for each: channels,blocks"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--stay", type=float, default=0.07)
    parser.add_argument("--bits", type=int, nargs="*", default=[5, 4, 3])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    pictures, labels = digits(Packages(options.folder / "packages"))
    data = Digits(
        *(moved(pictures[:LEARNED]), np.tile(labels[:LEARNED], COPIES)),
        *(pictures[LEARNED:TRAINED], labels[LEARNED:TRAINED]),
    )
    rows: list[dict[str, Any]] = []
    for name in options.names:
        one = recipes[name].task(options.folder)
        if name.startswith("dense"):
            made = stored(one, data, options)
        else:
            made = [narrower(one, data, options, kinds) for kinds in options.kinds]
        for row in made:
            print(told(row), flush=True)
        rows += made
        if options.json:
            machine.save(options.json, {"rows": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
