"""TLS of the listeners, and certificates that are looked at before anybody connects."""

from __future__ import annotations

import ssl
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infuse.errors import ConfigurationError
from infuse.serving.config import Tls

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2: forward secrecy and authenticated encryption only
_WARNING: Final = timedelta(days=14)


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """The context of a server: TLS 1.2 or newer, and a certificate of every caller where `client_ca` is set.

    Files are checked as by `check_tls`.
    """
    check_tls(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
        if tls.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(tls.client_ca)
    except ssl.SSLError as error:
        raise ConfigurationError(f"OpenSSL does not take it: {error.reason}", where=str(tls.certificate)) from error
    return context


def check_tls(tls: Tls, now: datetime | None = None) -> None:
    """Whether the files of a listener can be used, at `now` (with a time zone; default: the clock's time).

    ConfigurationError: a file is missing, cannot be read or is no PEM, the key does not belong to the certificate, or
    a certificate is expired or not valid yet. A warning is given in the 14 days before one expires.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    now = now or datetime.now(timezone.utc)
    chain = _certificates(tls.certificate)
    key = _public_key(tls.key)
    own = chain[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if own != key:
        raise ConfigurationError(
            f"this key does not belong to the certificate {tls.certificate}",
            where=str(tls.key),
            hint="the server's own certificate comes first in its file, those of authorities after it",
        )
    for certificate in chain:
        _check_time(certificate, tls.certificate, now)
    if tls.client_ca is not None:
        for certificate in _certificates(tls.client_ca):
            _check_time(certificate, tls.client_ca, now)


def _certificates(path: Path) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates

    data = _read(path)
    try:
        return load_pem_x509_certificates(data)
    except ValueError as error:
        raise ConfigurationError("it holds no certificate in PEM form", where=str(path)) from error


def _public_key(path: Path) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    data = _read(path)
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError as error:
        raise ConfigurationError(
            "the key is encrypted with a password",
            where=str(path),
            hint="decrypt it with `openssl pkey`, and let only the server's user read it",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError("it holds no private key in PEM form", where=str(path)) from error
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"it cannot be read: {error.strerror or error}", where=str(path)) from error


def _check_time(certificate: Certificate, path: Path, now: datetime) -> None:
    begin, end = _validity(certificate)
    who = certificate.subject.rfc4514_string() or "without a name"
    if now > end:
        raise ConfigurationError(
            f"the certificate {who} expired at {end:%Y-%m-%d %H:%M} UTC", where=str(path), hint="renew it"
        )
    if now < begin:
        raise ConfigurationError(
            f"the certificate {who} is not valid before {begin:%Y-%m-%d %H:%M} UTC",
            where=str(path),
            hint="look at the clock of this machine",
        )
    if now > end - _WARNING:
        warnings.warn(
            f"{path}: the certificate {who} expires at {end:%Y-%m-%d %H:%M} UTC, in {(end - now).days} days",
            stacklevel=4,
        )


def _validity(certificate: Certificate) -> tuple[datetime, datetime]:
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _no_password() -> str:
    return ""  # rather than a question on the terminal
