"""The process that compiles a model: what it may take of memory, and what is told when that is not
enough.
"""

from __future__ import annotations

import asyncio
import errno
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from infuse.build.toolchain import Toolchain
from infuse.errors import CompileError, ModelFailureError, ModelFileError
from infuse.serving.config import Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.workers.budget import build_limit_of
from infuse.serving.workers.build import Signature, build, is_out_of_memory
from infuse.serving.workers.host import Host
from tests.serving import models
from tests.serving.models import ask, config, write

pytestmark = pytest.mark.row("S9")

MIB = 1 << 20
SMALL = 160  # MiB: enough for an adder, and not for `large`


@pytest.fixture(autouse=True)
def few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stacks and buffers of a library's threads are memory, too."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


def large() -> bytes:
    """y = x + 2 · (128 MiB of numbers), which is computed while it is compiled."""
    sizes = (8, 4 * MIB)
    numbers = numpy_helper.from_array(np.ones(sizes, np.float32), "numbers")
    two = numpy_helper.from_array(np.float32(2), "two")
    nodes = [
        helper.make_node("Mul", ["numbers", "two"], ["twice"]),
        helper.make_node("Add", ["x", "twice"], ["y"]),
    ]
    ends = [models.tensor(name, sizes=("rows", *sizes)) for name in ("x", "y")]
    return models.model(nodes, ends[:1], ends[1:], [numbers, two])


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    """A C++ compiler that does something else where it is to compile."""
    real = " ".join(Toolchain.find().command)
    script = folder / "compiler"
    script.write_text(f'#!/bin/sh\ncase "$*" in *.cpp*) {deed};; esac\nexec {real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))


async def built(
    content: bytes, folder: Path, memory: int | None, weights: str = "fast"
) -> Signature:
    source = folder / "model.onnx"
    source.write_bytes(content)
    return await build(
        source,
        folder / "made",
        options={"precision": "fp32", "weights": weights, "threads": 1},
        compiled=False,
        seconds=200,
        memory=memory,
    )


def test_models_are_compiled_with_the_weights_that_are_asked_for(tmp_path: Path) -> None:
    filters = np.zeros((64, 64, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    ends = [models.tensor(name, sizes=["rows", 64, 32, 32]) for name in ("x", "y")]
    content = models.model([node], ends[:1], ends[1:], [numpy_helper.from_array(filters, "w")])
    fast, small = (
        asyncio.run(built(content, tmp_path, None, weights)).weights_bytes
        for weights in ("fast", "small")
    )
    assert small <= 1.1 * filters.nbytes < fast


def test_a_model_that_needs_more_memory_is_refused_with_what_helps(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFailureError,
        match=r"needed more than 160 MiB of memory: .*raise workers\.build_memory_mb",
    ):
        asyncio.run(built(large(), tmp_path, SMALL * MIB))
    assert asyncio.run(built(models.adder(1), tmp_path, SMALL * MIB)).inputs


def test_compilers_have_the_limit_too_and_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    compiler(
        tmp_path, monkeypatch, f'(ulimit -d; cat /proc/self/oom_score_adj; ulimit -c) >"{seen}"'
    )
    asyncio.run(built(models.adder(random.random()), tmp_path, 1024 * MIB))
    assert seen.read_text().split() == [str(1024 * 1024), "900", "0"]


@pytest.mark.parametrize(
    "text",
    [
        "cc1plus: out of memory allocating 65536 bytes",
        "virtual memory exhausted: Cannot allocate memory",
    ],
)
def test_a_compiler_without_memory_is_told_like_that(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, f'echo "{text}" >&2; exit 1')
    with pytest.raises(
        ModelFailureError, match=r"compiling it needed more than 512 MiB of memory: .*memory"
    ):
        asyncio.run(built(models.adder(len(text)), tmp_path, 512 * MIB))
    with pytest.raises(CompileError):
        asyncio.run(built(models.adder(len(text)), tmp_path, None))


def test_a_process_that_dies_names_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, "kill -ABRT $(cut -d' ' -f4 /proc/$PPID/stat); sleep 100")
    with pytest.raises(
        ModelFailureError,
        match=r"SIGABRT.*it may take 512 MiB of memory \(workers\.build_memory_mb\)",
    ):
        asyncio.run(built(models.adder(0.25), tmp_path, 512 * MIB))


def test_what_is_taken_for_a_lack_of_memory() -> None:
    caused = ModelFileError("it is not well formed")
    caused.__cause__ = MemoryError()
    assert is_out_of_memory(caused)
    assert is_out_of_memory(OSError(errno.ENOMEM, "no"))
    assert not is_out_of_memory(OSError(errno.ENOSPC, "no"))
    assert not is_out_of_memory(ModelFileError("the text 'out of memory' is in it"))


def test_the_limit_is_what_is_configured_or_half_of_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal: 4096 kB\nMemFree: 1024 kB\nMemAvailable: 2048 kB\n"
    )
    (tmp_path / "stat").write_text("cpu 1 2 3 4 5 6 7 8\n")
    host = Host(tmp_path, tmp_path)
    assert build_limit_of(0, host) == 2 * MIB
    assert build_limit_of(3, host) == 3 * MIB
    (tmp_path / "memory.max").write_text(f"{MIB}\n")
    (tmp_path / "memory.current").write_text("0\n")
    assert build_limit_of(0, host) == MIB // 2
    shutil.rmtree(tmp_path)
    assert build_limit_of(0, Host(tmp_path, tmp_path)) is None


def test_the_version_before_goes_on_serving(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1))

    async def check() -> None:
        given = config(tmp_path, workers=Workers(mode="inprocess", build_memory_mb=SMALL))
        async with Engine(given) as engine:
            assert await ask(engine, "add", 1) == 2
            write(repository, "add", large(), 2)

            def refused() -> bool:
                return any(event["kind"] == "load_failed" for event in engine.events)

            await models.until(refused, "version 2 is refused")
            (reason,) = [
                entry["reason"] for entry in await engine.admin.index() if entry["version"] == "2"
            ]
            assert "compiling it needed more than 160 MiB of memory" in reason
            assert "raise workers.build_memory_mb" in reason
            assert await ask(engine, "add", 1) == 2

    asyncio.run(check())
