"""Compiled models, and workers that run them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from infuse.serving.engine.tuner import run_once
from infuse.serving.workers.executor import Executor
from infuse.serving.workers.process import WorkerProcess
from tests.serving import models


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bytes], Path]:
    """Compiled models by name, each made once."""
    root = tmp_path_factory.mktemp("compiled")
    known: dict[str, Path] = {}

    def folder(name: str, content: bytes) -> Path:
        if name not in known:
            known[name] = models.compiled(root / name, content)
        return known[name]

    return folder


@pytest.fixture(scope="module")
def add(folders: Callable[[str, bytes], Path]) -> Path:
    return folders("add", models.adder(1.0))


def worked(work: Callable[[WorkerProcess], Awaitable[None]], memory_mb: int = 0) -> None:
    """Do something with a worker, which ends afterwards."""

    async def run() -> None:
        worker = WorkerProcess((), memory_mb)
        await worker.start()
        try:
            await work(worker)
        finally:
            await worker.close()

    asyncio.run(run())


async def run(executor: Executor, *arrays: Any, seconds: float = 60.0) -> list[Any]:
    return await run_once(executor, [[array] for array in arrays], seconds)
