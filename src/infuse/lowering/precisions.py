"""In which precision each layer of a model computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from infuse.errors import OptionError
from infuse.immutable import Immutable, field
from infuse.ir.graph import Node
from infuse.lowering.kernel_table import kernels_of
from infuse.options import AUTO, PRECISIONS
from infuse.targets import DotType, Target

MIXED: Final = "mixed"
"""The precision of a model whose layers have several."""


class LayerPrecisions(Immutable):
    """A precision for every layer: `default`, but for those in `layers`, by the serial number of
    their node.

    It is what a layer may compute in: where the kernels of float32 are as fast, or its weights do
    not fit, it stays in float32.
    """

    default: str = "fp32"
    layers: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, precision: Precision) -> LayerPrecisions:
        """One precision for all layers, or the precisions themselves."""
        return cls(precision) if isinstance(precision, str) else precision

    @classmethod
    def some(cls, layers: Iterable[int], precision: str) -> LayerPrecisions:
        """One precision for the layers with these numbers, and fp32 for the others."""
        return cls("fp32", dict.fromkeys(layers, precision))

    def __getitem__(self, node: Node) -> str:
        return self.layers.get(node.serial, self.default)

    @property
    def names(self) -> list[str]:
        """The precisions that occur."""
        return [name for name in PRECISIONS if name in {self.default, *self.layers.values()}]

    def check(self, target: Target) -> None:
        """OptionError unless the target computes in all of these precisions."""
        for precision in {self.default, *self.layers.values()}:
            check_precision(precision, target)

    def __str__(self) -> str:
        """The precision of the model as a whole."""
        return self.default if self.names == [self.default] else MIXED


Precision = str | LayerPrecisions
"""One precision for all layers, or one for each."""


def check_precision(precision: str, target: Target) -> None:
    """OptionError unless the target computes in this precision."""
    if precision not in PRECISIONS:
        raise OptionError(
            f"there is no precision {precision!r}", hint=f"one of: {', '.join((*PRECISIONS, AUTO))}"
        )
    allowed = kernels_of(target.machine).precisions
    if allowed is not None and precision not in allowed:
        raise OptionError(
            f"the target {target.name} computes in {', '.join(sorted(allowed))}, and not in "
            f"{precision}",
            hint="leave the precision at fp32, or name another target",
        )
    if precision == "bf16x2" and not target.machine.has_bf16_tiles:
        raise OptionError(
            "precision bf16x2 needs a processor whose tile registers multiply bfloat16 (AMX), and "
            f"the target {target.name} has none: three products in place of one would be slower "
            "than fp32",
            hint="leave the precision at fp32, or compile for native on such a processor",
        )
    if precision == "bf16" and not multiplies_bfloat16(target):
        raise OptionError(
            "precision bf16 needs a processor that multiplies bfloat16 itself (AVX512-BF16, AMX, "
            "bf16 of ARM), and the "
            f"target {target.name} has none: emulated, it would be slower than fp32 and less exact",
            hint=(
                "leave the precision at fp32, or compile for the target native on such a "
                "processor; fp16, in which "
                "weights are stored, is had everywhere"
            ),
        )


def multiplies_bfloat16(target: Target) -> bool:
    """Whether the target has an instruction for products of bfloat16."""
    return target.machine.dot(DotType.BF16) is not None


def supported(target: Target) -> list[str]:
    """The precisions that the target computes in."""
    unusable = {
        "bf16": not multiplies_bfloat16(target),
        "bf16x2": not target.machine.has_bf16_tiles,
    }
    return [name for name in PRECISIONS if not unusable.get(name)]
