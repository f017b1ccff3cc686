"""What differs between the languages that programs are written in, and functions in each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary

from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.lowering.expressions import KernelSizes
from infuse.lowering.program import Function, Parameter
from infuse.lowering.statements import Scratch
from infuse.targets.text.sizes import estimate_text, size_text
from infuse.targets.text.statements import StatementText


class Language(StatementText):
    """How a language says what others say differently.

    `linkage`: what stands before a function, and `apart`: before one that is not to be inlined.
    `context`: the parameter of functions that is the context of a run, and `given`: what it is
    called with. `begin`: the first lines of a run. `anywhere`: what stands before functions that
    processors run which lack instructions of the others, where these may have any.
    """

    sizes, model = "d->", "m->"
    linkage: ClassVar[str]
    apart: ClassVar[str]
    context: ClassVar[str]
    given: ClassVar[str]
    begin: ClassVar[str] = ""
    anywhere: ClassVar[str] = ""

    def __init__(self) -> None:
        self._texts: WeakKeyDictionary[Function, str] = WeakKeyDictionary()

    @abstractmethod
    def literal(self, value: float, dtype: DType) -> str:
        """A number of a formula, of the type in which elements of this one are computed."""

    @abstractmethod
    def scalar_type(self, dtype: DType) -> str:
        """The type in which elements of this one are computed."""

    @abstractmethod
    def call_sizes(self, sizes: KernelSizes, size_text: Callable[[Dim], str]) -> str:
        """The sizes of a kernel, in the list of calls."""

    @abstractmethod
    def sizes_parameter(self, type: str, name: str) -> str:
        """A parameter that carries the sizes of a kernel."""

    def size(self, size: Dim) -> str:
        """A size as a whole number."""
        return size_text(size)

    def estimate(self, size: Dim) -> str:
        """A size as a float64, which does not overflow."""
        return estimate_text(size)

    def kernel_sizes(self, sizes: KernelSizes) -> str:
        """The sizes of a kernel call."""
        return self.call_sizes(sizes, size_text)

    def scratch(self, demand: Scratch) -> str:
        """What computes the bytes of scratch memory."""
        arguments = ", ".join(map(self.text, demand.arguments))
        return f"{self.instance(demand.function, demand.template)}({arguments})"

    # -- functions ---------------------------------------------------------------------------------

    def pointer_type(self, parameter: Parameter) -> str:
        """The type of a parameter that leads to a tensor."""
        assert parameter.dtype is not None
        element = self.element_type(parameter.dtype)
        return f"{'' if parameter.is_written else 'const '}{element}*"

    def parameter_text(self, parameter: Parameter) -> str:
        """The declaration of a parameter."""
        match parameter.kind:
            case "tensor":
                return f"{self.pointer_type(parameter)} {parameter.name}"
            case "number":
                assert parameter.dtype is not None
                return f"const {self.scalar_type(parameter.dtype)} {parameter.name}"
            case "sizes":
                assert parameter.sizes is not None
                return self.sizes_parameter(parameter.sizes.__name__, parameter.name)
            case "found size":
                return f"isize* {parameter.name}"
        return f"const isize {parameter.name}"

    def body_of(self, function: Function) -> list[str]:
        """The lines of a function's body."""
        return [line for statement in function.statements for line in self.lines(statement)]

    def text_of(self, function: Function) -> str:
        """Parameters and body: the identity of a function."""
        text = self._texts.get(function)
        if text is None:
            parameters = ", ".join(map(self.parameter_text, function.parameters))
            text = self._texts[function] = parameters + "\n" + "\n".join(self.body_of(function))
        return text

    def head(self, function: Function, name: str) -> str:
        """The declaration of a function."""
        own = ["Model* m"] if function.is_control else [self.context, "const Sizes* d"]
        parameters: Sequence[str] = [*own, *map(self.parameter_text, function.parameters)]
        return f"{self.linkage} int {name}({', '.join(parameters)})"

    def define(self, function: Function, name: str) -> str:
        """The definition of a function."""
        body = "\n".join(f"  {line}" for line in self.body_of(function))
        start = "Sizes* d = &m->d;\n  (void)d;" if function.is_control else "(void)d, (void)c;"
        return f"{self.head(function, name)} {{\n  {start}\n{body}\n  return 0;\n}}\n"


def clean_name(function: Function) -> str:
    """What a function is called after, as a part of a C identifier."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in function.name)[:40]
