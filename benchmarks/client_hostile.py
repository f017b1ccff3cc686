"""Commands that ask a server, beside hostile servers: does each end in a clear error, in time and
within its memory?

`python -m benchmarks.client_hostile [--seconds 70] [--memory 256] [--only TEXT]`

Each mode of `tests.serving.hostile_servers` is met by `infuse load` and twice by `infuse rollout`,
whose limits are 10 and 60 s (an order that loads a version, as `infuse rollback` does, may take
1,000 s: it is built first), each in a process of its own. Its memory is compared with that of the
same command beside a server that answers as it should. Exit status 1 where one took longer than
`--seconds`, had more than `--memory` MiB beyond that, or showed a traceback, an escape of a
terminal or no error.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.serving.hostile_servers import METADATA, MODES, SECRET, TRAFFIC, X, server

_VERBS = {
    "load": (
        "load",
        "{url}",
        "net",
        "--concurrency",
        "1",
        "--seconds",
        "1",
        "--warm-up",
        "0",
        "--timeout",
        "10",
    ),
    "rollout": ("rollout", "net", "--admin", "{url}"),
    "rollout --pause": ("rollout", "net", "--pause", "--admin", "{url}"),
}


@dataclass
class Ended:
    """How a command ended."""

    status: int
    seconds: float
    mebibytes: float
    text: str


def _run(verb: Sequence[str], url: str, seconds: float) -> Ended:
    words = [word.format(url=url) for word in verb]
    begin = time.monotonic()
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "infuse", *words],
            stdout=told,
            stderr=subprocess.STDOUT,
            env={**os.environ, "INFUSE_TOKEN": SECRET, "NO_COLOR": "1"},
        )
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begin > seconds:
                process.kill()
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        text = told.read().decode(errors="replace")
    took = time.monotonic() - begin
    return Ended(process.returncode, took, used.ru_maxrss / 1024, text)


def _faults(ended: Ended, usual: float, seconds: float, memory: float) -> list[str]:
    last = ended.text.strip().splitlines()[-1:] or [""]
    found = {
        f"status {ended.status}": ended.status not in (1, 2),
        f"{ended.seconds:.1f} s": ended.seconds > seconds,
        f"{ended.mebibytes - usual:.0f} MiB more": ended.mebibytes - usual > memory,
        "a traceback": "Traceback" in ended.text,
        "an escape": not ended.text.replace("\n", "").isprintable(),
        f"{len(ended.text)} characters": len(ended.text) > 20_000,
        "no error": not last[0],
    }
    return [name for name, holds in found.items() if holds]


def main() -> int:
    """Meet all modes, print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=70)
    parser.add_argument("--memory", type=float, default=256)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    good = {"outputs": [{**X, "name": "y", "shape": [1, 4], "data": [1] * 4}]}

    def answer(handler: object) -> None:
        path = handler.path  # type: ignore[attr-defined]
        is_traffic = "traffic" in path or path.endswith(("rollout", "rollback"))
        content = TRAFFIC if is_traffic else good if path.endswith("infer") else METADATA
        handler.say(content)  # type: ignore[attr-defined]

    with server(answer) as (url, _):
        usual = {name: _run(verb, url, options.seconds) for name, verb in _VERBS.items()}
    for name, ended in usual.items():
        print(f"{name}, a good server: status {ended.status}, {ended.mebibytes:.0f} MiB")
    wrong, most, longest = 0, 0.0, 0.0
    chosen = {name: mode for name, mode in MODES.items() if options.only in name}
    for mode, respond in chosen.items():
        for name, verb in _VERBS.items():
            with server(respond) as (url, _):
                ended = _run(verb, url, options.seconds)
            more = ended.mebibytes - usual[name].mebibytes
            most, longest = max(most, more), max(longest, ended.seconds)
            faults = _faults(ended, usual[name].mebibytes, options.seconds, options.memory)
            if faults:
                wrong += 1
                print(f"{mode}, {name}: {', '.join(faults)}: {ended.text.strip()[-300:]}")
    print(
        f"{len(chosen)} modes, {len(_VERBS)} commands: {wrong} wrong; at most {most:.0f} MiB more "
        f"than beside a good server, {longest:.1f} s"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
