"""`infuse rollout` and `infuse rollback`: move the traffic of a model on a running server."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.options import AsJson, Authorities, CallerCertificate, CallerKey
from infuse.cli.serve import require_packages
from infuse.errors import OptionError, UnavailableError

TOKEN_VARIABLE = "INFUSE_TOKEN"  # noqa: S105 (the name of a variable)

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model's name.", show_default=False)
]
Admin = Annotated[
    str,
    typer.Option("--admin", metavar="URL", help=f"The admin port; its token in ${TOKEN_VARIABLE}."),
]
_ADMIN = "http://127.0.0.1:8002"
_LOAD_SECONDS = 1000.0  # a version that is not loaded is built first


def rollout(
    model: ModelName,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="The new version.", show_default=False)
    ] = None,
    steps: Annotated[
        str,
        typer.Option(
            metavar="SHARES", help="Shares of the traffic, as 0.05,0.25,1; by default the model's."
        ),
    ] = "",
    step_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="How long each step is held.")
    ] = None,
    promote: Annotated[
        bool, typer.Option("--promote", help="Give the new version all traffic now.")
    ] = False,
    pause: Annotated[bool, typer.Option("--pause", help="Hold the rollout at its share.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Let a paused rollout go on.")] = False,
    admin: Admin = _ADMIN,
    ca: Authorities = None,
    certificate: CallerCertificate = None,
    key: CallerKey = None,
    as_json: AsJson = False,
) -> None:
    """Move a model's traffic to another version in steps; without a version, show how it stands.

    The server rolls back by itself when the new version errs more, is slower, or answers otherwise.
    """
    path = f"/v2/models/{urllib.parse.quote(model, safe='')}"
    verbs = [
        verb for verb, flag in (("promote", promote), ("pause", pause), ("resume", resume)) if flag
    ]
    if len(verbs) + (version is not None) > 1:
        raise OptionError("a version, --promote, --pause and --resume exclude each other")
    port = AdminPort(admin, _context(admin, ca, certificate, key))
    if verbs:
        port.call(f"{path}/{verbs[0]}", {})
    elif version is not None:
        canary: dict[str, Any] = {}
        if steps:
            canary["steps"] = _shares(steps)
        if step_seconds is not None:
            canary["step_seconds"] = step_seconds
        body = {"version": version} | ({"canary": canary} if canary else {})
        port.call(f"{path}/rollout", body, _LOAD_SECONDS)
    _show(port.call(f"{path}/traffic"), as_json)


def rollback(
    model: ModelName,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="For the log and the console.")
    ] = "by hand",
    admin: Admin = _ADMIN,
    ca: Authorities = None,
    certificate: CallerCertificate = None,
    key: CallerKey = None,
    as_json: AsJson = False,
) -> None:
    """Take a model's traffic back from the version that is being rolled out, or to the one before.

    That one is loaded again, and stays, also where the model's version policy would not keep it.
    """
    path = f"/v2/models/{urllib.parse.quote(model, safe='')}"
    port = AdminPort(admin, _context(admin, ca, certificate, key))
    port.call(f"{path}/rollback", {"reason": reason}, _LOAD_SECONDS)
    _show(port.call(f"{path}/traffic"), as_json)


@dataclass(frozen=True)
class AdminPort:
    """The admin port of a server; `context` is for https."""

    url: str
    context: ssl.SSLContext | None = None

    def call(self, path: str, body: Any = None, seconds: float = 60.0) -> Any:
        """What it answers. UnavailableError when it is not there or needs more than `seconds`,
        OptionError when it refuses.
        """
        if not self.url.startswith(("http://", "https://")):
            raise OptionError(
                f"{self.url!r} is not an address of a server", hint=f"write it as {_ADMIN}"
            )
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get(TOKEN_VARIABLE, ""):
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        url = self.url.rstrip("/") + path
        request = urllib.request.Request(url, data, headers)  # noqa: S310 (checked above)
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=seconds, context=self.context
            ) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise OptionError(_refusal(error), where=self.url) from error
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise UnavailableError(
                f"no server answers: {reason}",
                where=self.url,
                hint="start `infuse serve`, or name its port with --admin",
            ) from error
        return json.loads(text) if text else None


def _context(
    url: str, ca: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext | None:
    """TLS as the options have it; None without any."""
    if ca is None and certificate is None and key is None:
        return None
    require_packages(("msgspec",))
    from infuse.serving.load.caller_tls import CallerTls

    tls = CallerTls(ca, certificate, key)
    tls.check_scheme(url)
    return tls.context()


def _refusal(error: urllib.error.HTTPError) -> str:
    text = error.read().decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}: {text[:200]}"


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(
            f"--steps {text!r} is not a list of shares", hint="write it as 0.05,0.25,1"
        ) from None


def _show(traffic: Any, as_json: bool) -> None:
    if as_json:
        terminal.say_json(traffic)
        return
    shares = traffic.get("shares", {})
    labels = {number: label for label, number in traffic.get("labels", {}).items()}
    for number, share in sorted(shares.items(), key=lambda entry: int(entry[0])):
        label = f"  ({labels[int(number)]})" if int(number) in labels else ""
        terminal.say(f"version {number}{label}: {share:.0%} of the traffic")
    if settled := traffic.get("settled"):
        stays = (
            "stays loaded and serves, also after a restart, until a later version comes or a "
            "rollout begins"
        )
        terminal.say(f"version {settled} {stays}")
    rollout_now = traffic.get("rollout")
    if rollout_now:
        reason = f": {rollout_now['reason']}" if rollout_now.get("reason") else ""
        terminal.say(f"rollout of version {rollout_now['to']}: {rollout_now['state']}{reason}")
