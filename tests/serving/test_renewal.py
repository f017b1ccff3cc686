"""Certificates are renewed while the server runs: what callers see before and after, over HTTP and
gRPC.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from infuse.serving.config import Listener, ServerConfig, Tls
from infuse.serving.transports.rest.app import DataApp
from tests.serving import rest_tools, rpc_tools
from tests.serving.console_server import serving as serving_all, write_model
from tests.serving.rest_tools import plain, post, reply
from tests.serving.test_certificates import put, renew, served
from tests.serving.test_security_server import ask, data_port
from tests.serving.test_security_tls import Pair, pair, trusting

pytestmark = pytest.mark.row("S9")
SMALL = post(plain([[1, 2, 3, 4]], [1, 4]))


# --------------------------------------------------------------------------------------------- HTTP


@contextmanager
def over_http(tls: Tls, loop_of: Any = uvloop) -> Iterator[rest_tools.Running]:
    app = DataApp(rest_tools.FakeEngine(), rest_tools.config())
    with rest_tools.serving(app, listener=Listener(tls=tls), loop_of=loop_of) as running:
        yield running


@contextmanager
def connected(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain_text,
        context.wrap_socket(plain_text, server_hostname="localhost", session=session) as connection,
    ):
        yield connection


def serial_of(connection: ssl.SSLSocket) -> int:
    """The serial number of the certificate that the server has shown."""
    found = connection.getpeercert(binary_form=True)
    assert found is not None
    return x509.load_der_x509_certificate(found).serial_number


def seen(port: int, context: ssl.SSLContext) -> int:
    """The serial number that an HTTP server shows to a caller whom it answers."""
    with connected(port, context) as connection:
        connection.sendall(SMALL)
        assert reply(connection).status == 200
        return serial_of(connection)


def serial(own: Pair) -> int:
    return own.certificate.serial_number


@pytest.mark.parametrize("loop_of", [asyncio, uvloop], ids=["asyncio", "uvloop"])
def test_http_shows_the_new_certificate_and_open_connections_live_on(
    tmp_path: Path, loop_of: Any
) -> None:
    authority = pair(tmp_path, "authority")
    first, second = (pair(tmp_path, name, issuer=authority) for name in ("first", "second"))
    tls, caller = served(tmp_path, first), trusting(authority)
    with (
        over_http(tls, loop_of) as running,
        caller.wrap_socket(running.connect(), server_hostname="localhost") as before,
    ):
        before.sendall(SMALL)
        assert reply(before).status == 200
        assert seen(running.port, caller) == serial(first)
        put(tls, second)
        assert renew(running.server.certificates) == "renewed"
        assert seen(running.port, caller) == serial(second)
        tls.key.write_bytes(first.paths[1].read_bytes())
        assert renew(running.server.certificates) == "refused"
        assert seen(running.port, caller) == serial(second)
        before.sendall(SMALL)
        assert reply(before).status == 200


@pytest.mark.parametrize("loop_of", [asyncio, uvloop], ids=["asyncio", "uvloop"])
def test_http_asks_callers_for_certificates_of_the_new_authority(
    tmp_path: Path, loop_of: Any
) -> None:
    own, old, new = (pair(tmp_path, name) for name in ("own", "old", "new"))
    tls = served(tmp_path, own, old)
    of_old, of_new = (
        trusting(own, pair(tmp_path, f"of-{each.paths[0].stem}", issuer=each))
        for each in (old, new)
    )
    with over_http(tls, loop_of) as running:
        assert seen(running.port, of_old) == serial(own)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            seen(running.port, of_new)
        put(tls, own, new)
        assert renew(running.server.certificates) == "renewed"
        assert seen(running.port, of_new) == serial(own)
        for context in (of_old, trusting(own)):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                seen(running.port, context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_of_callers_end_with_their_authority(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    own, old, new = (pair(tmp_path, name) for name in ("own", "old", "new"))
    tls = served(tmp_path, own, old)
    caller = trusting(own, pair(tmp_path, "caller", issuer=old))
    caller.maximum_version = version
    with over_http(tls) as running:

        def resumed(session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
            with connected(running.port, caller, session) as connection:
                connection.sendall(SMALL)
                assert reply(connection).status == 200
                return connection.session_reused, connection.session

        _, session = resumed(None)
        assert resumed(session)[0]
        put(tls, own, new)
        assert renew(running.server.certificates) == "renewed"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            resumed(session)


# --------------------------------------------------------------------------------------------- gRPC


def h2(context: ssl.SSLContext) -> ssl.SSLContext:
    context.set_alpn_protocols(["h2"])
    return context


def shown(port: int, context: ssl.SSLContext) -> int:
    """The serial number that a gRPC server shows to a caller with whom it speaks HTTP/2."""
    with connected(port, context) as connection:
        greet(connection)
        return serial_of(connection)


def greet(connection: ssl.SSLSocket) -> None:
    """Begin to speak HTTP/2; ConnectionError where the server does not."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    if not connection.recv(1):
        raise ConnectionError("it was refused")


