"""Tuning without pruning: what zeros, low rank and integers lose is learned back."""

from __future__ import annotations

import re

import numpy as np
import pytest

import infuse
from infuse.compression import CompressionReport
from infuse.errors import ContractError
from infuse.ir.graph import Graph
from tests.native.test_pruning import examples, rows_network

pytestmark = [pytest.mark.row("Z3", "Z4", "Z5")]


def matrices(graph: Graph) -> list[np.ndarray]:
    return [np.asarray(each.const) for each in graph.constants() if np.ndim(each.const) == 2]


def nearly_of_low_rank() -> Graph:
    """The network with weights whose singular values fall fast."""
    graph = rows_network(128, 96)
    for value in graph.constants():
        matrix = np.asarray(value.const)
        if matrix.ndim == 2:
            left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
            falling = sizes * 0.9 ** np.arange(len(sizes))
            value.const = np.ascontiguousarray((left * falling) @ right, np.float32)
    return graph


def tuned_scores(report: CompressionReport, stage: str) -> tuple[float, float]:
    """The scores before and after a stage of the tuning, as the report tells them."""
    (note,) = (note for note in report.notes if note.startswith(f"{stage}: "))
    before, after = re.findall(r": (\S+) → (\S+) after", note)[0]
    return float(before), float(after)


@pytest.mark.parametrize(
    ("method", "graph"),
    [(infuse.Sparse("60%"), rows_network()), (infuse.LowRank(), nearly_of_low_rank())],
    ids=["sparse", "low-rank"],
)
def test_weights_in_floats_learn_on(method: infuse.Sparse | infuse.LowRank, graph: Graph) -> None:
    report = infuse.compress(
        graph,
        method,
        data=infuse.Examples(examples(), batch=16),
        tune=infuse.Tune(epochs=6),
        options=infuse.CompressOptions(threads=1, allow_slower=True),
    ).compression
    before, after = tuned_scores(report, "tuned")
    assert after >= before
    if isinstance(method, infuse.Sparse):
        assert after > before
    assert report.score == pytest.approx(after, abs=1e-5)
    assert [row.name for row in report.tried] == ["original", "tuned"]
    assert any(layer.form != "float32" for layer in report.layers)
    assert any("one in 5 examples" in note for note in report.notes)


def test_zeros_stay_zeros() -> None:
    data = examples()
    result = infuse.compress(
        rows_network(),
        infuse.Sparse(sparsity="60%", block="1x1"),
        data=infuse.Examples(data, batch=16),
        tune=infuse.Tune(epochs=2),
        options=infuse.CompressOptions(threads=1, allow_slower=True),
    )
    zeros = [np.mean(matrix == 0) for matrix in matrices(result)]
    assert zeros
    assert min(zeros) == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize(
    "method", [infuse.Int8(), infuse.SparseInt8(sparsity="60%")], ids=["int8", "sparse-int8"]
)
def test_integers_are_learned_for(method: infuse.Int8) -> None:
    data = examples()
    result = infuse.compress(
        rows_network(),
        method,
        data=infuse.Examples(data, batch=16),
        tune=infuse.Tune(epochs=4),
        options=infuse.CompressOptions(threads=1, allow_slower=True),
    )
    report = result.compression
    before, after = tuned_scores(report, "tuned for integers")
    assert after >= before
    if isinstance(method, infuse.SparseInt8):
        assert after > before
    assert report.score == pytest.approx(after, abs=0.01)
    assert [row.name for row in report.tried][:2] == ["original", "tuned"]
    assert any("int8" in layer.form for layer in report.layers)
    integers = [
        np.asarray(each.const) for each in result.constants() if each.const.dtype == np.int8
    ]
    parts = [np.mean(each == 0) for each in integers if each.ndim == 2]
    assert len(parts) == 3
    if isinstance(method, infuse.SparseInt8):  # The last layer has fewer columns than a block.
        assert all(part > 0.55 for part in parts[:2])


def test_a_bound_that_tuning_does_not_meet_is_an_error() -> None:
    with pytest.raises(ContractError, match="after tuning") as caught:
        infuse.compress(
            rows_network(),
            infuse.Sparse(sparsity="95%"),
            data=infuse.Examples(examples(), batch=16),
            contract=infuse.Contract(max_drop=1e-7),
            tune=infuse.Tune(epochs=1),
            options=infuse.CompressOptions(threads=1, allow_slower=True),
        )
    assert not caught.value.report.is_met
    assert caught.value.best is not None
