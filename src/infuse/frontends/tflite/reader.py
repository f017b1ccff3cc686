"""A TensorFlow Lite model → graph: inputs and outputs by the names of its signature, constants,
calls of operators in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

import infuse.frontends.tflite.builtins  # noqa: F401  registers the operators
from infuse import dtypes
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.tflite.calls import LiteCall
from infuse.frontends.tflite.custom import Known, handler
from infuse.frontends.tflite.model import LiteModel, LiteOperator, LiteTensor, Subgraph
from infuse.frontends.tflite.resources import Resources
from infuse.ir.graph import Graph, Value
from infuse.ir.types import TensorType
from infuse.ops.core.sizes import fresh_shape
from infuse.tracing.importer import Importer, free_name, require_all
from infuse.tracing.layout import LayoutImporter, tidy

_SUBGRAPHS: Final = (
    "then_subgraph_index",
    "else_subgraph_index",
    "cond_subgraph_index",
    "body_subgraph_index",
    "init_subgraph_index",
    "subgraph",
)
"""Options that name subgraphs."""
_DEEPEST: Final = 50
"""Subgraphs inside each other."""


class LiteReader:
    """Reads the first subgraph of a model, or that of its only signature."""

    def __init__(self, model: LiteModel) -> None:
        self.model = model
        only = model.signatures[0] if len(model.signatures) == 1 else None
        self._signature = only
        self._first = only.subgraph if only is not None else 0
        subgraph = model.subgraph(self._first)
        self.g = LayoutImporter(subgraph.name or "model")
        self.states: list[tuple[str, int, LiteScope]] = []
        self.resources = Resources(
            any(operator.name == "ASSIGN_VARIABLE" for operator in subgraph.operators)
        )
        self._scope = LiteScope(self.g, subgraph, self)

    def graph(self) -> Graph:
        """The graph; UnsupportedOperatorError names all operators that are not known."""
        require_all(
            _all_calls(self.model, self._first),
            Known(),
            "the model",
            "convert the model with builtin operators only, write a class of a custom one "
            "(docs/extending.md), or report the operator",
        )
        scope, subgraph = self._scope, self._scope.subgraph
        for index, name in zip(subgraph.inputs, self._names("inputs", subgraph)):
            tensor = scope.tensor(index)
            sizes = [None if size < 0 else size for size in tensor.signature]
            if tensor.signature and tensor.signature[0] < 0:
                sizes = ["batch", *sizes[1:]]  # type: ignore[list-item]
            scope.values[index] = self.g.input(name, tensor.dtype, sizes)
        scope.run()
        self._outputs()
        tidy(self.g.graph)
        return self.g.graph

    def _outputs(self) -> None:
        scope, subgraph = self._scope, self._scope.subgraph
        for index, name in zip(subgraph.outputs, self._names("outputs", subgraph)):
            if scope.tensor(index).dtype == dtypes.complex64:
                raise UnsupportedOperatorError(f"the output {name!r} is complex")
            self.g.output(self._free(name), scope.value(index))
        for name, index, owner in self.states:
            self.g.output(self._free(f"{name}.out"), owner.value(index))
        for name in sorted(self.resources.assigned):
            self.g.output(self._free(f"{name}.out"), self.resources.values[name])

    def _free(self, name: str) -> str:
        return free_name(name, {*self.g.graph.output_names, *(v.name for v in self.g.graph.inputs)})

    def _names(self, part: str, subgraph: Subgraph) -> list[str]:
        """Names of inputs or outputs: those of the signature, or else of the tensors; no two are
        the same.
        """
        named = getattr(self._signature, part) if self._signature is not None else {}
        names: list[str] = []
        for index in getattr(subgraph, part):
            names.append(free_name(named.get(index) or subgraph.tensors[index].name, names))
        return names

    def state(self, scope: LiteScope, index: int) -> Value:
        """A variable tensor: an input that is zero unless it is given, and an output."""
        tensor = scope.tensor(index)
        if scope is not self._scope:
            raise UnsupportedOperatorError(
                f"the variable {tensor.name!r} inside of control flow is not supported"
            )
        name = free_name(tensor.name, [v.name for v in self.g.graph.inputs])
        value = self.g.input(name, tensor.dtype, tensor.shape)
        value.default = np.broadcast_to(np.zeros((), tensor.dtype.numpy), tensor.shape)
        self.states.append((name, index, scope))
        return value

    def variable(self, scope: LiteScope, name: str, tensor: LiteTensor) -> Value:
        """A resource variable: a constant, or an input where runs assign variables."""
        first = self.resources.first.get(name)
        if first is None and (scope.depth or not self.resources.stateful):
            raise ModelFileError(f"the variable {name!r} has no value")
        if not self.resources.stateful:
            return self.g.constant(first, name)
        if scope.depth:
            raise UnsupportedOperatorError(
                f"the variable {name!r} inside of control flow is not supported"
            )
        if first is None:
            first = np.broadcast_to(np.zeros((), tensor.dtype.numpy), tensor.shape)
        free = free_name(name, [v.name for v in self.g.graph.inputs])
        value = self.g.input(free, dtypes.by_numpy(first.dtype), first.shape)
        value.default = first
        return value


class LiteScope:
    """The values of the tensors of one subgraph while it is built."""

    def __init__(self, g: Importer, subgraph: Subgraph, reader: LiteReader, depth: int = 0) -> None:
        self.g, self.subgraph, self.reader, self.depth = g, subgraph, reader, depth
        self.values: dict[int, Value] = {}
        self.resources = reader.resources
        self.handles: dict[int, str] = {}

    def run(self) -> None:
        """Make the nodes of all operators."""
        for operator in self.subgraph.operators:
            with self.g.scope(*self._path(operator), source=f"operator {operator.number}"):
                try:
                    self._call(operator)
                except InfuseError as error:
                    error.within(operator.name)
                    raise

    def _path(self, operator: LiteOperator) -> list[str]:
        """The name of the first result, which TensorFlow makes of scopes."""
        name = self.tensor(operator.outputs[0]).name if operator.outputs else operator.name
        return [part for part in name.partition(";")[0].split("/") if part]

    def _call(self, operator: LiteOperator) -> None:
        call = LiteCall(self, operator)
        made = handler(operator.name)(call)
        values = list(made) if isinstance(made, (list, tuple)) else [made]
        if len(values) < len(operator.outputs):
            raise ModelFileError(
                f"it has {len(values)} results, and {len(operator.outputs)} in the file"
            )
        for number, (index, value) in enumerate(zip(operator.outputs, values)):
            if value is None:
                continue
            if index in self.values and not self.tensor(index).variable:
                raise ModelFileError(f"it makes tensor {index}, which has been made before")
            self.values[index] = self._checked(index, call.quantized(value, number))

    def _checked(self, index: int, value: Value) -> Value:
        """A result, which has to be of the type that the file says."""
        tensor = self.tensor(index)
        expected = dtypes.float32 if tensor.dtype == dtypes.complex64 else tensor.dtype
        type = value.type
        if not isinstance(type, TensorType) or type.dtype != expected:
            raise ModelFileError(
                f"its result {tensor.name!r} is {type}, and {expected} in the file"
            )
        if type.shape is None and tensor.shape:
            value.type = TensorType(type.dtype, fresh_shape(len(tensor.shape), "size"))
        return value

    # -- what calls ask for ------------------------------------------------------------------------

    def tensor(self, index: int) -> LiteTensor:
        """What the file says of a tensor."""
        return self.subgraph.tensors[index]

    def value(self, index: int) -> Value:
        """The value of a tensor: made before, a constant, or a variable."""
        if index in self.values:
            return self.values[index]
        tensor = self.tensor(index)
        if tensor.variable:
            value = self.reader.state(self, index)
        else:
            elements = self.reader.model.elements(tensor)
            if elements is None and 0 in tensor.shape:
                elements = np.zeros(tensor.shape, tensor.dtype.numpy)
            if elements is None:
                raise ModelFileError(
                    f"it reads tensor {index}, {tensor.name!r}, which nothing has made before"
                )
            if tensor.dtype == dtypes.complex64:
                elements = np.stack([elements.real, elements.imag], -1)
            value = self.g.constant(elements, tensor.name)
        self.values[index] = value
        return value

    def set(self, index: int, value: Value) -> None:
        """Let a tensor have another value from here on."""
        self.values[index] = self._checked(index, value)

    def signature(self, subgraph: int) -> tuple[list[LiteTensor], list[LiteTensor]]:
        """The inputs and the outputs of a subgraph."""
        inner = self.reader.model.subgraph(subgraph)
        inputs, outputs = (
            [inner.tensors[i] for i in part] for part in (inner.inputs, inner.outputs)
        )
        return inputs, outputs

    def variable(self, name: str, tensor: LiteTensor) -> Value:
        """A resource variable as it is before the run."""
        return self.reader.variable(self, name, tensor)

    def inner(self, g: Importer, subgraph: int, operands: Sequence[Value]) -> list[Value]:
        """The results of a subgraph, built by this importer with these operands."""
        if self.depth >= _DEEPEST:
            raise ModelFileError(f"more than {_DEEPEST} subgraphs are inside each other")
        scope = LiteScope(g, self.reader.model.subgraph(subgraph), self.reader, self.depth + 1)
        if len(scope.subgraph.inputs) != len(operands):
            raise ModelFileError(
                f"subgraph {subgraph} has {len(scope.subgraph.inputs)} inputs, and gets "
                f"{len(operands)}"
            )
        for index, value in zip(scope.subgraph.inputs, operands):
            scope.values[index] = scope._checked(index, value)
        scope.run()
        return [scope.value(index) for index in scope.subgraph.outputs]


def _all_calls(model: LiteModel, first: int) -> Iterator[tuple[str, str]]:
    """The operators of a subgraph and of those that it names, and where they are."""
    seen, left = {first}, [first]
    while left:
        subgraph = model.subgraph(left.pop())
        for operator in subgraph.operators:
            yield operator.name, f"operator {operator.number}"
            for option in _SUBGRAPHS:
                index = (operator.options or {}).get(option)
                if index is not None and index not in seen:
                    seen.add(index)
                    left.append(index)
