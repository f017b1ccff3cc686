"""What a lowering writes a function with: statements, parameters, and the arguments of its call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from infuse.codegen.program import (
    Argument,
    Function,
    Number,
    Program,
    SizeResult,
    Step,
)
from infuse.codegen.tensors import Buffer, Tensor
from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.targets.cpu.emit import statements as cpp
from infuse.targets.cpu.emit.formulas import scalar_type
from infuse.targets.cpu.emit.shared import Shared
from infuse.targets.cpu.emit.sizes import fields_in, size_text, symbol_field
from infuse.targets.cpu.emit.statements import (
    Aggregate,
    PrintedSize,
    Statement,
    elements,
    expression,
)
from infuse.targets.cpu.families.base import HEADERS, KernelSizes


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
        self._known: dict[tuple[int, DType, str, Any], str] = {}
        self._divisors: dict[Dim, str] = {}

    def read(self, tensor: Tensor, *targets: Tensor) -> str:
        """The name of a pointer to the first element of a tensor that is read.

        Every element is read before the elements of `targets` at the same index are written, and
        not again afterwards.
        """
        fitting = [target for target in targets if same_place(tensor, target)]
        self._in_place.update(((target.buffer, tensor.buffer), None) for target in fitting)
        if not fitting:
            self._elsewhere.update(tensor.buffer.memory())
        return self._pointer(tensor, "const ", self.reads)

    def write(self, tensor: Tensor) -> str:
        """The name of a pointer to the first element of a tensor that is written."""
        return self._pointer(tensor, "", self.writes)

    def _pointer(self, tensor: Tensor, qualifier: str, log: list[Buffer]) -> str:
        log += tensor.buffer.memory()
        key = (id(tensor.buffer), tensor.dtype, qualifier, tensor.offset)
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

    def divisor(self, size: Dim) -> int | str:
        """A size by which the body divides: itself where it is a number, else the name of a
        parameter, of equal sizes the same.
        """
        if isinstance(size, int):
            return size
        if size not in self._divisors:
            self._divisors[size] = self.number(size)
        return self._divisors[size]

    def value(self, number: float, dtype: DType) -> str:
        """The name of a parameter that carries a number of a formula.

        Layers that differ only in such numbers, as the scales of quantized ones, share one compiled
        function.
        """
        name = f"v{len(self.arguments)}"
        self.function.parameters.append(f"const {scalar_type(dtype)} {name}")
        self.arguments.append(Number(number, dtype))
        return name

    def numbers(self, *sizes: Dim) -> str:
        """Several sizes, separated by commas."""
        return ", ".join(map(self.number, sizes))

    def printed(self, size: Dim) -> PrintedSize | str:
        """A size that is printed into the body where it is a number, else a parameter's name."""
        return PrintedSize(size_text(size), size) if isinstance(size, int) else self.number(size)

    def strided(self, type: str, tensor: Tensor, axes: int = 3) -> Aggregate:
        """A struct of a pointer to a tensor that is read, and the strides of its first axes."""
        pointer = self.read(tensor)
        strides = map(self.number, tensor.strides[:axes])
        return elements(pointer, *strides, type=type)

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
        result: str = "",
    ) -> None:
        """Add a call of a kernel (see `KernelCall`)."""
        self.checks = self.checks or bool(failure)
        named = tuple(map(expression, arguments)), tuple(map(str, template))
        self.add(cpp.KernelCall(kernel, *named, failure, context, result))

    def array(self, name: str, *elements: object) -> None:
        """Add a constant list of whole numbers."""
        self.arrays({name: elements})

    def arrays(self, lists: Mapping[str, Iterable[object]], constant: bool = True) -> None:
        """Add lists of whole numbers, by name."""
        named = tuple((name, tuple(map(str, elements))) for name, elements in lists.items())
        self.add(cpp.Arrays(named, constant))

    def struct(self, type: str, name: str, **fields: object) -> None:
        """Add the parameters of a kernel; the fields in the order of their declaration."""
        named = ((name, expression(value)) for name, value in fields.items())
        self.add(cpp.Struct(type, name, tuple(named)))

    def fields(self, **sizes: Dim) -> Aggregate:
        """The content of a struct of sizes, which become parameters."""
        return Aggregate(tuple((name.rstrip("_"), self.number(d)) for name, d in sizes.items()))

    def constant(self, name: str, value: object, type: str = "long") -> None:
        """Add a value under a name."""
        self.add(cpp.Constant(type, name, expression(value)))

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
        self.add(cpp.Loader(name, pointer, columns))

    def assign(self, place: str, value: object) -> None:
        """Add the store of a value in an element or field, or (`*p`) where a name points."""
        self.assign_all({place: value})

    def assign_all(self, values: Mapping[str, object]) -> None:
        """Add the stores of several values, by place."""
        self.add(cpp.Assign(tuple((place, expression(v)) for place, v in values.items())))

    def variable(self, type: str, **values: object) -> None:
        """Add values that change, by name."""
        self.add(cpp.Variable(type, tuple((name, expression(v)) for name, v in values.items())))

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

    def share(self, header: str, macro: str, *arguments: int) -> None:
        """State that a kernel's instances are the same for all models (see `Shared`)."""
        self.function.shared.add(Shared(header, macro, arguments))

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
