"""Graphs that together call what models call: the samples of all operators in all types that they
take, and what has kernels of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import onnx.parser

import infuse
from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops import REGISTRY
from infuse.ops.core.base import Elementwise
from infuse.testing.blocks import Block
from infuse.testing.samples import Row, is_constant, results, rows, type_of

_FLOATS: Final = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
_INTEGERS: Final = (
    *(dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.bool_),
    *(dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64),
)
_TYPES: Final = (*_FLOATS, *_INTEGERS)
_PLACES: Final = (dtypes.int64, dtypes.int32)
_QUANTIZED: Final = (dtypes.uint8, dtypes.int8)


def operator_graphs() -> Iterator[Graph]:
    """A graph of one node for every sample of every operator; its inputs being constants or not,
    with one output and with all. Of samples that differ in more than numbers also in all types that
    the operator takes. Then conversions, branches and loops.
    """
    for op in REGISTRY.values():
        seen = set[Any]()
        for row in rows(op, np.random.default_rng(0)):
            try:
                counts = {1, len(results(row))}
            except UnsupportedOperatorError:
                continue  # it needs a package of texts or images, which have no native code
            yield from _variants(row, counts)
            kind = _kind_of(row)
            if kind in seen:
                continue
            seen.add(kind)
            for retyped in _retyped(row):
                with suppress(InfuseError, TypeError, ValueError, IndexError):
                    yield from list(_variants(retyped, counts))
    yield from _conversions()
    yield from _convolutions()
    yield from _chains()
    yield from _recurrent()
    yield from _masked()
    for text in _CONTROL:
        yield infuse.load(onnx.parser.parse_model(text))


def _kind_of(row: Row) -> tuple[Any, ...]:
    """What samples that differ in numbers alone have in common."""
    attributes = row.op.attributes().items()
    words = tuple((name, value) for name, value in attributes if _is_word(value))
    if row.op.domain:
        words += tuple((name, len(value)) for name, value in attributes if isinstance(value, tuple))
    return words, tuple(x.dtype.name if isinstance(x, np.ndarray) else type(x) for x in row.inputs)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and value in (0, 1))


def _retyped(row: Row) -> Iterator[Row]:
    """The row with other types: inputs of one type become inputs of one type, those of the first
    input's of any, others of a similar one.
    """
    arrays = [x for x in row.inputs if isinstance(x, np.ndarray)]
    own = dict.fromkeys(dtypes.by_numpy(x.dtype) for x in arrays)
    if not own or next(iter(own)) not in _TYPES:
        return
    choices = [_similar(dtype) if i else _TYPES for i, dtype in enumerate(own)]
    for types in itertools.product(*choices):
        to = dict(zip(own, types))
        if types != tuple(own):
            inputs = tuple(_as_type(x, to) if isinstance(x, np.ndarray) else x for x in row.inputs)
            yield Row(row.op, inputs, row.fixed)


def _similar(dtype: DType) -> Sequence[DType]:
    """Types that an input may have in place of another: floats, numbers of elements and places,
    quantized numbers.
    """
    return next((types for types in (_FLOATS, _PLACES, _QUANTIZED) if dtype in types), (dtype,))


def _as_type(x: np.ndarray[Any, Any], to: Mapping[DType, DType]) -> np.ndarray[Any, Any]:
    """An array as one of the type that its own becomes; not negative, as some types are not."""
    dtype = dtypes.by_numpy(x.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(x).astype(to[dtype].numpy) if dtype in to else x


def _conversions() -> Iterator[Graph]:
    """Conversions from each type to each, powers of each type with exponents of each, and divisions
    of integers by a constant.
    """
    for source, target in itertools.permutations(dtypes.ALL, 2):
        block = Block(f"{source}_{target}", (3,), source)
        with suppress(InfuseError):
            yield block.end(block.add("Cast", block.input, to=target))
    for source, target in itertools.product(_TYPES, repeat=2):
        block = Block(f"power_{source}_{target}", (3,), source)
        with suppress(InfuseError):
            yield block.end(block.add("Pow", block.input, np.array(3, target.numpy)))
    for dtype in _INTEGERS:
        for kind, how in (("Div", {}), ("Mod", {"fmod": 0}), ("Mod", {"fmod": 1})):
            block = Block(f"{kind}_{dtype}", (3,), dtype)
            with suppress(InfuseError):
                yield block.end(block.add(kind, block.input, np.array(3, dtype.numpy), **how))


_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
_CONTROL: Final = (
    f"""{_HEAD} branches (bool c, float[n, m] x) => (y) {{
      y = If (c) <then_branch = t () => (a) {{ a = Concat<axis = 0>(x, x) }},
                  else_branch = e () => (b) {{ b = Identity(x) }}>
    }}""",
    f"""{_HEAD} loop (int64 most, bool c, float[k] x) => (y, z) {{
      y, z = Loop (most, c, x) <body = b (int64 i, bool go, float[k] s) => (o, r, p) {{
        o = Identity(go)  r = Concat<axis = 0>(s, s)  p = ReduceSum(s)
      }}>
    }}""",
    f"""{_HEAD} scan (float[k] s, float[n, k] x) => (y, z) {{
      y, z = Scan <num_scan_inputs = 1, body = b (float[k] a, float[k] v) => (o, p) {{
        o = Add(a, v)  p = Neg(o)
      }}> (s, x)
    }}""",
)
"""What the memory of branches and loops is found by, whatever they compute."""


def _variants(row: Row, counts: set[int]) -> Iterator[Graph]:
    free = (False,) * len(row.inputs)
    held = tuple(is_constant(row, i) for i in range(len(row.inputs)))
    for constants in dict.fromkeys((free,) if isinstance(row.op, Elementwise) else (held, free)):
        for outputs in sorted(counts):
            yield _graph_of(row, constants, outputs)


def _graph_of(row: Row, constants: tuple[bool, ...], outputs: int) -> Graph:
    """A graph of this row, with these inputs as constants."""
    graph = Graph(row.op.name)
    values: list[Value | None] = [
        None if x is None else constant(x) if held else graph.add_input(f"x{number}", type_of(x))
        for number, (x, held) in enumerate(zip(row.inputs, constants))
    ]
    made = [Value(TensorType(dtypes.float32, None), f"y{i}") for i in range(outputs)]
    node = graph.add_node(Node(row.op, values, made, name=row.op.name))
    node.op.infer_node(node)
    for value in made:
        graph.add_output(value)
    return graph


_STEPS: Final = (1, 2)
_DEPTHWISE: Final = (3, 5, 7)
"""Windows of depthwise convolutions that have kernels of their own."""
_LARGE: Final = (256, 64)
"""Channels and sides of images that do not stay in a cache from one kernel to the next."""


def _convolutions() -> Iterator[Graph]:
    """Convolutions of all forms: of few channels, by tiles, in groups, of each channel alone."""
    for kernel, stride in itertools.product((1, 3, 5, 7), _STEPS):
        for channels, group in ((3, 1), (32, 1), (32, 4), (32, 32)):
            block = Block("convolution", (1, channels, 30, 30))
            yield block.end(block.conv(block.input, 32, kernel, stride, group))
    for multiplier in range(1, 6):
        block = Block("multiplied", (1, 8, 30, 30))
        yield block.end(block.conv(block.input, 8 * multiplier, 4, 1, 8))


def _chains() -> Iterator[Graph]:
    """Convolutions whose kernels compute what they read, and means of what they make."""
    channels, side = _LARGE
    for kernel, stride in itertools.product(_DEPTHWISE, _STEPS):
        for expands, projects in itertools.product((False, True), repeat=2):
            for pools in (False,) if projects else (False, True):
                block = Block("chain", (1, 16 if expands else channels, side, side))
                wide = block.conv(block.input, channels) if expands else block.input
                moved = block.conv(wide, channels, kernel, stride, channels)
                last = block.conv(moved, 16) if projects else moved
                pooled = [block.add("GlobalAveragePool", moved)] if pools else []
                yield block.end(last, *pooled)


def _recurrent() -> Iterator[Graph]:
    """Recurrent layers of one vector of hidden units and of several, with the usual functions and
    with others.
    """
    kinds: dict[str, tuple[int, int, dict[str, Any]]] = {
        "RNN": (1, 1, {}),
        "GRU": (3, 2, {}),
        "GRU linear": (3, 2, {"linear_before_reset": 1}),
        "LSTM": (4, 3, {}),
        "LSTM coupled": (4, 3, {"input_forget": 1}),
    }
    widths, directions = (1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64), ("forward", "bidirectional")
    for (name, (gates, count, how)), hidden, dtype, direction in itertools.product(
        kinds.items(), widths, _FLOATS[:2], directions
    ):
        both = len(directions) if direction == directions[1] else 1
        usual, one = (), ("Relu",) * count
        for functions in (usual, one * both, *([one + ("Tanh",) * count] if both > 1 else ())):
            weights = [np.full((both, gates * hidden, k), 0.1, dtype.numpy) for k in (3, hidden)]
            bias = np.full((both, 2 * gates * hidden), 0.1, dtype.numpy)
            peepholes = np.full((both, 3 * hidden), 0.1, dtype.numpy)
            more = (bias, None, None, None, peepholes) if name.startswith("LSTM") else (bias,)
            attributes = {"hidden_size": hidden, "direction": direction, **how}
            if functions:
                attributes["activations"] = functions
            for also in ((), more):
                kind, operands = name.split()[0], (*weights, *also)
                made = Block(name, (5, 2, 3), dtype)
                yield made.end(made.add(kind, made.input, *operands, **attributes))


def _masked() -> Iterator[Graph]:
    """Attention with each kind of mask, with a window or not, capped or not."""
    shape = (1, 4, 8, 32)
    for mask, left, cap in itertools.product((None, *_FLOATS[:1], dtypes.bool_), (-1, 2), (0, 5)):
        block = Block("attention", shape)
        operands = [block.input] * 3
        if mask is not None:
            operands.append(block.graph.add_input("mask", TensorType(mask, (1, 1, 8, 8))))
        how = {"left_window_size": left, "softcap": float(cap)}
        yield block.end(block.add("Attention", *operands, **how))
