"""Weights of large models stay where they are: neither optimizing nor saving takes memory for
them.
"""

from pathlib import Path

import numpy as np
import pytest

import infuse
from tests.models.optimizer_memory import BAR, LAYERS, Model, Watch, measure_apart

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from /proc"
)


def is_sparse(path: Path) -> bool:
    return path.stat().st_blocks * 512 < path.stat().st_size // 2


@pytest.fixture
def model(tmp_path: Path) -> Model:
    made = Model(tmp_path, layers=2)
    if not is_sparse(made.data):
        pytest.skip("this file system has no sparse files")
    return made


@pytest.mark.row("G1")
def test_weights_are_not_read_by_the_optimizer(model: Model) -> None:
    graph = infuse.load(model.path)
    start = Watch.now()
    watch = Watch()
    better = infuse.optimize(graph)
    assert watch.stop() - start < 2**26 < model.offset // 8
    assert len(better) < len(graph) // 2


def test_tied_weights_stay_tied(model: Model) -> None:
    better = infuse.optimize(infuse.load(model.path))
    arrays = [
        v.const for v in better.constants() if v.const is not None and v.const.size == 32000 * 4096
    ]
    assert len(arrays) == 2
    assert np.shares_memory(*arrays)


def test_holes_in_weights_stay_holes(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infuse.exporters.onnx.storage.LIMIT", 2**20)
    graph = infuse.load(Model(model.path.parent, layers=0).path)
    infuse.save(graph, target := model.path.with_name("saved.onnx"))
    assert is_sparse(target.with_name("saved.onnx.data"))
    old, new = ([v.const for v in g.constants()] for g in (graph, infuse.load(target)))
    assert all(np.array_equal(a, b) for a, b in zip(old, new, strict=True))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_seven_billion_parameters_take_less_than_a_gigabyte(model: Model) -> None:
    found = measure_apart(LAYERS, "extended")
    assert found["weights"] > 24 * 2**30
    assert max(found["optimize_bytes"], found["save_bytes"]) < BAR
    assert found["left"] < found["nodes"] // 2
