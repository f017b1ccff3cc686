"""What programs call besides ATen's operators: questions about tensors, numbers, lists,
dictionaries, texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.torchscript.scalars import dtype_of, number_of
from infuse.frontends.torch.calls import TABLE, axis_of
from infuse.frontends.torchscript import numbers, operators
from infuse.frontends.torchscript.operators import World, assign, is_tensor, link
from infuse.frontends.torchscript.values import Cell, Device, Dict, List, Stacked, Tensor, Undecided
from infuse.ir.graph import Value

Primitive = Callable[..., Any]
PRIMITIVES: Final[dict[str, Primitive]] = {}
"""By name; an entry gives NotImplemented where an operator of ATen is meant."""
_LONGEST: Final = 1 << 16
"""Elements that a list of a program may have."""


def primitive(*names: str) -> Callable[[Primitive], Primitive]:
    """Register what carries out calls of these names."""

    def register(function: Primitive) -> Primitive:
        for name in names:
            PRIMITIVES[name] = function
        return function

    return register


def apply(world: World, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result of `torch.name(...)`."""
    for argument in (*arguments, *options.values()):
        if isinstance(argument, Undecided):
            raise UnsupportedOperatorError(f"a value cannot be told: {argument.reason}")
    function = PRIMITIVES.get(name)
    if function is not None:
        made = function(world, *arguments, **options)
        if made is not NotImplemented:
            return made
    operands = [*arguments, *options.values()]
    if name in numbers.NAMES and operands and all(numbers.is_number(x) for x in operands):
        return numbers.calculate(world.g, name, operands)
    if isinstance(arguments[0] if arguments else None, (List, tuple, str)) and not is_tensor(
        arguments[0]
    ):
        made = _of_lists(world, name, arguments)
        if made is not NotImplemented:
            return made
    return operators.call(world, name, arguments, options)


def is_read(name: str) -> bool:
    """Whether calls of this name can be carried out, with some arguments."""
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in PRIMITIVES or name in numbers.NAMES or plain in operators.SAME:
        return True
    return any(t == f"aten.{plain}" or t.startswith(f"aten.{plain}.") for t in TABLE)


# -- tensors ---------------------------------------------------------------------------------------


@primitive("size")
def size(world: World, x: Tensor, dim: Any = None) -> Any:
    """All sizes of a tensor, or one."""
    value = x.read(world.g)
    if dim is None:
        return List(numbers.settled(n) for n in world.g.sizes_of(value))
    return numbers.settled(world.g.size_of(value, axis_of(dim, value.rank)))


@primitive("shape")
def shape(world: World, x: Tensor) -> Any:
    """All sizes of a tensor."""
    return size(world, x)


@primitive("len")
def length(world: World, x: Any) -> Any:
    """The number of elements of a list, or the first size of a tensor."""
    if isinstance(x, Tensor):
        return size(world, x, 0)
    if any(isinstance(item, Stacked) for item in x):
        total: Any = 0
        for item in x:
            rows = world.g.size_of(item.value, 0) if isinstance(item, Stacked) else 1
            total = numbers.calculate(world.g, "add", [total, numbers.settled(rows)])
        return total
    return len(x)


@primitive("dim")
def dim(world: World, x: Tensor) -> int:
    """The number of axes."""
    return x.read(world.g).rank


@primitive("numel")
def numel(world: World, x: Tensor) -> Any:
    """The number of elements."""
    return numbers.settled(TABLE["aten.sym_numel"](world.g, x.read(world.g)))


@primitive("dtype", "ops.prim.dtype")
def dtype(world: World, x: Tensor) -> int:
    """torch's number of the element type."""
    return number_of(x.read(world.g).dtype)


@primitive("device")
def device(world: World, x: Any, *more: Any) -> Device:
    """Where a tensor lies."""
    return Device(x if isinstance(x, str) else "cpu")


@primitive("type")
def type_(world: World, thing: Any) -> str:
    """The kind of a device."""
    if not isinstance(thing, Device):
        raise UnsupportedOperatorError("type() of a tensor is not supported")
    return thing.kind


@primitive("layout", "get_device", "is_cuda", "is_quantized", "is_sparse", "is_complex", "is_mkldnn")
def no(world: World, *arguments: Any) -> Any:
    """What holds for no tensor here."""
    return 0


@primitive("is_autocast_enabled", "is_autocast_cpu_enabled", "is_meta", "is_nested", "is_training")
def never(world: World, *arguments: Any) -> bool:
    """What does not hold while a trained model runs."""
    return False


