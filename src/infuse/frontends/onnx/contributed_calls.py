"""ONNX Runtime's own operators whose meaning in ONNX's depends on the call: its attributes, types
and ranks.

A maker gives the text of a function (inputs, outputs and body) for one call, or None where it knows
none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.ir.types import TensorType

Inputs = Sequence[Value | None]
Maker = Callable[[Mapping[str, Any], Inputs], str | None]

FP4: Final = (
    0.0,
    5.208333333e-03,
    0.66666667,
    1.0,
    0.33333333,
    0.5,
    0.16666667,
    0.25,
    -0.0,
    -5.208333333e-03,
    -0.66666667,
    -1.0,
    -0.33333333,
    -0.5,
    -0.16666667,
    -0.25,
)
NF4: Final = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""What the 16 codes of MatMulBnb4's two types stand for."""


def _tensor(inputs: Inputs, index: int) -> TensorType | None:
    """The type of an input that is a tensor of known rank."""
    value = inputs[index] if index < len(inputs) else None
    return (
        value.type
        if value is not None and isinstance(value.type, TensorType) and value.type.shape
        else None
    )


def _size(type: TensorType | None, axis: int) -> int | None:
    size = (
        type.shape[axis] if type is not None and type.shape and len(type.shape) >= -axis else None
    )
    return size if isinstance(size, int) else None


def unpacked(name: str, bits: int, result: str, last: str = "last") -> str:
    """Bytes as numbers of few bits, lowest first, along the last axis, which grows; `last` names a
    list of -1.
    """
    if bits == 8:
        return f"{result} = Identity ({name})"
    parts = range(0, 8, bits)
    lines = [f"{name}_m = Constant <value = uint8 {{{(1 << bits) - 1}}}> ()"]
    for shift in parts:
        lines += [
            f"{name}_n{shift} = Constant <value = uint8 {{{shift}}}> ()",
            f'{name}_s{shift} = BitShift <direction = "RIGHT"> ({name}, {name}_n{shift})',
            f"{name}_p{shift} = BitwiseAnd ({name}_s{shift}, {name}_m)",
            f"{name}_u{shift} = Unsqueeze ({name}_p{shift}, {last})",
        ]
    pieces = ", ".join(f"{name}_u{shift}" for shift in parts)
    return "\n".join(
        [
            *lines,
            f"{name}_all = Concat <axis = -1> ({pieces})",
            f"{name}_front = Shape <start = 0, end = -1> ({name})",
            f"{name}_flat = Concat <axis = 0> ({name}_front, {last})",
            f"{result} = Reshape ({name}_all, {name}_flat)",
        ]
    )


