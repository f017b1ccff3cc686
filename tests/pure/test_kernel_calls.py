"""What kernels are called with, done in NumPy by what their families mean: packed weights, sizes
and strides of every form, for processors that this machine need not be.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.lowering.program import Step
from infuse.lowering.statements import KernelCall
from infuse.ops.domains.microsoft import DOMAIN
from infuse.targets.cpu.families.base import MEANINGS, WRITINGS
from infuse.targets.cpu.lower import linear
from tests.native.builder import Builder
from tests.pure.kernel_graphs_data import CASES, SAMPLED
from tests.pure.kernel_runs import TARGETS, calls, run, run_all
from tests.pure.kernel_sequences import SEQUENCES
from tests.support import kernel_calls
from tests.support.epilogues import sink_of
from tests.support.kernel_calls import KernelError

pytestmark = pytest.mark.row("R1")


def convolution(
    x: tuple[int, ...],
    w: tuple[int, ...],
    pads: tuple[int, ...] = (0, 0, 0, 0),
    *,
    computed: bool = False,
    channels_last: bool = False,
    **how: object,
) -> Graph:
    b = Builder("convolution")
    image = b.input(*x, name="x")
    filters = b.input(*w, name="w") if computed else b.weight(*w)
    made = b("Relu", b("Conv", image, filters, b.weight(w[0]), pads=pads, **how))
    b.output(b("Transpose", made, perm=(0, 2, 3, 1)) if channels_last else made)
    return b.graph


def product(x: tuple[int, ...], y: tuple[int, ...], *, computed: bool = False) -> Graph:
    b = Builder("product")
    left = b.input(*x, name="x")
    right = b.input(*y, name="y") if computed else b.weight(*y)
    b.output(b("Add", b("MatMul", left, right), 1.0))
    return b.graph


def in_blocks(kind: str, dtype: DType) -> Graph:
    """A product with a matrix many of whose blocks are zero."""
    b = Builder("blocks")
    weights = b.blocks(36, 32, 5, dtype=dtypes.int8 if dtype.is_integer else dtype)
    if kind == "ConvInteger":
        apart = np.asarray(weights.const).reshape(9, 4, 32).transpose(2, 1, 0)
        filters = constant(np.ascontiguousarray(apart).reshape(32, 4, 3, 3))
        b.output(b(kind, b.input(2, 4, 5, 6, name="x", dtype=dtype), filters, pads=(1, 1, 1, 1)))
    else:
        b.output(b(kind, b.input(5, 36, name="x", dtype=dtype), weights))
    return b.graph


def gemm(**how: object) -> Graph:
    b = Builder("gemm")
    x = b.input(5, 7, name="x")
    b.output(b("Gemm", x, b.weight(*((9, 7) if how.get("transB") else (7, 9))), b.weight(9), **how))
    return b.graph


def pooled(kind: str, *, channels_last: bool = False, **how: object) -> Graph:
    b = Builder("pooled")
    if channels_last:
        x = b("Transpose", b.input(2, 9, 8, 5, name="x"), perm=(0, 3, 1, 2))
    else:
        x = b.input(2, 5, 9, 8, name="x")
    b.output(b("Relu", b(kind, x, **how)))
    return b.graph


def few_bits(bits: int, *, bias: bool, level: int = 0) -> Graph:
    b, rng = Builder("few bits"), np.random.default_rng(3)
    x = b.input(3, 40, name="x")
    codes = rng.integers(0, 256, (6, 2, 32 * bits // 8), np.uint8)
    zeros = rng.integers(0, 256, 6 * (2 * bits // 8 or 1), np.uint8)
    held = [constant(codes), b.weight(12), constant(zeros)]
    sizes = {"K": 40, "N": 6, "bits": bits, "block_size": 32, "accuracy_level": level}
    op = make_operator(DOMAIN, "MatMulNBits", sizes)
    node = Node(op, [x, *held, *([None, b.weight(6)] if bias else [])], [Value(UNKNOWN, "y")])
    op.infer_node(b.graph.add_node(node))
    b.output(b("Relu", node.output))
    return b.graph


def floats_of_8_bits(dtype: DType) -> Graph:
    b, rng = Builder("float8"), np.random.default_rng(3)
    weights = rng.standard_normal((40, 6)).astype(dtype.numpy)
    scales = constant(rng.uniform(0.1, 1, 6).astype(np.float32))
    product = b(
        "MatMul", b.input(3, 40, name="x"), b("DequantizeLinear", constant(weights), scales)
    )
    b.output(b("Relu", product))
    return b.graph


def integers(
    kind: str, x: tuple[int, ...], w: tuple[int, ...], dtype: DType, zeros: int | None = None
) -> Graph:
    b, rng = Builder("integers"), np.random.default_rng(4)
    number = np.uint8(7) if dtype == dtypes.uint8 else np.int8(-7)
    shifts = None if zeros is None else constant(np.full(zeros or (), number))
    weights = constant(rng.integers(-128, 128, w).astype(np.int8))
    image = b.input(*x, dtype=dtype, name="x")
    b.output(b("Cast", b(kind, image, weights, shifts), to=dtypes.float32))
    return b.graph


AROUND = (1, 1, 1, 1)
LAST = {"channels_last": True}
WINDOW = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
GRAPHS: dict[str, Graph] = {
    "a point": convolution((2, 7, 5, 6), (9, 7, 1, 1)),
    "points left out": convolution((2, 7, 5, 6), (9, 7, 1, 1), strides=(2, 2)),
    "3 × 3": convolution((1, 19, 9, 8), (21, 19, 3, 3), AROUND),
    "3 × 3, even": convolution((1, 32, 9, 8), (32, 32, 3, 3), AROUND),
    "3 × 3, step 2": convolution((1, 19, 9, 8), (21, 19, 3, 3), AROUND, strides=(2, 2)),
    "1 × 7": convolution((1, 17, 9, 12), (16, 17, 1, 7), (0, 3, 0, 3)),
    "5 × 5": convolution((1, 16, 12, 12), (18, 16, 5, 5), (2, 2, 2, 2)),
    "few channels": convolution((2, 3, 11, 13), (8, 3, 3, 3), (0, 1, 2, 1), strides=(2, 1)),
    "dilated": convolution((1, 18, 9, 9), (17, 18, 3, 3), (2, 2, 2, 2), dilations=(2, 2)),
    "groups": convolution((1, 12, 7, 7), (24, 3, 3, 3), AROUND, group=4, **LAST),
    "depthwise": convolution((2, 10, 7, 9), (10, 1, 3, 3), AROUND, group=10),
    "depthwise, step 2": convolution((2, 10, 7, 9), (10, 1, 5, 5), (2, 2, 2, 2), group=10),
    "depthwise, more": convolution((2, 6, 7, 9), (12, 1, 3, 3), AROUND, group=6, **LAST),
    "depthwise, many": convolution((2, 6, 7, 9), (42, 1, 3, 4), AROUND, group=6, **LAST),
    "depthwise, computed": convolution((2, 6, 7, 9), (18, 1, 3, 3), group=6, computed=True),
    "depthwise, computed, many": convolution((2, 3, 7, 9), (15, 1, 3, 3), group=3, computed=True),
    "depthwise, dilated": convolution(
        (2, 6, 9, 9), (6, 1, 3, 3), group=6, dilations=(1, 2), **LAST
    ),
    "planes": convolution((2, 7, 12, 13), (9, 7, 1, 1)),
    "planes of groups": convolution((2, 4, 9, 8), (8, 2, 3, 3), AROUND, group=2),
    "a line": convolution((2, 5, 11), (6, 5, 3), (1, 1)),
    "rows": product((3, 5, 7), (7, 33)),
    "batches": product((3, 5, 7), (3, 7, 4), computed=True),
    "one for all": product((3, 5, 7), (7, 4), computed=True),
    "batches of each": product((2, 1, 5, 7), (3, 7, 4), computed=True),
    "a vector": product((3, 5, 7), (7,), computed=True),
    "Gemm": gemm(alpha=0.5, beta=2.0),
    "Gemm, transposed": gemm(transB=1),
    "floats of 8 bits": floats_of_8_bits(dtypes.float8e4m3fn),
    "floats of 8 bits, 5 of the exponent": floats_of_8_bits(dtypes.float8e5m2),
    "4 bits": few_bits(4, bias=False),
    "8 bits": few_bits(8, bias=True),
    "2 bits": few_bits(2, bias=False),
    "4 bits, rounded rows": few_bits(4, bias=True, level=4),
    "bytes": integers("MatMulInteger", (3, 5, 7), (7, 33), dtypes.uint8, 0),
    "signed bytes": integers("MatMulInteger", (5, 9), (9, 6), dtypes.int8, 5),
    "bytes from zero": integers("MatMulInteger", (4, 6), (6, 40), dtypes.uint8),
    "points of bytes": integers("ConvInteger", (2, 7, 5, 3), (9, 7, 1, 1), dtypes.uint8, 0),
    "blocks": in_blocks("MatMul", dtypes.float32),
    "blocks of bytes": in_blocks("MatMulInteger", dtypes.uint8),
    "blocks of windows of bytes": in_blocks("ConvInteger", dtypes.int8),
    "largest": pooled("MaxPool", **WINDOW),
    "mean": pooled("AveragePool", **WINDOW),
    "largest, channels last": pooled("MaxPool", channels_last=True, **WINDOW),
    "mean, channels last": pooled("AveragePool", channels_last=True, **WINDOW),
    "mean with borders": pooled("AveragePool", count_include_pad=1, **WINDOW),
    "mean of all": pooled("GlobalAveragePool"),
    "largest of all": pooled("GlobalMaxPool"),
    "mean of all, channels last": pooled("GlobalAveragePool", channels_last=True),
    "largest of all, channels last": pooled("GlobalMaxPool", channels_last=True),
}


SPLIT = {
    "windows": convolution((2, 64, 7, 6), (20, 64, 3, 3), (1, 1, 1, 1)),
    "steps": convolution((1, 32, 9, 8), (33, 32, 3, 3), (1, 0, 1, 0), strides=(2, 2)),
    "spread": convolution((1, 32, 9, 8), (5, 32, 3, 2), dilations=(2, 3)),
    "groups": convolution((2, 64, 5, 6), (40, 32, 3, 3), (1, 1, 1, 1), group=2),
    "points with steps": convolution((1, 96, 5, 5), (20, 96, 1, 1), strides=(2, 1)),
    "a line": convolution((2, 32, 17), (20, 32, 5), (2, 2)),
    "computed": product((3, 96, 160), (160, 70), computed=True),
    "computed batches": product((2, 1, 96, 160), (3, 160, 70), computed=True),
}
"""Convolutions whose channels are whole blocks of split numbers, and products that pay for packing
both operands.
"""


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_kernel_is_given_what_makes_its_node(name: str, target: str, precision: str) -> None:
    assert run_all(GRAPHS[name], target, precision) == {1}


@pytest.mark.parametrize("name", SPLIT)
def test_a_kernel_for_tiles_is_given_what_makes_its_node(name: str) -> None:
    assert run_all(SPLIT[name], TARGETS[4], "bf16") == {1}


@pytest.mark.parametrize("name", [*GRAPHS, *SPLIT])
def test_a_kernel_of_split_operands_is_given_what_makes_its_node(name: str) -> None:
    assert run_all({**GRAPHS, **SPLIT}[name], TARGETS[4], "bf16x2") == {1}


def test_every_kernel_that_has_a_meaning_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()
    sinks: set[str] = set()
    check_sink = kernel_calls.check_sink

    def looked(name: str, call: KernelCall, step: Step, *others: Any) -> None:
        sinks.update([call.kernel] if sink_of(step, name) is not None else [])
        check_sink(name, call, step, *others)

    monkeypatch.setattr(kernel_calls, "check_sink", looked)
    for table in (MEANINGS, WRITINGS):
        for kernel, meaning in table.items():

            def recorded(call: object, kernel: str = kernel, meaning: Callable = meaning) -> object:
                called.add(kernel)
                return meaning(call)

            monkeypatch.setitem(table, kernel, recorded)
    for graph in GRAPHS.values():
        for precision in ("fp32", "bf16", "fp16"):
            run_all(graph, TARGETS[2], precision)
    for graph in (GRAPHS["rows"], SPLIT["windows"], SPLIT["computed"]):
        for precision in ("bf16", "bf16x2"):
            run_all(graph, TARGETS[4], precision)
    for case in SEQUENCES.values():
        for precision in ("fp32", "bf16"):
            run_all(case.graph, TARGETS[2], precision, feeds=case.feeds)
        run_all(case.graph, TARGETS[4], "bf16x2", feeds=case.feeds)
    for case in CASES.values():
        case.run(TARGETS[2])
    for kind in SAMPLED:
        calls(kind, TARGETS[2])
    assert called == MEANINGS.keys() | WRITINGS.keys()
    assert sinks == MEANINGS.keys()


# -- what is wrong is seen -------------------------------------------------------------------------


def test_weights_in_another_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = linear.pack_gemm_b
    monkeypatch.setattr(linear, "pack_gemm_b", lambda b, *how: pack(b[::-1], *how))
    with pytest.raises(KernelError, match=r"gemm in step .* of MatMul node"):
        run(GRAPHS["rows"], TARGETS[1], "fp32")


def test_sizes_that_are_exchanged_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = linear.MatmulSizes

    def exchanged(*fields: object) -> object:
        made = sizes(*fields)
        return made._replace(a_row=made.a_col, a_col=made.a_row)

    monkeypatch.setattr(linear, "MatmulSizes", exchanged)
    with pytest.raises(KernelError, match=r"matmul .* leaves its operands"):
        run(GRAPHS["batches"], TARGETS[1], "fp32")