@primitive("is_floating_point")
def is_floating_point(world: World, x: Tensor) -> bool:
    """Whether elements have fractions."""
    return bool(x.read(world.g).dtype.is_float)


@primitive("is_contiguous", "is_scripting", "is_grad_enabled", "requires_grad")
def always(world: World, *arguments: Any, **options: Any) -> bool:
    """What holds for every tensor here; with gradients, modules take no shortcut that computes the
    same by an operator of its own.
    """
    return True


@primitive("set_grad_enabled", "warn", "manual_seed", "_set_grad_enabled", "log_api_usage_once")
def nothing(world: World, *arguments: Any, **options: Any) -> None:
    """What has no effect on results."""


@primitive("data", "cpu", "cuda")
def itself(world: World, x: Tensor, *more: Any) -> Tensor:
    """The tensor itself."""
    return x


@primitive("to", "type_as", "_autocast_to_reduced_precision")
def to(world: World, x: Tensor, *arguments: Any, **options: Any) -> Any:
    """A tensor in another element type, itself where it has that."""
    before = x.read(world.g)
    wanted: DType = before.dtype
    listed = [*arguments]
    if options.get("dtype") is not None:
        wanted = dtype_of(options["dtype"])
    for argument in listed:
        if isinstance(argument, Tensor):
            wanted = argument.read(world.g).dtype
        elif type(argument) is int:
            wanted = dtype_of(argument)
            break
        elif isinstance(argument, bool):
            break
    flags = [a for a in listed if isinstance(a, bool)]
    copies = options.get("copy", flags[1] if len(flags) > 1 else False)
    if wanted == before.dtype and not copies:
        return x
    result = operators.compute(world.g, "_to_copy", [before], {"dtype": number_of(wanted)})
    return Tensor(Cell(result))


@primitive("item", "ScalarImplicit", "IntImplicit", "FloatImplicit")
def item(world: World, x: Any) -> Any:
    """The only element of a tensor as a number."""
    if not isinstance(x, Tensor):
        return x
    return numbers.settled(TABLE["aten.item"](world.g, x.read(world.g)))


@primitive("NumToTensor", "scalar_to_tensor")
def number_to_tensor(world: World, x: Any) -> Tensor:
    """A number as a tensor."""
    if isinstance(x, Value):
        return Tensor(Cell(x))
    kind = dtypes.bool_ if isinstance(x, bool) else None
    kind = kind or (dtypes.int64 if isinstance(x, int) else dtypes.float64)
    return Tensor(Cell(world.g.number(x, kind)))


@primitive("tensor", "as_tensor")
def tensor(world: World, data: Any, **options: Any) -> Any:
    """A tensor of numbers."""
    chosen = None if options.get("dtype") is None else dtype_of(options["dtype"])
    if isinstance(data, Tensor):
        return to(world, data, **options)
    parts: list[Any] = []
    sizes = _flattened(data, parts)
    wide = chosen or _joined(parts)
    if not any(isinstance(part, Value) for part in parts):
        array = np.array(parts, wide.numpy).reshape(sizes)
        return Tensor(Cell(world.g.constant(array, dtype=wide)))
    rows = [world.g.shaped(world.g.tensor(part, wide), 1) for part in parts]
    row = rows[0] if len(rows) == 1 else world.g("Concat", *rows, axis=0)
    return Tensor(Cell(world.g.shaped(row, *sizes)))


def _flattened(data: Any, parts: list[Any]) -> list[int]:
    """The sizes of nested lists, whose numbers are added to `parts`."""
    if not isinstance(data, (list, tuple)):
        if not numbers.is_number(data):
            raise UnsupportedOperatorError("a tensor is made of what is no number")
        parts.append(data)
        return []
    inner = [_flattened(entry, parts) for entry in data]
    if any(sizes != inner[0] for sizes in inner):
        raise ModelFileError("a tensor is made of lists of different lengths")
    return [len(inner), *(inner[0] if inner else [])]


def _joined(parts: Sequence[Any]) -> DType:
    kinds = {
        "float" if (p.dtype.is_float if isinstance(p, Value) else isinstance(p, float)) else
        "bool" if (p.dtype.is_bool if isinstance(p, Value) else isinstance(p, bool)) else "int"
        for p in parts
    }  # fmt: skip
    if "float" in kinds or not kinds:
        return dtypes.float32
    return dtypes.bool_ if kinds == {"bool"} else dtypes.int64


@primitive("tolist")
def tolist(world: World, *arguments: Any) -> Any:
    """Refused: the elements of a tensor as numbers."""
    raise UnsupportedOperatorError("tolist() makes a list of a length that the file does not say")


