"""One engine that runs test after test in a process of its own, so that a crash or a hang costs one
test.

The far side sends a line when it has started. Then it reads paths of files, each of which has one
test, and sends what came of it, as JSON.
"""

import contextlib
import json
import os
import pickle
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.conformance_cases import Case
from benchmarks.conformance_engines import Opened, opener

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT = 180
PASSED, WRONG, FAILED, REFUSED, CRASHED = OUTCOMES = (
    "passed",
    "wrong",
    "failed",
    "refused",
    "crashed",
)
"""Right; other results; an error while running; an error while opening; the process ended, or the
time was over.
"""


@dataclass
class Answer:
    """What came of one test in one engine."""

    outcome: str
    reason: str = ""
    host: list[str] = field(default_factory=list)
    """Operators that did not run as native code."""
    seconds: float = 0.0


class Worker:
    """This side of the pipes: starts the process when it is needed, and again after a crash."""

    def __init__(self, engine: str, limit: float) -> None:
        self.engine, self.limit = engine, limit
        self.process: subprocess.Popen[str] | None = None

    def ask(self, case: Case) -> Answer:
        """Run one test; an answer in any case."""
        if self.process is None:
            command = [sys.executable, "-m", "benchmarks.conformance_worker", self.engine]
            pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=nothing, text=True
            )
            if isinstance(problem := self._receive(START_LIMIT), str):
                return Answer(CRASHED, f"at its start: {problem}")
        assert self.process.stdin
        # Tests may be larger than what a pipe holds, and whoever hangs reads nothing from it.
        with tempfile.NamedTemporaryFile() as file:
            pickle.dump(case, file)
            file.flush()
            try:
                self.process.stdin.write(file.name + "\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                pass  # it has ended, which reading tells
            found = self._receive(self.limit)
        return Answer(CRASHED, found) if isinstance(found, str) else Answer(**found)

    def close(self) -> None:
        """End the process."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):  # it has not read all of a test
                    pipe.close()
        self.process = None

    def _receive(self, limit: float) -> dict[str, Any] | str:
        """The next line, or why there is none; the process has ended then."""
        assert self.process
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], limit)[0]:
            self.close()
            return f"no answer for {limit:g} seconds"
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            self.close()
            return f"the process ended with status {status}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def run(case: Case, engine: str) -> Answer:
    """Run one test in this process."""
    start = time.perf_counter()
    answer = _run(case, engine)
    answer.seconds = time.perf_counter() - start
    return answer


def _run(case: Case, engine: str) -> Answer:
    try:
        opened: Opened = opener(engine)(case.model)
    except Exception as error:  # whatever an engine raises is the answer
        return Answer(REFUSED, described(error))
    host = list(opened.host)
    for inputs, expected in case.data_sets():
        try:
            results = opened.run(inputs)
        except Exception as error:
            return Answer(FAILED, described(error), host)
        try:
            case.check(results, expected)
        except AssertionError as error:
            return Answer(WRONG, described(error), host)
    return Answer(PASSED, "", host)


def described(error: BaseException) -> str:
    """The error on one line, not too long."""
    words = " ".join(str(error).split())
    return (
        words if isinstance(error, AssertionError) and words else f"{type(error).__name__}: {words}"
    )[:300]


def main(engine: str) -> None:
    """Serve."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints goes to standard error, not between the answers
    print(json.dumps({"started": os.getpid()}), file=answers, flush=True)
    for line in sys.stdin:
        case: Case = pickle.loads(Path(line.rstrip("\n")).read_bytes())
        print(json.dumps(asdict(run(case, engine))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
