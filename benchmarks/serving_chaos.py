"""A server under load while everything around it goes wrong: is each request answered once, and
rightly?

`python -m benchmarks.serving_chaos [--requests 200000] [--swaps 50] [--kills 20] [--rollouts 10]
[--json FILE]`

`infuse serve` reads its models from a local S3 server through a proxy that spoils a part of the
answers (errors, late ones, ones that break off, none). Client processes ask over HTTP and gRPC
without a pause; every answer is checked against what the version that gave it is known to compute.
Meanwhile versions are swapped (a new one is uploaded, the old one is unloaded and removed), workers
are killed, and new versions are rolled out by canary, of which every second one is slow, fails for
some requests, or gives drifting outputs, and must be rolled back.

The load goes on until all of that has happened. A request is *lost* if it has no answer at all; an
answer with an error is an honest one, and is counted by its kind. A worker of a good version under
rollout is not killed: that would rightly be held against the version. Exit status 1 where an answer
is wrong, a request lost, or a rollout does not end as it must.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from benchmarks import machine, options, serving_faults, terminal
from benchmarks.serving_calls import HOST
from benchmarks.serving_clients import Clients, Tally, Task
from benchmarks.serving_faults import Kind, Store
from benchmarks.serving_process import Ports, running

BAD: Final[tuple[Kind, ...]] = ("failing", "drifting", "slow")
STEPS: Final = (0.1, 0.3, 1.0)
MODELS: Final = ("swap", "canary", "steady")
_LONG: Final = 300.0  # seconds that a change may take
_MOST_KILLS: Final = 2  # of one version: more are held against it


class ChaosError(RuntimeError):
    """Something did not happen that had to."""


@dataclass
class Rollout:
    """One rollout: what it was of, how it ended, and after how many seconds."""

    version: int
    kind: Kind
    state: str
    reason: str
    seconds: float
    window: float

    @property
    def is_good(self) -> bool:
        """Whether it ended as it had to; a rollback within the time of its steps."""
        if self.kind == "good":
            return self.state == "promoted"
        return self.state == "rolled_back" and self.seconds <= self.window


@dataclass
class Report:
    """All that was seen."""

    seconds: float = 0.0
    tally: Tally = field(default_factory=Tally)
    rollouts: list[Rollout] = field(default_factory=list)
    swaps: int = 0
    kills: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    status: int | None = None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.tally.requests / self.seconds if self.seconds else 0.0

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong or lost, and all rollouts and the server ended as they must."""
        tally = self.tally
        clean = not tally.wrong_count and not tally.lost_count
        return clean and all(rollout.is_good for rollout in self.rollouts) and self.status == 0


