"""TLS as a caller needs it: whom it trusts, and the certificate that it shows."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infuse.errors import OptionError

if TYPE_CHECKING:
    import grpc


SECURE_SCHEMES: Final = ("https://", "grpcs://")


@dataclass(frozen=True)
class CallerTls:
    """PEM files: certificates of the authorities that are trusted (none: those of the system), and
    the caller's own certificate with its key.
    """

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def check_scheme(self, url: str) -> None:
        """OptionError where files are named for a URL that is not over TLS."""
        if self != CallerTls() and not url.startswith(SECURE_SCHEMES):
            raise OptionError(
                f"{url!r} is not over TLS, so certificates have no effect",
                hint=f"write it with {' or '.join(SECURE_SCHEMES)}, or leave them out",
            )

    def context(self) -> ssl.SSLContext:
        """For HTTPS; OptionError for files that cannot be used."""
        if (self.certificate is None) != (self.key is None):
            raise OptionError("a certificate and its key go together", hint="name both")
        try:
            context = ssl.create_default_context(cafile=self.authorities)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise OptionError(
                f"its certificates cannot be used: {error}", where=str(self.authorities)
            ) from error
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
            except (OSError, ValueError) as error:
                raise OptionError(
                    f"the certificate cannot be used with the key {str(self.key)!r}: {error}",
                    where=str(self.certificate),
                ) from error
        return context

    def credentials(self) -> grpc.ChannelCredentials:
        """For gRPC; OptionError for files that cannot be used."""
        import grpc

        self.context()
        return grpc.ssl_channel_credentials(
            root_certificates=_bytes(self.authorities),
            private_key=_bytes(self.key),
            certificate_chain=_bytes(self.certificate),
        )


def _bytes(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise OptionError(f"it cannot be read: {error}", where=str(path)) from error
