"""The frequencies of rotary places, by the `rope_type` of a configuration: models that were trained
on short texts read longer ones with lower frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.frontends.huggingface.files import Config
from infuse.tracing.arrays.array import Array
from infuse.tracing.arrays.elementwise import FUNCTIONS

Elements = np.ndarray[Any, np.dtype[np.float32]]
Rope = Mapping[str, Any]


@dataclass(frozen=True)
class Scaling:
    """`frequencies` of texts of so many tokens (an int, or an array without axes), and the `factor`
    of cosines and sines.
    """

    frequencies: Callable[[Any], Any]
    factor: float = 1.0


def scaling(rope: Rope, config: Config, theta: float, size: int) -> Scaling:
    """The scaling that a configuration names, for `size` numbers of a head that are turned."""
    kind = rope.get("rope_type") or rope.get("type", "default")
    if kind not in _KINDS:
        raise UnsupportedOperatorError(
            f"rotary places of type {kind!r} are not supported",
            hint=f"these are: {', '.join(_KINDS)}",
        )
    return _KINDS[kind](rope, config, theta, size)


def _plain(theta: float, size: int) -> Elements:
    exponents = np.arange(0, size, 2, dtype=np.float32) / size
    return np.asarray(theta**-exponents, np.float32)


def _fixed(frequencies: Elements, factor: float = 1.0) -> Scaling:
    return Scaling(lambda _: frequencies.astype(np.float32), factor)


def _default(rope: Rope, config: Config, theta: float, size: int) -> Scaling:
    return _fixed(_plain(theta, size))


def _linear(rope: Rope, config: Config, theta: float, size: int) -> Scaling:
    return _fixed(_plain(theta, size) / rope["factor"])


def _llama3(rope: Rope, config: Config, theta: float, size: int) -> Scaling:
    """Low frequencies divided by a factor, those between smoothly (Llama 3.1)."""
    frequencies = _plain(theta, size)
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    context = rope["original_max_position_embeddings"]
    waves = 2 * math.pi / frequencies
    smooth = (context / waves - low) / (high - low)
    between = (1 - smooth) * frequencies / factor + smooth * frequencies
    scaled = np.where(waves > context / low, frequencies / factor, between)
    return _fixed(np.where(waves < context / high, frequencies, scaled))


def _dynamic(rope: Rope, config: Config, theta: float, size: int) -> Scaling:
    """A larger base for texts that are longer than the trained ones (NTK-aware)."""
    most, factor = config.max_position_embeddings, float(rope["factor"])
    exponents = -(np.arange(0, size, 2, dtype=np.float32) / size)

    def frequencies(length: Any) -> Any:
        if isinstance(length, Array):
            longest = FUNCTIONS["maximum"](length, most).astype(np.float32)
        else:
            longest = np.float32(max(length, most))
        grown = (longest * np.float32(factor / most) - np.float32(factor - 1)) ** np.float32(
            size / (size - 2)
        )
        return (grown * np.float32(theta)) ** exponents

    return Scaling(frequencies)


def _context(rope: Rope, config: Config) -> float:
    """How long the trained texts were at most."""
    stated = rope.get("original_max_position_embeddings")
    stated = stated or config.get("original_max_position_embeddings")
    return float(stated or config.max_position_embeddings)


def _ratio(rope: Rope, config: Config) -> float:
    """How many times longer texts may be than the trained ones."""
    return float(rope.get("factor") or config.max_position_embeddings / _context(rope, config))


def _yarn(rope: Rope, config: Config, theta: float, size: int) -> Scaling:
    """High frequencies as they are, low ones divided by a factor, those between along a ramp (YaRN,
    arXiv 2309.00071).
    """
    factor, context = _ratio(rope, config), _context(rope, config)

    def place(rotations: float) -> float:
        """The number of the frequency that turns so often in a trained text."""
        turns = math.log(context / (rotations * 2 * math.pi))
        return size * turns / (2 * math.log(theta))

    first, last = place(rope.get("beta_fast") or 32), place(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    last += 0.001 if first == last else 0
    ramp = np.clip((np.arange(size // 2, dtype=np.float32) - first) / (last - first), 0, 1)
    plain = _plain(theta, size)
    return _fixed(plain / factor * ramp + plain * (1 - ramp), _yarn_factor(rope, factor))


def _yarn_factor(rope: Rope, factor: float) -> float:
    def grown(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    if rope.get("attention_factor") is not None:
        return float(rope["attention_factor"])
    whole, every = rope.get("mscale"), rope.get("mscale_all_dim")
    return grown(whole) / grown(every) if whole and every else grown(1)


def _longrope(rope: Rope, config: Config, theta: float, size: int) -> Scaling:
    """A factor for each frequency, other ones for texts longer than the trained ones (LongRoPE,
    arXiv 2402.13753).
    """
    context, ratio = _context(rope, config), _ratio(rope, config)
    plain = _plain(theta, size)
    short, long = (
        (plain / np.asarray(rope[name], np.float32)).astype(np.float32)
        for name in ("short_factor", "long_factor")
    )
    factor = rope.get("attention_factor")
    if factor is None:
        factor = math.sqrt(1 + math.log(ratio) / math.log(context)) if ratio > 1 else 1.0

    def frequencies(length: Any) -> Any:
        if isinstance(length, Array):
            return FUNCTIONS["where"](length > int(context), long, short)
        return long if length > context else short

    return Scaling(frequencies, float(factor))


_KINDS: Final[Mapping[str, Callable[[Rope, Config, float, int], Scaling]]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
}
