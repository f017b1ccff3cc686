"""Commands that ask servers over TLS, with certificates of their own."""

from pathlib import Path
from typing import Any

import pytest

from infuse.serving.config import Limits, Listener, ServerConfig
from infuse.serving.transports.rest.app import DataApp
from tests.cli_tools import Cli
from tests.serving.console_server import serving as whole_server, write_model
from tests.serving.load_stage import SHORT, cli, engine
from tests.serving.rest_tools import FakeEngine, config, serving
from tests.serving.rpc_tools import HOST, running
from tests.serving.test_security_tls import Pair, pair

__all__ = ["cli", "engine"]
pytestmark = pytest.mark.row("S9")


@pytest.fixture
def pairs(tmp_path: Path) -> dict[str, Pair]:
    """An authority, what it signed, and a stranger."""
    authority = pair(tmp_path, "authority")
    signed = {name: pair(tmp_path, name, issuer=authority) for name in ("server", "caller")}
    return {"authority": authority, "stranger": pair(tmp_path, "stranger"), **signed}


def flags(trusted: Pair, own: Pair | None = None) -> list[Any]:
    shown = ["--certificate", own.paths[0], "--key", own.paths[1]] if own else []
    return ["--ca", trusted.paths[0], *shown]


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_load_over_mutual_tls(
    scheme: str, cli: Cli, engine: FakeEngine, pairs: dict[str, Pair]
) -> None:
    listener = Listener(host=HOST, tls=pairs["server"].tls(client_ca=pairs["authority"]))
    if scheme == "https":
        server = serving(DataApp(engine, config()), Limits(), listener)
    else:
        server = running(engine, ServerConfig(grpc=listener))
    with server as served:
        url = f"{scheme}://localhost:{served.server.port}"
        args = ("load", url, "echo", "--concurrency", 1, *SHORT, "--timeout", 5)
        answer = cli(*args, *flags(pairs["authority"], pairs["caller"]), "--json")
        assert answer.status == 0, answer.err
        assert answer.json["levels"][0]["failed"] == 0 < answer.json["levels"][0]["requests"]
        for wrong in (
            flags(pairs["authority"]),
            flags(pairs["stranger"], pairs["caller"]),
            flags(pairs["authority"], pairs["stranger"]),
        ):
            refused = cli(*args, *wrong)
            assert refused.status == 1, wrong
            assert "are port, scheme and certificates right?" in refused.err


def test_rollout_and_rollback_over_mutual_tls(
    tmp_path: Path, cli: Cli, pairs: dict[str, Pair]
) -> None:
    for version in (1, 2):
        write_model(tmp_path / "models" / "net" / str(version), version)
    tls = pairs["server"].tls(client_ca=pairs["authority"])
    policy = "version_policy: {all: true}\n"
    (tmp_path / "models" / "net" / "config.yaml").write_text(policy)
    with whole_server(tmp_path / "models", admin=Listener(tls=tls)) as server:
        admin = ["--admin", server.url.replace("127.0.0.1", "localhost")]
        own = flags(pairs["authority"], pairs["caller"])
        assert cli("rollout", "net", *admin, *own, "--json").json["shares"]
        back = cli("rollback", "net", *admin, *own, "--json")
        assert back.status == 0, back.err
        assert back.json["shares"] == {"1": 1.0}
        refused = cli("rollout", "net", *admin, *flags(pairs["stranger"], pairs["caller"]))
        assert refused.status == 1
        assert "certificate verify failed" in refused.err


@pytest.mark.parametrize(
    ("url", "change", "complaint"),
    [
        ("http://localhost:1", {}, "is not over TLS, so certificates have no effect"),
        ("https://localhost:1", {"--key": None}, "a certificate and its key go together"),
        ("https://localhost:1", {"--ca": "no.pem"}, "no.pem: its certificates cannot be used"),
        ("grpcs://localhost:1", {"--ca": "own.pem"}, "own.pem: its certificates cannot be used"),
        ("https://localhost:1", {"--key": "no.pem"}, "cannot be used with the key 'no.pem'"),
    ],
)
def test_certificates_that_cannot_be_used(
    url: str,
    change: dict[str, str | None],
    complaint: str,
    cli: Cli,
    pairs: dict[str, Pair],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.pem").write_text("no certificate")
    caller = pairs["caller"].paths
    values = {"--ca": pairs["authority"].paths[0], "--certificate": caller[0], "--key": caller[1]}
    values |= change  # type: ignore[arg-type]
    args = [text for pair_ in values.items() if pair_[1] is not None for text in pair_]
    verbs = {"load": [url, "net"]}
    if url.startswith("http"):
        verbs["rollback"] = ["net", "--admin", url]
    for verb, target in verbs.items():
        answer = cli(verb, *target, *args)
        assert answer.status == 1
        assert complaint in answer.err
