"""The benchmarks of the server: what they send is right, what clients tell is read rightly, and how
servers compare.
"""

import json
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from benchmarks import serving_hostile
from benchmarks.serving import Turn, compare
from benchmarks.serving_calls import (
    CallError,
    grpc_raw,
    plain_bytes,
    plain_json,
    rest_binary,
    rest_json,
)
from benchmarks.serving_load import Load, LoadError, apply, checked, enough_seconds, read_h2load
from benchmarks.serving_overhead import Line, Row, measure, save_model
from benchmarks.serving_peers import OURS, Turn as PeerTurn, read, summarize
from benchmarks.serving_process import Ports, ServerError, infuse_server, running

ROW = {"x": np.arange(4, dtype=np.float32).reshape(1, 4)}
EXPECTED = {"y": ROW["x"]}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    file = save_model("Identity", ("rows", 4), tmp_path_factory.mktemp("model") / "same.onnx")
    with infuse_server({"same": file}) as found:
        yield found


@contextmanager
def answering(text: bytes) -> Iterator[int]:
    """A port where every connection gets this text, whatever it asks."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(text)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_hostile_cases_end_as_they_should(tmp_path: Path) -> None:
    listed = serving_hostile.cases(512)
    assert len(listed) == len({case.name for case in listed}) >= 200
    file = tmp_path / "rows.json"
    names = "configuration: replicas beyond,request: two hosts,model: Range to 100000000000"
    serving_hostile.main(["--only", names, "--most", "1e9", "--json", str(file)])
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert all(row["right"] for row in rows.values()), rows
    assert {name.partition(":")[0]: row["status"] for name, row in rows.items()} == {
        "configuration": 400,
        "request": 400,
        "model": 500,
    }


def load(rate: float, p50: float = 0.01, p99: float = 0.02, clients: int = 32) -> Load:
    return Load(clients, rate, p50, p99, p99, 100, 0)


@pytest.mark.row("S1")
def test_every_form_of_a_call_is_answered_by_the_server(ports: Ports) -> None:
    for make, port in ((rest_binary, ports.http), (rest_json, ports.http), (grpc_raw, ports.grpc)):
        make(port, "same", ROW, ["y"]).check(EXPECTED)


def test_wrong_answers_and_errors_are_seen(ports: Ports) -> None:
    call = rest_binary(ports.http, "same", ROW, ["y"])
    with pytest.raises(CallError, match="output y is 3 away"):
        call.check({"y": np.zeros((1, 4), np.float32)})
    with pytest.raises(CallError, match="outputs y, not z"):
        call.check({"z": ROW["x"]})
    with pytest.raises(CallError, match="status 404"):
        rest_binary(ports.http, "other", ROW, ["y"]).check(EXPECTED)
    with pytest.raises(CallError, match="no model 'other'"):
        grpc_raw(ports.grpc, "other", ROW, ["y"]).check(EXPECTED)
    with pytest.raises(CallError, match="no answer from port"):
        rest_binary(Ports.free().http, "same", ROW, ["y"]).check(EXPECTED)


def test_a_line_reads_whole_answers(ports: Ports) -> None:
    line = Line(rest_binary(ports.http, "same", ROW, ["y"]))
    sizes = {line.send() for _ in range(3)}
    line.close()
    assert len(sizes) == 1
    assert min(sizes) > EXPECTED["y"].nbytes
    text = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole"
    with answering(text) as port:
        line = Line(rest_binary(port, "same", ROW, ["y"]))
        assert line.send() == len(text)
        line.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"HTTP/1.1 503 Busy\r\n\r\n", "503"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "closed"),
    ],
)
def test_a_line_tells_bad_answers(text: bytes, message: str) -> None:
    with answering(text) as port:
        line = Line(rest_binary(port, "same", ROW, ["y"]))
        with pytest.raises(CallError, match=message):
            line.send()
        line.close()


def test_plain_calls_are_what_they_say() -> None:
    call = plain_json(1, ROW)
    assert json.loads(call.body) == {"inputs": {"x": [[0, 1, 2, 3]]}}
    assert call.read({}, b'{"y": [[1.5]]}')["y"].tolist() == [[1.5]]
    call = plain_bytes(1, ROW, "y")
    assert (call.body, call.headers["x-shape"]) == (ROW["x"].tobytes(), "1,4")
    assert call.read({}, np.float32([2]).tobytes())["y"].tolist() == [2]


@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs the program wrk")
def test_load_over_http(ports: Ports) -> None:
    found = checked(rest_binary(ports.http, "same", ROW, ["y"]), EXPECTED, 2, 1)
    assert found.errors == 0
    assert found.answers > found.clients == 2
    assert 0 < found.p50 <= found.p99 <= found.longest
    with answering(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n") as port:
        bad = apply(rest_binary(port, "same", ROW, ["y"]), 1, 1, 0)
    assert bad.errors >= bad.answers > 0
    assert bad.rate <= 0
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(LoadError, match="no request of 1 clients"),
    ):
        apply(rest_binary(silent.getsockname()[1], "same", ROW, ["y"]), 1, 1, 0)


@pytest.mark.skipif(shutil.which("h2load") is None, reason="needs the program h2load")
def test_load_over_grpc(ports: Ports) -> None:
    found = checked(grpc_raw(ports.grpc, "same", ROW, ["y"]), EXPECTED, 2, 1)
    assert found.errors == 0
    assert found.answers > 0
    assert 0 < found.p50 <= found.p99 <= found.longest


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(LoadError, match="no program wrk: install the package wrk"):
        apply(plain_json(1, ROW), 1, 1)
    with pytest.raises(LoadError, match="no program h2load: install the package nghttp2-client"):
        apply(grpc_raw(1, "same", ROW, ["y"]), 1, 1)


def test_what_h2load_tells() -> None:
    text = (
        "requests: {0} total, {0} started, {0} done, {0} succeeded, {1} failed, 0 errored, 0 "
        "timeout\n"
    )
    text += "traffic: 1KB ({2}) total, 0B (0) headers (space savings 0%), 1KB ({2}) data\n"
    log = "1\t200\t1000\n2\t200\t3000\n3\t-1\t9\n"
    assert read_h2load(text.format(10, 0, 1000), log, 2, 5, 100) == Load(
        2, 2.0, 0.002, 0.00298, 0.003, 10, 0
    )
    assert (
        read_h2load(text.format(10, 0, 200), log, 2, 5, 100).errors == 6
    )  # of 8 empty ones, 2 may be under way
    assert read_h2load(text.format(10, 4, 1000), log, 2, 5, 100).errors == 4
    with pytest.raises(LoadError, match="told nothing"):
        read_h2load("connect failed", log, 2, 5, 100)
    with pytest.raises(LoadError, match="no request was answered"):
        read_h2load(text.format(10, 0, 1000), "", 2, 5, 100)


def test_slow_servers_get_more_time() -> None:
    assert [enough_seconds(Load(10, 1, 1, 1, 1, answers, 0), 5) for answers in (40, 20, 1)] == [
        5,
        10,
        60,
    ]
    assert enough_seconds(Load(10, 1, 1, 1, 1, 20, 0), 90) == 90


def test_a_server_that_ends_shows_its_log() -> None:
    with (
        pytest.raises(ServerError, match="no luck"),
        running([sys.executable, "-c", "raise SystemExit('no luck')"], Ports.free().http, "/"),
    ):
        pytest.fail("it does not serve")


@pytest.mark.row("S4")
def test_batching_is_compared_by_medians() -> None:
    turns = [
        Turn("adaptive", load(300), 16),
        Turn("adaptive", load(100), 16),
        Turn("max_size 1", load(100), 16),
        Turn("adaptive", load(50, p50=0.03, clients=1), 16),
        Turn("max_size 1", load(50, p50=0.02, clients=1), 16),
    ]
    assert compare(turns) == {16: (2.0, 1.5)}


def test_what_serving_adds() -> None:
    row = Row("image", 1, [1.0, 2.0, 3.0], [2.5, 4.0, 6.0])
    assert (row.added, row.least) == (2.0, 1.5)


def test_overhead_is_measured_with_the_server_s_own_stages(tmp_path: Path) -> None:
    if shutil.which("h2load") is None:
        pytest.skip("needs the program h2load")
    rows = measure(1, 3, tmp_path)
    assert [(row.name, row.bytes) for row in rows] == [
        ("image, REST", 602112), ("image, gRPC", 602112), ("row, REST", 100), ("row, gRPC", 100),
    ]  # fmt: skip
    for row in rows:
        assert 0 < row.stages["compute_infer"] < row.stages["success"]


def test_our_server_is_compared_with_the_best_of_the_peers() -> None:
    rates = {OURS: 300, "fastapi_bytes": 200, "mlserver_grpc": 100}
    turns = [PeerTurn("m", name, 4, 0, load(rate, p99=1 / rate)) for name, rate in rates.items()]
    turns.append(PeerTurn("m", "fastapi_json", 4, 0, None, "it does not serve"))
    (line,) = summarize(turns)
    assert line.ratio == 1.5
    assert line.tail == pytest.approx(200 / 300)
    assert line.is_good
    (line,) = summarize([*turns, PeerTurn("m", OURS, 4, 1, load(100, p99=1.0))])
    assert line.ratio == 1.0
    assert not line.is_good
    (line,) = summarize([turn for turn in turns if turn.server == OURS])
    assert not line.is_good


def test_turns_that_were_measured_are_kept(tmp_path: Path) -> None:
    assert read(None) == read(tmp_path / "none.json") == []
    good = {
        "model": "m",
        "server": OURS,
        "clients": 4,
        "round": 0,
        "load": vars(load(5.0)),
        "error": "",
    }
    file = tmp_path / "turns.json"
    file.write_text(json.dumps({"turns": [good, good | {"load": None, "error": "late"}]}))
    assert read(file) == [PeerTurn("m", OURS, 4, 0, load(5.0))]
