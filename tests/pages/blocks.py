"""The fenced blocks of the pages of the documentation."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
SHELL = ("sh", "console")


class Block(NamedTuple):
    """A fenced block: its page as a path from the root, the line of its fence, its language."""

    page: str
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of a block of a shell, without prompts and lines that only comment."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ") for line in lines if line and not line.startswith("#")]


def pages() -> list[str]:
    """The English pages, as paths from the root; those of docs/zh have the same snippets."""
    docs = [path for path in (ROOT / "docs").rglob("*.md") if "zh" not in path.parts]
    return sorted(str(path.relative_to(ROOT)) for path in [*docs, *ROOT.glob("*.md")])


def source(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def fences(text: str, page: str = "") -> list[Block]:
    """All fenced blocks of a text in order, directives and output among them."""
    return [
        Block(page, text.count("\n", 0, each.start()) + 1, each[1], textwrap.dedent(each[2]))
        for each in FENCE.finditer(text)
    ]


def is_snippet(language: str) -> bool:
    """Whether blocks of this language are something to run: no output, no directive of Sphinx."""
    return language != "text" and not language.startswith("{")


def blocks(page: str, *languages: str) -> list[Block]:
    """The snippets of a page, or those of these languages."""
    return [
        block
        for block in fences(source(page), page)
        if (block.language in languages if languages else is_snippet(block.language))
    ]
