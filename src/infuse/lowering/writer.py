"""What a lowering writes a function with: statements, parameters, and the arguments of its call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering import statements as parts
from infuse.lowering.expressions import (
    Aggregate,
    Expression,
    Invocation,
    KernelSizes,
    Size,
    elements,
    expression,
)
from infuse.lowering.program import (
    Argument,
    Function,
    Number,
    Parameter,
    Program,
    SizeResult,
    Step,
)
from infuse.lowering.statements import Scratch, Statement
from infuse.lowering.tensors import Buffer, Tensor


class _Parameters:
    """The parameters of a function, called by their positions, and the arguments of its call."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.arguments: list[Argument] = []
        self._pointers: dict[tuple[int, DType, bool, Any], str] = {}
        self._divisors: dict[Dim, str] = {}

    def add(self, letter: str, argument: Argument, kind: str, **how: Any) -> str:
        """The name of one more parameter."""
        name = f"{letter}{len(self.arguments)}"
        self._function.parameters.append(Parameter(name, kind, **how))
        self.arguments.append(argument)
        return name

    def pointer(self, tensor: Tensor, is_written: bool) -> str:
        """The name of the pointer to a tensor, of equal ones the same."""
        key = (id(tensor.buffer), tensor.dtype, is_written, tensor.offset)
        if key not in self._pointers:
            self._pointers[key] = self.add(
                "p", tensor, "tensor", dtype=tensor.dtype, is_written=is_written
            )
        return self._pointers[key]

    def divisor(self, size: Dim) -> str:
        """The name of a size, of equal ones the same."""
        if size not in self._divisors:
            self._divisors[size] = self.add("n", size, "size")
        return self._divisors[size]


class _MemoryUse:
    """The buffers that a function reads and writes, and which of them may be the same."""

    def __init__(self) -> None:
        self.reads: list[Buffer] = []
        self.writes: list[Buffer] = []
        self._elsewhere: set[Buffer] = set()
        self._in_place: dict[tuple[Buffer, Buffer], None] = {}

    def read(self, tensor: Tensor, targets: Sequence[Tensor]) -> None:
        """A tensor is read, each element before that of `targets` at the same index is written."""
        fitting = [target for target in targets if same_place(tensor, target)]
        self._in_place.update(((target.buffer, tensor.buffer), None) for target in fitting)
        if not fitting:
            self._elsewhere.update(tensor.buffer.memory())
        self.reads += tensor.buffer.memory()

    def write(self, tensor: Tensor) -> None:
        """A tensor is written."""
        self.writes += tensor.buffer.memory()

    def in_place(self) -> list[tuple[Buffer, Buffer]]:
        """Pairs of a buffer that is written and one that is read, which may share memory."""
        return [pair for pair in self._in_place if pair[1] not in self._elsewhere]


