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

DOCS = Path(__file__).resolve().parents[1] / "docs"
CHINESE = DOCS / "zh"
STAMP = re.compile(r"<!-- of (\S+), sha256 ([0-9a-f]{12}) -->\n")
GUIDES = ("Start", "Guides", "Coming from")  # captions of docs/index.md
MORE = ("index", "errors/index", "security", "faq", "platforms")


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


def outline(text: str) -> tuple[list[str], list[list[str]]]:
    """The levels of a page's headings, and its snippets line by line, without what is translated:
    comments, documentation of functions, output.
    """
    fence = re.compile(r"^ *```(\w*|\{[^\n]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
    blocks = [
        code for kind, code in fence.findall(text) if kind not in ("", "text") and kind[0] != "{"
    ]
    snippets = [
        [re.sub(r"(^|\s)\s*#.*", "", line) for line in code.splitlines()] for code in blocks
    ]
    headings = re.findall(r"^(#+) ", fence.sub("", text), re.MULTILINE)
    return headings, [[x for x in code if x and '"""' not in x] for code in snippets]


def main(files: list[str]) -> None:
    """Stamp the pages at these paths, or all."""
    paths = [Path(file).resolve() for file in files] or [CHINESE / f"{n}.md" for n in pages()]
    for path in paths:
        text = STAMP.sub("", path.read_text(encoding="utf-8"), count=1)
        name = str(path.relative_to(CHINESE).with_suffix(""))
        path.write_text(stamp(name) + text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
