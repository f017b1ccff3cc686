"""Which token comes next, from the logits of all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.errors import DataError, OptionError
from infuse.immutable import Immutable

Floats = npt.NDArray[Any]
_NONE: Final[Mapping[int, float]] = MappingProxyType({})


class Sampling(Immutable):
    """How tokens are drawn. In this order: `logit_bias` is added; a token of the last
    `repetition_window` ones has its logit divided by `repetition_penalty` where it is positive,
    else multiplied; `frequency_penalty` for each time, and `presence_penalty` once, that the answer
    has a token, are taken off. With temperature 0 the token of the largest logit is taken, the
    first of equal ones. Else of the `top_k` largest (0: all), those of the softmax's `top_p` most
    probable mass, and those of at least `min_p` of the largest probability, one is drawn after the
    logits were divided by `temperature`. The same `seed` gives the same answer; None draws one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    repetition_window: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = _NONE
    seed: int | None = None

    def __post_init__(self) -> None:
        limits = {
            "temperature": (self.temperature, 0, math.inf),
            "top_k": (self.top_k, 0, math.inf),
            "top_p": (self.top_p, 0, 1),
            "min_p": (self.min_p, 0, 1),
            "repetition_penalty": (self.repetition_penalty, 1e-6, math.inf),
            "repetition_window": (self.repetition_window, 0, math.inf),
            "frequency_penalty": (self.frequency_penalty, -math.inf, math.inf),
            "presence_penalty": (self.presence_penalty, -math.inf, math.inf),
        }
        for name, (value, least, most) in limits.items():
            if not (least <= value <= most and math.isfinite(value)):
                raise OptionError(f"{name} is {value}, not a number from {least} to {most}")
        if self.seed is not None and self.seed < 0:
            raise OptionError(f"the seed is {self.seed}, and seeds are not negative")


class Sampler:
    """Draws the tokens of one answer."""

    def __init__(self, sampling: Sampling, words: int) -> None:
        self.sampling = sampling
        self._rng = np.random.default_rng(sampling.seed)
        self._counts: Counter[int] = Counter()
        self._is_plain = not (
            sampling.logit_bias
            or sampling.frequency_penalty
            or sampling.presence_penalty
            or sampling.repetition_penalty != 1
        )
        wrong = [token for token in sampling.logit_bias if not 0 <= token < words]
        if wrong:
            raise OptionError(f"logit_bias names token {wrong[0]}; there are {words}")

    def draw(self, logits: Floats, before: Sequence[int]) -> int:
        """The next token after those `before`, prompt and answer; DataError for logits that are no
        numbers.
        """
        scores = logits if self._is_plain else self._changed(logits, before)
        best = int(scores.argmax())
        if not math.isfinite(scores[best]):
            raise DataError(
                "the model gives no numbers for the next token",
                hint="its weights are damaged, or too large for the type of its cache",
            )
        token = best if self.sampling.temperature == 0 else self._drawn(scores)
        self._counts[token] += 1
        return token

    def _changed(self, logits: Floats, before: Sequence[int]) -> Floats:
        s, scores = self.sampling, logits.astype(np.float32)
        for token, bias in s.logit_bias.items():
            scores[token] += bias
        if s.repetition_penalty != 1 and s.repetition_window:
            recent = np.unique(np.asarray(before[-s.repetition_window :], np.int64))
            own = scores[recent]
            scores[recent] = np.where(
                own > 0, own / s.repetition_penalty, own * s.repetition_penalty
            )
        for token, count in self._counts.items():
            scores[token] -= s.frequency_penalty * count + s.presence_penalty
        return scores

    def _drawn(self, scores: Floats) -> int:
        s = self.sampling
        tokens = np.arange(len(scores))
        if 0 < s.top_k < len(scores):
            tokens = np.argpartition(-scores, s.top_k - 1)[: s.top_k]
        order = tokens[np.argsort(-scores[tokens], kind="stable")]
        wide = scores[order].astype(np.float64)
        shares = np.exp(wide - wide[0])
        shares /= shares.sum()
        held = len(order)
        if s.top_p < 1:
            held = min(held, int(np.searchsorted(np.cumsum(shares), s.top_p)) + 1)
        if s.min_p > 0:
            held = min(held, int((shares >= s.min_p * shares[0]).sum()))
        powers = np.exp((wide[:held] - wide[0]) / s.temperature)
        place = np.searchsorted(np.cumsum(powers), self._rng.random() * powers.sum(), side="right")
        return int(order[min(int(place), held - 1)])
