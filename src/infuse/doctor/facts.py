"""What a model file says, as written: the nodes that a runtime will read, before any of the
changes that a graph of Infuse goes through on its way in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from infuse.doctor.recorded import RecordedCall, recorded_call
from infuse.dtypes import DType
from infuse.ir.graph import Array
from infuse.ir.types import TensorType, Type


@dataclass(eq=False)
class FileNode:
    """One node of a file. `kind` has the domain before it where that is not the format's own
    (`com.microsoft.Attention`); an absent input is the empty text.
    """

    kind: str
    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Any]
    scope: FileScope
    metadata: Mapping[str, str] = field(default_factory=dict)

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or this default where the file does not state it."""
        return self.attributes.get(name, default)

    def has(self, index: int) -> bool:
        """Whether input `index` is there."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def gives(self, index: int) -> bool:
        """Whether output `index` has a name."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def constant(self, index: int) -> Array | None:
        """The elements of input `index`, where they are constant."""
        return self.scope.constant(self.inputs[index]) if self.has(index) else None

    def dtype(self, index: int) -> DType | None:
        """The element type of input `index`, where it is known."""
        type = self._tensor(index)
        return None if type is None else type.dtype

    def sizes(self, index: int) -> tuple[Any, ...] | None:
        """The sizes of input `index`, where its rank is known."""
        type = self._tensor(index)
        return None if type is None else type.shape

    def producer(self, index: int = 0) -> FileNode | None:
        """The node that computes input `index`."""
        return self.scope.producer(self.inputs[index]) if self.has(index) else None

    def readers(self, index: int = 0) -> Sequence[FileNode]:
        """The nodes of the same graph that read output `index`."""
        return self.scope.readers.get(self.outputs[index], ()) if self.gives(index) else ()

    @cached_property
    def call(self) -> RecordedCall | None:
        """The call of the framework that an exporter recorded on the node."""
        return recorded_call(self.metadata)

    def _tensor(self, index: int) -> TensorType | None:
        type = self.scope.type(self.inputs[index]) if self.has(index) else None
        return type if isinstance(type, TensorType) else None


@dataclass(eq=False)
class FileScope:
    """The names of one graph of a file, and of the graphs around it."""

    types: Mapping[str, Type]
    arrays: Mapping[str, Any]
    """What `constants` of the format reads an array from, by name."""
    results: frozenset[str]
    parent: FileScope | None = None
    nodes: list[FileNode] = field(default_factory=list)

    def type(self, name: str) -> Type | None:
        """The type of a value."""
        return self.types.get(name)

    def constant(self, name: str) -> Array | None:
        """The elements of a value that is constant."""
        scope: FileScope | None = self
        while scope is not None:
            if name in scope.arrays:
                array: Array = scope.arrays[name]()
                return array
            scope = scope.parent
        return None

    def producer(self, name: str) -> FileNode | None:
        """The node that computes a value."""
        scope: FileScope | None = self
        while scope is not None:
            if name in scope._producers:
                return scope._producers[name]
            scope = scope.parent
        return None

    @cached_property
    def readers(self) -> Mapping[str, Sequence[FileNode]]:
        """The nodes that read a value, in the order of the file."""
        readers: dict[str, list[FileNode]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers.setdefault(name, []).append(node)
        return readers

    @cached_property
    def _producers(self) -> Mapping[str, FileNode]:
        return {name: node for node in self.nodes for name in node.outputs if name}


@dataclass(frozen=True)
class FileFacts:
    """A file: who wrote it, and its graphs, the outermost first."""

    format: str
    producer: str
    producer_version: str
    opsets: Mapping[str, int]
    scopes: Sequence[FileScope]

    @property
    def nodes(self) -> Iterator[FileNode]:
        """All nodes, with those of bodies."""
        for scope in self.scopes:
            yield from scope.nodes

    def of(self, *kinds: str) -> Iterator[FileNode]:
        """The nodes of these kinds."""
        return (node for kind in kinds for node in self._by_kind.get(kind, ()))

    @property
    def opset(self) -> int:
        """The version of the format's own operators."""
        return self.opsets.get("", 0)

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[FileNode]]:
        by_kind: dict[str, list[FileNode]] = {}
        for node in self.nodes:
            by_kind.setdefault(node.kind, []).append(node)
        return by_kind

    @cached_property
    def calls(self) -> Sequence[Sequence[FileNode]]:
        """The nodes that an exporter wrote for one call of the framework, call by call."""
        groups: dict[tuple[int, str], list[FileNode]] = {}
        for node in self.nodes:
            if node.call is not None:
                groups.setdefault((id(node.scope), node.call.text), []).append(node)
        return list(groups.values())
