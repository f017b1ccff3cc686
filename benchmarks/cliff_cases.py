"""Models of one operator over its whole space of sizes and attributes."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.operator_cases import Case, case, floats, int64, places


def _weights(*shape: int) -> np.ndarray:
    return floats(*shape, seed=1)


def _text(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes))


def _conv(shape: Sequence[int], filters: Sequence[int], operator: str = "Conv", **how: Any) -> Case:
    """A convolution of an image of this shape, padded so that a window of odd size keeps its
    place.
    """
    rank = len(shape) - 2
    dilations = how.get("dilations", [1] * rank)
    pads = [(k - 1) * d // 2 for k, d in zip(filters[2:], dilations)]
    words = ", ".join(f"{name} {_text(np.ravel(value).tolist())}" for name, value in how.items())
    label = f"{_text(shape)} by {_text(filters)}{f', {words}' if words else ''}"
    w = _weights(*filters)
    inputs = [("x", floats(*shape)), ("w", w)]
    return case(operator, label, inputs, constants={"w": w}, pads=pads * 2, **how)


def convolutions() -> Iterator[Case]:
    """Windows of 1 to 11, steps, dilations, and channels that fill no vector."""
    for kernel in (1, 2, 3, 4, 5, 6, 7, 9, 11):
        for stride in (1, 2, 3):
            yield _conv((1, 32, 28, 28), (48, 32, kernel, kernel), strides=[stride] * 2)
    for kernel, dilation in itertools.product((3, 5), (2, 3, 6)):
        yield _conv((1, 32, 28, 28), (48, 32, kernel, kernel), dilations=[dilation] * 2)
    for inner, outer in itertools.product((1, 3, 5, 17, 33, 100), (1, 7, 20, 65)):
        yield _conv((1, inner, 20, 20), (outer, inner, 3, 3))
        yield _conv((1, inner, 20, 20), (outer, inner, 1, 1))
    for window in ((1, 3), (3, 1), (1, 7), (7, 1), (1, 11), (5, 2)):
        yield _conv((1, 32, 24, 24), (40, 32, *window))
    for side in (1, 2, 3, 5, 7, 14, 80):
        yield _conv((1, 64, side, side), (64, 64, 3, 3))
        yield _conv((1, 128, side, side), (96, 128, 1, 1))
    for batch in (2, 8):
        yield _conv((batch, 32, 14, 14), (32, 32, 3, 3))


def grouped() -> Iterator[Case]:
    """Groups of any width, and several results a channel."""
    for groups, wide, more in itertools.product((2, 4, 8, 32), (1, 2, 3, 4, 8), (1, 2)):
        channels, out = groups * wide, groups * wide * more
        yield _conv((1, channels, 28, 28), (out, wide, 3, 3), group=groups)
    for kernel, stride in itertools.product((2, 3, 4, 5, 7, 9, 11), (1, 2)):
        yield _conv((1, 64, 28, 28), (64, 1, kernel, kernel), group=64, strides=[stride] * 2)
    for kernel, more, stride in itertools.product((3, 5, 7), (2, 3, 4), (1, 2)):
        how = {"group": 48, "strides": [stride] * 2}
        yield _conv((1, 48, 28, 28), (48 * more, 1, kernel, kernel), **how)
    for kernel, dilation in itertools.product((3, 5), (2, 4)):
        yield _conv((1, 64, 28, 28), (64, 1, kernel, kernel), group=64, dilations=[dilation] * 2)
    for channels in (3, 7, 12, 20, 100):
        yield _conv((1, channels, 28, 28), (channels, 1, 3, 3), group=channels)
        yield _conv((1, channels, 64), (channels, 1, 5), group=channels)


def lines_and_volumes() -> Iterator[Case]:
    """Convolutions of one and of three dimensions."""
    for kernel, stride, channels in itertools.product((1, 3, 5, 9, 15), (1, 2), (1, 16, 80)):
        yield _conv((1, channels, 400), (64, channels, kernel), strides=[stride])
    for dilation in (2, 4, 16):
        yield _conv((1, 64, 400), (64, 64, 3), dilations=[dilation])
    for kernel, stride in itertools.product((1, 2, 3, 5), (1, 2)):
        yield _conv((1, 16, 8, 16, 16), (24, 16, *[kernel] * 3), strides=[stride] * 3)
    yield _conv((1, 16, 8, 16, 16), (16, 1, 3, 3, 3), group=16)
    yield _conv((1, 3, 8, 28, 28), (24, 3, 3, 7, 7), strides=[1, 2, 2])


def transposed() -> Iterator[Case]:
    """Transposed convolutions."""
    for kernel, stride in itertools.product((2, 3, 4, 5), (1, 2, 4)):
        for inner, outer in ((16, 16), (64, 32), (3, 5)):
            shape, filters = (1, inner, 14, 14), (inner, outer, kernel, kernel)
            yield _conv(shape, filters, "ConvTranspose", strides=[stride] * 2)
    for kernel, stride in ((4, 2), (8, 4), (16, 8)):
        shape, filters = (1, 64, 50), (64, 32, kernel)
        yield _conv(shape, filters, "ConvTranspose", strides=[stride])
    yield _conv((1, 32, 14, 14), (32, 1, 4, 4), "ConvTranspose", strides=[2, 2], group=32)
    yield _conv((1, 8, 6, 8, 8), (8, 8, 2, 2, 2), "ConvTranspose", strides=[2, 2, 2])


def pools() -> Iterator[Case]:
    """Pooling of lines, images and volumes."""
    for kind, kernel, stride in itertools.product(
        ("MaxPool", "AveragePool"), (2, 3, 5, 7, 13), (1, 2)
    ):
        for channels in (3, 16, 100):
            shape = (1, channels, 28, 28)
            how = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
            yield case(
                kind, f"{_text(shape)}, {kernel} by {stride}", [("x", floats(*shape))], **how
            )
    for kind in ("MaxPool", "AveragePool"):
        for shape, window in (((1, 64, 400), [3]), ((1, 16, 8, 16, 16), [2, 2, 2])):
            label = f"{_text(shape)}, {_text(window)}"
            how = {"kernel_shape": window, "strides": window}
            yield case(kind, label, [("x", floats(*shape))], **how)
    for kind in ("GlobalAveragePool", "GlobalMaxPool"):
        for shape in ((1, 512, 7, 7), (1, 3, 100, 100), (8, 100, 14, 14), (1, 2048, 4, 4)):
            yield case(kind, _text(shape), [("x", floats(*shape))])


_CUBES = ((64, 100, 3), (8, 12, 128), (1, 1000, 17), (31, 7, 65), (2, 3, 4096), (500, 2, 2))


def along_axes() -> Iterator[Case]:
    """Softmax, reductions, running sums, places of extremes and norms over any axis."""
    for shape, axis in itertools.product(_CUBES, (0, 1, 2)):
        x = ("x", floats(*shape))
        label = f"{_text(shape)}, axis {axis}"
        for kind in ("Softmax", "LogSoftmax", "LpNormalization"):
            yield case(kind, label, [x], axis=axis)
        for kind in ("ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"):
            inputs = [x, ("axes", int64(axis))]
            yield case(kind, label, inputs, constants={"axes": int64(axis)})
        yield case("ArgMax", label, [x], axis=axis)
        yield case("CumSum", label, [x, ("axis", int64(axis))], constants={"axis": int64(axis)})
    for shape, axes in (
        ((4, 32, 20, 20), (2, 3)),
        ((4, 32, 20, 20), (0, 2, 3)),
        ((4, 32, 20, 20), (1, 2)),
        ((4, 32, 20, 20), (0, 3)),
        ((64, 33, 5), (0, 1)),
    ):
        inputs = [("x", floats(*shape)), ("axes", int64(*axes))]
        label = f"{_text(shape)}, axes {_text(axes)}"
        yield case("ReduceSum", label, inputs, constants={"axes": int64(*axes)})


def normalizations() -> Iterator[Case]:
    """Normalizations of rows, groups and channels of any width."""
    for shape in ((128, 768), (7, 33), (1000, 5), (1, 4096), (16, 100, 17)):
        scale, bias = floats(shape[-1]), floats(shape[-1], seed=2)
        inputs = [("x", floats(*shape)), ("s", scale), ("b", bias)]
        constants = {"s": scale, "b": bias}
        yield case("LayerNormalization", _text(shape), inputs, constants=constants, axis=-1)
    for shape in ((1, 32, 28, 28), (4, 10, 9, 9), (1, 64, 400), (1, 512, 4, 4)):
        scale, bias = floats(shape[1]), floats(shape[1], seed=2)
        inputs = [("x", floats(*shape)), ("s", scale), ("b", bias)]
        constants = {"s": scale, "b": bias}
        yield case("InstanceNormalization", _text(shape), inputs, constants=constants)


def products() -> Iterator[Case]:
    """Products of one row, one column, sizes that fill no tile, and batches."""
    sizes = (1, 3, 7, 17, 64, 200)
    for m, k, n in itertools.product(sizes, (3, 64, 1000), (1, 5, 33, 256)):
        w = _weights(k, n)
        inputs = [("x", floats(m, k)), ("w", w)]
        yield case("MatMul", f"{m}×{k}×{n}, weights", inputs, constants={"w": w})
    for batch, m, k, n in (
        *((12, 128, 64, 128), (12, 128, 128, 64), (8, 49, 32, 49), (64, 16, 16, 16)),
        *((1, 1000, 3, 1000), (12, 1, 64, 300), (12, 300, 64, 1), (5, 33, 17, 9), (100, 4, 4, 4)),
    ):
        inputs = [("x", floats(batch, m, k)), ("w", floats(batch, k, n, seed=1))]
        yield case("MatMul", f"{batch} of {m}×{k}×{n}", inputs)
    for m, k, n in ((1, 512, 1000), (32, 300, 77), (100, 9, 9)):
        w, c = _weights(n, k), floats(n)
        inputs = [("x", floats(m, k)), ("w", w), ("c", c)]
        label = f"{m}×{k}×{n}, transposed"
        yield case("Gemm", label, inputs, constants={"w": w, "c": c}, transB=1)


def movements() -> Iterator[Case]:
    """Transposes, slices, joins, pads and repetitions."""
    for shape, perm in (
        *(((64, 3, 50), p) for p in itertools.permutations(range(3)) if p != (0, 1, 2)),
        *(((1, 12, 128, 64), p) for p in ((0, 2, 1, 3), (0, 1, 3, 2), (0, 2, 3, 1))),
        *(((2, 3, 40, 50), p) for p in ((0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 3, 2))),
        *(((500, 700), (1, 0)), ((3, 100000), (1, 0)), ((100000, 3), (1, 0))),
    ):
        label = f"{_text(shape)} to {perm}"
        yield case("Transpose", label, [("x", floats(*shape))], perm=list(perm))
    for axis, counts in itertools.product((0, 1, 2), ((2, 2), (1, 7), (3, 3, 3, 3))):
        shapes = [[*(20, 30, 50)[:axis], n, *(20, 30, 50)[axis + 1 :]] for n in counts]
        inputs = [(f"x{i}", floats(*shape)) for i, shape in enumerate(shapes)]
        yield case("Concat", f"{_text(counts)} on axis {axis}", inputs, axis=axis)
    for mode, pads in itertools.product(
        ("constant", "reflect", "edge"), ((0, 0, 1, 1, 0, 0, 1, 1), (0, 0, 3, 0, 0, 0, 0, 5))
    ):
        p = int64(*pads)
        inputs = [("x", floats(1, 16, 40, 40)), ("p", p)]
        yield case("Pad", f"{mode} {pads[2:4]}", inputs, constants={"p": p}, mode=mode)
    for repeats in ((1, 3, 1), (4, 1, 1), (1, 1, 5)):
        r = int64(*repeats)
        inputs = [("x", floats(20, 30, 50)), ("r", r)]
        yield case("Tile", _text(repeats), inputs, constants={"r": r})
    for block in (2, 4):
        yield case("DepthToSpace", f"by {block}", [("x", floats(1, 64, 40, 40))], blocksize=block)
        yield case("SpaceToDepth", f"by {block}", [("x", floats(1, 16, 40, 40))], blocksize=block)


def gathers() -> Iterator[Case]:
    """Rows, columns and elements by index."""
    for shape, axis, count in itertools.product(
        ((1000, 4), (1000, 300), (64, 50, 20)), (0, 1), (1, 10, 200)
    ):
        indices = places(shape[axis], count)
        inputs = [("x", floats(*shape)), ("i", indices)]
        yield case("Gather", f"{count} of axis {axis} of {_text(shape)}", inputs, axis=axis)
    for shape, axis in (((100, 200), 0), ((100, 200), 1), ((30, 20, 10), 1)):
        indices = places(shape[axis], *shape)
        inputs = [("x", floats(*shape)), ("i", indices)]
        yield case("GatherElements", f"{_text(shape)}, axis {axis}", inputs, axis=axis)


def resizes() -> Iterator[Case]:
    """Images made larger and smaller, by whole and other numbers."""
    for mode, scale, channels in itertools.product(
        ("nearest", "linear", "cubic"), (0.5, 0.6, 1.5, 2.0, 4.0), (1, 3, 64)
    ):
        scales = np.array([1, 1, scale, scale], np.float32)
        inputs = [("x", floats(1, channels, 32, 32)), None, ("s", scales)]
        label = f"{channels}×32×32 by {scale:g}, {mode}"
        yield case("Resize", label, inputs, constants={"s": scales}, mode=mode)


_UNARY = (
    *("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Abs", "Neg", "Floor", "Ceil"),
    *("Round", "Reciprocal", "Sin", "Cos", "Softplus", "HardSigmoid", "Elu", "Selu", "Mish"),
    *("Softsign", "Sign", "LeakyRelu", "HardSwish", "Atan", "Asinh", "Sinh"),
)


def elementwise() -> Iterator[Case]:
    """Functions of one and two operands, repeated along any axis."""
    for kind, size in itertools.product(_UNARY, (7, 100_000)):
        yield case(kind, str(size), [("x", np.abs(floats(size)) + 0.1)])
    for kind in ("Add", "Mul", "Div", "Pow", "Max", "Less"):
        for left, right in (
            *(((200, 300), (200, 300)), ((200, 300), (300,)), ((200, 300), (200, 1))),
            *(((1, 16, 40, 40), (16, 1, 1)), ((30, 1, 40), (1, 50, 40)), ((50000,), ())),
        ):
            inputs = [("x", np.abs(floats(*left)) + 0.1), ("y", floats(*right, seed=1))]
            yield case(kind, f"{_text(left)} and {_text(right)}", inputs)


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "convolution": convolutions,
    "groups": grouped,
    "lines and volumes": lines_and_volumes,
    "transposed": transposed,
    "pools": pools,
    "axes": along_axes,
    "normalization": normalizations,
    "products": products,
    "movement": movements,
    "gather": gathers,
    "resize": resizes,
    "elementwise": elementwise,
}
