"""Rows of a kernel that are blocks of pixels, turned into rows of a result in C++."""

from __future__ import annotations

import math
from collections.abc import Sequence

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.lowering.blocks import BlockRows
from infuse.targets.text.sizes import size_text


def block_lines(rows: BlockRows) -> Sequence[str]:
    """C++ that makes `row` and `col` those of the result, or returns."""
    columns = f"(usize){size_text(rows.columns)}"
    lines = [f"const isize pixel = isize(col / {columns});", f"col = isize(col % {columns});"]
    counts, steps = [axis.count for axis in rows.axes], [axis.step for axis in rows.axes]
    row = ""
    if not rows.axes[0].is_whole:
        lines.append(f"const isize image = {_divided('row', dims.product(counts))};")
        row = "image"
    for i, axis in enumerate(rows.axes):
        block = _divided("row", dims.product(counts[i + 1 :]))
        if row:
            block = f"{block} % ({size_text(axis.count)})"
        pixel = _divided("pixel", math.prod(steps[i + 1 :]))
        pixel = f"{pixel} % {axis.step}" if i > 0 else pixel
        cut = f" - {axis.cut}" if axis.cut else ""
        lines.append(f"const isize at{i} = {block} * {axis.step} + {pixel}{cut};")
        size = f"({size_text(axis.size)})"
        if not axis.is_whole:
            lines.append(f"if ((usize)at{i} >= (usize){size}) return;")
        row = f"({row}) * {size} + at{i}" if row else f"at{i}"
    return [*lines, f"row = {row};"]


def _divided(index: str, by: Dim) -> str:
    return index if by == 1 else f"{index} / ({size_text(by)})"
