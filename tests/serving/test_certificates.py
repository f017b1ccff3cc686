"""New certificates are found in their files, looked at, and taken or refused."""

from __future__ import annotations

import asyncio
import ssl
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from infuse.errors import ConfigurationError
from infuse.serving.config import Tls
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.transports.security import Certificates, check_tls
from infuse.serving.transports.security.renewal import Renewal
from tests.serving.test_security_tls import DAY, NOW, Pair, pair, shake_hands, trusting

pytestmark = pytest.mark.row("S9")


def put(tls: Tls, own: Pair, callers: Pair | None = None) -> None:
    """Write the files of a listener anew."""
    for path, source in zip((tls.certificate, tls.key), own.paths, strict=True):
        path.write_bytes(source.read_bytes())
    if tls.client_ca is not None and callers is not None:
        tls.client_ca.write_bytes(callers.paths[0].read_bytes())


def served(folder: Path, own: Pair, callers: Pair | None = None) -> Tls:
    """The configuration of a listener with files of its own in `folder`."""
    where = folder / "served"
    where.mkdir()
    tls = Tls(
        certificate=where / "tls.crt",
        key=where / "tls.key",
        client_ca=where / "ca.crt" if callers else None,
    )
    put(tls, own, callers)
    return tls


def renew(certificates: Certificates | None) -> str:
    """What looking twice comes to."""
    assert certificates is not None
    assert certificates.look() == ""
    return certificates.look()


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


# ------------------------------------------------------------------------------------------ looking


def test_new_files_are_taken_when_two_looks_found_the_same(tmp_path: Path) -> None:
    first, second = pair(tmp_path, "first"), pair(tmp_path, "second", end=NOW + 90 * DAY)
    tls = served(tmp_path, first)
    certificates = Certificates(tls)
    before = certificates.files
    assert (certificates.look(), certificates.expires) == ("", NOW + 365 * DAY)
    put(tls, second)
    assert certificates.look() == ""
    assert certificates.files is before
    assert certificates.look() == "renewed"
    assert certificates.files.certificate == second.paths[0].read_bytes()
    assert (certificates.expires, certificates.problem) == (NOW + 90 * DAY, "")
    assert [certificates.look() for _ in range(3)] == ["", "", ""]


def test_the_same_files_written_again_are_nothing_new(tmp_path: Path) -> None:
    first = pair(tmp_path, "first")
    tls = served(tmp_path, first)
    certificates = Certificates(tls)
    context = certificates.context.newest
    put(tls, first)
    assert renew(certificates) == ""
    assert certificates.context.newest is context


def test_a_pair_that_is_half_written_waits_for_its_key(tmp_path: Path) -> None:
    first, second = pair(tmp_path, "first"), pair(tmp_path, "second")
    tls = served(tmp_path, first)
    certificates = Certificates(tls)
    tls.certificate.write_bytes(second.paths[0].read_bytes())
    assert certificates.look() == ""
    tls.key.write_bytes(
        second.paths[1].read_bytes()
    )  # it arrives before anybody needs to hear of it
    assert renew(certificates) == "renewed"

    tls.certificate.write_bytes(first.paths[0].read_bytes())
    assert renew(certificates) == "refused"
    assert "does not belong to the certificate" in certificates.problem
    assert [certificates.look() for _ in range(3)] == ["", "", ""]
    assert shake_hands(certificates.context.newest, trusting(second)) == "TLSv1.3"
    tls.key.write_bytes(first.paths[1].read_bytes())
    assert renew(certificates) == "renewed"
    assert certificates.problem == ""
    assert shake_hands(certificates.context.newest, trusting(first)) == "TLSv1.3"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("tls.crt", b"-----BEGIN NONSENSE-----\n", "holds no certificate"),
        ("tls.key", b"", "holds no private key"),
        ("ca.crt", b"", "holds no certificate"),
        ("tls.crt", None, "cannot be read: No such file"),
        ("ca.crt", None, "cannot be read: No such file"),
    ],
)
def test_broken_files_leave_what_there_was_and_are_told_of_once(
    tmp_path: Path, file: str, content: bytes | None, reason: str
) -> None:
    first, callers = pair(tmp_path, "first"), pair(tmp_path, "callers")
    tls = served(tmp_path, first, callers)
    certificates = Certificates(tls)
    before, context = certificates.files, certificates.context.newest
    broken = tls.certificate.parent / file
    if content is None:
        broken.unlink()
    else:
        broken.write_bytes(content)
    assert renew(certificates) == "refused"
    assert reason in certificates.problem
    assert file in certificates.problem
    assert [certificates.look() for _ in range(3)] == ["", "", ""]
    assert certificates.files is before
    assert certificates.context.newest is context
    assert context.verify_mode is ssl.CERT_REQUIRED
    put(tls, first, callers)
    assert renew(certificates) == ""
    assert certificates.problem == ""


