"""ONNX Runtime's own operators whose form in ONNX's depends on the call: its attributes, types and
ranks.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse import dtypes, ops
from infuse.ir.graph import Value, constant
from infuse.tracing.microsoft.building import CallBuilder, reads
from infuse.tracing.semantics import movement

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


def unpacked(make: CallBuilder, x: Value, bits: int) -> Value:
    """Bytes as numbers of few bits, lowest first, along the last axis, which grows."""
    if bits == 8:
        return x
    parts = [
        make("Unsqueeze", _bits(make, x, shift, bits), make.ints(-1)) for shift in range(0, 8, bits)
    ]
    front = make("Shape", x, start=0, end=-1)
    return make("Reshape", make("Concat", *parts, axis=-1), make.sizes(front, -1))


def _bits(make: CallBuilder, x: Value, shift: int, count: int) -> Value:
    """Some bits of bytes."""
    moved = make("BitShift", x, constant(np.uint8(shift)), direction="RIGHT")
    return make("BitwiseAnd", moved, constant(np.uint8((1 << count) - 1)))


@reads("GatherBlockQuantized")
def gather_block_quantized(
    make: CallBuilder,
    data: Value,
    indices: Value,
    scales: Value,
    zeros: Value | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Value | None:
    """Rows of a table in few bits, dequantized after they are gathered."""
    if not (make.shape(data) and make.shape(scales)) or bits not in (2, 4, 8) or block_size < 1:
        return None
    is_packed, at, along = data.dtype == dtypes.uint8, gather_axis % data.rank, quantize_axis
    along %= data.rank
    if data.dtype not in (dtypes.uint8, dtypes.int4, dtypes.uint4):
        return None
    if is_packed and (at or not along):
        return None
    if at == along:
        options = {"axis": along, "block_size": block_size}
        plain = make("DequantizeLinear", data, scales, zeros, **options)
        return make("Gather", plain, indices, axis=at)
    codes, steps = (make("Gather", x, indices, axis=at) for x in (data, scales))
    if zeros is not None:
        zeros = make("Gather", zeros, indices, axis=at)
    if is_packed:
        codes = unpacked(make, codes, bits)
        zeros = _zeros(make, zeros, steps, bits)
    axis = along if along <= at else along - data.rank
    return make("DequantizeLinear", codes, steps, zeros, axis=axis, block_size=block_size)


def _zeros(make: CallBuilder, packed: Value | None, steps: Value, bits: int) -> Value:
    """The zero point of each step: as packed, or the middle."""
    if packed is None:
        return make("Expand", constant(np.uint8(1 << (bits - 1))), make("Shape", steps))
    count = make("Shape", steps, start=-1)
    return make("Slice", unpacked(make, packed, bits), make.ints(0), count, make.ints(-1))


@reads("MatMulBnb4")
def matmul_bnb4(
    make: CallBuilder,
    a: Value,
    b: Value,
    absmax: Value,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    transB: int = 1,
) -> Value | None:
    """A product with weights of 4 bits that stand for the 16 numbers of a table, in blocks with a
    scale each.
    """
    # Without transB the runtime's own kernel for processors does not compute what its description
    # says.
    is_block = block_size >= 2 and block_size % 2 == 0
    if min(K, N) < 1 or not is_block or quant_type not in (0, 1) or not transB:
        return None
    count, blocks = -(-N * K // 2) * 2, -(-N * K // block_size)
    data = make("Reshape", b, make.ints(-1))
    pairs = [make("Unsqueeze", _bits(make, data, shift, 4), make.ints(-1)) for shift in (4, 0)]
    codes = make("Reshape", make("Concat", *pairs, axis=1), make.ints(-1))
    padded = make("Pad", codes, make.ints(0, blocks * block_size - count))
    table = constant(np.array(NF4 if quant_type else FP4, np.float32))
    numbers = make("Gather", table, make("Cast", padded, to=dtypes.int32))
    grouped = make("Reshape", numbers, make.ints(blocks, block_size))
    largest = make.cast(make("Reshape", absmax, make.ints(blocks, 1)), dtypes.float32)
    flat = make("Reshape", grouped * largest, make.ints(-1))
    exact = make("Reshape", make("Slice", flat, make.ints(0), make.ints(N * K)), make.ints(N, K))
    return make("MatMul", a, make("Transpose", make.like(exact, a), perm=(1, 0)))


@reads("CropAndResize")
def crop_and_resize(
    make: CallBuilder,
    x: Value,
    rois: Value,
    images: Value,
    crop: Value,
    *,
    mode: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Value | None:
    """Regions of images, whose corners are parts of the image, brought to one size."""
    if mode not in ("bilinear", "nearest"):
        return None
    boxes = make.cast(rois, dtypes.float32)
    sizes = [make("Shape", x, start=i, end=i + 1) for i in range(4)]
    lines = [_points(make, boxes, sizes[2 + i], crop, i, mode == "nearest") for i in (0, 1)]
    rows, columns = ([make("Unsqueeze", v, make.ints(2 - i)) for v in lines[i]] for i in (0, 1))
    pixels = make("Transpose", x, perm=(0, 2, 3, 1))
    pixels = make("Reshape", pixels, make.sizes(-1, sizes[1]))
    numbers = make("Range", make.whole(0), make("Squeeze", sizes[0]), make.whole(1))
    begins = make("Gather", numbers * (sizes[2] * sizes[3]), images)
    start = make("Unsqueeze", begins, make.ints(1, 2))

    def corner(row: Value, column: Value) -> Value:
        at, aside = (make("Cast", v, to=dtypes.int64) for v in (row, column))
        return make("Gather", pixels, at * sizes[3] + aside + start)

    (top, bottom, down, *row_inside), (left, right, across, *column_inside) = rows, columns
    across, down = (make("Unsqueeze", v, make.ints(-1)) for v in (across, down))
    upper, lower = (
        make(first + (corner(row, right) - first) * across)
        for row in (top, bottom)
        for first in [corner(row, left)]
    )
    inside = make("Unsqueeze", make("And", row_inside[0], column_inside[0]), make.ints(-1))
    outside = make.number(extrapolation_value, dtypes.float32)
    result = make("Where", inside, upper + (lower - upper) * down, outside)
    return make("Transpose", result, perm=(0, 3, 1, 2))


def _points(
    make: CallBuilder, boxes: Value, size: Value, crop: Value, axis: int, is_nearest: bool
) -> list[Value]:
    """Of the points of crops along an axis, (regions, points): the pixels before and behind, how
    far they are from the first, and whether they lie inside.
    """
    low, high = (make("Gather", boxes, make.ints(axis + i), axis=1) for i in (0, 2))
    most = make(make.cast(size, dtypes.float32) - 1.0)
    count = make("Gather", crop, make.whole(axis))
    steps = make.cast(count, dtypes.float32)
    step = (high - low) * most / ops.max(steps - 1.0, 1.0)
    whole = make("Range", make.whole(0), make("Cast", count, to=dtypes.int64), make.whole(1))
    several = low * most + make.cast(whole, dtypes.float32) * step
    single = (low + high) * 0.5 * most
    at = make("Where", make("Less", steps, 2.0), single, several)
    inside = make("And", make("GreaterOrEqual", at, 0.0), make("LessOrEqual", at, most))
    exact = make("Where", inside, at, make.number(0, dtypes.float32))
    if is_nearest:
        exact = make("Floor", exact + 0.5)
    first = make("Floor", exact)
    return [first, make("Ceil", exact), make(exact - first), inside]


@reads("UnfoldTensor")
def unfold_tensor(
    make: CallBuilder, x: Value, *, size: int, dim: int = -1, step: int = 1
) -> Value | None:
    """Windows along an axis, each as one more axis behind all."""
    if not make.shape(x) or size < 1 or step < 1:
        return None
    axis = dim % x.rank
    length = make("Squeeze", make("Shape", x, start=axis, end=axis + 1))
    return movement.unfolded(make, x, axis, length, size, step)


_WHOLE: Final = (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)


@reads("MurmurHash3")
def murmur_hash(make: CallBuilder, x: Value, *, seed: int = 0, positive: int = 1) -> Value | None:
    """MurmurHash3 (x86, 32 bits) of each integer's bytes."""
    if x.dtype not in _WHOLE:
        return None
    words, size = [x], x.dtype.bytes
    if size == 8:
        whole = make("Cast", x, to=dtypes.uint64)
        words = [
            make("BitwiseAnd", whole, 0xFFFFFFFF),
            make("BitShift", whole, 32, direction="RIGHT"),
        ]
    total: Any = make.number(seed & 0xFFFFFFFF, dtypes.uint32)
    for word in words:
        mixed = make(make("Cast", word, to=dtypes.uint32) * 0xCC9E2D51)
        mixed = make(_turned(make, mixed, 15) * 0x1B873593)
        total = make(_turned(make, make("BitwiseXor", total, mixed), 13) * 5 + 0xE6546B64)
    total = make("BitwiseXor", total, size)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        total = make("BitwiseXor", total, make("BitShift", total, shift, direction="RIGHT"))
        total = total if factor == 1 else make(total * factor)
    return make("Cast", total, to=dtypes.uint32 if positive else dtypes.int32)


def _turned(make: CallBuilder, x: Value, count: int) -> Value:
    """Bits of uint32 that go round to the left."""
    left = make("BitShift", x, count, direction="LEFT")
    return make("BitwiseOr", left, make("BitShift", x, 32 - count, direction="RIGHT"))
