"""Large messages of every kind: each gets its answer, and the loop of the server turns meanwhile.

What counts is the processor time of the loop's own thread between two of its turns, the least of a
few attempts. The garbage collector rests meanwhile: it runs in whichever thread allocates, and in a
process that has imported several frameworks it takes seconds.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from benchmarks import serving_lists
from benchmarks.serving_list_cases import ECHOES, GRPC, REST, Case, echo
from infuse.serving.config import Limits, Listener, Security, ServerConfig
from infuse.serving.server import Server
from tests.serving import models
from tests.serving.processes import ServeProcess

pytestmark = pytest.mark.row("S9")

SMALL = 2 << 20
FULL = 60 << 20
_LONGEST = (
    0.1  # seconds of work in one turn; reading 2 MiB of JSON at once takes up to half a second
)
_ATTEMPTS = 5
_LATE = 20.0  # seconds, far beyond what a busy machine needs to say that it lives
MODELS = {f"echo_{name.lower()}": echo(kind) for name, kind in ECHOES.items()}
CASES = [*(("http", name) for name in REST), *(("grpc", name) for name in GRPC)]


class Stage:
    """A server in a thread of its own, and the longest turn of its loop."""

    def __init__(self, folder: Path) -> None:
        for name, content in MODELS.items():
            models.write(folder / "models", name, content)
        self.longest = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        config = ServerConfig(
            repository=str(folder / "models"),
            cache=folder / "cache",
            http=Listener(),
            grpc=Listener(),
            admin=Listener(),
            limits=Limits(request_bytes=8 << 20),
            security=Security(admin_on_data_port=True),
        )
        self.server = Server(config)
        self.call(self.server.start())
        self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(240)

    async def _watch(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self.longest = max(self.longest, now - before)
            before = now

    def ask(self, kind: str, case: Case, message: bytes) -> int | str:
        if kind == "http":
            assert self.server.http is not None
            return serving_lists.sent(self.server.http.port, message)
        assert self.server.grpc is not None
        with grpc.insecure_channel(
            f"127.0.0.1:{self.server.grpc.port}", serving_lists.CHANNEL
        ) as channel:
            return serving_lists.called(channel, case.method, message)

    def close(self) -> None:
        self._watching.cancel()
        self.call(self.server.stop(0.5))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def resting_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("lists"))
    try:
        yield made
    finally:
        made.close()


def case_of(kind: str, name: str) -> Case:
    return (REST if kind == "http" else GRPC)[name]


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("resting_collector")
@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind} {name}" for kind, name in CASES])
def test_the_loop_turns_while_a_large_message_is_answered(
    kind: str, name: str, stage: Stage
) -> None:
    case = case_of(kind, name)
    message = case.make(SMALL)
    turns = []
    while not turns or (min(turns) >= _LONGEST and len(turns) < _ATTEMPTS):
        stage.longest = 0.0
        assert stage.ask(kind, case, message) in case.statuses
        turns.append(stage.longest)
    assert min(turns) < _LONGEST


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("lists")
    for name, content in MODELS.items():
        models.write(folder / "models", name, content)
    with ServeProcess(
        folder / "models", folder, ["--set=security.admin_on_data_port=true"]
    ) as started:
        yield started.serve()


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind} {name}" for kind, name in CASES])
def test_health_is_answered_meanwhile(kind: str, name: str, process: ServeProcess) -> None:
    watch = serving_lists.Watch(process.http, process.grpc)
    try:
        row = serving_lists.measure(watch, process, kind, case_of(kind, name), FULL)
    finally:
        watch.close()
    assert row["right"], row["status"]
    assert max(row["health"].values()) < 1000 * _LATE
