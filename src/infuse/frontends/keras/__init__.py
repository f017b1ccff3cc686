"""Models of Keras: `.keras` archives, whole models in HDF5 files, and layers models of
TensorFlow.js, read without Keras or TensorFlow.

Layers are built from their configurations, as Keras computes them at inference: random layers and
dropout do nothing, normalizations take their stored statistics, masks go from layer to layer.
Nothing that a file holds is executed: `Lambda` layers and classes of the user's own are refused by
name. Inputs and outputs keep the layout of the model; convolutions and pools over channels_last
stand between transposes, which `layout.py` moves to the border of the images.
"""

from __future__ import annotations

from pathlib import Path

from infuse.errors import ModelFileError
from infuse.frontends.archives import Archive
from infuse.frontends.documents import json_object
from infuse.frontends.files import map_file
from infuse.frontends.keras import hdf5
from infuse.frontends.keras.reader import KerasReader
from infuse.frontends.keras.weights import LayerWeights, Listed, Named, Stored
from infuse.frontends.malformed import wellformed
from infuse.frontends.tfjs import read_weights
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering

_HINT = "the file was damaged, or written by an unknown release of Keras; save it again"
_WHOLE = "save the whole model: model.save('model.keras')"
CONFIG = "config.json"
WEIGHTS = "model.weights.h5"


def load_archive(archive: Archive) -> Graph:
    """The graph of a `.keras` archive."""
    with wellformed(archive.where, "the model", _HINT):
        if WEIGHTS not in archive:
            raise ModelFileError(
                f"the archive has no {WEIGHTS}", hint="save it again, with weights in HDF5"
            )
        config = json_object(archive.read(CONFIG), CONFIG)
        metadata = json_object(archive.read("metadata.json"), "metadata.json")
        weights = Stored(hdf5.opened(archive.read(WEIGHTS)))
        return _graph(config, str(metadata.get("keras_version")), weights)


def load_hdf5(data: memoryview, where: str) -> Graph:
    """The graph of an HDF5 file of a whole model, of Keras 2 or 3."""
    with wellformed(where, "the model", _HINT):
        file = hdf5.opened(data)
        text = file.text("model_config")
        if text is None:
            raise ModelFileError(
                "the HDF5 file has no model in it, but weights at most", hint=_WHOLE
            )
        config = json_object(text.encode(), "model_config")
        root = file.group("model_weights")
        if root is None:
            raise ModelFileError("the HDF5 file has no weights", hint=_WHOLE)
        return _graph(config, file.text("keras_version") or "2", Listed(root))


def load_tfjs(path: Path) -> Graph:
    """The graph of a layers model of TensorFlow.js, by its folder or `model.json`."""
    file = path / "model.json" if path.is_dir() else path
    with wellformed(str(path), "the model", _HINT):
        document = json_object(map_file(file), file.name)
        topology = document["modelTopology"]
        config = topology.get("model_config", topology)
        arrays = read_weights(document.get("weightsManifest") or [], file.parent)
        return _graph(config, str(topology.get("keras_version", "2")), Named(arrays))


def _graph(config: object, version: str, weights: LayerWeights) -> Graph:
    reader = KerasReader(config, version, weights)
    with uncollected(), numbering(reader.g.sizes.taken):
        return reader.graph()


__all__ = ["load_archive", "load_hdf5", "load_tfjs"]
