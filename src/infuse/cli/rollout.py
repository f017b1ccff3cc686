"""`infuse rollout` and `infuse rollback`: move the traffic of a model on a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.options import AsJson
from infuse.cli.packages import require_packages
from infuse.errors import OptionError
from infuse.options.serving import ADMIN_URL, TOKEN_VARIABLE, Certificates, RolloutOptions

if TYPE_CHECKING:
    from infuse.serving.load.admin_port import AdminPort

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model's name.", show_default=False)
]
Admin = Annotated[
    str,
    typer.Option("--admin", metavar="URL", help=f"The admin port; its token in ${TOKEN_VARIABLE}."),
]


@with_flags
def rollout(
    model: ModelName,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="The new version.", show_default=False)
    ] = None,
    *,
    options: RolloutOptions,
    admin: Admin = ADMIN_URL,
    certificates: Certificates,
    as_json: AsJson = False,
) -> None:
    """Move a model's traffic to another version in steps; without a version, show how it stands.

    The server rolls back by itself when the new version errs more, is slower, or answers otherwise.
    """
    if version is not None and options.verb:
        raise OptionError("a version, --promote, --pause and --resume exclude each other")
    port = _port(admin, model, certificates)
    port.roll_out(version, options)
    traffic = port.traffic()
    terminal.answer(traffic, as_json, lambda: _show(traffic))


@with_flags
def rollback(
    model: ModelName,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="For the log and the console.")
    ] = "by hand",
    admin: Admin = ADMIN_URL,
    *,
    certificates: Certificates,
    as_json: AsJson = False,
) -> None:
    """Take a model's traffic back from the version that is being rolled out, or to the one before.

    That one is loaded again, and stays, also where the model's version policy would not keep it.
    """
    port = _port(admin, model, certificates)
    port.roll_back(reason)
    traffic = port.traffic()
    terminal.answer(traffic, as_json, lambda: _show(traffic))


def _port(url: str, model: str, certificates: Certificates) -> AdminPort:
    require_packages(("aiohttp", "msgspec"))
    from infuse.serving.load.admin_port import AdminPort

    return AdminPort.of(url, model, certificates)


def _show(traffic: dict[str, Any]) -> None:
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
