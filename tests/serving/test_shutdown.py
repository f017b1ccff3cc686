"""A server process from its start to its end: signals, and what keeps it from starting."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.serving import models
from tests.serving.models import write
from tests.serving.processes import ServeProcess

pytestmark = pytest.mark.row("S7")

LOOP = "/v2/models/loop/infer"


def loop_body(turns: int, start: float) -> dict[str, Any]:
    return {
        "inputs": [
            {"name": "turns", "shape": [], "datatype": "INT64", "data": [turns]},
            {"name": "x", "shape": [1], "datatype": "FP64", "data": [start]},
        ]
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write(tmp_path / "models", "add", models.adder(1))
    write(tmp_path / "models", "loop", models.looping())
    return tmp_path / "models"


def turns_of(server: ServeProcess, seconds: float) -> int:
    """How many turns of the loop take about that long."""
    turns = 64
    while True:
        began = time.perf_counter()
        assert server.ask("POST", LOOP, loop_body(turns, 0.0))[0] == 200
        took = time.perf_counter() - began
        if took > 0.05:
            return int(turns * seconds / took)
        turns *= 4


class Callers:
    """Requests that run in threads of their own."""

    def __init__(self, server: ServeProcess, turns: int, count: int) -> None:
        self.found: dict[int, tuple[int, Any]] = {}
        self.failed: dict[int, Exception] = {}
        self.expected = {number: float(turns + number) for number in range(count)}
        work = [(server, turns, number) for number in range(count)]
        self._threads = [threading.Thread(target=self._ask, args=each) for each in work]
        for thread in self._threads:
            thread.start()

    def _ask(self, server: ServeProcess, turns: int, number: int) -> None:
        try:
            self.found[number] = server.ask("POST", LOOP, loop_body(turns, float(number)))
        except OSError as error:
            self.failed[number] = error

    def join(self) -> None:
        for thread in self._threads:
            thread.join(120)


def accepted(server: ServeProcess) -> int:
    """Requests that wait or run."""
    _, statistics = server.ask("GET", "/v2/models/loop/stats")
    return int(statistics["model_stats"][0]["inference_stats"]["success"]["count"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_what_it_accepted_is_answered(
    number: int, repository: Path, tmp_path: Path
) -> None:
    with ServeProcess(repository, tmp_path) as server:
        server.serve()
        turns = turns_of(server, 0.4)
        before = accepted(server)
        callers = Callers(server, turns, 6)
        server.until(lambda: accepted(server) > before, "one is answered, and others wait")
        server.tell(number)
        server.until(lambda: server.get("/v2/health/ready") == 503, "it is not ready")
        assert server.get("/v2/health/live") == 200
        status, plain = server.ask("POST", "/v2/models/add/infer", {"inputs": []})
        assert status == 503
        assert "shutting down" in plain["error"]
        workers = server.children()
        assert workers
        callers.join()
        assert server.end() == 0
    assert not callers.failed
    for caller, expected in callers.expected.items():
        status, plain = callers.found[caller]
        assert (status, plain["outputs"][0]["data"]) == (200, [expected])
    assert not [pid for pid in workers if _runs(pid)]
    assert "Traceback" not in server.errors.read_text()


def test_what_takes_longer_than_the_time_of_grace_is_told(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path, ["--set=exit_seconds=0.5"]) as server:
        server.serve()
        callers = Callers(server, models.FOREVER, 2)
        _busy(server)
        server.tell()
        assert server.end() == 0
        callers.join()
    answers = {status for status, _ in callers.found.values()}
    assert answers <= {503}
    assert len(callers.found) + len(callers.failed) == 2
    assert "Traceback" not in server.errors.read_text()


def test_a_run_in_process_that_hangs_does_not_keep_it(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(
        repository, tmp_path, ["--set=exit_seconds=0.5", "--workers=inprocess"]
    ) as server:
        server.serve()
        callers = Callers(server, models.FOREVER, 2)
        server.until(lambda: _ticks(server.pid) > 300, "it computes")
        server.tell()
        assert server.end() == 0
        callers.join()
    assert {status for status, _ in callers.found.values()} <= {503}
    assert len(callers.found) + len(callers.failed) == 2
    assert "Traceback" not in server.errors.read_text()


def test_a_second_signal_ends_it_at_once(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path, ["--set=exit_seconds=600"]) as server:
        server.serve()
        callers = Callers(server, models.FOREVER, 1)
        _busy(server)
        server.tell()
        server.until(lambda: server.get("/v2/health/ready") == 503, "it drains")
        workers = server.children()
        server.tell()
        server.end()
        callers.join()
    assert "Traceback" not in server.errors.read_text()
    limit = time.monotonic() + 60
    while [pid for pid in workers if _runs(pid)]:
        assert time.monotonic() < limit
        time.sleep(0.01)


def _coders(server: ServeProcess) -> list[int]:
    """The processes that read large messages."""
    return [pid for pid in server.children() if "coders.main" in _command(pid)]


def _drains(server: ServeProcess) -> bool:
    """Whether it takes no more requests: it says so, or listens no more."""
    try:
        return server.get("/v2/health/ready") == 503
    except ConnectionError:
        return True


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended
        return ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_while_a_large_request_is_read(
    number: int, repository: Path, tmp_path: Path
) -> None:
    text = b'{"inputs":[{"name":"x","shape":[6000000,1],"datatype":"FP32","data":[%b[NaN]]}]}' % (
        b"[NaN]," * 5_999_999
    )
    request = (
        b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(text)
        + text
    )
    with ServeProcess(repository, tmp_path, ["--set=exit_seconds=600"]) as server:
        server.serve()
        with socket.create_connection(("127.0.0.1", server.http)) as caller:
            caller.sendall(request)
            server.until(lambda: _coders(server), "a process reads it")
            coders = _coders(server)
            for coder in coders:  # else the request may be answered before the second signal
                os.kill(coder, signal.SIGSTOP)
            server.tell(number)
            server.until(lambda: _drains(server), "it drains")
            server.tell(number)
            server.end()
            for coder in coders:
                os.kill(coder, signal.SIGCONT)
    assert "Traceback" not in server.errors.read_text()
    limit = time.monotonic() + 60
    while [pid for pid in coders if _runs(pid)]:
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_signal_while_it_starts(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path, shares=False) as server:
        server.until(server.children, "it compiles or loads")
        server.tell()
        assert server.end() == 0
    assert server.output.read_text() == ""
    assert "Traceback" not in server.errors.read_text()


def test_a_server_that_is_killed_leaves_no_workers(repository: Path, tmp_path: Path) -> None:
    with ServeProcess(repository, tmp_path) as server:
        server.serve()
        workers = server.children()
        assert len(workers) >= 2
        server.tell(signal.SIGKILL)
        server.end()
    limit = time.monotonic() + 60
    while [pid for pid in workers if _runs(pid)]:
        assert time.monotonic() < limit
        time.sleep(0.01)


def _busy(server: ServeProcess) -> None:
    """Wait until a worker computes."""

    def busy() -> bool:
        return any(_ticks(pid) > before.get(pid, 0) + 10 for pid in server.children())

    before = {pid: _ticks(pid) for pid in server.children()}
    server.until(busy, "a worker computes")


def _ticks(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
    except FileNotFoundError:
        return 0


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# ----------------------------------------------------------------------------------------- no start


def refused(server: ServeProcess) -> str:
    """What a server says that does not start: one paragraph, status 1."""
    assert server.end() == 1
    text = server.errors.read_text()
    assert "Traceback" not in text
    assert server.output.read_text() == ""
    assert not [pid for pid in server_children(server) if _runs(pid)]
    return " ".join(text.split())


def server_children(server: ServeProcess) -> list[int]:
    try:
        return server.children()
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("name", ["http", "grpc", "admin"])
def test_a_port_that_is_in_use(name: str, repository: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with ServeProcess(repository, tmp_path, [f"--{name}-port={port}"]) as server:
            text = refused(server)
    assert str(port) in text
    assert "INF-7" in text


def certificate(folder: Path, days: int) -> tuple[Path, Path]:
    """A certificate that ends in so many days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(encoding))
    return folder / "certificate.pem", folder / "key.pem"


