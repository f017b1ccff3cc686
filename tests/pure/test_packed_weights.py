"""Packed weights of quantized folders: what independent packers wrote is read, bit by bit."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.huggingface.bits import unpacked
from infuse.frontends.huggingface.packed import PackedLinear, PackedWeights
from infuse.ops.core.weight_blocks import Parts

Arrays = dict[str, np.ndarray]
OUT, IN, GROUP = 32, 128, 32
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def packed_rows(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Rows of numbers as one long number each, in words of 32 bits, by Python's own integers."""
    rows = []
    for row in numbers.tolist():
        whole = sum(number << (bits * place) for place, number in enumerate(row))
        count = -(-len(row) * bits // 32)
        rows.append(np.frombuffer(whole.to_bytes(4 * count, "little"), np.int32))
    return np.stack(rows)


def read(config: dict[str, Any], arrays: Arrays) -> PackedLinear:
    layer = PackedWeights(config, {f"a.b.{name}": array for name, array in arrays.items()})
    linear = layer.linear("a.b")
    assert linear is not None
    assert layer.linear("a") is None
    return linear


def drawn(rng: np.random.Generator, bits: int, groups: int = IN // GROUP) -> tuple[Any, Any, Any]:
    """Quants (out, in), scales and zeros (out, groups)."""
    quants = rng.integers(0, 1 << bits, (OUT, IN))
    scale = rng.standard_normal((OUT, groups)).astype(np.float16)
    return quants, scale, rng.integers(1, 1 << bits, (OUT, groups))


def expected(quants: Any, scale: Any, zeros: Any, groups: Any) -> np.ndarray:
    """scale · (quant - zero), in float64."""
    wide = scale.astype(np.float64)
    return np.asarray(wide[:, groups] * (quants - np.asarray(zeros)[:, groups]), np.float32)


OWN = np.arange(IN) // GROUP


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("form", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("sorted_by", ["columns", "activations"])
def test_gptq(bits: int, form: str, sorted_by: str, rng: np.random.Generator) -> None:
    quants, scale, zeros = drawn(rng, bits)
    groups = OWN if sorted_by == "columns" else rng.permutation(OWN)
    arrays = {
        "qweight": packed_rows(quants, bits).T,
        "qzeros": packed_rows(zeros.T - (form == "gptq"), bits),
        "scales": scale.T,
        "g_idx": groups.astype(np.int32),
    }
    config = {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "checkpoint_format": form}
    linear = read(config, arrays)
    assert (linear.order is None) == (sorted_by == "columns")
    assert linear.parts.group == GROUP
    np.testing.assert_array_equal(linear.weights(), expected(quants, scale, zeros, groups))


def test_gptq_of_symmetric_weights_adds_nothing(rng: np.random.Generator) -> None:
    quants, scale, _ = drawn(rng, 4)
    zeros = np.full(scale.shape, 8)
    arrays = {
        "qweight": packed_rows(quants, 4).T, "qzeros": packed_rows(zeros.T - 1, 4),
        "scales": scale.T,
    }  # fmt: skip
    linear = read({"quant_method": "gptq", "bits": 4, "group_size": GROUP}, arrays)
    assert linear.parts.offset is None
    assert linear.parts.quants.dtype == np.int8
    np.testing.assert_array_equal(linear.weights(), expected(quants, scale, zeros, OWN))


def test_awq(rng: np.random.Generator) -> None:
    quants, scale, zeros = drawn(rng, 4)

    def shuffled(numbers: np.ndarray) -> np.ndarray:
        return numbers.reshape(len(numbers), -1, 8)[:, :, AWQ_ORDER].reshape(numbers.shape)

    arrays = {
        "qweight": packed_rows(shuffled(quants.T), 4),
        "qzeros": packed_rows(shuffled(zeros.T), 4),
        "scales": scale.T,
    }
    linear = read({"quant_method": "awq", "bits": 4, "group_size": GROUP}, arrays)
    np.testing.assert_array_equal(linear.weights(), expected(quants, scale, zeros, OWN))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_compressed_tensors_in_words(bits: int, symmetric: bool, rng: np.random.Generator) -> None:
    quants, scale, zeros = drawn(rng, bits)
    half = 1 << (bits - 1)
    arrays = {
        "weight_packed": packed_rows(quants, bits),
        "weight_scale": scale,
        "weight_shape": np.array([OUT, IN]),
        "weight_g_idx": rng.permutation(OWN).astype(np.int32),
    }
    if not symmetric:
        arrays["weight_zero_point"] = packed_rows(zeros.T, bits).T
    linear = read({"quant_method": "compressed-tensors"}, arrays)
    zeros = np.full(scale.shape, half) if symmetric else zeros
    groups = arrays["weight_g_idx"]
    np.testing.assert_array_equal(linear.weights(), expected(quants, scale, zeros, groups))


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("kind", ["int8", "zero", "float8"])
def test_compressed_tensors_in_bytes(groups: int, kind: str, rng: np.random.Generator) -> None:
    quants = rng.integers(-128, 128, (OUT, IN)).astype(np.int8)
    scale = rng.standard_normal((OUT, groups)).astype(ml_dtypes.bfloat16)
    zeros = rng.integers(-128, 128, scale.shape).astype(np.int8)
    arrays: Arrays = {"weight": quants, "weight_scale": scale}
    values = quants.astype(np.float64)
    if kind == "float8":
        arrays["weight"] = rng.standard_normal((OUT, IN)).astype(ml_dtypes.float8_e4m3fn)
        values = arrays["weight"].astype(np.float64)
    if kind == "zero":
        arrays["weight_zero_point"] = zeros
    linear = read({"quant_method": "compressed-tensors"}, arrays)
    own = np.arange(IN) * groups // IN
    middle = zeros if kind == "zero" else np.zeros(scale.shape)
    exact = expected(values, scale, middle.astype(np.float64), own)
    np.testing.assert_array_equal(linear.weights(), exact)


def test_one_scale_for_a_tensor(rng: np.random.Generator) -> None:
    quants = rng.integers(-128, 128, (OUT, IN)).astype(np.int8)
    arrays: Arrays = {"weight": quants, "weight_scale": np.array([0.5], np.float32)}
    linear = read({"quant_method": "compressed-tensors"}, arrays)
    np.testing.assert_array_equal(linear.weights(), quants * np.float32(0.5))


@pytest.mark.parametrize("nested", [False, True])
def test_bitsandbytes_of_four_bits(nested: bool, rng: np.random.Generator) -> None:
    codes = np.sort(rng.standard_normal(16)).astype(np.float32)
    quants = rng.integers(0, 16, (OUT, IN)).astype(np.uint8)
    count = OUT * IN // 64
    largest = rng.random(count).astype(np.float32)
    state: dict[str, Any] = {
        "quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [OUT, IN],
    }  # fmt: skip
    flat = quants.reshape(-1, 2)
    arrays: Arrays = {
        "weight": (flat[:, :1] << 4 | flat[:, 1:]).astype(np.uint8),
        "weight.quant_map": codes,
        "weight.absmax": largest,
    }
    if nested:
        values, steps = rng.random(256).astype(np.float32), rng.integers(0, 256, count)
        arrays |= {
            "weight.absmax": steps.astype(np.uint8),
            "weight.nested_absmax": np.array([2.5], np.float32),
            "weight.nested_quant_map": values,
        }
        state |= {"nested_blocksize": 256, "nested_offset": 0.125, "nested_dtype": "float32"}
        largest = values[steps] * np.float32(2.5) + np.float32(0.125)
    text = json.dumps(state).encode()
    arrays["weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(text, np.uint8)
    linear = read({"quant_method": "bitsandbytes", "load_in_4bit": True}, arrays)
    blocks = codes[quants].reshape(-1, 64) * largest[:, None]
    np.testing.assert_array_equal(linear.weights(), blocks.reshape(OUT, IN))


def test_bitsandbytes_of_eight_bits(rng: np.random.Generator) -> None:
    quants = rng.integers(-127, 128, (OUT, IN)).astype(np.int8)
    scale = rng.random(OUT).astype(np.float32)
    arrays: Arrays = {"weight": quants, "SCB": scale, "weight_format": np.zeros((), np.uint8)}
    linear = read({"quant_method": "bitsandbytes"}, arrays)
    exact = quants * (scale.astype(np.float64)[:, None] / 127)
    np.testing.assert_allclose(linear.weights(), exact, rtol=3e-7)


def test_smaller_groups_are_the_same_weights(rng: np.random.Generator) -> None:
    floats = rng.standard_normal((2, 3, 4)).astype(np.float32)
    parts = Parts(rng.integers(0, 16, (3, 256)).astype(np.uint8), floats[0], floats[1], 64)
    smaller = parts.grouped(32)
    assert smaller.scale.shape == (3, 8)
    np.testing.assert_array_equal(smaller.weights(), parts.weights())


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_numbers_in_words(bits: int, rng: np.random.Generator) -> None:
    numbers = rng.integers(0, 1 << bits, (5, 96))
    assert unpacked(packed_rows(numbers, bits), bits)[:, :96].tolist() == numbers.tolist()
    assert unpacked(np.empty((0, 3), np.int32), bits).shape[0] == 0


# -- beside the packages that write them -------------------------------------------------------


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [False, True])
def test_bitsandbytes_reads_the_same(kind: str, nested: bool, rng: np.random.Generator) -> None:
    pytest.importorskip("bitsandbytes", reason="the package bitsandbytes is not installed")
    torch = pytest.importorskip("torch")
    library = importlib.import_module("bitsandbytes.functional")
    weight = torch.from_numpy(rng.standard_normal((OUT, IN)).astype(np.float32))
    content, state = library.quantize_4bit(weight, quant_type=kind, compress_statistics=nested)
    arrays = {f"weight.{name}": each.numpy() for name, each in state.as_dict(packed=True).items()}
    linear = read({"quant_method": "bitsandbytes"}, {"weight": content.numpy(), **arrays})
    np.testing.assert_array_equal(linear.weights(), library.dequantize_4bit(content, state).numpy())


@pytest.mark.parametrize("bits", [4, 8])
def test_compressed_tensors_packs_the_same(bits: int, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    pack = module_of("compressed_tensors", "compressors/pack_quantized/helpers.py").pack_to_int32
    half = 1 << (bits - 1)
    quants = rng.integers(-half, half, (OUT, IN)).astype(np.int8)
    zeros = rng.integers(-half, half, (OUT, 4)).astype(np.int8)
    scale = rng.random((OUT, 4)).astype(np.float16)
    arrays = {
        "weight_packed": pack(torch.from_numpy(quants), bits).numpy(),
        "weight_zero_point": pack(torch.from_numpy(zeros), bits, packed_dim=0).numpy(),
        "weight_scale": scale,
        "weight_shape": np.array([OUT, IN]),
    }
    linear = read({"quant_method": "compressed-tensors"}, arrays)
    exact = expected(quants.astype(np.int64), scale, zeros.astype(np.int64), OWN)
    np.testing.assert_array_equal(linear.weights(), exact)


def test_awq_unpacks_the_same(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    library = module_of("awq", "utils/packing_utils.py")
    words = rng.integers(-(1 << 31), 1 << 31, (IN, OUT // 8)).astype(np.int32)
    zeros = rng.integers(-(1 << 31), 1 << 31, (IN // GROUP, OUT // 8)).astype(np.int32)
    scales = rng.random((IN // GROUP, OUT)).astype(np.float16)
    theirs = library.reverse_awq_order(
        *library.unpack_awq(torch.from_numpy(words), torch.from_numpy(zeros), 4), 4
    )
    quants, own_zeros = (each.numpy().astype(np.int64).T & 15 for each in theirs)
    arrays: Arrays = {"qweight": words, "qzeros": zeros, "scales": scales}
    linear = read({"quant_method": "awq", "bits": 4, "group_size": GROUP}, arrays)
    exact = expected(quants, scales.T, own_zeros, OWN)
    np.testing.assert_array_equal(linear.weights(), exact)


def module_of(package: str, path: str) -> Any:
    """A module of a package by itself: what the package imports besides need not be there."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed")
    file = Path(spec.submodule_search_locations[0], path)
    own = spec_from_file_location(f"{package}_alone", file)
    assert own is not None
    assert own.loader is not None
    module = module_from_spec(own)
    own.loader.exec_module(module)
    return module


# -- what is wrong -------------------------------------------------------------------------------


def gptq_arrays(rng: np.random.Generator) -> Arrays:
    quants, scale, zeros = drawn(rng, 4)
    return {
        "qweight": packed_rows(quants, 4).T, "qzeros": packed_rows(zeros.T - 1, 4),
        "scales": scale.T, "g_idx": OWN.astype(np.int32),
    }  # fmt: skip


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP}
WRONG: dict[str, tuple[dict[str, Any], Arrays, str]] = {
    "bits": ({"bits": 5}, {}, "bits = 5"),
    "bits as text": ({"bits": "4"}, {}, "bits = '4'"),
    "format": ({"checkpoint_format": "marlin"}, {}, "checkpoint_format = 'marlin'"),
    "group": ({"group_size": 64}, {}, "groups have 32 columns, and group_size is 64"),
    "type": ({}, {"qweight": np.zeros((4, 4), np.float32)}, r"qweight is float32\[4, 4\], no mat"),
    "axes": ({}, {"qweight": np.zeros(4, np.int32)}, r"qweight is int32\[4\], no matrix"),
    "zeros": ({}, {"qzeros": np.zeros((4, 3), np.int32)}, "qzeros is .* not of shape"),
    "scales": ({}, {"scales": np.zeros((3, OUT), np.float16)}, "qzeros is .* not of shape"),
    "order": ({}, {"g_idx": np.zeros(IN, np.int32)}, "groups of columns that do not have 32"),
    "short order": ({}, {"g_idx": np.zeros(3, np.int32)}, r"int32\[3\] for 128 columns"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_layers_are_errors_that_say_where(name: str, rng: np.random.Generator) -> None:
    config, changes, message = WRONG[name]
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=message) as error:
        read(GPTQ | config, gptq_arrays(rng) | changes)
    assert "layer 'a.b'" in str(error.value)


def test_methods_that_are_not_known() -> None:
    for method in ("quip", None, 3):
        with pytest.raises(UnsupportedOperatorError, match=r"quant_method = .*there are gptq, awq"):
            PackedWeights({"quant_method": method}, {})


STATES = [
    b"", b"[", b"3", b"{}", b'{"shape": [1, -2], "blocksize": 64}', b"[" * 9999,
    b'{"shape": [32, 128, 1], "blocksize": 64}', b'{"shape": [32, 1e9], "blocksize": 64}',
]  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_states_that_are_not_well_formed(state: bytes) -> None:
    arrays: Arrays = {
        "weight": np.zeros(2048, np.uint8), "weight.absmax": np.zeros(64, np.float32),
        "weight.quant_map": np.zeros(16, np.float32),
        "weight.quant_state.bitsandbytes__nf4": np.frombuffer(state, np.uint8),
    }  # fmt: skip
    with pytest.raises(ModelFileError, match="quant_state"):
        read({"quant_method": "bitsandbytes"}, arrays)


def test_tensors_of_any_shape_and_type_are_errors_or_are_read(rng: np.random.Generator) -> None:
    shapes = [(), (0,), (4,), (4, 4), (16, 32), (32, 16), (32, 4), (4, 0), (0, 4), (2, 3, 4)]
    names = [
        "qweight", "qzeros", "scales", "g_idx", "weight_packed", "weight_scale", "weight_shape",
        "weight_zero_point", "weight", "SCB", "weight.absmax", "weight.quant_map",
    ]  # fmt: skip
    dtypes: list[Any] = [np.int32, np.int8, np.uint8, np.float16, np.float32, np.int64]
    draw: Callable[[list[Any]], Any] = lambda items: items[rng.integers(len(items))]  # noqa: E731
    for _ in range(600):
        method = draw(["gptq", "awq", "compressed-tensors", "bitsandbytes"])
        arrays = {
            f"a.{name}": rng.integers(0, 100, draw(shapes)).astype(draw(dtypes))
            for name in rng.choice(names, 8)
        }
        try:
            linear = PackedWeights({"quant_method": method}, arrays).linear("a")
            if linear is not None:
                linear.weights()
        except InfuseError:
            continue
