"""What pages may make a browser ask of the server: only its own console may.

A browser lets any page send some requests to any address, also to 127.0.0.1, and a page whose own
name is made to point there (DNS rebinding) may read the answers too. Programs other than browsers
are not concerned.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from infuse.errors import AccessError
from infuse.serving.config import ServerConfig

# Of the console and of everything else on the admin port.
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
CUSTOM_HEADER: Final = "x-infuse-request"  # which no page of another origin can send
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE: Final = frozenset({"same-origin", "none"})
_BROWSER_MARKS: Final = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode")
# Nobody can register these, so no stranger's page has such a name.
_PRIVATE_ENDINGS: Final = (".localhost", ".local", ".internal")
_MOST_HOSTS: Final = 256  # that are remembered
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_HINT: Final = "call the server by its address, or name the host in security.hosts"


def check_browser(config: ServerConfig, method: str, headers: Mapping[str, str]) -> None:
    """AccessError (known) for a request that a page other than the server's own made a browser
    send.

    `headers` have names in lower case. Without tokens, `host` must be an address, a name of this
    network, that of a listener or one of `security.hosts`. A request that changes something must,
    where a browser sends it, come from the same origin, and be JSON or carry `X-Infuse-Request`.
    """
    host = headers.get("host", "")
    if not config.security.tokens:
        _check_host(config, host)
    if method in _READING or not _from_browser(headers):
        return
    origin = headers.get("origin")
    if headers.get("sec-fetch-site", "same-origin") not in _OWN_SITE or not _same(origin, host):
        raise _refused(f"a page of {origin or 'another site'} may not call this server")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and CUSTOM_HEADER not in headers:
        raise _refused(
            "from a browser, this must be application/json or have the header X-Infuse-Request"
        )


def _check_host(config: ServerConfig, host: str) -> None:
    name = _name(host)
    if _is_private(name):
        return
    hosts = (*config.security.hosts, config.http.host, config.admin.host)
    if name not in (each.lower() for each in hosts):
        error = _refused(f"'{name[:80]}' is not known as a name of this server")
        error.hint = _HINT
        raise error


@lru_cache(_MOST_HOSTS)
def _is_private(name: str) -> bool:
    if not name or _is_address(name):
        return True
    is_name = _NAME.fullmatch(name) is not None
    return is_name and ("." not in name or name.endswith(_PRIVATE_ENDINGS))


@lru_cache(_MOST_HOSTS)
def _name(host: str) -> str:
    """The name in a Host header: without its port, the dot at its end, and the brackets of an IPv6
    address.
    """
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _from_browser(headers: Mapping[str, str]) -> bool:
    return any(mark in headers for mark in _BROWSER_MARKS) or headers.get(
        "user-agent", ""
    ).startswith("Mozilla/")


def _same(origin: str | None, host: str) -> bool:
    return origin is None or origin.partition("://")[2].lower() == host.strip().lower()


def _refused(what: str) -> AccessError:
    error = AccessError(what)
    error.known = True
    return error
