"""When the server says that it is ready: one broken upload takes no healthy model out of
rotation.
"""

import asyncio
import http.client
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from infuse.serving.config import Listener
from infuse.serving.engine.engine import Engine
from infuse.serving.server import Server
from tests.serving import models
from tests.serving.engine_stage import loaded, served
from tests.serving.models import ask, config, write

pytestmark = pytest.mark.row("S2")


async def http_status(port: int) -> int:
    def work() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/v2/health/ready")
        status = connection.getresponse().status
        connection.close()
        return status

    return await asyncio.to_thread(work)


async def grpc_status(port: int) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        return int(answer.status)


def bad(kind: str, repository: Path) -> None:
    """A new model that cannot serve."""
    if kind == "nonsense":
        write(repository, "bad", b"no model")
    elif kind == "configuration":
        write(repository, "bad", models.adder(1), config="replica: 3\n")
    else:
        write(repository, "bad", models.adder(1), config='labels: {"1x!": 1}\n')


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["nonsense", "configuration", "label"])
def test_a_broken_upload_is_no_matter_of_the_others(
    kind: str, strict: bool, tmp_path: Path
) -> None:
    repository = tmp_path / "models"
    write(repository, "good", models.adder(1))

    async def run() -> None:
        ports: Any = {name: Listener(port=0) for name in ("http", "grpc", "admin")}
        server = Server(config(tmp_path, strict_readiness=strict, **ports))
        await server.start()
        try:
            assert server.http is not None
            assert server.grpc is not None
            http_port, grpc_port = int(server.http.url.rpartition(":")[2]), server.grpc.port
            assert await http_status(http_port) == 200
            bad(kind, repository)
            engine = server.engine
            await models.until(
                lambda: any(e["kind"] == "load_failed" for e in engine.events), "it is noticed"
            )
            serving = health_pb2.HealthCheckResponse.SERVING
            assert (await http_status(http_port) == 200) is not strict
            assert (await grpc_status(grpc_port) == serving) is not strict
            assert await ask(engine, "good", 1) == 2
            models.remove(repository, "bad")
            await models.until(lambda: "bad" not in engine.models, "it is gone")
            assert await http_status(http_port) == 200
            assert await grpc_status(grpc_port) == serving
        finally:
            await server.stop(0)

    asyncio.run(run())


def test_what_is_broken_from_the_start_keeps_nobody_waiting(tmp_path: Path) -> None:
    for kind in ("nonsense", "good"):
        write(tmp_path / "models", kind, b"no model" if kind == "nonsense" else models.adder(1))

    async def work(engine: Engine) -> None:
        assert engine.ready()
        assert not engine.model_ready("nonsense")

    served(tmp_path, work)


def test_what_served_and_no_longer_does_is_told(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write(repository, "add", models.adder(1), config="load_order: unload_first\n")

    async def work(engine: Engine) -> None:
        await engine.admin.unload("add")
        assert engine.ready()  # an operator wanted that
        await engine.admin.load("add")
        write(repository, "add", b"no model", 2)
        await models.until(lambda: engine.models["add"].failures, "it has failed")
        assert engine.ready() is bool(engine.models["add"].versions)
        models.remove(repository, "add", 2)
        await loaded(engine, "add", 1)
        assert engine.ready()

    served(tmp_path, work)


@pytest.mark.parametrize("kind", ["configuration", "label"])
def test_a_broken_configuration_is_one_line_in_the_log(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository = tmp_path / "models"
    bad(kind, repository)
    caplog.set_level(logging.ERROR)

    async def work(engine: Engine) -> None:
        for _ in range(3):
            await engine.catalog.look()
        (line,) = [
            record.getMessage() for record in caplog.records if "load_failed" in record.getMessage()
        ]
        assert "model=bad" in line
        assert (
            ("config.yaml" in line and "replica" in line)
            if kind == "configuration"
            else "1x!" in line
        )
        (repository / "bad" / "config.yaml").write_text("")
        await loaded(engine, "bad", 1)

    served(tmp_path, work)
