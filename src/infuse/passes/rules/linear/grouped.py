"""Convolutions side by side and convolutions in groups: one for the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.passes.rules.common import attribute, data, require_float, require_own, require_shape
from infuse.passes.rules.convolution.convolution import convolution
from infuse.passes.rules.convolution.window import conv_weights
from infuse.rewrite import Patch, Rule, require

SPLIT = "split from groups"
"""Metadata of convolutions that stay split."""
_ORDER = "a library may sum for more filters in another order"


def _convolution(value: Value, root: Node) -> Node | None:
    """The convolution with constant filters that makes `value` for `root` alone, None where there
    is none.
    """
    node = value.producer
    if (
        node is None
        or node.kind != "Conv"
        or node.op.domain
        or node.graph is not root.graph
        or len(value.uses) > 1
    ):
        return None
    return node if all(v is None or v.is_const for v in node.inputs[1:]) else None


def _alike(a: Node, b: Node) -> bool:
    """Whether two convolutions differ in their filters only, and these have one shape."""
    return a.op == b.op and conv_weights(a)[1:] == conv_weights(b)[1:]


def _joined(nodes: Sequence[Node]) -> list[Any]:
    """Filters of all nodes one after another, and biases where there are any."""
    weights = [node.inputs[1] for node in nodes]
    joined = [np.concatenate([data(w) for w in weights if w is not None])]
    biases = [node.input(2) for node in nodes]
    if any(b is not None for b in biases):
        zeros = [np.zeros(conv_weights(node)[0], dtype=joined[0].dtype) for node in nodes]
        joined.append(np.concatenate([z if b is None else data(b) for b, z in zip(biases, zeros)]))
    return joined


def _axis(node: Node, rank: int) -> int:
    return int(attribute(node, "axis")) % rank


class MergeSplitConvs(Rule):
    """Concat of a Conv of each part of Split(x), channels in order → one Conv in groups"""

    rows = ("G23",)
    reads = ("Conv",)
    rounding = _ORDER
    shares = True
    examples = tuple(
        {
            "xs": [
                Call(
                    "Conv",
                    (_part, np.full((3, 2 // group, 2), n, np.float32), *bias),
                    {"group": group},
                )
                for n, _part in enumerate((_parts, _parts[1]))
            ],
            "root": {"axis": 1},
        }
        for _parts in (Call("Split", ((2, 4, 5),), {"axis": 1, "num_outputs": 2}),)
        for group, bias in ((1, (np.ones(3, np.float32),)), (1, ()))
    )

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        require(len(xs) > 1, "there is one part")
        require_shape(*xs)
        require(_axis(root, xs[0].rank) == 1, "it does not join channels")
        convs = self._convs(xs, root)
        require(
            not any(SPLIT in conv.metadata for conv in convs), "they were one, and split on request"
        )
        same = all(
            _alike(a, b) and conv_weights(a)[0] == conv_weights(b)[0] for a, b in pairwise(convs)
        )
        require(same, "the convolutions differ")
        first = convs[0].inputs[0]
        split = first.producer if first is not None else None
        require(
            split is not None and split.kind == "Split" and not split.op.domain,
            "the parts come from no Split",
        )
        assert split is not None
        require([c.inputs[0] for c in convs] == split.outputs, "the parts are in another order")
        require(_axis(split, xs[0].rank) == 1, "it does not split channels")
        channels = sum(conv_weights(c)[1] * attribute(c, "group") for c in convs)
        require(
            split.inputs[0] is not None and split.inputs[0].shape[1] == channels,
            "the channels are not known",
        )

    def build(self, xs: tuple[Value, ...], root: Node) -> Any:
        convs = self._convs(xs, root)
        first = convs[0].inputs[0]
        assert first is not None
        assert first.producer is not None
        attributes = {
            **convs[0].op.attributes(),
            "group": attribute(convs[0], "group") * len(convs),
        }
        return Call("Conv", (first.producer.inputs[0], *_joined(convs)), attributes)

    def _convs(self, xs: tuple[Value, ...], root: Node) -> list[Node]:
        convolutions = [node for x in xs if (node := _convolution(x, root)) is not None]
        require(len(convolutions) == len(xs), "an operand is not a convolution for it alone")
        return convolutions


class MergeFilters(Rule):
    """Concat(Conv(x, a), Conv(x, b)) of channels → Conv(x, a and b), with other operands left as
    they are
    """

    rows = ("G23",)
    reads = ("Conv",)
    rounding = _ORDER
    shares = True
    examples = tuple(
        {
            "xs": [
                *(
                    Call("Conv", (_image, np.full((n, 3, 2), n, np.float32)), {"pads": (1, 0)})
                    for n in (2, 4)
                ),
                *more,
            ],
            "root": {"axis": 1},
        }
        for _image in (Call("Neg", ((2, 3, 5),)),)
        for more in ((), ((2, 1, 5),))
    )

    def match(self, xs: Variable) -> Any:
        return ops.concat(ops.rest(xs))

    def when(self, xs: tuple[Value, ...], root: Node) -> None:
        require_shape(*xs)
        require(len(xs) > 1 and _axis(root, xs[0].rank) == 1, "it does not join channels")
        require(
            len(self._runs(xs, root)) < len(xs),
            "no neighbours are convolutions of one tensor that are alike",
        )

    def build(self, xs: tuple[Value, ...], root: Node) -> Any:
        parts: list[Any] = []
        for run in self._runs(xs, root):
            nodes = [v.producer for v in run if v.producer is not None]
            many = len(run) > 1
            parts.append(
                Call("Conv", (nodes[0].inputs[0], *_joined(nodes)), nodes[0].op.attributes())
                if many
                else run[0]
            )
        return parts[0] if len(parts) == 1 else ops.concat(*parts, axis=1)

    def _runs(self, xs: tuple[Value, ...], root: Node) -> list[list[Value]]:
        """Neighbours that one convolution can make."""
        runs: list[list[Value]] = []
        for x in xs:
            before = _convolution(runs[-1][-1], root) if runs else None
            node = _convolution(x, root)
            if before is not None and node is not None and self._fit(before, node):
                runs[-1].append(x)
            else:
                runs.append([x])
        return runs

    def _fit(self, a: Node, b: Node) -> bool:
        return (
            a is not b
            and a.inputs[0] is b.inputs[0]
            and attribute(a, "group") == 1
            and _alike(a, b)
        )


class SplitGroupedConv(Rule):
    """Conv in groups → a Conv of each part of Split(x), and Concat; for runtimes that are slow with
    groups
    """

    rows = ("G23",)
    rounding = _ORDER
    opt_in = True
    examples = (
        {"x": (2, 4, 5), "w": (6, 2, 2), "b": (6,), "conv": {"group": 2}},
        {
            "x": (2, 6, 5, 5),
            "w": (6, 2, 2, 2),
            "b": (6,),
            "conv": {"group": 3, "pads": (1, 1, 0, 0)},
        },
    )

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return convolution("Conv", x, w, b)

    def when(self, x: Value, w: Value, conv: Node) -> None:
        require_float(w)
        require_own(w)
        require_shape(x)
        groups, channels = attribute(conv, "group"), x.shape[1]
        require(groups > 1, "there is one group")
        require(isinstance(channels, int) and channels > groups, "each channel is a group")

    def build(self, x: Value, w: Value, b: Value | None, conv: Node, patch: Patch) -> Any:
        groups = int(attribute(conv, "group"))
        parts = ops.split(x, axis=1, num_outputs=groups)
        filters = np.split(data(w), groups)
        biases = [()] * groups if b is None else [(part,) for part in np.split(data(b), groups)]
        attributes = {**conv.op.attributes(), "group": 1}
        made = [Call("Conv", (parts[i], filters[i], *biases[i]), attributes) for i in range(groups)]
        for call in made:
            patch.node(call).metadata[SPLIT] = str(groups)
        return ops.concat(*made, axis=1)

    def note(self, conv: Node) -> str:
        return f"{attribute(conv, 'group')} convolutions in place of as many groups"


RULES = (MergeSplitConvs, MergeFilters, SplitGroupedConv)
