"""TensorFlow Lite's operators on scaled integers beside LiteRT, over all bytes and pairs of them:
`python -m benchmarks.tflite_bytes [--only MUL,MEAN] [--types int8,uint8,int16]`.

Of every operator, type and choice of scales: how many of its results are not LiteRT's, and by how
many units at most. Of int16, one operand has all values, two have 260 each; LiteRT reads tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import infuse
from tests.models.tflite_tools import Net, Quant, infused, litert_runs

ZEROS = {"int8": -3, "uint8": 121, "int16": 0}
SCALES = ((4.0, 2.0, 6.0), (4.0, 4.0, 4.0), (1.0, 7.3, 5.1))
"""How far two operands and the result reach."""
NONE = {"fusedActivationFunction": "none"}
Case = tuple[str, Net, list[np.ndarray]]


def scale(dtype: str, reach: float, positive: bool = False) -> Quant:
    """The scale with which a type reaches from -reach, or from zero, to reach."""
    info = np.iinfo(dtype)
    if positive and info.bits == 8:
        return Quant(reach / 256, int(info.min))
    return Quant(2 * reach / 2**info.bits, ZEROS[dtype])


def values(dtype: str) -> np.ndarray:
    """All values of a type."""
    info = np.iinfo(dtype)
    return np.arange(info.min, info.max + 1).astype(dtype)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of bytes; of longer integers those of 260 values."""
    row = values(dtype)
    if row.size > 256:
        row = np.concatenate([row[::257], np.array([-1, 0, 1, 32767], dtype)])
    a, b = (side.copy() for side in np.meshgrid(row, row))
    return a, b


def cases(dtype: str) -> Iterator[Case]:
    """One model of each operator and choice of scales, and what it is called with."""
    yield from functions(dtype)
    yield from _of_pairs(dtype)
    yield from _of_rows(dtype)


def _one(name: str, dtype: str, given: Quant, result: Any, feeds: list[np.ndarray],
         build: Callable[..., int]) -> Case:  # fmt: skip
    net = Net()
    return name, net.outputs(build(net, net.input(dtype, feeds[0].shape, given), result)), feeds


def functions(dtype: str) -> Iterator[Case]:
    """Functions of one operand, on all its values."""
    info, x = np.iinfo(dtype), values(dtype)
    unit = Quant(1 / 128 if info.bits == 8 else 1 / 32768, 128 if dtype == "uint8" else 0)
    share = Quant(1 / 256 if info.bits == 8 else 1 / 32768, info.min if info.bits == 8 else 0)
    four, half = scale(dtype, 4), scale(dtype, 4, positive=True)
    listed: list[tuple[str, Quant, Quant, dict[str, Any]]] = [
        ("TANH", four, unit, {}),
        ("LOGISTIC", scale(dtype, 8 if info.bits == 8 else 7.6), share, {}),
        ("RELU", four, scale(dtype, 3), {}),
        ("RELU6", scale(dtype, 8), scale(dtype, 6, positive=True), {}),
        *(
            ("LEAKY_RELU", four, scale(dtype, reach), {"table": "LeakyReluOptions", "alpha": alpha})
            for alpha, reach in ((0.3, 4), (0.3, 5.3), (0.013, 4), (0.001, 4), (-0.2, 1.7))
        ),
        ("QUANTIZE", four, scale(dtype, 6), {}),
        ("QUANTIZE", four, scale(dtype, 1.7), {}),
    ]
    if info.bits == 16:
        listed += [
            ("TANH", scale(dtype, 12.3), unit, {}),
            ("LOGISTIC", scale(dtype, 1.1), share, {}),
            ("EXP", scale(dtype, 2), scale(dtype, 8), {}),
            ("EXP", scale(dtype, 11.1), scale(dtype, 1), {}),
            ("LOG", four, four, {}),
            ("LOG", scale(dtype, 30), scale(dtype, 3.3), {}),
            ("GELU", four, four, {}),
            ("GELU", scale(dtype, 16), scale(dtype, 6.1), {}),
            ("RSQRT", four, four, {}),
            ("RSQRT", scale(dtype, 0.5), scale(dtype, 500), {}),
        ]
    if info.bits == 8:
        listed += [("HARD_SWISH", four, four, {"version": 1}), ("GELU", four, four, {})]
    if dtype == "int8":
        listed += [
            ("RSQRT", half, four, {}),
            ("RSQRT", scale(dtype, 9, positive=True), scale(dtype, 2.3), {}),
            ("SQRT", half, scale(dtype, 2, positive=True), {}),
            ("EXP", scale(dtype, 2), scale(dtype, 8, positive=True), {}),
            ("LOG", half, four, {}),
            ("ELU", four, four, {"version": 1}),
            ("ABS", four, half, {}),
        ]
    for kind, given, result, options in listed:
        extra = {"version": 2, **({"approximate": False} if kind == "GELU" else {}), **options}
        numbers = x[info.max + 1 :] if kind == "RSQRT" and info.bits == 16 else x
        yield _one(
            f"{kind} {given.scale[0]:.3g} → {result.scale[0]:.3g}", dtype, given, (dtype, result),
            [numbers], lambda n, i, r, k=kind, e=extra: n.op(k, [i], r, **e),
        )  # fmt: skip


