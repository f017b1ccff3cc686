"""What every step of a compiled model computes and moves: its place in a profile, and its work for
given sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from infuse.analysis.cost import node_cost
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.ir.types import Shape
from infuse.lowering.emitter import Emitter
from infuse.lowering.program import Program, Step
from infuse.lowering.tensors import Tensor
from infuse.ops.core.traits import Trait, has_trait
from infuse.profiling.roof import SPLIT


class Work(NamedTuple):
    """Arithmetic operations and bytes of memory; `is_known` tells whether the operations are all
    counted, `kind` on what most of them are done (`roof.KINDS`, `roof.SPLIT`).
    """

    flops: int = 0
    bytes: int = 0
    is_known: bool = True
    kind: str = "fp32"


@dataclass
class Place:
    """A step of a compiled model, or a node that the interpreter runs.

    `kernel` names the kernels that it calls, `nodes` what it computes; `main` is the node with the
    most arithmetic.
    """

    label: str
    kernel: str
    nodes: tuple[Node, ...]
    counted: tuple[Node, ...] = ()
    """The nodes whose arithmetic it does, or its share of it; of several steps of one node that do
    not share it, the last one counts it.
    """
    step: Step | None = None
    runs_bodies: bool = False
    _works: dict[tuple[int, ...], Work] = field(default_factory=dict)

    @property
    def main(self) -> Node | None:
        """The node with the most arithmetic, the first of several; None for a step that belongs to
        none.
        """
        return max(self.nodes, key=_weight, default=None)

    def work(self, values: Mapping[str, int]) -> Work:
        """What one call does under these sizes."""
        key = tuple(values.values())
        if key not in self._works:
            self._works[key] = self._count(values)
        return self._works[key]

    def _count(self, values: Mapping[str, int]) -> Work:
        costs = [node_cost(node) for node in self.counted if not node.subgraphs]
        flops = sum(_number(cost.flops, values) for cost in costs)
        if self.step is not None:
            flops = round(flops * self.step.share)
        size = (
            sum(_number(cost.bytes, values) for cost in costs)
            if self.step is None
            else traffic(self.step, values)
        )
        countable = all(
            cost.is_known and dims.symbols(cost.flops) <= values.keys() for cost in costs
        )
        return Work(flops, 0 if self.runs_bodies else size, countable, _kind(self.kernel))


def _kind(kernel: str) -> str:
    """What a kernel multiplies."""
    if "bf16x2" in kernel:
        return SPLIT
    return "bf16" if "bf16" in kernel else "int8" if kernel.startswith("integer_") else "fp32"


def _weight(node: Node) -> int:
    flops = node_cost(node).flops
    return (
        flops
        if isinstance(flops, int)
        else dims.evaluate(flops, dict.fromkeys(dims.symbols(flops), 64))
    )


def places_of(program: Program, emitter: Emitter) -> list[Place]:
    """The steps of a program, in order, without its bodies."""
    last: dict[Node, int] = {}
    for number, step in enumerate(program.steps):
        last.update((node, number) for node in step.sources)
    places = []
    for number, step in enumerate(program.steps):
        shares = step.share != 1
        counted = tuple(node for node in step.sources if shares or last[node] == number)
        kernel = emitter.kernels_in(step.function)
        places.append(
            Place(step.label, kernel, step.sources, counted, step, step.function.is_control)
        )
    return places


# -- memory ----------------------------------------------------------------------------------------


def traffic(step: Step, values: Mapping[str, int]) -> int:
    """Bytes that a step reads and writes, what it reads several times counted once."""
    parts: dict[tuple[int, bool], list[Tensor]] = {}
    for argument, parameter in zip(step.arguments, step.function.parameters):
        if isinstance(argument, Tensor):
            parts.setdefault((id(argument.buffer), not parameter.is_written), []).append(argument)
    total = 0
    limits = _selected(step.sources, values)
    for (_, is_read), tensors in parts.items():
        size = sum(_bytes(tensor, values) for tensor in tensors)
        buffer = tensors[0].buffer
        if buffer.kind in ("arena", "weight"):
            size = min(size, _number(buffer.bytes, values))
        width = tensors[0].dtype.bytes
        total += limits.get(size // width, size // width) * width if is_read else size
    return total


def _bytes(tensor: Tensor, values: Mapping[str, int]) -> int:
    """Bytes that the elements of a tensor take, repeated ones once."""
    own = [size for size, stride in zip(tensor.shape, tensor.strides) if stride != 0]
    return _size(tuple(own), values) * tensor.dtype.bytes


def _selected(nodes: Sequence[Node], values: Mapping[str, int]) -> dict[int, int]:
    """For nodes that select from a table: its elements, and how many of them are read."""
    limits = {}
    for node in nodes:
        table = node.input(0)
        if has_trait(node, Trait.SELECTION) and table is not None:
            whole = _size(table.shape, values)
            taken = sum(_size(value.shape, values) for value in node.outputs)
            limits[whole] = min(whole, taken)
    return limits


def _size(shape: Shape, values: Mapping[str, int]) -> int:
    return _number(dims.product(shape), values)


def _number(size: Dim, values: Mapping[str, int]) -> int:
    """A size under these values; what cannot be known counts nothing."""
    try:
        return max(dims.evaluate(size, values), 0)
    except ShapeError:
        return 0
