"""TLS of the listeners, and certificates that are looked at before anybody connects."""

from __future__ import annotations

import ssl
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from infuse.errors import ConfigurationError
from infuse.serving.config import Tls

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_CIPHERS: Final = (
    "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2: forward secrecy and authenticated encryption only
)
_CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")
_WARNING: Final = timedelta(days=14)


class Files(NamedTuple):
    """What the files of a listener hold: the certificate's chain, its key, the authority of
    callers, as PEM.
    """

    certificate: bytes
    key: bytes
    client_ca: bytes | None


def read_files(tls: Tls) -> Files:
    """The files as they are now; ConfigurationError when one is missing or cannot be read."""
    return Files(
        _read(tls.certificate),
        _read(tls.key),
        None if tls.client_ca is None else _read(tls.client_ca),
    )


def ssl_context(tls: Tls, files: Files | None = None) -> ssl.SSLContext:
    """The context of a server: TLS 1.2 or newer, and a certificate of every caller where
    `client_ca` is set.

    Files are checked as by `check_tls`, or have been, where they are given; ConfigurationError also
    when they are not what was given any more.
    """
    if files is None:
        files = check_tls(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= (
        ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    )
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
        if tls.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(tls.client_ca)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"OpenSSL does not take it: {error.reason}", where=str(tls.certificate)
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"it cannot be read: {error.strerror or error}", where=str(tls.certificate)
        ) from error
    if read_files(tls) != files:  # OpenSSL reads files by their names only
        raise ConfigurationError(
            "the files changed while they were read", where=str(tls.certificate)
        )
    return context


def check_tls(tls: Tls, now: datetime | None = None) -> Files:
    """The files of a listener, if they can be used at `now` (with a time zone; default: the clock's
    time).

    ConfigurationError: a file is missing, cannot be read or is no PEM, the key does not belong to
    the certificate, or a certificate is expired or not valid yet. A warning is given in the 14 days
    before one expires.
    """
    now = now or datetime.now(timezone.utc)
    files = read_files(tls)
    check_files(tls, files, now)
    for path, data in ((tls.certificate, files.certificate), (tls.client_ca, files.client_ca)):
        if path is not None and data is not None:
            for certificate in _certificates(path, data):
                _warn_of_end(certificate, path, now)
    return files


def check_files(tls: Tls, files: Files, now: datetime) -> datetime:
    """When the first certificate of the chain expires; ConfigurationError as of `check_tls`,
    without its warnings.
    """
    from cryptography.exceptions import UnsupportedAlgorithm

    chain = _certificates(tls.certificate, files.certificate)
    callers = [] if tls.client_ca is None else _certificates(tls.client_ca, files.client_ca or b"")
    try:
        _check_key(tls, chain[0], files.key)
        for certificate in chain:
            _check_time(certificate, tls.certificate, now)
        for certificate in callers:
            _check_time(certificate, tls.client_ca or tls.certificate, now)
    except (
        ValueError,
        UnsupportedAlgorithm,
    ) as error:  # parts of a certificate are read when they are asked for
        raise ConfigurationError(
            f"it cannot be used: {error}", where=str(tls.certificate)
        ) from error
    return min(certificate.not_valid_after_utc for certificate in chain)


def _check_key(tls: Tls, certificate: Certificate, data: bytes) -> None:
    """Whether a key is the certificate's, and of a kind that HTTP and gRPC both take."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = certificate.public_key()
    if key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != _public_key(
        tls.key, data
    ):
        raise ConfigurationError(
            f"this key does not belong to the certificate {tls.certificate}",
            where=str(tls.key),
            hint=(
                "the server's own certificate comes first in its file, those of authorities after "
                "it"
            ),
        )
    curve = key.curve.name if isinstance(key, ec.EllipticCurvePublicKey) else ""
    if not isinstance(key, rsa.RSAPublicKey | ed25519.Ed25519PublicKey) and curve not in _CURVES:
        raise ConfigurationError(
            "keys of this kind cannot be used here",
            where=str(tls.key),
            hint="use RSA, ECDSA over P-256, P-384 or P-521, or Ed25519",
        )


def _certificates(path: Path, data: bytes) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(data)
    except ValueError as error:
        raise ConfigurationError("it holds no certificate in PEM form", where=str(path)) from error


def _public_key(path: Path, data: bytes) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

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
        raise ConfigurationError(
            f"it cannot be read: {error.strerror or error}", where=str(path)
        ) from error


def _check_time(certificate: Certificate, path: Path, now: datetime) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        raise ConfigurationError(
            f"the certificate {_name(certificate)} expired at {end:%Y-%m-%d %H:%M} UTC",
            where=str(path),
            hint="renew it",
        )
    if now < begin:
        raise ConfigurationError(
            f"the certificate {_name(certificate)} is not valid before {begin:%Y-%m-%d %H:%M} UTC",
            where=str(path),
            hint="look at the clock of this machine",
        )


def _warn_of_end(certificate: Certificate, path: Path, now: datetime) -> None:
    end = certificate.not_valid_after_utc
    if now > end - _WARNING:
        days = (end - now).days
        warnings.warn(
            f"{path}: the certificate {_name(certificate)} expires at {end:%Y-%m-%d %H:%M} UTC, in "
            f"{days} days",
            stacklevel=4,
        )


def _name(certificate: Certificate) -> str:
    return certificate.subject.rfc4514_string() or "without a name"


def _no_password() -> str:
    return ""  # rather than a question on the terminal
