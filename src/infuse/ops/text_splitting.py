"""Strings split into lists of different lengths, and joined along an axis or in runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from infuse import dtypes
from infuse.errors import DataError, ShapeError, TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import fresh_dim
from infuse.ops.core.traits import Trait
from infuse.ops.domains.ml import as_texts
from infuse.ops.text import require_text, texts
from infuse.ops.tokens import count_of_texts, decoded

WAYS: Final = ("delimiter", "blanks", "characters", "bytes")


class SplitText(Op):
    """The parts of all of some strings [n] one after another: the number of the string of each,
    its place in it (int64 [parts]), the parts, and how many each string has (int64 [n]).

    Strings are split at a `delimiter`, at runs of blanks of ASCII, into characters or into bytes
    (`by`); at `most` so often, where that is not negative.
    """

    traits = Trait.ZERO_FLOPS
    domain = "infuse"

    by: str = "blanks"
    delimiter: str = ""
    most: int = -1

    samples = (
        cases(
            x=[texts("a b  c\u00a0d", "", " x ", "é"), texts(shape=(0,))],
            by=["blanks", "characters"],
        ),
        cases(x=[texts("a,b,,c", "", ",")], by=["delimiter"], delimiter=[","], most=[-1, 1]),
        cases(x=[texts("ab", "")], by=["bytes"]),
    )

    def infer(self, x: Value) -> Inferred:
        count, parts = count_of_texts(self.name, x), fresh_dim("parts")
        if self.by not in WAYS or (self.by == "delimiter") != bool(self.delimiter):
            raise TypeMismatchError(
                f"{self.name} splits by {', '.join(WAYS)}; found {self.by!r} with the delimiter "
                f"{self.delimiter!r}"
            )
        places = TensorType(dtypes.int64, (parts,))
        texts_of = TensorType(dtypes.string, (parts,))
        return places, places, texts_of, TensorType(dtypes.int64, (count,))

    def eval(self, x: Array) -> tuple[Array, Array, Array, Array]:
        listed = [self._split(text) for text in decoded(x)]
        counts = np.array([len(parts) for parts in listed], np.int64)
        rows = np.repeat(np.arange(len(listed)), counts)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, places, as_texts([part for parts in listed for part in parts]), counts

    def _split(self, text: str) -> list[str]:
        if self.by == "characters":
            return list(text)
        if self.by == "delimiter":
            return text.split(self.delimiter, self.most)
        data = text.encode("utf-8", "surrogateescape")
        parts = data.split(None, self.most) if self.by == "blanks" else [bytes([b]) for b in data]
        return [part.decode("utf-8", "surrogateescape") for part in parts]


class JoinText(Op):
    """Strings joined along an axis, with a separator between."""

    traits = Trait.ZERO_FLOPS
    domain = "infuse"

    axis: int = -1
    separator: str = ""

    samples = cases(
        x=[texts("a", "b", "é", "", "c", "d", shape=(2, 3)), texts(shape=(2, 0))],
        axis=[0, 1, -1],
        separator=["", ", "],
    )

    def infer(self, x: Value) -> Inferred:
        require_text(self.name, x)
        shape = x.tensor.shape
        if shape is None:
            return TensorType(dtypes.string, None)
        if not -len(shape) <= self.axis < len(shape):
            raise ShapeError(f"{self.name} has no axis {self.axis} in {x.type}")
        axis = self.axis % len(shape)
        return TensorType(dtypes.string, (*shape[:axis], *shape[axis + 1 :]))

    def eval(self, x: Array) -> Array:
        lines = np.moveaxis(x, self.axis, -1)
        shape, size = lines.shape[:-1], lines.shape[-1]
        flat = decoded(lines.reshape(-1))
        count = int(np.prod(shape))
        joined = [self.separator.join(flat[i * size : (i + 1) * size]) for i in range(count)]
        return as_texts(joined).reshape(shape)


class JoinRuns(Op):
    """All runs of so many strings next to each other in each of some rows, joined by a separator,
    and where their rows begin and end: strings [parts] and int64 [n + 1] to the same of runs.

    A row is filled up with `left` and `right` on its sides: `pad_width` of them, or one less than
    the strings of a run where it is negative. Runs of `widths` stand one width after another. Of a
    row that is too short for all of them, `keep_short` makes one run of all its strings.
    """

    traits = Trait.ZERO_FLOPS
    domain = "infuse"

    widths: tuple[int, ...]
    separator: str = " "
    left: str = ""
    right: str = ""
    pad_width: int = 0
    keep_short: int = 0

    samples = (
        cases(
            parts=[texts("a", "b", "c", "d")],
            splits=[np.array([0, 3, 3, 4])],
            widths=[(2,), (1, 3)],
            left=["<"],
            right=[">"],
            pad_width=[0, -1, 1],
            keep_short=[0, 1],
        ),
        cases(
            parts=[texts(shape=(0,))] * 2, splits=[np.array([0, 0]), np.array([0])], widths=[(2,)]
        ),
    )

    def infer(self, parts: Value, splits: Value) -> Inferred:
        count_of_texts(self.name, parts)
        if not self.widths or min(self.widths) < 1:
            raise TypeMismatchError(f"{self.name} has runs of {list(self.widths)} strings")
        if splits.dtype != dtypes.int64:
            raise TypeMismatchError(f"{self.name} takes splits in int64, found {splits.dtype}")
        shape = splits.tensor.shape
        return TensorType(dtypes.string, (fresh_dim("runs"),)), TensorType(dtypes.int64, shape)

    def eval(self, parts: Array, splits: Array) -> tuple[Array, Array]:
        listed, ends = decoded(parts), splits.tolist()
        if ends and (ends[0] != 0 or ends[-1] != len(listed) or sorted(ends) != ends):
            raise DataError(f"rows end at {ends[:8]}, and there are {len(listed)} strings")
        runs: list[str] = []
        bounds = [0]
        for begin, end in pairwise(ends):
            runs += self._runs(listed[begin:end])
            bounds.append(len(runs))
        return as_texts(runs), np.array(bounds[: max(len(ends), 1)], np.int64)[: len(ends)]

    def _runs(self, row: list[str]) -> list[str]:
        runs = []
        for width in self.widths:
            pad = width - 1 if self.pad_width < 0 else min(self.pad_width, width - 1)
            line = [self.left] * pad + row + [self.right] * pad
            runs += [line[i : i + width] for i in range(len(line) - width + 1)]
        if not runs and row and self.keep_short:
            pad = max(self.pad_width, 0)
            runs = [[self.left] * pad + row + [self.right] * pad]
        return [self.separator.join(run) for run in runs]