def test_every_change_to_broken_files_is_told_of(tmp_path: Path) -> None:
    first, second = pair(tmp_path, "first"), pair(tmp_path, "second")
    tls = served(tmp_path, first)
    certificates = Certificates(tls)
    for content in (b"", b"nothing", second.paths[1].read_bytes()):
        tls.key.write_bytes(content)
        assert renew(certificates) == "refused"
        assert certificates.look() == ""


def test_a_chain_that_has_expired_is_not_taken(tmp_path: Path) -> None:
    tls = served(tmp_path, pair(tmp_path, "first"))
    certificates = Certificates(tls)
    put(tls, pair(tmp_path, "old", begin=NOW - 9 * DAY, end=NOW - DAY))
    assert renew(certificates) == "refused"
    assert "expired" in certificates.problem
    assert certificates.expires == NOW + 365 * DAY


def test_what_is_not_valid_yet_is_taken_when_its_time_has_come(tmp_path: Path) -> None:
    tls = served(tmp_path, pair(tmp_path, "first"))
    clock = Clock()
    certificates = Certificates(tls, clock)
    put(tls, pair(tmp_path, "second", begin=NOW + DAY))
    assert renew(certificates) == "refused"
    assert "not valid before" in certificates.problem
    clock.now = NOW + 2 * DAY
    assert certificates.look() == "renewed"


def test_a_folder_that_is_swapped_by_a_link_is_taken(tmp_path: Path) -> None:
    """As Kubernetes writes secrets: the files are links through a link, and that is replaced."""
    names = ("tls.crt", "tls.key")
    for version in ("first", "second"):
        folder = tmp_path / version
        folder.mkdir()
        own = pair(folder, "own")
        for path, name in zip(own.paths, names, strict=True):
            path.rename(folder / name)
    data, files = tmp_path / "..data", tmp_path / "files"
    data.symlink_to("first")
    files.mkdir()
    for name in names:
        (files / name).symlink_to(Path("..", "..data", name))
    certificates = Certificates(Tls(certificate=files / names[0], key=files / names[1]))
    (tmp_path / "..tmp").symlink_to("second")
    (tmp_path / "..tmp").replace(data)
    assert renew(certificates) == "renewed"
    assert certificates.files.key == (tmp_path / "second" / "tls.key").read_bytes()


def test_the_chain_ends_with_its_first_certificate(tmp_path: Path) -> None:
    authority = pair(tmp_path, "authority", end=NOW + 20 * DAY)
    own = pair(tmp_path, "own", issuer=authority)
    tls = served(tmp_path, own)
    tls.certificate.write_bytes(own.paths[0].read_bytes() + authority.paths[0].read_bytes())
    assert Certificates(tls).expires == NOW + 20 * DAY


def test_keys_that_only_one_library_takes_are_refused(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256K1())
    name = x509.Name([])
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    )
    builder = builder.serial_number(1).not_valid_before(NOW - DAY).not_valid_after(NOW + 99 * DAY)
    tls = Tls(certificate=tmp_path / "a.crt", key=tmp_path / "a.key")
    tls.certificate.write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    tls.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ConfigurationError, match=r"a\.key: keys of this kind cannot be used"):
        check_tls(tls)


def test_events_and_metrics_tell_of_renewals(tmp_path: Path) -> None:
    tls = served(tmp_path, pair(tmp_path, "first"))
    journal = Journal()
    renewal = Renewal(journal)
    renewal.watch("http", Certificates(tls))
    renewal.watch("admin", None)

    def looked(times: int) -> dict[tuple[str, ...], float]:
        for _ in range(times):
            asyncio.run(renewal.look())
        return {(reading.name, *reading.labels): reading.value for reading in renewal.readings()}

    expiry, current = "infuse_certificate_expiry_timestamp_seconds", "infuse_certificate_current"
    assert looked(3) == {(expiry, "http"): (NOW + 365 * DAY).timestamp(), (current, "http"): 1}
    assert journal.recent() == []
    put(tls, pair(tmp_path, "second", end=NOW + 90 * DAY))
    assert looked(5) == {(expiry, "http"): (NOW + 90 * DAY).timestamp(), (current, "http"): 1}
    tls.key.write_bytes(b"")
    assert looked(5) == {(expiry, "http"): (NOW + 90 * DAY).timestamp(), (current, "http"): 0}
    renewed, refused = journal.recent()
    assert (renewed.kind, renewed.fields["listener"], renewed.level) == (
        "certificate_renewed",
        "http",
        20,
    )
    assert (refused.kind, refused.fields["listener"], refused.level) == (
        "certificate_refused",
        "http",
        30,
    )
    assert "holds no private key" in str(refused.fields["reason"])
