"""Every operator of Paddle by itself, control flow and small networks, in both formats of programs,
against what Paddle made of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.frontends import formats
from infuse.ops.core.evaluate import evaluate
from tests.models.tensorflow_files import cases

DATA = Path(__file__).parent / "data" / "paddle"
GROUPS = [f"{group}_{kind}" for group in ("operators", "flows", "networks") for kind in ("pir", "old")]
NAMES = [(group, name) for group in GROUPS for name in cases(f"{group}.npz", DATA)]
ACCURACY = {"bicubic": 1e-5}
"""Differences by the beginnings of names, where they are larger than elsewhere."""


def stored(case: dict[str, Any], folder: Path) -> Path:
    """The files of a case; the path of its program."""
    if "pdiparams" in case:
        (folder / "m.pdiparams").write_bytes(case["pdiparams"].tobytes())
    suffix = "pdmodel" if "pdmodel" in case else "json"
    (folder / f"m.{suffix}").write_bytes(case[suffix].tobytes())
    return folder / f"m.{suffix}"


def agree(graph: Any, case: dict[str, Any], tolerance: float) -> None:
    """All outputs are Paddle's, in type, shape and elements."""
    feeds = {f"x{key[3:]}": array for key, array in case.items() if key.startswith("in_")}
    made = list(evaluate(graph, {v.name: feeds[v.name] for v in graph.inputs}).values())
    expected = [array for key, array in case.items() if key.startswith("out_")]
    assert len(made) == len(expected)
    for ours, array in zip(made, expected):
        assert (ours.dtype, ours.shape) == (array.dtype, array.shape)
        if array.dtype == np.float16:
            tolerance = 1e-3
        scale = np.abs(array[np.isfinite(array)]).max(initial=0) if array.dtype.kind in "fi" else 0
        np.testing.assert_allclose(ours, array, rtol=tolerance, atol=tolerance * max(scale, 1e-3))


@pytest.mark.parametrize(("group", "name"), NAMES)
def test_case(group: str, name: str, tmp_path: Path) -> None:
    case = cases(f"{group}.npz", DATA)[name]
    tolerance = max((a for start, a in ACCURACY.items() if name.startswith(start)), default=3e-6)
    path = stored(case, tmp_path)
    assert formats.format_name(path) == "PaddlePaddle"
    agree(infuse.load(path), case, tolerance)
