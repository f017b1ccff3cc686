"""Graphs as standard ONNX models, in any opset from 13 on."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from onnx import ModelProto

from infuse.errors import GraphError, ModelFileError, OptionError
from infuse.exporters.onnx.lowering import LOWEST, lower
from infuse.exporters.onnx.messages import put_elements
from infuse.exporters.onnx.schemas import NEWEST
from infuse.exporters.onnx.storage import LIMIT, store, total_bytes
from infuse.exporters.onnx.writing import Constant, write
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ir.nesting import depth

__all__ = ["save", "to_model"]

NESTED = 31
"""Levels of bodies in an ONNX file: each is three messages deep, and protobuf reads a hundred."""


def to_model(graph: Graph, opset: int | None = None) -> ModelProto:
    """`graph` as an ONNX model with its weights inside.

    `opset` is the version of ONNX's operators to write in, 13 or newer; by default the model's own
    (17 where it has none or an older one), or the next newer one that can express every node. What
    an opset lacks is decomposed: Gelu, LayerNormalization, Attention and others.
    UnsupportedOperatorError names a node that cannot be expressed.

    Names, documentation and metadata stay; names that are taken are numbered, missing ones made up.
    Unknown operators are written as they came.
    """
    model, constants = _message(graph, opset)
    if total_bytes(model, constants) > LIMIT:
        raise ModelFileError(
            f"the model takes about {total_bytes(model, constants)} bytes; a message holds at most "
            f"{LIMIT}",
            hint="write it with save(), which puts the weights beside the model",
        )
    for item in constants:
        proto = model.graph.initializer.add(
            name=item.name, dims=item.array.shape, data_type=item.dtype.onnx
        )
        put_elements(proto, item.array, item.dtype)
    return model


def save(
    graph: Graph,
    path: str | PathLike[str],
    opset: int | None = None,
    external_data: bool | str | None = None,
) -> None:
    """Write `graph` to an ONNX file; `opset` as for `to_model`.

    With `external_data` the weights go to one file beside the model, of that name or `PATH.data`;
    by default they do where the model would pass the 2 GB that protobuf can read. Files appear
    under their names only when they are complete, so a model may be written over the one that it
    was read from. ModelFileError when they cannot be written.
    """
    model, constants = _message(graph, opset)
    store(model, constants, Path(path), external_data)


def _message(graph: Graph, opset: int | None) -> tuple[ModelProto, list[Constant]]:
    """The model without its initializers, and those."""
    if depth(graph) > NESTED:
        raise GraphError(
            f"its bodies are nested {depth(graph)} deep; an ONNX file holds {NESTED} levels",
            hint="keep it as .infuse",
        )
    with uncollected():
        return write(lower(graph, _checked(opset)))


def _checked(opset: int | None) -> int | None:
    if opset is not None and not LOWEST <= opset <= NEWEST:
        raise OptionError(f"models are written in opset {LOWEST} to {NEWEST}, not {opset}")
    return opset
