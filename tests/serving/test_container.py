"""The container recipe, as far as it can be tried without a container runtime."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib
import typer
import yaml

from infuse.cli.commands import COMMANDS, function_of
from infuse.errors import ConfigurationError
from infuse.serving.config import ServerConfig
from infuse.serving.control.reading import convert
from infuse.serving.transports.rest.app import DataApp
from infuse.serving.transports.security import check_exposure
from tests.pages.blocks import blocks
from tests.serving.rest_tools import FakeEngine, config, serving

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "container"
PAGE = (ROOT / "docs" / "container.md").read_text("utf-8")
PORTS = {8000, 8001}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile: name and text, lines joined, comments left out."""
    text = (FOLDER / "Containerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    pairs = [line.split(None, 1) for line in joined if line.strip()]
    return [(name, rest) for name, rest in pairs]


def told(name: str) -> list[str]:
    return [text for each, text in instructions() if each == name]


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def pod() -> dict[str, Any]:
    """The pod of the Kubernetes file."""
    (deployment,) = (d for d in documents("kubernetes.yaml") if d["kind"] == "Deployment")
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def health_command() -> list[str]:
    (check,) = told("HEALTHCHECK")
    command: list[str] = json.loads(check[check.index("[") :])
    return command


# -------------------------------------------------------------------------------------- the image


def test_what_is_copied_is_there() -> None:
    copied = [words for words in map(shlex.split, told("COPY")) if "--from=build" not in words]
    for *sources, _ in copied:
        for source in sources:
            assert (ROOT / source).exists(), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    paths = [path for words in copied for path in words[:-1]]
    for needed in (project["project"]["readme"], *project["project"]["license-files"], "src"):
        assert needed in paths, "the wheel cannot be made without it"


def test_extras_and_constraints_are_there() -> None:
    (extras,) = re.findall(r"\.whl\)\[([\w,]+)\]", " ".join(told("RUN")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (version,) = {text.split("=")[1] for text in told("ARG")}
    least = project["requires-python"].removeprefix(">=")
    assert tuple(map(int, version.split("."))) >= tuple(map(int, least.split(".")))


@pytest.mark.parametrize(
    "command",
    [
        json.loads(told("CMD")[0]),
        pod()["containers"][0]["args"],
        *([*shlex.split(line)] for line in re.findall(r"infuse (serve --make-token)$", PAGE, re.M)),
    ],
    ids=" ".join,
)
def test_commands_and_options_are_there(command: list[str]) -> None:
    name, *rest = command
    assert name in COMMANDS
    program = typer.Typer()
    program.command()(function_of(name))
    parameters = typer.main.get_command(program).params
    options = {option for parameter in parameters for option in parameter.opts}
    used = {word for word in rest if word.startswith("--")}
    assert used
    assert used <= options


def test_the_health_check_tells_a_ready_server() -> None:
    python, flag, code = health_command()
    assert python == "python"
    engine = FakeEngine()
    with serving(DataApp(engine, config())) as server:
        own = [sys.executable, flag, code.replace("127.0.0.1:8000", server.address)]
        assert own[2] != code
        subprocess.run(own, check=True)
        engine.serving = False
        assert subprocess.run(own, check=False, capture_output=True).returncode != 0
    assert subprocess.run(own, check=False, capture_output=True).returncode != 0


def test_probes_of_kubernetes_are_answered() -> None:
    (container,) = pod()["containers"]
    engine = FakeEngine()
    with serving(DataApp(engine, config())) as server:
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container[kind]["httpGet"]
            assert probe["port"] in {port["name"] for port in container["ports"]}
            code = (
                f"import urllib.request as r; r.urlopen('http://{server.address}{probe['path']}')"
            )
            subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------- the configuration


def test_the_image_does_not_start_without_tokens() -> None:
    settings = convert(ServerConfig, documents("server.yaml")[0], "server.yaml")
    with pytest.raises(ConfigurationError, match="lets other machines call"):
        check_exposure(settings)


def test_the_configuration_of_the_page_starts() -> None:
    (block,) = blocks("docs/container.md", "yaml")
    settings = convert(ServerConfig, yaml.safe_load(block.text), block.page)
    with pytest.warns(UserWarning, match="plain text"):
        check_exposure(settings)
    assert settings.security.tokens
    image = convert(ServerConfig, documents("server.yaml")[0], "server.yaml")
    assert (settings.http, settings.grpc, settings.admin) == (image.http, image.grpc, image.admin)


# ------------------------------------------------------------------------------ the same everywhere


def test_ports_are_the_same_everywhere() -> None:
    settings = convert(ServerConfig, documents("server.yaml")[0], "server.yaml")
    assert {settings.http.port, settings.grpc.port} == PORTS
    assert set(map(int, told("EXPOSE")[0].split())) == PORTS | {settings.admin.port}
    (compose,) = documents("compose.yaml")
    assert compose["services"]["infuse"]["ports"] == [f"{p}:{p}" for p in sorted(PORTS)]
    (container,) = pod()["containers"]
    inner = PORTS | {settings.admin.port}
    assert {port["containerPort"] for port in container["ports"]} == inner
    (service,) = (d for d in documents("kubernetes.yaml") if d["kind"] == "Service")
    assert {port["port"] for port in service["spec"]["ports"]} == PORTS


def test_nobody_is_root_and_the_root_is_not_written() -> None:
    (user,) = told("USER")
    uid, gid = map(int, user.split(":"))
    assert uid > 0
    assert f"--uid {uid} " in " ".join(told("RUN"))
    security = pod()["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (uid, gid, gid)
    (container,) = pod()["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    (compose,) = documents("compose.yaml")
    assert compose["services"]["infuse"]["read_only"]


def test_folders_are_mounted_where_the_image_has_them() -> None:
    (volume,) = told("VOLUME")
    variables = dict(word.split("=") for word in told("ENV")[0].split())
    assert Path(variables["INFUSE_CACHE"]).parent == Path(volume)
    settings = convert(ServerConfig, documents("server.yaml")[0], "server.yaml")
    file = json.loads(told("CMD")[0])[-1]
    (container,) = pod()["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {volume, settings.repository, str(Path(file).parent), "/tmp"}
    names = {mount["name"] for mount in container["volumeMounts"]}
    assert names == {each["name"] for each in pod()["volumes"]}
    (compose,) = documents("compose.yaml")
    targets = {text.split(":")[1] for text in compose["services"]["infuse"]["volumes"]}
    assert targets == {volume, settings.repository, file}


def test_requests_under_way_are_waited_for() -> None:
    grace = ServerConfig().exit_seconds
    assert pod()["terminationGracePeriodSeconds"] > grace
    (compose,) = documents("compose.yaml")
    assert int(compose["services"]["infuse"]["stop_grace_period"].removesuffix("s")) > grace
