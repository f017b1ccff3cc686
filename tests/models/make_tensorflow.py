"""Writes `data/tensorflow/` with TensorFlow itself: `python -m tests.models.make_tensorflow`.

`operators.npz` and `models.npz` have for each case its graph, what it is called with and what
TensorFlow makes of it; the folders are a SavedModel of each generation.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf

from tests.models.tensorflow_cases import CASES, Case

FOLDER = Path(__file__).parent / "data" / "tensorflow"


def arrays(case: Case) -> dict[str, Any]:
    """A graph, its inputs and its outputs."""
    function, feeds = case
    specs = [
        tf.TensorSpec(feed.shape, feed.dtype, name=f"x{i}") for i, feed in enumerate(feeds)
    ]
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    results = tf.nest.flatten(concrete(*map(tf.constant, feeds)))
    names = [tensor.op.name for tensor in tf.nest.flatten(concrete.structured_outputs)]
    stored = {f"in_{i}": feed for i, feed in enumerate(feeds)}
    stored |= {f"out_{name}": result.numpy() for name, result in zip(names, results)}
    message = concrete.graph.as_graph_def()
    return stored | {"graph": np.frombuffer(message.SerializeToString(), np.uint8)}


def write(path: Path, cases: dict[str, Case]) -> None:
    """All cases in one compressed file."""
    stored = {}
    for name, case in cases.items():
        try:
            made = arrays(case)
        except Exception as error:
            raise RuntimeError(name) from error
        stored |= {f"{name}/{part}": array for part, array in made.items()}
    np.savez_compressed(path, **stored)
    print(path.name, len(cases), path.stat().st_size)


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    write(FOLDER / "operators.npz", CASES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
