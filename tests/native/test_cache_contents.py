"""`infuse cache`: what the cache folder holds, and that clearing takes what is ours alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.build.contents import PARTS, clear, models_of, parts_of
from infuse.errors import OptionError
from infuse.ir.parser import parse
from tests.cli_tools import Cli

GRAPH = """graph "NAME" (%x: float32[n, 3]) {
  %y = Add(%x, float32[]{1.0})
  return y = %y
}"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def compiled(name: str) -> infuse.CompiledModel:
    return infuse.compile(parse(GRAPH.replace("NAME", name)), infuse.CompileOptions(threads=1))


def test_models_are_listed_and_cleared(root: Path, cli: Cli) -> None:
    model = compiled("first")
    compiled("second").close()
    (old,) = (each for each in models_of(root) if each.name == "first")
    os.utime(root / "compiled" / old.key, (time.time() - 10 * 86400,) * 2)
    assert [each.name for each in models_of(root)] == ["second", "first"]
    listed = cli("cache", "list").out
    assert "2 compiled models" in listed
    assert "first" in listed
    facts = cli("cache", "--json").json
    sizes = {part["name"]: part["bytes"] for part in facts["parts"]}
    assert facts["bytes"] == sum(sizes.values()) > 0
    assert sizes["compiled"] == sum(each.bytes for each in models_of(root))
    assert "compiled models" in cli("cache", "size").out
    freed = cli("cache", "clear", "--part", "compiled", "--older", "5", "--json").json
    assert freed["freed_bytes"] == old.bytes
    assert [each.name for each in models_of(root)] == ["second"]
    x = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(model(x), x + 1)  # what runs goes on
    model.close()
    assert "freed" in cli("cache", "clear").out
    assert models_of(root) == []
    with compiled("first") as again:
        np.testing.assert_array_equal(again(x), x + 1)


def test_clearing_takes_nothing_of_others(root: Path) -> None:
    strange = [
        root / "compiled" / "my_project" / "main.c",
        root / "photos" / "a.png",
        root / "notes.txt",
        root / "serving" / "blobs" / "aa" / "aabb",
        root / "machines" / "README",
    ]
    ours = [root / "machines" / "0123456789abcdef.json", root / "checked" / ("ab" * 20)]
    for path in (*strange, *ours):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12345")
    assert clear(root) == 10
    assert all(path.exists() for path in strange)
    assert not any(path.exists() for path in ours)
    assert clear(root) == 0


def test_parts_that_cannot_be_cleared(root: Path, cli: Cli) -> None:
    assert clear(root) == 0  # nothing is there
    assert parts_of(root) == models_of(root) == []
    for name, why in (("serving", "servers remove"), ("models", "its parts are compiled")):
        with pytest.raises(OptionError, match=why):
            clear(root, [name])
        assert why in cli.refused("cache", "clear", "--part", name)
    assert cli("cache", "--older", "3").status == 2
    assert cli("cache", "remove").status == 2


def test_every_part_that_is_written_is_known(root: Path) -> None:
    source = Path(infuse.__file__).parent
    text = "".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    for name in PARTS:
        assert f'"{name}"' in text.replace((source / "build" / "contents.py").read_text(), "")
