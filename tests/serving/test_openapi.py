"""The OpenAPI document: correct in itself, and what the running server does, as schemathesis finds
out.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from infuse.serving.config import Security
from infuse.serving.server import Server
from infuse.serving.transports.rest.app import AdminApp, DataApp
from infuse.serving.transports.rest.server import HttpServer
from tests.serving.rest_models import whole_server
from tests.serving.rest_tools import FakeEngine, ask, config

pytestmark = pytest.mark.row("S1")
# Names of models and versions that are there; what their inputs are, no document can say.
KNOWN = '[parameters]\n"path.model_name" = "echo"\n"path.model_version" = "1"\n'
# Whether a configuration or a file is a good one, no document can say either.
LOADS = ("--exclude-path-regex", "load$")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with whole_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def document(app: Any) -> Any:
    return ask(app, "GET", "/openapi.json").json


@pytest.mark.parametrize("security", [Security(), Security(admin_on_data_port=True)])
@pytest.mark.parametrize("kind", [DataApp, AdminApp])
def test_the_document_is_valid(kind: Any, security: Security) -> None:
    found = document(kind(FakeEngine(), config(security=security)))
    validate(found)
    operations = [operation for path in found["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert all(
        {"400", "401", "403", "500"} <= operation["responses"].keys() for operation in operations
    )


def test_the_document_tells_what_each_port_has() -> None:
    data, admin = (document(kind(FakeEngine(), config()))["paths"] for kind in (DataApp, AdminApp))
    infer = "/v2/models/{model_name}/versions/{model_version}/infer"
    load = "/v2/repository/models/{model_name}/load"
    assert infer in data
    assert load not in data
    assert infer not in admin
    assert load in admin
    request = data[infer]["post"]["requestBody"]["content"]
    assert set(request) == {"application/json", "application/octet-stream"}
    both = document(DataApp(FakeEngine(), config(security=Security(admin_on_data_port=True))))[
        "paths"
    ]
    assert {infer, load} <= both.keys()


def schemathesis(server: HttpServer | None, folder: Path, settings: str, *options: str) -> str:
    """What schemathesis has to say of a port; an AssertionError when it finds a fault."""
    assert server is not None
    (folder / "schemathesis.toml").write_text(settings)
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{server.url}/openapi.json",
        "--no-color",
        "--seed",
        "1",
    ]
    # Deprecations of its own libraries are none of ours.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(
        [*command, "--phases", "examples,coverage,fuzzing", "--continue-on-failure", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    return result.stdout


@pytest.mark.parametrize("port", ["http", "admin"])
def test_any_request_is_answered_as_the_document_says(
    server: Server, port: str, tmp_path: Path
) -> None:
    told = schemathesis(getattr(server, port), tmp_path, "", "--checks", "all", "-n", "15", *LOADS)
    assert "generated" in told


def test_any_load_is_answered_as_the_document_says(tmp_path: Path) -> None:
    """By a server of its own: other versions may be loaded afterwards."""
    options = (
        "--checks",
        "all",
        "--exclude-checks",
        "positive_data_acceptance",
        "--include-path-regex",
        "load$",
    )
    with whole_server(tmp_path / "server") as server:
        assert "generated" in schemathesis(server.admin, tmp_path, "", *options, "-n", "30")


@pytest.mark.parametrize("port", ["http", "admin"])
def test_requests_about_a_model_are_answered_as_the_document_says(
    server: Server, port: str, tmp_path: Path
) -> None:
    without = "positive_data_acceptance,negative_data_rejection"
    options = ("--checks", "all", "--exclude-checks", without, "-n", "10")
    assert "generated" in schemathesis(getattr(server, port), tmp_path, KNOWN, *options, *LOADS)