class FunctionWriter:
    """Collects the statements of one function and the arguments of its call.

    Parameters are named by position, so that equal work gives equal functions.
    """

    def __init__(
        self, program: Program, name: str, nodes: Sequence[Node], control: bool = False
    ) -> None:
        self.program = program
        self.function = Function(name, is_control=control)
        self._parameters = _Parameters(self.function)
        self._memory = _MemoryUse()
        self.nodes = tuple(nodes)
        self.checks = False
        self.trailing: list[tuple[Buffer, Buffer]] = []
        self._scratch: list[Scratch] = []

    def read(self, tensor: Tensor, *targets: Tensor) -> str:
        """The name of a pointer to the first element of a tensor that is read.

        Every element is read before the elements of `targets` at the same index are written, and
        not again afterwards.
        """
        self._memory.read(tensor, targets)
        return self._parameters.pointer(tensor, is_written=False)

    def write(self, tensor: Tensor) -> str:
        """The name of a pointer to the first element of a tensor that is written."""
        self._memory.write(tensor)
        return self._parameters.pointer(tensor, is_written=True)

    def change(self, tensor: Tensor) -> str:
        """The name of a pointer to the first element of a tensor of which some is written, some
        read.
        """
        self._memory.read(tensor, ())
        return self.write(tensor)

    def changes(self, buffers: Iterable[Buffer]) -> None:
        """State that what the function runs writes these buffers."""
        self._memory.writes += buffers

    def number(self, size: Dim) -> str:
        """The name of a parameter that carries a size.

        Sizes as parameters let layers that differ only in them share one compiled function; where a
        constant size makes the code faster, it stands in the body instead (`Size`).
        """
        return self._parameters.add("n", size, "size")

    def divisor(self, size: Dim) -> int | str:
        """A size by which the body divides: itself where it is a number, else the name of a
        parameter, of equal sizes the same.
        """
        return size if isinstance(size, int) else self._parameters.divisor(size)

    def value(self, number: float, dtype: DType) -> str:
        """The name of a parameter that carries a number of a formula.

        Layers that differ only in such numbers, as the scales of quantized ones, share one compiled
        function.
        """
        return self._parameters.add("v", Number(number, dtype), "number", dtype=dtype)

    def numbers(self, *sizes: Dim) -> str:
        """Several sizes, separated by commas."""
        return ", ".join(map(self.number, sizes))

    def printed(self, size: Dim) -> Size | str:
        """A size that stands in the body where it is a number, else a parameter's name."""
        return Size(size) if isinstance(size, int) else self.number(size)

    def strided(self, type: str, tensor: Tensor, axes: int = 3) -> Aggregate:
        """A struct of a pointer to a tensor that is read, and the strides of its first axes."""
        pointer = self.read(tensor)
        strides = map(self.number, tensor.strides[:axes])
        return elements(pointer, *strides, type=type)

    def sizes(self, sizes: KernelSizes) -> str:
        """The name of a parameter that carries the sizes of a kernel call."""
        return self._parameters.add("sizes", sizes, "sizes", sizes=type(sizes))

    def resolves(self, symbol: str) -> str:
        """The name of a pointer to a size that the function finds out; the size is known from here
        on.
        """
        self.program.late_sizes.append(symbol)
        return self._parameters.add("s", SizeResult(symbol), "found size")

    def text(self, *lines: str) -> None:
        """Add what was printed of formulas."""
        for line in lines:
            self.add(parts.Text(line))

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
        result: str = "",
    ) -> None:
        """Add a call of a kernel (see `KernelCall`)."""
        self.checks = self.checks or bool(failure)
        named = tuple(map(expression, arguments)), tuple(map(str, template))
        self.add(parts.KernelCall(kernel, *named, failure, context, result))

    def array(self, name: str, *elements: object) -> None:
        """Add a constant list of whole numbers."""
        self.arrays({name: elements})

    def arrays(self, lists: Mapping[str, Iterable[object]], constant: bool = True) -> None:
        """Add lists of whole numbers, by name."""
        named = tuple((name, tuple(map(expression, each))) for name, each in lists.items())
        self.add(parts.Arrays(named, constant))

    def struct(self, type: str, name: str, **fields: object) -> None:
        """Add the parameters of a kernel; the fields in the order of their declaration."""
        named = ((name, expression(value)) for name, value in fields.items())
        self.add(parts.Struct(type, name, tuple(named)))

    def fields(self, **sizes: Dim) -> Aggregate:
        """The content of a struct of sizes, which become parameters."""
        return Aggregate(tuple((name.rstrip("_"), self.number(d)) for name, d in sizes.items()))

    def constant(self, name: str, value: object, type: str = "isize") -> None:
        """Add a value under a name."""
        self.add(parts.Constant(type, name, expression(value)))

    def room(self, lengths: Mapping[str, int], *, zeros: bool = False) -> None:
        """Add lists of whole numbers, by name and length, that later statements fill."""
        self.add(parts.Room(tuple(lengths.items()), zeros))

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

    def run_body(self, number: int, inputs: Sequence[Expression]) -> None:
        """Add a run of a body of control flow on these inputs."""
        self.add(parts.Pointers("in", tuple(inputs)))
        self.add(parts.RunBody(number))

    def when(self, condition: Expression) -> AbstractContextManager[None]:
        """Add statements that run where a condition holds."""
        return self.block(lambda inner: parts.If(condition, inner))

    def repeat(self, condition: Expression, **how: Any) -> AbstractContextManager[None]:
        """Add statements that run again and again (see `Repeat`)."""
        return self.block(lambda inner: parts.Repeat(condition, inner, **how))

    def define(self, name: str, parameters: str, **how: bool) -> AbstractContextManager[None]:
        """Add a function of the statements that are added inside (see `Define`)."""
        return self.block(lambda inner: parts.Define(name, parameters, inner, **how))

    def map(
        self, kernel: str, *arguments: str, parameters: str, cost: int
    ) -> AbstractContextManager[None]:
        """Add a call of a kernel with a function of what is added inside (see `MapCall`)."""
        return self.block(lambda inner: parts.MapCall(kernel, arguments, parameters, inner, cost))

    def loader(self, name: str, pointer: str, columns: str) -> None:
        """Add a function of row, column and lanes that loads from rows of so many elements."""
        self.add(parts.Loader(name, pointer, columns))

    def assign(self, place: Expression, value: object) -> None:
        """Add the store of a value in an element or field, or where a name points."""
        self.assign_all({place: value})

    def assign_all(self, values: Mapping[Expression, object]) -> None:
        """Add the stores of several values, by place."""
        self.add(parts.Assign(tuple((place, expression(v)) for place, v in values.items())))

    def variable(self, type: str, **values: object) -> None:
        """Add values that change, by name."""
        self.add(parts.Variable(type, tuple((name, expression(v)) for name, v in values.items())))

    def end_when(self, condition: Expression, failure: str = "0") -> None:
        """Let the function end where a condition holds: well, or with a failure."""
        self.add(parts.Return(condition, failure))

    def fail_unless(self, condition: Expression, failure: str = "BAD_SIZES") -> None:
        """Let the function end with a failure unless a condition holds."""
        self.checks = True
        self.add(parts.Require(condition, failure))

    def include(self, *headers: str) -> None:
        self.function.includes.update(headers)

    def share(self, header: str, macro: str, *arguments: int) -> None:
        """State that a kernel's instances are the same for all models (`Function.shared`)."""
        self.function.shared.add((header, macro, arguments))

    def scratch(
        self,
        function: str,
        header: str,
        *sizes: Expression | Dim,
        template: Sequence[str] = (),
        named: Sequence[Dim] = (),
    ) -> None:
        """Demand scratch memory: a function of sizes tells its bytes per worker, which `header`
        declares. `named`: sizes that stand inside of the others.
        """
        arguments = tuple(Size(s) if isinstance(s, int | dims.Expr) else s for s in sizes)
        demand = Scratch(function, header, arguments, tuple(template))
        symbols = {name for size in (*named, *_sizes_in(arguments)) for name in dims.symbols(size)}
        late = symbols & set(self.program.late_sizes)
        (self._scratch if late else self.program.scratch).append(demand)

    def finish(self, label: str) -> Step:
        """Append the step to the program."""
        names = tuple(node.name for node in self.nodes)
        step = Step(
            self.function,
            self._parameters.arguments,
            self._memory.reads,
            self._memory.writes,
            names,
            label,
            self._memory.in_place(),
            self.trailing,
            self.checks,
        )
        step.scratch, step.sources = self._scratch, self.nodes
        self.program.steps.append(step)
        return step


def _sizes_in(values: Iterable[Any]) -> Iterator[Dim]:
    """The sizes in expressions."""
    for value in values:
        match value:
            case Size(size):
                yield size
            case int() | dims.Expr():
                yield value
            case Aggregate(items=items):
                yield from _sizes_in(each for _, each in items)
            case Invocation(arguments=arguments):
                yield from _sizes_in(arguments)
            case tuple():
                yield from _sizes_in(value)


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
