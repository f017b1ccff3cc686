"""Certificates of a listener that are renewed while it listens."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Literal

from infuse.errors import ConfigurationError
from infuse.serving.config import Tls
from infuse.serving.transports.security.tls import (
    Files,
    check_files,
    check_tls,
    read_files,
    ssl_context,
)


def _utc() -> datetime:
    return datetime.now(timezone.utc)


class Certificates:
    """What a listener shows and asks for: the files of its configuration, and their successors.

    ConfigurationError when they cannot be used at the start, as by `check_tls`. `clock` gives the
    time by which certificates are valid. `look` is for one thread at a time; everything else may be
    read by others meanwhile.
    """

    def __init__(self, tls: Tls, clock: Callable[[], datetime] = _utc) -> None:
        self._tls = tls
        self._clock = clock
        self._seen: Files | str = check_tls(tls, clock())
        self._told: tuple[Files | str, str] | None = None
        self.files: Files = self._seen
        """What new connections get."""
        self.expires = check_files(tls, self.files, clock())
        """When the first certificate of their chain does."""
        self.problem = ""
        """Why the files, as they are now, are not what new connections get; empty when they are."""
        self.context = _Newest(ssl.PROTOCOL_TLS_SERVER)
        """What a server of asyncio or uvloop takes: it stays, and each connection gets the newest
        certificates.
        """
        self.context.newest = ssl_context(tls, self.files)

    def look(self) -> Literal["", "renewed", "refused"]:
        """Take what is new in the files, once two looks in succession have found the same in them.

        `renewed`: connections that begin from now on get it. `refused`: it cannot be used,
        `problem` says why, and what there was stays; that is said once of the same files and
        reason. Otherwise nothing is new.
        """
        before, self._seen = self._seen, self._read()
        if self._seen == self.files:
            self.problem, self._told = "", None
            return ""
        if self._seen != before:
            return ""
        try:
            self._take(self._seen)
        except ConfigurationError as error:
            self.problem = str(error)
        else:
            self.problem, self._told = "", None
            return "renewed"
        told, self._told = self._told, (self._seen, self.problem)
        return "" if told == self._told else "refused"

    def _read(self) -> Files | str:
        """The files, or why they cannot be read."""
        try:
            return read_files(self._tls)
        except ConfigurationError as error:
            return str(error)

    def _take(self, files: Files | str) -> None:
        if isinstance(files, str):
            raise ConfigurationError(files)
        expires = check_files(self._tls, files, self._clock())
        context = ssl_context(self._tls, files)
        self.files, self.expires, self.context.newest = files, expires, context


class _Newest(ssl.SSLContext):
    """A context without certificates, which lets every connection begin with the newest one that
    has some.

    A handshake has one context from its first byte on, with its own authorities, session cache and
    ticket keys. What a context once trusted it cannot be told to forget, and one that is changed
    within the handshake (`sni_callback`) lets callers in whose sessions, or tickets, were made
    under the one before.
    """

    newest: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return self.newest.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
