"""What a compression is asked for: methods, what it may lose, and how it measures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infuse.errors import OptionError
from infuse.options.fields import Checked, documented, fields_of, option, refusal
from infuse.options.methods import (
    METHODS,
    Clusters,
    Int2,
    Int3,
    Int4,
    Int8,
    Int8Dynamic,
    Int8Weights,
    Int16Activations,
    LowRank,
    Method,
    Prune,
    Sparse,
    SparseInt8,
    part_or_number,
)
from infuse.options.rules import LEVELS

__all__ = [
    "METHODS",
    "Clusters",
    "CompressOptions",
    "Contract",
    "Int2",
    "Int3",
    "Int4",
    "Int8",
    "Int8Dynamic",
    "Int8Weights",
    "Int16Activations",
    "LowRank",
    "Method",
    "Prune",
    "Sparse",
    "SparseInt8",
    "Tune",
]

Methods = str | Method | Prune | Sequence[str | Method | Prune]


def methods_of(asked: Methods | None) -> tuple[tuple[Method, ...], Prune | None]:
    """The methods of a request, int8 where it names nothing; and its pruning, if it has one.
    OptionError for other names, for none, and for the same twice.
    """
    listed = [Int8()] if asked is None else [asked] if _is_one(asked) else list(asked)  # type: ignore[arg-type]
    made = [_method(each) for each in listed]
    prunings = [each for each in made if isinstance(each, Prune)]
    methods = tuple(each for each in made if isinstance(each, Method))
    names = [each.name for each in made]
    if not made:
        raise OptionError("no method is named", hint=f"methods: {', '.join(METHODS)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(f"{' and '.join(twice)} is asked for twice", hint="name each method once")
    return methods, prunings[0] if prunings else None


def with_fields(
    asked: Methods | None, prune: Prune | None, given: Mapping[str, Any]
) -> tuple[Method | Prune, ...]:
    """The methods, each with those of the fields that it has, after the pruning, if there is one.
    OptionError for a field that none of them has.
    """
    methods, own = methods_of(asked) if asked is not None or prune is None else ((), None)
    names = {type(method): {each.name for each in fields_of(type(method))} for method in methods}
    for name in given:
        if not any(name in each for each in names.values()):
            told = " and ".join(method.name for method in methods) or "pruning"
            raise refusal(
                name, f"means nothing for {told}", f"it is for {', '.join(_having(name))}"
            )
    made = [
        replace(method, **{name: given[name] for name in given if name in names[type(method)]})
        for method in methods
    ]
    return (*filter(None, (prune, own)), *made)


def _having(name: str) -> list[str]:
    """The methods that have a field."""
    return [each for each, kind in METHODS.items() if any(f.name == name for f in fields_of(kind))]


def _is_one(asked: Any) -> bool:
    return isinstance(asked, str | Checked) or not isinstance(asked, Iterable)


def _method(each: Any) -> Method | Prune:
    if isinstance(each, Method | Prune):
        return each
    if isinstance(each, str) and each in METHODS:
        return METHODS[each]()
    raise OptionError(f"there is no method {each!r}", hint=f"methods: {', '.join(METHODS)}")


@documented
@dataclass(frozen=True)
class Contract(Checked):
    """What a compression may lose, and how long the search may take."""

    max_drop: str | float | None = option(
        None,
        "What the score may lose: 0.5% of that of the original, or 0.005 in its unit.",
        metavar="LOSS",
    )
    minutes: float | None = option(
        None, "Time that the search may take.", metavar="N", least=0, excluded=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        number, _ = part_or_number(0 if self.max_drop is None else self.max_drop)
        if not (math.isfinite(number) and number >= 0):
            raise refusal(
                "max_drop",
                f"is {self.max_drop!r}, which bounds nothing",
                "0.5% of the original's score, or 0.005 in the unit of the score",
            )


@documented
@dataclass(frozen=True)
class Tune(Checked):
    """How what was lost is learned back on the data: for so many epochs, or for so many minutes
    where there are none.
    """

    epochs: int | None = option(
        None, "Tune it for so many epochs.", flag="--tune-epochs", metavar="N", least=1
    )
    minutes: float | None = option(
        None,
        "Tune the compressed model on the data, by the original's answers and the labels: with "
        "--prune, --int8, --sparse or --low-rank.",
        flag="--tune",
        metavar="MINUTES",
        least=0,
        excluded=True,
    )
    features: float = option(
        0.0,
        "With --tune: draw values inside the model to the original's, too; 0.1 to 10, default: by "
        "its answers alone.",
        flag="--tune-features",
        metavar="WEIGHT",
        least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is None and self.minutes is None:
            if self.features:
                raise refusal(
                    "features",
                    "say what a tuning learns from, and nothing is tuned",
                    "tune, too (--tune MINUTES, tune=Tune(minutes=…))",
                )
            raise OptionError("a tuning needs an end", hint="give epochs or minutes")

    @classmethod
    def flat(cls, **fields: Any) -> Tune | None:
        """The tuning of these fields; None where nothing asks for one."""
        asked = [v for name, v in fields.items() if v is not None and (v or name != "features")]
        return cls(**fields) if asked else None


@documented
@dataclass(frozen=True)
class CompressOptions(Checked):
    """How layers are measured and prepared, and what is made of the result."""

    level: str = option(
        "all",
        "How much of the result is rewritten; basic keeps to standard operators.",
        choices=LEVELS,
    )
    threads: int | None = option(
        None, "Threads of a run; default: all processors that this process may use.", least=1
    )
    equalize: bool = option(
        True, "Move scales of channels between layers where these err less for it."
    )
    rotate: bool = option(
        True, "Rotate channels inside the model, with data, where layers err less for it."
    )
    allow_slower: bool = option(False, "Compress layers that float32 computes as fast here, too.")
