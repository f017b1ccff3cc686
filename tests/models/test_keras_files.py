"""Files of Keras 2, layers models of TensorFlow.js, and what is refused of all."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from tests.models.test_keras import agree, archive

h5py = pytest.importorskip("h5py")


def case_names() -> list[str]:
    return [name.removesuffix(".h5") for name in archive("legacy") if name.endswith(".h5")]


@pytest.mark.parametrize("name", case_names())
def test_file_of_keras_2(name: str) -> None:
    members = archive("legacy")
    agree(infuse.load(members[f"{name}.h5"]), members[f"{name}.npz"], 1e-5)


# -- TensorFlow.js ---------------------------------------------------------------------------------


def tfjs(folder: Path, name: str, **quantization: Any) -> Path:
    """The model of a file of Keras 2 as TensorFlow.js has it, in two shards."""
    weights: list[dict[str, Any]] = []
    data = b""
    with h5py.File(io.BytesIO(archive("legacy")[f"{name}.h5"])) as file:
        topology = {"keras_version": "2.15", "model_config": json.loads(file.attrs["model_config"])}
        for layer in file["model_weights"].values():
            for path in layer.attrs.get("weight_names", ()):
                array = layer[path][()]
                entry = {"name": path.removesuffix(":0"), "shape": array.shape, "dtype": "float32"}
                kind = quantization.get("dtype")
                if kind == "float16":
                    entry["quantization"] = {"dtype": kind, "original_dtype": "float32"}
                    array = array.astype(np.float16)
                elif kind:
                    most = np.iinfo(kind).max
                    scale = float((array.max() - array.min()) / most) or 1.0
                    entry["quantization"] = {
                        "dtype": kind,
                        "scale": scale,
                        "min": float(array.min()),
                    }
                    array = np.round((array - array.min()) / scale).astype(kind)
                weights.append(entry)
                data += array.tobytes()
    half = len(data) // 2
    (folder / "group1-shard1of2.bin").write_bytes(data[:half])
    (folder / "group1-shard2of2.bin").write_bytes(data[half:])
    paths = ["group1-shard1of2.bin", "group1-shard2of2.bin"]
    manifest = [{"paths": paths, "weights": weights}]
    document = {"format": "layers-model", "modelTopology": topology, "weightsManifest": manifest}
    (folder / "model.json").write_text(json.dumps(document))
    return folder


@pytest.mark.parametrize("name", ["model-sequential", "model-twice", "mask-bidirectional"])
def test_model_of_tensorflow_js(tmp_path: Path, name: str) -> None:
    folder = tfjs(tmp_path, name)
    agree(infuse.load(folder), archive("legacy")[f"{name}.npz"], 1e-5)
    agree(infuse.load(folder / "model.json"), archive("legacy")[f"{name}.npz"], 1e-5)


@pytest.mark.parametrize(
    ("kind", "tolerance"), [("float16", 2e-3), ("uint16", 1e-3), ("uint8", 5e-2)]
)
def test_quantized_weights_of_tensorflow_js(tmp_path: Path, kind: str, tolerance: float) -> None:
    folder = tfjs(tmp_path, "Conv2D-same-2", dtype=kind)
    agree(infuse.load(folder), archive("legacy")["Conv2D-same-2.npz"], tolerance)


def test_shards_that_are_cut_off(tmp_path: Path) -> None:
    shard = tfjs(tmp_path, "model-sequential") / "group1-shard2of2.bin"
    shard.write_bytes(shard.read_bytes()[:-5])
    with pytest.raises(ModelFileError, match="ends at byte"):
        infuse.load(tmp_path)
    shard.unlink()
    with pytest.raises(ModelFileError, match="shard"):
        infuse.load(tmp_path)


# -- what is refused -------------------------------------------------------------------------------


def changed(name: str, change: Any) -> bytes:
    """An archive whose configuration is another."""
    buffer = io.BytesIO()
    old = zipfile.ZipFile(io.BytesIO(archive("cases")[f"{name}.keras"]))
    with old, zipfile.ZipFile(buffer, "w") as new:
        for member in old.namelist():
            data = old.read(member)
            if member == "config.json":
                config = json.loads(data)
                data = json.dumps(change(config) or config).encode()
            new.writestr(member, data)
    return buffer.getvalue()


def renamed(config: dict[str, Any], kind: str, **more: Any) -> None:
    layer = config["config"]["layers"][-1]
    layer["class_name"] = kind
    layer.update(more)


def test_code_is_refused_by_name() -> None:
    model = changed("Dense", lambda c: renamed(c, "Lambda"))
    with pytest.raises(UnsupportedOperatorError, match="never executed: dense"):
        infuse.load(model)


def test_own_classes_are_refused_by_name() -> None:
    model = changed("Dense", lambda c: renamed(c, "Mine", registered_name="Custom>Mine"))
    with pytest.raises(UnsupportedOperatorError, match="Custom>Mine"):
        infuse.load(model)


def test_own_classes_with_the_name_of_a_layer_are_refused_too() -> None:
    model = changed("Dense", lambda c: renamed(c, "ReLU", module="mine", registered_name="ReLU"))
    with pytest.raises(UnsupportedOperatorError, match="mine>ReLU"):
        infuse.load(model)


def test_subclassed_models_are_refused() -> None:
    model = changed("Dense", lambda c: {"class_name": "Mine", "config": {}})
    with pytest.raises(UnsupportedOperatorError, match="SavedModel"):
        infuse.load(model)


def test_weights_alone_are_refused() -> None:
    with zipfile.ZipFile(io.BytesIO(archive("cases")["Dense.keras"])) as file:
        weights = file.read("model.weights.h5")
    with pytest.raises(ModelFileError, match="whole model"):
        infuse.load(weights)


def test_a_circle_is_refused() -> None:
    def change(config: dict[str, Any]) -> None:
        layers = config["config"]["layers"]
        history = layers[1]["inbound_nodes"][0]["args"][0]["config"]
        history["keras_history"] = [layers[1]["name"], 0, 0]

    with pytest.raises(ModelFileError, match="needs its own result"):
        infuse.load(changed("Dense", change))


def test_damaged_files_give_an_error_of_infuse() -> None:
    rng = random.Random(5)
    names = sorted(n for n in archive("cases") if n.endswith(".keras"))
    for _ in range(200):
        data = bytearray(archive("cases")[rng.choice(names)])
        for _ in range(rng.randint(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            infuse.load(bytes(data[: rng.randrange(len(data))] if rng.random() < 0.2 else data))
        except InfuseError:
            continue
