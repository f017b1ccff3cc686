"""Where the windows of convolutions and poolings lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from infuse.immutable import Immutable
from infuse.ir.graph import Array, Node
from infuse.passes.rules.common import attribute, data
from infuse.rewrite import require

Ints = tuple[int, ...]


class Window(Immutable):
    """Geometry of a convolution or pooling with its defaults written out; `pads` lists all begins,
    then all ends.
    """

    kernel: Ints
    strides: Ints
    dilations: Ints
    pads: Ints

    @staticmethod
    def of(node: Node) -> Window:
        """The window of a node that does not pad by itself (`require_explicit`)."""
        attributes = node.op.attributes()
        kernel = tuple(attributes["kernel_shape"]) or conv_weights(node)[2:]
        ones = (1,) * len(kernel)
        pads = (
            attributes["pads"]
            if attributes["auto_pad"] == "NOTSET" and attributes["pads"]
            else (0,) * 2 * len(kernel)
        )
        return Window(
            kernel,
            tuple(attributes["strides"]) or ones,
            tuple(attributes.get("dilations") or ones),
            pads,
        )

    @property
    def is_point(self) -> bool:
        """Whether it sees one pixel, and each in turn."""
        return all(k == s == 1 for k, s in zip(self.kernel, self.strides)) and not any(self.pads)

    def offset(self, tap: Sequence[int]) -> Ints:
        """How far a tap lies from the first one."""
        return tuple(i * d for i, d in zip(tap, self.dilations))

    def then(self, other: Window) -> Window:
        """The window through which `other` sees, after this one, what this one sees."""
        apart = [d * s for d, s in zip(other.dilations, self.strides)]
        steps = [
            math.gcd(d if k > 1 else 0, a if m > 1 else 0) or 1
            for d, k, a, m in zip(self.dilations, self.kernel, apart, other.kernel)
        ]
        reach = [
            (k - 1) * d + (m - 1) * a
            for d, k, a, m in zip(self.dilations, self.kernel, apart, other.kernel)
        ]
        return Window(
            tuple(r // d + 1 for r, d in zip(reach, steps)),
            tuple(s * t for s, t in zip(self.strides, other.strides)),
            tuple(steps),
            tuple(p + q * s for p, q, s in zip(self.pads, other.pads, self.strides * 2)),
        )

    def attributes(self) -> dict[str, Any]:
        """The attributes of a node with this window."""
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "dilations": self.dilations,
            "pads": self.pads,
            "auto_pad": "NOTSET",
        }


def require_explicit(*nodes: Node) -> None:
    """Refuse where a window pads by itself."""
    for node in nodes:
        require(
            attribute(node, "auto_pad") in ("NOTSET", "VALID"), f"the {node.kind} pads by itself"
        )


def conv_weights(node: Node) -> Ints:
    """The shape of a convolution's constant weights."""
    weights = node.inputs[1]
    assert weights is not None
    return data(weights).shape


def by_group(weights: Array, groups: int) -> Array:
    """Filters of a convolution as (group, filters of the group, channels, …)."""
    result: Array = weights.reshape(groups, -1, *weights.shape[1:])
    return result
