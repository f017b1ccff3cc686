"""`infuse serve` as a process: started, asked, told to end."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.serving.builds import share_builds

SECONDS = 120.0
# A server that a killed test run leaves behind would go on for ever.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


class ServeProcess:
    """A server process on free ports; use it as a context, which kills it at the end.

    Where `shares` is said, it starts processes that build only for what no test has built before.
    """

    def __init__(
        self,
        repository: Path | str,
        folder: Path,
        options: Sequence[str] = (),
        shares: bool = True,
    ) -> None:
        if shares and not (folder / "cache").exists():
            share_builds(folder / "cache")
        self.folder = folder
        self.http = self.grpc = self.admin = 0
        ports = [f"--{name}-port=0" for name in ("http", "grpc", "admin")]
        fields = [f"--set=cache={folder / 'cache'}", "--set=poll_seconds=0.1"]
        command = [
            *ENDS_WITH_US,
            sys.executable,
            "-m",
            "infuse",
            "serve",
            str(repository),
            *ports,
            *fields,
            *options,
        ]
        self.output = folder / "output.txt"
        self.errors = folder / "errors.txt"
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "200"}
        with self.output.open("w") as output, self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self) -> "ServeProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def pid(self) -> int:
        return self.process.pid

    def serve(self) -> "ServeProcess":
        """Wait until it says where it listens."""
        self.until(lambda: "console " in self.output.read_text(), "it serves")
        text = self.output.read_text()
        ports = {
            name: re.search(rf"{name} +\S*?:(\d+)", text) for name in ("HTTP", "gRPC", "console")
        }
        numbers = [int(found[1]) if found else 0 for found in ports.values()]
        self.http, self.grpc, self.admin = numbers
        return self

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until something is so; the process must live meanwhile."""
        limit = time.monotonic() + SECONDS
        while not condition():
            assert self.process.poll() is None, f"it ended: {self.errors.read_text()[-2000:]}"
            assert time.monotonic() < limit, (
                f"not in time: {what}; {self.errors.read_text()[-2000:]}"
            )
            time.sleep(0.01)

    def tell(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def end(self) -> int:
        """Its exit status, once it has ended."""
        return self.process.wait(SECONDS)

    def get(self, path: str) -> int:
        """The HTTP status of a path."""
        return self.ask("GET", path)[0]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def children(self) -> list[int]:
        """The processes that it has started."""
        found: list[int] = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                found += map(int, (task / "children").read_text().split())
            except FileNotFoundError:
                continue
        return found
