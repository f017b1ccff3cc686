"""What a program file consists of: 64-bit words, and texts behind them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import numpy as np

from infuse.dtypes import DType, is_narrow
from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Atom, Dim, Expr, term_key
from infuse.lowering.expressions import Estimate, Expression, Invocation, Operation, Size

MAGIC: Final = int.from_bytes(b"INFUSEPR", "little")
VERSION: Final = 1

# The operations of terms, as kernels/program.hpp numbers them: a number or a symbol follows the
# first two, and the others take two from the stack.
_CONST, _SYMBOL = 0, 1
_OPERATIONS: Final = {
    "+": 2,
    "*": 3,
    "div": 4,
    "mod": 5,
    "max": 6,
    "min": 7,
    "broadcast": 8,
    "==": 9,
    "<": 10,
    "<=": 11,
    ">": 12,
    ">=": 13,
    "&&": 14,
    "||": 15,
    "do_broadcast": 16,
}


class Words:
    """Collects words and texts."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._texts = bytearray(b"\0")
        self._places = {b"\0": 0}

    def add(self, *numbers: int) -> None:
        """Add numbers."""
        self._words += numbers

    def list(self, numbers: Iterable[int]) -> None:
        """Add how many numbers there are, and these."""
        each = list(numbers)
        self.add(len(each), *each)

    def text(self, text: str) -> None:
        """Add where a text begins; equal ones are one."""
        content = text.encode("utf-8", "replace").replace(b"\0", b" ") + b"\0"
        if content not in self._places:
            self._places[content] = len(self._texts)
            self._texts += content
        self.add(self._places[content])

    def then(self) -> Words:
        """What follows these words, with the same texts."""
        words = Words()
        words._texts, words._places = self._texts, self._places
        return words

    def content(self, *following: Words) -> bytes:
        """The file of these words and others that follow (`then`)."""
        words = [word for each in (self, *following) for word in each._words]
        head = [MAGIC, VERSION, len(words), len(self._texts)]
        return np.array([*head, *words], np.int64).tobytes() + bytes(self._texts)


def bits(value: float | int | bool, dtype: DType) -> int:
    """A number as it lies in the type in which elements of this one are computed, as a word."""
    kind = np.dtype(np.float32) if is_narrow(dtype) else dtype.numpy
    content = np.array(value).astype(kind).tobytes()
    return int.from_bytes(content.ljust(8, b"\0"), "little", signed=True)


def double_bits(value: float) -> int:
    """A float64 as a word."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


class Terms:
    """Sizes and conditions as code for a machine with a stack, each once."""

    def __init__(self, symbols: Iterable[str], known: int) -> None:
        """`known`: how many of the symbols, the first ones, are known before the run."""
        self.symbols = {name: number for number, name in enumerate(symbols)}
        self._known = known
        self._codes: dict[tuple[int, ...], int] = {}

    def number(self, term: Dim | Expression) -> int:
        """The number of a term."""
        code: list[int] = []
        self._write(term, code)
        return self._codes.setdefault(tuple(code), len(self._codes))

    def write(self, words: Words) -> None:
        """All of them: whether the run finds a symbol of it, and its code."""
        words.add(len(self._codes))
        for code in self._codes:
            words.add(int(self._is_late(code)))
            words.list(code)

    def _is_late(self, code: tuple[int, ...]) -> bool:
        position = 0
        while position < len(code):
            if code[position] == _SYMBOL and code[position + 1] >= self._known:
                return True
            position += 2 if code[position] in (_CONST, _SYMBOL) else 1
        return False

    def _write(self, term: Dim | Expression, code: list[int]) -> None:
        match term:
            case int():
                code += (_CONST, int(term))
            case Expr():
                self._sum(term, code)
            case Size(size) | Estimate(size):
                self._write(size, code)
            case Operation(operator, (first, *rest)) if operator in _OPERATIONS and rest:
                self._write(first, code)
                for each in rest:
                    self._write(each, code)
                    code.append(_OPERATIONS[operator])
            case Invocation("do_broadcast", (a, b)):
                self._write(a, code)
                self._write(b, code)
                code.append(_OPERATIONS["do_broadcast"])
            case _:
                raise UnsupportedOperatorError(f"a program file has no term for {term}")

    def _sum(self, size: Expr, code: list[int]) -> None:
        for number, (monomial, coefficient) in enumerate(sorted(size.terms.items(), key=term_key)):
            factors = 0
            if coefficient != 1 or not monomial:
                code += (_CONST, coefficient)
                factors += 1
            for atom, power in monomial:
                for _ in range(power):
                    self._atom(atom, code)
                    if factors:
                        code.append(_OPERATIONS["*"])
                    factors += 1
            if number:
                code.append(_OPERATIONS["+"])

    def _atom(self, atom: Atom, code: list[int]) -> None:
        if atom.kind == "symbol":
            code += (_SYMBOL, self.symbols[atom.args[0]])
            return
        for argument in atom.args:
            self._write(argument, code)
        code.append(_OPERATIONS[atom.kind])