def gather_block_quantized(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Rows of a table in few bits, dequantized after they are gathered."""
    data, scales = _tensor(inputs, 0), _tensor(inputs, 2)
    bits, block = attributes.get("bits", 4), attributes.get("block_size", 128)
    if data is None or data.shape is None or scales is None or bits not in (2, 4, 8) or block < 1:
        return None
    rank, packed = len(data.shape), data.dtype == dtypes.uint8
    at, along = attributes.get("gather_axis", 0) % rank, attributes.get("quantize_axis", 1) % rank
    if data.dtype not in (dtypes.uint8, dtypes.int4, dtypes.uint4) or (
        packed and (at or not along)
    ):
        return None
    shifted = len(inputs) > 3 and inputs[3] is not None
    axis = along if along <= at else along - rank
    if at == along:
        zero = ", zeros" if shifted else ""
        return f"""(data, indices, scales, zeros) => (y) {{
            plain = DequantizeLinear <axis = {along}, block_size = {block}> (data, scales{zero})
            y = Gather <axis = {at}> (plain, indices)
        }}"""
    lines = [
        "last = Constant <value_ints = [-1]> ()",
        f"rows = Gather <axis = {at}> (data, indices)",
        f"steps = Gather <axis = {at}> (scales, indices)",
        unpacked("rows", bits if packed else 8, "codes"),
    ]
    if shifted:
        lines += [
            f"packed = Gather <axis = {at}> (zeros, indices)",
            unpacked("packed", bits if packed else 8, "many"),
        ]
        lines += [
            "from = Constant <value_ints = [0]> ()",
            "count = Shape <start = -1> (steps)",
            "zero = Slice (many, from, count, last)" if packed else "zero = Identity (many)",
        ]
    elif packed:
        lines += [
            f"middle = Constant <value = uint8 {{{1 << (bits - 1)}}}> ()",
            "shape = Shape (steps)",
            "zero = Expand (middle, shape)",
        ]
    zero = ", zero" if shifted or packed else ""
    lines.append(f"y = DequantizeLinear <axis = {axis}, block_size = {block}> (codes, steps{zero})")
    return f"(data, indices, scales, zeros) => (y) {{ {chr(10).join(lines)} }}"


def matmul_bnb4(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """A product with weights of 4 bits that stand for the 16 numbers of a table, in blocks with a
    scale each.
    """
    k, n, block = attributes["K"], attributes["N"], attributes["block_size"]
    # Without transB the runtime's own kernel for processors does not compute what its description
    # says.
    if (
        min(k, n) < 1
        or block < 2
        or block % 2
        or attributes["quant_type"] not in (0, 1)
        or not attributes.get("transB", 1)
    ):
        return None
    count = -(-n * k // 2) * 2
    blocks = -(-n * k // block)
    table = ", ".join(map(repr, NF4 if attributes["quant_type"] else FP4))
    return f"""(a, b, absmax) => (y) {{
        last = Constant <value_ints = [-1]> ()
        none = Constant <value_ints = [0]> ()
        four = Constant <value = uint8 {{4}}> ()
        mask = Constant <value = uint8 {{15}}> ()
        bytes = Reshape (b, last)
        high = BitShift <direction = "RIGHT"> (bytes, four)
        low = BitwiseAnd (bytes, mask)
        high_u = Unsqueeze (high, last)
        low_u = Unsqueeze (low, last)
        pairs = Concat <axis = 1> (high_u, low_u)
        codes = Reshape (pairs, last)
        ends = Constant <value_ints = [0, {blocks * block - count}]> ()
        padded = Pad (codes, ends)
        places = Cast <to = 6> (padded)
        table = Constant <value_floats = [{table}]> ()
        numbers = Gather (table, places)
        shape = Constant <value_ints = [{blocks}, {block}]> ()
        grouped = Reshape (numbers, shape)
        column = Constant <value_ints = [{blocks}, 1]> ()
        largest = Reshape (absmax, column)
        wide = Cast <to = 1> (largest)
        scaled = Mul (grouped, wide)
        flat = Reshape (scaled, last)
        end = Constant <value_ints = [{n * k}]> ()
        cut = Slice (flat, none, end)
        sizes = Constant <value_ints = [{n}, {k}]> ()
        exact = Reshape (cut, sizes)
        matrix = CastLike (exact, a)
        w = Transpose <perm = [1, 0]> (matrix)
        y = MatMul (a, w)
    }}"""


def _places(low: int, axis: str, size: int, count: int, nearest: bool) -> str:
    """Where the points of crops lie along an axis: `pixels` (regions, points), and whether that is
    inside.
    """
    return f"""
        {axis}_low_at = Constant <value_ints = [{low}]> ()
        {axis}_high_at = Constant <value_ints = [{low + 2}]> ()
        {axis}_low = Gather <axis = 1> (boxes, {axis}_low_at)
        {axis}_high = Gather <axis = 1> (boxes, {axis}_high_at)
        {axis}_size = Shape <start = {size}, end = {size + 1}> (x)
        {axis}_size_f = Cast <to = 1> ({axis}_size)
        {axis}_most = Sub ({axis}_size_f, one)
        {axis}_count_at = Constant <value_int = {count}> ()
        {axis}_count = Gather (crop, {axis}_count_at)
        {axis}_count_i = Cast <to = 7> ({axis}_count)
        {axis}_count_f = Cast <to = 1> ({axis}_count)
        {axis}_steps = Sub ({axis}_count_f, one)
        {axis}_least = Max ({axis}_steps, one)
        {axis}_span = Sub ({axis}_high, {axis}_low)
        {axis}_pixels = Mul ({axis}_span, {axis}_most)
        {axis}_step = Div ({axis}_pixels, {axis}_least)
        {axis}_number = Range (zero_i, {axis}_count_i, one_i)
        {axis}_number_f = Cast <to = 1> ({axis}_number)
        {axis}_far = Mul ({axis}_number_f, {axis}_step)
        {axis}_begin = Mul ({axis}_low, {axis}_most)
        {axis}_several = Add ({axis}_begin, {axis}_far)
        {axis}_both = Add ({axis}_low, {axis}_high)
        {axis}_half = Mul ({axis}_both, half)
        {axis}_single = Mul ({axis}_half, {axis}_most)
        {axis}_is_single = Less ({axis}_count_f, two)
        {axis}_at = Where ({axis}_is_single, {axis}_single, {axis}_several)
        {axis}_not_before = GreaterOrEqual ({axis}_at, zero)
        {axis}_not_behind = LessOrEqual ({axis}_at, {axis}_most)
        {axis}_inside = And ({axis}_not_before, {axis}_not_behind)
        {axis}_safe = Where ({axis}_inside, {axis}_at, zero)
        {axis}_up = Add ({axis}_safe, half)
        {axis}_exact = {f"Floor ({axis}_up)" if nearest else f"Identity ({axis}_safe)"}
        {axis}_first = Floor ({axis}_exact)
        {axis}_last = Ceil ({axis}_exact)
        {axis}_part = Sub ({axis}_exact, {axis}_first)"""


def _corner(row: str, column: str) -> str:
    """The pixels at one corner of where each sample lies."""
    name = f"{row}_{column}"
    return f"""
        {name}_y = Unsqueeze (y_{row}, behind)
        {name}_x = Unsqueeze (x_{column}, middle)
        {name}_yi = Cast <to = 7> ({name}_y)
        {name}_xi = Cast <to = 7> ({name}_x)
        {name}_at = Mul ({name}_yi, width)
        {name}_place = Add ({name}_at, {name}_xi)
        {name}_whole = Add ({name}_place, start)
        {name} = Gather (pixels, {name}_whole)"""


def crop_and_resize(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Regions of images, whose corners are parts of the image, brought to one size."""
    mode = attributes.get("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        return None
    corners = "".join(_corner(y, x) for y in ("first", "last") for x in ("first", "last"))
    return f"""(x, rois, images, crop) => (y) {{
        zero = Constant <value_float = 0.0> ()
        half = Constant <value_float = 0.5> ()
        one = Constant <value_float = 1.0> ()
        two = Constant <value_float = 2.0> ()
        zero_i = Constant <value_int = 0> ()
        one_i = Constant <value_int = 1> ()
        last = Constant <value_ints = [-1]> ()
        middle = Constant <value_ints = [1]> ()
        behind = Constant <value_ints = [2]> ()
        both = Constant <value_ints = [1, 2]> ()
        boxes = Cast <to = 1> (rois)
        {_places(0, "y", 2, 0, mode == "nearest")}
        {_places(1, "x", 3, 1, mode == "nearest")}
        moved = Transpose <perm = [0, 2, 3, 1]> (x)
        depth = Shape <start = 1, end = 2> (x)
        rows = Concat <axis = 0> (last, depth)
        pixels = Reshape (moved, rows)
        height = Shape <start = 2, end = 3> (x)
        width = Shape <start = 3, end = 4> (x)
        area = Mul (height, width)
        count = Shape <start = 0, end = 1> (x)
        count_s = Squeeze (count)
        numbers = Range (zero_i, count_s, one_i)
        offsets = Mul (numbers, area)
        chosen = Gather (offsets, images)
        start = Unsqueeze (chosen, both)
        {corners}
        right_2 = Unsqueeze (x_part, middle)
        right = Unsqueeze (right_2, last)
        down_2 = Unsqueeze (y_part, behind)
        down = Unsqueeze (down_2, last)
        upper_span = Sub (first_last, first_first)
        upper_more = Mul (upper_span, right)
        upper = Add (first_first, upper_more)
        lower_span = Sub (last_last, last_first)
        lower_more = Mul (lower_span, right)
        lower = Add (last_first, lower_more)
        between = Sub (lower, upper)
        more = Mul (between, down)
        sampled = Add (upper, more)
        y_in = Unsqueeze (y_inside, behind)
        x_in = Unsqueeze (x_inside, middle)
        inside_2 = And (y_in, x_in)
        inside = Unsqueeze (inside_2, last)
        outside = Constant <value_float = {float(attributes.get("extrapolation_value", 0.0))!r}> ()
        result = Where (inside, sampled, outside)
        y = Transpose <perm = [0, 3, 1, 2]> (result)
    }}"""


def unfold_tensor(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Windows along an axis, each as one more axis behind all."""
    x = _tensor(inputs, 0)
    size, step = attributes["size"], attributes.get("step", 1)
    if x is None or x.shape is None or size < 1 or step < 1:
        return None
    rank = len(x.shape)
    axis = attributes.get("dim", -1) % rank
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    return f"""(x) => (y) {{
        length = Shape <start = {axis}, end = {axis + 1}> (x)
        none = Constant <value_int = 0> ()
        less = Constant <value_int = {size - 1}> ()
        step = Constant <value_int = {step}> ()
        one = Constant <value_int = 1> ()
        size = Constant <value_int = {size}> ()
        behind = Constant <value_ints = [1]> ()
        total = Squeeze (length)
        limit = Sub (total, less)
        starts = Range (none, limit, step)
        column = Unsqueeze (starts, behind)
        inner = Range (none, size, one)
        places = Add (column, inner)
        windows = Gather <axis = {axis}> (x, places)
        y = Transpose <perm = {order}> (windows)
    }}"""


def murmur_hash(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """MurmurHash3 (x86, 32 bits) of each integer's bytes."""
    value = inputs[0] if inputs else None
    dtype = value.type.dtype if value is not None and isinstance(value.type, TensorType) else None
    if dtype not in (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64):
        return None
    lines = [f"h0 = Constant <value = uint32 {{{attributes.get('seed', 0) & 0xFFFFFFFF}}}> ()"]
    constants = {
        "c1": 0xCC9E2D51,
        "c2": 0x1B873593,
        "five": 5,
        "more": 0xE6546B64,
        "f1": 0x85EBCA6B,
        "f2": 0xC2B2AE35,
    }
    constants |= {"bytes": dtype.bytes} | {f"n{n}": n for n in (13, 15, 16, 17, 19)}
    lines += [
        f"{name} = Constant <value = uint32 {{{number}}}> ()" for name, number in constants.items()
    ]
    words = ["w0"]
    if dtype.bytes == 8:
        lines += [
            "whole = Cast <to = 13> (x)",
            "far = Constant <value = uint64 {32}> ()",
            'upper = BitShift <direction = "RIGHT"> (whole, far)',
            "low_mask = Constant <value = uint64 {4294967295}> ()",
            "lower = BitwiseAnd (whole, low_mask)",
            "w0 = Cast <to = 12> (lower)",
            "w1 = Cast <to = 12> (upper)",
        ]
        words.append("w1")
    else:
        lines.append("w0 = Cast <to = 12> (x)")
    for i, word in enumerate(words):
        lines += [
            f"k{i}a = Mul ({word}, c1)",
            *_turned(f"k{i}a", f"k{i}b", 15, 17),
            f"k{i}c = Mul (k{i}b, c2)",
            f"h{i}a = BitwiseXor (h{i}, k{i}c)",
            *_turned(f"h{i}a", f"h{i}b", 13, 19),
            f"h{i}c = Mul (h{i}b, five)",
            f"h{i + 1} = Add (h{i}c, more)",
        ]
    lines.append(f"m0 = BitwiseXor (h{len(words)}, bytes)")
    for i, (shift, factor) in enumerate(((16, "f1"), (13, "f2"), (16, ""))):
        lines += [
            f'm{i}s = BitShift <direction = "RIGHT"> (m{i}, n{shift})',
            f"m{i}x = BitwiseXor (m{i}, m{i}s)",
            f"m{i + 1} = Mul (m{i}x, {factor})" if factor else f"m{i + 1} = Identity (m{i}x)",
        ]
    lines.append(f"y = Cast <to = {12 if attributes.get('positive', 1) else 6}> (m3)")
    return f"(x) => (y) {{ {chr(10).join(lines)} }}"


def _turned(name: str, result: str, left: int, right: int) -> list[str]:
    """Bits that go round."""
    return [
        f'{name}l = BitShift <direction = "LEFT"> ({name}, n{left})',
        f'{name}r = BitShift <direction = "RIGHT"> ({name}, n{right})',
        f"{result} = BitwiseOr ({name}l, {name}r)",
    ]
