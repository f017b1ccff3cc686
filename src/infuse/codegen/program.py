"""The compiled form before it is text: steps that call functions on tensors, buffers, weights,
sizes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from infuse import dtypes
from infuse.codegen.autotune.selector import Choice
from infuse.codegen.kernel_sizes import HEADERS, KernelSizes, struct_text
from infuse.codegen.tensors import Buffer, Order, Tensor, dense, natural
from infuse.dtypes import DType, by_numpy
from infuse.ir import dim_text, dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import Shape
from infuse.targets.cpu.emit import statements as cpp
from infuse.targets.cpu.emit.statements import Statement

Array = npt.NDArray[Any]
WEIGHT_ALIGN = 64
_FIELD = re.compile(r"\bd\.(\w+)")


def size_text(dim: Dim) -> str:
    """A size as C++ of type long; symbols are fields of `d`."""
    return dim_text.c_text(dim, lambda name: f"d.{symbol_field(name)}")


def sizes_text(sizes: KernelSizes) -> str:
    """The sizes of a kernel call as C++; symbols are fields of `d`."""
    return struct_text(sizes, size_text)


def estimate_text(dim: Dim) -> str:
    """A size as C++ of type double, which does not overflow."""
    return dim_text.c_text(dim, lambda name: f"double(d.{symbol_field(name)})", ".0")


def symbol_field(name: str) -> str:
    """A C identifier for a symbol, different for different names."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    if clean == name and not name[:1].isdigit() and len(name) < 40:
        return f"s_{name}"
    return f"s_{clean[:24]}_{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


def fields_in(text: str) -> set[str]:
    """The sizes that C++ text reads, as fields."""
    return set(_FIELD.findall(text))


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


