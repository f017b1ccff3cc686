"""`infuse rollout` and `infuse rollback`: move the traffic of a model on a running server."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import urllib.parse
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.options import AsJson
from infuse.cli.serve import require_packages
from infuse.errors import OptionError, UnavailableError
from infuse.options.serving import TOKEN_VARIABLE, Certificates

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model's name.", show_default=False)
]
Admin = Annotated[
    str,
    typer.Option("--admin", metavar="URL", help=f"The admin port; its token in ${TOKEN_VARIABLE}."),
]
_ADMIN = "http://127.0.0.1:8002"
_MOST_BYTES = 16 << 20  # of an answer
_STATES = {"promote": "promoted", "pause": "paused", "resume": "running"}
_LOAD_SECONDS = 1000.0  # a version that is not loaded is built first


@with_flags
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
    *,
    certificates: Certificates,
    as_json: AsJson = False,
) -> None:
    """Move a model's traffic to another version in steps; without a version, show how it stands.

    The server rolls back by itself when the new version errs more, is slower, or answers otherwise.
    """
    verbs = [
        verb for verb, flag in (("promote", promote), ("pause", pause), ("resume", resume)) if flag
    ]
    if len(verbs) + (version is not None) > 1:
        raise OptionError("a version, --promote, --pause and --resume exclude each other")
    port = AdminPort(admin, model, _context(admin, certificates))
    if verbs:
        told = port.call(verbs[0], {})
        now = (told["rollout"] or {}).get("state")
        _require(told, now == _STATES[verbs[0]], f"the rollout is {now}", admin)
    elif version is not None:
        canary: dict[str, Any] = {}
        if steps:
            canary["steps"] = _shares(steps)
        if step_seconds is not None:
            canary["step_seconds"] = step_seconds
        body = {"version": version} | ({"canary": canary} if canary else {})
        told = port.call("rollout", body, _LOAD_SECONDS)
        to = (told["rollout"] or {}).get("to")
        _require(told, to == version, f"its last rollout is to version {to}", admin)
    _show(port.call("traffic"), as_json)


@with_flags
def rollback(
    model: ModelName,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="For the log and the console.")
    ] = "by hand",
    admin: Admin = _ADMIN,
    *,
    certificates: Certificates,
    as_json: AsJson = False,
) -> None:
    """Take a model's traffic back from the version that is being rolled out, or to the one before.

    That one is loaded again, and stays, also where the model's version policy would not keep it.
    """
    port = AdminPort(admin, model, _context(admin, certificates))
    told = port.call("rollback", {"reason": reason}, _LOAD_SECONDS)
    now = (told["rollout"] or {}).get("state")
    _require(told, now not in ("running", "paused"), f"the rollout is {now}", admin)
    _show(port.call("traffic"), as_json)


@dataclass(frozen=True)
class AdminPort:
    """The traffic of one model, at the admin port of a server; `context` is for https."""

    url: str
    model: str
    context: ssl.SSLContext | None = None

    def call(self, verb: str, body: Any = None, seconds: float = 60.0) -> dict[str, Any]:
        """How the traffic stands, or stands after a verb. UnavailableError when the server is not
        there, needs more than `seconds` or answers something else; OptionError when it refuses.
        """
        from infuse.serving.load.remote import Failure

        if not self.url.startswith(("http://", "https://")):
            raise OptionError(
                f"{self.url!r} is not an address of a server", hint=f"write it as {_ADMIN}"
            )
        try:
            return _checked(asyncio.run(self._ask(verb, body, seconds)), self.model)
        except Failure as failure:
            if failure.cause == "connection":
                raise UnavailableError(
                    f"no server answers: {failure.text}",
                    where=self.url,
                    hint="start `infuse serve`, or name its port with --admin",
                ) from failure
            if failure.cause in ("timeout", "server", "wrong answer"):
                raise UnavailableError(str(failure), where=self.url) from failure
            raise OptionError(failure.text or failure.kind, where=self.url) from failure

    async def _ask(self, verb: str, body: Any, seconds: float) -> bytes:
        from infuse.serving.load.session import Session

        token = os.environ.get(TOKEN_VARIABLE, "")
        session = Session(self.url, token, seconds, 1, self.context)
        data = None if body is None else json.dumps(body).encode()
        path = f"/v2/models/{urllib.parse.quote(self.model, safe='')}/{verb}"
        try:
            headers = {"Content-Type": "application/json"}
            return (await session.ask(path, data, headers, most=_MOST_BYTES)).body
        finally:
            await session.close()


def _checked(text: bytes, model: str) -> dict[str, Any]:
    """The traffic that an answer tells; Failure where it is none of this model."""
    from infuse.serving.load.remote import wrong_answer

    try:
        traffic = json.loads(text)
        is_traffic = (
            traffic["model"] == model
            and all(
                0 <= share <= 1 and int(number) > 0 for number, share in traffic["shares"].items()
            )
            and all(isinstance(number, int) for number in traffic["labels"].values())
            and isinstance(traffic["settled"], int | None)
            and isinstance(traffic["rollout"], dict | None)
            and (not traffic["rollout"] or {"to", "state", "reason"} <= traffic["rollout"].keys())
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_traffic = False
    if not is_traffic:
        raise wrong_answer(f"it is not the traffic of {model!r}: is this an admin port?")
    return dict(traffic)


def _require(told: dict[str, Any], holds: bool, what: str, url: str) -> dict[str, Any]:
    """How the traffic stands, which is to be so; UnavailableError where the server did not do as it
    was told.
    """
    if not holds:
        raise UnavailableError(f"the server took the order, and {what}", where=url)
    return told


def _context(url: str, certificates: Certificates) -> ssl.SSLContext | None:
    """TLS as the options have it; None without any."""
    require_packages(("aiohttp", "msgspec"))
    if not certificates.are_named:
        return None
    from infuse.serving.load.caller_tls import CallerTls

    tls = CallerTls(certificates)
    tls.check_scheme(url)
    return tls.context()


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
