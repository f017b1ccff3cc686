"""Seeded inputs for any ONNX model: every process makes the same ones by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

DEFAULT_DIMS = {"batch": 1, "seq": 128}
VOCABULARY = 1000


def default_zoo() -> Path:
    """The folder of exported networks: $INFUSE_ZOO, or a folder in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("INFUSE_ZOO") or Path(cache) / "infuse-zoo")


def parse_dims(text: str) -> dict[str, int]:
    """'batch=4,seq=77' → {'batch': 4, 'seq': 77}, over the defaults."""
    pairs = (item.partition("=") for item in text.split(",") if item)
    return DEFAULT_DIMS | {name.strip(): int(size) for name, _, size in pairs}


def make_inputs(path: Path, dims: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of the ONNX file: floats are normal, masks are ones, integers are token ids below
    1000.

    `dims` gives every symbolic dimension its size; ValueError where one is missing.
    """
    rng = np.random.default_rng(seed)
    return {value.name: _sample(value, dims, rng) for value in _inputs(path)}


def symbols(path: Path) -> set[str]:
    """Names of the symbolic dimensions of the ONNX file's inputs."""
    shapes = (value.type.tensor_type.shape.dim for value in _inputs(path))
    return {dim.dim_param for shape in shapes for dim in shape if dim.dim_param}


def save_inputs(path: Path, dims: Mapping[str, int], file: Path) -> Path:
    """Write what `make_inputs` makes; the file."""
    np.savez(file, **make_inputs(path, dims))  # type: ignore[arg-type]
    return file


def load_arrays(file: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file."""
    with np.load(file) as saved:
        return dict(saved)


def _inputs(path: Path) -> list[onnx.ValueInfoProto]:
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {weight.name for weight in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def _sample(
    value: onnx.ValueInfoProto, dims: Mapping[str, int], rng: np.random.Generator
) -> np.ndarray:
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = [_size(value.name, dim, dims) for dim in tensor.shape.dim]
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape, np.float32).astype(dtype)
    if dtype == np.bool_ or "mask" in value.name:
        return np.ones(shape, dtype)
    if "type" in value.name:
        return np.zeros(shape, dtype)
    return rng.integers(0, VOCABULARY, shape).astype(dtype)


def _size(name: str, dim: onnx.TensorShapeProto.Dimension, dims: Mapping[str, int]) -> int:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    if dim.dim_param not in dims:
        raise ValueError(
            f"input {name}: no size for dimension {dim.dim_param!r}; give it with --dims "
            f"{dim.dim_param}=N"
        )
    return dims[dim.dim_param]
