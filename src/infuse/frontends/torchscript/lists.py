"""Lists, tuples, dictionaries and texts of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.torchscript import numbers, operators
from infuse.frontends.torchscript.operators import World
from infuse.frontends.torchscript.registry import primitive
from infuse.frontends.torchscript.tensors import tensor
from infuse.frontends.torchscript.values import Cell, Dict, List, Stacked, Tensor, Undecided
from infuse.ir.graph import Value
from infuse.tracing.calls import words

_LONGEST: Final = 1 << 16
"""Elements that a list of a program may have."""


def _bounded(items: Any) -> Any:
    if len(items) > _LONGEST:
        raise ModelFileError(f"a list or text of the program has {len(items)} elements")
    return items


def of_lists(world: World, name: str, arguments: Sequence[Any]) -> Any:
    """Operators of Python on lists, tuples and texts."""
    a, *more = arguments
    b = more[0] if more else None
    if name in ("eq", "ne") and isinstance(b, (list, tuple, str)):
        return _equal(world, a, b, name)
    if name == "add" and type(a) is type(b):
        return _bounded(List([*a, *more[0]]) if isinstance(a, list) else a + more[0])
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
    words("""capitalize count endswith find isalpha isdigit join lower lstrip replace rfind
        rstrip split startswith strip upper""")
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
            if len(x) == 1 or (key < 0 and isinstance(x[-1], Stacked)):
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
    _bounded(items)
    return items


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


primitive("keys")(lambda world, items: List(items))
primitive("items")(lambda world, items: List(items.items()))
primitive("dict")(lambda world, items=(): Dict(dict(items)))
primitive("ord")(lambda world, letter: ord(letter))


@primitive("values")
def values(world: World, items: Dict) -> List:
    """The values of a dictionary."""
    return List(items.values())


@primitive("get")
def get(world: World, items: Dict, key: Any, default: Any = None) -> Any:
    """The value under a key, or another."""
    return items.get(key, default)


@primitive("update")
def update(world: World, items: Dict, more: Any) -> None:
    """More values under keys."""
    world.touch(items)
    items.update(more)


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
