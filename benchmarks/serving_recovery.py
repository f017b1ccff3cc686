"""Closed loops of callers while workers are killed, stopped and started again: is everybody
answered in time?

`python -m benchmarks.serving_recovery [--minutes 1] [--callers 6] [--seconds 30] [--seed 0] [--json
FILE]`

An engine in its default configuration serves one model whose runs take some 30 ms; each caller asks
again as soon as it is answered, and each request allows `--seconds`. At random moments a worker is
killed or stopped (it is taken for hung then), or the model is loaded anew. Nobody else asks: a
request that is forgotten is noticed. Exit status 1 where an answer is wrong, or missing at its
deadline.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import machine, options, serving_faults, terminal
from infuse.errors import InfuseError
from infuse.serving.config import ServerConfig, Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor

MODEL = "slow"
DEEDS = ("kill", "kill", "stop", "reload")
"""What is done at random, some of it more often."""
_GRACE = 30.0  # seconds after its deadline, at which a request counts as forgotten
_HONEST = ("was lost 2 times", "cannot be started again")  # errors that a loss may have


@dataclass
class Tally:
    """What was seen: right answers, honest errors by their text, and whatever must not be."""

    right: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    deeds: Counter[str] = field(default_factory=Counter)

    @property
    def answered(self) -> int:
        """Requests that were answered as they may be."""
        return self.right + self.errors.total()


class Torment:
    """Callers of an engine, and what is done to it. Each request allows `seconds`."""

    def __init__(self, engine: Engine, callers: int, seconds: float, seed: int = 0) -> None:
        self.tally = Tally()
        self._engine = engine
        self._seconds = seconds
        self._random = random.Random(seed)
        self._over = False
        self._bag: list[str] = []  # what is done before anything is done again
        self._callers = [
            asyncio.create_task(self._call(number, callers)) for number in range(callers)
        ]

    async def run(self, deeds: int = 0, seconds: float = 0.0) -> Tally:
        """Do so many deeds, or do them for so many seconds; callers must be answered after each."""
        limit = time.monotonic() + seconds
        while not self.tally.faults and (
            self.tally.deeds.total() < deeds or time.monotonic() < limit
        ):
            if not self._bag:
                self._bag = self._random.sample(DEEDS, len(DEEDS))
            await self._deed(self._bag.pop())
            await self._progress()
            await asyncio.sleep(self._random.random() / 2)
        self._over = True
        await asyncio.gather(*self._callers)
        return self.tally

    async def _deed(self, kind: str) -> None:
        self.tally.deeds[kind] += 1
        if kind == "reload":
            try:
                await self._engine.admin.load(MODEL)
            except InfuseError as error:  # it may be told that a worker was lost meanwhile
                self.tally.errors[type(error).__name__] += 1
            return
        pids = [worker.pid for worker in self._engine.pool.workers if worker.alive]
        if pids:
            os.kill(self._random.choice(pids), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)

    async def _progress(self) -> None:
        """Wait until every caller may have been answered twice."""
        goal = self.tally.answered + 2 * len(self._callers)
        limit = time.monotonic() + 2 * self._seconds
        while self.tally.answered < goal and not self.tally.faults:
            if time.monotonic() > limit:
                self.tally.faults.append(
                    f"only {self.tally.answered} of {goal} answers in {2 * self._seconds:g} s"
                )
            await asyncio.sleep(0.01)

    async def _call(self, number: int, step: int) -> None:
        while not self._over:
            number += step
            value = float(number % 2**20)  # exact in float32
            tensor = Tensor("x", "FP32", np.full((1, 4), value, np.float32))
            request = InferRequest(
                MODEL, inputs=[tensor], deadline=time.monotonic() + self._seconds
            )
            try:
                answer = await asyncio.wait_for(self._engine.infer(request), self._seconds + _GRACE)
            except InfuseError as error:
                if any(text in error.what for text in _HONEST):
                    self.tally.errors[type(error).__name__] += 1
                else:
                    self.tally.faults.append(str(error))
            except asyncio.TimeoutError:
                self.tally.faults.append(f"a request waits {_GRACE:g} s after its deadline")
            else:
                if answer.outputs[0].data[0, 0] == value + 1:
                    self.tally.right += 1
                else:
                    self.tally.faults.append(f"{value} + 1 is not {answer.outputs[0].data[0, 0]}")


async def torment(
    folder: Path, callers: int, seconds: float, seed: int, deeds: int, lasting: float
) -> Tally:
    """Serve the model from `folder`, and torment the engine for `deeds`, or for `lasting`
    seconds.
    """
    place = folder / "models" / MODEL / "1"
    place.mkdir(parents=True)
    (place / "model.onnx").write_bytes(serving_faults.model("slow", 1))
    config = ServerConfig(
        repository=str(folder / "models"), cache=folder / "cache", workers=Workers()
    )
    async with Engine(config) as engine:
        return await Torment(engine, callers, seconds, seed).run(deeds, lasting)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = options.parser("Check that everybody is answered in time while workers are lost.")
    made.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    made.add_argument("--callers", type=int, default=6, help="at once (default: 6)")
    made.add_argument(
        "--seconds", type=float, default=30.0, help="that a request allows (default: 30)"
    )
    made.add_argument("--seed", type=int, default=0, help="(default: 0)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run, print, save."""
    chosen = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        work = torment(
            Path(folder), chosen.callers, chosen.seconds, chosen.seed, 0, 60 * chosen.minutes
        )
        tally = asyncio.run(work)
    console = terminal.console()
    console.print(
        f"{tally.right} right answers, errors: {dict(tally.errors)}, deeds: {dict(tally.deeds)}"
    )
    for fault in tally.faults:
        console.print(fault, markup=False, highlight=False)
    if chosen.json:
        counts = {"right": tally.right, "errors": dict(tally.errors), "deeds": dict(tally.deeds)}
        machine.save(chosen.json, {"minutes": chosen.minutes, "faults": tally.faults} | counts)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
