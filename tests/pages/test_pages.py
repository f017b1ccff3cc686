"""Every command and snippet of every page runs, in the order of the page, or is listed with the
reason. Those of Chinese pages are the English ones (tests/pure/test_docs.py).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh import Fresh
from tests.pages.blocks import ROOT, SHELL, Block, blocks, fences, pages, source
from tests.pages.files import WRITERS
from tests.pages.reader import SOURCES, Reader
from tests.pages.table import ELSEWHERE, PAGES, Page

LANGUAGES = {"python", *SHELL, *SOURCES, "yaml", "cmake"}
IN_CHECKOUT = re.compile(r"(pip install|make) ")
"""Commands for the checkout, which tests of their own run."""


def elsewhere(block: Block) -> bool:
    """Whether something else runs this block, or nothing can. Of a shell it is single commands."""
    listed = ELSEWHERE.get(block.page, {})
    first = block.text.partition("\n")[0]
    return block.language in listed or (block.language not in SHELL and first in listed)


def skipped(page: str) -> frozenset[str]:
    """Commands of a page that are not run with it."""
    commands = (c for block in blocks(page, *SHELL) for c in block.commands)
    return frozenset(c for c in commands if c in ELSEWHERE.get(page, {}) or IN_CHECKOUT.match(c))


def runs(page: str) -> list[Block]:
    return [block for block in blocks(page) if not elsewhere(block)]


def parts() -> Iterator[object]:
    """A part of a page for each test: all of it, or a block; also as it stands, where something is
    replaced by what takes less time.
    """
    for page in pages():
        if not (run := runs(page)):
            continue
        table = PAGES.get(page, Page())
        for part in [[block] for block in run] if table.apart else [run]:
            name = f"{page}:{part[0].line}" if table.apart else page
            quiet = [pytest.mark.filterwarnings(each) for each in table.quiet]
            yield pytest.param(part, table, id=name, marks=quiet)
            if any(old in block.text for old in table.instead for block in part):
                marks = [*quiet, pytest.mark.full, pytest.mark.timeout(3600)]
                yield pytest.param(part, table._replace(instead={}), id=f"{name}-full", marks=marks)


@pytest.mark.parametrize(("part", "table"), [*parts()])
def test_a_page_runs(
    part: list[Block],
    table: Page,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "\n".join(block.text for block in part)
    for module in ("jax", "torch", "transformers"):
        if f"import {module}\n" in text:
            pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    for name, write in {**WRITERS, **table.files}.items():
        if name in text or name in table.files:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            write(tmp_path / name)
    for name, value in table.environment.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    instead = {old: new for old, new in table.instead.items() if old in text}
    reader = Reader(capsys, monkeypatch, table.names, instead)
    try:
        for block in part:
            reader.read(block, skipped(block.page))
        assert not reader.unused, f"no command has {reader.unused}"
        table.check(reader)
    finally:
        reader.close()


def test_the_examples_of_extending_run() -> None:
    """In a process of their own, as they register an operator."""
    code = [block.text for block in blocks("docs/extending.md", "python")]
    package = ROOT / "tests" / "packages" / "infuse-pairs" / "src"
    assert any("def test_sinh" in text for text in code)
    program = "\n".join([f"import sys; sys.path.insert(0, {str(package)!r})", *code, "test_sinh()"])
    subprocess.run([sys.executable, "-c", program], check=True)


def in_checkout(program: str) -> list[str]:
    """The commands of pages for the checkout that begin with this program."""
    shell = [block for page in pages() for block in blocks(page, *SHELL) if not elsewhere(block)]
    commands = dict.fromkeys(c for block in shell for c in block.commands)
    return [c for c in commands if c.startswith(f"{program} ")]


@pytest.mark.parametrize("command", in_checkout("make"))
def test_what_pages_make_is_there(command: str) -> None:
    """make knows all that it would do, which takes minutes to hours: this run among it."""
    subprocess.run(["bash", "-ec", command.replace("make", "make -n", 1)], cwd=ROOT, check=True)


@pytest.mark.full
def test_the_demo_runs() -> None:
    """What `make demo` runs in its environment; its status tells whether the answers are right."""
    subprocess.run([sys.executable, "-m", "examples.demo"], cwd=ROOT, check=True)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_what_pages_install_can_be_installed(tmp_path: Path) -> None:
    """Each line in a checkout, one after another in one fresh environment."""
    fresh, commands = Fresh(tmp_path), in_checkout("pip")
    assert len(commands) >= 5
    for command in commands:
        fresh.shell(command, ROOT)
    assert "infuse" in fresh.run("infuse", "--version").stdout


@pytest.mark.parametrize("page", pages())
def test_every_block_is_run_or_listed(page: str) -> None:
    fenced = re.findall(r"^ *(?:```|~~~)", source(page), re.MULTILINE)
    assert len(fenced) == 2 * len(fences(source(page))), (
        "a fence is not closed, or not of three ticks"
    )
    unknown = [b for b in runs(page) if b.language not in LANGUAGES]
    assert not unknown, "a block needs a language that a test runs (`text` for output)"


def test_all_that_is_listed_is_there() -> None:
    assert not {*ELSEWHERE, *PAGES} - {*pages()}
    for page, listed in ELSEWHERE.items():
        lines = {line for block in blocks(page) for line in (block.language, *block.commands)}
        lines |= {block.text.partition("\n")[0] for block in blocks(page)}
        assert not {*listed} - lines, page
        for reason in listed.values():
            for path in re.findall(r"tests/[\w/]+\.py", reason):
                assert (ROOT / path).exists(), path
    for page, table in PAGES.items():
        text = "\n".join(block.text for block in runs(page))
        assert not [old for old in table.instead if old not in text], page
    every = "\n".join(block.text for page in pages() for block in runs(page))
    assert not [name for name in WRITERS if name not in every]
