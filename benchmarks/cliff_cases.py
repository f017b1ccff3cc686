"""Models of one operator over its whole space of sizes and attributes."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.cliff_images import (
    convolutions,
    grouped,
    lines_and_volumes,
    pools,
    resizes,
    text,
    transposed,
    weights,
)
from benchmarks.operator_cases import Case, case, floats, int64, places

_CUBES = ((64, 100, 3), (8, 12, 128), (1, 1000, 17), (31, 7, 65), (2, 3, 4096), (500, 2, 2))


def along_axes() -> Iterator[Case]:
    """Softmax, reductions, running sums, places of extremes and norms over any axis."""
    for shape, axis in itertools.product(_CUBES, (0, 1, 2)):
        x = ("x", floats(*shape))
        label = f"{text(shape)}, axis {axis}"
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
        label = f"{text(shape)}, axes {text(axes)}"
        yield case("ReduceSum", label, inputs, constants={"axes": int64(*axes)})
    for shape, axis in itertools.product(((12, 77, 77), (3, 9000, 4), (50, 6, 200)), (0, 1, 2)):
        x = ("x", floats(*shape))
        label = f"{text(shape)}, axis {axis}"
        inputs = [x, ("axes", int64(axis))]
        for kind in ("ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1"):
            yield case(kind, label, inputs, constants={"axes": int64(axis)}, keepdims=0)
        yield case("Softmax", label, [x], axis=axis)
        yield case("ArgMin", label, [x], axis=axis, select_last_index=1)
        yield case("Hardmax", label, [x], axis=axis)


def normalizations() -> Iterator[Case]:
    """Normalizations of rows, groups and channels of any width."""
    for shape in ((128, 768), (7, 33), (1000, 5), (1, 4096), (16, 100, 17)):
        scale, bias = floats(shape[-1]), floats(shape[-1], seed=2)
        inputs = [("x", floats(*shape)), ("s", scale), ("b", bias)]
        constants = {"s": scale, "b": bias}
        yield case("LayerNormalization", text(shape), inputs, constants=constants, axis=-1)
    for shape in ((1, 32, 28, 28), (4, 10, 9, 9), (1, 64, 400), (1, 512, 4, 4)):
        scale, bias = floats(shape[1]), floats(shape[1], seed=2)
        inputs = [("x", floats(*shape)), ("s", scale), ("b", bias)]
        constants = {"s": scale, "b": bias}
        yield case("InstanceNormalization", text(shape), inputs, constants=constants)
        further = {"m": floats(shape[1], seed=3), "v": np.abs(floats(shape[1], seed=4)) + 0.5}
        inputs += further.items()
        yield case("BatchNormalization", text(shape), inputs, constants={**constants, **further})
    for shape, size in (((1, 32, 28, 28), 5), ((2, 96, 13, 13), 3)):
        yield case("LRN", f"{text(shape)}, size {size}", [("x", floats(*shape))], size=size)
    for shape, axis in (((20, 30, 50), 1), ((4, 7, 9, 11), 2), ((64, 17, 3), 1)):
        scale = floats(*shape[axis:])
        inputs = [("x", floats(*shape)), ("s", scale)]
        label = f"{text(shape)}, axis {axis}"
        yield case("LayerNormalization", label, inputs, constants={"s": scale}, axis=axis)


def products() -> Iterator[Case]:
    """Products of one row, one column, sizes that fill no tile, and batches."""
    sizes = (1, 3, 7, 17, 64, 200)
    for m, k, n in itertools.product(sizes, (3, 64, 1000), (1, 5, 33, 256)):
        w = weights(k, n)
        inputs = [("x", floats(m, k)), ("w", w)]
        yield case("MatMul", f"{m}×{k}×{n}, weights", inputs, constants={"w": w})
    for batch, m, k, n in (
        *((12, 128, 64, 128), (12, 128, 128, 64), (8, 49, 32, 49), (64, 16, 16, 16)),
        *((1, 1000, 3, 1000), (12, 1, 64, 300), (12, 300, 64, 1), (5, 33, 17, 9), (100, 4, 4, 4)),
    ):
        inputs = [("x", floats(batch, m, k)), ("w", floats(batch, k, n, seed=1))]
        yield case("MatMul", f"{batch} of {m}×{k}×{n}", inputs)
    for heads, length, size in itertools.product((3, 8), (7, 50, 197), (24, 40, 80)):
        q, scores = floats(1, heads, length, size), floats(1, heads, length, length)
        k, v = floats(1, heads, size, length, seed=1), floats(1, heads, length, size, seed=2)
        label = f"{heads} heads of {size}, {length} rows"
        yield case("MatMul", f"scores, {label}", [("x", q), ("w", k)])
        yield case("MatMul", f"values, {label}", [("x", scores), ("w", v)])
    for m, k, n in ((1, 2000, 300), (300, 2000, 1), (1, 300, 300), (500, 40, 1), (2, 1000, 65)):
        yield case("MatMul", f"{m}×{k}×{n}", [("x", floats(m, k)), ("w", floats(k, n, seed=1))])
    for m, k, n in ((1, 512, 1000), (32, 300, 77), (100, 9, 9), (1000, 5, 3), (3, 5, 5000)):
        w, c = weights(n, k), floats(n)
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
        label = f"{text(shape)} to {perm}"
        yield case("Transpose", label, [("x", floats(*shape))], perm=list(perm))
    for axis, counts in itertools.product((0, 1, 2), ((2, 2), (1, 7), (3, 3, 3, 3))):
        shapes = [[*(20, 30, 50)[:axis], n, *(20, 30, 50)[axis + 1 :]] for n in counts]
        inputs = [(f"x{i}", floats(*shape)) for i, shape in enumerate(shapes)]
        yield case("Concat", f"{text(counts)} on axis {axis}", inputs, axis=axis)
    for mode, pads in itertools.product(
        ("constant", "reflect", "edge"), ((0, 0, 1, 1, 0, 0, 1, 1), (0, 0, 3, 0, 0, 0, 0, 5))
    ):
        p = int64(*pads)
        inputs = [("x", floats(1, 16, 40, 40)), ("p", p)]
        yield case("Pad", f"{mode} {pads[2:4]}", inputs, constants={"p": p}, mode=mode)
    for repeats in ((1, 3, 1), (4, 1, 1), (1, 1, 5)):
        r = int64(*repeats)
        inputs = [("x", floats(20, 30, 50)), ("r", r)]
        yield case("Tile", text(repeats), inputs, constants={"r": r})
    for shape, perm in (
        *(((8, 50, 12, 64), p) for p in ((0, 2, 1, 3), (0, 2, 3, 1), (2, 0, 1, 3), (3, 1, 2, 0))),
        *(((6, 7, 8, 9, 10), p) for p in ((4, 3, 2, 1, 0), (0, 2, 4, 1, 3), (1, 0, 2, 3, 4))),
        *(((1, 24, 33, 47), p) for p in ((0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 3, 2))),
    ):
        label = f"{text(shape)} to {perm}"
        yield case("Transpose", label, [("x", floats(*shape))], perm=list(perm))
    for axis, step in itertools.product((0, 1, 2), (1, 2, -1)):
        begin, end = (-2, -(2**31)) if step < 0 else (3, -2)
        bounds = {"b": int64(begin), "e": int64(end), "a": int64(axis), "s": int64(step)}
        inputs = [("x", floats(60, 50, 40)), *bounds.items()]
        yield case("Slice", f"axis {axis} by {step}", inputs, constants=bounds)
    for axis in (0, 1, 2):
        label = f"60×50×40 in 2 on axis {axis}"
        yield case("Split", label, [("x", floats(60, 50, 40))], outputs=2, axis=axis, num_outputs=2)
    for shape, target in (((1, 50, 1), (40, 50, 30)), ((300, 1), (300, 200)), ((1, 9), (5000, 9))):
        s = int64(*target)
        label = f"{text(shape)} to {text(target)}"
        yield case("Expand", label, [("x", floats(*shape)), ("s", s)], constants={"s": s})
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
        yield case("Gather", f"{count} of axis {axis} of {text(shape)}", inputs, axis=axis)
    for shape, axis in (((100, 200), 0), ((100, 200), 1), ((30, 20, 10), 1)):
        indices = places(shape[axis], *shape)
        inputs = [("x", floats(*shape)), ("i", indices)]
        yield case("GatherElements", f"{text(shape)}, axis {axis}", inputs, axis=axis)
        updates = [*inputs, ("u", floats(*shape, seed=2))]
        rows = np.argsort(floats(*shape, seed=3), axis)
        updates[1] = ("i", rows)
        yield case("ScatterElements", f"{text(shape)}, axis {axis}", updates, axis=axis)
    for shape, axis, count in (((30, 40, 50), 1, 25), ((30, 40, 50), 2, 25), ((50000, 3), 0, 4000)):
        inputs = [("x", floats(*shape)), ("i", places(shape[axis], count))]
        yield case("Gather", f"{count} of axis {axis} of {text(shape)}", inputs, axis=axis)
    for shape, wide in (((200, 30, 7), 1), ((200, 30, 7), 2), ((40, 40), 2)):
        indices = np.stack([places(n, 1500) for n in shape[:wide]], -1)
        inputs = [("x", floats(*shape)), ("i", indices)]
        yield case("GatherND", f"1500 of {text(shape)} by {wide}", inputs)


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
            yield case(kind, f"{text(left)} and {text(right)}", inputs)
    for size in (1000, 30_000):
        limits = {"a": np.array(-0.3, np.float32), "b": np.array(0.4, np.float32)}
        yield case("Clip", str(size), [("x", floats(size)), *limits.items()], constants=limits)
    for left, right in (((64, 50, 30), (50, 1)), ((8, 1, 700), (8, 30, 1)), ((17, 33, 65), (65,))):
        inputs = [("x", floats(*left)), ("y", floats(*right, seed=1) + 2)]
        label = f"{text(left)} and {text(right)}"
        for kind in ("Sub", "Mul", "Div", "Min", "Greater"):
            yield case(kind, label, inputs)
        if len(left) == len(right) + 1:
            yield case("PRelu", label, inputs)
        yield case("Where", label, [("c", floats(*left) > 0), *inputs])


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
