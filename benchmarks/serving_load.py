"""Closed-loop load: so many clients, each with one request under way, for some time.

The clients are `wrk` (HTTP/1.1) and `h2load` (gRPC), programs in C of one thread: a client in
Python would take as much of the processor as the server does.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.serving_calls import HOST, Call, CallError

WARM_UP = 1
"""Seconds of load before that which counts."""
LEAST_EACH = 4
LONGEST = 60
_EXTRA = 60
# requests after the warm-up, so that what its clients left behind is done when these are answered
_DRAINS = 3
_SCRIPT = """
local file = assert(io.open({body}, "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()
{headers}
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{{"answers": %d, "micros": %d, "p50": %d, "p99": %d, "longest": %d, "errors": %d}}\\n',
        summary.requests,
    summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


class LoadError(RuntimeError):
    """Load could not be made."""


@dataclass
class Load:
    """What the clients saw: right answers per second, and their seconds; `errors`: answers that
    were none.
    """

    clients: int
    rate: float
    p50: float
    p99: float
    longest: float
    answers: int
    errors: int


def apply(call: Call, clients: int, seconds: int, warm_up: int = WARM_UP) -> Load:
    """Load of so many clients for so many seconds, after a warm-up; LoadError where the program for
    it fails.

    Where a client got fewer than LEAST_EACH answers, the load is applied again for longer: or only
    fast answers count.
    """
    generate = _h2load if call.grpc else _wrk
    with tempfile.TemporaryDirectory() as folder:
        load = generate(call, clients, seconds, warm_up, Path(folder))
        longer = enough_seconds(load, seconds)
        return load if longer <= seconds else generate(call, clients, longer, warm_up, Path(folder))


def enough_seconds(load: Load, seconds: int) -> int:
    """For how long that load gives each client LEAST_EACH answers, at most LONGEST."""
    missing = LEAST_EACH * load.clients / max(1, load.answers)
    return seconds if missing <= 1 else max(seconds, min(LONGEST, math.ceil(seconds * missing)))


def checked(call: Call, expected: dict[str, np.ndarray], clients: int, seconds: int) -> Load:
    """`apply` between two requests whose answers are compared with the right one; CallError where
    one differs.
    """
    call.check(expected)
    load = apply(call, clients, seconds)
    call.check(expected)
    if load.errors:
        raise CallError(f"{load.errors} of {load.answers} requests failed")
    return load


def _wrk(call: Call, clients: int, seconds: int, warm_up: int, folder: Path) -> Load:
    (folder / "body").write_bytes(call.body)
    headers = "\n".join(
        f"wrk.headers[{json.dumps(name)}] = {json.dumps(text)}"
        for name, text in call.headers.items()
    )
    script = folder / "call.lua"
    script.write_text(
        _SCRIPT.format(body=json.dumps(str(folder / "body")), headers=headers), encoding="utf-8"
    )
    command = [
        _program("wrk", "wrk"),
        "-t1",
        f"-c{clients}",
        "--timeout",
        f"{_EXTRA}s",
        "-s",
        str(script),
    ]
    url = f"http://{HOST}:{call.port}{call.path}"
    if warm_up:
        _output([*command, f"-d{warm_up}s", url], warm_up)
        for _ in range(_DRAINS):
            call.answer()
    told = json.loads(_output([*command, f"-d{seconds}s", url], seconds).splitlines()[-1])
    if not told["answers"]:
        raise LoadError(f"no request of {clients} clients was answered within {seconds} s")
    times = (told["p50"] / 1e6, told["p99"] / 1e6, told["longest"] / 1e6)
    right = told["answers"] - told["errors"]
    return Load(clients, right / (told["micros"] / 1e6), *times, told["answers"], told["errors"])


def _h2load(call: Call, clients: int, seconds: int, warm_up: int, folder: Path) -> Load:
    (folder / "body").write_bytes(call.body)
    log = folder / "log"
    headers = [f"--header={name}: {text}" for name, text in call.headers.items()]
    command = [
        _program("h2load", "nghttp2-client"),
        "-t1",
        "-m1",
        f"-c{clients}",
        f"-D{seconds}",
        *headers,
    ]
    command += [
        f"--warm-up-time={warm_up}",
        f"--data={folder / 'body'}",
        f"--log-file={log}",
        "-w24",
        "-W24",
    ]
    text = _output([*command, f"http://{HOST}:{call.port}{call.path}"], seconds + warm_up)
    _, answer = call.answer()
    return read_h2load(text, log.read_text("utf-8"), clients, seconds, answer)


def read_h2load(text: str, log: str, clients: int, seconds: float, answer: int) -> Load:
    """The load that `h2load` tells of, with its log of requests, where each right answer has
    `answer` bytes.

    A gRPC error has status 200 too, and no data: missing data, beyond what is under way at the end,
    are errors.
    """
    summary = re.search(
        r"requests: .*?(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored", text
    )
    traffic = re.search(r"\((\d+)\) data", text)
    if summary is None or traffic is None:
        raise LoadError(f"h2load told nothing: {text[-500:]}")
    done, succeeded, failed, _ = map(int, summary.groups())
    full = -(-int(traffic[1]) // answer)
    empty = max(0, succeeded - full - clients)
    lines = [line.split("\t") for line in log.splitlines()]
    times = (
        np.array(
            [int(line[2]) for line in lines if len(line) == 3 and line[1] == "200"], np.float64
        )
        / 1e6
    )
    if not len(times):
        raise LoadError(f"no request was answered: {text[-500:]}")
    p50, p99 = np.percentile(times, [50, 99]).tolist()
    errors = failed + empty
    return Load(clients, (done - errors) / seconds, p50, p99, float(times.max()), done, errors)


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LoadError(
            f"there is no program {name}: install the package {package} (apt install {package})"
        )
    return found


def _output(command: list[str], seconds: float) -> str:
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=seconds + _EXTRA
        )
    except subprocess.TimeoutExpired as error:
        raise LoadError(
            f"{Path(command[0]).name} did not end within {error.timeout:.0f} s"
        ) from error
    if done.returncode:
        raise LoadError(
            f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr[-500:]}"
        )
    return done.stdout