class Chaos:
    """A server under load, and what is done to it."""

    def __init__(
        self, given: argparse.Namespace, store: Store, ports: Ports, server: subprocess.Popen[bytes]
    ) -> None:
        self.given = given
        self.report = Report()
        self._store = store
        self._ports = ports
        self._server = server
        self._random = random.Random(given.seed)
        self._spared = ""
        self._killed: Counter[str] = Counter()
        self._failures: list[BaseException] = []
        self._clients: Clients | None = None

    def run(self) -> Report:
        """Apply the load, do everything to the server, and count."""
        tasks = [
            Task(
                grpc,
                port,
                self.given.connections,
                MODELS,
                {"canary": kinds(self.given.rollouts)},
                number,
            )
            for number, (grpc, port) in enumerate(
                [(False, self._ports.http), (True, self._ports.grpc)]
            )
        ]
        began = time.monotonic()
        self._clients = Clients(tasks)
        deeds = [
            threading.Thread(target=self._guarded, args=(deed,))
            for deed in (self._swap, self._roll, self._kill)
        ]
        for thread in deeds:
            thread.start()
        for thread in deeds:
            thread.join()
        while self._clients.answered < self.given.requests and not self._failures:
            time.sleep(0.05)
        self.report.tally = self._clients.stop()
        self.report.seconds = time.monotonic() - began
        self.report.faults = self._store.faults
        if self._failures:
            raise self._failures[0]
        self._server.send_signal(signal.SIGTERM)
        self.report.status = self._server.wait(_LONG)
        return self.report

    def _guarded(self, deed: Callable[[], None]) -> None:
        try:
            deed()
        except BaseException as error:  # it is raised again by `run`
            self._failures.append(error)

    def _turn(self, number: int, count: int) -> None:
        """Wait until the load has come as far as this deed's place among all of its kind."""
        assert self._clients is not None
        wanted = self.given.requests * number / (count + 1)
        self._until(lambda: self._answered() >= wanted, f"{wanted:.0f} requests are answered")

    def _answered(self) -> int:
        assert self._clients is not None
        return self._clients.answered

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + _LONG
        while not condition():
            if self._failures:
                raise ChaosError("another part of the chaos failed")
            if self._server.poll() is not None:
                raise ChaosError(f"the server ended with status {self._server.returncode}")
            if time.monotonic() > limit:
                raise ChaosError(f"not within {_LONG:g} s: {what}")
            time.sleep(0.05)

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPConnection(HOST, self._ports.other, timeout=_LONG)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise ChaosError(f"GET {path} says {answer.status}: {body[:300]!r}")
        return json.loads(body)

    # -- deeds -------------------------------------------------------------------------------------

    def _swap(self) -> None:
        for number in range(1, self.given.swaps + 1):
            self._turn(number, self.given.swaps)
            version = number + 1
            self._store.put_version("swap", version, serving_faults.model("good", version))
            self._until(partial(self._is_swapped, version), f"version {version} is swapped in")
            self._store.drop_version("swap", version - 1)
            self.report.swaps += 1

    def _is_swapped(self, version: int) -> bool:
        return bool(self._get("/v2/models/swap/traffic")["loaded"] == [version])

    def _roll(self) -> None:
        for version, kind in kinds(self.given.rollouts).items():
            self._turn(version - 1, self.given.rollouts)
            self._spared = f"canary/{version}" if kind == "good" else ""
            self._store.put_version("canary", version, serving_faults.model(kind, version))
            self._until(
                partial(self._ended, version), f"the rollout of version {version} has ended"
            )
            told = self._get("/v2/models/canary/traffic")["rollout"]
            window = len(STEPS) * self.given.step_seconds
            seconds = told["since"] - told["started"]
            rollout = Rollout(version, kind, told["state"], told["reason"], seconds, window)
            self.report.rollouts.append(rollout)
        self._spared = ""

    def _ended(self, version: int) -> bool:
        rollout = self._get("/v2/models/canary/traffic")["rollout"]
        return (
            rollout is not None
            and rollout["to"] == version
            and rollout["state"] not in ("running", "paused")
        )

    def _kill(self) -> None:
        for number in range(1, self.given.kills + 1):
            self._turn(number, self.given.kills)
            self._until(self._killed_one, "there is a worker to kill")
            self.report.kills += 1

    def _killed_one(self) -> bool:
        """Kill some worker with a model in it, if there is one that may be."""
        workers = [
            worker
            for worker in self._get("/v2/placement")["workers"]
            if self._may_die(worker["instances"])
        ]
        if not workers:
            return False
        chosen = self._random.choice(workers)
        try:
            os.kill(chosen["pid"], signal.SIGKILL)
        except ProcessLookupError:
            return False
        self._killed.update(chosen["instances"])
        return True

    def _may_die(self, instances: list[str]) -> bool:
        spared = self._spared in instances or any(
            self._killed[name] >= _MOST_KILLS for name in instances
        )
        return bool(instances) and (not spared or instances == ["steady/1"])


