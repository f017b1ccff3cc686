"""Types of few bits in native code: every element converted both ways, and moved, against ml_dtypes
and ONNX.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx.numpy_helper
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.dtypes import DType
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.conversion import Cast, convert
from infuse.ops.core.base import Op, infer_node
from infuse.options import CompileOptions

SMALL = tuple(
    d
    for d in dtypes.ALL
    if d.bits <= 8 and d.kind in "fiu" and d not in (dtypes.int8, dtypes.uint8)
)
FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int64)
ROUNDINGS = ("up", "down", "nearest")


def elements(dtype: DType) -> Array:
    """All elements of a small type; many of others: numbers that fall on, just above and just below
    16 bits.
    """
    if dtype.is_bool:
        return np.array([True, False])
    if dtype.bits <= 8:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_integer:
        return np.arange(-300, 300).astype(dtype.numpy)
    upper = np.arange(0, 1 << 16, 13, dtype=np.uint32) << 16
    numbers = np.concatenate([upper + low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(
        np.float32
    )
    with np.errstate(all="ignore"):
        found = numbers.astype(dtype.numpy)
        return np.concatenate([found, found * (1 + 2.0**-40)]) if dtype == dtypes.float64 else found


def casts(source: DType, target: DType) -> Iterator[Cast]:
    """The forms of a cast."""
    if target == dtypes.float8e8m0:
        yield from (Cast(target, saturate=s, round_mode=mode) for s in (0, 1) for mode in ROUNDINGS)
    elif target.is_float and target.bits == 8:
        yield from (Cast(target, saturate=s) for s in (0, 1))
    else:
        yield Cast(target)


def computed(graph: Graph, feeds: Sequence[Array]) -> list[Array]:
    with compile_graph(graph, CompileOptions(threads=1)) as model:
        return list(model.run(dict(zip([v.name for v in graph.inputs], feeds))).values())


def same_bits(a: Array, b: Array) -> bool:
    """Whether elements are equal bit for bit, as far as their type has bits; all NaN of a wide
    float are equal.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    dtype = dtypes.by_numpy(a.dtype)
    if dtype.bits > 8 and dtype.is_float:
        return bool(np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True))
    mask = (1 << dtype.bits) - 1 if dtype.bits < 8 else -1
    return bool(np.array_equal(a.view(f"i{a.itemsize}") & mask, b.view(f"i{b.itemsize}") & mask))


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_casts_from_and_to_every_type(small: DType) -> None:
    others = [d for d in (*SMALL, *FLOATS, *INTEGERS, dtypes.bool_) if d != small]
    graph = Graph("casts")
    feeds: list[Array] = []
    wanted: list[tuple[DType, Cast, Array]] = []
    for source, target in [(small, d) for d in others] + [
        (d, small) for d in others if d not in SMALL
    ]:
        x = elements(source)
        if target.is_integer and source.is_float:
            with np.errstate(all="ignore"):
                x = x[np.abs(x.astype(np.float64)) < 2**31]
        given = graph.add_input(f"x{len(feeds)}", TensorType(source, x.shape))
        feeds.append(x)
        for op in casts(source, target):
            node = graph.add_node(
                Node(op, [given], [Value(TensorType(target, x.shape))], name=f"n{len(wanted)}")
            )
            graph.add_output(node.output, f"y{len(wanted)}")
            with np.errstate(all="ignore"):
                wanted.append((source, op, convert(x, target, bool(op.saturate), op.round_mode)))
    for found, (source, op, expected) in zip(computed(graph, feeds), wanted, strict=True):
        assert same_bits(found, expected), f"{source} to {op}"


def test_powers_of_two_are_those_of_onnx() -> None:
    x = np.abs(elements(dtypes.float32))
    x = x[(x >= 2.0**-126) & (x < 2.0**127)]
    for mode, saturate in itertools.product(ROUNDINGS, (False, True)):
        expected = onnx.numpy_helper.to_float8e8m0(x, saturate, mode)
        assert same_bits(convert(x, dtypes.float8e8m0, saturate, mode), expected), mode


def test_powers_of_two_stop_or_become_nan() -> None:
    x = np.array([0, 2.0**-140, 2.0**-127, 1.5 * 2.0**-127, 3e38, np.inf, np.nan], np.float32)
    codes = {
        (True, "up"): [0, 0, 0, 1, 254, 254, 255],
        (True, "down"): [0, 0, 0, 0, 254, 254, 255],
        (True, "nearest"): [0, 0, 0, 1, 254, 254, 255],
        (False, "nearest"): [255, 255, 0, 1, 255, 255, 255],
    }
    for (saturate, mode), expected in codes.items():
        assert convert(x, dtypes.float8e8m0, saturate, mode).view(np.uint8).tolist() == expected, (
            saturate,
            mode,
        )


def moves(x: Value, dtype: DType) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Operators that only move elements of a 4 × 4 matrix: kind, inputs, attributes."""
    yield "Identity", [x], {}
    yield "Reshape", [x, np.array([2, -1])], {}
    yield "Transpose", [x], {"perm": (1, 0)}
    yield "Slice", [x, np.array([3, 0]), np.array([-9, 3]), np.array([0, 1]), np.array([-1, 2])], {}
    yield "Concat", [x, x], {"axis": 1}
    yield "Expand", [x, np.array([2, 4, 4])], {}
    yield "Tile", [x, np.array([2, 1])], {}
    yield "Gather", [x, np.array([3, 0, -2])], {"axis": 1}
    yield "GatherElements", [x, np.array([[0, 1, 2, 3], [3, 2, 1, 0]])], {"axis": 0}
    yield "ScatterND", [x, np.array([[1], [3]]), constant(np.ones((2, 4)).astype(dtype.numpy))], {}
    yield "Pad", [x, np.array([1, 0, 0, 2]), constant(np.ones(()).astype(dtype.numpy))], {}
    yield "Where", [np.eye(4, dtype=bool), x, constant(np.ones(()).astype(dtype.numpy))], {}
    yield "Flatten", [x], {"axis": 0}
    yield "Unsqueeze", [x, np.array([1])], {}


def test_elements_are_moved() -> None:
    graph = Graph("moves")
    feeds, expected = [], []
    for small in SMALL:
        codes = np.arange(16) * (1 << small.bits) // 16
        feeds.append(codes.astype(np.uint8).view(small.numpy).reshape(4, 4))
        given = graph.add_input(small.name, TensorType(small, (4, 4)))
        for kind, inputs, attributes in moves(given, small):
            values = [constant(v) if isinstance(v, np.ndarray) else v for v in inputs]
            name = f"{kind} of {small}"
            node = graph.add_node(
                Node(make_operator("", kind, attributes), values, [Value(UNKNOWN)], name=name)
            )
            infer_node(node)
            graph.add_output(node.output, name)
            assert isinstance(node.op, Op)
            expected.append(node.op.eval(*(feeds[-1] if v is given else v.const for v in values)))
    for found, name, wanted in zip(
        computed(graph, feeds), graph.output_names, expected, strict=True
    ):
        assert same_bits(found, np.ascontiguousarray(wanted)), name
