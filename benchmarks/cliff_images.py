"""Models of one operator on lines, images and volumes, over their whole space."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.operator_cases import Case, case, floats


def weights(*shape: int) -> np.ndarray:
    """Constants of this shape."""
    return floats(*shape, seed=1)


def text(sizes: Sequence[int]) -> str:
    """Sizes for labels."""
    return "×".join(map(str, sizes))


def convolution(
    shape: Sequence[int], filters: Sequence[int], operator: str = "Conv", **how: Any
) -> Case:
    """A convolution of an image of this shape, padded so that a window of odd size keeps its
    place.
    """
    rank = len(shape) - 2
    dilations = how.get("dilations", [1] * rank)
    pads = [(k - 1) * d // 2 for k, d in zip(filters[2:], dilations)]
    words = ", ".join(f"{name} {text(np.ravel(value).tolist())}" for name, value in how.items())
    label = f"{text(shape)} by {text(filters)}{f', {words}' if words else ''}"
    w = weights(*filters)
    inputs = [("x", floats(*shape)), ("w", w)]
    return case(operator, label, inputs, constants={"w": w}, pads=pads * 2, **how)


def convolutions() -> Iterator[Case]:
    """Windows of 1 to 11, steps, dilations, and channels that fill no vector."""
    for kernel in (1, 2, 3, 4, 5, 6, 7, 9, 11):
        for stride in (1, 2, 3):
            yield convolution((1, 32, 28, 28), (48, 32, kernel, kernel), strides=[stride] * 2)
    for kernel, dilation in itertools.product((3, 5), (2, 3, 6)):
        yield convolution((1, 32, 28, 28), (48, 32, kernel, kernel), dilations=[dilation] * 2)
    for inner, outer in itertools.product((1, 3, 5, 17, 33, 100), (1, 7, 20, 65)):
        yield convolution((1, inner, 20, 20), (outer, inner, 3, 3))
        yield convolution((1, inner, 20, 20), (outer, inner, 1, 1))
    for window in ((1, 3), (3, 1), (1, 7), (7, 1), (1, 11), (5, 2)):
        yield convolution((1, 32, 24, 24), (40, 32, *window))
    for side in (1, 2, 3, 5, 7, 14, 80):
        yield convolution((1, 64, side, side), (64, 64, 3, 3))
        yield convolution((1, 128, side, side), (96, 128, 1, 1))
    for batch in (2, 8):
        yield convolution((batch, 32, 14, 14), (32, 32, 3, 3))
    for (inner, outer), kernel, stride in itertools.product(
        ((20, 36), (50, 10), (96, 130)), (1, 3, 5, 8), (1, 2)
    ):
        yield convolution((1, inner, 21, 26), (outer, inner, *[kernel] * 2), strides=[stride] * 2)
    for kernel, dilation in itertools.product((2, 3, 5), (2, 4)):
        yield convolution((1, 17, 30, 22), (31, 17, *[kernel] * 2), dilations=[dilation] * 2)
    for shape, filters, strides in (
        ((1, 3, 128, 128), (16, 3, 3, 3), [2, 2]),
        ((1, 3, 128, 128), (32, 3, 7, 7), [2, 2]),
        ((1, 1, 64, 100), (24, 1, 9, 9), [1, 1]),
        ((1, 4, 64, 64), (13, 4, 5, 3), [1, 2]),
        ((1, 64, 64, 64), (1, 64, 1, 1), [1, 1]),
        ((1, 64, 64, 64), (3, 64, 3, 3), [1, 1]),
        ((1, 256, 1, 30), (65, 256, 1, 1), [1, 1]),
        ((1, 19, 200, 1), (40, 19, 3, 1), [1, 1]),
        ((3, 12, 40, 40), (12, 12, 4, 4), [4, 4]),
        ((1, 3, 112, 112), (96, 3, 16, 16), [16, 16]),
    ):
        yield convolution(shape, filters, strides=strides)


def grouped() -> Iterator[Case]:
    """Groups of any width, and several results a channel."""
    for groups, wide, more in itertools.product((2, 4, 8, 32), (1, 2, 3, 4, 8), (1, 2)):
        channels, out = groups * wide, groups * wide * more
        yield convolution((1, channels, 28, 28), (out, wide, 3, 3), group=groups)
    for kernel, stride in itertools.product((2, 3, 4, 5, 7, 9, 11), (1, 2)):
        yield convolution((1, 64, 28, 28), (64, 1, kernel, kernel), group=64, strides=[stride] * 2)
    for kernel, more, stride in itertools.product((3, 5, 7), (2, 3, 4), (1, 2)):
        how = {"group": 48, "strides": [stride] * 2}
        yield convolution((1, 48, 28, 28), (48 * more, 1, kernel, kernel), **how)
    for kernel, dilation in itertools.product((3, 5), (2, 4)):
        yield convolution(
            (1, 64, 28, 28), (64, 1, kernel, kernel), group=64, dilations=[dilation] * 2
        )
    for channels in (3, 7, 12, 20, 100):
        yield convolution((1, channels, 28, 28), (channels, 1, 3, 3), group=channels)
        yield convolution((1, channels, 64), (channels, 1, 5), group=channels)

    for groups, wide, more, side in itertools.product((3, 6), (5, 12, 20), (1, 3), (14, 40)):
        channels, out = groups * wide, groups * wide * more
        yield convolution((1, channels, side, side), (out, wide, 3, 3), group=groups)
    for groups, kernel in itertools.product((4, 16), (1, 5)):
        yield convolution((1, 64, 28, 28), (64, 64 // groups, kernel, kernel), group=groups)
    for kernel, stride in itertools.product((3, 7), (1, 2)):
        how = {"group": 200, "strides": [stride] * 2}
        yield convolution((1, 200, 15, 15), (200, 1, kernel, kernel), **how)


def lines_and_volumes() -> Iterator[Case]:
    """Convolutions of one and of three dimensions."""
    for kernel, stride, channels in itertools.product((1, 3, 5, 9, 15), (1, 2), (1, 16, 80)):
        yield convolution((1, channels, 400), (64, channels, kernel), strides=[stride])
    for dilation in (2, 4, 16):
        yield convolution((1, 64, 400), (64, 64, 3), dilations=[dilation])
    for kernel, stride in itertools.product((1, 2, 3, 5), (1, 2)):
        yield convolution((1, 16, 8, 16, 16), (24, 16, *[kernel] * 3), strides=[stride] * 3)
    yield convolution((1, 16, 8, 16, 16), (16, 1, 3, 3, 3), group=16)
    yield convolution((1, 3, 8, 28, 28), (24, 3, 3, 7, 7), strides=[1, 2, 2])
    for length, channels, kernel in itertools.product((90, 3000), (3, 33, 64), (2, 7, 31)):
        yield convolution((1, channels, length), (40, channels, kernel))
    for kernel, stride in itertools.product((3, 15, 31), (1, 2)):
        yield convolution((1, 96, 500), (96, 1, kernel), group=96, strides=[stride])
    yield convolution((1, 1, 16000), (64, 1, 80), strides=[16])
    yield convolution((1, 32, 2000), (32, 16, 9), group=2, dilations=[3])
    for window, channels in itertools.product(
        ((1, 3, 3), (3, 1, 1), (2, 2, 2), (3, 3, 3)), (3, 8, 33)
    ):
        yield convolution((1, channels, 6, 14, 18), (20, channels, *window))
    yield convolution((1, 12, 6, 14, 18), (24, 3, 3, 3, 3), group=4)
    yield convolution((1, 12, 6, 14, 18), (24, 12, 3, 3, 3), dilations=[1, 2, 2])


def transposed() -> Iterator[Case]:
    """Transposed convolutions."""
    for kernel, stride in itertools.product((2, 3, 4, 5), (1, 2, 4)):
        for inner, outer in ((16, 16), (64, 32), (3, 5)):
            shape, filters = (1, inner, 14, 14), (inner, outer, kernel, kernel)
            yield convolution(shape, filters, "ConvTranspose", strides=[stride] * 2)
    for kernel, stride in ((4, 2), (8, 4), (16, 8)):
        shape, filters = (1, 64, 50), (64, 32, kernel)
        yield convolution(shape, filters, "ConvTranspose", strides=[stride])
    yield convolution((1, 32, 14, 14), (32, 1, 4, 4), "ConvTranspose", strides=[2, 2], group=32)
    yield convolution((1, 8, 6, 8, 8), (8, 8, 2, 2, 2), "ConvTranspose", strides=[2, 2, 2])
    yield convolution((1, 6, 6, 9, 8), (6, 10, 3, 3, 3), "ConvTranspose", strides=[1, 2, 2])
    for kernel, stride, (inner, outer) in itertools.product(
        (1, 3, 6, 7), (1, 3), ((20, 33), (48, 7), (1, 16))
    ):
        shape, filters = (1, inner, 18, 15), (inner, outer, kernel, kernel)
        yield convolution(shape, filters, "ConvTranspose", strides=[stride] * 2)
    for kernel, stride, groups in itertools.product((3, 4), (1, 2), (2, 8)):
        how = {"strides": [stride] * 2, "group": groups}
        yield convolution(
            (1, 32, 20, 20), (32, 48 // groups, kernel, kernel), "ConvTranspose", **how
        )
    for dilation in (2, 3):
        how = {"strides": [2, 2], "dilations": [dilation] * 2}
        yield convolution((1, 20, 16, 16), (20, 24, 3, 3), "ConvTranspose", **how)
    for inner, outer, kernel, stride in ((80, 40, 16, 8), (5, 20, 3, 2), (128, 64, 4, 2)):
        shape, filters = (1, inner, 300), (inner, outer, kernel)
        yield convolution(shape, filters, "ConvTranspose", strides=[stride])


def pools() -> Iterator[Case]:
    """Pooling of lines, images and volumes."""
    for kind, kernel, stride in itertools.product(
        ("MaxPool", "AveragePool"), (2, 3, 5, 7, 13), (1, 2)
    ):
        for channels in (3, 16, 100):
            shape = (1, channels, 28, 28)
            how = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
            yield case(kind, f"{text(shape)}, {kernel} by {stride}", [("x", floats(*shape))], **how)
    for kind in ("MaxPool", "AveragePool"):
        for shape, window in (((1, 64, 400), [3]), ((1, 16, 8, 16, 16), [2, 2, 2])):
            label = f"{text(shape)}, {text(window)}"
            how = {"kernel_shape": window, "strides": window}
            yield case(kind, label, [("x", floats(*shape))], **how)
    for kind, (window, stride) in itertools.product(
        ("MaxPool", "AveragePool"),
        (((1, 3), 1), ((3, 1), 1), ((2, 3), 2), ((8, 8), 8), ((4, 4), 3)),
    ):
        how = {"kernel_shape": window, "strides": [stride] * 2, "ceil_mode": 1}
        yield case(
            kind, f"1×33×50×41, {text(window)} by {stride}", [("x", floats(1, 33, 50, 41))], **how
        )
    how = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    yield case("MaxPool", "1×64×56×56, padded", [("x", floats(1, 64, 56, 56))], **how)
    yield case("AveragePool", "1×64×56×56, padded", [("x", floats(1, 64, 56, 56))], **how)
    how = {"kernel_shape": [3, 3], "dilations": [2, 2]}
    yield case("MaxPool", "1×40×30×30, dilated", [("x", floats(1, 40, 30, 30))], **how)
    how = {"kernel_shape": [3, 3, 3], "strides": [1, 2, 2]}
    yield case("MaxPool", "1×9×8×24×24, 3×3×3", [("x", floats(1, 9, 8, 24, 24))], **how)
    yield case("LpPool", "1×20×30×30, 3×3", [("x", floats(1, 20, 30, 30))], kernel_shape=[3, 3])
    for kind in ("GlobalAveragePool", "GlobalMaxPool"):
        for shape in ((1, 512, 7, 7), (1, 3, 100, 100), (8, 100, 14, 14), (1, 2048, 4, 4)):
            yield case(kind, text(shape), [("x", floats(*shape))])


def resizes() -> Iterator[Case]:
    """Images made larger and smaller, by whole and other numbers."""
    for mode, scale, channels in itertools.product(
        ("nearest", "linear", "cubic"), (0.5, 0.6, 1.5, 2.0, 4.0), (1, 3, 64)
    ):
        scales = np.array([1, 1, scale, scale], np.float32)
        inputs = [("x", floats(1, channels, 32, 32)), None, ("s", scales)]
        label = f"{channels}×32×32 by {scale:g}, {mode}"
        yield case("Resize", label, inputs, constants={"s": scales}, mode=mode)
    for mode, way, (height, width) in itertools.product(
        ("nearest", "linear"), ("align_corners", "asymmetric"), ((1.75, 0.8), (3, 1), (0.25, 0.5))
    ):
        scales = np.array([1, 1, height, width], np.float32)
        inputs = [("x", floats(1, 20, 32, 40)), None, ("s", scales)]
        label = f"20×32×40 by {height:g}×{width:g}, {mode}, {way}"
        how = {"mode": mode, "coordinate_transformation_mode": way, "nearest_mode": "floor"}
        yield case("Resize", label, inputs, constants={"s": scales}, **how)
    for mode in ("nearest", "linear"):
        scales = np.array([1, 1, 2.5], np.float32)
        inputs = [("x", floats(2, 40, 300)), None, ("s", scales)]
        yield case("Resize", f"40×300 by 2.5, {mode}", inputs, constants={"s": scales}, mode=mode)
