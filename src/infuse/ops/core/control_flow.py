"""Operators that hold graphs: their types and results come from those of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from infuse.errors import InfuseError, TypeMismatchError
from infuse.ir.graph import Graph, Node
from infuse.ir.nesting import room_for
from infuse.ir.types import Type
from infuse.ops.core.base import Op
from infuse.ops.core.signatures import check_arity

Run = Callable[[Graph, Sequence[Any]], list[Any]]
"""Evaluates a body for these inputs and gives its outputs."""


class ControlFlow(Op, abstract=True):
    """An operator with bodies: its types come from theirs, and `run_bodies` takes the place of
    `eval`.
    """

    def infer_types(self, node: Node) -> Sequence[Type]:
        check_arity(self, node)
        try:
            with room_for(*node.subgraphs.values()):
                types = self.infer_bodies(node)
            if len(types) < len(node.outputs):
                raise TypeMismatchError(
                    f"its bodies give {len(types)} outputs, {len(node.outputs)} are asked for"
                )
        except InfuseError as error:
            error.within(f"{self.name} node {node.name!r}")
            raise
        return types[: len(node.outputs)]

    def infer_bodies(self, node: Node) -> Sequence[Type]:
        """Infer the bodies from the types of the node's inputs; types of the outputs."""
        raise NotImplementedError

    def run_bodies(self, node: Node, inputs: Sequence[Any], run: Run) -> Sequence[Any]:
        """The outputs of `node` for these inputs."""
        raise NotImplementedError
