"""What models are run on when they are measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, SupportsIndex

from infuse.errors import OptionError
from infuse.options.compiling import Data
from infuse.options.fields import Checked, documented, option, whole_sizes

PEERS: Final = ("onnxruntime", "openvino")
"""Other runtimes that a model can be timed beside."""
ALL_PEERS: Final = "all"
BATCH_SIZE: Final = 1
IMAGE_SIZE: Final = 224
OTHER_SIZE: Final = 32
"""Usual sizes of dynamic axes."""


@documented
@dataclass(frozen=True, eq=False)
class Examples(Checked):
    """What a model is run on, and how its answers are scored. Inputs that are not given are
    random.
    """

    inputs: Data | None = option(
        None,
        "Examples by input name, along the first axis of each array (repeatable).",
        flag="--data",
        metavar="FILE.npz",
        form="archives",
    )
    labels: Any = option(None, "One label for each example.", metavar="FILE.npy", form="array")
    metric: str | Callable[..., float] | None = option(
        None,
        "The score: top1 (default with labels), top5, mse, mae beside labels; agreement, cosine, "
        "sqnr beside the other model; NAME:OUTPUT for one of several outputs; or FILE.py:FUNCTION, "
        "a function of the outputs of all runs and the labels.",
        metavar="NAME",
        form="metric",
    )
    batch: int | None = option(
        None, "Examples of a run, where the first axis is dynamic; default: 1.", least=1
    )
    validation: Data | None = option(
        None,
        "Examples to measure the score on, which the labels belong to; default: the data.",
        metavar="FILE.npz",
        form="archives",
    )

    dims: Mapping[str, int] | None = option(
        None,
        f"Size of a dynamic axis of random inputs; default: {BATCH_SIZE} for batch, "
        f"{IMAGE_SIZE} for height and width, else {OTHER_SIZE}.",
        flag="--dim",
        metavar="NAME=SIZE",
        form="sizes",
    )
    seed: int = option(0, "Seed of random inputs.", least=0)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of dynamic axes that are given."""
        return dict(self.dims or {})

    @classmethod
    def of(cls, data: Examples | Data | None) -> Examples:
        """The examples themselves, or those of arrays alone."""
        return data if isinstance(data, Examples) else cls(data)


@documented
@dataclass(frozen=True)
class Turns(Checked):
    """How often what is compared takes turns, and for how long."""

    rounds: int = option(5, "How often they take turns.", least=1)
    seconds: float = option(0.5, "Least length of one turn.", least=0)


@documented
@dataclass(frozen=True)
class BenchOptions(Checked):
    """What a model is timed beside, and at which sizes of a batch."""

    against: Sequence[str] = option(
        (),
        f"Also measure this runtime (repeatable): {', '.join(PEERS)}, or {ALL_PEERS} that are "
        "installed.",
        metavar="RUNTIME",
        form="texts",
    )
    batches: str | Sequence[int] | None = option(
        None,
        "Measure each of these batch sizes, as 1,2,4,8; the inputs' first axes must be dynamic.",
        flag="--batch",
        metavar="SIZES",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._read_sizes()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of a batch; none for the usual one."""
        return self._read_sizes()

    def _read_sizes(self) -> tuple[int, ...]:
        """What `sizes` gives. OptionError for a text that is no list of sizes."""
        return () if self.batches is None else whole_sizes("batches", self.batches)


def require_symbols(sizes: Mapping[str, int], symbols: Collection[str]) -> None:
    """OptionError unless all names that were given sizes are among a model's symbols, and all sizes
    are whole numbers.
    """
    if not isinstance(sizes, Mapping):
        raise OptionError(f"sizes of dynamic axes are {sizes!r}", hint="give numbers by name")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, SupportsIndex):
            raise OptionError(
                f"the dynamic axis {name!r} cannot be {size!r}", hint="a size is a whole number"
            )
    unknown = [name for name in sizes if name not in symbols]
    if unknown:
        hint = (
            f"its dynamic axes are {', '.join(symbols)}"
            if symbols
            else "all of its sizes are fixed"
        )
        raise OptionError(
            f"the model has no dynamic axis {', '.join(map(repr, unknown))}", hint=hint
        )
