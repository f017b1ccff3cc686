"""ONNX Runtime's own operator of texts (domain com.microsoft)."""

from __future__ import annotations

from collections.abc import Iterator

from infuse import dtypes
from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import fresh_dim
from infuse.ops.core.traits import Trait
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.domains.ml import as_texts
from infuse.ops.text import compiled_pattern, require_text, texts

_START, _END = "\x02", "\x03"


class Tokenizer(Op):
    """The tokens of each string, of a list [C] or of rows [N, C], along a new last axis that
    `pad_value` fills up; with `mark` they stand between the characters 2 and 3, unless no string
    has any.

    Tokens are what `tokenexp` matches, or what lies between matches of the `separators`, one after
    another (characters where the only one is empty); both are patterns of RE2, for which the
    package google-re2 is needed. Those of fewer characters than `mincharnum` are left out.
    """

    domain = DOMAIN
    traits = Trait.ZERO_FLOPS

    mark: int
    mincharnum: int
    pad_value: str
    separators: tuple[str, ...] = ()
    tokenexp: str = ""

    samples = (
        cases(
            x=[texts("ab", "a", "é c"), texts("", "xyz", shape=(2, 1))],
            mark=[0, 1],
            mincharnum=[1],
            pad_value=["#"],
            separators=[("",)],
        ),
    )

    def infer(self, x: Value) -> Inferred:
        require_text(self.name, x)
        shape = x.tensor.shape
        if shape is not None and len(shape) not in (1, 2):
            raise ShapeError(f"{self.name} takes strings of rank 1 or 2, found {x.type}")
        if bool(self.separators) is bool(self.tokenexp):
            raise ShapeError(f"{self.name} needs either separators or a tokenexp")
        if self.separators == ("",) and self.mincharnum > 1:
            raise ShapeError(f"no character has {self.mincharnum} of them: mincharnum is too large")
        return TensorType(dtypes.string, None if shape is None else (*shape, fresh_dim("tokens")))

    def eval(self, x: Array) -> Array:
        rows = [
            [token for token in self._tokens(text) if len(token) >= self.mincharnum]
            for text in x.reshape(-1).tolist()
        ]
        if self.mark and any(rows):
            rows = [[_START, *row, _END] for row in rows]
        width = max(map(len, rows), default=0)
        flat = [token for row in rows for token in (*row, *[self.pad_value] * (width - len(row)))]
        return as_texts(flat).reshape(*x.shape, width)

    def _tokens(self, text: str) -> Iterator[str]:
        if self.tokenexp:
            pattern = compiled_pattern(self.tokenexp)
            yield from (match.group(0) for match in pattern.finditer(text) if match.group(0))
        elif self.separators == ("",):
            yield from text
        else:
            parts = [text]
            for separator in self.separators:
                parts = [piece for part in parts for piece in _between(separator, part)]
            yield from parts


def _between(separator: str, text: str) -> Iterator[str]:
    """What lies between matches; UnsupportedOperatorError where the pattern may match nothing."""
    start, pattern = 0, compiled_pattern(separator)
    if pattern.fullmatch("") is not None:
        raise UnsupportedOperatorError(
            f"the separator {separator!r} of Tokenizer matches between all characters",
            hint="write a pattern that matches at least one",
        )
    for match in pattern.finditer(text):
        yield from filter(None, [text[start : match.start()]])
        start = match.end()
    yield from filter(None, [text[start:]])
