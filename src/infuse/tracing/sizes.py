"""The symbolic sizes of a foreign model, under names that Infuse can use."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from infuse.ir import dim_text, dims
from infuse.ir.dim_text import NAMELESS
from infuse.ir.dims import Dim, Expr


class Sizes:
    """The symbolic sizes of one model: the same text is the same symbol, and every symbol is an
    identifier.

    `texts` are those of the model's inputs. A text such as `past + seq` is read as an expression
    where these have `past` and `seq` for themselves; any other text is a name. Sizes without text,
    or with one that says only that nothing is known (`_`, `?`, `None`), get a symbol of their own
    from the value's name and the axis.
    """

    texts: dict[str, str]
    """What stood in the model for symbols whose name is another; nothing for sizes without text."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = {}
        self._symbols: dict[str, Dim] = {}
        self.taken: set[str] = set()
        for text in texts:
            if text not in NAMELESS and _is_name(text):
                self._symbols[text] = dims.symbol(text)
                self.taken.add(text)

    def named(self, text: str) -> Dim:
        """The size that a dim_param stands for."""
        size = self._symbols.get(text)
        if size is None:
            expression = self._expression(text)
            size = self._symbols[text] = (
                self._fresh(text, text) if expression is None else expression
            )
        return size

    def unnamed(self, value: str, axis: int, text: str = "") -> Dim:
        """A new symbol for an unknown size of a value, of which the model says `text`."""
        return self._fresh(f"{value or 'value'}_{axis}", text)

    def twin(self, name: str) -> Dim:
        """Another symbol of which the model says the same as of the one of this name."""
        return self._fresh(name, self.texts.get(name, name))

    def _expression(self, text: str) -> Dim | None:
        parsed = dim_text.parse(text)
        named = isinstance(parsed, Expr) and dims.symbols(parsed) <= self.taken
        return parsed if named else None

    def _fresh(self, text: str, original: str) -> Dim:
        base = re.sub(r"\W", "_", text, flags=re.ASCII)[:80] or "size"
        if not _is_name(base):
            base = f"d_{base}"
        name, count = base, 1
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        if name != original:
            self.texts[name] = original
        return dims.symbol(name)


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)
