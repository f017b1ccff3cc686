"""Files of TensorFlow: networks of Keras, SavedModels of both generations, TensorFlow.js."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends import tensorflow
from infuse.frontends.formats import format_name
from infuse.frontends.tensorflow.bundle import Bundle
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.models.tensorflow_files import DATA, cases

NETWORKS = cases("networks.npz")


def written(case: dict[str, Any], folder: Path) -> Path:
    """The folder of a SavedModel."""
    for part, data in case.items():
        if part.startswith("file_"):
            path = folder / part[5:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.tobytes())
    return folder


def feeds(graph: Graph, case: dict[str, Any]) -> dict[str, Any]:
    return {value.name: case[f"in_{i}"] for i, value in enumerate(graph.inputs)}


@pytest.mark.parametrize("name", list(NETWORKS))
def test_networks_of_keras(name: str, tmp_path: Path) -> None:
    case = NETWORKS[name]
    graph = infuse.load(written(case, tmp_path))
    assert str(graph.inputs[0].shape[0]) == "batch"
    made = evaluate(graph, feeds(graph, case))
    for output, result in made.items():
        np.testing.assert_allclose(result, case[f"out_{output}"], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["lstm", "images", "attention"])
def test_compiled_networks(name: str, tmp_path: Path) -> None:
    case = NETWORKS[name]
    graph = infuse.load(written(case, tmp_path / "saved"))
    model = infuse.compile(infuse.optimize(graph))
    made = model.run(feeds(graph, case))
    for output, result in made.items():
        np.testing.assert_allclose(result, case[f"out_{output}"], rtol=1e-5, atol=1e-5)


def test_formats_are_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "graph.dat").write_bytes(cases("flows.npz")["cond"]["graph"].tobytes())
    assert format_name(tmp_path / "graph.dat") == "TensorFlow (frozen graph)"
    assert format_name(DATA / "generation_1") == "TensorFlow (SavedModel)"
    assert format_name(DATA / "generation_1" / "saved_model.pb") == "TensorFlow (SavedModel)"
    assert format_name(DATA / "web") == format_name(DATA / "web" / "model.json") == "TensorFlow.js"
    assert format_name(Path(__file__).parent / "data" / "digits.onnx") == "ONNX"


@pytest.mark.parametrize("path", ["generation_1", "generation_1/saved_model.pb", "web",
                                  "web/model.json"])  # fmt: skip
def test_files_beside_tensorflow(path: str) -> None:
    case = cases("files.npz")[path.split("/", maxsplit=1)[0]]
    graph = infuse.load(DATA / path)
    (made,) = evaluate(graph, {"x": case["x"]}).values()
    np.testing.assert_allclose(made, case["y"], rtol=1e-5, atol=1e-6)


def test_signatures_are_chosen_by_name() -> None:
    case = cases("files.npz")["generation_2"]
    with pytest.raises(UnsupportedOperatorError, match="double, triple"):
        infuse.load(DATA / "generation_2")
    for name, factor in {"double": 1.0, "triple": 1.5}.items():
        graph = infuse.load(DATA / "generation_2", infuse.SavedModel(signature=name))
        (made,) = evaluate(graph, {"x": case["x"]}).values()
        np.testing.assert_allclose(made, case["y"] * factor, rtol=1e-5)
    with pytest.raises(ModelFileError, match="no signature 'quadruple'"):
        infuse.load(DATA / "generation_2", infuse.SavedModel(signature="quadruple"))


# -- damage ----------------------------------------------------------------------------------------


def test_an_operator_that_is_not_known_is_named() -> None:
    data = cases("operators.npz")["Tanh"]["graph"].tobytes().replace(b"\x04Tanh*", b"\x04Tank*")
    data = data.replace(b"\x12\x04Tanh", b"\x12\x04Tank")
    with pytest.raises(UnsupportedOperatorError, match="Tank"):
        infuse.load(data)


def test_files_of_weights_must_be_beside_the_model(tmp_path: Path) -> None:
    shutil.copytree(DATA / "web", tmp_path / "web")
    model = tmp_path / "web" / "model.json"
    document = json.loads(model.read_text())
    (tmp_path / "web" / "two.bin").write_bytes(b"short")
    with pytest.raises(ModelFileError, match="ends at byte 52 of its shards, which have 26"):
        infuse.load(model)
    document["weightsManifest"][0]["paths"] = ["../outside.bin"]
    (tmp_path / "outside.bin").write_bytes(bytes(200))
    model.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="outside the folder"):
        infuse.load(model)


def test_variables_that_were_cut_off(tmp_path: Path) -> None:
    shutil.copytree(DATA / "generation_1", tmp_path / "saved")
    data = tmp_path / "saved" / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:7])
    with pytest.raises(ModelFileError, match="begin at byte 0"):
        infuse.load(tmp_path / "saved")
    shutil.rmtree(data.parent)
    with pytest.raises(ModelFileError, match="has no value in the checkpoint"):
        infuse.load(tmp_path / "saved")


def test_an_index_that_does_not_fit_its_checksum(tmp_path: Path) -> None:
    index = (DATA / "generation_1" / "variables" / "variables.index").read_bytes()
    (tmp_path / "v.index").write_bytes(index[:9] + bytes([index[9] ^ 1]) + index[10:])
    with pytest.raises(ModelFileError, match="checksum"):
        Bundle(tmp_path / "v")


def _changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes are others, are missing, or come twice."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(0, len(changed)))
        kind = rng.integers(0, 4)
        if kind < 2:
            changed[place] = int(rng.integers(0, 256))
        elif kind == 2:
            del changed[place : place + int(rng.integers(1, 9))]
        else:
            changed[place:place] = changed[place : place + 5]
    return bytes(changed)


@pytest.mark.parametrize("name", ["while_growing", "cond_nested-lowered", "tensor_array-lowered"])
def test_damaged_graphs_are_refused_or_read(name: str) -> None:
    data, rng = cases("flows.npz")[name]["graph"].tobytes(), np.random.default_rng(0)
    for _ in range(150):
        with suppress(InfuseError):
            tensorflow.load_graph(memoryview(_changed(data, rng)), "damaged")


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.index"])
def test_damaged_saved_models_are_refused_or_read(file: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / "generation_1", tmp_path / "saved")
    data, rng = (tmp_path / "saved" / file).read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        (tmp_path / "saved" / file).write_bytes(_changed(data, rng))
        with suppress(InfuseError):
            tensorflow.load_saved_model(tmp_path / "saved")


def test_damaged_web_models_are_refused_or_read(tmp_path: Path) -> None:
    shutil.copytree(DATA / "web", tmp_path / "web")
    path = tmp_path / "web" / "model.json"
    data, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        changed = _changed(data, rng)
        with suppress(InfuseError):
            tensorflow.load_web_model(path, memoryview(changed), "damaged")
