"""Which English page, and which state of it, each page of docs/zh translates.

A Chinese page begins with a stamp: the English page and the first digits of the hash of its text.
After the Chinese page was brought up to date, `python -m tests.chinese docs/zh/frontends.md` stamps
it again; without a page the command stamps all.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from tests.pages.blocks import FENCE, ROOT, fences, is_snippet

DOCS = ROOT / "docs"
CHINESE = DOCS / "zh"
STAMP = re.compile(r"<!-- of (\S+), sha256 ([0-9a-f]{12}) -->\n")
GUIDES = ("Start", "Guides", "Coming from")  # captions of docs/index.md
MORE = ("index", "errors/index", "security", "faq", "platforms", "matrix")


def guides() -> set[str]:
    """The names of the English pages that have a Chinese one, without `.md`."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    trees = dict(re.findall(r"```{toctree}\n:hidden:\n:caption: (.+)\n\n([^`]*)```", index))
    return {name for caption in GUIDES for name in trees[caption].split()} | {*MORE}


def pages() -> list[str]:
    """The names of the Chinese pages, without `.md`."""
    return sorted(str(p.relative_to(CHINESE).with_suffix("")) for p in CHINESE.rglob("*.md"))


def stamp(name: str) -> str:
    """The first line of the Chinese page `name`, for its English page as that is now."""
    english = DOCS / f"{name}.md"
    digits = hashlib.sha256(english.read_text(encoding="utf-8").encode()).hexdigest()[:12]
    path = os.path.relpath(english, (CHINESE / name).parent)
    return f"<!-- of {path}, sha256 {digits} -->\n"


def is_current(name: str) -> bool:
    """Whether the Chinese page `name` carries the stamp of the English page as that is now."""
    return (CHINESE / f"{name}.md").read_text(encoding="utf-8").startswith(stamp(name))


class Outline(NamedTuple):
    """The levels of a page's headings; its snippets, each a language and lines."""

    headings: list[str]
    snippets: list[tuple[str, list[str]]]


def outline(text: str) -> Outline:
    """What a page and its translation have in common: snippets are without comments, documentation
    of functions and output.
    """
    snippets = []
    for block in fences(text):
        if is_snippet(block.language):
            comment = r"(^|\s)\s*//.*" if block.language == "c" else r"(^|\s)\s*#.*"
            lines = [re.sub(comment, "", line) for line in block.text.splitlines()]
            snippets.append((block.language, [x for x in lines if x and '"""' not in x]))
    return Outline(re.findall(r"^(#+) ", FENCE.sub("", text), re.MULTILINE), snippets)


def main(files: list[str]) -> None:
    """Stamp the pages at these paths, or all."""
    paths = [Path(file).resolve() for file in files] or [CHINESE / f"{n}.md" for n in pages()]
    for path in paths:
        text = STAMP.sub("", path.read_text(encoding="utf-8"), count=1)
        name = str(path.relative_to(CHINESE).with_suffix(""))
        path.write_text(stamp(name) + text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
