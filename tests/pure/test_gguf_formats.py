"""Formats of GGUF's blocks, against the package gguf bit by bit, and against themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infuse.errors import InputError, ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.frontends.gguf.quantize import quantize
from infuse.ops.core.weight_formats import FORMATS, SUPPORTED, format_of

BLOCKS = [name for name in SUPPORTED if FORMATS[name].unpacked is not None]
FLOATS = ("F32", "F16", "BF16")
WRITTEN = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
"""Formats that the package gguf writes, too."""
FITTED = {"Q4_K": 0.078, "Q6_K": 0.018}
"""The relative errors that fitted formats may have on weights of a normal distribution."""


def reference() -> Any:
    return pytest.importorskip("gguf", reason="the package gguf is not installed")


def bit_patterns(name: str, rng: np.random.Generator) -> np.ndarray:
    """Rows whose bytes have all values, with scales that are NaN and infinite among them."""
    block = FORMATS[name]
    rows = rng.integers(0, 256, (64, 8 * block.bytes), np.uint8)
    every = np.arange(256, dtype=np.uint8)[:, None]
    return np.concatenate([rows, np.tile(every, (1, 8 * block.bytes))])


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether all bits are equal, but those of NaNs."""
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))))


@pytest.mark.parametrize("name", [*BLOCKS, *FLOATS])
def test_blocks_are_read_as_the_reference_does(name: str, rng: np.random.Generator) -> None:
    gguf = reference()
    rows = bit_patterns(name, rng)
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(rows, getattr(gguf.GGMLQuantizationType, name))
    assert same_bits(FORMATS[name].dequantize(rows), expected)


def test_the_table_has_the_numbers_and_sizes_of_the_reference() -> None:
    gguf = reference()
    for kind in gguf.GGMLQuantizationType:
        block = format_of(int(kind))
        assert block.name == kind.name
        assert (block.weights, block.bytes) == gguf.GGML_QUANT_SIZES[kind]


@pytest.mark.parametrize("name", BLOCKS)
def test_parts_say_what_weights_are(name: str, rng: np.random.Generator) -> None:
    rows = bit_patterns(name, rng)
    parts = FORMATS[name].parts(rows)
    assert parts.quants.dtype in (np.int8, np.uint8)
    assert parts.group in (16, 32)
    groups = parts.quants.reshape(len(rows), -1, parts.group).astype(np.float32)
    with np.errstate(all="ignore"):
        weights = parts.scale[..., None] * groups
        if parts.offset is not None:
            weights = weights + parts.offset[..., None]
    assert same_bits(weights.reshape(len(rows), -1), FORMATS[name].dequantize(rows))


def test_a_block_by_hand() -> None:
    half = np.array([0.5], np.float16).view(np.uint8)
    row = np.concatenate([half, np.full(16, 0xF0, np.uint8)])[None]
    weights = FORMATS["Q4_0"].dequantize(row)
    assert weights.tolist() == [[-4.0] * 16 + [3.5] * 16]
    row = np.concatenate([np.array([128], np.uint8), np.full(16, 0xA7, np.uint8)])[None]
    assert FORMATS["MXFP4"].dequantize(row).tolist() == [[12.0] * 16 + [-2.0] * 16]


def test_long_rows_are_read_in_pieces(rng: np.random.Generator) -> None:
    rows = rng.integers(0, 120, (700, 18 * 64), np.uint8)
    parts = [FORMATS["Q4_0"].dequantize(row[None])[0] for row in rows]
    assert same_bits(FORMATS["Q4_0"].dequantize(rows), np.stack(parts))


@pytest.mark.parametrize("name", SUPPORTED)
def test_no_rows(name: str) -> None:
    block = FORMATS[name]
    assert block.dequantize(np.empty((0, block.bytes), np.uint8)).shape == (0, block.weights)
    assert block.dequantize(np.empty((3, 0), np.uint8)).shape == (3, 0)


@pytest.mark.parametrize("name", WRITTEN)
def test_weights_are_quantized_as_the_reference_does(name: str, rng: np.random.Generator) -> None:
    gguf = reference()
    weights = special_weights(rng)
    with np.errstate(all="ignore"):
        expected = gguf.quantize(weights, getattr(gguf.GGMLQuantizationType, name))
    assert np.array_equal(quantize(weights, name), expected.view(np.uint8))


@pytest.mark.parametrize("name", FITTED)
def test_fitted_formats_lose_little(name: str, rng: np.random.Generator) -> None:
    weights = rng.standard_normal((64, 1024), np.float32)
    again = FORMATS[name].dequantize(quantize(weights, name))
    error = np.sqrt(((again - weights) ** 2).mean())
    assert error < FITTED[name]


@pytest.mark.parametrize("name", FITTED)
def test_fitted_formats_of_special_weights(name: str, rng: np.random.Generator) -> None:
    weights = special_weights(rng)
    again = FORMATS[name].dequantize(quantize(weights, name))
    most = np.abs(weights).max(axis=1, keepdims=True)
    assert np.all(np.abs(again - weights) <= 0.13 * most)
    assert not again[0].any()


def special_weights(rng: np.random.Generator) -> np.ndarray:
    weights = rng.standard_normal((32, 512)).astype(np.float32)
    weights[0] = 0
    weights[1, :100] = 0
    weights[2] = np.abs(weights[2]) + 1
    weights[3] = -np.abs(weights[3]) - 1
    weights[4] *= 1e4
    weights[5] = 3
    weights[6, 7] = 40
    weights[7, ::2] = -0.0
    return weights


def test_subnormal_weights_become_zero(rng: np.random.Generator) -> None:
    weights = rng.standard_normal((4, 256), np.float32) * np.float32(1e-42)
    for name in ("Q4_0", "Q5_0", "Q8_0", "Q4_K", "Q6_K"):
        assert not FORMATS[name].dequantize(quantize(weights, name)).any()


def test_what_cannot_be_quantized(rng: np.random.Generator) -> None:
    weights = rng.standard_normal((2, 256), np.float32)
    with pytest.raises(ShapeError, match="multiple of the 256 of Q4_K"):
        quantize(weights[:, :128], "Q4_K")
    with pytest.raises(UnsupportedOperatorError, match="quantized to Q2_K"):
        quantize(weights, "Q2_K")
    for value in (np.nan, np.inf):
        weights[1, 3] = value
        with pytest.raises(InputError, match="not finite"):
            quantize(weights, "Q8_0")
    weights[1, 3] = 1e38
    with pytest.raises(InputError, match="too large for the scales of Q8_0"):
        quantize(weights, "Q8_0")


def test_formats_that_are_not_read() -> None:
    with pytest.raises(UnsupportedOperatorError, match="the format IQ2_XS are not supported"):
        FORMATS["IQ2_XS"].dequantize(np.zeros((1, 74), np.uint8))
    with pytest.raises(UnsupportedOperatorError, match=r"number 4 \(Q4_2, which was given up"):
        format_of(4)
    with pytest.raises(UnsupportedOperatorError, match="number 999, which is not known"):
        format_of(999)
    with pytest.raises(TypeMismatchError, match="F16 has no blocks"):
        FORMATS["F16"].parts(np.zeros((1, 2), np.uint8))
