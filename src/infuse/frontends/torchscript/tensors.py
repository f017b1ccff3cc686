"""What programs ask of tensors and numbers, and how they make tensors of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.torchscript import numbers, operators
from infuse.frontends.torchscript.operators import World, assign, link
from infuse.frontends.torchscript.registry import PRIMITIVES, Primitive, primitive
from infuse.frontends.torchscript.values import Cell, Device, List, Stacked, Tensor
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TABLE, axis_of
from infuse.tracing.aten.element_types import dtype_of, number_of


@primitive("size")
def size(world: World, x: Tensor, dim: Any = None) -> Any:
    """All sizes of a tensor, or one."""
    value = x.read(world.g)
    if dim is None:
        return List(numbers.settled(n) for n in world.g.sizes_of(value))
    return numbers.settled(world.g.size_of(value, axis_of(dim, value.rank)))


primitive("shape")(size)
primitive("dtype", "ops.prim.dtype")(lambda world, x: number_of(x.read(world.g).dtype))
primitive("device")(lambda world, x, *more: Device(x if isinstance(x, str) else "cpu"))
primitive("is_floating_point")(lambda world, x: bool(x.read(world.g).dtype.is_float))
primitive("data", "cpu", "cuda")(lambda world, x, *more: x)
primitive("clone")(lambda world, x, **options: Tensor(Cell(x.read(world.g))))
primitive("__is__")(lambda world, a, b: a is b)
primitive("__isnot__")(lambda world, a, b: a is not b)


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


@primitive("type")
def type_(world: World, thing: Any) -> str:
    """The kind of a device."""
    if not isinstance(thing, Device):
        raise UnsupportedOperatorError("type() of a tensor is not supported")
    return thing.kind


@primitive(
    "layout", "get_device", "is_cuda", "is_quantized", "is_sparse", "is_complex", "is_mkldnn"
)
def no(world: World, *arguments: Any) -> Any:
    """What holds for no tensor here."""
    return 0


@primitive("is_autocast_enabled", "is_autocast_cpu_enabled", "is_meta", "is_nested", "is_training")
def never(world: World, *arguments: Any) -> bool:
    """What does not hold while a trained model runs."""
    return False


@primitive("is_contiguous", "is_scripting", "is_grad_enabled", "requires_grad")
def always(world: World, *arguments: Any, **options: Any) -> bool:
    """What holds for every tensor here; with gradients, modules take no shortcut that computes the
    same by an operator of its own.
    """
    return True


@primitive("set_grad_enabled", "warn", "manual_seed", "_set_grad_enabled", "log_api_usage_once")
def nothing(world: World, *arguments: Any, **options: Any) -> None:
    """What has no effect on results."""


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
            raise UnsupportedOperatorError("a tensor is made of what is not a number")
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


@primitive("squeeze")
def squeeze(world: World, x: Tensor, *dims: Any) -> Any:
    """Refused for axes of which only a run knows whether they have size one."""
    value = x.read(world.g)
    listed = dims[0] if dims and isinstance(dims[0], list) else dims
    axes = [axis_of(d, value.rank) for d in listed] if dims else range(value.rank)
    unclear = [value.shape[a] for a in axes if value.rank and not isinstance(value.shape[a], int)]
    if unclear:
        raise UnsupportedOperatorError(
            f"whether an axis of size {unclear[0]} is left out depends on that size",
            hint="give the size as a number in inputs=",
        )
    return NotImplemented


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


@primitive("__not__")
def not_(world: World, a: Any) -> Any:
    """Whether a condition does not hold."""
    return numbers.calculate(world.g, "__not__", [numbers.as_bool(world.g, a)])
