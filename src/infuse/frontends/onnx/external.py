"""The files beside an ONNX model that its tensors lie in."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path

from onnx import GraphProto, ModelProto, TensorProto

from infuse.frontends.files import map_file
from infuse.frontends.onnx.wire import split


def external_files(path: str | PathLike[str]) -> list[Path]:
    """The files that tensors of the ONNX model at `path` lie in, without the model's own.

    The model is one that `infuse.load` has read, so that its locations lie inside its folder.
    """
    model_path = Path(fspath(path))
    small, _ = split(map_file(model_path), str(model_path))
    locations = {
        entry.value
        for tensor in _tensors(ModelProto.FromString(small).graph)
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    files = (model_path.parent / location for location in sorted(locations))
    return [file for file in files if file.is_file()]


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """All tensors of a graph and its bodies."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield from current.initializer
        for attribute in (a for node in current.node for a in node.attribute):
            yield from (attribute.t, *attribute.tensors)
            pending += [attribute.g, *attribute.graphs]
