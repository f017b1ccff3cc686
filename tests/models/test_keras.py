"""Layers, operations and models of Keras, against what Keras itself computed (`make_keras.py`)."""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate

pytest.importorskip("h5py")
FOLDER = Path(__file__).parent / "data" / "keras"
ARCHIVE = FOLDER / "cases.tar.xz"
HALF = {"bfloat16": 2e-2, "float16": 2e-3}


@cache
def members() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]


def names() -> list[str]:
    with tarfile.open(ARCHIVE) as archive:
        return [Path(name).stem for name in archive.getnames() if not name.endswith(".npz")]


def agree(graph: infuse.Graph, arrays: bytes, tolerance: float) -> None:
    """The graph computes these outputs from these inputs."""
    with np.load(io.BytesIO(arrays)) as numbers:
        feeds = [numbers[f"x{i}"] for i in range(len(graph.inputs))]
        expected = [numbers[f"y{i}"] for i in range(len(graph.outputs))]
        assert len(numbers.files) == len(feeds) + len(expected)
    made = evaluate(graph, dict(zip((v.name for v in graph.inputs), feeds)))
    for result, wanted in zip(made.values(), expected):
        assert result.shape == wanted.shape
        if result.dtype.name != "bfloat16":
            assert result.dtype == wanted.dtype
        scale = max(float(np.abs(wanted.astype(np.float64)).max(initial=0)), 1.0)
        apart = np.abs(result.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)
        assert apart <= tolerance * scale


@pytest.mark.parametrize("name", names())
def test_case(name: str) -> None:
    suffix = "keras" if f"{name}.keras" in members() else "h5"
    tolerance = next((t for part, t in HALF.items() if part in name or "half" in name), 1e-5)
    agree(infuse.load(members()[f"{name}.{suffix}"]), members()[f"{name}.npz"], tolerance)
