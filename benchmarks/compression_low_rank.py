"""Low rank on a dense network and on a transformer: what it gains, and what data gain over none.

`python -m benchmarks.compression_low_rank FOLDER --max-drop 1 --json FILE`

`FOLDER` is that of `python -m benchmarks.compression_tasks`, where `minilm_spam` lies or is made.
The dense network (784, 1024, 1024, 10) is trained here on digits of MNIST. Speeds are those of
`infuse.compress(method="low-rank")`: batch 1, least times of runs that take turns. Scores are of
data that neither training nor calibration has seen. In the second table all layers have a part of
their products, by singular values of the weights alone, and by what their activations are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import infuse
from benchmarks.compression_tasks import task
from benchmarks.compression_tasks.base import Feeds, Run
from benchmarks.compression_tasks.mnist import TRAINED, digits
from benchmarks.compression_tasks.packages import Packages
from benchmarks.machine import save
from benchmarks.terminal import console
from infuse import training
from infuse.compression import MethodOptions
from infuse.compression.insertion import with_forms
from infuse.compression.layers import find_layers
from infuse.compression.methods import SHARES, low_rank
from infuse.compression.pipeline import named
from infuse.compression.setting import Setting
from infuse.ir.graph import Graph

Score = Callable[[Run], float]
HIDDEN = 1024


def dense_network(folder: Path) -> tuple[Graph, list[Feeds], list[Feeds], np.ndarray]:
    """A trained network, runs that calibrate, and runs with labels that tell the score."""
    pictures, labels = digits(Packages(folder / "packages"))
    pictures = pictures.reshape(len(pictures), -1)
    rng = np.random.default_rng(0)
    sizes = (pictures.shape[1], HIDDEN, HIDDEN, 10)
    matrices = [
        (rng.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32)
        for shape in pairwise(sizes)
    ]
    shifts = [np.zeros(size, np.float32) for size in sizes[1:]]

    def network(image: Any) -> Any:
        xp = image.__array_namespace__()
        for number, (matrix, shift) in enumerate(zip(matrices, shifts)):
            image = image @ matrix + shift
            if number < len(matrices) - 1:
                image = xp.maximum(image, xp.asarray(0, dtype=xp.float32))
        return image

    graph = infuse.trace(network, {"image": infuse.Spec("float32", ("batch", sizes[0]))})
    trained, _ = training.train(
        graph,
        pictures[:TRAINED],
        labels[:TRAINED].astype(np.int64),
        training.TrainOptions(
            loss="cross_entropy",
            optimizer=training.AdamW(rate=1e-3),
            schedule=training.schedules.cosine,
            epochs=10,
            batch_size=64,
        ),
    )
    runs = [{"image": each[None]} for each in pictures]
    return trained, runs[:300], runs[TRAINED:], labels[TRAINED:]


def gains(name: str, graph: Graph, data: list[Feeds], judged: Any, drop: float) -> dict[str, Any]:
    """A row of the first table; `judged` are the runs, and the score of their outputs."""
    runs, judge = judged
    result = infuse.compress(
        graph,
        "low-rank",
        data=infuse.Examples(
            data, validation=runs, labels=[0], metric=lambda outputs, _: judge(outputs)
        ),
        contract=infuse.Contract(max_drop=f"{drop}%"),
        options=infuse.CompressOptions(threads=1),
    )
    return {"name": name, **result.compression.to_dict()}


def ranks(name: str, graph: Graph, data: list[Feeds], judged: Any) -> list[dict[str, Any]]:
    """Rows of the second table."""
    runs, judge = judged
    source = named(infuse.optimize(graph))
    layers = find_layers(source)
    rows = []
    for share, *plans in zip(
        SHARES,
        *(
            low_rank(Setting(source, layers, [], [], seen, MethodOptions(), 1, 0, None))
            for seen in (None, data)
        ),
    ):
        row: dict[str, Any] = {"name": name, "share": share}
        for kind, plan in zip(("plain", "whitened"), plans):
            small = infuse.optimize(with_forms(source, plan.forms, {}))
            with infuse.compile(small) as model:
                row[kind] = judge([model.run(feeds) for feeds in runs])
        rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Train, factor, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--max-drop", type=float, default=1.0, help="percent of the score")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    trained, data, held, labels = dense_network(options.folder)
    spam = task("minilm_spam", options.folder)

    def digits_told(outputs: list[Any]) -> float:
        told = [next(iter(each.values())).argmax(-1) for each in outputs]
        return float(np.mean(np.concatenate(told) == labels))

    networks: list[Any] = [
        ("dense network", trained, data, (held, digits_told)),
        (
            *("minilm_spam", infuse.load(spam.model), spam.calibration),
            (spam.test, lambda outputs: spam.judge(outputs, spam.truth)),
        ),
    ]
    first, second = [], []
    for network in networks:
        first.append(gains(*network, options.max_drop))
        print(first[-1]["name"], first[-1]["speed"], first[-1]["score"], file=sys.stderr)
        second += ranks(*network)
    table = Table(title="low rank, chosen by time and error")
    for column in ("network", "float32", "score", "loss %", "float32 ms", "ms", "speed", "smaller"):
        table.add_column(column)
    for row in first:
        table.add_row(
            *(row["name"], f"{row['reference']:.4f}", f"{row['score']:.4f}"),
            *(f"{100 * row['relative_drop']:.2f}", f"{1e3 * row['float_seconds']:.3f}"),
            *(f"{1e3 * row['seconds']:.3f}", f"{row['speed']:.2f}"),
            f"{row['weight_bytes_before'] / row['weight_bytes']:.2f}",
        )
    console(140).print(table)
    table = Table(title="all layers with a part of their products: scores")
    for column in ("network", "part", "by weights alone", "by activations"):
        table.add_column(column)
    for row in second:
        table.add_row(
            row["name"], f"{row['share']:g}", f"{row['plain']:.4f}", f"{row['whitened']:.4f}"
        )
    console(140).print(table)
    if options.json:
        for row in first:
            del row["layers"]
        save(options.json, {"gains": first, "ranks": second})
    return 0


if __name__ == "__main__":
    sys.exit(main())
