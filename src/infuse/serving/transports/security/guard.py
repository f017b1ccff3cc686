"""The guard at the door: whether a caller may do what it asks for, and how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal

from infuse.errors import AccessError
from infuse.serving.config import ServerConfig
from infuse.serving.control.callers import ANYBODY, Caller, forbidden
from infuse.serving.transports.security.rates import Rates, caller_address
from infuse.serving.transports.security.tokens import Holder, Tokens, bearer

Role = Literal["infer", "watch", "settings", "admin", "health"]


class Guard:
    """Admits callers by token and rate, as the configuration says; ConfigurationError for tokens
    that are none.

    Without tokens everybody is admitted to everything, and a rate counts addresses; with tokens it
    counts tokens, and callers without a valid one by address.
    """

    def __init__(self, config: ServerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = Tokens(config.security.tokens)
        self._with_tokens = len(self._tokens) > 0
        per_second = config.limits.requests_per_second
        self._rates = Rates(per_second, config.limits.burst, clock) if per_second > 0 else None
        self.open = not self._with_tokens and self._rates is None
        """Whether everybody may do everything, as often as they like."""

    @property
    def with_tokens(self) -> bool:
        """Whether callers need a token."""
        return self._with_tokens

    def admit(
        self, headers: Mapping[str, str], address: str, role: Role, model: str = ""
    ) -> Caller:
        """The caller, who may do this; what else it touches is to be asked of them
        (`Caller.require`).

        `headers` have names in lower case. `address`: of the peer, with or without port, IPv4, IPv6
        or as gRPC writes it. `role`: `health` needs no token and is never limited; `infer` is for
        everything about one model that changes nothing, `model` being its name, and for the
        server's metadata; `watch` is for what shows all models (metrics, index, statistics of all),
        which a token that is limited to some models may not see; `settings` for what is set of the
        whole server, by whatever path, which an admin's token without limits may see; `admin` for
        what changes the server. An admin's token may do everything, on the models that it is
        limited to.

        AccessError: no valid token (`known` false), or one that does not allow this. OverloadError:
        too many requests.
        """
        if self.open or role == "health":
            return ANYBODY
        if not self._with_tokens:
            self._count(caller_address(address))
            return ANYBODY
        holder = self._tokens.find(bearer(headers.get("authorization", "")))
        if holder is None:
            self._count(caller_address(address))
            raise _unknown("authorization" in headers)
        self._count(f"token {holder.name}")
        _check(holder, role, model)
        return Caller(holder.name, holder.models)

    def _count(self, caller: str) -> None:
        if self._rates is not None:
            self._rates.take(caller)


def _check(holder: Holder, role: Role, model: str) -> None:
    if role in ("admin", "settings") and holder.role != "admin":
        raise forbidden(f"the token '{holder.name}' may infer, but not change the server")
    if role == "settings":
        model = ""
    if not holder.models or model in holder.models:
        return
    if model:
        raise forbidden(f"the token '{holder.name}' is not for the model '{model}'")
    if role != "infer":
        raise forbidden(f"the token '{holder.name}' is for some models only, and this concerns all")


def _unknown(shown: bool) -> AccessError:
    what = "the token is not a valid one" if shown else "this needs a token"
    return AccessError(what, hint="send the header Authorization: Bearer TOKEN")
