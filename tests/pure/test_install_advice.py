"""What docs and hints say of installing works: the name `infuse` on the package index is another
project's, so that nothing may ask for it there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "docs", "examples", "benchmarks", "tests", "findings")
SUFFIXES = {".py", ".md", ".sh", ".js", ".html", ".hpp", ".h", ".toml", ".yml", ".yaml"}
ASKED = re.compile(r"""pip install\s+(?:[-\w.'"\[\]<>=,]+\s+)*['"]?infuse(?=['"\s\[`,;)]|$)""")
"""`pip install infuse`, `pip install 'infuse[serve]'`, and others that name it to an installer."""
EXTRA = re.compile(r"infuse\[\w+[\w,]*\]")


def files() -> list[Path]:
    found = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SUFFIXES and path != Path(__file__)
    ]
    return [*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def wrong(line: str) -> bool:
    """Whether a line names us to an installer as if we were on the index."""
    return bool(EXTRA.search(line) or ASKED.search(line))


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("pip install 'infuse[zig]'", True),
        ("`pip install infuse`", True),
        ("pip install --no-deps infuse numpy", True),
        ("hint='install the extra: infuse[serve]'", True),
        ("pip install '.[zig]'", False),
        ("pip install 'infuse-….whl[serve]'", False),
        ("pip install dist/infuse-0.2.0-py3-none-any.whl", False),
        ("After `pip install`, `infuse why --list` shows both", False),
        ("pip install ziglang  # then infuse compile works", False),
    ],
)
def test_the_pattern_sees_what_it_is_for(line: str, is_wrong: bool) -> None:
    assert wrong(line) == is_wrong


def test_nothing_installs_us_from_the_index() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if wrong(line)
    ]
    assert not places
