"""The methods of compression, as options."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from infuse.errors import OptionError
from infuse.options.fields import Checked, documented, option, refusal

CALIBRATORS: Final = ("auto", "min-max", "percentile", "entropy", "mse")
GOALS: Final = ("macs", "latency")
CHANNELS, HIDDEN, BLOCKS = "channels", "hidden", "blocks"
KINDS: Final = (CHANNELS, HIDDEN, BLOCKS)
"""What can go: channels (neurons and heads are such, too), those of a hidden size that
normalizations join, and residual blocks.
"""


def part_or_number(text: str | float) -> tuple[float, bool]:
    """A number, that of a percentage over 100, and whether it was a percentage; NaN for anything
    else.
    """
    is_percentage = isinstance(text, str) and text.strip().endswith("%")
    try:
        number = float(text.strip().rstrip("%") if isinstance(text, str) else text)
    except (TypeError, ValueError):
        number = math.nan
    return (number / 100 if is_percentage else number), is_percentage


METHODS: Final[dict[str, type[Method]]] = {}
"""The methods by name, in the order of their classes."""


@dataclass(frozen=True)
class Method(Checked):
    """A way in which layers become smaller or faster."""

    name: ClassVar[str] = ""
    is_coded: ClassVar[bool] = False
    """Whether the result is meant for a file whose weights are entropy coded."""
    rounds_activations: ClassVar[bool] = False
    learns_rounding: ClassVar[bool] = False
    """Whether weights can learn to bear what is rounded."""
    bits: ClassVar[int | None] = None
    """Those of its weights, where these alone are rounded."""

    def __init_subclass__(cls) -> None:
        if cls.__dict__.get("name"):
            METHODS[cls.name] = cls

    @property
    def in_floats(self) -> Method | None:
        """What makes its layers in float32 whose weights can learn; None where none are made."""
        return None


@documented
@dataclass(frozen=True)
class Int8(Method):
    """Activations and weights as 8-bit integers, ranges from the data (default)."""

    name: ClassVar[str] = "int8"
    rounds_activations: ClassVar[bool] = True
    learns_rounding: ClassVar[bool] = True

    calibrator: str = option("auto", "How ranges of activations are chosen.", choices=CALIBRATORS)
    bias_correction: bool = option(True, "Take the mean errors of results back by the bias.")


@documented
@dataclass(frozen=True)
class Int16Activations(Int8):
    """Activations as 16-bit and weights as 8-bit integers, ranges from the data: with int8 and a
    bound for the layers that 8 bits hurt.
    """

    name: ClassVar[str] = "int16-activations"
    learns_rounding: ClassVar[bool] = False


@documented
@dataclass(frozen=True)
class Int8Dynamic(Method):
    """Activations and weights as 8-bit integers, ranges of activations from each run."""

    name: ClassVar[str] = "int8-dynamic"
    rounds_activations: ClassVar[bool] = True


@dataclass(frozen=True)
class FewBits(Method):
    """Weights of products as integers of few bits; the arithmetic stays in float32."""

    runtime: str | None = option(
        None,
        "onnxruntime: products with weights of few bits are its MatMulNBits.",
        metavar="NAME",
        choices=("onnxruntime",),
    )
    rounded_activations: bool = option(
        False, "Products with weights of few bits round their rows to 8 bits, too: faster."
    )


@documented
@dataclass(frozen=True)
class Int8Weights(Method):
    """Weights of products as 8-bit integers."""

    name: ClassVar[str] = "int8-weights"
    bits: ClassVar[int | None] = 8


@documented
@dataclass(frozen=True)
class Int4(FewBits):
    """Weights of products as 4-bit integers."""

    name: ClassVar[str] = "int4"
    bits: ClassVar[int | None] = 4


@documented
@dataclass(frozen=True)
class Int3(FewBits):
    """Weights of products as 3-bit integers."""

    name: ClassVar[str] = "int3"
    bits: ClassVar[int | None] = 3


@documented
@dataclass(frozen=True)
class Int2(FewBits):
    """Weights of products as 2-bit integers."""

    name: ClassVar[str] = "int2"
    bits: ClassVar[int | None] = 2


@documented
@dataclass(frozen=True)
class LowRank(Method):
    """Layers as chains of two or three smaller ones."""

    name: ClassVar[str] = "low-rank"

    @property
    def in_floats(self) -> Method:
        return self


@documented
@dataclass(frozen=True)
class Clusters(Method):
    """Weights of few values, which the .infuse file has in few bits."""

    name: ClassVar[str] = "clusters"
    is_coded: ClassVar[bool] = True


_SPARSITY = "Zeros for this part of the weights, 80% or 0.8; also with int8."
_BLOCK = (
    "Where zeros lie together: 16x1, 16x4, 4x1, 1x1 (output channels x depth) or 2:4; default: "
    "16x1, and 16x4 with int8."
)


_PATTERNS = (
    "give a block (output channels x depth) like 16x1, 16x4, 8x1, 8x4, 4x1, 4x4 or 1x1, or 2:4"
)
_CHANNELS_TOGETHER, _ROWS_TOGETHER = (1, 4, 8, 16), (1, 4)
"""Sizes of blocks: parts of a vector, and what one instruction multiplies."""


def _check_zeros(sparsity: str | float, block: str) -> None:
    """OptionError unless a part of the weights can be zero in blocks of this pattern."""
    part, _ = part_or_number(sparsity)
    if not 0 < part < 1:
        raise refusal("sparsity", f"{sparsity!r} is not a part of weights", "give 80% or 0.8")
    if not re.fullmatch(r"auto|[1-9]\d*[x:][1-9]\d*", block):
        raise refusal("block", f"{block!r} is not a pattern of zeros", _PATTERNS)
    sizes = re.fullmatch(r"(\d+)x(\d+)", block)
    if sizes and (int(sizes[1]) not in _CHANNELS_TOGETHER or int(sizes[2]) not in _ROWS_TOGETHER):
        raise refusal("block", f"{block!r}: no kernel multiplies by such blocks", _PATTERNS)


@documented
@dataclass(frozen=True)
class Sparse(Method):
    """Layers many of whose weights are zero, in float32."""

    name: ClassVar[str] = "sparse"

    sparsity: str | float = option("80%", _SPARSITY, flag="--sparse", metavar="PART")
    block: str = option("auto", _BLOCK, metavar="PATTERN")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_zeros(self.sparsity, self.block)

    @property
    def in_floats(self) -> Method:
        return self


@documented
@dataclass(frozen=True)
class SparseInt8(Int8):
    """Layers many of whose weights are zero, with activations and weights as 8-bit integers."""

    name: ClassVar[str] = "sparse-int8"

    sparsity: str | float = option("80%", _SPARSITY, flag="--sparse", metavar="PART")
    block: str = option("auto", _BLOCK, metavar="PATTERN")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_zeros(self.sparsity, self.block)

    @property
    def in_floats(self) -> Method:
        return Sparse(self.sparsity, "16x4" if self.block == "auto" else self.block)


@documented
@dataclass(frozen=True)
class Prune(Checked):
    """Channels, heads and neurons that matter least are removed; with data, channels of hidden
    sizes that normalizations join, and whole residual blocks may go, too.
    """

    name: ClassVar[str] = "prune"

    part: str | float = option(
        "",
        "Remove channels, heads, neurons and, where there are data, channels of hidden sizes and "
        "residual blocks: 50% of the multiplications.",
        flag="--prune",
        metavar="PART",
    )
    of: str = option(
        "macs",
        "What --prune is a part of: multiplications or time of a run.",
        flag="--prune-goal",
        choices=GOALS,
        noun="goal",
    )
    rounds: int = option(
        1,
        "Rounds of pruning, each with its part of the tuning.",
        flag="--prune-rounds",
        least=1,
    )
    kinds: str | Sequence[str] | None = option(
        None,
        "What may go, with commas between: channels, hidden (sizes that normalizations join), "
        "blocks (residual ones); default: what changes the outputs least.",
        flag="--prune-kinds",
        metavar="KINDS",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        number, is_percentage = part_or_number(self.part)
        if (isinstance(self.part, str) and not is_percentage) or not 0 < number < 1:
            raise refusal(
                "part",
                f"is {self.part!r}, which is not a part of the model",
                "50% of the multiplications, or 0.5",
            )
        unknown = sorted(self.named - set(KINDS))
        if unknown or (self.kinds is not None and not self.named):
            raise OptionError(
                f"nothing that can be pruned is called {', '.join(unknown) or 'so'}",
                hint=f"one or more of {', '.join(KINDS)}",
            )

    @property
    def share(self) -> float:
        """The part that is to go, below 1."""
        return part_or_number(self.part)[0]

    @property
    def named(self) -> set[str]:
        """The kinds that are named; none for those that change the outputs least."""
        kinds = self.kinds.split(",") if isinstance(self.kinds, str) else self.kinds or ()
        return {each.strip() for each in kinds}

    def kinds_for(self, has_data: bool) -> tuple[str, ...]:
        """What may go. OptionError for kinds that only data can judge, where there are none."""
        if not self.named:
            return KINDS if has_data else (CHANNELS,)
        if not has_data and self.named != {CHANNELS}:
            raise OptionError(
                "what hidden sizes and blocks change is measured on data, and there are none",
                hint="give some (--data, data=), or prune channels alone",
            )
        return tuple(kind for kind in KINDS if kind in self.named)
