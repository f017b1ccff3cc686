"""`infuse serve`: a model repository over HTTP and gRPC."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from infuse.cli import terminal
from infuse.errors import OptionError

_NEEDED = ("msgspec", "httptools", "grpc", "obstore", "prometheus_client")


def serve(
    repository: Annotated[
        str | None,
        typer.Argument(
            metavar="REPOSITORY",
            help="A folder of models (name/1/model.onnx), or s3://bucket/prefix.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A server's configuration in YAML."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="HTTP and gRPC listen there; otherwise, as changes always do, on 127.0.0.1.",
        ),
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=65535, help="By default 8000.")
    ] = None,
    grpc_port: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=65535, help="By default 8001.")
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=65535, help="Metrics, console, changes: by default 8002."
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="poll (look for changes), explicit (load what is asked for) or none.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME", help="With explicit control, load this at the start."
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="process (each version in workers) or inprocess."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A field of the configuration, as limits.request_bytes=1000.",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Listen to other machines without tokens or client certificates."
        ),
    ] = False,
    make_token: Annotated[
        bool,
        typer.Option(
            "--make-token", help="Print a new token and its hash for the configuration, and end."
        ),
    ] = False,
) -> None:
    """Serve a model repository: Open Inference Protocol v2 over HTTP and gRPC, metrics and a
    console.

    Ports 8000 (HTTP), 8001 (gRPC) and 8002 (metrics, changes, console) of this machine, if nothing
    else is said.
    """
    require_packages(_NEEDED)
    if make_token:
        _print_token()
        return
    from infuse.serving.config import ServerConfig
    from infuse.serving.control import reading

    plain: dict[str, Any] = {}
    if config is not None:
        plain = reading.read_plain(config)
    for field, value in _changes(
        repository=repository,
        host=host,
        http=http_port,
        grpc=grpc_port,
        admin=admin_port,
        control=control,
        models=model,
        workers=workers,
        insecure=insecure,
    ).items():
        _put(plain, field, value)
    for text in set_ or ():
        field, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"--set {text!r} has no value", hint="write it as FIELD=VALUE")
        _put(plain, field, reading.value_of(value))
    settings = reading.convert(ServerConfig, plain, str(config) if config else "the command line")
    if not settings.repository:
        raise OptionError(
            "there is no repository to serve", hint="name a folder, or set repository in --config"
        )
    _run(settings)


def require_packages(names: Sequence[str]) -> None:
    """OptionError where a package is missing that `infuse[serve]` brings."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(f"serving needs {', '.join(missing)}", hint="pip install 'infuse[serve]'")


def _run(config: Any) -> None:
    from infuse.serving.control.telemetry.logs import setup
    from infuse.serving.server import Server

    log = setup(config.telemetry)
    try:
        server = Server(config, log)
        runner = asyncio.run
        if importlib.util.find_spec("uvloop") is not None:
            import uvloop

            runner = uvloop.run
        runner(server.run(_started))
    finally:
        log.close()


def _started(server: Any) -> None:
    models = server.engine.models.values()
    ready = sum(model.ready for model in models)
    lines = [f"{ready} of {len(models)} models serve" if models else "there are no models yet"]
    if server.http is not None:
        lines.append(f"HTTP     {server.http.url}")
    if server.grpc is not None:
        lines.append(f"gRPC     {server.config.grpc.host}:{server.grpc.port}")
    if server.admin is not None:
        lines.append(f"console  {server.admin.url}/   metrics  {server.admin.url}/metrics")
    terminal.say("\n".join(lines))


def _print_token() -> None:
    from infuse.serving.transports.security import new_token

    token, digest = new_token()
    terminal.say(f"token   {token}\nsha256  {digest}")
    terminal.note(
        "keep the token; put the hash into the configuration: security: {tokens: [{sha256: …, "
        "role: infer}]}"
    )


def _changes(
    *,
    repository: str | None,
    host: str | None,
    http: int | None,
    grpc: int | None,
    admin: int | None,
    control: str | None,
    models: list[str] | None,
    workers: str | None,
    insecure: bool,
) -> dict[str, Any]:
    """The fields of the configuration that options set."""
    ports: dict[Literal["http", "grpc", "admin"], int | None] = {
        "http": http,
        "grpc": grpc,
        "admin": admin,
    }
    fields: dict[str, Any] = {
        "repository": repository,
        "control": control,
        "models": models,
        "workers.mode": workers,
    }
    fields |= {f"{name}.port": port for name, port in ports.items()}
    fields |= {"http.host": host, "grpc.host": host}
    fields["security.insecure"] = insecure or None
    return {field: value for field, value in fields.items() if value is not None}


def _put(plain: dict[str, Any], field: str, value: Any) -> None:
    """Set a field that is named by its path, as `limits.request_bytes`."""
    *outer, last = field.split(".")
    place = plain
    for name in outer:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise OptionError(
                f"{field}: {name} has no fields", hint="docs/serving.md lists the configuration"
            )
    place[last] = value
