"""Other graphs of the same operators: types, sizes, constants and attributes changed at random.

A change alters a graph in place and tells whether it did; whether the operators accept the outcome
is for the caller to see. What cannot be told apart by names of operators and inputs is not known
here: changes fit any pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op
from infuse.ops.core.samples import sample_rows
from infuse.ops.core.signatures import signature

Change = Callable[[Graph, np.random.Generator], bool]
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float64)
OTHERS = (dtypes.int32, dtypes.int64, dtypes.int8, dtypes.uint8, dtypes.bool_)
SIZES = (0, 1, 1, 2, 3, 5)
NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, 1e30, np.inf, -np.inf, np.nan)
COUNTED = ("axis", "axes", "batch_axis", "time_axis")
"""Attributes and inputs that count axes, from either end."""


def change_type(graph: Graph, rng: np.random.Generator) -> bool:
    """Floats of another width, or other elements in place of floats."""
    return _retyped(graph, _pick(rng, FLOATS if rng.random() < 0.6 else OTHERS))


def _retyped(graph: Graph, target: DType) -> bool:
    source = next((v.dtype for v in _operands(graph) if v.dtype.is_float), dtypes.int64)
    values = [
        v for v in _operands(graph) if v.dtype == source and (source.is_float or not v.is_const)
    ]
    for value in values:
        _set(value, value.shape, target)
    return bool(len(values) > 0 and source != target)


def change_one_type(graph: Graph, rng: np.random.Generator) -> bool:
    """One operand of another type than the others, which some operators allow."""
    values = [v for v in _operands(graph) if not _names_sizes(v)]
    if not values:
        return False
    value, target = _pick(rng, values), _pick(rng, (dtypes.float32, *FLOATS, *OTHERS))
    before = value.dtype
    _set(value, value.shape, target)
    return bool(before != target)


def scatter_constants(graph: Graph, rng: np.random.Generator) -> bool:
    """Constants whose elements do not lie side by side in memory."""
    values = [v for v in graph.constants() if v.const is not None and v.const.ndim > 1]
    for value in values:
        value.const = np.asfortranarray(_data(value))
    return len(values) > 0


def change_size(graph: Graph, rng: np.random.Generator) -> bool:
    """One size replaced by another wherever it stands, perhaps also among numbers that may name
    sizes.
    """
    present = sorted({d for v in _operands(graph) for d in v.shape if isinstance(d, int)})
    if not present:
        return False
    old, new = _pick(rng, present), _pick(rng, SIZES)
    for value in _operands(graph):
        if old in value.shape and not _names_sizes(value):
            _set(value, [new if d == old else d for d in value.shape])
        elif rng.random() < 0.7 and _names_sizes(value):
            _put(value, np.where(_data(value) == old, new, _data(value)))
    return bool(old != new)


def make_narrow(graph: Graph, rng: np.random.Generator) -> bool:
    """Size one along one axis of one operand, which is broadcast then."""
    wide = [
        (v, i)
        for v in _operands(graph)
        for i, d in enumerate(v.shape)
        if d != 1 and not _names_sizes(v)
    ]
    if not wide:
        return False
    value, axis = _pick(rng, wide)
    _set(value, [1 if i == axis else d for i, d in enumerate(value.shape)])
    return True


def change_rank(graph: Graph, rng: np.random.Generator) -> bool:
    """One operand, or each, with an axis more or less in front."""
    values = [v for v in _operands(graph) if not _names_sizes(v)]
    if not values:
        return False
    chosen = values if rng.random() < 0.4 else [_pick(rng, values)]
    size = _pick(rng, (None, 1, 1, 2))
    for value in chosen:
        _set(value, value.shape[1:] if size is None else (size, *value.shape))
    return True


def count_from_other_end(graph: Graph, rng: np.random.Generator) -> bool:
    """Axes counted from the back in place of the front, or the other way round."""
    changed = False
    for node in graph.nodes:
        changed |= _recount_attributes(node) | _recount_inputs(node, rng)
    return changed


def _recount_attributes(node: Node) -> bool:
    rank = _rank_counted(node)
    assert isinstance(node.op, Op)
    attributes = {
        k: v
        for k, v in node.op.attributes().items()
        if k in COUNTED and v is not None and rank is not None
    }
    if not attributes or not rank:
        return False
    node.op = node.op.replace(**{k: _other_end(v, rank) for k, v in attributes.items()})
    return True


def _recount_inputs(node: Node, rng: np.random.Generator) -> bool:
    names = signature(type(node.op)).names
    rank, changed = _rank_counted(node), False
    for index, (name, value) in enumerate(zip(names, node.inputs)):
        if (
            name in COUNTED
            and value is not None
            and value.const is not None
            and value.const.size
            and rank
        ):
            flipped = np.where(
                rng.random(value.const.shape) < 0.7, _other_end(value.const, rank), value.const
            )
            node.set_operand(index, constant(flipped, value.name))
            changed = True
    return changed


def _rank_counted(node: Node) -> int | None:
    """The rank that the axes of a node lie in."""
    value = node.output if node.kind == "Unsqueeze" else node.inputs[0]
    return None if value is None or not isinstance(value.type, TensorType) else value.tensor.rank


def _other_end(axis: Any, rank: int) -> Any:
    if isinstance(axis, tuple):
        return tuple(_other_end(a, rank) for a in axis)
    return (
        np.where(axis < 0, axis + rank, axis - rank)
        if isinstance(axis, np.ndarray)
        else _flip(axis, rank)
    )


def _flip(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis - rank


def change_attributes(graph: Graph, rng: np.random.Generator) -> bool:
    """Attributes of one node as some sample of its operator has them, or a switch turned."""
    node = _pick(rng, graph.nodes)
    op = node.op
    assert isinstance(op, Op)
    attributes = dict(op.attributes())
    if not attributes:
        return False
    switches = [k for k, v in attributes.items() if type(v) is int and v in (0, 1)]
    samples = [s.attributes for s in sample_rows(type(op)) if s.attributes]
    if switches and (not samples or rng.random() < 0.5):
        name = _pick(rng, switches)
        change = {name: 1 - attributes[name]}
    elif samples:
        change = dict(_pick(rng, samples))
    else:
        return False
    node.op = op.replace(**change)
    return bool(node.op != op)


def change_integers(graph: Graph, rng: np.random.Generator) -> bool:
    """One element of a list of axes, sizes or places replaced."""
    lists = [
        v
        for v in _operands(graph)
        if v.is_const and v.dtype.is_integer and v.const is not None and v.const.size
    ]
    if not lists:
        return False
    value = _pick(rng, lists)
    array = _data(value).astype(np.int64)
    array.reshape(-1)[int(rng.integers(array.size))] = _pick(rng, (0, -1, 1, 2, 3, 4, -2))
    _put(value, array)
    return True


def change_numbers(graph: Graph, rng: np.random.Generator) -> bool:
    """Some or all elements of a constant of floats replaced by one that is special, or others."""
    values = [v for v in _operands(graph) if v.is_const and v.dtype.is_float and v.tensor.size != 0]
    if not values:
        return False
    value = _pick(rng, values)
    array = _data(value).copy()
    flat = array.reshape(-1)
    chosen = slice(None) if rng.random() < 0.5 else int(rng.integers(flat.size))
    drawn = (
        rng.uniform(-2, 2, flat.size)
        if rng.random() < 0.3
        else np.full(flat.size, _pick(rng, NUMBERS))
    )
    with np.errstate(all="ignore"):
        flat[chosen] = drawn.astype(array.dtype)[chosen]
    _put(value, array)
    return True


def join_operands(graph: Graph, rng: np.random.Generator) -> bool:
    """One input in place of two of one type."""
    pairs = [(a, b) for a in graph.inputs for b in graph.inputs if a is not b and a.type == b.type]
    if not pairs:
        return False
    first, gone = _pick(rng, pairs)
    gone.replace_by(first)
    graph.inputs.remove(gone)
    return True


def fix_operand(graph: Graph, rng: np.random.Generator) -> bool:
    """A constant in place of an input."""
    if len(graph.inputs) < 2:
        return False
    value = _pick(rng, graph.inputs)
    graph.inputs.remove(value)
    value.replace_by(constant(random_array(value.tensor, rng), value.name))
    return True


def free_operand(graph: Graph, rng: np.random.Generator) -> bool:
    """An input in place of a constant."""
    values = [v for v in _operands(graph) if v.is_const]
    if not values:
        return False
    value = _pick(rng, values)
    value.replace_by(graph.add_input(f"free{len(graph.inputs)}", value.type))
    return True


def drop_operand(graph: Graph, rng: np.random.Generator) -> bool:
    """A node without its last operand."""
    node = _pick(rng, graph.nodes)
    if len(node.inputs) < 2:
        return False
    node.set_inputs(node.inputs[:-1])
    return True


CHANGES: tuple[Change, ...] = (
    change_type,
    change_type,
    change_size,
    change_size,
    make_narrow,
    make_narrow,
    change_rank,
    count_from_other_end,
    change_attributes,
    change_integers,
    change_numbers,
    join_operands,
    fix_operand,
    free_operand,
    drop_operand,
    change_one_type,
    scatter_constants,
)


# -- symbolic sizes --------------------------------------------------------------------------------


def make_symbolic(graph: Graph, rng: np.random.Generator) -> bool:
    """Symbols in place of sizes of inputs: one for all that are alike, one for each, or only
    some.
    """
    alike, share = rng.random() < 0.6, _pick(rng, (1.0, 1.0, 0.5, 0.25))
    chosen: dict[Any, Dim] = {}
    changed = False
    for number, value in enumerate(graph.inputs):
        sizes: list[Dim] = []
        for axis, size in enumerate(value.shape):
            key = size if alike else (number, axis)
            if key not in chosen:
                chosen[key] = dims.symbol(f"s{len(chosen)}") if rng.random() < share else size
            sizes.append(chosen[key])
            changed |= chosen[key] != size
        value.type = TensorType(value.dtype, tuple(sizes))
    return changed


def forget_rank(graph: Graph, rng: np.random.Generator) -> bool:
    """An input of which not even the rank is known."""
    if not graph.inputs:
        return False
    value = _pick(rng, graph.inputs)
    value.type = TensorType(value.dtype, None)
    return True


def bindings(
    names: Sequence[str], base: dict[str, int], rng: np.random.Generator
) -> Iterator[dict[str, int]]:
    """Values for symbols: those of the graph before, ones for all or for one, and others; none is
    zero, since a Reshape with a -1 beside a size of zero says nothing.
    """
    base = {name: size or 2 for name, size in base.items()}
    yield base
    yield dict.fromkeys(names, 1)
    if len(names) > 1:
        yield {**base, _pick(rng, names): 1}
    yield {name: size + 1 for name, size in base.items()}
    yield {name: int(rng.integers(1, 6)) for name in names}


# -- operands --------------------------------------------------------------------------------------


def random_array(type: TensorType, rng: np.random.Generator) -> Array:
    """Random elements; floats lie between -3 and 3, integers between -4 and 4 or, to serve as
    places, 0 and 3.
    """
    shape = [int(d) if isinstance(d, int) else 4 for d in type.shape or ()]
    if type.dtype.is_bool:
        return np.asarray(rng.random(shape) < 0.5)
    if type.dtype.is_integer:
        low = -4 if type.dtype.is_signed and rng.random() < 0.5 else 0
        return np.asarray(rng.integers(low, 4, shape)).astype(type.dtype.numpy)
    return np.asarray(rng.uniform(-3, 3, shape)).astype(type.dtype.numpy)


def _operands(graph: Graph) -> list[Value]:
    """Inputs and constants of fixed shape, each once."""
    values = [*graph.inputs, *graph.constants()]
    return [v for v in values if isinstance(v.type, TensorType) and v.tensor.is_static]


def _names_sizes(value: Value) -> bool:
    """Whether a constant may list axes, sizes or places."""
    return value.is_const and value.dtype.is_integer and value.rank <= 1


def _data(value: Value) -> Array:
    assert value.const is not None
    return value.const


def _put(value: Value, array: Array) -> None:
    value.replace_by(constant(array.astype(value.dtype.numpy), value.name))


def _set(value: Value, shape: Sequence[Dim], dtype: DType | None = None) -> None:
    """Another shape or type for an operand, the elements of a constant repeated or cut."""
    dtype, sizes = dtype or value.dtype, tuple(int(d) for d in shape if isinstance(d, int))
    if value.const is None:
        value.type, value.content = TensorType(dtype, sizes), None
        return
    with np.errstate(all="ignore"):
        array = value.const.astype(np.float64).round() if not dtype.is_float else value.const
        array = np.resize(array, sizes) if value.const.size else np.ones(sizes)
        value.replace_by(constant(array.astype(dtype.numpy), value.name))


def _pick(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]
