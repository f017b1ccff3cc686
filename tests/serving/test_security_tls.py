"""Certificates are looked at when the server starts; handshakes keep to what it demands."""

from __future__ import annotations

import socket
import ssl
import threading
import warnings
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from infuse.errors import ConfigurationError
from infuse.serving.config import Tls
from infuse.serving.transports.security import check_tls, ssl_context

pytestmark = pytest.mark.row("S9")

NOW = datetime.now(timezone.utc).replace(microsecond=0)
DAY = timedelta(days=1)


@dataclass
class Pair:
    """A certificate and its key, as objects and as files."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    paths: tuple[Path, Path]

    def tls(self, client_ca: Pair | None = None) -> Tls:
        return Tls(
            certificate=self.paths[0],
            key=self.paths[1],
            client_ca=client_ca.paths[0] if client_ca else None,
        )


def pair(
    folder: Path,
    name: str,
    begin: datetime = NOW - DAY,
    end: datetime = NOW + 365 * DAY,
    issuer: Pair | None = None,
    encryption: KeySerializationEncryption | None = None,
) -> Pair:
    """A pair in two files of `folder`, signed by `issuer` or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(issuer.key if issuer else key, hashes.SHA256())
    )
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    )
    return Pair(certificate, key, paths)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """The version that both agree on, once the server has greeted the client over it."""
    left, right = socket.socketpair()
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            with left, server.wrap_socket(left, server_side=True) as channel:
                channel.sendall(b"hello")
        except (ssl.SSLError, OSError) as error:
            failures.append(error)

    left.settimeout(20), right.settimeout(20)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with right, client.wrap_socket(right, server_hostname="localhost") as channel:
            assert channel.recv(5) == b"hello"
            return channel.version()
    finally:
        thread.join(20)


def trusting(authority: Pair, own: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.paths[0]))
    if own:
        context.load_cert_chain(*own.paths)
    return context


def test_a_client_that_trusts_the_authority_connects(tmp_path: Path) -> None:
    authority = pair(tmp_path, "authority")
    server = pair(tmp_path, "server", issuer=authority)
    assert shake_hands(ssl_context(server.tls()), trusting(authority)) == "TLSv1.3"


def test_tls_1_2_is_spoken_with_forward_secrecy_and_nothing_older(tmp_path: Path) -> None:
    server = pair(tmp_path, "server")
    context = ssl_context(server.tls())
    client = trusting(server)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shake_hands(context, client) == "TLSv1.2"
    client.set_ciphers("AES256-GCM-SHA384")
    with pytest.raises((ssl.SSLError, OSError)):
        shake_hands(context, client)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_mutual_tls_takes_only_certificates_of_the_authority(tmp_path: Path) -> None:
    authority, stranger = pair(tmp_path, "authority"), pair(tmp_path, "stranger")
    server, caller = (
        pair(tmp_path, "server", issuer=authority),
        pair(tmp_path, "caller", issuer=authority),
    )
    context = ssl_context(server.tls(authority))
    assert shake_hands(context, trusting(authority, caller)) == "TLSv1.3"
    for refused in (trusting(authority), trusting(authority, stranger)):
        with pytest.raises((ssl.SSLError, OSError)):
            shake_hands(context, refused)


@pytest.mark.parametrize("missing", ["certificate", "key", "client_ca"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    server = pair(tmp_path, "server")
    files = {
        "certificate": server.paths[0],
        "key": server.paths[1],
        missing: tmp_path / "absent.pem",
    }
    with pytest.raises(ConfigurationError, match=r"absent\.pem: it cannot be read"):
        ssl_context(Tls(**files))


@pytest.mark.parametrize(
    ("broken", "part"), [("crt", "holds no certificate"), ("key", "holds no private key")]
)
def test_a_file_that_is_no_pem_is_refused(tmp_path: Path, broken: str, part: str) -> None:
    server = pair(tmp_path, "server")
    (tmp_path / f"server.{broken}").write_bytes(
        b"-----BEGIN NONSENSE-----\nAAAA\n-----END NONSENSE-----\n"
    )
    with pytest.raises(ConfigurationError, match=part):
        ssl_context(server.tls())


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    server, other = pair(tmp_path, "server"), pair(tmp_path, "other")
    with pytest.raises(ConfigurationError, match="does not belong to the certificate"):
        ssl_context(Tls(certificate=server.paths[0], key=other.paths[1]))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    server = pair(tmp_path, "server", encryption=BestAvailableEncryption(b"secret"))
    with pytest.raises(ConfigurationError, match="encrypted with a password"):
        ssl_context(server.tls())


def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    server = pair(tmp_path, "server", begin=NOW - 9 * DAY, end=NOW - DAY)
    with pytest.raises(
        ConfigurationError, match=f"CN=server expired at {NOW - DAY:%Y-%m-%d %H:%M} UTC"
    ):
        ssl_context(server.tls())


def test_a_certificate_that_is_not_valid_yet_is_refused(tmp_path: Path) -> None:
    server = pair(tmp_path, "server", begin=NOW + DAY)
    with pytest.raises(ConfigurationError, match="not valid before"):
        ssl_context(server.tls())


def test_an_expired_authority_of_callers_is_refused(tmp_path: Path) -> None:
    server, authority = (
        pair(tmp_path, "server"),
        pair(tmp_path, "authority", begin=NOW - 9 * DAY, end=NOW - DAY),
    )
    with pytest.raises(
        ConfigurationError, match=r"authority\.crt: the certificate CN=authority expired"
    ):
        ssl_context(server.tls(authority))


def test_a_certificate_is_warned_of_fourteen_days_before_it_expires(tmp_path: Path) -> None:
    server = pair(tmp_path, "server", end=NOW + 30 * DAY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_tls(server.tls(), now=NOW + 15 * DAY)
    with pytest.warns(UserWarning, match="expires at .* in 13 days"):
        check_tls(server.tls(), now=NOW + 17 * DAY)
    with pytest.raises(ConfigurationError, match="expired"):
        check_tls(server.tls(), now=NOW + 31 * DAY)