def kinds(rollouts: int) -> dict[int, Kind]:
    """What the versions are like that are rolled out, the second and later ones: every second one
    is bad.
    """
    return {
        number + 2: BAD[number // 2 % len(BAD)] if number % 2 else "good"
        for number in range(rollouts)
    }


def measure(given: argparse.Namespace) -> Report:
    """Start the store and the server, and let chaos reign."""
    with (
        serving_faults.store(given.faults, given.seed) as store,
        tempfile.TemporaryDirectory() as folder,
    ):
        canary = {
            "steps": list(STEPS),
            "step_seconds": given.step_seconds,
            "min_requests": 20,
            "shadow": 0.2,
        }
        canary |= {
            "latency_quantile": 0.5,
            "max_latency_ratio": 4.0,
        }  # compilers run beside: stalls are nobody's fault
        store.put("canary/config.yaml", json.dumps({"canary": canary}).encode())
        store.put("steady/config.yaml", json.dumps({"replicas": 2}).encode())
        for name in MODELS:
            store.put_version(name, 1, serving_faults.model("good", 1))
        ports = Ports.free()
        config = {
            "repository": f"s3://{serving_faults.BUCKET}/repository",
            "store_options": store.options,
            "cache": f"{folder}/cache",
            "poll_seconds": 0.5,
            "http": {"port": ports.http},
            "grpc": {"port": ports.grpc},
            "admin": {"port": ports.other},
            "model_defaults": {"threads": 1, "warmup": {"seconds": 2.0}},
        }
        path = Path(folder, "server.yaml")
        path.write_text(json.dumps(config), encoding="utf-8")
        command = [sys.executable, "-m", "infuse", "serve", "--config", str(path)]
        with running(command, ports.http, "/v2/health/ready") as server:
            return Chaos(given, store, ports, server).run()


def table(report: Report) -> Table:
    """What was seen, one line each."""
    made = Table(title="chaos", title_justify="left", show_header=False)
    tally = report.tally
    made.add_row(
        "requests", f"{tally.requests} in {report.seconds:.0f} s, {report.rate:.0f} a second"
    )
    made.add_row("right answers", str(tally.right))
    made.add_row(
        "wrong answers", str(tally.wrong_count), style="red" if tally.wrong_count else None
    )
    made.add_row("lost", str(tally.lost_count), style="red" if tally.lost_count else None)
    for name, count in sorted(tally.errors.items()):
        made.add_row("errors", f"{count} {name}")
    made.add_row(
        "deeds", f"{report.swaps} swaps, {report.kills} kills, {len(report.rollouts)} rollouts"
    )
    made.add_row("store", ", ".join(f"{count} {name}" for name, count in report.faults.items()))
    for rollout in report.rollouts:
        text = (
            f"{rollout.version} {rollout.kind}: {rollout.state} after {rollout.seconds:.1f} s "
            f"({rollout.reason})"
        )
        made.add_row("rollout", text, style=None if rollout.is_good else "red")
    made.add_row("exit status", str(report.status), style="red" if report.status else None)
    return made


def figures(report: Report) -> dict[str, Any]:
    """What was seen, as JSON."""
    tally = report.tally
    return {
        "requests": tally.requests,
        "seconds": report.seconds,
        "rate": report.rate,
        "right": tally.right,
        "wrong": tally.wrong_count,
        "lost": tally.lost_count,
        "errors": dict(tally.errors),
        "versions": dict(tally.versions),
        "swaps": report.swaps,
        "kills": report.kills,
        "store": report.faults,
        "rollouts": [asdict(rollout) | {"good": rollout.is_good} for rollout in report.rollouts],
        "exit_status": report.status,
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = options.parser(
        "Check a server's answers while versions, workers and the store come and go."
    )
    for name, default in (
        ("requests", 200_000),
        ("swaps", 50),
        ("kills", 20),
        ("rollouts", 10),
        ("seed", 0),
    ):
        made.add_argument(f"--{name}", type=int, default=default, help=f"(default: {default})")
    made.add_argument(
        "--connections", type=int, default=8, help="of each client process (default: 8)"
    )
    made.add_argument("--step-seconds", type=float, default=2.0, help="of a rollout (default: 2)")
    made.add_argument(
        "--faults", type=float, default=0.15, help="part of the store's answers (default: 0.15)"
    )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run, print, save."""
    given = parser().parse_args(arguments)
    report = measure(given)
    console = terminal.console()
    console.print(table(report))
    for text in (*report.tally.wrong, *report.tally.lost):
        console.print(text, markup=False, highlight=False)
    if given.json:
        asked = {name: value for name, value in vars(given).items() if name != "json"}
        machine.save(given.json, {"asked": asked} | figures(report))
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