def channel(port: int, authority: Pair, own: Pair | None = None) -> grpc.Channel:
    pems = [path.read_bytes() for path in own.paths] if own else [None, None]
    credentials = grpc.ssl_channel_credentials(authority.paths[0].read_bytes(), pems[1], pems[0])
    return grpc.secure_channel(
        f"localhost:{port}", credentials, [("grpc.use_local_subchannel_pool", 1)]
    )


def healthy(of: grpc.Channel) -> bool:
    return bool(rpc_tools.status(of, "") == health_pb2.HealthCheckResponse.SERVING)


def test_grpc_shows_the_new_certificate_and_open_connections_live_on(tmp_path: Path) -> None:
    first, second = pair(tmp_path, "first"), pair(tmp_path, "second")
    tls = served(tmp_path, first)
    config = ServerConfig(grpc=Listener(host=rpc_tools.HOST, tls=tls))
    with (
        rpc_tools.running(rpc_tools.FakeEngine(), config) as server,
        channel(server.server.port, first) as before,
    ):
        port = server.server.port
        assert healthy(before)
        assert shown(port, h2(trusting(first))) == serial(first)
        put(tls, second)
        assert renew(server.server.certificates) == "renewed"
        for _ in range(2):
            assert shown(port, h2(trusting(second))) == serial(second)
        tls.key.write_bytes(first.paths[1].read_bytes())
        assert renew(server.server.certificates) == "refused"
        assert shown(port, h2(trusting(second))) == serial(second)
        with channel(port, second) as after:
            assert healthy(after)
        assert healthy(before)  # it does not trust the second: its connection is the one of before
        with pytest.raises(ssl.SSLCertVerificationError):
            shown(port, h2(trusting(first)))


def test_grpc_asks_callers_for_certificates_of_the_new_authority(tmp_path: Path) -> None:
    own, old, new = (pair(tmp_path, name) for name in ("own", "old", "new"))
    of_old, of_new = (
        pair(tmp_path, f"of-{each.paths[0].stem}", issuer=each) for each in (old, new)
    )
    tls = served(tmp_path, own, old)
    config = ServerConfig(grpc=Listener(host=rpc_tools.HOST, tls=tls))
    with rpc_tools.running(rpc_tools.FakeEngine(), config) as server:

        def taken(caller: Pair | None) -> bool:
            with channel(server.server.port, own, caller) as one:
                call = health_pb2_grpc.HealthStub(one).Check.future(
                    health_pb2.HealthCheckRequest(), timeout=60
                )
                error = call.exception()
            assert error is None or error.code() is grpc.StatusCode.UNAVAILABLE
            return error is None

        assert [taken(caller) for caller in (of_old, of_new, None)] == [True, False, False]
        put(tls, own, new)
        assert renew(server.server.certificates) == "renewed"
        assert [taken(caller) for caller in (of_old, of_new, None)] == [False, True, False]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_over_grpc_end_with_their_authority(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    own, old, new = (pair(tmp_path, name) for name in ("own", "old", "new"))
    tls = served(tmp_path, own, old)
    caller = h2(trusting(own, pair(tmp_path, "caller", issuer=old)))
    caller.maximum_version = version
    config = ServerConfig(grpc=Listener(host=rpc_tools.HOST, tls=tls))
    with rpc_tools.running(rpc_tools.FakeEngine(), config) as server:

        def resumed(session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
            with connected(server.server.port, caller, session) as connection:
                greet(connection)
                return connection.session_reused, connection.session

        _, session = resumed(None)
        assert resumed(session)[0]
        put(tls, own, new)
        assert renew(server.server.certificates) == "renewed"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            resumed(session)


# --------------------------------------------------------------------------------------- the server


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.1)


def test_a_server_renews_all_of_its_ports_by_itself(tmp_path: Path) -> None:
    authority = pair(tmp_path, "authority")
    first, second = (pair(tmp_path, name, issuer=authority) for name in ("first", "second"))
    tls, caller = served(tmp_path, first), trusting(authority)
    write_model(tmp_path / "models" / "small" / "1")
    ports = {name: Listener(tls=tls) for name in ("http", "grpc", "admin")}
    with serving_all(tmp_path / "models", **ports) as running:
        server = running.server
        assert server.admin is not None
        assert server.grpc is not None
        admin, rpc = server.admin, server.grpc

        def shown_by_all() -> list[int]:
            found = [shown(rpc.port, h2(trusting(authority)))]
            for port in (data_port(running), admin.port):
                with connected(port, caller) as connection:
                    found.append(serial_of(connection))
            return found

        assert shown_by_all() == [serial(first)] * 3
        put(tls, second)
        until(lambda: shown_by_all() == [serial(second)] * 3)
        page = server.monitor.metrics.render()[1].decode()
        for name in ports:
            assert f'infuse_certificate_current{{listener="{name}"}} 1.0' in page
            assert f'infuse_certificate_expiry_timestamp_seconds{{listener="{name}"}}' in page
        assert ask(data_port(running), "GET", "/v2/health/live", context=caller)[0] == 200
