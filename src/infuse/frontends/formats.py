"""Which format a model is in, by its content, and its reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from infuse.errors import ModelFileError, OptionError
from infuse.frontends.archives import Archive
from infuse.frontends.files import map_file
from infuse.frontends.objects import load_object
from infuse.ir.graph import Graph
from infuse.options import FormatOptions, HuggingFace, SavedModel, TorchScript


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
    """A format of models: its name, whether a source is in it, and its reader: the path of a
    function below this package, its arguments, and the options that it takes.
    """

    name: str
    matches: Callable[[Source], bool]
    reader: str
    arguments: Callable[[Source], tuple[Any, ...]]
    options: type[FormatOptions] | None = None

    def load(self, source: Source, options: FormatOptions | None) -> Graph:
        """The graph of a source; OptionError for options of other formats."""
        _check_options(self.name, self.options, options, source.where)
        named = {} if options is None else options.to_dict()
        graph: Graph = _function(self.reader)(*self.arguments(source), **named)
        return graph


def _function(path: str) -> Callable[..., Any]:
    """A function of a reader, which is imported when it is needed."""
    module, _, name = path.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(f"infuse.frontends.{module}"), name)
    return function


def _check_options(
    name: str,
    own: type[FormatOptions] | None,
    options: FormatOptions | None,
    where: str | None = None,
) -> None:
    if options is not None and (own is None or not isinstance(options, own)):
        kind = type(options)
        others = ", ".join(other.name for other in FORMATS if other.options is kind)
        raise OptionError(
            f"{kind.__name__}(…) is for {others}, and the model is {name}", where=where
        )


# -- arguments of readers --------------------------------------------------------------------------


def _data(source: Source) -> tuple[Any, ...]:
    return source.data, source.where


def _data_and_path(source: Source) -> tuple[Any, ...]:
    return source.data, source.where, source.path


def _archive(source: Source) -> tuple[Any, ...]:
    return (source.archive,)


def _path(source: Source) -> tuple[Any, ...]:
    return (source.path,)


def _infuse_file(source: Source) -> tuple[Any, ...]:
    if source.path is None:
        raise ModelFileError("an .infuse file is read from its path only", where=source.where)
    return (source.path,)


def _saved_model_folder(source: Source) -> tuple[Any, ...]:
    assert source.path is not None
    return (source.path if source.is_folder else source.path.parent,)


def _web_document(source: Source) -> tuple[Any, ...]:
    opened = _web_source(source)
    return opened.path, opened.data, opened.where


def _paddle_program(source: Source) -> tuple[Any, ...]:
    if source.path is None:
        return _data_and_path(source)
    file = _function("paddle.model_file")(source.path)
    return _data_and_path(Source(file or source.path))


# -- marks of formats ------------------------------------------------------------------------------


def _is_infuse(source: Source) -> bool:
    return source.head.startswith(b"INFUSE") or source.suffix == ".infuse"


def _is_mindir(source: Source) -> bool:
    if source.head[:1] not in (b"\n", b"\xd8"):
        return False
    return bool(_function("mindspore.is_mindir")(source.head))


def _is_saved_model(source: Source) -> bool:
    named = source.path is not None and source.path.name == "saved_model.pb"
    return source.holds("saved_model.pb") or (named and source.head[:1] == b"\x08")


def _is_tensorflow(source: Source) -> bool:
    return source.head[:1] == b"\n" and bool(_function("tensorflow.is_graph")(source.head))


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


def _is_layers_model(source: Source) -> bool:
    """Whether it is a model of layers of TensorFlow.js: its folder, or the `model.json`."""
    opened = _web_source(source)
    topology = _names(opened, b'"modelTopology"')
    return topology and _names(opened, b'"layers-model"', b'"model_config"', b'"class_name"')


def _is_paddle(source: Source) -> bool:
    if source.path is not None and (source.is_folder or source.suffix == ".pdiparams"):
        return _function("paddle.model_file")(source.path) is not None
    # Both kinds of program begin so; other files need not import the reader.
    may_be_program = source.head.lstrip()[:1] == b"{" or source.head[:1] == b"\n"
    return may_be_program and bool(_function("paddle.is_head")(source.head))


def _names(source: Source, *members: bytes) -> bool:
    """Whether it begins as a document whose first members include one of these."""
    return source.head.lstrip()[:1] == b"{" and any(name in source.head for name in members)


FORMATS: Final[tuple[Format, ...]] = (
    Format("Infuse", _is_infuse, "infuse_file.load", _infuse_file),
    Format("TensorFlow Lite", lambda s: s.head[4:8] == b"TFL3", "tflite.load", _data),
    Format("PyTorch (torch.export)", lambda s: s.holds("archive_format"), "torch.load", _archive),
    Format(
        "TorchScript",
        lambda s: s.holds("data.pkl") and s.holds("constants.pkl"),
        "torchscript.load",
        _archive,
        TorchScript,
    ),
    Format(
        "PyTorch (weights)",
        lambda s: s.holds("data.pkl"),
        "torchscript.refuse_weights",
        _archive,
    ),
    Format(
        "Keras",
        lambda s: s.archive is not None and s.holds("metadata.json"),
        "keras.load_archive",
        _archive,
    ),
    Format(
        "Keras (HDF5)",
        lambda s: s.head[:8] == b"\x89HDF\r\n\x1a\n",
        "keras.load_hdf5",
        _data,
    ),
    Format("TensorFlow.js layers", _is_layers_model, "keras.load_tfjs", _path),
    Format(
        "TensorFlow (SavedModel)",
        _is_saved_model,
        "tensorflow.load_saved_model",
        _saved_model_folder,
        SavedModel,
    ),
    Format("TensorFlow.js", _is_web_model, "tensorflow.load_web_model", _web_document),
    Format("MindSpore (MindIR)", _is_mindir, "mindspore.load", _data_and_path),
    Format("TensorFlow (frozen graph)", _is_tensorflow, "tensorflow.load_graph", _data),
    Format(
        "Hugging Face",
        lambda s: s.is_folder and s.holds("config.json"),
        "huggingface.load",
        _path,
        HuggingFace,
    ),
    Format(
        "XGBoost", lambda s: _names(s, b'"learner"', b"\x07learner"), "trees.xgboost.load", _data
    ),
    Format(
        "LightGBM",
        lambda s: s.head.split(b"\n", 1)[0].strip() == b"tree",
        "trees.lightgbm.load",
        _data,
    ),
    Format("PaddlePaddle", _is_paddle, "paddle.load", _paddle_program),
    Format(
        "CatBoost",
        lambda s: _names(s, b'"features_info"', b'"oblivious_trees"', b'"ctr_data"'),
        "trees.catboost.load",
        _data,
    ),
)
"""Formats with a mark of their own; what has none of these is taken for ONNX."""


def load(source: Any, options: FormatOptions | None = None) -> Graph:
    """The graph of a model: a path, bytes, or an object of a framework; `options` are those of its
    format.
    """
    if not isinstance(source, (str, PathLike, bytes, bytearray, memoryview)):
        _check_options("an object of a framework", None, options)
        return load_object(source)
    opened = Source(source)
    format = _format_of(opened)
    if format is not None:
        return format.load(opened, options)
    _check_options("ONNX", None, options, opened.where)
    from infuse.frontends import onnx

    try:
        return onnx.load(source)
    except ModelFileError as error:
        if error.hint is None and opened.suffix != ".onnx":
            others = ", ".join(format.name for format in FORMATS)
            error.hint = f"it was taken for ONNX, as it has the mark of none of these: {others}"
        raise


def format_name(source: str | PathLike[str] | bytes) -> str:
    """What format a model is in, by its content."""
    format = _format_of(Source(source))
    return "ONNX" if format is None else format.name


def model_files(path: str | PathLike[str]) -> list[Path]:
    """The files that a model at `path` consists of: itself and what its tensors lie in, or all
    files of its folder.
    """
    whole = Path(path)
    if whole.is_dir():
        return sorted(each for each in whole.rglob("*") if each.is_file())
    if _format_of(Source(path)) is not None:
        return [whole]
    from infuse.frontends.onnx.external import external_files

    return [whole, *external_files(whole)]


def _format_of(source: Source) -> Format | None:
    return next((format for format in FORMATS if format.matches(source)), None)
