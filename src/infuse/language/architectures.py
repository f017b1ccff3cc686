"""Decoders as GGUF files describe them, family by family."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.gguf.container import GgufFile, GgufTensor
from infuse.language.decoder import Decoder, Rope, Weights

_HINT: Final = "convert the model again with a newer converter"


class Family:
    """The fields of a file of one architecture, read by their names without it."""

    def __init__(self, file: GgufFile) -> None:
        self.file, self.fields = file, file.metadata
        self.name: str = self.fields.text("general.architecture")
        self.where = f"{file.path}: architecture {self.name!r}"

    def number(self, name: str, *default: Any) -> Any:
        return self.fields.number(f"{self.name}.{name}", *default)

    def count(self, name: str, *default: Any) -> Any:
        return self.fields.integer(f"{self.name}.{name}", *default)

    def tensor(self, name: str) -> GgufTensor:
        """ModelFileError where the file has none of this name."""
        tensor = self.file.tensors.get(name)
        if tensor is None:
            raise ModelFileError(f"it has no tensor {name!r}", where=self.where, hint=_HINT)
        return tensor

    # -- what all have in common -------------------------------------------------------------------

    def decoder(self, *, interleaved: bool = False, **how: Any) -> Decoder:
        """The decoder; `how` is what its family has besides."""
        layers, width = self.count("block_count"), self.count("embedding_length")
        heads = self._same("attention.head_count", layers)
        size = self.count("attention.key_length", width // max(heads, 1))
        rope = self._rope(size, interleaved, self.number("rope.freq_base", 10000.0))
        described = {
            "layers": layers,
            "width": width,
            "heads": heads,
            "kv_heads": self._same("attention.head_count_kv", layers, heads),
            "size": size,
            "value_size": self.count("attention.value_length", size),
            "hidden": self._same("feed_forward_length", layers),
            "words": self.tensor("token_embd.weight").shape[0],
            "context": self.count("context_length"),
            "epsilon": self.number("attention.layer_norm_rms_epsilon"),
            "windows": (-1,) * layers,
            "ropes": (rope,) * layers,
        }
        decoder = Decoder(**{**described, **how})
        decoder.check(self.where)
        return decoder

    def _same(self, name: str, layers: int, *default: int) -> int:
        numbers = set(self.fields.per_layer(f"{self.name}.{name}", layers, *default))
        if len(numbers) != 1:
            raise UnsupportedOperatorError(
                f"its layers differ in {name}", where=self.where, hint="use a model of equal layers"
            )
        return int(numbers.pop())

    def _rope(self, size: int, interleaved: bool, base: float) -> Rope:
        channels = self.count("rope.dimension_count", size)
        if any(name.startswith("rope_factors_") for name in self.file.tensors):
            raise UnsupportedOperatorError(
                "positions with factors for long and short texts are not supported",
                where=self.where,
                hint="use the model's form for short contexts",
            )
        factors = self.file.tensors.get("rope_freqs.weight")
        kind = self.fields.text(f"{self.name}.rope.scaling.type", "none")
        if kind not in ("none", "linear"):
            raise UnsupportedOperatorError(
                f"positions scaled by {kind!r} are not supported", where=self.where
            )
        scale = self.number("rope.scaling.factor", 1.0) if kind == "linear" else 1.0
        numbers = np.full(channels // 2, scale, np.float32)
        if factors is not None:
            numbers = numbers * factors.array().astype(np.float32).reshape(-1)
        return Rope(channels, base, interleaved, numbers)

    def windows(self, layers: int, every: int = 0) -> tuple[int, ...]:
        """Tokens that each layer sees before its own: all in each layer of number `every`."""
        window = self.count("attention.sliding_window", 0)
        local = window - 1 if window > 0 else -1
        return tuple(-1 if every and (i + 1) % every == 0 else local for i in range(layers))


def _llama(family: Family) -> Decoder:
    if family.count("expert_count", 0):
        raise UnsupportedOperatorError("mixtures of experts are not supported", where=family.where)
    return family.decoder(interleaved=True)


def _qwen(family: Family) -> Decoder:
    return family.decoder()


def _phi3(family: Family) -> Decoder:
    return family.decoder(windows=family.windows(family.count("block_count")))


def _gemma3(family: Family) -> Decoder:
    layers = family.count("block_count")
    plain = family.decoder()
    windows = family.windows(layers, 6)
    local = family.number("rope.freq_base_swa", 10000.0)
    near = Rope(plain.ropes[0].channels, local)
    return family.decoder(
        windows=windows,
        ropes=tuple(near if window >= 0 else plain.ropes[0] for window in windows),
        activation="gelu",
        embedding_scale=math.sqrt(plain.width),
    )


def _gemma2(family: Family) -> Decoder:
    layers = family.count("block_count")
    plain = family.decoder()
    return family.decoder(
        windows=family.windows(layers, 2),
        activation="gelu",
        embedding_scale=math.sqrt(plain.width),
        score_scale=1 / math.sqrt(plain.width // plain.heads if layers == 46 else plain.size),
        softcap=family.number("attn_logit_softcapping", 50.0),
        head_softcap=family.number("final_logit_softcapping", 30.0),
    )


FAMILIES: Final[Mapping[str, Callable[[Family], Decoder]]] = {
    "llama": _llama,
    "qwen2": _qwen,
    "qwen3": _qwen,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "phi3": _phi3,
}


def decoder_of(file: GgufFile) -> Decoder:
    """The decoder that a file describes; UnsupportedOperatorError for a family that is not
    supported, ModelFileError for fields and tensors that do not fit.
    """
    family = Family(file)
    read = FAMILIES.get(family.name)
    if read is None:
        raise UnsupportedOperatorError(
            f"the architecture {family.name!r} is not supported",
            where=str(file.path),
            hint=f"there are {', '.join(FAMILIES)}",
        )
    return read(family)


def weights_of(file: GgufFile) -> dict[str, Weights]:
    """The tensors of a file by name: blocks as they lie in it, other elements as float32."""
    found = {}
    for name, tensor in file.tensors.items():
        if tensor.format.plain is None:
            tensor.format.require()
            found[name] = Weights(tensor.rows, tensor.shape, tensor.format.name)
        else:
            found[name] = Weights(tensor.array().astype(np.float32, copy=False), tensor.shape)
    return found
