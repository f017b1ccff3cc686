"""A MindIR file → graph: its inputs, nodes, outputs."""

from __future__ import annotations

from typing import Any

import infuse.frontends.mindspore.operators  # noqa: F401  registers the primitives
from infuse.errors import UnsupportedOperatorError
from infuse.frontends.mindspore.calls import TABLE
from infuse.frontends.mindspore.items import MONAD, Item, leaves
from infuse.frontends.mindspore.model import MindModel, short
from infuse.frontends.mindspore.scopes import CONTROL, Frame, MindRun
from infuse.frontends.mindspore.tensors import dtype_of
from infuse.ir.graph import Graph
from infuse.tracing.aten.calls import TorchImporter
from infuse.tracing.folding import tidy
from infuse.tracing.importer import free_name, require_all

_UNKNOWN_RANK = -2


class MindReader:
    """Reads one model."""

    def __init__(self, model: MindModel) -> None:
        self._model = model
        self.g = TorchImporter(short(model.top.name))

    def graph(self) -> Graph:
        """The graph; UnsupportedOperatorError names all primitives that are not known."""
        nodes = [node for node in self._model.nodes() if node.primitive]
        require_all(
            ((node.primitive, node.scope) for node in nodes),
            {*TABLE, *CONTROL},
            "the model",
            "export the model without these primitives, or report them",
        )
        top = self._model.top
        items = [self._input(proto) for proto in top.inputs]
        result = Frame(MindRun(self._model), self.g, top, items).result()
        values = leaves(self.g, [result])
        for number, value in enumerate(values):
            name = "output" if len(values) == 1 else f"output_{number}"
            used = {v.name for v in self.g.graph.inputs}
            self.g.output(free_name(name, used), self.g("Identity", value))
        tidy(self.g.graph)
        return self.g.graph

    def _input(self, proto: Any) -> Item:
        name = short(proto.name)
        if not proto.tensor:
            return self._other(name, proto)
        tensor = proto.tensor[0]
        sizes = [None if size < 0 else int(size) for size in tensor.dims]
        shape = None if _UNKNOWN_RANK in tensor.dims else sizes
        return self.g.input(name, dtype_of(tensor.data_type), shape)

    def _other(self, name: str, proto: Any) -> Item:
        if proto.denotation in ("UMonadType", "IOMonadType"):
            return MONAD
        raise UnsupportedOperatorError(
            f"the input {name!r} is not a tensor",
            hint="export the model with tensors for its arguments",
        )
