"""Which format a model is in, by its content, and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from infuse.errors import InputError, ModelFileError
from infuse.frontends.archives import Archive
from infuse.frontends.files import map_file
from infuse.ir.graph import Graph


class Source:
    """A model by its path or its bytes, of which as much is read as is asked for."""

    def __init__(self, source: str | PathLike[str] | bytes | bytearray | memoryview) -> None:
        in_memory = isinstance(source, (bytes, bytearray, memoryview))
        self.path = None if in_memory else Path(fspath(source))  # type: ignore[arg-type]
        self._bytes = memoryview(source).cast("B") if in_memory else None  # type: ignore[arg-type]
        self.where = "the model" if self.path is None else str(self.path)

    @cached_property
    def data(self) -> memoryview:
        """All bytes of the file, mapped."""
        if self._bytes is not None:
            return self._bytes
        assert self.path is not None
        return map_file(self.path)

    @cached_property
    def head(self) -> bytes:
        """The first bytes; none of a folder, and of what cannot be read."""
        try:
            return b"" if self.is_folder else bytes(self.data[:4096])
        except ModelFileError:
            return b""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path is not None and self.path.is_dir()

    @property
    def suffix(self) -> str:
        """That of the path."""
        return "" if self.path is None else self.path.suffix

    @cached_property
    def archive(self) -> Archive | None:
        """The zip archive that it is, if it is one."""
        return Archive(self.data, self.where) if self.head[:4] == b"PK\x03\x04" else None

    def holds(self, name: str) -> bool:
        """Whether a folder or an archive has a member of this name."""
        if self.is_folder and self.path is not None:
            return (self.path / name).is_file()
        return self.archive is not None and name in self.archive


@dataclass(frozen=True)
class Format:
    """A format of models: its name, whether a source is in it, and its reader."""

    name: str
    matches: Callable[[Source], bool]
    load: Callable[[Source], Graph]


def _infuse(source: Source) -> Graph:
    import infuse.ops  # noqa: F401  the file names operators, which must be there
    from infuse.ir.file import load as load_infuse

    if source.path is None:
        raise ModelFileError("an .infuse file is read from its path only", where=source.where)
    return load_infuse(source.path)


def _pt2(source: Source) -> Graph:
    from infuse.frontends import torch

    assert source.archive is not None
    return torch.load(source.archive)


def _torchscript(source: Source) -> Graph:
    from infuse.frontends import torchscript

    assert source.archive is not None
    return torchscript.load(source.archive)


def _torch_weights(source: Source) -> Graph:
    from infuse.frontends import torchscript

    assert source.archive is not None
    return torchscript.refuse_weights(source.archive)


def _tflite(source: Source) -> Graph:
    from infuse.frontends import tflite

    return tflite.load(source.data, source.where)


def _keras_archive(source: Source) -> Graph:
    from infuse.frontends import keras

    assert source.archive is not None
    return keras.load_archive(source.archive)


def _keras_hdf5(source: Source) -> Graph:
    from infuse.frontends import keras

    return keras.load_hdf5(source.data, source.where)


def _tfjs(source: Source) -> Graph:
    from infuse.frontends import keras

    assert source.path is not None
    return keras.load_tfjs(source.path)


def _is_mindir(source: Source) -> bool:
    if source.head[:1] not in (b"\n", b"\xd8"):
        return False
    from infuse.frontends import mindspore

    return mindspore.is_mindir(source.head)


def _mindir(source: Source) -> Graph:
    from infuse.frontends import mindspore

    return mindspore.load(source.data, source.where, source.path)


def _is_saved_model(source: Source) -> bool:
    named = source.path is not None and source.path.name == "saved_model.pb"
    return source.holds("saved_model.pb") or (named and source.head[:1] == b"\x08")


def _saved_model(source: Source) -> Graph:
    from infuse.frontends import tensorflow

    assert source.path is not None
    return tensorflow.load_saved_model(source.path if source.is_folder else source.path.parent)


def _is_tensorflow(source: Source) -> bool:
    if source.head[:1] != b"\n":
        return False
    from infuse.frontends import tensorflow

    return tensorflow.is_graph(source.head)


def _tensorflow(source: Source) -> Graph:
    from infuse.frontends import tensorflow

    return tensorflow.load_graph(source.data, source.where)


def _web_source(source: Source) -> Source:
    """The JSON of a model of TensorFlow.js."""
    if source.path is not None and source.holds("model.json"):
        return Source(source.path / "model.json")
    return source


def _is_web_model(source: Source) -> bool:
    opened = _web_source(source)
    return _names(opened, b'"graph-model"') or (
        _names(opened, b'"modelTopology"') and b'"node"' in opened.head
    )


def _web_model(source: Source) -> Graph:
    from infuse.frontends import tensorflow

    opened = _web_source(source)
    return tensorflow.load_web_model(opened.path, opened.data, opened.where)


def _huggingface(source: Source) -> Graph:
    from infuse.frontends import huggingface

    assert source.path is not None
    return huggingface.load(source.path)


def _xgboost(source: Source) -> Graph:
    from infuse.frontends.trees import xgboost

    return xgboost.load(source.data, source.where)


def _lightgbm(source: Source) -> Graph:
    from infuse.frontends.trees import lightgbm

    return lightgbm.load(source.data, source.where)


def _catboost(source: Source) -> Graph:
    from infuse.frontends.trees import catboost

    return catboost.load(source.data, source.where)


def _is_layers_model(source: Source) -> bool:
    """Whether it is a model of layers of TensorFlow.js: its folder, or the `model.json`."""
    if source.is_folder and source.path is not None:
        return source.holds("model.json") and _is_layers_model(Source(source.path / "model.json"))
    topology = _names(source, b'"modelTopology"')
    return topology and _names(source, b'"layers-model"', b'"model_config"', b'"class_name"')


def _is_paddle(source: Source) -> bool:
    from infuse.frontends import paddle

    if source.path is not None and (source.is_folder or source.suffix == ".pdiparams"):
        return paddle.model_file(source.path) is not None
    return paddle.is_head(source.head)


def _paddle(source: Source) -> Graph:
    from infuse.frontends import paddle

    if source.path is None:
        return paddle.load(source.data, source.where, None)
    opened = Source(paddle.model_file(source.path) or source.path)
    return paddle.load(opened.data, opened.where, opened.path)


def _names(source: Source, *members: bytes) -> bool:
    """Whether it begins as a document whose first members include one of these."""
    return source.head.lstrip()[:1] == b"{" and any(name in source.head for name in members)


FORMATS: Final[tuple[Format, ...]] = (
    Format(
        "Infuse",
        lambda s: (
            s.head.startswith(b"INFUSE") or (s.path is not None and s.path.suffix == ".infuse")
        ),
        _infuse,
    ),
    Format("TensorFlow Lite", lambda s: s.head[4:8] == b"TFL3", _tflite),
    Format("PyTorch (torch.export)", lambda s: s.holds("archive_format"), _pt2),
    Format("TorchScript", lambda s: s.holds("data.pkl") and s.holds("constants.pkl"), _torchscript),
    Format("PyTorch (weights)", lambda s: s.holds("data.pkl"), _torch_weights),
    Format("Keras", lambda s: s.archive is not None and s.holds("metadata.json"), _keras_archive),
    Format("Keras (HDF5)", lambda s: s.head[:8] == b"\x89HDF\r\n\x1a\n", _keras_hdf5),
    Format("TensorFlow.js layers", _is_layers_model, _tfjs),
    Format("TensorFlow (SavedModel)", _is_saved_model, _saved_model),
    Format("TensorFlow.js", _is_web_model, _web_model),
    Format("MindSpore (MindIR)", _is_mindir, _mindir),
    Format("TensorFlow (frozen graph)", _is_tensorflow, _tensorflow),
    Format("Hugging Face", lambda s: s.is_folder and s.holds("config.json"), _huggingface),
    Format("XGBoost", lambda s: _names(s, b'"learner"', b"\x07learner"), _xgboost),
    Format("LightGBM", lambda s: s.head.split(b"\n", 1)[0].strip() == b"tree", _lightgbm),
    Format("PaddlePaddle", _is_paddle, _paddle),
    Format("CatBoost", lambda s: _names(s, b'"features_info"', b'"oblivious_trees"'), _catboost),
)
"""Formats with a mark of their own; what has none of these is taken for ONNX."""


def load(source: Any) -> Graph:
    """The graph of a model: a path, bytes, or an object of a framework."""
    if not isinstance(source, (str, PathLike, bytes, bytearray, memoryview)):
        return _load_object(source)
    opened = Source(source)
    format = _format_of(opened)
    if format is not None:
        return format.load(opened)
    from infuse.frontends import onnx

    try:
        return onnx.load(source)
    except ModelFileError as error:
        if error.hint is None and opened.suffix != ".onnx":
            others = ", ".join(format.name for format in FORMATS)
            error.hint = f"it was taken for ONNX, as it has the mark of none of these: {others}"
        raise


def from_torchscript(source: Any, inputs: Mapping[str, Any]) -> Graph:
    """The graph of a program of TorchScript: a path or bytes."""
    opened = Source(source)
    format = _format_of(opened)
    if format is None or format.name != "TorchScript" or opened.archive is None:
        name = "ONNX or unknown" if format is None else format.name
        raise ModelFileError(
            f"it is no program of TorchScript ({name})",
            where=opened.where,
            hint="write it by torch.jit.save, or call infuse.load",
        )
    from infuse.frontends import torchscript

    return torchscript.load(opened.archive, inputs)


def format_name(source: str | PathLike[str] | bytes) -> str:
    """What format a model is in, by its content."""
    format = _format_of(Source(source))
    return "ONNX" if format is None else format.name


def _format_of(source: Source) -> Format | None:
    return next((format for format in FORMATS if format.matches(source)), None)


def _load_object(source: Any) -> Graph:
    library = type(source).__module__.partition(".")[0]
    if library == "torch":
        from infuse.frontends import torch

        return torch.from_torch(source)
    if library in ("sklearn", "xgboost", "lightgbm", "catboost"):
        from infuse.frontends import sklearn

        is_booster = type(source).__name__ == "Booster"
        return sklearn.booster_graph(source) if is_booster else sklearn.load(source)
    if library in ("onnx", "onnx_ml_pb2"):
        from infuse.frontends import onnx

        return onnx.load(source)
    raise InputError(
        f"no model is read from an object of the class {type(source).__name__} of {library}",
        hint="save it to a file, and load that",
    )
