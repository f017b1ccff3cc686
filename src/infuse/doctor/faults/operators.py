"""Conditions that several runtimes' faults share."""

from __future__ import annotations

from typing import Final

from infuse.doctor.facts import FileNode

ML: Final = "ai.onnx.ml"
_SMALL: Final = ("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "TopK", "SequenceLength")


def is_float(node: FileNode) -> bool:
    """Whether the first operand has fractions."""
    dtype = node.dtype(0)
    return dtype is not None and dtype.is_float


def is_symbolic(node: FileNode) -> bool:
    """Whether a size of the first operand is open."""
    sizes = node.sizes(0)
    return sizes is None or any(not isinstance(size, int) or size == 0 for size in sizes)


def is_even_size(node: FileNode) -> bool:
    """Whether the attribute size is even."""
    return int(node.attribute("size", 1)) % 2 == 0


def is_bounded(node: FileNode) -> bool:
    """Whether all operands are constants, sizes, places or truth values, or are computed from such:
    numbers that are far from the limits of their type.
    """
    pending, seen = [node], {node}
    while pending:
        each = pending.pop()
        for index in range(len(each.inputs)):
            if not each.has(index) or each.constant(index) is not None:
                continue
            source = each.producer(index)
            if source is None:
                return False
            if source.kind in _SMALL or (source.kind == "Cast" and _casts_truth(source)):
                continue
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return True


def _casts_truth(node: FileNode) -> bool:
    dtype = node.dtype(0)
    return dtype is not None and dtype.is_bool


def labels(node: FileNode) -> int:
    """How many labels a classifier has."""
    names = ("classlabels_ints", "classlabels_int64s", "classlabels_strings")
    return max(len(node.attribute(name) or ()) for name in names)


def loses_base_value(node: FileNode) -> bool:
    """Whether a row may end in leaves that do not vote for a target whose base value is not 0."""
    base = node.attribute("base_values") or ()
    votes: dict[tuple[int, int], set[int]] = {}
    keys = zip(node.attribute("target_treeids", ()), node.attribute("target_nodeids", ()))
    for key, target in zip(keys, node.attribute("target_ids", ())):
        votes.setdefault(key, set()).add(target)
    leaves: dict[int, list[set[int]]] = {}
    modes = node.attribute("nodes_modes", ())
    places = zip(node.attribute("nodes_treeids", ()), node.attribute("nodes_nodeids", ()))
    for place, mode in zip(places, modes):
        if mode == "LEAF":
            leaves.setdefault(place[0], []).append(votes.get(place, set()))
    return any(
        value != 0 and all(any(target not in leaf for leaf in each) for each in leaves.values())
        for target, value in enumerate(base)
    )


def splits_by_a_number(node: FileNode) -> bool:
    """Whether SplitToSequence gets one size for all parts, and is told to drop the axis."""
    return not node.attribute("keepdims", 1) and node.has(1) and node.sizes(1) in ((), None)
