"""TLS as a caller needs it: whom it trusts, and the certificate that it shows."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infuse.errors import OptionError
from infuse.options.serving import Certificates

if TYPE_CHECKING:
    import grpc


SECURE_SCHEMES: Final = ("https://", "grpcs://")


@dataclass(frozen=True)
class CallerTls:
    """TLS with the certificates that are named."""

    files: Certificates

    def check_scheme(self, url: str) -> None:
        """OptionError where files are named for a URL that is not over TLS."""
        if self.files.are_named and not url.startswith(SECURE_SCHEMES):
            raise OptionError(
                f"{url!r} is not over TLS, so certificates have no effect",
                hint=f"write it with {' or '.join(SECURE_SCHEMES)}, or leave them out",
            )

    def context(self) -> ssl.SSLContext:
        """For HTTPS; OptionError for files that cannot be used."""
        if (self.files.certificate is None) != (self.files.key is None):
            raise OptionError("a certificate and its key go together", hint="name both")
        try:
            context = ssl.create_default_context(cafile=self.files.authorities)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise OptionError(
                f"its certificates cannot be used: {error}", where=str(self.files.authorities)
            ) from error
        if self.files.certificate is not None:
            try:
                context.load_cert_chain(
                    self.files.certificate, self.files.key, password=lambda: b""
                )
            except (OSError, ValueError) as error:
                raise OptionError(
                    f"the certificate cannot be used with the key {str(self.files.key)!r}: {error}",
                    where=str(self.files.certificate),
                ) from error
        return context

    def credentials(self) -> grpc.ChannelCredentials:
        """For gRPC; OptionError for files that cannot be used."""
        import grpc

        self.context()
        return grpc.ssl_channel_credentials(
            root_certificates=_bytes(self.files.authorities),
            private_key=_bytes(self.files.key),
            certificate_chain=_bytes(self.files.certificate),
        )


def _bytes(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise OptionError(f"it cannot be read: {error}", where=str(path)) from error
