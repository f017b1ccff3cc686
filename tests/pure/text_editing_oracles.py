"""What operators that edit, split and join texts give, in plain Python."""

import itertools
import re
from typing import Any

import numpy as np

from infuse.testing.samples import Row


def _each(row: Row, function: Any, dtype: Any = object) -> list[Any]:
    (x,) = row.inputs
    return [np.array([function(v) for v in x.reshape(-1)], dtype).reshape(x.shape)]


def _changed(row: Row) -> list[Any]:
    """ASCII letter by letter."""
    how = row.op.change
    case = str.upper if how.endswith("upper") else str.lower
    if how == "strip":
        return _each(row, lambda text: re.sub(r"(?a)\A\s+|\s+\Z", "", text))
    if how.startswith("ascii"):
        return _each(row, lambda t: "".join(case(c) if c.isascii() else c for c in t))
    return _each(row, case)


def _replaced(row: Row) -> list[Any]:
    """By Python's own patterns, which find an empty match behind another one as well; RE2 does not,
    so that such are left out.
    """
    op = row.op
    template = op.replacement.replace("\\0", "\\g<0>")

    def replace(text: str) -> str:
        end = [-1]

        def one(match: Any) -> str:
            if not match[0] and match.start() == end[0]:
                return ""
            end[0] = match.end()
            return str(match.expand(template))

        return re.sub(op.pattern, one, text, count=int(op.once), flags=re.ASCII)

    return _each(row, replace)


def _part(row: Row) -> list[Any]:
    """Character by character."""
    op = row.op

    def part(text: str) -> str:
        first = op.start if op.start >= 0 else len(text) + op.start
        places = range(max(first, 0), max(first, 0) + op.length)
        return "".join(text[i] for i in places if i < len(text))

    return _each(row, part)


def _length(row: Row) -> list[Any]:
    size = {"byte": lambda t: len(t.encode()), "character": len}[row.op.unit]
    return _each(row, size, np.int32)


_FAST = {
    7: [6, 5, 0, 1, 3, 4, 3, 6],
    1 << 31: [
        *(797982799, 920614371, 1411183803, 2108231649),
        *(796528717, 1925030429, 778092979, 2134391580),
    ],
}
_STRONG = {
    7: [2, 2, 1, 0, 4, 3, 6, 5],
    1 << 31: [
        *(1810264272, 1307228430, 1919365281, 218089434),
        *(1500694432, 1966001107, 471568076, 423687046),
    ],
}
"""What TensorFlow 2.21 gives."""


def _bucket(row: Row) -> list[Any]:
    """By lists."""
    return [np.array((_STRONG if row.op.key else _FAST)[row.op.buckets], np.int64)]


def _formatted(row: Row) -> list[Any]:
    """Python's own formats."""
    (x,) = row.inputs
    if x.dtype == bool:
        return _each(row, lambda v: str(bool(v)).lower())
    form = row.op.format[1:]
    convert = float if x.dtype.kind == "f" else int
    return _each(row, lambda v: (f"{{:>{form}}}" if form[0] != "0" else f"{{:{form}}}").format(
        convert(v)))  # fmt: skip


def _split(row: Row) -> list[Any]:
    op = row.op
    found: list[tuple[int, int, str]] = []
    counts = []
    for number, text in enumerate(row.inputs[0].tolist()):
        if op.by == "delimiter":
            parts = text.split(op.delimiter, op.most)
        elif op.by == "blanks":
            parts = re.findall(r"(?a)\S+", text)
        else:
            parts = list(text)
        found += [(number, place, part) for place, part in enumerate(parts)]
        counts.append(len(parts))
    columns = list(zip(*found)) or [(), (), ()]
    rows, places = (np.array(column, np.int64) for column in columns[:2])
    return [rows, places, np.array(columns[2], object), np.array(counts, np.int64)]


def _joined(row: Row) -> list[Any]:
    (x,) = row.inputs
    result = np.empty(np.delete(x.shape, row.op.axis), object)
    for place in np.ndindex(result.shape):
        at = list(place)
        at.insert(row.op.axis % x.ndim, slice(None))
        result[place] = row.op.separator.join(x[tuple(at)].tolist())
    return [result]


def _runs(row: Row) -> list[Any]:
    op, (parts, splits) = row.op, row.inputs
    made: list[str] = []
    ends = [0]
    for begin, end in itertools.pairwise(splits.tolist()):
        words, before = parts[begin:end].tolist(), len(made)
        for width in op.widths:
            pad = min(width - 1 if op.pad_width < 0 else op.pad_width, width - 1)
            line = [op.left] * pad + words + [op.right] * pad
            while len(line) >= width:
                made.append(op.separator.join(line[:width]))
                line.pop(0)
        if len(made) == before and words and op.keep_short:
            pads = max(op.pad_width, 0)
            made.append(op.separator.join([op.left] * pads + words + [op.right] * pads))
        ends.append(len(made))
    return [np.array(made, object), np.array(ends[: len(splits)], np.int64)]


TEXT_EDITING_ORACLES = {
    "ChangeText": _changed,
    "FormatNumber": _formatted,
    "JoinRuns": _runs,
    "JoinText": _joined,
    "ReplaceText": _replaced,
    "SplitText": _split,
    "SubText": _part,
    "TextBucket": _bucket,
    "TextLength": _length,
}
