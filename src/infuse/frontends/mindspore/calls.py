"""How primitives of MindSpore become nodes: the table, and what its entries build with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import infuse.tracing.aten  # noqa: F401  registers torch's operators
from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.mindspore.items import MONAD, Item, describe, tensor
from infuse.frontends.mindspore.tensors import TYPE_IDS
from infuse.ir.contents import known_ints
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, handler_of
from infuse.tracing.calls import Call, words
from infuse.tracing.importer import registered

Handler = Callable[["MindCall"], Any]
Registered = TypeVar("Registered", bound=Handler)
TABLE: Final[dict[str, Handler]] = {}
"""By name of the primitive."""
_NOISE: Final = frozenset(
    words("""input_names output_names op_adaptation_processed is_load primitive_target
        side_effect_mem side_effect_io side_effect_propagate checkpoint N n use_copy
        need_infer_value_dim dyn_input_sizes target instance_name num need_unpack
        forward_unique_id is_dynamic_rank group_rank_ids gen_strategy has_shard inputSize
        input_size out_channel bprop_hash side_effect_hidden rebuild use_pynative recompute
        strategy_gen_mode in_strategy view cust_aicpu""")
)
"""Attributes that say how or where something is computed, or again what the operands say."""


def primitive(*names: str) -> Callable[[Registered], Registered]:
    """Register what builds these primitives: a function of the call, which returns an item."""
    return registered(TABLE, names)


def shared(name: str, target: str, *arguments: str) -> None:
    """Let a primitive be built as torch's operator `target` is. An argument is the number of an
    operand, `@` and the name of an attribute, or `=` and a text; `NAME:` in front gives it by name,
    and `_:` says that it makes no difference. Operands that are not there have torch's defaults.
    """
    handler = handler_of(target if "." in target and target[0] == "_" else f"aten.{target}")
    assert handler is not None, target
    called = f"aten.{target}"

    def build(call: MindCall) -> Any:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for argument in arguments:
            key, _, source = argument.rpartition(":")
            if source.isdigit() and int(source) >= len(call.items):
                continue
            value = call.argument(source)
            if not key:
                positional.append(value)
            elif key != "_":
                named[key] = value
        call.g.called = called
        return handler(call.g, *positional, **named)

    primitive(name)(build)


class MindCall(Call):
    """A call of a primitive: its operands and attributes."""

    def __init__(
        self, g: TorchImporter, name: str, items: Sequence[Item], attributes: dict[str, Item]
    ) -> None:
        self.g, self.name = g, name
        self.items = [item for item in items if item is not MONAD]
        self._attributes = attributes
        self._read: set[int | str] = set()

    def check_used(self) -> None:
        """UnsupportedOperatorError when an operand or an attribute was not looked at."""
        unread = [
            name for name in self._attributes if name not in self._read and name not in _NOISE
        ]
        if unread:
            raise UnsupportedOperatorError(
                f"its attribute {unread[0]!r} ({self._attributes[unread[0]]!r}) is not known"
            )
        for number, item in enumerate(self.items):
            if number not in self._read and item is not None:
                raise UnsupportedOperatorError(f"its operand {number} is not known")

    def argument(self, source: str) -> Item:
        """What `shared` calls an argument."""
        if source.startswith("="):
            return source[1:]
        return self.attribute(source[1:]) if source.startswith("@") else self.item(int(source))

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, name: str, default: Any = ...) -> Item:
        """An attribute by name; ModelFileError where there is none and no default."""
        self._read.add(name)
        if name in self._attributes:
            return self._attributes[name]
        if default is ...:
            raise ModelFileError(f"it has no attribute {name!r}")
        return default

    def ignore(self, *names: str | int) -> None:
        """These attributes and operands make no difference to the result."""
        self._read.update(names)

    # -- operands ----------------------------------------------------------------------------------

    def item(self, index: int, default: Any = ...) -> Item:
        """An operand of any kind."""
        self._read.add(index)
        if index < len(self.items):
            return self.items[index]
        if default is ...:
            raise ModelFileError(f"it has no operand {index}")
        return default

    def value(self, index: int) -> Value:
        """An operand that is a tensor, or a number as one."""
        return tensor(self.g, self.item(index))

    def values(self) -> list[Value]:
        """All operands as tensors; one that is a tuple stands for all."""
        for index in range(len(self.items)):
            self._read.add(index)
        listed = self.items
        if len(listed) == 1 and isinstance(listed[0], list):
            listed = listed[0]
        return [tensor(self.g, item) for item in listed]

    def number(self, index: int, default: Any = ...) -> Any:
        """An operand that is a number, or a constant of one element."""
        return self._plain(self.item(index, default), f"operand {index}")

    def _plain(self, item: Item, what: str) -> Any:
        if isinstance(item, Value):
            if item.const is None or item.const.size != 1:
                raise self.unsupported(f"{what}, computed,")
            return item.const.reshape(()).item()
        if not isinstance(item, (bool, int, float)):
            raise ModelFileError(f"{what} is {describe(item)}, not a number")
        return item

    def sizes(self, index: int) -> list[Any]:
        """An operand that lists whole numbers: numbers, and scalars that nodes compute."""
        return self.listed(self.item(index))

    def listed(self, item: Item) -> list[Any]:
        """Whole numbers, and scalars that nodes compute, of a number, a tuple or a tensor."""
        if isinstance(item, (list, tuple)):
            return [part for each in item for part in self.listed(each)]
        if isinstance(item, Value):
            known = known_ints(item)
            if known is not None and all(isinstance(n, int) for n in known):
                return list(known)
            return self._elements(item)
        return [self._plain(item, "a size")]

    def _elements(self, item: Value) -> list[Any]:
        g = self.g
        if item.rank == 0:
            return [item]
        if item.rank != 1 or not isinstance(item.shape[0], int):
            raise self.unsupported("a list of computed length")
        wide = g.cast(item, dtypes.int64)
        return [g("Squeeze", g.slice(wide, 0, i, i + 1), g.ints(0)) for i in range(item.shape[0])]

    def ints(self, item: Item, count: int | None = None) -> list[int]:
        """Whole numbers that are known; one stands for `count` of them."""
        numbers = [self._plain(part, "a number") for part in self.listed(item)]
        if any(not isinstance(n, int) for n in numbers):
            raise ModelFileError(f"{numbers[:8]} are not whole numbers")
        if count is not None and len(numbers) == 1:
            numbers *= count
        if count is not None and len(numbers) != count:
            raise ModelFileError(f"there are {len(numbers)} numbers, not {count}")
        return numbers

    def axes(self, item: Item, rank: int) -> list[int]:
        """Axes from 0 on; all for None and an empty list."""
        listed = [] if item is None else self.ints(item)
        if any(not -max(rank, 1) <= axis < max(rank, 1) for axis in listed):
            raise ModelFileError(f"there are no axes {listed} of {rank}")
        return sorted({axis % rank for axis in listed}) if listed and rank else list(range(rank))

    def dtype(self, item: Item) -> DType:
        """An element type, by what stands for it."""
        if isinstance(item, DType):
            return item
        number = self._plain(item, "an element type")
        if number not in TYPE_IDS:
            raise self.unsupported(f"the element type number {number}")
        return TYPE_IDS[number]
