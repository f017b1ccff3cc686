"""`infuse load` against servers in this process: what it counts, and what it complains of."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import OverloadError
from infuse.ops.core.feeds import random_array
from infuse.options.serving import RequestOptions
from infuse.serving.config import Listener, ServerConfig, Workers
from infuse.serving.datatypes import NUMPY
from infuse.serving.load.inputs import VARIETY, random_requests
from infuse.serving.load.levels import Errors, Level, Stage, arrivals, open_level
from infuse.serving.load.processes import merged, shares
from infuse.serving.load.remote import Failure, Port, RemoteModel
from infuse.serving.messages import Tensor
from tests.cli_tools import Cli
from tests.serving.console_server import serving as whole_server, write_model
from tests.serving.load_stage import SHORT, cli, engine, http, rpc, url
from tests.serving.processes import SECONDS
from tests.serving.rest_tools import FakeEngine
from tests.serving.rpc_tools import running

__all__ = ["cli", "engine", "http", "rpc", "url"]


# ---------------------------------------------------------------------------------------- counting


def test_every_request_is_counted_and_was_answered(cli: Cli, url: str, engine: FakeEngine) -> None:
    facts = cli("load", url, "echo", "--concurrency", "1,3", *SHORT, "--json").json
    assert [level["load"] for level in facts["levels"]] == [1, 3]
    for level in facts["levels"]:
        assert level["loop"] == "closed"
        assert level["failed"] == 0
        assert level["requests"] == level["latency"]["runs"] > 0
        assert level["sent_bytes"] == level["requests"] * facts["request_bytes"]
        assert level["received_bytes"] > level["requests"] * 16
    measured = sum(level["requests"] for level in facts["levels"])
    assert len(engine.requests) > measured, "a trial and a warm-up come before"
    assert engine.requests[0].inputs[0].data.shape == (1, 4)
    assert len({float(r.inputs[0].data[0, 0]) for r in engine.requests}) == VARIETY


def test_a_batch_counts_its_examples(cli: Cli, url: str, engine: FakeEngine) -> None:
    args = ("load", url, "echo", "--concurrency", 1, "--batch", 5, *SHORT, "--json")
    (level,) = cli(*args).json["levels"]
    assert level["examples_per_second"] == pytest.approx(5 * level["requests_per_second"])
    assert engine.requests[-1].inputs[0].data.shape == (5, 4)


@pytest.mark.parametrize("model", ["words", "free"])
@pytest.mark.parametrize("json_tensors", [True, False])
def test_tensors_of_every_kind_are_sent(
    cli: Cli, http: str, engine: FakeEngine, model: str, json_tensors: bool
) -> None:
    flags = ["--json-tensors"] if json_tensors else []
    (level,) = cli("load", http, model, "--concurrency", 2, *SHORT, *flags, "--json").json["levels"]
    assert level["failed"] == 0
    assert level["requests"] > 0
    is_binary = engine.requests[-1].outputs[0].parameters.get("binary_data", False)
    assert is_binary is not json_tensors


def test_not_a_number_in_json_is_an_answer(cli: Cli, http: str, engine: FakeEngine) -> None:
    engine.outputs = [Tensor("x", "FP32", np.array([[np.nan, np.inf, 1, 2]], np.float32))]
    args = ("load", http, "echo", "--concurrency", 1, *SHORT, "--json-tensors", "--json")
    assert cli(*args).json["levels"][0]["failed"] == 0


def test_dynamic_axes_have_the_sizes_that_are_asked_for(
    cli: Cli, http: str, engine: FakeEngine
) -> None:
    cli("load", http, "wild", "--concurrency", 1, *SHORT, "--dim", "x.2=3", "--dim", "x.0=2")
    assert engine.requests[-1].inputs[0].data.shape == (2, 32, 3)


def test_inputs_come_from_a_file(cli: Cli, url: str, engine: FakeEngine, tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.savez(tmp_path / "real.npz", x=x)
    args = ("load", url, "echo", "--concurrency", 1, *SHORT, "--inputs", tmp_path / "real.npz")
    assert cli(*args).status == 0
    assert np.array_equal(engine.requests[-1].inputs[0].data, x)


def test_an_open_loop_sends_as_many_as_it_is_to(cli: Cli, url: str) -> None:
    args = ("load", url, "echo", "--rate", "50,100", "--seconds", 0.5, "--warm-up", 0, "--seed", 3)
    levels = cli(*args, "--json").json["levels"]
    expected = [
        len(arrivals(rate, 0.5, np.random.default_rng((3, number))))
        for number, rate in enumerate((50, 100))
    ]
    assert [level["requests"] for level in levels] == expected
    assert [level["loop"] for level in levels] == ["open", "open"]
    assert all(level["delay"]["runs"] == level["requests"] for level in levels)
    assert all(min(level["delay"]["min_ms"], level["latency"]["min_ms"]) >= 0 for level in levels)


def test_a_level_without_a_request_has_not_failed(cli: Cli, http: str) -> None:
    args = ("load", http, "echo", "--rate", 0.001, "--seconds", 0.01, "--warm-up", 0, "--json")
    answer = cli(*args)
    assert answer.status == 0
    assert answer.json["levels"][0]["requests"] == 0


def test_the_table_says_what_was_measured(cli: Cli, http: str) -> None:
    answer = cli("load", http, "echo", "--concurrency", 1, "--rate", 20, *SHORT)
    assert answer.status == 0
    assert "x: float32[1, 4]" in answer.out
    assert "1 caller" in answer.out
    assert "20 requests/s" in answer.out


@pytest.mark.parametrize("load", [("--concurrency", 3), ("--rate", 60)])
def test_several_processes_send_one_load(
    cli: Cli, http: str, engine: FakeEngine, load: tuple[str, int]
) -> None:
    arguments = ("load", http, "echo", *load, *SHORT, "--processes", 2, "--json")
    answer = cli(*arguments)
    assert answer.status == 0
    (level,) = answer.json["levels"]
    assert level["load"] == load[1]
    assert level["failed"] == 0
    assert level["requests"] == level["latency"]["runs"] > 0
    assert level["sent_bytes"] == level["requests"] * answer.json["request_bytes"]
    assert len(engine.requests) > level["requests"]


def test_what_processes_saw_is_put_together() -> None:
    one = Level("closed", 2, 5, [0.1], [0.2], {"timeout": Errors("late", 2)}, 10, 20, 1.0, 0.5)
    two = Level("closed", 1, 5, [0.3], [], {"timeout": Errors("later", 1)}, 1, 2, 1.5, 0.25, True)
    errors = {"timeout": Errors("late", 3)}
    assert merged([one, two]) == Level(
        "closed", 3, 5, [0.1, 0.3], [0.2], errors, 11, 22, 1.5, 0.75, True
    )
    assert one.errors["timeout"].count == 2


def test_loads_are_divided() -> None:
    closed = shares(Stage(5, 0.0, 1.0, 0.0), 3)
    assert [part.callers for part in closed] == [2, 2, 1]
    assert len(shares(Stage(2, 0.0, 1.0, 0.0), 8)) == 2
    parts = shares(Stage(0, 90.0, 1.0, 0.0), 3)
    assert [part.rate for part in parts] == [30.0] * 3
    assert len({part.seed for part in parts}) == 3


# ------------------------------------------------------------------------------ arrivals and stalls


def test_arrivals_are_a_poisson_process() -> None:
    generator = np.random.default_rng(0)
    counts = [len(arrivals(100, 1.0, generator)) for _ in range(2000)]
    # The mean and the variance of a Poisson distribution are the same; five deviations are allowed.
    assert abs(np.mean(counts) - 100) < 5 * (100 / 2000) ** 0.5
    assert abs(np.var(counts) - 100) < 5 * 100 * (2 / 2000) ** 0.5
    times = arrivals(1000, 2.0, generator)
    assert np.all(np.diff(times) >= 0)
    assert 0 <= times[0] <= times[-1] < 2


class StalledCall:
    """Answers nothing before `release`."""

    size = 1

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.sent = 0

    async def send(self) -> int:
        self.sent += 1
        await self.release.wait()
        return 1


def test_a_stalled_server_hides_no_request() -> None:
    """The requests that meet the stall are sent all the same, and each waits for its end."""

    async def measured() -> None:
        call = StalledCall()
        times = arrivals(200, 0.2, np.random.default_rng(1))
        level = asyncio.ensure_future(
            open_level([call], 1, 200, 0.2, np.random.default_rng(1), asyncio.Event())
        )
        while call.sent < len(times):
            await asyncio.sleep(0.001)
        call.release.set()
        latencies = np.array((await level).latencies)
        assert len(latencies) == len(times) > 1
        # All end together: latencies differ as the intended times do, whenever it was sent.
        assert np.sort(latencies)[::-1] - latencies.min() == pytest.approx(
            times[-1] - times, abs=0.05
        )

    asyncio.run(measured())


# ----------------------------------------------------------------------------------------- failures


def test_failures_are_counted_by_kind(cli: Cli, http: str, engine: FakeEngine) -> None:
    engine.error = OverloadError("the queue is full")
    answer = cli("load", http, "echo", "--concurrency", 2, *SHORT, "--json")
    assert answer.status == 1
    assert "every request failed; a server without binary tensors needs --json-ten" in answer.err
    (level,) = answer.json["levels"]
    (error,) = level["errors"]
    assert error["kind"] in ("HTTP 429", "HTTP 503")
    assert "the queue is full" in error["first"]
    assert error["count"] == level["failed"] == level["requests"] > 0
    assert level["latency"] is None


def test_answers_without_the_declared_outputs_are_wrong(
    cli: Cli, url: str, engine: FakeEngine
) -> None:
    engine.outputs = [Tensor("other", "FP32", np.zeros((1, 4), np.float32))]
    answer = cli("load", url, "echo", "--concurrency", 1, *SHORT)
    assert answer.status == 1
    assert "wrong answer" in answer.out
    assert "its outputs are other (FP32), declared are x (FP32)" in " ".join(answer.out.split())


def test_a_slow_model_is_a_timeout(cli: Cli, url: str, engine: FakeEngine) -> None:
    engine.held = True
    args = ("load", url, "echo", "--concurrency", 2, *SHORT, "--timeout", 0.05, "--json")
    answer = cli(*args)
    engine.release.set()
    assert answer.status == 1
    assert [e["kind"] for e in answer.json["levels"][0]["errors"]] == ["timeout"]


def test_a_server_that_is_killed_is_counted(
    cli: Cli, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes away in the middle of the level: what was answered before stays counted."""
    config = ServerConfig(grpc=Listener(host="127.0.0.1"))
    with running(engine, config) as server:
        infer, stopped = engine.infer, threading.Event()

        async def killing(request: Any) -> Any:
            if len(engine.requests) == 20 and not stopped.is_set():
                stopped.set()
                server.loop.create_task(server.server.stop(0.0))
            return await infer(request)

        monkeypatch.setattr(engine, "infer", killing)
        args = ("load", f"grpc://{server.address}", "echo", "--concurrency", 2, "--warm-up", 0)
        answer = cli(*args, "--seconds", 1, "--json")
    assert answer.status == 0
    (level,) = answer.json["levels"]
    assert level["latency"]["runs"] > 0
    assert level["failed"] > 0
    assert {e["kind"] for e in level["errors"]} <= {"gRPC UNAVAILABLE", "gRPC CANCELLED"}


