"""`infuse serve`: a model repository over HTTP and gRPC."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.packages import require_packages
from infuse.options.serving import ServerChanges

if TYPE_CHECKING:
    from infuse.serving.config import ServerConfig

_NEEDED = ("msgspec", "httptools", "grpc", "obstore", "prometheus_client")


@with_flags
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
    *,
    changes: ServerChanges,
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
    else:
        from infuse.serving.control.reading import changed_config

        _run(changed_config(config, changes, repository))


def _run(config: ServerConfig) -> None:
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
