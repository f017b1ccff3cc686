"""TLS and mutual TLS of the gRPC server, with tritonclient."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from infuse.errors import ConfigurationError
from infuse.serving.config import Listener, ServerConfig, Tls
from tests.serving.rpc_tools import HOST, FakeEngine, Running, running
from tests.serving.test_security_tls import DAY, NOW, Pair, pair

pytestmark = pytest.mark.row("S9")
X = np.array([[1.5, 2.5]], np.float32)


def config(tls: Tls) -> ServerConfig:
    return ServerConfig(grpc=Listener(host=HOST, tls=tls))


def call(
    server: Running, authority: Pair | None = None, own: Pair | None = None
) -> list[list[float]]:
    """What comes back of X, over TLS with certificates as given or, without any, in plain text."""
    certificate, key = map(str, own.paths) if own else (None, None)
    client = triton.InferenceServerClient(
        f"localhost:{server.server.port}",
        ssl=authority is not None,
        root_certificates=str(authority.paths[0]) if authority else None,
        private_key=key,
        certificate_chain=certificate,
    )
    x = triton.InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(X)
    with closing(client):
        found: list[list[float]] = (
            client.infer("echo", [x], client_timeout=20).as_numpy("x").tolist()
        )
    return found


def refused(server: Running, authority: Pair | None = None, own: Pair | None = None) -> bool:
    with pytest.raises(InferenceServerException) as caught:
        call(server, authority, own)
    return bool(caught.value.status() == "StatusCode.UNAVAILABLE")


def test_tls(tmp_path: Path) -> None:
    authority = pair(tmp_path, "authority")
    own = pair(tmp_path, "server", issuer=authority)
    engine = FakeEngine()
    with running(engine, config(own.tls())) as server:
        assert call(server, authority) == X.tolist()
        assert refused(server, pair(tmp_path, "stranger"))
        assert refused(server)
    assert len(engine.requests) == 1


def test_mutual_tls(tmp_path: Path) -> None:
    authority, callers, stranger = (
        pair(tmp_path, name) for name in ("authority", "callers", "stranger")
    )
    own = pair(tmp_path, "server", issuer=authority)
    engine = FakeEngine()
    with running(engine, config(own.tls(callers))) as server:
        assert call(server, authority, pair(tmp_path, "caller", issuer=callers)) == X.tolist()
        assert refused(server, authority)
        assert refused(server, authority, pair(tmp_path, "other", issuer=stranger))
        assert refused(
            server,
            authority,
            pair(tmp_path, "old", begin=NOW - 2 * DAY, end=NOW - DAY, issuer=callers),
        )
    assert len(engine.requests) == 1


def test_an_expired_certificate_is_not_served(tmp_path: Path) -> None:
    own = pair(tmp_path, "server", begin=NOW - 2 * DAY, end=NOW - DAY)
    with (
        pytest.raises(ConfigurationError, match="expired"),
        running(FakeEngine(), config(own.tls())),
    ):
        pass


def test_a_missing_certificate_is_not_served(tmp_path: Path) -> None:
    tls = Tls(certificate=tmp_path / "absent.crt", key=tmp_path / "absent.key")
    with pytest.raises(ConfigurationError, match="absent"), running(FakeEngine(), config(tls)):
        pass
