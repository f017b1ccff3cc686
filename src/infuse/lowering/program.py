"""The compiled form before it is text: steps that call functions on tensors, buffers, weights,
sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from infuse import dtypes
from infuse.dtypes import DType, by_numpy
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import Shape
from infuse.lowering.choice import Choice
from infuse.lowering.expressions import Expression, KernelSizes
from infuse.lowering.statements import Scratch, Statement
from infuse.lowering.tensors import Buffer, Order, Tensor, dense, natural
from infuse.lowering.weights import Weights

Array = npt.NDArray[Any]


class SizeResult(Immutable):
    """An argument: the place of a size that the function finds out."""

    symbol: str


class Number(Immutable):
    """An argument: a number of a formula."""

    value: float
    dtype: DType


Argument = Tensor | Dim | KernelSizes | SizeResult | Number


class Parameter(Immutable):
    """A parameter of a function: what it is, and by which name the body has it.

    `kind`: "tensor" (a pointer to its first element), "size", "sizes" (of a kernel), "number" (of a
    formula), or "found size" (where a size goes that the function finds).
    """

    name: str
    kind: str
    dtype: DType | None = None
    is_written: bool = False
    sizes: type | None = None


@dataclass(eq=False)
class Function:
    """The body of a kernel call; steps with equal bodies share it."""

    name: str
    parameters: list[Parameter] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    includes: set[str] = field(default_factory=set)
    shared: set[tuple[str, str, tuple[int, ...]]] = field(default_factory=set)
    """What its kernels share with those of other models, beside what their headers tell."""
    is_control: bool = False
    """Whether it runs bodies: it is given the whole model."""
    stores_rounded: bool = False
    """Whether its results are bfloat16 in place of float32."""


@dataclass
class Step:
    """One call of a function: where it reads and writes, which nodes it computes."""

    function: Function
    arguments: list[Argument]
    reads: list[Buffer]
    writes: list[Buffer]
    nodes: tuple[str, ...]
    label: str
    in_place: list[tuple[Buffer, Buffer]] = field(default_factory=list)
    """Pairs (written, read) that may share memory when the read buffer is not needed afterwards."""
    trailing: list[tuple[Buffer, Buffer]] = field(default_factory=list)
    """Pairs (written, read) of dense rows: each of the first is written when all up to the same one
    of the second are read, and none of those is needed again.
    """
    checks: bool = False
    """Whether the function returns a failure code (`kernels/failure.h`)."""
    scratch: list[Scratch] = field(default_factory=list)
    """Scratch memory whose bytes only the run knows: reserved just before the step."""
    sources: tuple[Node, ...] = ()
    """The nodes themselves."""
    choice: Choice | None = None
    """What decided on the kernel, where several compute the same; steps that it needs besides have
    the same one.
    """
    precision: str = "fp32"
    """What its layer computes in, where that is one of several."""
    share: Fraction = Fraction(1)
    """How much of the arithmetic of its nodes it does, where several steps share it."""

    @property
    def open_sizes(self) -> list[Dim]:
        """Sizes of results of which one has to be more than 0 for the step to have something to
        do; none where it surely has.
        """
        if self.function.is_control or any(isinstance(a, SizeResult) for a in self.arguments):
            return []
        pairs = zip(self.arguments, self.function.parameters)
        written = [a.size for a, p in pairs if isinstance(a, Tensor) and p.is_written]
        if any(isinstance(size, int) and size > 0 for size in written):
            return []
        return [size for size in dict.fromkeys(written) if isinstance(size, dims.Expr)]


@dataclass
class Program:
    """Everything that the source printer needs of a graph, or of a body of control flow (then
    `number` is not 0).

    All programs of a model share the struct of sizes: a symbol means the same everywhere.
    """

    name: str
    symbols: list[str]
    """Sizes that are known before the run."""
    inputs: list[tuple[str, DType, Shape]]
    outputs: list[tuple[str, DType, Shape]]
    number: int = 0
    bodies: list[Program] = field(default_factory=list)
    """All programs inside of the outermost one, by number - 1; empty in the others."""
    late_sizes: list[str] = field(default_factory=list)
    """Sizes that this program finds out while it runs."""
    names: dict[str, str] = field(default_factory=dict)
    """What the model calls symbols that share a name, without having to be equal."""
    defaults: dict[int, Tensor] = field(default_factory=dict)
    """Where the defaults of inputs lie, by number."""
    states: frozenset[int] = frozenset()
    """Inputs that steps change where they lie, by number."""
    aliases: dict[int, int] = field(default_factory=dict)
    """Outputs of a loop's body that are its inputs unchanged: output number → input number."""
    layers: dict[int, str] = field(default_factory=dict)
    """Precisions of the layers that do not compute in fp32, by the serial numbers of their nodes;
    those of bodies too, empty in these.
    """
    sizes_of: dict[int, int] = field(default_factory=dict)
    """Outputs that list the elements of one whose rank the run finds out, and the numbers of those
    that list its sizes.
    """
    blocks: int = 0
    """Places for tensors that bodies leave behind."""
    steps: list[Step] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    weights: Weights = field(default_factory=Weights)
    scratch: list[Scratch] = field(default_factory=list)
    graph: Graph | None = None
    """What it computes, expansions included."""
    places: Mapping[Value, Tensor] = field(default_factory=dict)
    """Where the values of the graph lie that have a place."""
    checks: list[tuple[Expression, str]] = field(default_factory=list)
    """Conditions on the symbols that must hold, and the message when one does not."""

    @property
    def available_sizes(self) -> set[str]:
        """Sizes that are known by now."""
        return {*self.symbols, *self.late_sizes}

    def arena(self, size: Dim, label: str = "") -> Buffer:
        """A buffer of `size` bytes in the arena."""
        buffer = Buffer("arena", size, number=len(self.buffers), label=label)
        self.buffers.append(buffer)
        return buffer

    def weight(self, array: Array, order: Order | None = None) -> Tensor:
        """A constant in the weight file, its axes in `order`."""
        axes = order or natural(array.ndim)
        buffer = self.weights.add(
            array,
            ("order", axes),
            array.nbytes,
            lambda source: np.ascontiguousarray(np.transpose(source, axes)),
        )
        return dense(buffer, by_numpy(array.dtype), tuple(int(n) for n in array.shape), axes)

    def block(self, dtype: DType, shape: Shape) -> Tensor:
        """A tensor that lies where a step says, not in the arena."""
        self.blocks += 1
        return dense(Buffer("block", 0, number=self.blocks - 1), dtype, shape)

    def is_late(self, size: Dim) -> bool:
        """Whether only the run finds out this size."""
        return bool(dims.symbols(size) & set(self.late_sizes))

    def packed(
        self,
        array: Array,
        how: Any,
        count: int,
        make: Callable[[Array], Array],
        dtype: DType = dtypes.float32,
    ) -> Tensor:
        """`count` elements made of a constant by `make`, which `how` names."""
        buffer = self.weights.add(array, how, dtype.bytes * count, make)
        return dense(buffer, dtype, (count,))


def all_sizes(programs: Sequence[Program]) -> list[str]:
    """The symbols of these programs, in the order in which the struct of sizes holds them."""
    return list(dict.fromkeys(s for p in programs for s in (*p.symbols, *p.late_sizes)))
