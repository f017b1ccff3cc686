"""ONNX models: every opset, functions, external data, models over 2 GB; unknown operators stay
opaque.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError
from onnx import ModelProto

from infuse.errors import InfuseError, ModelFileError
from infuse.frontends.files import ExternalFiles, foreign_format, map_file
from infuse.frontends.onnx.build import Builder
from infuse.frontends.onnx.malformed import MALFORMED, malformed
from infuse.frontends.onnx.tensors import Tensors
from infuse.frontends.onnx.wire import Payloads, split
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering

__all__ = ["load", "opened"]


ModelSource = str | PathLike[str] | bytes | bytearray | memoryview | ModelProto


class Opened(NamedTuple):
    """An ONNX model whose structure is parsed."""

    model: ModelProto
    tensors: Tensors


def load(source: ModelSource, *, folder: str | PathLike[str] | None = None) -> Graph:
    """The graph of an ONNX model, given by its path, its bytes, or as a ModelProto.

    Operators come in their newest form, whatever the model's opset; functions are inlined,
    initializers are constants, or the defaults of inputs that bear their names (from version 4 of
    the format on). Large weights stay in the mapped file and are read when used: do not change the
    file while the graph lives. External data is looked for in `folder`, by default the model's own.

    ModelFileError, GraphError, ShapeError, TypeMismatchError or UnsupportedOperatorError say what
    is wrong with a model and where.
    """
    _, where = _named(source)
    model = ModelProto()
    try:
        model, tensors = opened(source, folder=folder)
        builder = Builder(model, tensors)
        with uncollected(), numbering(builder.sizes.taken):
            graph = builder.graph()
        tensors.files.check_overlaps()
    except InfuseError as error:
        if not (error.where or "").startswith(where):
            error.within(where)
        raise
    except RecursionError as error:
        raise ModelFileError("the model is nested too deeply", where=where) from error
    except MALFORMED as error:
        raise malformed(model, error, where) from error
    return graph


def opened(source: ModelSource, *, folder: str | PathLike[str] | None = None) -> Opened:
    """The message of a model without its large tensors, and the reader of tensors; ModelFileError
    where it is no ONNX model.
    """
    path, where = _named(source)
    files = ExternalFiles(path, None if folder is None else Path(folder))
    if isinstance(source, ModelProto):
        return Opened(source, Tensors(files, Payloads()))
    data = map_file(path) if path is not None else memoryview(source).cast("B")  # type: ignore[arg-type]
    model, payloads = _parse(data, where)
    return Opened(model, Tensors(files, payloads))


def _named(source: ModelSource) -> tuple[Path | None, str]:
    """The path of a model, if it has one, and what errors call it."""
    if isinstance(source, (bytes, bytearray, memoryview, ModelProto)):
        return None, "the model"
    path = Path(fspath(source))
    return path, str(path)


def _parse(data: memoryview, where: str) -> tuple[ModelProto, Payloads]:
    """The message without its large tensors, and those."""
    if not len(data):
        raise ModelFileError(
            "it is empty", where=where, hint="the download or export did not finish"
        )
    try:
        small, payloads = split(data, where)
        model = ModelProto.FromString(small)
    except (DecodeError, InfuseError) as error:
        advice = foreign_format(bytes(data[:64]))
        if advice is None and isinstance(error, InfuseError):
            raise
        raise ModelFileError(
            "it is not an ONNX model", where=where, hint=advice or "export it again"
        ) from error
    if not model.HasField("graph"):
        raise ModelFileError(
            "it is not an ONNX model: it has no graph",
            where=where,
            hint=foreign_format(bytes(data[:64]))
            or "an ONNX file of another kind (a tensor, say) is not a model",
        )
    return model, payloads
