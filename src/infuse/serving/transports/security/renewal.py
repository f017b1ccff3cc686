"""Looking for new certificates while the server runs, and telling of them in events and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.telemetry.views import Reading
from infuse.serving.transports.security import Certificates
from infuse.serving.tuning import UPKEEP_SECONDS

_log: Final = logging.getLogger(__name__)


class Renewal:
    """The certificates of all listeners that have some, by the listeners' names."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._watched: dict[str, Certificates] = {}

    def watch(self, listener: str, certificates: Certificates | None) -> None:
        """Look at these from now on; None: the listener has no TLS."""
        if certificates is not None:
            self._watched[listener] = certificates

    async def run(self, every: float = UPKEEP_SECONDS) -> None:
        """Look every so many seconds, until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                await self.look()
            except Exception:
                _log.exception("looking for new certificates failed")

    async def look(self) -> None:
        """Take what is new, in a thread, since files may lie where reading takes long;
        `certificate_renewed` and `certificate_refused` tell of it.
        """
        for listener, certificates in list(self._watched.items()):
            news = await asyncio.to_thread(certificates.look)
            if news == "renewed":
                expires = f"{certificates.expires:%Y-%m-%d %H:%M} UTC"
                self._journal.emit("certificate_renewed", listener=listener, expires=expires)
            elif news == "refused":
                reason = f"{certificates.problem}; the certificate before stays"
                self._journal.emit("certificate_refused", listener=listener, reason=reason)

    def readings(self) -> Iterator[Reading]:
        """When certificates expire, and whether files are served as they are."""
        for listener, certificates in self._watched.items():
            expires = certificates.expires.timestamp()
            yield Reading("infuse_certificate_expiry_timestamp_seconds", expires, (listener,))
            yield Reading(
                "infuse_certificate_current", float(not certificates.problem), (listener,)
            )
