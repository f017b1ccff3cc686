"""One engine with one model in a process of its own, driven by JSON lines over pipes.

The far side opens the model and sends what that cost. Then it reads {"do": "time", "seconds": s,
"least": n} and sends the seconds of every run, or reads {"do": "answer", "file": path} and writes
the outputs there. A failure is sent as {"error": text}.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.engines import ENGINES, PRECISIONS, Arrays, Engine
from benchmarks.inputs import load_arrays, make_inputs
from benchmarks.measure import repeat
from benchmarks.process import peak_bytes

TIMEOUT = 600
SETTLE = 0.1
"""Seconds before each turn: ONNX Runtime's threads go on spinning for some 40 ms after a run, on a
processor that the next engine needs.
"""
ROOT = Path(__file__).resolve().parent.parent


class WorkerError(RuntimeError):
    """An engine could not do what it was asked."""


class Worker:
    """This side of the pipes; a context manager that ends the process. WorkerError where the engine
    fails.

    `inputs` is a file with the arrays to run on; without it the far side makes them of the model
    and `dims`. With `checkout`, the far side is that of another checkout of this project; `cache`
    is where compiled models are kept.
    """

    def __init__(
        self,
        engine: str,
        model: Path,
        threads: int,
        dims: dict[str, int],
        precision: str = "fp32",
        inputs: Path | None = None,
        checkout: Path = ROOT,
        cache: Path | None = None,
    ) -> None:
        arguments = [
            engine,
            str(model),
            str(threads),
            json.dumps(dims),
            precision,
            *([str(inputs)] if inputs else []),
        ]
        command = [sys.executable, "-m", "benchmarks.worker", *arguments]
        pipe = subprocess.PIPE
        variables = {} if checkout == ROOT else {"PYTHONPATH": str(checkout / "src")}
        variables |= {} if cache is None else {"INFUSE_CACHE": str(cache)}
        self.process = subprocess.Popen(
            command, cwd=checkout, env=os.environ | variables, stdin=pipe, stdout=pipe, text=True
        )
        try:
            self.facts: dict[str, float] = self._receive()
        except WorkerError:
            self.close()
            raise

    def time(self, seconds: float, least: int) -> list[float]:
        """Seconds of each run, for at least that long and that often, after a warm-up."""
        times: list[float] = self._ask({"do": "time", "seconds": seconds, "least": least})["times"]
        return times

    def answer(self, file: Path) -> Arrays:
        """The outputs, by way of a file; completes `facts`."""
        told = self._ask({"do": "answer", "file": str(file)})
        self.facts = told["facts"]
        with np.load(file) as saved:
            return {name: saved[f"arr_{i}"] for i, name in enumerate(told["names"])}

    def close(self) -> None:
        """End the process."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(f"the process ended with status {self.process.wait()}") from None
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
            self.process.kill()
            raise WorkerError(f"no answer for {TIMEOUT} seconds")
        line = self.process.stdout.readline()
        if not line:
            raise WorkerError(f"the process ended with status {self.process.wait()}")
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise WorkerError(message["error"])
        return message


def alternate(
    workers: Mapping[str, Worker], errors: dict[str, str], rounds: int, seconds: float, least: int
) -> dict[str, list[float]]:
    """Seconds of all runs, the engines taking turns (`Worker.time`) with SETTLE seconds between
    them; `errors` says why one dropped out.
    """
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name in list(times):
            time.sleep(SETTLE)
            try:
                times[name] += workers[name].time(seconds, least)
            except WorkerError as error:
                errors[name] = str(error)
                del times[name]
    return times


def serve(engine: Engine, inputs: Arrays, answers: TextIO) -> None:
    """Answer every line of standard input until it ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "time":
            reply(
                answers,
                {"times": repeat(lambda: engine.run(inputs), message["seconds"], message["least"])},
            )
        else:
            outputs = engine.answer(inputs)
            np.savez(message["file"], *outputs.values())
            reply(
                answers,
                {"names": list(outputs), "facts": engine.facts | {"peak_rss_bytes": peak_bytes()}},
            )


def reply(answers: TextIO, message: dict[str, Any]) -> None:
    """Send one line."""
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def main(
    name: str, model: str, threads: str, dims: str, precision: str = "fp32", file: str = ""
) -> int:
    """Open the model, say what that cost, serve."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints goes to standard error, not between the answers
    try:
        inputs = load_arrays(Path(file)) if file else make_inputs(Path(model), json.loads(dims))
        if precision != "fp32" and name not in PRECISIONS.get(precision, ()):
            raise ValueError(f"it is not measured in {precision}")
        chosen = {} if precision == "fp32" else {"precision": precision}
        engine: Engine = ENGINES[name](Path(model), int(threads), **chosen)
        reply(answers, engine.facts)
        serve(engine, inputs, answers)
    except Exception as error:  # whatever an engine raises is its answer
        reply(answers, {"error": f"{type(error).__name__}: {error}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
