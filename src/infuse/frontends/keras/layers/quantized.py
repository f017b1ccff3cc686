"""Weights and operands of few bits."""

from __future__ import annotations

import numpy as np

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.config import Config
from infuse.ir.graph import Array, Value


def scales(config: Config, name: str) -> list[str]:
    """Names of what the integers of a weight are multiplied with, in the order of Keras."""
    if _block(config):
        return [f"{name}_scale", f"{name}_zero", "g_idx"]
    return [f"{name}_scale"] if config.policy.startswith(("int8", "int4")) else []


def _is_gptq(config: Config) -> bool:
    """Whether GPTQ chose the integers of a layer, in groups of rows."""
    return config.policy.startswith("gptq/")


def product_weights(config: Config, has_bias: bool) -> list[str]:
    """Names of the weights of a product, in the order of Keras."""
    bias = ["bias"] if has_bias else []
    if _is_gptq(config):
        return [*bias, "quantized_kernel", "kernel_scale", "kernel_zero", "g_idx"]
    return ["kernel", *bias, *scales(config, "kernel")]


def _gptq_kernel(call: KerasCall) -> Array:
    """The matrix that GPTQ made integers of, of which a column is a row in the file, and two
    of 4 bits share a byte.
    """
    packed, scale = call.needed("quantized_kernel", 2), call.needed("kernel_scale", 2)
    zero, columns = call.needed("kernel_zero", 2), len(call.needed("kernel_scale", 2))
    four = call.config.policy.split("/")[1] == "4"
    if packed.dtype != np.uint8 or len(packed) != ((columns + 1) // 2 if four else columns):
        raise ModelFileError(f"its kernel has the shape {list(packed.shape)}")
    whole = packed
    if four:
        halves = [packed & 15, packed >> 4]
        whole = np.stack(halves, axis=1).reshape(-1, packed.shape[1])[:columns]
    groups = _groups(call, packed.shape[1], scale.shape[1])
    zeros, steps = (v.astype(np.float32)[:, groups] for v in (zero, scale))
    result: Array = ((whole.astype(np.float32) - zeros) * steps).T
    return result


def _block(config: Config) -> int:
    """How many rows of a weight of 4 bits share a scale and a zero point; 0 where all do."""
    mode = config.policy.rpartition("_from_")[0]
    if not mode.startswith("int4"):
        return 0
    plan = config.get("quantization_config")
    size = plan["config"].get("block_size") if plan else mode.partition("/")[2] or None
    return max(int(size or 0), 0)


def _halves(call: KerasCall, name: str) -> Array:
    """The numbers of 4 bits of a weight that has two of them in each byte of its last axis, less
    the zero point of their rows and times their scale, or over it where there is one for all.
    """
    scale = call.needed(f"{name}_scale").astype(np.float32)
    signed = _unpacked(call, name, scale.shape[-1])
    if not _block(call.config):
        return np.asarray(signed / scale)
    groups = _groups(call, signed.shape[0], scale.shape[0])
    zero = call.needed(f"{name}_zero", 2).astype(np.float32)
    return np.asarray((signed - zero[groups]) * scale[groups])


def _unpacked(call: KerasCall, name: str, columns: int) -> Array:
    """The numbers from -8 to 7 of rows of bytes with two of them each."""
    packed = call.needed(name, 2)
    if packed.dtype.itemsize != 1 or packed.shape[1] != (columns + 1) // 2:
        raise ModelFileError(
            f"its {name} has the shape {list(packed.shape)}, for {columns} columns"
        )
    low, high = (packed.view(np.uint8) >> shift & 15 for shift in (0, 4))
    whole = np.stack([low, high], 2).reshape(packed.shape[0], -1)[:, :columns]
    return np.asarray((whole.astype(np.float32) + 8) % 16 - 8)


def _groups(call: KerasCall, size: int, count: int) -> Array:
    """Which scale each place has, of so many."""
    groups = call.needed("g_idx", 1).astype(np.int64)
    if groups.size != size or groups.min() < 0 or groups.max() >= count:
        raise ModelFileError(f"its {groups.size} places name groups that are not there")
    return groups


def table_of(call: KerasCall) -> Array:
    """The rows of an embedding; where they have 4 bits, each with a scale of its own, or with one
    for each group of columns.
    """
    if not call.config.policy.startswith("int4"):
        return plain(call, "embeddings")
    signed = _unpacked(call, "embeddings", call.config.whole("output_dim"))
    scale = call.needed("embeddings_scale").astype(np.float32)
    if len(scale) != len(signed):
        raise ModelFileError(f"its embeddings have {len(signed)} rows and {len(scale)} scales")
    if not _block(call.config):
        return np.asarray(signed / scale[:, None])
    groups = _groups(call, signed.shape[1], scale.shape[-1])
    zero = call.needed("embeddings_zero", 2).astype(np.float32)
    return np.asarray((signed - zero[:, groups]) * scale[:, groups])


def plain(call: KerasCall, name: str) -> Array:
    """A weight, whose integers are divided by their scales."""
    if _is_gptq(call.config):
        return _gptq_kernel(call)
    if call.config.policy.startswith("int4"):
        return _halves(call, name)
    array, scale = call.needed(name), call.array(f"{name}_scale")
    if scale is None:
        return array
    wide = array.astype(np.float32)
    if name == "embeddings" and scale.ndim == 1:
        scale = scale[:, None]
    result: Array = wide / scale.astype(np.float32)
    return result


def check(config: Config) -> None:
    """UnsupportedOperatorError for adapters and roundings that have no translation."""
    config.require("lora_rank", None)
    _steps(config)


def _steps(config: Config) -> bool:
    """Whether operands are rounded to 8 bits, where the weights have 8."""
    plan = config.get("quantization_config")
    if _is_gptq(config):
        return False
    if plan is None:
        return config.policy.startswith("int8_from_")
    if _block(config):  # of these Keras rounds no operand
        return False
    if plan["class_name"] not in ("Int8QuantizationConfig", "Int4QuantizationConfig"):
        raise UnsupportedOperatorError(f"quantization by {plan['class_name']} is not supported")
    rounding = plan["config"].get("activation_quantizer")
    if rounding is not None and (
        rounding["class_name"] != "AbsMaxQuantizer"
        or tuple(rounding["config"]["value_range"]) != (-127, 127)
    ):
        raise UnsupportedOperatorError("the quantizer of operands is not supported")
    return rounding is not None


def rounded(call: KerasCall, x: Value, equation: str = "") -> Value:
    """An operand of a quantized product: in steps of 1/127 of the largest element along the axes
    over which the equation sums, or the last.
    """
    if not _steps(call.config):
        return x
    g = call.g
    reduced = _summed(equation, x.rank) if equation else [x.rank - 1]
    largest = call.reduced("ReduceMax", g("Abs", x), reduced, keep=True)
    scale = g("Div", call.number(127.0, x), g("Add", largest, 1e-7))
    steps = g("Clip", g("Round", g("Mul", x, scale)), -127.0, 127.0)
    return g("Div", steps, scale)


def kernel_of(call: KerasCall, equation: str, x: Value) -> Array:
    """The kernel of a product by an equation, whose axes are letters; of 4 bits it is stored as a
    matrix.
    """
    policy, is_gptq = call.config.policy, _is_gptq(call.config)
    if not is_gptq and not policy.startswith(("int8", "int4")):
        return call.needed("kernel")
    left, right, result = _letters(equation)
    if is_gptq or policy.startswith("int4"):
        sizes = dict(zip(left, x.shape)) | _result_sizes(call, result)
        shape = [sizes.get(letter) for letter in right]
        whole = [size for size in shape if isinstance(size, int)]
        kernel = _gptq_kernel(call) if is_gptq else _halves(call, "kernel")
        if len(whole) != len(right) or int(np.prod(whole)) != kernel.size:
            raise ModelFileError(f"its kernel of {kernel.size} numbers has no shape {shape}")
        return np.reshape(kernel, whole)
    array, scale = call.needed("kernel", len(right)), call.needed("kernel_scale")
    if scale.ndim > len(result):
        raise ModelFileError(f"its kernel_scale has the shape {list(scale.shape)}")
    # Scales lie along the axes of the result, of which those of the operand have one.
    aligned = dict(zip(reversed(result), reversed(scale.shape)))
    if any(size != 1 for letter, size in aligned.items() if letter not in right):
        raise ModelFileError(f"its kernel_scale has the shape {list(scale.shape)}")
    kept = "".join(letter for letter in result[len(result) - scale.ndim :] if letter in right)
    flat = scale.reshape([aligned[letter] for letter in kept]).astype(np.float32)
    spread = np.transpose(flat, [kept.index(letter) for letter in right if letter in kept])
    spreading = [aligned[letter] if letter in kept else 1 for letter in right]
    wide: Array = array.astype(np.float32) / spread.reshape(spreading)
    return wide


def _summed(equation: str, rank: int) -> list[int]:
    """The axes of an operand over which a product by an equation sums."""
    left, _, result = _letters(equation)
    return [rank - len(left) + i for i, letter in enumerate(left) if letter not in result]


def _letters(equation: str) -> tuple[str, str, str]:
    operands, _, result = equation.partition("->")
    left, _, right = operands.partition(",")
    if "." in equation:
        raise UnsupportedOperatorError(f"a quantized product by {equation!r} is not supported")
    return left, right, result


def _result_sizes(call: KerasCall, letters: str) -> dict[str, int]:
    """The sizes of the last axes of the result, where the layer says them."""
    stated = call.config.get("output_shape")
    listed = list(stated) if isinstance(stated, (list, tuple)) else [stated]
    pairs = zip(reversed(letters), reversed(listed))
    return {letter: size for letter, size in pairs if isinstance(size, int)}
