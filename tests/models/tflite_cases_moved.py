"""Models of one operator that moves, brings together or chooses elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.tflite_cases import I32, X, case, floats, simple, whole
from tests.models.tflite_tools import Net

# -- movement --------------------------------------------------------------------------------------

case("RESHAPE", [X], lambda n, x: n.op("RESHAPE", [x, n.ints(4, -1)], "float32"))
case("RESHAPE-option", [X], lambda n, x: n.op("RESHAPE", [x], "float32", newShape=[6, 4]))
case("RESHAPE-computed", [X, np.array([3, 8], I32)],
     lambda n, x, s: n.op("RESHAPE", [x, s], "float32"))  # fmt: skip
case("SQUEEZE", [floats(1, 3, 1)], lambda n, x: n.op("SQUEEZE", [x], "float32", squeezeDims=[-1]))
case("SQUEEZE-all", [floats(1, 3, 1)], lambda n, x: n.op("SQUEEZE", [x], "float32", squeezeDims=[]))
for axis in (0, 1, -1):
    case(f"EXPAND_DIMS-{axis}", [X],
         lambda n, x, a=axis: n.op("EXPAND_DIMS", [x, n.ints(a)], "float32"))  # fmt: skip
case("TRANSPOSE", [X], lambda n, x: n.op("TRANSPOSE", [x, n.ints(2, 0, 1)], "float32"))
for axis in (0, -1):
    simple("CONCATENATION", X, X * 2, tag=str(axis), axis=axis, fusedActivationFunction="none")
    simple("PACK", X, X * 2, tag=str(axis), axis=axis, valuesCount=2)
    case(f"UNPACK-{axis}", [floats(2, 3, 2)], lambda n, x, a=axis: n.op(
        "UNPACK", [x], "float32", "float32", axis=a, num=2))  # fmt: skip
    case(f"SPLIT-{axis}", [floats(2, 3, 4)], lambda n, x, a=axis: n.op(
        "SPLIT", [n.ints(a), x], "float32", "float32", numSplits=2))  # fmt: skip
case("SPLIT_V", [floats(2, 7)], lambda n, x: n.op(
    "SPLIT_V", [x, n.ints(2, -1, 1), n.ints(1)], *["float32"] * 3, table="SplitVOptions",
    numSplits=3))  # fmt: skip
case("SLICE", [X], lambda n, x: n.op("SLICE", [x, n.ints(1, 0, 1), n.ints(1, -1, 2)], "float32"))
case("SLICE-computed", [X, np.array([0, 1, 2], I32), np.array([2, -1, 1], I32)],
     lambda n, x, b, s: n.op("SLICE", [x, b, s], "float32"))  # fmt: skip


def strided(name: str, begin: list[int], end: list[int], step: list[int], **masks: int) -> None:
    case(f"STRIDED_SLICE-{name}", [floats(4, 5, 6)], lambda n, x: n.op("STRIDED_SLICE", [
        x, n.ints(*begin), n.ints(*end), n.ints(*step)], "float32", **masks))  # fmt: skip


strided("plain", [1, 0, -4], [3, 9, -1], [1, 2, 1], beginMask=0)
strided("backward", [3, -1, 5], [0, 0, 0], [-1, -2, -1], endMask=4)
strided("begin mask", [1, 2, 3], [3, 4, 5], [1, 1, -1], beginMask=5)
strided("shrink", [1, 0, -1], [2, 3, 0], [1, 1, 1], shrinkAxisMask=5)
strided("short", [1], [3], [1], beginMask=0)
strided("ellipsis", [1, 0, 2], [3, 0, 4], [1, 1, 1], ellipsisMask=2)
strided("ellipsis last", [1, 0], [3, 0], [1, 1], ellipsisMask=2)
strided("new axis", [0, 0, 1], [0, 4, 3], [1, 1, 1], newAxisMask=1)
strided("new after ellipsis", [0, 0, 0], [0, 0, 4], [1, 1, 1], ellipsisMask=1, newAxisMask=2)
strided("all", [0, 0, 1, 2], [0, 0, 2, 5], [1, 1, 1, 2], newAxisMask=1, ellipsisMask=2,
        shrinkAxisMask=4)  # fmt: skip
strided("offset", [1, 1, 2], [2, 3, 1], [1, 2, 1], offset=True)
strided("empty", [3, 0, 0], [1, 5, 6], [1, 1, 1], beginMask=0)
case("STRIDED_SLICE-computed", [X, np.array([1, 1, -2], I32), np.array([2, 3, 9], I32)],
     lambda n, x, b, e: n.op("STRIDED_SLICE", [x, b, e, n.ints(1, 1, 1)], "float32",
                             shrinkAxisMask=1))  # fmt: skip
AT = np.array([[1, 0], [2, 2]], I32)
for axis in (0, 1, -1):
    case(f"GATHER-{axis}", [floats(3, 4, 5)],
         lambda n, x, a=axis: n.op("GATHER", [x, n.const(AT)], "float32", axis=a))  # fmt: skip
case("GATHER-scalar", [floats(3, 4)],
     lambda n, x: n.op("GATHER", [x, n.const(np.array(1, I32))], "float32", axis=1))  # fmt: skip
for batch, axis in ((1, 1), (1, 2), (1, 3)):
    case(f"GATHER-batch-{batch}-{axis}", [floats(2, 3, 3, 4)],
         lambda n, x, b=batch, a=axis: n.op("GATHER", [x, n.const(AT)], "float32", axis=a,
                                            batchDims=b))  # fmt: skip
case("GATHER-batch-2-2", [floats(2, 2, 3, 4)],
     lambda n, x: n.op("GATHER", [x, n.const(AT)], "float32", axis=2, batchDims=2))  # fmt: skip
case("GATHER_ND", [floats(3, 4, 5)],
     lambda n, x: n.op("GATHER_ND", [x, n.const(AT)], "float32"))  # fmt: skip
case("TILE", [X], lambda n, x: n.op("TILE", [x, n.ints(2, 1, 3)], "float32"))
case("BROADCAST_TO", [floats(3, 1)],
     lambda n, x: n.op("BROADCAST_TO", [x, n.ints(2, 3, 4)], "float32", version=2))  # fmt: skip
simple("BROADCAST_ARGS", np.array([3, 1], I32), np.array([2, 1, 4], I32), result="int32")
case("REVERSE_V2", [X], lambda n, x: n.op("REVERSE_V2", [x, n.ints(-1)], "float32"))
case("REVERSE_V2-two", [X], lambda n, x: n.op("REVERSE_V2", [x, n.ints(1, 2)], "float32"))
for seq, batch in ((1, 0), (0, 1), (2, 0), (1, 2)):
    x = floats(4, 4, 4)
    case(f"REVERSE_SEQUENCE-{seq}-{batch}", [x, np.array([1, 2, 4, 3], I32)],
         lambda n, x, s, q=seq, b=batch: n.op("REVERSE_SEQUENCE", [x, s], "float32", seqDim=q,
                                              batchDim=b))  # fmt: skip
simple("SHAPE", X, result="int32", outType=2)
simple("SHAPE", X, result="int64", outType=4, tag="int64")
simple("RANK", X, result="int32")
case("FILL", [np.array([2, 3], I32), np.array(1.5, np.float32)],
     lambda n, s, x: n.op("FILL", [s, x], "float32"))  # fmt: skip
for values in ((1, 9, 3), (5, -2, -2)):
    simple("RANGE", *(np.array(v, I32) for v in values), result="int32", tag=str(values))
simple("RANGE", *(np.array(v, np.float32) for v in (0.5, 2.1, 0.3)))
PADS = np.array([[1, 0], [0, 2], [1, 1]], I32)
case("PAD", [X], lambda n, x: n.op("PAD", [x, n.const(PADS)], "float32"))
case("PAD-computed", [X, PADS], lambda n, x, p: n.op("PAD", [x, p], "float32"))
case("PAD-int32", [whole(2, 3, 4)], lambda n, x: n.op("PAD", [x, n.const(PADS)], "int32"))
case("PADV2", [X], lambda n, x: n.op(
    "PADV2", [x, n.const(PADS), n.const(np.array([7.5], np.float32))], "float32"))  # fmt: skip
case("MIRROR_PAD-reflect", [X],
     lambda n, x: n.op("MIRROR_PAD", [x, n.const(PADS)], "float32", mode=0))  # fmt: skip
case("MIRROR_PAD-symmetric", [X],
     lambda n, x: n.op("MIRROR_PAD", [x, n.const(PADS)], "float32", mode=1))  # fmt: skip

# -- reductions ------------------------------------------------------------------------------------

REDUCER: Any = {"table": "ReducerOptions"}
for kind in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
    for axes, keep in (((1,), False), ((-1, 0), True), ((0, 1, 2), False)):  # axes, keep_dims
        case(f"{kind}-{len(axes)}", [X], lambda n, x, k=kind, a=axes, p=keep: n.op(
            k, [x, n.ints(*a)], "float32", keepDims=p, **REDUCER))  # fmt: skip
    case(f"{kind}-int32", [whole(2, 3, 5)], lambda n, x, k=kind: n.op(
        k, [x, n.ints(2)], "int32", keepDims=False, **REDUCER))  # fmt: skip
    case(f"{kind}-none", [X], lambda n, x, k=kind: n.op(
        k, [x, n.const(np.zeros(0, I32))], "float32", keepDims=False, **REDUCER))  # fmt: skip
for kind in ("REDUCE_ANY", "REDUCE_ALL"):
    case(kind, [whole(3, 4) > 3], lambda n, x, k=kind: n.op(
        k, [x, n.ints(1)], "bool", keepDims=False, **REDUCER))  # fmt: skip
for kind, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
    for axis, result, number in ((1, "int32", 2), (-1, "int64", 4)):
        case(f"{kind}-{axis}", [np.round(X)], lambda n, x, k=kind, t=table, a=axis, r=result,
             o=number: n.op(k, [x, n.ints(a)], r, table=t, outputType=o))  # fmt: skip
for exclusive in (False, True):
    for backward in (False, True):
        case(f"CUMSUM-{exclusive}-{backward}", [X], lambda n, x, e=exclusive, b=backward: n.op(
            "CUMSUM", [x, n.const(np.array(1, I32))], "float32", exclusive=e,
            reverse=b))  # fmt: skip
case("TOPK_V2", [np.round(floats(3, 9))], lambda n, x: n.op(
    "TOPK_V2", [x, n.const(np.array(4, I32))], "float32", "int32"))  # fmt: skip
for name, made in (("REAL", "float32"), ("IMAG", "float32"), ("COMPLEX_ABS", "float32")):
    case(f"RFFT2D-{name}", [floats(2, 4, 8)], lambda n, x, k=name, r=made: n.op(
        k, [n.op("RFFT2D", [x, n.ints(4, 8)], "complex64")], r))  # fmt: skip
case("RFFT2D-cut", [floats(2, 5, 9)], lambda n, x: n.op(
    "REAL", [n.op("RFFT2D", [x, n.ints(4, 8)], "complex64")], "float32"))  # fmt: skip


def transformed(net: Net, x: int) -> int:
    return net.op("RFFT2D", [x, net.ints(1, 8)], "complex64")


for name, move in {
    "SQUEEZE": lambda n, z: n.op("SQUEEZE", [z], "complex64", squeezeDims=[-2]),
    "SQUEEZE-all": lambda n, z: n.op("SQUEEZE", [z], "complex64", squeezeDims=[]),
    "RESHAPE": lambda n, z: n.op("RESHAPE", [z, n.ints(-1, 3, 5)], "complex64"),
    "EXPAND_DIMS": lambda n, z: n.op("EXPAND_DIMS", [z, n.const(np.array(-1, I32))], "complex64"),
    "CAST": lambda n, z: n.op("CAST", [n.op("CAST", [z], "float32")], "complex64"),
}.items():
    case(f"RFFT2D-{name}", [floats(2, 3, 1, 8)], lambda n, x, m=move: [
        n.op(kind, [m(n, transformed(n, x))], "float32") for kind in ("REAL", "IMAG", "COMPLEX_ABS")
    ])  # fmt: skip

# -- choosing and putting --------------------------------------------------------------------------

simple("SELECT", whole(2, 3, 4) > 0, X, X * 2)
simple("SELECT", np.array([True, False]), X, X * 2, tag="rows")
simple("SELECT_V2", whole(3, 1) > 0, X, floats(1, 4))
simple("WHERE", whole(3, 4) > 0, result="int64")
simple("WHERE", whole(3, 4, low=-1, high=2), result="int64", tag="numbers")
for axis in (-1, 0, 1):
    case(f"ONE_HOT-{axis}", [np.array([[1, 0, 5], [-1, 3, 2]], I32)], lambda n, x, a=axis: n.op(
        "ONE_HOT", [x, n.const(np.array(4, I32)), n.const(np.array(2.5, np.float32)),
                    n.const(np.array(-1.0, np.float32))], "float32", axis=a))  # fmt: skip
case("UNIQUE", [np.array([3, 1, 3, 2, 1, 7], I32)],
     lambda n, x: n.op("UNIQUE", [x], "int32", "int32", idxOutType=2))  # fmt: skip
case("UNIQUE-float", [np.array([3, 1, 3, 2, 1.5, 7], np.float32)],
     lambda n, x: n.op("UNIQUE", [x], "float32", "int64", idxOutType=4))  # fmt: skip
case("EMBEDDING_LOOKUP", [np.array([2, 0, 1], I32)],
     lambda n, x: n.op("EMBEDDING_LOOKUP", [x, n.const(floats(3, 4))], "float32"))  # fmt: skip
case("SCATTER_ND", [floats(3, 4)], lambda n, x: n.op("SCATTER_ND", [
    n.const(np.array([[1], [4], [1]], I32)), x, n.ints(6, 4)], "float32"))  # fmt: skip
case("SCATTER_ND-int32", [whole(3)], lambda n, x: n.op("SCATTER_ND", [
    n.const(np.array([[1, 0], [2, 1], [1, 0]], I32)), x, n.ints(3, 2)], "int32"))  # fmt: skip
for at, name in ((np.array([[0, 1], [2, 2]], I32), "matrix"), (np.array([1, 3], I32), "list")):
    shape = (3, 4) if at.ndim == 2 else (5,)
    case(f"SPARSE_TO_DENSE-{name}", [np.array([1.5, 2], np.float32)],
         lambda n, x, a=at, s=shape: n.op("SPARSE_TO_DENSE", [
             n.const(a), n.ints(*s), x, n.const(np.array(-1, np.float32))], "float32",
             validateIndices=False))  # fmt: skip
case("SEGMENT_SUM", [floats(5, 3)], lambda n, x: n.op("SEGMENT_SUM", [
    x, n.const(np.array([0, 0, 1, 2, 2], I32))], "float32"))  # fmt: skip
for how in ("SUM", "PROD", "MAX", "MIN"):
    case(f"UNSORTED_SEGMENT_{how}", [floats(5, 3)], lambda n, x, h=how: n.op(
        f"UNSORTED_SEGMENT_{h}", [x, n.const(np.array([2, 0, -1, 2, 1], I32)), n.const(
            np.array(4, I32))], "float32"))  # fmt: skip
for start in ((1, 0, 2), (-5, 9, 1)):
    case(f"DYNAMIC_UPDATE_SLICE-{start[0]}", [X, floats(1, 2, 2), np.array(start, I32)],
         lambda n, x, u, s: n.op("DYNAMIC_UPDATE_SLICE", [x, u, s], "float32"))  # fmt: skip
simple("MATRIX_DIAG", floats(2, 3))
simple("MATRIX_SET_DIAG", floats(2, 3, 4), floats(2, 3))
simple("MATRIX_SET_DIAG", floats(2, 4, 3), floats(2, 3), tag="tall")
case("DILATE", [floats(2, 3)], lambda n, x: n.op(
    "DILATE", [x, n.ints(3, 2), n.const(np.array(-1, np.float32))], "float32"))  # fmt: skip


def boxes() -> list[np.ndarray]:
    corners = floats(8, 2, low=0, high=4)
    return [np.concatenate([corners, corners + 2], 1).astype(np.float32), floats(8, low=0, high=1)]


def suppressed(kind: str, *more: float) -> Any:
    numbers = [np.array(v, np.float32) for v in (0.3, 0.2, *more)]
    results = ["int32", "float32", "int32"] if more else ["int32", "int32"]
    return lambda n, b, s: n.op(
        kind, [b, s, n.const(np.array(6, I32)), *(n.const(v) for v in numbers)], *results
    )


case("NON_MAX_SUPPRESSION_V4", boxes(), suppressed("NON_MAX_SUPPRESSION_V4"))
case("NON_MAX_SUPPRESSION_V5", boxes(), suppressed("NON_MAX_SUPPRESSION_V5", 0.0))