@primitive("copy_")
def copy_(world: World, x: Tensor, source: Any, *more: Any) -> Tensor:
    """Elements of another tensor in place of those of x."""
    value = source.read(world.g) if isinstance(source, Tensor) else source
    before = x.read(world.g)
    filled = value if isinstance(value, Value) else world.g.number(value, before.dtype)
    made = operators.compute(world.g, "copy", [before, filled], {})
    assign(world, x, made)
    return x


def _stacked(name: str) -> Primitive:
    def build(world: World, tensors: Any, dim: Any = 0) -> Any:
        if not isinstance(tensors, list) or not any(isinstance(t, Stacked) for t in tensors):
            return NotImplemented
        g, parts = world.g, []
        for t in tensors:
            value = t.value if isinstance(t, Stacked) else t.read(g)
            rows = value if isinstance(t, Stacked) else g("Unsqueeze", value, g.ints(0))
            rank = rows.rank - 1
            axis = dim % (rank + 1 if name == "stack" else rank)
            order = [i + 1 for i in range(rank)]
            order.insert(axis, 0)
            moved = g.permute(rows, *order)
            if name == "cat":
                sizes = g.sizes_of(moved)
                moved = g.shaped(moved, *sizes[:axis], -1, *sizes[axis + 2 :])
            parts.append(moved)
        made = parts[0] if len(parts) == 1 else g("Concat", *parts, axis=axis)
        return Tensor(Cell(made))

    return build


PRIMITIVES["stack"] = _stacked("stack")
PRIMITIVES["cat"] = PRIMITIVES["concat"] = _stacked("cat")


@primitive("contiguous")
def contiguous(world: World, x: Tensor, **options: Any) -> Tensor:
    """X, perhaps in another place."""
    result = Tensor(Cell(x.read(world.g)))
    link(x, result)
    return result


@primitive("clone")
def clone(world: World, x: Tensor, **options: Any) -> Tensor:
    """A copy of x."""
    return Tensor(Cell(x.read(world.g)))


# -- numbers ---------------------------------------------------------------------------------------


@primitive("__range_length")
def range_length(world: World, start: Any, end: Any, step: Any) -> Any:
    """How many numbers a range has."""
    if any(isinstance(x, Value) for x in (start, end, step)):
        if type(step) is not int or step <= 0:
            raise UnsupportedOperatorError("a range with a computed step is not supported")
        apart = numbers.calculate(world.g, "sub", [end, start])
        more = numbers.calculate(world.g, "add", [apart, step - 1])
        count = numbers.calculate(world.g, "floordiv", [more, step])
        return numbers.calculate(world.g, "max", [count, 0])
    return len(range(start, end, step))


@primitive("__derive_index")
def derive_index(world: World, index: Any, start: Any, step: Any) -> Any:
    """The number at a place of a range."""
    return numbers.calculate(
        world.g, "add", [start, numbers.calculate(world.g, "mul", [index, step])]
    )


@primitive("__is__")
def is_(world: World, a: Any, b: Any) -> bool:
    """Whether both are None, or one thing."""
    return a is b


@primitive("__isnot__")
def is_not(world: World, a: Any, b: Any) -> bool:
    """Whether they are two things."""
    return a is not b


@primitive("__not__")
def not_(world: World, a: Any) -> Any:
    """Whether a condition does not hold."""
    return numbers.calculate(world.g, "__not__", [numbers.as_bool(world.g, a)])


# -- lists, dictionaries, texts --------------------------------------------------------------------


def _bounded(items: Any) -> Any:
    if len(items) > _LONGEST:
        raise ModelFileError(f"a list or text of the program has {len(items)} elements")
    return items


def _of_lists(world: World, name: str, arguments: Sequence[Any]) -> Any:
    """Operators of Python on lists, tuples and texts."""
    a, *more = arguments
    b = more[0] if more else None
    if name in ("eq", "ne") and isinstance(b, (list, tuple, str)):
        return _equal(world, a, b, name)
    if name == "add" and type(a) is type(b):
        return _bounded(List([*a, *b]) if isinstance(a, list) else a + b)
    if name == "mul" and type(b) is int and isinstance(a, (List, str)):
        if b > 0 and len(a) * b > _LONGEST:
            raise ModelFileError("a list of the program is too long")
        return List(list(a) * b) if isinstance(a, list) else a * b
    if name in ("min", "max", "sum") and b is None:
        items = list(a)
        total = 0 if name == "sum" else items[0]
        for item in items if name == "sum" else items[1:]:
            total = numbers.calculate(world.g, "add" if name == "sum" else name, [total, item])
        return total
    if name in ("any", "all") and b is None:
        joining, start = ("__or__", False) if name == "any" else ("__and__", True)
        total = start
        for item in a:
            truth = numbers.as_bool(world.g, item)
            total = numbers.calculate(world.g, joining, [total, truth])
        return total
    if isinstance(a, str) and name in _TEXTS:
        made = getattr(a, name)(*more)
        return List(made) if isinstance(made, list) else _bounded(made)
    return NotImplemented