@pytest.mark.parametrize("name", ["http", "grpc"])
def test_a_certificate_whose_time_is_over(name: str, repository: Path, tmp_path: Path) -> None:
    public, key = certificate(tmp_path, -1)
    tls = f"--set={name}.tls={{certificate: '{public}', key: '{key}'}}"
    with ServeProcess(repository, tmp_path, [tls]) as server:
        assert "certificate" in refused(server)


def _no_permission(folder: Path) -> str:
    place = folder / "closed"
    place.mkdir(mode=0o000)
    return str(place)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (lambda folder: str(folder / "nowhere"), "nowhere"),
        (lambda folder: str(folder / "models" / "add" / "1" / "model.onnx"), "model.onnx"),
        pytest.param(
            _no_permission,
            "closed",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder"),
        ),
        (lambda _: "ftp://bucket/models", "ftp"),
    ],
)
def test_a_repository_that_cannot_be_read(
    place: Callable[[Path], str], text: str, repository: Path, tmp_path: Path
) -> None:
    with ServeProcess(place(tmp_path), tmp_path) as server:
        found = refused(server)
    assert text in found
    assert "INF-7" in found


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--set=poll_seconds=never", "poll_seconds"),
        ("--set=limits.request_bytes=-1", "request_bytes"),
        ("--set=nothing=1", "nothing"),
        ("--set=workers.mode=thread", "mode"),
        ("--set=http.port", "no value"),
        ("--set=models=[none]", "none"),
        ("--host=0.0.0.0", "insecure"),
    ],
)
def test_a_configuration_that_is_wrong(
    option: str, text: str, repository: Path, tmp_path: Path
) -> None:
    options = [option, "--control=explicit"] if "models" in option else [option]
    with ServeProcess(repository, tmp_path, options) as server:
        assert text in refused(server)


def test_a_file_of_configuration_that_is_no_yaml(repository: Path, tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    for content, text in (
        (b"a: [", "YAML"),
        (b"\xff\xfe\x00", "YAML"),
        (b"htp: {}", "htp"),
        (b"[1]", "server.yaml"),
    ):
        path.write_bytes(content)
        with ServeProcess(repository, tmp_path, [f"--config={path}"]) as server:
            assert text in refused(server)
