"""Pickles of torch, read without Python's own reader: nothing in a file is ever called.

Of the opcodes there are those that numbers, texts, lists, dictionaries, tensors and records of
classes need; of functions those of `FUNCTIONS`. Everything else is refused by its name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.ir.graph import Array
from infuse.tracing.semantics.strided import strided

_MOST: Final = 1 << 24
"""Objects that a pickle may have."""
_STORAGES: Final[Mapping[str, DType]] = {
    "FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64, "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16, "LongStorage": dtypes.int64, "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_, "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128, "QInt8Storage": dtypes.int8,
    "QUInt8Storage": dtypes.uint8, "QInt32Storage": dtypes.int32,
}  # fmt: skip
"""Element types by the name of the storage's class."""


@dataclass(frozen=True)
class Global:
    """A class or function by its name."""

    name: str


@dataclass(eq=False)
class Instance:
    """An object of a class that the file has the code of; `state` is what it was built with."""

    kind: str
    state: Any = None


@dataclass(frozen=True)
class Member:
    """A member of an enumeration that the file has the code of, by its value."""

    kind: str
    value: str | float


@dataclass(frozen=True)
class Storage:
    """Where the elements of tensors lie."""

    dtype: DType
    key: str


@dataclass(frozen=True, eq=False)
class Quantization:
    """What the integers of a quantized tensor stand for; with an axis, by its index."""

    scale: Any
    zero_point: Any
    axis: int | None = None


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor that lies in a storage."""

    storage: Storage
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    quantization: Quantization | None = None

    def elements(self, name: str, read: Callable[[str], memoryview]) -> Array:
        """The elements, from the bytes that `read` gives for a storage."""
        data = read(self.storage.key)
        return strided(name, data, self.storage.dtype, self.offset, self.sizes, self.strides)


def _whole(values: Any) -> tuple[int, ...]:
    if not isinstance(values, (list, tuple)) or any(type(n) is not int for n in values):
        raise ModelFileError("the sizes of a tensor are not numbers")
    return tuple(values)


def _tensor(storage: Any, offset: Any, sizes: Any, strides: Any, *more: Any) -> StoredTensor:
    if not isinstance(storage, Storage) or type(offset) is not int:
        raise ModelFileError("a tensor has no storage")
    sizes, strides = _whole(sizes), _whole(strides)
    if len(sizes) != len(strides):
        raise ModelFileError("a tensor has not as many strides as sizes")
    return StoredTensor(storage, offset, sizes, strides)


def _quantized(
    storage: Any, offset: Any, sizes: Any, strides: Any, parameters: Any, *more: Any
) -> StoredTensor:
    plain = _tensor(storage, offset, sizes, strides)
    kind, scale, zero_point, *axis = parameters
    if kind == Global("torch.per_channel_affine") and len(axis) == 1:
        quantization = Quantization(scale, zero_point, int(axis[0]))
    elif kind == Global("torch.per_tensor_affine") and not axis:
        quantization = Quantization(float(scale), int(zero_point))
    else:
        raise ModelFileError(f"a tensor is quantized by {kind!r}, which is not known")
    return StoredTensor(plain.storage, plain.offset, plain.sizes, plain.strides, quantization)


def _listed(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise ModelFileError("a typed list is made of no list")
    return items


def _ordered(items: Any = ()) -> dict[Any, Any]:
    return dict(items)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_parameter": lambda tensor, *more: tensor,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch.Size": tuple,
    "torch.device": lambda kind, *number: Global(f"device:{kind}"),
    "torch.jit._pickle.build_boollist": _listed,
    "torch.jit._pickle.build_doublelist": _listed,
    "torch.jit._pickle.build_intlist": _listed,
    "torch.jit._pickle.build_tensorlist": _listed,
    "torch.jit._pickle.restore_type_tag": lambda value, tag: value,
}
"""What stands for the functions that a pickle may name."""


@dataclass
class _Machine:
    """The stack and the memo while a pickle is read."""

    data: memoryview
    where: str
    place: int = 0
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    ended: bool = False

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or self.place + count > len(self.data):
            raise self.broken("it is cut off")
        self.place += count
        return bytes(self.data[self.place - count : self.place])

    def number(self, form: str) -> Any:
        """The next number, in a form of struct."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """The text up to the end of the line."""
        end = bytes(self.data[self.place : self.place + 4096]).find(b"\n")
        if end < 0:
            raise self.broken("a name has no end")
        return self.take(end + 1)[:-1].decode("utf-8")

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """The value on top of the stack, off it."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise self.broken("the stack is empty")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """The value on top of the stack, which has to be of this class."""
        value = self.stack[-1] if self.stack else None
        if not isinstance(value, kind):
            raise self.broken(f"there is no {kind.__name__} on the stack")
        return value

    def marked(self) -> list[Any]:
        """The values above the last mark, off the stack."""
        if not self.marks:
            raise self.broken("there is no mark")
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def broken(self, why: str) -> ModelFileError:
        """The error for what no pickle has."""
        return ModelFileError(
            f"the pickle is damaged at byte {self.place}: {why}", where=self.where
        )


def read(data: memoryview, where: str) -> Any:
    """The object of a pickle; ModelFileError where it is damaged, or has what is not read."""
    machine = _Machine(data, where)
    count = 0
    try:
        while not machine.ended:
            count += 1
            if count > _MOST:
                raise machine.broken("it has too many objects")
            code = machine.take(1)[0]
            step = _OPCODES.get(code)
            if step is None:
                raise machine.broken(f"opcode {code:#04x} is not one that weights need")
            step(machine)
        return machine.stack[-1]
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise machine.broken(f"{type(error).__name__}: {error}") from error


def _key(machine: _Machine, key: Any) -> Any:
    if key is not None and not isinstance(key, (str, int, float, bool)):
        raise machine.broken("a key of a dictionary is neither a text nor a number")
    return key


def _set(machine: _Machine, items: Sequence[Any]) -> None:
    target = machine.top(dict)
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[_key(machine, key)] = value


def _global(machine: _Machine, module: Any, name: Any) -> None:
    if not isinstance(module, str) or not isinstance(name, str):
        raise machine.broken("a class has no name")
    machine.push(Global(f"{module}.{name}"))


def _reduce(machine: _Machine) -> None:
    arguments, function = machine.pop(), machine.pop()
    is_class = isinstance(function, Global) and function.name.startswith("__torch__.")
    if is_class and isinstance(arguments, (str, int, float)):
        machine.push(Member(function.name, arguments))
        return
    if not isinstance(function, Global) or not isinstance(arguments, tuple):
        raise machine.broken("what is called is not a function")
    known = FUNCTIONS.get(function.name)
    if known is None:
        raise ModelFileError(
            f"the pickle calls {function.name!r}, which is not read",
            where=machine.where,
            hint="save the model by torch.jit.save or torch.export.save",
        )
    machine.push(known(*arguments))


def _new(machine: _Machine) -> None:
    arguments, kind = machine.pop(), machine.pop()
    if not isinstance(kind, Global) or arguments != ():
        raise machine.broken("an object is made of arguments")
    if not kind.name.startswith("__torch__."):
        raise ModelFileError(
            f"the pickle has an object of the class {kind.name!r}, which is not read",
            where=machine.where,
            hint="save the model by torch.jit.save or torch.export.save",
        )
    machine.push(Instance(kind.name))


def _build(machine: _Machine) -> None:
    state = machine.pop()
    if machine.stack and isinstance(machine.stack[-1], dict):
        return  # attributes of an OrderedDict (versions of modules), which are no entries of it
    machine.top(Instance).state = state


def _persistent(machine: _Machine) -> None:
    entry = machine.pop()
    if not isinstance(entry, tuple) or len(entry) < 3 or entry[0] != "storage":
        raise machine.broken("a persistent id names no storage")
    kind = entry[1].name if isinstance(entry[1], Global) else ""
    dtype = _STORAGES.get(kind.removeprefix("torch.").removeprefix("storage."))
    if dtype is None or not isinstance(entry[2], str):
        raise machine.broken(f"a storage of the class {kind!r} is not known")
    machine.push(Storage(dtype, entry[2]))


def _memoize(machine: _Machine, place: int) -> None:
    if not machine.stack:
        raise machine.broken("the stack is empty")
    machine.memo[place] = machine.stack[-1]


def _tupled(count: int) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        machine.push(tuple([machine.pop() for _ in range(count)][::-1]))

    return step


def _number(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(m.number(form))


def _text(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(m.take(m.number(form)).decode("utf-8", "surrogatepass"))


def _bytes(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(m.take(m.number(form)))


def _end(machine: _Machine) -> None:
    if not machine.stack or machine.marks:
        raise machine.broken("it ends in the middle of an object")
    machine.ended = True


_OPCODES: Final[dict[int, Callable[[_Machine], Any]]] = {
    0x80: lambda m: m.take(1),  # PROTO
    0x95: lambda m: m.take(8),  # FRAME
    ord("("): lambda m: m.marks.append(len(m.stack)),
    ord("."): _end,
    ord("0"): lambda m: m.pop(),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("J"): _number("<i"),
    ord("K"): _number("<B"),
    ord("M"): _number("<H"),
    ord("G"): _number(">d"),
    0x8A: lambda m: m.push(int.from_bytes(m.take(m.number("<B")), "little", signed=True)),
    ord("X"): _text("<I"),
    0x8C: _text("<B"),
    0x8D: _text("<Q"),
    ord("B"): _bytes("<I"),
    ord("C"): _bytes("<B"),
    ord(")"): lambda m: m.push(()),
    0x85: _tupled(1),
    0x86: _tupled(2),
    0x87: _tupled(3),
    ord("t"): lambda m: m.push(tuple(m.marked())),
    ord("]"): lambda m: m.push([]),
    ord("a"): lambda m: _append(m, [m.pop()]),
    ord("e"): lambda m: _append(m, m.marked()),
    ord("}"): lambda m: m.push({}),
    ord("s"): lambda m: _set(m, [m.pop(), m.pop()][::-1]),
    ord("u"): lambda m: _set(m, m.marked()),
    ord("c"): lambda m: _global(m, m.line(), m.line()),
    0x93: lambda m: _global(m, *[m.pop(), m.pop()][::-1]),
    ord("R"): _reduce,
    0x81: _new,
    ord("b"): _build,
    ord("Q"): _persistent,
    ord("q"): lambda m: _memoize(m, m.number("<B")),
    ord("r"): lambda m: _memoize(m, m.number("<I")),
    0x94: lambda m: _memoize(m, len(m.memo)),
    ord("h"): lambda m: m.push(m.memo[m.number("<B")]),
    ord("j"): lambda m: m.push(m.memo[m.number("<I")]),
}


def _append(machine: _Machine, items: Sequence[Any]) -> None:
    machine.top(list).extend(items)