_TEXTS: Final = frozenset(
    [
        *("capitalize", "count", "endswith", "find", "isalpha", "isdigit", "join", "lower"),
        *("lstrip", "replace", "rfind", "rstrip", "split", "startswith", "strip", "upper"),
    ]
)


def _equal(world: World, a: Any, b: Any, name: str) -> Any:
    if isinstance(a, str) or isinstance(b, str) or len(a) != len(b):
        return (a == b) == (name == "eq")
    same: Any = True
    for x, y in zip(a, b):
        if isinstance(x, (list, tuple)):
            each = _equal(world, x, y, "eq")
        elif numbers.is_number(x) and numbers.is_number(y):
            each = numbers.calculate(world.g, "eq", [x, y])
        elif isinstance(x, Tensor) or isinstance(y, Tensor):
            raise UnsupportedOperatorError("lists of tensors are compared")
        else:
            each = x == y
        if each is False:
            same = False
            break
        same = each if same is True else numbers.calculate(world.g, "__and__", [same, each])
    return same if name == "eq" else numbers.calculate(world.g, "__not__", [same])


@primitive("__getitem__")
def getitem(world: World, x: Any, key: Any) -> Any:
    """An element of a list, tuple, dictionary or text."""
    if isinstance(x, Tensor):
        return operators.call(world, "select", [x, 0, key], {})
    if isinstance(x, dict):
        if isinstance(key, (Value, Tensor)) or key not in x:
            raise UnsupportedOperatorError(f"a dictionary has no key {key!r}")
        return x[key]
    if isinstance(key, Value):
        return _picked(world, x, key)
    if any(isinstance(item, Stacked) for item in x):
        place = 0
        for item in x:
            if isinstance(item, Stacked) or place == key:
                break
            place += 1
        if not (0 <= key < place or (key == place and not isinstance(x[place], Stacked))):
            if len(x) == 1 or key < 0 and isinstance(x[-1], Stacked):
                rows = x[-1].value
                return operators.call(world, "select", [Tensor(Cell(rows)), 0, key], {})
            raise UnsupportedOperatorError("an element is read of a list that a loop made")
    if not -len(x) <= key < len(x):
        raise ModelFileError(f"index {key} of a list of {len(x)} elements")
    return x[key]


def _picked(world: World, items: Any, index: Value) -> Any:
    """The element of a list at a computed place."""
    g = world.g
    if len(items) == 1 and isinstance(items[0], Stacked):
        return Tensor(Cell(g("Gather", items[0].value, index, axis=0)))
    if not items or any(isinstance(x, Stacked) for x in items):
        raise UnsupportedOperatorError("a list is read at a computed place")
    if all(numbers.is_number(x) for x in items):
        row = tensor(world, items).read(g)
        return numbers.settled(g("Gather", row, index, axis=0))
    values = [x.read(g) for x in items if isinstance(x, Tensor)]
    if len(values) < len(items) or len({(v.dtype, v.shape) for v in values}) > 1:
        raise UnsupportedOperatorError("a list is read at a computed place")
    rows = [g("Unsqueeze", v, g.ints(0)) for v in values]
    stacked = rows[0] if len(rows) == 1 else g("Concat", *rows, axis=0)
    return Tensor(Cell(g("Gather", stacked, index, axis=0)))


@primitive("slice")
def slice_(world: World, x: Any, *arguments: Any) -> Any:
    """A part of a list or text."""
    if isinstance(x, Tensor):
        return NotImplemented
    start, end, step = [*arguments, *[None] * 3][:3]
    part = x[slice(start, end, step)]
    return List(part) if isinstance(x, list) else part


@primitive("__contains__")
def contains(world: World, items: Any, item: Any) -> Any:
    """Whether a list or dictionary has an element."""
    if isinstance(items, (dict, str)):
        return item in items
    found: Any = False
    for entry in items:
        if numbers.is_number(entry) and numbers.is_number(item):
            same = numbers.calculate(world.g, "eq", [entry, item])
        else:
            same = entry == item
        if same is True:
            return True
        if same is not False:
            found = same if found is False else numbers.calculate(world.g, "__or__", [found, same])
    return found


@primitive("append")
def append(world: World, items: List, item: Any) -> List:
    """One more element of a list."""
    world.touch(items)
    items.append(item)
    return _bounded(items)