class FunctionWriter:
    """Collects the text of one function and the arguments of its call.

    Parameters are named by position, so that equal work gives equal text.
    """

    def __init__(
        self, program: Program, name: str, nodes: Sequence[Node], control: bool = False
    ) -> None:
        self.program = program
        self.function = Function(name, is_control=control)
        self.arguments: list[Argument] = []
        self.reads: list[Buffer] = []
        self.writes: list[Buffer] = []
        self._elsewhere: set[Buffer] = set()
        self._in_place: dict[tuple[Buffer, Buffer], None] = {}
        self.nodes = tuple(nodes)
        self.checks = False
        self._scratch: list[str] = []
        self._known: dict[tuple[int, str, Any], str] = {}

    def read(self, tensor: Tensor, target: Tensor | None = None) -> str:
        """The name of a pointer to the first element of a tensor that is read.

        With `target` given, every element is read just before the element of `target` at the same
        index is written.
        """
        if target is not None and same_place(tensor, target):
            self._in_place[target.buffer, tensor.buffer] = None
        else:
            self._elsewhere.update(tensor.buffer.memory())
        return self._pointer(tensor, "const ", self.reads)

    def write(self, tensor: Tensor) -> str:
        """The name of a pointer to the first element of a tensor that is written."""
        return self._pointer(tensor, "", self.writes)

    def _pointer(self, tensor: Tensor, qualifier: str, log: list[Buffer]) -> str:
        log += tensor.buffer.memory()
        key = (id(tensor.buffer), qualifier, tensor.offset)
        if key not in self._known:
            name = f"p{len(self.arguments)}"
            self._known[key] = name
            self.arguments.append(tensor)
            self.function.parameters.append(f"{qualifier}{tensor.dtype.c_name}* {name}")
        return self._known[key]

    def number(self, size: Dim) -> str:
        """The name of a parameter that carries a size.

        Sizes as parameters let layers that differ only in them share one compiled function; where a
        constant size makes the code faster, `size_text` prints it into the body instead.
        """
        self.function.parameters.append(f"const long n{len(self.arguments)}")
        self.arguments.append(size)
        return f"n{len(self.arguments) - 1}"

    def numbers(self, *sizes: Dim) -> str:
        """Several sizes, separated by commas."""
        return ", ".join(map(self.number, sizes))

    def sizes(self, sizes: KernelSizes) -> str:
        """The name of a parameter that carries the sizes of a kernel call."""
        header = HEADERS[type(sizes)]
        self.include(header)
        self.program.call_includes.add(header)
        name = f"sizes{len(self.arguments)}"
        self.function.parameters.append(f"const {type(sizes).__name__}& {name}")
        self.arguments.append(sizes)
        return name

    def resolves(self, symbol: str) -> str:
        """The name of a pointer to a size that the function finds out; the size is known from here
        on.
        """
        self.function.parameters.append(f"long* s{len(self.arguments)}")
        self.arguments.append(SizeResult(symbol))
        self.program.late_sizes.append(symbol)
        return f"s{len(self.arguments) - 1}"

    def text(self, *lines: str) -> None:
        """Add what was printed of formulas."""
        for line in lines:
            self.add(cpp.Text(line))

    def add(self, statement: Statement) -> None:
        """Add a statement to the body."""
        self.function.statements.append(statement)

    def call(
        self,
        kernel: str,
        *arguments: object,
        template: Sequence[object] = (),
        failure: str = "",
        context: bool = True,
    ) -> None:
        """Add a call of a kernel (see `KernelCall`)."""
        named = tuple(map(str, arguments)), tuple(map(str, template))
        self.add(cpp.KernelCall(kernel, *named, failure, context))

    def array(self, name: str, *elements: object) -> None:
        """Add a constant list of whole numbers."""
        self.arrays({name: elements})

    def arrays(self, lists: Mapping[str, Iterable[object]], constant: bool = True) -> None:
        """Add lists of whole numbers, by name."""
        named = tuple((name, tuple(map(str, elements))) for name, elements in lists.items())
        self.add(cpp.Arrays(named, constant))

    def struct(self, type: str, name: str, *fields: object) -> None:
        """Add the parameters of a kernel, by the order of their fields."""
        self.add(cpp.Struct(type, name, tuple(map(str, fields))))

    def constant(self, name: str, value: object, type: str = "long") -> None:
        """Add a value under a name."""
        self.add(cpp.Constant(type, name, str(value)))

    def room(self, lengths: Mapping[str, int], *, zeros: bool = False) -> None:
        """Add lists of whole numbers, by name and length, that later statements fill."""
        self.add(cpp.Room(tuple(lengths.items()), zeros))

    @contextmanager
    def block(self, made: Callable[[tuple[Statement, ...]], Statement]) -> Iterator[None]:
        """Collect the statements that are added inside, for a statement that is made of them."""
        with self.collect() as inner:
            yield
        self.add(made(tuple(inner)))

    @contextmanager
    def collect(self) -> Iterator[list[Statement]]:
        """A list of the statements that are added inside, which are not added to the body."""
        outer, self.function.statements = self.function.statements, []
        try:
            yield self.function.statements
        finally:
            self.function.statements = outer

    def run_body(self, number: int, inputs: Sequence[str]) -> None:
        """Add a run of a body of control flow on these inputs."""
        self.add(cpp.Pointers("in", tuple(inputs)))
        self.add(cpp.RunBody(number))

    def when(self, condition: str) -> AbstractContextManager[None]:
        """Add statements that run where a condition holds."""
        return self.block(lambda inner: cpp.If(condition, inner))

    def repeat(self, condition: str, **how: str) -> AbstractContextManager[None]:
        """Add statements that run again and again (see `Repeat`)."""
        return self.block(lambda inner: cpp.Repeat(condition, inner, **how))

    def define(self, name: str, parameters: str, **how: bool) -> AbstractContextManager[None]:
        """Add a function of the statements that are added inside (see `Define`)."""
        return self.block(lambda inner: cpp.Define(name, parameters, inner, **how))

    def map(
        self, kernel: str, *arguments: str, parameters: str, cost: int
    ) -> AbstractContextManager[None]:
        """Add a call of a kernel with a function of what is added inside (see `MapCall`)."""
        return self.block(lambda inner: cpp.MapCall(kernel, arguments, parameters, inner, cost))

    def loader(self, name: str, pointer: str, columns: str) -> None:
        """Add a function of row, column and lanes that loads from rows of so many elements."""
        with self.define(name, "long row, long col, auto lanes"):
            self.add(cpp.Result(f"load({pointer} + row * {columns} + col, lanes)"))

    def assign(self, place: str, value: object) -> None:
        """Add the store of a value in an element or field, or (`*p`) where a name points."""
        self.assign_all({place: value})

    def assign_all(self, values: Mapping[str, object]) -> None:
        """Add the stores of several values, by place."""
        self.add(cpp.Assign(tuple((place, str(value)) for place, value in values.items())))

    def variable(self, type: str, **values: object) -> None:
        """Add values that change, by name."""
        self.add(cpp.Variable(type, tuple((name, str(v)) for name, v in values.items())))

    def end_when(self, condition: str, failure: str = "0") -> None:
        """Let the function end where a condition holds: well, or with a failure."""
        self.add(cpp.Return(condition, failure))

    def fail_unless(self, condition: str, failure: str = "BAD_SIZES") -> None:
        """Let the function end with a failure of `kernels/failure.hpp` unless a C++ condition
        holds.
        """
        self.checks = True
        self.include("failure.hpp")
        self.add(cpp.Require(condition, failure))

    def include(self, *headers: str) -> None:
        self.function.includes.update(headers)

    def scratch(self, expression: str, header: str) -> None:
        """Demand scratch memory: a C++ expression in bytes per worker that `header` declares."""
        late = bool(
            fields_in(expression) & {symbol_field(name) for name in self.program.late_sizes}
        )
        (self._scratch if late else self.program.scratch).append(expression)
        self.program.call_includes.add(header)

    def finish(self, label: str) -> Step:
        """Append the step to the program."""
        in_place = [pair for pair in self._in_place if pair[1] not in self._elsewhere]
        names = tuple(node.name for node in self.nodes)
        step = Step(
            self.function,
            self.arguments,
            self.reads,
            self.writes,
            names,
            label,
            in_place,
            self.checks,
        )
        step.scratch, step.sources = self._scratch, self.nodes
        self.program.steps.append(step)
        return step


def same_place(operand: Tensor, target: Tensor) -> bool:
    """Whether element i of `operand` would lie where element i of `target` lies if they shared a
    buffer.
    """
    return (
        operand.buffer.kind == target.buffer.kind == "arena"
        and operand.dtype == target.dtype
        and operand.shape == target.shape
        and operand.strides == target.strides
        and operand.offset == target.offset == 0
    )
