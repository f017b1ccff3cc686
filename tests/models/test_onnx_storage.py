"""ONNX files on disk: weights inside and beside the model, written over their own source, failed
writes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from infuse.errors import ModelFileError, OptionError
from infuse.exporters.onnx import save, to_model
from infuse.frontends.onnx import load
from infuse.ir.verify import verify
from tests.models.onnx_tools import assert_close, model, run

pytestmark = [pytest.mark.row("C1"), pytest.mark.row("C6")]
node = helper.make_node


def weighted(seed: int = 0) -> ModelProto:
    """Constants of several sizes, the small ones below what is stored apart."""
    rng = np.random.default_rng(seed)
    constants = {
        **{
            "a": rng.standard_normal((40, 50)).astype(np.float32),
            "b": rng.standard_normal((50, 3)).astype(np.float32),
        },
        **{
            "c": rng.standard_normal(3).astype(np.float32),
            "d": rng.standard_normal((300, 1, 1)).astype(np.float32),
        },
    }
    nodes = [
        node("MatMul", ["x", "a"], ["h"]),
        node("MatMul", ["h", "b"], ["g"]),
        node("Add", ["g", "c"], ["e"]),
    ]
    return model(
        [*nodes, node("Mul", ["e", "d"], ["y"])], {"x": ["n", 40]}, ["y"], constants=constants
    )


@pytest.mark.parametrize("external", [None, True, "weights.bin"])
def test_saved_models_are_the_same(tmp_path: Path, external: bool | str | None) -> None:
    original = weighted()
    path = tmp_path / "m.onnx"
    save(load(original), path, external_data=external)
    onnx.checker.check_model(path, full_check=True)
    data = {None: None, True: "m.onnx.data"}.get(external, external)  # type: ignore[arg-type]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(filter(None, ["m.onnx", data]))
    feeds = {"x": np.ones((2, 40), np.float32)}
    assert_close(run(path, feeds), run(original, feeds), 0)
    again = {v.name: v.const for v in load(path).constants()}
    for tensor in original.graph.initializer:
        np.testing.assert_array_equal(again[tensor.name], numpy_helper.to_array(tensor))
    if data:
        proto = onnx.load(path, load_external_data=False)
        places = {
            t.name: {e.key: e.value for e in t.external_data}
            for t in proto.graph.initializer
            if t.external_data
        }
        assert sorted(places) == ["a", "d"]
        assert int(places["a"]["offset"]) % 4096 == int(places["d"]["offset"]) % 64 == 0
        assert {p["location"] for p in places.values()} == {data}


@pytest.mark.parametrize("external", [None, True])
def test_a_model_may_be_written_over_its_own_file(tmp_path: Path, external: bool | None) -> None:
    path = tmp_path / "m.onnx"
    save(load(weighted()), path, external_data=external)
    feeds = {"x": np.ones((2, 40), np.float32)}
    expected = run(path, feeds)
    graph = load(path)
    save(graph, path, external_data=external)
    assert_close(run(path, feeds), expected, 0)
    save(load(weighted(1)), path, external_data=external)
    verify(graph)  # the old weights are still those of the graph
    assert_close(run(to_model(graph), feeds), expected, 0)


def test_failed_writes_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.mkdir()
    with pytest.raises(ModelFileError, match="cannot be written: it is a folder"):
        save(load(weighted()), path, external_data=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    with pytest.raises(ModelFileError, match="cannot be written: No such file"):
        save(load(weighted()), tmp_path / "missing" / "m.onnx")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "m.onnx"])
def test_external_data_needs_a_name_of_its_own(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match="cannot be called"):
        save(load(weighted()), tmp_path / "m.onnx", external_data=name)


def test_over_two_gigabytes_weights_lie_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is lowered: writing gigabytes takes too long for a test."""
    monkeypatch.setattr("infuse.exporters.onnx.storage.LIMIT", 5000)
    monkeypatch.setattr("infuse.exporters.onnx.LIMIT", 5000)
    graph = load(weighted())
    save(graph, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").exists()
    feeds = {"x": np.ones((2, 40), np.float32)}
    assert_close(run(tmp_path / "m.onnx", feeds), run(weighted(), feeds), 0)
    with pytest.raises(ModelFileError, match="holds at most 5000") as caught:
        to_model(graph)
    assert "save()" in (caught.value.hint or "")
    with pytest.raises(ModelFileError, match="protobuf reads at most 5000"):
        save(graph, tmp_path / "other.onnx", external_data=False)
    assert not (tmp_path / "other.onnx").exists()