@primitive("extend")
def extend(world: World, items: List, more: Any) -> None:
    """More elements of a list."""
    world.touch(items)
    items.extend(list(more))
    _bounded(items)


@primitive("add_")
def add_(world: World, items: Any, more: Any, **options: Any) -> Any:
    """More elements of a list (`+=`)."""
    if not isinstance(items, List):
        return NotImplemented
    extend(world, items, more)
    return items


@primitive("insert")
def insert(world: World, items: List, place: int, item: Any) -> None:
    """One more element of a list, at a place."""
    world.touch(items)
    items.insert(place, item)


@primitive("pop")
def pop(world: World, items: Any, *key: Any) -> Any:
    """An element, off the list or dictionary."""
    _plain(items)
    world.touch(items)
    return items.pop(*key)


@primitive("popitem", "remove", "setdefault", "sorted")
def refused(world: World, *arguments: Any) -> Any:
    """Refused: rare changes of lists and dictionaries."""
    raise UnsupportedOperatorError("this function of lists and dictionaries is not supported")


@primitive("clear")
def clear(world: World, items: Any) -> None:
    """No element of a list or dictionary."""
    world.touch(items)
    items.clear()


@primitive("reverse")
def reverse(world: World, items: List) -> None:
    """A list in reverse."""
    _plain(items)
    world.touch(items)
    items.reverse()


@primitive("_set_item")
def set_item(world: World, items: Any, key: Any, item: Any) -> Any:
    """Another element at a place of a list, or under a key of a dictionary."""
    if isinstance(key, (Value, Tensor)):
        raise UnsupportedOperatorError("an element at a computed place of a list is changed")
    _plain(items)
    world.touch(items)
    items[key] = item
    return items


@primitive("Delete")
def delete(world: World, items: Any, key: Any) -> None:
    """Without an element."""
    _plain(items)
    world.touch(items)
    del items[key]


def _plain(items: Any) -> None:
    if isinstance(items, List) and any(isinstance(x, Stacked) for x in items):
        raise UnsupportedOperatorError("a list that a loop made is changed")


@primitive("list", "copy")
def listed(world: World, items: Any = ()) -> Any:
    """A new list or dictionary with these elements."""
    if isinstance(items, Tensor):
        return NotImplemented
    return Dict(items) if isinstance(items, dict) else List(items)


@primitive("keys")
def keys(world: World, items: Dict) -> List:
    """The keys of a dictionary."""
    return List(items)


@primitive("values")
def values(world: World, items: Dict) -> List:
    """The values of a dictionary."""
    return List(items.values())


@primitive("items")
def pairs(world: World, items: Dict) -> List:
    """Pairs of keys and values of a dictionary."""
    return List(items.items())


@primitive("get")
def get(world: World, items: Dict, key: Any, default: Any = None) -> Any:
    """The value under a key, or another."""
    return items.get(key, default)


@primitive("update")
def update(world: World, items: Dict, more: Any) -> None:
    """More values under keys."""
    world.touch(items)
    items.update(more)


@primitive("dict")
def dict_(world: World, items: Any = ()) -> Dict:
    """A new dictionary."""
    return Dict(dict(items))


@primitive("format")
def text(world: World, form: str, *arguments: Any) -> Any:
    """A text with these parts; it cannot be told where nodes compute them."""
    if all(isinstance(a, (str, int)) for a in arguments) and form.count("{}") == len(arguments):
        pieces = form.split("{}")
        parts = [piece + str(a) for piece, a in zip(pieces, arguments)]
        return _bounded("".join([*parts, pieces[-1]]))
    return Undecided("a text that is made while the model runs")


@primitive("str", "percentFormat")
def str_(world: World, thing: Any, *more: Any) -> Any:
    """A number as text."""
    if isinstance(thing, (str, int)) and not more:
        return str(thing)
    return Undecided("a text that is made while the model runs")


@primitive("ord")
def ord_(world: World, letter: str) -> int:
    """The number of a letter."""
    return ord(letter)


@primitive("to_mkldnn", "ConstantMKLDNNTensor")
def in_blocks(world: World, *arguments: Any) -> Any:
    """Refused: weights in the layout of one machine, which the file does not hold."""
    raise UnsupportedOperatorError(
        "torch.jit.optimize_for_inference has turned weights into a form that is not saved",
        hint="save the module by torch.jit.freeze instead",
    )


@primitive("hash")
def hash_(world: World, thing: Any) -> int:
    """Refused: torch's own hashes."""
    raise UnsupportedOperatorError("hash() is not supported")
