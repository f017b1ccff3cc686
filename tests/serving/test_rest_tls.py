"""The HTTP server over TLS."""

import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import ConfigurationError
from infuse.serving.config import Listener
from tests.serving.rest_stage import ECHOED, SMALL, app, at_end, loops
from tests.serving.rest_tools import (
    Running,
    binary,
    post,
    reply,
    serving,
)
from tests.serving.test_security_tls import DAY, NOW, pair

__all__ = ["loops"]
pytestmark = pytest.mark.row("S1")


def spoken(running: Running, context: ssl.SSLContext, sent: bytes) -> Any:
    with context.wrap_socket(running.connect(), server_hostname="localhost") as connection:
        connection.sendall(sent)
        return reply(connection)


@pytest.mark.row("S9")
def test_tls(tmp_path: Path) -> None:
    own = pair(tmp_path, "own")
    trusting = ssl.create_default_context(cafile=str(own.paths[0]))
    array = np.random.default_rng(1).random((50_000, 4), np.float32)
    body, headers = binary(array, parameters={"binary_data_output": True})
    sent = post(body, f"Inference-Header-Content-Length: {next(iter(headers.values()))}")
    with serving(app(), listener=Listener(tls=own.tls())) as running:
        assert running.server.url.startswith("https://")
        assert spoken(running, trusting, post(SMALL)).json["outputs"][0]["data"] == ECHOED
        assert spoken(running, trusting, sent).body.endswith(array.tobytes())
        with pytest.raises(ssl.SSLCertVerificationError):
            spoken(running, ssl.create_default_context(), post(SMALL))
        with closing(running.connect()) as plain_text:
            plain_text.sendall(post(SMALL))
            assert at_end(plain_text)


@pytest.mark.row("S9")
def test_mutual_tls(tmp_path: Path) -> None:
    own, authority = pair(tmp_path, "own"), pair(tmp_path, "authority")
    client, stranger = pair(tmp_path, "client", issuer=authority), pair(tmp_path, "stranger")
    with serving(app(), listener=Listener(tls=own.tls(client_ca=authority))) as running:
        known = ssl.create_default_context(cafile=str(own.paths[0]))
        known.load_cert_chain(*client.paths)
        assert spoken(running, known, post(SMALL)).status == 200
        for context in (ssl.create_default_context(cafile=str(own.paths[0])) for _ in range(2)):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                spoken(running, context, post(SMALL))
            context.load_cert_chain(*stranger.paths)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                spoken(running, context, post(SMALL))


@pytest.mark.row("S9")
def test_a_certificate_that_has_expired_is_refused_at_the_start(tmp_path: Path) -> None:
    old = pair(tmp_path, "old", begin=NOW - 9 * DAY, end=NOW - DAY)
    with (
        pytest.raises(ConfigurationError, match="expired"),
        serving(app(), listener=Listener(tls=old.tls())),
    ):
        pass
