"""A model that was compiled before is not compiled again, unless anything of it has changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.runtime import build_keys
from infuse.runtime.build_keys import key_of
from infuse.runtime.folder import LIBRARY
from infuse.runtime.interface import COMPILED
from infuse.runtime.shapes import TensorSpec
from infuse.serving.engine import compiled
from infuse.serving.engine.engine import Engine
from infuse.serving.workers import build_cache
from infuse.serving.workers.build import Signature, build
from infuse.serving.workers.build_cache import BuildCache
from infuse.sources import EXTENSIONS
from tests.serving import models
from tests.serving.engine_stage import served
from tests.serving.models import ask, write

pytestmark = pytest.mark.row("S2")

OPTIONS: dict[str, Any] = {"precision": "fp32", "tune": False, "weights": "fast", "threads": 1}


@pytest.fixture(scope="module", autouse=True)
def shared_builds() -> None:
    """Each engine has the records of its own cache."""


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were built, one after the other."""
    found: list[str] = []

    async def counted(source: Path, output: Path, **options: Any) -> Signature:
        found.append(source.name)
        return await build(source, output, **options)

    monkeypatch.setattr(compiled, "build", counted)
    return found


def serve_once(folder: Path, added: float = 1.0, **fields: Any) -> Path:
    """Load the model `add`, and see that it adds; its compiled folder."""
    folders = []

    async def work(engine: Engine) -> None:
        assert await ask(engine, "add", 5.0) == 5.0 + added
        (version,) = engine.versions()
        folders.append(version.signature.folder)

    served(folder, work, **fields)
    return folders[0]


def test_a_server_that_starts_again_builds_nothing(tmp_path: Path, builds: list[str]) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    first = serve_once(tmp_path)
    assert builds == ["model.onnx"]
    assert serve_once(tmp_path) == first
    assert builds == ["model.onnx"]


def test_other_content_and_other_options_are_built(tmp_path: Path, builds: list[str]) -> None:
    write(tmp_path / "models", "add", models.adder(1))
    serve_once(tmp_path)
    (tmp_path / "models" / "add" / "1" / "model.onnx").write_bytes(models.adder(2))
    serve_once(tmp_path, 2.0)
    assert len(builds) == 2
    (tmp_path / "models" / "add" / "config.yaml").write_text("precision: fp16\n")
    serve_once(tmp_path, 2.0)
    assert len(builds) == 3
    for count, bound in enumerate((0, 0.05), 4):
        (tmp_path / "models" / "add" / "config.yaml").write_text(
            f"precision: auto\nmax_difference: {bound}\n"
        )
        serve_once(tmp_path, 2.0)
        assert len(builds) == count


def remove(compiled: Path, record: Path) -> None:
    shutil.rmtree(compiled)


def spoil_library(compiled: Path, record: Path) -> None:
    content = (compiled / LIBRARY).read_bytes()
    (compiled / LIBRARY).unlink()  # this process has it mapped
    (compiled / LIBRARY).write_bytes(b"\0" + content[1:])


def cut_record(compiled: Path, record: Path) -> None:
    record.write_text(record.read_text()[:-20])


def lose_fields(compiled: Path, record: Path) -> None:
    record.write_text(json.dumps({"folder": str(compiled)}))


def change_kind(compiled: Path, record: Path) -> None:
    record.write_text(json.dumps(["folder", str(compiled)]))


@pytest.mark.parametrize("harm", [remove, spoil_library, cut_record, lose_fields, change_kind])
def test_what_is_not_whole_is_built_again(
    harm: Callable[[Path, Path], None],
    tmp_path: Path,
    builds: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "compiled"))  # one that may be harmed
    write(tmp_path / "models", "add", models.adder(1))
    compiled = serve_once(tmp_path)
    (record,) = (tmp_path / "cache" / "built").iterdir()
    harm(compiled, record)
    serve_once(tmp_path)
    assert len(builds) == 2
    serve_once(tmp_path)
    assert len(builds) == 2


def signature(folder: Path, *host_steps: str) -> Signature:
    spec = TensorSpec("x", np.dtype(np.float32), ("rows", 4), late=True)
    return Signature(folder, (spec,), (spec,), ("rows",), 12, host_steps, "", COMPILED, False, 3.0)


def test_a_record_says_what_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("read_metadata", "verify", "check_cpu"):
        monkeypatch.setattr(build_cache, name, lambda *_: None)
    known, made = BuildCache(tmp_path), signature(tmp_path)
    assert known.find("key") is None
    known.keep("key", made)
    assert known.find("key") == replace(made, seconds=0.0)
    assert known.find("other") is None


def test_models_that_the_interpreter_runs_in_part_are_not_recorded(tmp_path: Path) -> None:
    BuildCache(tmp_path).keep("key", signature(tmp_path, "Tokenize"))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_recorded_where_packages_extend_infuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("mine", "my_package:register", EXTENSIONS)
    monkeypatch.setattr(build_keys, "announced", lambda: (entry,))
    assert key_of("content", "model.onnx", OPTIONS) == ""
    BuildCache(tmp_path).keep("", signature(tmp_path))
    assert BuildCache(tmp_path).find("") is None
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_holds_no_records(tmp_path: Path) -> None:
    (tmp_path / "built").write_text("in the way")
    known = BuildCache(tmp_path)
    known.keep("key", signature(tmp_path))
    assert known.find("key") is None


def test_there_is_an_end_to_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_cache, "_MOST", 10)
    for number in range(25):
        BuildCache(tmp_path).keep(f"key{number}", signature(tmp_path))
    names = {path.name for path in (tmp_path / "built").iterdir()}
    assert len(names) <= 10
    assert "key24" in names


def test_a_key_stands_for_all_that_a_build_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_of("content", "model.onnx", OPTIONS)
    assert key == key_of("content", "model.onnx", dict(reversed(OPTIONS.items())))
    others = [
        key_of("other", "model.onnx", OPTIONS),
        key_of("content", "other.onnx", OPTIONS),
        *(key_of("content", "model.onnx", {**OPTIONS, name: "other"}) for name in OPTIONS),
    ]
    monkeypatch.setenv("INFUSE_SOMETHING", "1")
    others.append(key_of("content", "model.onnx", OPTIONS))
    script = tmp_path / "c++"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    others.append(key_of("content", "model.onnx", OPTIONS))
    script.write_text("#!/bin/sh\necho\n")
    others.append(key_of("content", "model.onnx", OPTIONS))
    for name in ("stamp", "cpu_description"):
        monkeypatch.setattr(build_keys, name, lambda: "other")
        others.append(key_of("content", "model.onnx", OPTIONS))
    assert len({key, *others}) == 1 + len(others)
