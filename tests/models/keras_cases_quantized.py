"""Products of Keras whose weights have few bits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

Case = tuple[Any, list[np.ndarray]]
EQUATIONS: dict[str, tuple[tuple[int, ...], str, Any, str | None]] = {
    "plain": ((6, 8), "abc,cd->abd", (None, 9), "d"),
    "heads": ((6, 8), "abc,cde->abde", (None, 2, 5), "de"),
    "joined": ((6, 2, 5), "abcd,cde->abe", (None, 7), "e"),
    "turned": ((6, 8), "abc,dc->abd", (None, 7), "d"),
    "swapped": ((6, 8), "abc,cde->adbe", (3, 6, 4), None),
    "batched": ((4, 6, 8), "abcd,bde->abce", (4, 6, 3), None),
}
QUANTIZED: dict[str, Callable[[Any], Case]] = {}


def _einsum(equation: str, mode: str, blocks: int, steps: bool) -> Callable[[Any], Case]:
    def make(keras: Any) -> Case:
        shape, text, output, bias = EQUATIONS[equation]
        keras.utils.set_random_seed(3)
        given = keras.Input(shape)
        made = keras.layers.EinsumDense(text, output, bias_axes=bias, bias_initializer="normal")(
            given
        )
        model = keras.Model(given, made)
        quantizers = keras.quantizers
        rounding = quantizers.AbsMaxQuantizer() if steps else None
        options = {"activation_quantizer": rounding, "weight_quantizer": None}
        plan = (
            quantizers.Int8QuantizationConfig(**options)
            if mode == "int8"
            else quantizers.Int4QuantizationConfig(block_size=blocks, **options)
        )
        model.quantize(mode, config=plan)
        x = np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32)
        x[0] = 0
        return model, [x]

    return make


for _name in EQUATIONS:
    for _mode, _blocks, _steps in (
        ("int8", -1, True),
        ("int8", -1, False),
        ("int4", -1, True),
        ("int4", -1, False),
        ("int4", 4, False),
    ):
        _kind = f"{_mode}{'-steps' if _steps else ''}{'-blocks' if _blocks > 0 else ''}"
        QUANTIZED[f"EinsumDense-{_name}-{_kind}"] = _einsum(_name, _mode, _blocks, _steps)


def _searched(bits: int, group: int) -> Callable[[Any], Case]:
    """A model that GPTQ made integers of; of later releases than 3.13 nobody can read the files."""

    def make(keras: Any) -> Case:
        layers = keras.layers
        keras.utils.set_random_seed(3)
        table = layers.Embedding(20, 8)
        blocks = [
            keras.Sequential([layers.Dense(12, "relu"), layers.Dense(8, use_bias=False)]),
            keras.Sequential(
                [
                    layers.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="de"),
                    layers.EinsumDense("abde,def->abf", (None, 8)),
                ]
            ),
        ]
        given = keras.Input((8,), dtype="int32")
        made = table(given)
        for block in blocks:
            made = block(made)
        model = keras.Model(given, made)
        x = np.random.default_rng(0).integers(0, 20, (3, 8)).astype(np.int32)
        plan = keras.quantizers.GPTQConfig(
            dataset=[f"some text that is long enough to be number {i}" for i in range(8)],
            tokenizer=SimpleNamespace(tokenize=lambda text: [ord(sign) % 20 for sign in text]),
            weight_bits=bits,
            num_samples=4,
            sequence_length=8,
            group_size=group,
            quantization_layer_structure={"pre_block_layers": [table], "sequential_blocks": blocks},
        )
        model.quantize("gptq", config=plan)
        for layer in (model, *model._flatten_layers()):
            layer.quantization_config = None  # texts and functions, which are written nowhere
        return model, [x]

    return make


GPTQ = {f"gptq-{bits}-{group}": _searched(bits, group) for bits, group in ((4, 4), (3, -1), (8, 4))}
