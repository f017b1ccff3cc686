"""Models of TensorFlow, read without it: SavedModel folders, frozen graphs (`.pb`), and graph
models of TensorFlow.js.

All of them are a graph of one set of operators (`operators/`), whose nodes are built when a result
needs them (`scopes.py`). Functions are built where they are called. Control flow of TensorFlow 1
(`frames.py`) and 2 becomes `If` and `Loop`; lists of tensors are one tensor with one more axis.
Variables are constants: those of the checkpoint, in the mapped file. Images keep the layout of the
model (NHWC) at inputs and outputs, as in TensorFlow Lite, whose builders of operators serve here
too. A first size that is not fixed is the symbol `batch`, one for all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from infuse.errors import ModelFileError
from infuse.frontends.files import map_file
from infuse.frontends.malformed import wellformed
from infuse.frontends.protobuf import parse
from infuse.frontends.tensorflow import saved, webmodels
from infuse.frontends.tensorflow.bundle import Bundle
from infuse.frontends.tensorflow.messages import MESSAGES
from infuse.frontends.tensorflow.reader import FlowReader
from infuse.frontends.tensorflow.regions import FlowModel, Ref
from infuse.ir.collection import uncollected
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering

_HINT: Final = "the file was damaged, or is not a model of TensorFlow; fetch or export it again"


def load_saved_model(folder: Path, signature: str | None = None) -> Graph:
    """The graph of a signature of a SavedModel: of the one called so, else of `serving_default`, or
    of the only one.
    """
    path = folder / "saved_model.pb"
    with _reading(str(folder)):
        meta = saved.meta_graph(map_file(path), str(path))
        name, chosen = saved.signature(meta, signature)
        prefix = folder / "variables" / "variables"
        bundle = Bundle(prefix) if prefix.with_suffix(".index").exists() else None
        assets = saved.assets(meta, folder)
        reader = FlowReader(FlowModel(meta.graph_def), name, bundle, assets)
        with numbering(reader.g.sizes.taken):
            if bundle is not None:
                reader.restore(meta.saver_def.restore_op_name)
            reader.restore(saved.initializer(meta))
            return reader.graph(_named(chosen.inputs), _named(chosen.outputs))


def load_graph(data: memoryview, where: str) -> Graph:
    """The graph of a frozen GraphDef: from its placeholders to what nobody reads."""
    with _reading(where):
        message = parse(MESSAGES["Graph"], data, where, "the graph")
        reader = FlowReader(FlowModel(message), "graph")
        with numbering(reader.g.sizes.taken):
            return reader.graph(None, None)


def load_web_model(path: Path | None, data: memoryview, where: str) -> Graph:
    """The graph of a TensorFlow.js graph model, whose JSON is `data`; its weights lie beside it."""
    with _reading(where):
        web = webmodels.read(data, path, where)
        reader = FlowReader(FlowModel(web.graph, web.weights), "graph")
        inputs, outputs = (
            _named(getattr(web.signature, part)) if web.signature is not None else None
            for part in ("inputs", "outputs")
        )
        if web.initializer is not None:
            filling = FlowReader(FlowModel(web.initializer, web.weights), "initializer")
            made = filling.initialized([_ref(name) for name in web.tables.values()])
            reader.bound.update({name: [item] for name, item in zip(web.tables, made)})
            inputs = {key: ref for key, ref in (inputs or {}).items() if ref.node not in web.tables}
        with numbering(reader.g.sizes.taken):
            return reader.graph(inputs or None, outputs or None)


@contextmanager
def _reading(where: str) -> Iterator[None]:
    with wellformed(where, "the model", _HINT), uncollected():
        yield


def _named(infos: Mapping[str, Any]) -> dict[str, Ref]:
    """Where the tensors of a signature are, by their names."""
    refs = {}
    for name in sorted(infos):
        refs[name] = _ref(infos[name].name)
    return refs


def _ref(name: str) -> Ref:
    node, _, index = name.partition(":")
    if not node or (index and not index.isdigit()):
        raise ModelFileError(f"the signature says {name!r} of a tensor")
    return Ref(node, int(index or 0))


def is_graph(head: bytes) -> bool:
    """Whether a file begins as a GraphDef: a node with its name and its operator. Other formats
    have other fields there: ONNX a number, MindSpore text.
    """
    if head[:1] != b"\n" or len(head) < 16:
        return False
    place = 1
    while place < 11 and head[place] > 127:
        place += 1
    place += 1
    if head[place : place + 1] != b"\n":
        return False
    length = head[place + 1]
    place += 2 + length
    if length > 127:
        return False
    if head[place : place + 1] != b"\x12" or len(head) < place + 2:
        return False
    name = head[place + 2 : place + 2 + head[place + 1]]
    return bool(name) and name.isascii() and name.decode().isidentifier()


__all__ = ["is_graph", "load_graph", "load_saved_model", "load_web_model"]
