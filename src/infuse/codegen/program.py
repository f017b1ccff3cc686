"""The compiled form before it is text: steps that call functions on tensors, buffers, weights,
sizes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from infuse import dtypes
from infuse.codegen.autotune.selector import Choice
from infuse.codegen.tensors import Buffer, Order, Tensor, dense, natural
from infuse.dtypes import DType, by_numpy
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import Shape
from infuse.targets.cpu.emit.shared import Shared
from infuse.targets.cpu.emit.statements import Statement
from infuse.targets.cpu.families.base import KernelSizes

Array = npt.NDArray[Any]
WEIGHT_ALIGN = 64


@dataclass(frozen=True)
class SizeResult:
    """An argument: the place of a size that the function finds out."""

    symbol: str


Argument = Tensor | Dim | KernelSizes | SizeResult


@dataclass
class Function:
    """The body of a kernel call; steps with equal bodies share it."""

    name: str
    parameters: list[str] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    includes: set[str] = field(default_factory=set)
    shared: set[Shared] = field(default_factory=set)
    """What its kernels share with those of other models, beside what their headers tell."""
    is_control: bool = False
    """Whether it runs bodies: it is given the whole model."""

    @property
    def lines(self) -> list[str]:
        """The body in C++."""
        return [line for statement in self.statements for line in statement.lines()]

    def text(self) -> str:
        """Parameters and body: the identity of the function."""
        return ", ".join(self.parameters) + "\n" + "\n".join(self.lines)


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
    checks: bool = False
    """Whether the function returns a failure code (`kernels/failure.hpp`)."""
    scratch: list[str] = field(default_factory=list)
    """Bytes of scratch memory per worker that only the run knows: reserved just before the step."""
    sources: tuple[Node, ...] = ()
    """The nodes themselves."""
    choice: Choice | None = None
    """What decided on the kernel, where several compute the same; steps that it needs besides have
    the same one.
    """


class Weights:
    """The weight file in the making: arrays at aligned positions, equal ones stored once, made when
    written.

    What is stored is named by a key: how it is packed, and of which constant. `fingerprint` stands
    for all content.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.float32_reasons: dict[str, str] = {}
        """Tensors that stay in float32 though the precision is fp16, by name: why."""
        self._entries: list[tuple[int, Callable[[], Array]]] = []
        self._known: dict[Any, Buffer] = {}
        self._digests: dict[int, tuple[Array, bytes]] = {}
        self._hash = hashlib.blake2b()

    def add(self, source: Array, how: Any, size: int, make: Callable[[Array], Array]) -> Buffer:
        """The buffer that holds `make(source)`, `size` bytes; `how` names what `make` does."""
        digest = self._digest(source)
        key = (digest, source.dtype.str, source.shape, how)
        if key not in self._known:
            self._known[key] = Buffer("weight", size, position=self.bytes)
            self._entries.append((self.bytes, lambda: make(source)))
            self._hash.update(repr((self.bytes, *key)).encode())
            self.bytes += -(-size // WEIGHT_ALIGN) * WEIGHT_ALIGN
        return self._known[key]

    def _digest(self, array: Array) -> bytes:
        entry = self._digests.get(id(array))
        if entry is None:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            entry = (array, hashlib.blake2b(data.data, digest_size=20).digest())
            self._digests[id(array)] = entry
        return entry[1]

    def fingerprint(self) -> str:
        """A hash that stands for the content of the file."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        """Positions and arrays, in the order of the file; packed one after another."""
        return ((position, make()) for position, make in self._entries)


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
    aliases: dict[int, int] = field(default_factory=dict)
    """Outputs of a loop's body that are its inputs unchanged: output number → input number."""
    sizes_of: dict[int, int] = field(default_factory=dict)
    """Outputs that list the elements of one whose rank the run finds out, and the numbers of those
    that list its sizes.
    """
    blocks: int = 0
    """Places for tensors that bodies leave behind."""
    steps: list[Step] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    weights: Weights = field(default_factory=Weights)
    scratch: list[str] = field(default_factory=list)
    call_includes: set[str] = field(default_factory=set)
    """Headers of what calls name: structs of sizes, and what tells the scratch memory."""
    graph: Graph | None = None
    """What it computes, expansions included."""
    places: Mapping[Value, Tensor] = field(default_factory=dict)
    """Where the values of the graph lie that have a place."""
    checks: list[tuple[str, str]] = field(default_factory=list)
    """Conditions on the symbols (C++ text) that must hold, and the message when one does not."""

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