def _of_pairs(dtype: str) -> Iterator[Case]:
    a, b = pairs(dtype)
    for reaches in SCALES:
        first, second, result = (scale(dtype, reach) for reach in reaches)
        for kind in ("ADD", "SUB", "MUL"):
            options = NONE if kind == "MUL" else {**NONE, "potScaleInt16": False}
            net = Net()
            given = net.input(dtype, a.shape, first), net.input(dtype, b.shape, second)
            net.outputs(net.op(kind, given, (dtype, result), version=2, **options))
            yield f"{kind} {reaches}", net, [a, b]
    kinds = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    for kind in kinds:
        net = Net()
        given = (
            net.input(dtype, a.shape, scale(dtype, 4)),
            net.input(dtype, b.shape, scale(dtype, 2.3)),
        )
        yield kind, net.outputs(net.op(kind, given, "bool", version=2)), [a, b]
    for kind in ("MAXIMUM", "MINIMUM"):
        net = Net()
        same = scale(dtype, 4)
        given = net.input(dtype, a.shape, same), net.input(dtype, b.shape, same)
        yield kind, net.outputs(net.op(kind, given, (dtype, same), version=2)), [a, b]


def _of_rows(dtype: str) -> Iterator[Case]:
    info = np.iinfo(dtype)
    rows = np.stack([side.reshape(-1) for side in pairs(dtype)], 1)
    four = scale(dtype, 4)
    share = Quant(1 / 256 if info.bits == 8 else 1 / 32768, info.min if info.bits == 8 else 0)
    yield _one("SOFTMAX", dtype, four, (dtype, share), [rows],
               lambda n, x, r: n.op("SOFTMAX", [x], r, version=2, beta=1.0))  # fmt: skip
    for kind in ("MEAN", "SUM"):
        for reach in (4, 9):
            yield _one(f"{kind} 4 → {reach}", dtype, four, (dtype, scale(dtype, reach)), [rows],
                       lambda n, x, r, k=kind: n.op(k, [x, n.ints(1)], r, version=2,
                                                    table="ReducerOptions"))  # fmt: skip
    image = rows[:, :, None, None]
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        for fused in ("none", "relu", "relu6", "relu_n1_to_1"):
            yield _one(f"{kind} {fused}", dtype, four, (dtype, four), [image],
                       lambda n, x, r, k=kind, f=fused: n.op(
                           k, [x], r, version=2, table="Pool2DOptions", padding=1, strideH=1,
                           strideW=1, filterHeight=2, filterWidth=1,
                           fusedActivationFunction=f))  # fmt: skip


def differences(net: Net, feeds: list[np.ndarray]) -> np.ndarray:
    """By how many units results lie beside LiteRT's."""
    data = net.shaped(feeds).bytes()
    ((right,),) = litert_runs(data, [feeds], delegated=True)
    (found,) = infused(infuse.load(data), feeds)
    return np.abs(found.astype(np.int64) - right.astype(np.int64))


def main() -> None:
    """Print the operators that differ, and by how much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="operators, with commas")
    parser.add_argument("--types", default="int8,uint8,int16")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    equal = total = 0
    for dtype in arguments.types.split(","):
        for name, net, feeds in cases(dtype):
            if only and name.partition(" ")[0] not in only:
                continue
            apart, total = differences(net, feeds), total + 1
            equal += not apart.any()
            if apart.any():
                share = np.count_nonzero(apart) / apart.size
                print(f"{dtype:5} {name:32} {share:7.2%} differ, by {apart.max()} at most")
    print(f"{total} operators with their scales, {equal} equal in every element")


if __name__ == "__main__":
    main()