def test_an_interruption_prints_what_was_measured(
    http: str, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    infer, asked = engine.infer, threading.Event()

    async def counting(request: Any) -> Any:
        if len(engine.requests) >= 30:
            asked.set()
        return await infer(request)

    monkeypatch.setattr(engine, "infer", counting)
    args = ("load", http, "echo", "--concurrency", "1,2", "--seconds", "100", "--warm-up", "0")
    command = [sys.executable, "-m", "infuse", *args, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert asked.wait(SECONDS)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    answer = json.loads(output)
    assert answer["interrupted"]
    (level,) = answer["levels"]
    assert level["interrupted"]
    assert level["requests"] > 0


# ----------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("answered", "complaint"),
    [
        ([("y", "FP32", [2], 8)], None),
        ([("y", "FP32", [2], None)], None),
        ([("y", "INT64", [2], 16)], "declared are y"),
        ([], "its outputs are none"),
        ([("y", "FP32", [2], 4)], "has 4 bytes, not 8"),
    ],
)
def test_answers_are_held_against_the_metadata(answered: list[Any], complaint: str | None) -> None:
    model = RemoteModel("m", (Port("x", "FP32", (-1,)),), (Port("y", "FP32", (-1,)),))
    if complaint is None:
        model.check(answered)
        return
    with pytest.raises(Failure, match=complaint):
        model.check(answered)


def test_every_type_of_the_protocol_has_random_values() -> None:
    for datatype in NUMPY:
        model = RemoteModel("m", (Port("x", datatype, (-1, 3)),), (Port("y", "FP32", (-1,)),))
        requests = random_requests(model, RequestOptions(batch=2), 0, random_array)
        assert all(request[0].data.shape == (2, 3) for request in requests)
        assert requests[0][0].data.dtype == NUMPY[datatype]


# ------------------------------------------------------------------------------------- a real model


def test_a_real_server_is_measured_over_both_protocols(cli: Cli, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    write_model(repository / "dense" / "1", config="warmup: {enabled: false}\nthreads: 1\n")
    workers = Workers(mode="inprocess")
    with whole_server(repository, grpc=Listener(), workers=workers) as server:
        http, rpc = server.server.http, server.server.grpc
        assert http is not None
        assert rpc is not None
        for url in (http.url, f"grpc://127.0.0.1:{rpc.port}"):
            args = ("load", url, "dense", "--concurrency", 2, "--batch", 3, "--version", 1)
            (level,) = cli(*args, *SHORT, "--json").json["levels"]
            assert level["failed"] == 0
            assert level["requests"] > 0
