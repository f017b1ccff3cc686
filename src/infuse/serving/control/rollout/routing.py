"""Labels, splits and shadows of one model: what the configuration says, and what an operator set
since.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from infuse.errors import ConfigurationError, NotFoundError, OptionError, UnavailableError
from infuse.serving.control.model_config import MOST_WEIGHT, ModelConfig
from infuse.serving.control.rollout.events import EventLog
from infuse.serving.control.rollout.snapshot import Routes

Versions = Callable[[], Collection[int]]

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_LABEL_RULE: Final = (
    "a label begins with a letter and has letters, digits, '.', '_' and '-', at most 64"
)


class Routing:
    """Names of versions and the weights written by them. `loaded` and `known` say which versions
    there are.
    """

    def __init__(
        self,
        model: str,
        config: ModelConfig,
        loaded: Versions,
        existing: Versions,
        events: EventLog,
    ) -> None:
        self._events = events
        self.model, self.loaded, self.versions = model, loaded, existing
        self.where = f"model {model!r}"
        _check(config)
        self.configured = Routes.of(config)
        self.current = Routes.of(config)

    def configure(self, config: ModelConfig) -> None:
        """Take what has changed in the configuration; ConfigurationError leaves all as it was."""
        _check(config)
        self.take(self.configured, self.current, Routes.of(config))

    def take(self, before: Routes, current: Routes, configured: Routes) -> None:
        """Become `current`, but as `configured` where that differs from `before`; labels are taken
        one by one.
        """
        labels = dict(current.labels)
        for label in before.labels.keys() | configured.labels.keys():
            if before.labels.get(label) != configured.labels.get(label):
                labels.pop(label, None)
                labels.update(
                    {label: configured.labels[label]} if label in configured.labels else {}
                )
        self.current = Routes(
            labels=labels,
            split=dict(current.split if before.split == configured.split else configured.split),
            shadow=dict(
                current.shadow if before.shadow == configured.shadow else configured.shadow
            ),
        )
        self.configured = configured

    def number(self, version: str) -> int | None:
        """The number that a version or label stands for, loaded or not; None for a label that is
        not set.
        """
        return int(version) if _NUMBER.fullmatch(version) else self.current.labels.get(version)

    def resolve(self, version: str) -> int:
        """The loaded version of a number or label; NotFoundError, UnavailableError."""
        number = self.number(version)
        if number is None:
            labels = ", ".join(sorted(self.current.labels)) or "none"
            raise NotFoundError(
                f"there is no version or label {version[:80]!r}",
                where=self.where,
                hint=f"its versions are {_listed(self.versions())}, its labels {labels}",
            )
        self.require_loaded(number)
        return number

    def require_loaded(self, number: int) -> None:
        """UnavailableError if the version is not loaded, NotFoundError if there is none."""
        if number in self.loaded():
            return
        if number in self.versions() or number in self.current.labels.values():
            raise UnavailableError(
                f"version {number} is not loaded",
                where=self.where,
                hint=f"loaded are {_listed(self.loaded())}",
            )
        raise NotFoundError(
            f"there is no version {number}",
            where=self.where,
            hint=f"its versions are {_listed(self.versions())}",
        )

    def set_label(self, label: str, version: int) -> None:
        """Let a label stand for a loaded version; an error leaves it as it was."""
        if not _LABEL.fullmatch(label):
            raise OptionError(f"{label[:80]!r} is not a label", where=self.where, hint=_LABEL_RULE)
        self.require_loaded(version)
        self.current.labels[label] = version
        self._events.tell("label_set", version, f"label {label!r}")

    def remove_label(self, label: str) -> None:
        """Forget a label; OptionError while the split or the shadows name it."""
        if label not in self.current.labels:
            raise NotFoundError(f"there is no label {label[:80]!r}", where=self.where)
        for part, names in (("split", self.current.split), ("shadow", self.current.shadow)):
            if label in names:
                raise OptionError(
                    f"the {part} uses the label {label!r}",
                    where=self.where,
                    hint=f"change the {part} first",
                )
        version = self.current.labels.pop(label)
        self._events.tell("label_removed", version, f"label {label!r}")

    def set_split(self, weights: Mapping[str, float]) -> None:
        """Weights by version or label, all loaded, at least one above 0; none at all: no split."""
        self._check_weights(weights, "split", MOST_WEIGHT)
        if weights and not any(weights.values()):
            raise OptionError("the weights of a split are all 0", where=self.where)
        self.current.split = dict(weights)

    def set_shadow(self, shares: Mapping[str, float]) -> None:
        """The parts of the traffic, from 0 to 1, that loaded versions or labels get copies of;
        none: no shadows.
        """
        self._check_weights(shares, "shadow", 1.0)
        self.current.shadow = dict(shares)
        for number, share in self.shadows():
            self._events.tell("shadow_set", number, "", share)
        if not shares:
            self._events.tell("shadow_set", 0, "no shadows")

    def weights(self) -> list[tuple[int, float]]:
        """(version, weight > 0) of the split, loaded ones only, each once, rising."""
        return self._numbers(self.current.split, self.loaded())

    def shadows(self) -> list[tuple[int, float]]:
        """(version, share > 0) of the shadows, loaded ones only."""
        return self._numbers(self.current.shadow, self.loaded())

    def named(self) -> Iterator[int]:
        """The versions that labels, split and shadows name."""
        yield from self.current.labels.values()
        for names in (self.current.split, self.current.shadow):
            for name in names:
                number = self.number(name)
                if number is not None:
                    yield number

    def _numbers(
        self, names: Mapping[str, float], loaded: Collection[int]
    ) -> list[tuple[int, float]]:
        sums: dict[int, float] = {}
        for name, weight in names.items():
            number = self.number(name)
            if number is not None and weight > 0 and number in loaded:
                sums[number] = sums.get(number, 0.0) + weight
        return sorted(sums.items())

    def _check_weights(self, weights: Mapping[str, float], part: str, most: float) -> None:
        for name, weight in weights.items():
            if not (0 <= weight <= most and math.isfinite(weight)):
                limit = f"between 0 and {most:g}"
                raise OptionError(
                    f"the {part} of {name[:80]!r} must be {limit}, found {weight}", where=self.where
                )
            self.resolve(name)


def _check(config: ModelConfig) -> None:
    """ConfigurationError for labels that are none, and for names that neither labels nor numbers
    explain.
    """
    for label in config.labels:
        if not _LABEL.fullmatch(label):
            raise ConfigurationError(
                f"{label[:80]!r} is not a label", where="labels", hint=_LABEL_RULE
            )
    for part, names in (("split", config.split), ("shadow", config.shadow)):
        for name, weight in names.items():
            if not _NUMBER.fullmatch(name) and name not in config.labels:
                raise ConfigurationError(
                    f"{name[:80]!r} is neither a version nor a label", where=part
                )
            if not math.isfinite(weight):
                raise ConfigurationError(
                    f"the weight of {name[:80]!r} must be finite, found {weight}", where=part
                )
    if config.split and not any(config.split.values()):
        raise ConfigurationError("the weights are all 0", where="split")


def _listed(versions: Collection[int]) -> str:
    return ", ".join(map(str, sorted(versions))) or "none"
