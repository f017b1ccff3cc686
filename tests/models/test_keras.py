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
HALF = {"bfloat16": 2e-2, "float16": 2e-3}


@cache
def archive(file: str) -> dict[str, bytes]:
    """The members of an archive of models."""
    members = {}
    with tarfile.open(FOLDER / f"{file}.tar.xz") as opened:
        for info in opened:
            member = opened.extractfile(info)
            assert member is not None
            members[info.name] = member.read()
    return members


def case_names(file: str = "cases") -> list[str]:
    return [name.removesuffix(".keras") for name in archive(file) if name.endswith(".keras")]


def agree(graph: infuse.Graph, arrays: bytes, tolerance: float) -> None:
    """The graph computes these outputs from these inputs."""
    with np.load(io.BytesIO(arrays)) as numbers:
        feeds = [numbers[f"x{i}"] for i in range(len(graph.inputs))]
        expected = [numbers[f"y{i}"] for i in range(len(graph.outputs))]
        assert len(numbers.files) == len(feeds) + len(expected)
    made = evaluate(graph, dict(zip((v.name for v in graph.inputs), feeds)))
    for result, reference in zip(made.values(), expected):
        assert result.shape == reference.shape
        if result.dtype.name != "bfloat16":
            assert result.dtype == reference.dtype
        scale = max(float(np.abs(reference.astype(np.float64)).max(initial=0)), 1.0)
        apart = np.abs(result.astype(np.float64) - reference.astype(np.float64)).max(initial=0)
        assert apart <= tolerance * scale


@pytest.mark.parametrize("name", case_names())
def test_case(name: str) -> None:
    members = archive("cases")
    tolerance = next((t for part, t in HALF.items() if part in name), 1e-5)
    tolerance = 2e-3 if "half" in name else tolerance
    agree(infuse.load(members[f"{name}.keras"]), members[f"{name}.npz"], tolerance)


@pytest.mark.parametrize("name", case_names("special"))
def test_special_values(name: str) -> None:
    """NaN, infinities, zeros and the limits of integers, each to the accuracy of its own size."""
    agree_everywhere(archive("special"), name, 3e-6, 1e-9)


@pytest.mark.parametrize("name", case_names("numeric"))
def test_operation(name: str) -> None:
    agree_everywhere(archive("numeric"), name, 1e-5, 2e-6)


@pytest.mark.parametrize("name", case_names("functions"))
def test_function(name: str) -> None:
    agree_everywhere(archive("functions"), name, 1e-5, 2e-6)


@pytest.mark.parametrize("name", case_names("matrices"))
def test_matrices(name: str) -> None:
    agree_everywhere(archive("matrices"), name, 3e-6, 1e-9)


@pytest.mark.parametrize("name", case_names("quantized"))
def test_quantized(name: str) -> None:
    agree_everywhere(archive("quantized"), name, 1e-5, 2e-6)


@pytest.mark.parametrize("name", case_names("gptq"))
def test_gptq(name: str) -> None:
    agree_everywhere(archive("gptq"), name, 1e-5, 1e-8)


def agree_everywhere(members: dict[str, bytes], name: str, rtol: float, atol: float) -> None:
    """The graph of a model computes its outputs, each element to the accuracy of its own size."""
    graph = infuse.load(members[f"{name}.keras"])
    with np.load(io.BytesIO(members[f"{name}.npz"])) as numbers:
        feeds = {value.name: numbers[f"x{i}"] for i, value in enumerate(graph.inputs)}
        expected = [numbers[f"y{i}"] for i in range(len(graph.outputs))]
    for result, right in zip(evaluate(graph, feeds).values(), expected, strict=True):
        assert result.dtype == right.dtype
        np.testing.assert_allclose(result, right, rtol=rtol, atol=atol)
