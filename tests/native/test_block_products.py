"""Products with weights in blocks behind DequantizeLinear, as exporters of int4 models write them,
on the kernel that decodes them.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.staged import generate
from infuse.dtypes import DType
from infuse.ir.graph import Array, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.lowering.expand.block_products import TYPES
from infuse.ops.core.evaluate import evaluate
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.domains.microsoft_bits import MatMulNBits
from infuse.targets import Target
from infuse.targets.cpu.emit.language import CPP
from tests.native.builder import Builder
from tests.native.together import joined

pytestmark = [pytest.mark.row("Z1")]


def network(
    kind: DType, depth: int, zeros: bool, gemm: dict[str, Any] | None, block: int
) -> Builder:
    make = Builder()
    x = make.input("n", depth)
    low, high = 0, 1 << kind.bits
    if kind.kind == "i":
        low, high = low - high // 2, high // 2
    turned = bool(gemm and gemm.get("transB"))
    shape, count = (depth, 7), -(-depth // block)
    codes = make.rng.integers(low, high, shape).astype(kind.numpy)
    scales = make.rng.uniform(0.01, 0.1, (count, 7)).astype(np.float32)
    shifts = make.rng.integers(low, high, (count, 7)).astype(kind.numpy) if zeros else None
    parts = [
        a if a is None or not turned else np.ascontiguousarray(a.T) for a in (codes, scales, shifts)
    ]
    values = [None if a is None else constant(a) for a in parts]
    weights = make("DequantizeLinear", *values, axis=int(turned), block_size=block)
    if gemm is None:
        make.output(make("MatMul", x, weights))
    else:
        make.output(make("Gemm", x, weights, make.weight(7), **gemm))
    return make


GEMMS: dict[str, dict[str, Any] | None] = {"MatMul": None, "turned": {"transB": 1}, "Gemm": {}}
DEPTHS = ((96, 32), (80, 32), (128, 64))
ROWS = (1, 5, 40)


def rows_of(count: int, depth: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, depth)).astype(np.float32)


@pytest.fixture(scope="module")
def decoded() -> dict[tuple[Any, ...], dict[int, Array]]:
    """What each network gives for each number of rows, all networks compiled together."""
    keys = list(itertools.product(TYPES, (False, True), GEMMS, DEPTHS))
    graphs = [
        network(kind, depth, zeros, GEMMS[gemm], block).graph
        for kind, zeros, gemm, (depth, block) in keys
    ]
    with infuse.compile(joined(graphs), infuse.CompileOptions(threads=1)) as model:
        runs = {
            count: model.run(
                {f"{i}_x0": rows_of(count, depth) for i, (*_, (depth, _)) in enumerate(keys)}
            )
            for count in ROWS
        }
    return {
        key: {count: run[f"{i}_y0"] for count, run in runs.items()} for i, key in enumerate(keys)
    }


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("gemm", GEMMS)
def test_blocks_are_decoded_where_they_are_multiplied(
    kind: DType, zeros: bool, gemm: str, decoded: dict[tuple[Any, ...], dict[int, Array]]
) -> None:
    for depth, block in DEPTHS:
        graph = network(kind, depth, zeros, GEMMS[gemm], block).graph
        program, _ = generate(graph, Target.resolve("native"))
        assert any(
            "nbits_matmul" in line for step in program.steps for line in CPP.body_of(step.function)
        )
        found = decoded[kind, zeros, gemm, (depth, block)]
        for count in ROWS:
            (expected,) = evaluate(graph, {"x0": rows_of(count, depth)}).values()
            np.testing.assert_allclose(found[count], expected, rtol=2e-5, atol=2e-4)


COLUMNS = 37
"""More than a panel, and not a whole number of vectors."""


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_all_numbers_of_rows_and_threads(bits: int, zeros: bool) -> None:
    """Codes take as few bits as their largest one needs; the witness multiplies in float64."""
    rng, depth, block = np.random.default_rng(bits), 1056, 32
    codes = rng.integers(0, 1 << bits, (depth, COLUMNS)).astype(np.uint8)
    codes[0] = (1 << bits) - 1
    scales = rng.uniform(0.01, 0.1, (depth // block, COLUMNS)).astype(np.float32)
    middle = 1 << (bits - 1)
    shifts = rng.integers(0, 1 << bits, scales.shape) if zeros else np.full(scales.shape, middle)
    numbers = (codes - np.repeat(shifts, block, 0)) * np.repeat(scales.astype(np.float64), block, 0)
    make = Builder()
    x = make.input("n", depth)
    weights = [constant(codes), constant(scales), constant(shifts.astype(np.uint8))]
    product = make("MatMul", x, make("DequantizeLinear", *weights, axis=0, block_size=block))
    make.output(make("Add", product, make.weight(COLUMNS)))
    program, _ = generate(make.graph, Target.resolve("native"))
    calls = "".join(line for step in program.steps for line in CPP.body_of(step.function))
    assert f"nbits_matmul<{bits}, {1 + zeros}>" in calls
    bias = next(v.const for node in make.graph.nodes if node.kind == "Add" for v in [node.input(1)])
    for threads in (1, 2):
        with infuse.compile(make.graph, infuse.CompileOptions(threads=threads)) as model:
            for rows in (*range(1, 18), 33):
                data = rng.standard_normal((rows, depth)).astype(np.float32)
                (result,) = model.run({"x0": data}).values()
                # A thousand products of numbers of up to 2^bits · 0.1, summed up in float32.
                np.testing.assert_allclose(
                    result, data @ numbers + bias, rtol=0, atol=1e-5 * (1 << bits)
                )


def rounded_blocks(rows: Array, block: int) -> Array:
    """Rows in float64 whose blocks are rounded to multiples of their largest magnitude / 127."""
    parts = rows.reshape(len(rows), -1, block).astype(np.float64)
    steps = np.abs(parts).max(-1, keepdims=True) / 127
    steps[steps == 0] = 1
    return np.asarray((np.rint(parts / steps) * steps).reshape(rows.shape))


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_are_rounded_where_the_model_asks_for_it(bits: int, zeros: bool) -> None:
    """`accuracy_level` 4, beside a float64 product of rows that are rounded alike."""
    rng, depth, block, columns = np.random.default_rng(bits), 1056, 32, 37
    blocks = depth // block
    sizes = {"K": depth, "N": columns, "bits": bits, "block_size": block, "accuracy_level": 4}
    op = make_operator(DOMAIN, "MatMulNBits", sizes)
    assert isinstance(op, MatMulNBits)
    packed = rng.integers(0, 256, (columns, blocks, block * bits // 8), np.uint8)
    scales = rng.uniform(0.01, 0.1, columns * blocks).astype(np.float32)
    shifts = rng.uniform(0, 1 << bits, columns * blocks).astype(np.float32) if zeros else None
    matrix = op.matrix(packed, scales.astype(np.float64), shifts, None)
    make = Builder()
    x = make.input("n", depth)
    values = [None if array is None else constant(array) for array in (packed, scales, shifts)]
    node = make.graph.add_node(Node(op, [x, *values], [Value(UNKNOWN, "y")]))
    op.infer_node(node)
    make.output(node.output)
    program, _ = generate(make.graph, Target.resolve("native"))
    calls = "".join(line for step in program.steps for line in CPP.body_of(step.function))
    assert f"nbits_rounded<4, float, {1 + zeros}>" in calls
    for threads in (1, 2):
        with infuse.compile(make.graph, infuse.CompileOptions(threads=threads)) as model:
            for count in (*range(1, 10), 200):
                data = rng.standard_normal((count, depth)).astype(np.float32)
                data[:, :block] = 0
                data[0, block : 2 * block] *= 1e20
                (result,) = model.run({"x0": data}).values()
                expected = rounded_blocks(data, block) @ matrix.T
                # Sums in float32; elements at a tie may be rounded to either side.
                bound = 1e-5 * np.abs(data).max(1, keepdims=True) * (1 << bits)
                bound = bound + ties(data, block) @ np.abs(matrix.T)
                assert np.all(np.abs(result - expected) <= bound)


def ties(data: np.ndarray, block: int) -> np.ndarray:
    """For elements that float32 may round to either side, the step between these; else zero."""
    parts = data.astype(np.float64).reshape(len(data), -1, block)
    steps = np.abs(parts).max(-1, keepdims=True) / 127
    places = np.divide(parts, steps, out=np.zeros_like(parts), where=steps > 0)
    is_tie = np.abs(places - np.floor(places) - 0.5) < 1e-4
    return np.asarray((is_tie * steps).reshape(data.shape))


def test_rows_that_are_not_finite_stay_so_when_they_are_rounded() -> None:
    depth, block = 64, 32
    sizes = {"K": depth, "N": 3, "bits": 4, "block_size": block, "accuracy_level": 4}
    op = make_operator(DOMAIN, "MatMulNBits", sizes)
    make = Builder()
    packed = make.rng.integers(0, 256, (3, 2, 16), np.uint8)
    parts = [make.input(4, depth), constant(packed), constant(np.ones(6, np.float32))]
    node = make.graph.add_node(Node(op, parts, [Value(UNKNOWN, "y")]))
    op.infer_node(node)
    make.output(node.output)
    data = np.ones((4, depth), np.float32)
    data[1, 5], data[2, 40] = np.nan, -np.inf
    with infuse.compile(make.graph, infuse.CompileOptions(threads=1)) as model:
        (result,) = model.run({"x0": data}).values()
    assert np.isfinite(result[[0, 3]]).all()
    assert not np.isfinite(result[[1, 2]]).any()


@pytest.mark.parametrize("block", [16, 48])
def test_other_blocks_are_dequantized_first(block: int) -> None:
    graph = network(dtypes.uint4, 96, True, None, block).graph
    x = np.random.default_rng(1).standard_normal((5, 96)).astype(np.float32)
    expected = evaluate(graph, {"x0": x})
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        for name, array in model.run({"x0": x}).items():
            np.testing.assert_allclose(array, expected[name], rtol=2e-5, atol=2e-4)
