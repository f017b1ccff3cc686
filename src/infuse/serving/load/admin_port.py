"""The admin port of a server: how the traffic of a model stands, and orders to move it."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import urllib.parse
from dataclasses import dataclass
from typing import Any, Final

from infuse.errors import OptionError, UnavailableError
from infuse.options.serving import ADMIN_URL, TOKEN_VARIABLE, Certificates, RolloutOptions
from infuse.serving.load.caller_tls import CallerTls
from infuse.serving.load.remote import Failure, wrong_answer
from infuse.serving.load.session import Session
from infuse.serving.messages import JSON, JsonObject

_MOST_BYTES: Final = 16 << 20  # of an answer
_STATES: Final = {"promote": "promoted", "pause": "paused", "resume": "running"}
_LOAD_SECONDS: Final = 1000.0  # a version that is not loaded is built first
_SECONDS: Final = 60.0


@dataclass(frozen=True)
class AdminPort:
    """The traffic of one model, at the admin port of a server; `context` is for https."""

    url: str
    model: str
    context: ssl.SSLContext | None = None

    @classmethod
    def of(cls, url: str, model: str, certificates: Certificates) -> AdminPort:
        """The port, with TLS as the certificates have it where any are named."""
        if not certificates.are_named:
            return cls(url, model)
        tls = CallerTls(certificates)
        tls.check_scheme(url)
        return cls(url, model, tls.context())

    def traffic(self) -> dict[str, Any]:
        """How the traffic stands. UnavailableError when the server is not there, needs too long or
        answers something else; OptionError when it refuses.
        """
        return self._call("traffic", None, _SECONDS)

    def roll_out(self, version: int | None, options: RolloutOptions) -> None:
        """Order what is asked for: a rollout to a version, or a change of that under way. Errors
        are those of `traffic`, and UnavailableError where the server took the order and did
        something else.
        """
        verb = options.verb
        if version is not None:
            canary = options.canary
            body: dict[str, JSON] = {"version": version} | ({"canary": canary} if canary else {})
            to = self._order("rollout", body, _LOAD_SECONDS).get("to")
            self._require(to == version, f"its last rollout is to version {to}")
        elif verb:
            state = self._order(verb, {}, _SECONDS).get("state")
            self._require(state == _STATES[verb], f"the rollout is {state}")

    def roll_back(self, reason: str) -> None:
        """Order that the rollout, or the version that serves, is taken back; with the errors of
        `roll_out`.
        """
        state = self._order("rollback", {"reason": reason}, _LOAD_SECONDS).get("state")
        self._require(state not in ("running", "paused"), f"the rollout is {state}")

    def _order(self, verb: str, body: JsonObject, seconds: float) -> dict[str, Any]:
        """The rollout after a verb."""
        return self._call(verb, body, seconds)["rollout"] or {}

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise UnavailableError(f"the server took the order, and {what}", where=self.url)

    def _call(self, verb: str, body: JsonObject | None, seconds: float) -> dict[str, Any]:
        if not self.url.startswith(("http://", "https://")):
            raise OptionError(
                f"{self.url!r} is not an address of a server", hint=f"write it as {ADMIN_URL}"
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

    async def _ask(self, verb: str, body: JsonObject | None, seconds: float) -> bytes:
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
