"""`make quick`: which tests it takes, in which order, and how long."""

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import quick
from tests.import_graph import ROOT, importers, module_of, nearest

LOWERING = ROOT / "src" / "infuse" / "lowering"


def test_modules_are_as_many_imports_away_as_it_takes() -> None:
    away = nearest({"infuse.lowering.memory"})
    assert away["infuse.lowering.memory"] == 0
    assert "tests.pure.test_lowered" in importers()["infuse.lowering.memory"]
    assert away["tests.pure.test_lowered"] == 1
    assert "tests.pure.test_quick" not in away
    for module, distance in away.items():
        assert all(away[other] <= distance + 1 for other in importers().get(module, ()))


def test_tests_that_import_what_changed_come_first() -> None:
    files = quick.tests_of([LOWERING / "memory.py"])
    assert 0 < len(files) <= quick.MOST_FILES
    direct = importers()["infuse.lowering.memory"]
    flags = [module_of(path) in direct for path in files]
    assert any(flags)
    assert flags == sorted(flags, reverse=True)


def test_a_test_that_changed_comes_before_all_others() -> None:
    own = Path(__file__)
    assert quick.tests_of([LOWERING / "memory.py", own])[0] == own


def test_what_is_no_module_counts_for_the_tests_that_name_it() -> None:
    files = quick.tests_of([ROOT / "src" / "infuse" / "kernels" / "half.hpp"])
    assert files
    assert all("half.hpp" in path.read_text("utf-8") for path in files)
    assert quick.tests_of([ROOT / "no" / f"such_file{time.time()}.txt"]) == []


def test_files_take_turns() -> None:
    items: Any = [SimpleNamespace(path=path, name=name) for path, name in ("a1", "a2", "a3", "b1")]
    quick.pytest_collection_modifyitems(items)
    assert [item.path + item.name for item in items] == ["a1", "b1", "a2", "a3"]


def test_no_test_begins_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    item: Any = None
    monkeypatch.setenv(quick.UNTIL, str(time.time() + 1000))
    quick.pytest_runtest_setup(item)
    monkeypatch.setenv(quick.UNTIL, str(time.time() - 1))
    with pytest.raises(pytest.skip.Exception, match="time is over"):
        quick.pytest_runtest_setup(item)


def test_new_and_changed_files_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(("git", *who, *words), cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(quick, "ROOT", tmp_path)
    for name in ("kept.py", "changed.py", "removed.py"):
        (tmp_path / name).write_text("a = 1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    assert quick.changed_files("HEAD") == []
    (tmp_path / "changed.py").write_text("a = 2\n")
    (tmp_path / "removed.py").unlink()
    (tmp_path / "new.py").write_text("")
    assert quick.changed_files("HEAD") == [tmp_path / "changed.py", tmp_path / "new.py"]


def test_one_failure_fails_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(what: str, *command: str, **variables: str) -> bool:
        ran.append(what)
        return what != "mypy"

    monkeypatch.setattr(quick, "_run", run)
    monkeypatch.setattr(quick, "changed_files", lambda since: [LOWERING / "memory.py"])
    assert quick.main([]) == 1
    assert ran[:3] == ["ruff check", "ruff format", "mypy"]
    assert ran[3].startswith("operators")
    assert ran[4].endswith("files of tests")
    monkeypatch.setattr(quick, "changed_files", lambda since: [])
    assert quick.main(["--since", "HEAD"]) == 0
