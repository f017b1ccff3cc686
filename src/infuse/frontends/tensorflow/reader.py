"""A model of TensorFlow → graph: variables, inputs and outputs by the names of a signature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import infuse.frontends.tensorflow.operators  # noqa: F401  registers the operators
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import map_file
from infuse.frontends.tensorflow.bundle import Bundle
from infuse.frontends.tensorflow.calls import TABLE
from infuse.frontends.tensorflow.frames import Frames
from infuse.frontends.tensorflow.regions import FlowModel, FlowNode, FlowRegion, Ref
from infuse.frontends.tensorflow.tensors import array_of, dtype_of, shape_of
from infuse.ir.graph import Array, Graph, Value
from infuse.tracing.folding import FoldingImporter, tidy
from infuse.tracing.importer import require_all
from infuse.tracing.items import Item, Table, Variable

_PLACEHOLDERS: Final = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_STRUCTURAL: Final = frozenset(
    [*_PLACEHOLDERS, *Frames.flow, "Enter", "RefEnter", "NextIteration", "RefNextIteration"]
)
_SILENT: Final = frozenset(
    [
        "NoOp",
        "Const",
        "Assert",
        "SaveV2",
        *_PLACEHOLDERS,
        "Switch",
        "RefSwitch",
        "_SwitchN",
        "LoopCond",
        "Enter",
        "NextIteration",
        "TensorArrayV3",
        "TensorArrayWriteV3",
        "TensorArrayScatterV3",
        "TensorArrayCloseV3",
        "TensorListReserve",
        "EmptyTensorList",
        "TensorListFromTensor",
        "TensorListSetItem",
        "TensorListPushBack",
        "TensorListResize",
        "VarHandleOp",
        "VariableV2",
        "Variable",
    ]
)
"""Nodes that nobody reads without being outputs."""
_FUNCTIONS: Final = ("f", "then_branch", "else_branch", "cond", "body", "branches")


class FlowReader:
    """Reads one signature of a model: names of inputs and outputs, and where they are."""

    def __init__(
        self,
        model: FlowModel,
        name: str,
        bundle: Bundle | None = None,
        assets: Mapping[str, Path] | None = None,
    ) -> None:
        """`assets` are the files that constants of the graph are the names of, by the names of
        these.
        """
        self.model = model
        self.g = FoldingImporter(name)
        self.restoring = False
        self._bundle = bundle
        self._variables: dict[str, Variable] = {}
        self.bound: dict[str, list[Item]] = {}
        """The results of nodes that are made elsewhere."""
        self._tables: dict[str, Table] = {}
        self._assets = dict(assets or {})

    def variable(self, name: str) -> Variable:
        """The variable of this name."""
        return self._variables.setdefault(name, Variable(name))

    def restored(self, name: str) -> Array:
        """The elements of a tensor of the checkpoint."""
        if self._bundle is None:
            raise ModelFileError(f"there is no checkpoint that has {name!r}")
        return self._bundle.tensor(name)

    def table(self, name: str) -> Table:
        """The table of this name."""
        return self._tables.setdefault(name, Table(name))

    def asset(self, name: str) -> memoryview:
        """The content of a file that the model brings, by the name of its constant."""
        if name not in self._assets:
            raise ModelFileError(f"{name!r} is none of the files that the model brings")
        return map_file(self._assets[name])

    def restore(self, operator: str) -> None:
        """Give variables and tables what the checkpoint or the graph has for them, as this node
        does.
        """
        name = operator.partition(":")[0]
        if name and name in self.model.main.nodes:
            self._restoring([name])

    def initialized(self, refs: Sequence[Ref]) -> list[Item]:
        """Results of a graph whose nodes all fill variables and tables."""
        scope = self._restoring(list(self.model.main.nodes))
        return [scope.get(ref) for ref in refs]

    def _restoring(self, names: Sequence[str]) -> Frames:
        """The scope in which these nodes were built, with all that comes before them."""
        self.restoring = True
        scratch = FoldingImporter("restore")
        try:
            nodes = self.model.main.nodes.values()
            bound: dict[str, list[Item]] = {
                node.name: [None] for node in nodes if node.op in _PLACEHOLDERS
            }
            for asset in self._assets:
                bound[asset] = [scratch.constant(np.array(asset, object))]
            scope = Frames(self, scratch, self.model.main, bound)
            scope.run(names)
            return scope
        finally:
            self.restoring = False

    # -- the graph ---------------------------------------------------------------------------------

    def graph(self, inputs: Mapping[str, Ref] | None, outputs: Mapping[str, Ref] | None) -> Graph:
        """The graph from these inputs to these outputs; where there are none, from the
        placeholders that are needed to what nobody reads.
        """
        main = self.model.main
        outputs = _unread(main) if outputs is None else outputs
        if not outputs:
            raise ModelFileError("the graph has no outputs")
        require_all(
            _calls(self.model, [ref.node for ref in outputs.values()]),
            frozenset(TABLE) | _STRUCTURAL,
            "the model",
            "replace them before the model is saved, or report the operators",
        )
        bound = self._inputs(inputs or {}, _needed(main, [ref.node for ref in outputs.values()]))
        scope = Frames(self, self.g, main, bound)
        for name, ref in outputs.items():
            item = scope.get(ref)
            if not isinstance(item, Value):
                raise UnsupportedOperatorError(f"the output {name!r} is not a real tensor")
            self.g.output(self._free(name), item)
        tidy(self.g.graph)
        return self.g.graph

    def _free(self, name: str) -> str:
        names = {*self.g.graph.output_names, *(value.name for value in self.g.graph.inputs)}
        count, free = 2, name
        while free in names:
            free, count = f"{name}_{count}", count + 1
        return free

    def _inputs(self, inputs: Mapping[str, Ref], needed: set[str]) -> dict[str, list[Item]]:
        bound: dict[str, list[Item]] = dict(self.bound)
        listed = {ref.node: name for name, ref in inputs.items()}
        for node in self.model.main.nodes.values():
            if node.op in _PLACEHOLDERS and node.name in needed and node.name not in bound:
                listed.setdefault(node.name, node.name)
        for name, label in listed.items():
            node = self.model.main.node(name)
            if inputs.get(label, Ref(name)).place:
                raise UnsupportedOperatorError(f"the input {label!r} is result {inputs[label]}")
            bound[name] = [self._input(label, node)]
        return bound

    def _input(self, name: str, node: FlowNode) -> Value:
        number = node.attribute("dtype", node.attribute("T"))
        message = node.attribute("shape")
        shape = None if message is None else shape_of(message)
        default = _default(self.model, node)
        if default is not None:
            value = self.g.input(name, dtype_of(number), default.shape)
            value.default = default
            return value
        if shape is None:
            return self.g.input(name, dtype_of(number), None)
        sizes: list[Any] = list(shape)
        if sizes and sizes[0] is None:
            sizes[0] = "batch"
        return self.g.input(name, dtype_of(number), sizes)


def _default(model: FlowModel, node: FlowNode) -> Array | None:
    if node.op != "PlaceholderWithDefault" or not node.inputs:
        return None
    source = model.main.node(node.inputs[0].node)
    while source.op == "Identity" and source.inputs:
        source = model.main.node(source.inputs[0].node)
    if source.op != "Const" or source.attribute("value") is None:
        raise UnsupportedOperatorError(f"the default of {node.name!r}, which is computed,")
    if model.weights is not None and source.name in model.weights:
        return model.weights[source.name]
    return array_of(source.attribute("value"))


def _unread(region: FlowRegion) -> dict[str, Ref]:
    """The results that nobody reads, by the names of their nodes."""
    ends = {}
    controls = {name for node in region.nodes.values() for name in node.controls}
    read = {*region.readers, *controls}
    for node in region.nodes.values():
        if node.name not in read and node.op not in _SILENT:
            ends[node.name] = Ref(node.name)
    return ends


def _needed(region: FlowRegion, names: Sequence[str]) -> set[str]:
    """Nodes that these need, themselves included."""
    seen, left = set(names), list(names)
    while left:
        node = region.nodes.get(left.pop())
        for ref in node.inputs if node is not None else ():
            if ref.node not in seen:
                seen.add(ref.node)
                left.append(ref.node)
    return seen


def _calls(model: FlowModel, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The operators that results need, in functions too, and where they are."""
    seen: set[str] = set()
    regions = [(model.main, sorted(_needed(model.main, names)))]
    while regions:
        region, needed = regions.pop()
        for name in needed:
            node = region.nodes.get(name)
            if node is None:
                continue
            functions = list(_named(node))
            if node.op in model.functions:
                functions.append(node.op)
            else:
                yield node.op, node.name
            for function in functions:
                if function not in seen and function in model.functions:
                    seen.add(function)
                    body = model.function(function)
                    ends = [ref.node for ref in body.results] + list(body.effects)
                    regions.append((body, sorted(_needed(body, ends))))


def _named(node: FlowNode) -> Iterator[str]:
    for attribute in _FUNCTIONS:
        value = node.attribute(attribute)
        for function in value if isinstance(value, list) else [value]:
            name = getattr(function, "name", None)
            if isinstance(name, str):
                yield name
