"""Servers in this process for tests of `infuse load`, and its shortest measurement."""

from collections.abc import Iterator

import pytest

from infuse.serving.config import Limits
from infuse.serving.transports.rest.app import DataApp
from tests.cli_tools import Cli
from tests.serving.rest_tools import FakeEngine, config, serving
from tests.serving.rpc_tools import running

SHORT = ("--seconds", 0.2, "--warm-up", 0.01)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def http(engine: FakeEngine) -> Iterator[str]:
    with serving(DataApp(engine, config()), Limits()) as server:
        yield f"http://127.0.0.1:{server.server.port}"


@pytest.fixture
def rpc(engine: FakeEngine) -> Iterator[str]:
    with running(engine) as server:
        yield f"grpc://{server.address}"


@pytest.fixture(params=["http", "rpc"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)
