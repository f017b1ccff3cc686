"""How operators of TensorFlow become nodes: the table, and what its entries build with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.regions import FlowModel, FlowNode
from infuse.frontends.tensorflow.tensors import dtype_of
from infuse.ir.graph import Array, Value
from infuse.tracing.importer import Importer, registered
from infuse.tracing.items import Complex, Elements, Item, Table, Variable
from infuse.tracing.tensorflow.calls import OperandCall

Handler = Callable[["FlowCall"], Any]
Registered = TypeVar("Registered", bound=Handler)
TABLE: Final[dict[str, Handler]] = {}
"""By name of the operator."""
_NUMBERED: Final = {
    "Shape": "out_type", "ShapeN": "out_type", "Size": "out_type", "ArgMax": "output_type",
    "ArgMin": "output_type", "Unique": "out_idx", "UniqueV2": "out_idx", "TopKV2": "index_type",
    "UniqueWithCounts": "out_idx", "UniqueWithCountsV2": "out_idx", "BroadcastArgs": "T",
    "BroadcastGradientArgs": "T", "Bitcast": "type", "Cast": "DstT", "MaxPoolWithArgmax": "Targmax",
}  # fmt: skip
"""Attributes that say the element type of a result."""
_WIDE: Final = ("ArgMax", "ArgMin", "Where", "MaxPoolWithArgmax")
"""Operators whose integers are int64 where nothing is said."""


def operator(*names: str) -> Callable[[Registered], Registered]:
    """Register what builds these operators: a function of the call, which returns the result, or a
    list of all.
    """
    return registered(TABLE, names)


class FlowScope(Protocol):
    """Where calls are built (of `scopes`)."""

    g: Importer
    depth: int

    @property
    def model(self) -> FlowModel:
        """The model, with its functions."""

    def variable(self, name: str) -> Variable:
        """The variable of this name."""

    def restored(self, name: str) -> Array:
        """The elements of a tensor of the checkpoint."""

    @property
    def restoring(self) -> bool:
        """Whether what is built gives variables and tables what they hold."""

    def table(self, name: str) -> Table:
        """The table of this name."""

    def asset(self, name: str) -> memoryview:
        """The content of a file that the model brings."""

    def function(self, g: Importer, name: str, items: list[Item]) -> list[Item]:
        """The results of a function, built by this importer."""


class FlowCall(OperandCall):
    """A call of an operator: attributes, operands and results."""

    def __init__(self, scope: FlowScope, node: FlowNode, items: list[Item]) -> None:
        self.scope, self.node, self.items = scope, node, items
        self.g = scope.g
        self._options: dict[str, Any] = {}

    def with_options(self, **options: Any) -> FlowCall:
        """The same call with more options."""
        call = FlowCall(self.scope, self.node, self.items)
        call._options = {**self._options, **options}
        return call

    def on(self, *items: Item) -> FlowCall:
        """The same call on other operands."""
        call = FlowCall(self.scope, self.node, list(items))
        call._options = self._options
        return call

    # -- attributes --------------------------------------------------------------------------------

    def option(self, name: str, default: Any = 0) -> Any:
        """An attribute by name, text as such."""
        if name in self._options:
            return self._options[name]
        value = self.node.attribute(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def type(self, name: str, default: int | None = None) -> DType:
        """The element type that an attribute names."""
        number = self.option(name, default)
        if not isinstance(number, int):
            raise ModelFileError(f"it has no element type {name}")
        return dtype_of(number)

    def text(self, name: str, *choices: str) -> str:
        """An attribute that is one of these texts, of which the first is that of old files."""
        text = str(self.option(name, choices[0]) or choices[0])
        if text not in choices:
            raise self.unsupported(f"{name} {text!r}")
        return text

    def positive(self, name: str, count: int | None = None) -> list[int]:
        """An attribute that lists numbers from 1 on."""
        numbers = [int(n) for n in self.option(name, None) or ([1] * (count or 0))]
        if any(n < 1 for n in numbers) or (count is not None and len(numbers) != count):
            raise ModelFileError(f"its {name} are {numbers[:8]}")
        return numbers

    def name_of(self, attribute: str) -> str:
        """The function that an attribute names."""
        function = self.option(attribute, None)
        name = getattr(function, "name", None)
        if not isinstance(name, str):
            raise ModelFileError(f"it has no function {attribute}")
        return name

    # -- operands ----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many operands there are."""
        return len(self.items)

    def has(self, index: int) -> bool:
        """Whether an operand is there."""
        return index < self.count

    def item(self, index: int) -> Item:
        """An operand of any kind."""
        if index >= self.count:
            raise ModelFileError(f"it has no operand {index}")
        return self.items[index]

    def raw(self, index: int) -> Value:
        """An operand that is a tensor."""
        item = self.item(index)
        if isinstance(item, Value):
            return item
        if isinstance(item, Variable):
            return self.read(item)
        what = "a complex tensor" if isinstance(item, Complex) else "no tensor"
        raise self.unsupported(f"operand {index}, {what},")

    def read(self, variable: Variable) -> Value:
        """What a variable is."""
        if variable.elements is None:
            raise ModelFileError(f"the variable {variable.name!r} has no value in the checkpoint")
        return self.g.constant(variable.elements, variable.name)

    def is_complex(self, index: int) -> bool:
        """Whether an operand has complex numbers."""
        return isinstance(self.item(index), Complex)

    def parts(self, index: int) -> Value:
        """A complex operand: its parts along one more axis."""
        item = self.item(index)
        if not isinstance(item, Complex):
            raise ModelFileError(f"operand {index} is not complex")
        return item.parts

    def placed_as(self, index: int, value: Value) -> Item:
        """A result of elements of an operand, complex where these are."""
        return Complex(value) if self.is_complex(index) else value

    def elements(self, index: int) -> Elements:
        """An operand that is a list of tensors."""
        item = self.item(index)
        if not isinstance(item, Elements):
            raise ModelFileError(f"operand {index} is not a list of tensors")
        return item

    def label(self, index: int) -> str:
        """What an operand is called in errors."""
        return str(self.node.inputs[index]) if index < len(self.node.inputs) else ""

    # -- results -----------------------------------------------------------------------------------

    @property
    def results(self) -> int:
        """How many results the operator has, where an attribute says it."""
        for name in ("num", "num_split"):
            count = self.option(name, None)
            if isinstance(count, int):
                if not 0 <= count <= 1 << 16:
                    raise ModelFileError(f"it has {count} results")
                return count
        return 1

    @property
    def dtype(self) -> DType:
        """The element type of the results that are numbers of places, sizes and the like."""
        wide = self.node.op in _WIDE
        attribute = _NUMBERED.get(self.node.op)
        if attribute is None:
            return dtypes.int64 if wide else dtypes.int32
        return self.type(attribute, 9 if wide else 3)

    def as_result(self, value: Value, index: int = 0) -> Value:
        """Integers in the type that the file says of a result."""
        return self.g.cast(value, self.dtype)
