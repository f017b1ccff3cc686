"""The documentation site: it builds without a warning, every link leads somewhere, and every error
and every guide has its page.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from infuse import errors
from infuse.cli.main import app
from infuse.errors import InfuseError
from tests import chinese
from tests.pages.blocks import FENCE, ROOT

DOCS = ROOT / "docs"
ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, InfuseError)
]


@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """In the plainest theme: that of the site draws its navigation anew for each page, which takes
    as long as all the rest.
    """
    options = ["-q", "-W", "--keep-going", "-b", "html", "-D", "html_theme=basic"]
    options += ["-d", str(tmp_path / "trees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(tmp_path / "site")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "site" / "cli.html").read_text(encoding="utf-8")
    assert "--max-drop" in commands
    assert "infuse.load" in (tmp_path / "site" / "api.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_a_page(kind: type[InfuseError]) -> None:
    page = (DOCS / "errors" / f"{kind.code}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {kind.code}: {kind.__name__}\n")
    index = (DOCS / "errors" / "index.md").read_text(encoding="utf-8")
    assert f"[{kind.code}]({kind.code}.md) | `{kind.__name__}`" in index


def test_no_page_is_of_an_error_that_is_gone() -> None:
    codes = {kind.code for kind in ERRORS}
    assert {path.stem for path in (DOCS / "errors").glob("INF-*.md")} == codes


def test_every_guide_is_there_in_chinese() -> None:
    assert set(chinese.pages()) == chinese.guides()


@pytest.mark.parametrize("name", chinese.pages())
def test_chinese_pages_are_as_new_as_the_english_ones(name: str) -> None:
    page = (DOCS / "zh" / f"{name}.md").read_text(encoding="utf-8")
    assert re.search(r"[\u4e00-\u9fff]", page)
    assert chinese.is_current(name), (
        f"docs/{name}.md has changed: bring docs/zh/{name}.md up to date, "
        f"then run: python -m tests.chinese docs/zh/{name}.md"
    )


@pytest.mark.parametrize("name", chinese.pages())
def test_chinese_pages_have_the_sections_and_snippets_of_the_english_ones(name: str) -> None:
    """So a snippet that runs in one language (tests/pages) runs in the other. The first page has
    sections of its own.
    """
    english, page = (
        chinese.outline((folder / f"{name}.md").read_text(encoding="utf-8"))
        for folder in (DOCS, DOCS / "zh")
    )
    assert page.snippets == english.snippets
    assert page.headings == english.headings or name == "index"


def sentences() -> list[str]:
    """The commands of infuse in the sentences of all pages; blocks are run by tests/pages."""
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    texts = [FENCE.sub("", page.read_text(encoding="utf-8")) for page in pages]
    spans = {span for text in texts for span in re.findall(r"`(infuse [^`]+)`", text)}
    return sorted(" ".join(span.split()) for span in spans)


def test_commands_in_sentences_have_the_options_that_there_are() -> None:
    assert len(sentences()) > 80
    root: Any = typer.main.get_command(app)
    for sentence in sentences():
        command, words = root, shlex.split(sentence)[1:]
        while hasattr(command, "get_command") and words and not words[0].startswith("-"):
            verb, words = words[0], words[1:]
            command = command.get_command(command.context_class(command), verb)
            if verb == "COMMAND":
                break
            assert command, sentence
        else:
            command.make_parser(command.context_class(command)).parse_args(words)


def test_a_changed_english_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chinese, "DOCS", tmp_path)
    monkeypatch.setattr(chinese, "CHINESE", tmp_path / "zh")
    (tmp_path / "zh" / "errors").mkdir(parents=True)
    (tmp_path / "errors").mkdir()
    english, page = tmp_path / "errors" / "index.md", tmp_path / "zh" / "errors" / "index.md"
    english.write_text("# Errors\n", encoding="utf-8")
    page.write_text("# 错误\n", encoding="utf-8")
    assert not chinese.is_current("errors/index")
    for text in ("# Errors\n", "# All errors\n"):
        english.write_text(text, encoding="utf-8")
        chinese.main([str(page)])
        assert chinese.is_current("errors/index")
        assert page.read_text(encoding="utf-8").splitlines()[1:] == ["# 错误"]
        english.write_text(text + "more\n", encoding="utf-8")
        assert not chinese.is_current("errors/index")
    assert "../../errors/index.md" in page.read_text(encoding="utf-8")
