"""Processes that see models have none of the server's secrets."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from infuse.serving.workers.environment import child_environment
from infuse.serving.workers.process import WorkerProcess

pytestmark = pytest.mark.row("S9")

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "s",
    "aws_session_token": "s",
    "AZURE_STORAGE_ACCOUNT_KEY": "s",
    "GOOGLE_APPLICATION_CREDENTIALS": "s",
    "MY_API_KEY": "s",
    "DATABASE_PASSWORD": "s",
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/home/a",
    "INFUSE_CACHE": "/cache",
    "LD_LIBRARY_PATH": "/lib",
    "CXX": "clang++",
}


def test_secrets_are_left_out_and_the_rest_is_kept() -> None:
    assert child_environment({**SECRETS, **NEEDED}) == {**NEEDED, "PYTHONSAFEPATH": "1"}


def test_a_worker_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)

    async def variables() -> set[str]:
        worker = WorkerProcess(sorted(os.sched_getaffinity(0))[:1])
        await worker.start()
        try:
            text = b""
            for _ in range(500):  # empty until the new program has been set up
                if text := Path(f"/proc/{worker.pid}/environ").read_bytes():
                    break
                await asyncio.sleep(0.01)
        finally:
            worker.expected = True
            await worker.close()
        return {entry.split(b"=")[0].decode() for entry in text.split(b"\0") if entry}

    found = asyncio.run(variables())
    assert "PATH" in found
    assert not found & SECRETS.keys()
