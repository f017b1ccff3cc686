"""An engine whose models are texts: `times 3` multiplies its rows, anything else cannot be loaded.

Repository, lifecycle, traffic and pipelines are the real ones; only the compiler and the workers
are left out, so that tests of the lifecycle take milliseconds and can hold up a load or a run.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from infuse.errors import (
    ModelFileError,
    UnavailableError,
)
from infuse.serving.config import ServerConfig
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.reading import convert
from infuse.serving.control.telemetry.statistics import VersionStatistics
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, InferResponse, Tensor

ALL = {"version_policy": {"all": True}}


class Gates:
    """What is held up: loads of a model ("load NAME") and runs of it ("run NAME")."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self.arrived: Counter[str] = Counter()

    def hold(self, name: str) -> None:
        self._events[name] = asyncio.Event()

    def release(self, name: str) -> None:
        self._events.pop(name).set()

    async def passes(self, name: str) -> None:
        self.arrived[name] += 1
        event = self._events.get(name)
        if event is not None:
            await event.wait()


class TextVersion:
    """A version whose model is a text."""

    gates = Gates()
    batched = True
    threads = rows_waiting = restarts = weights_bytes = 0
    most_rows = 1
    load_seconds = 0.0
    instances: tuple[Any, ...] = ()
    parts: tuple[str, ...] = ()

    def __init__(
        self, name: str, number: int, config: ModelConfig, local: Any, pool: Any, **_: Any
    ) -> None:
        self.retained_files = [local]
        self.name, self.number, self.config = name, number, config
        self.state, self.reason = "LOADING", ""
        self.statistics = VersionStatistics(name, number)
        self.notes: list[str] = []
        self.running = 0
        self.times: Mapping[int, float] = {}
        self.replicas: Mapping[str, int] = {}
        self._text = local.main.read_text()
        self._factor = 0.0

    where = property(lambda self: f"model {self.name!r}, version {self.number}")
    serving = holds_out = property(lambda self: self.state == "READY")

    async def load(self, cache: Path, *, waits: bool) -> None:
        await self.gates.passes(f"load {self.name}")
        word, _, number = self._text.partition(" ")
        if word != "times":
            raise ModelFileError(f"{self._text!r} is not a model")
        self._factor = float(number)
        self.state = "READY"

    async def unload(self, why: str = "it was unloaded") -> None:
        self.state = "UNLOADING"
        while self.running:
            await asyncio.sleep(0.001)
        self.state, self.reason = "UNAVAILABLE", why

    def abort(self, why: str) -> None:
        self.state, self.reason = "UNAVAILABLE", why

    async def infer(self, request: InferRequest) -> tuple[InferResponse, int]:
        if self.state == "UNAVAILABLE":
            raise UnavailableError("it does not serve now", where=self.where)
        self.running += 1
        try:
            await self.gates.passes(f"run {self.name}")
        finally:
            self.running -= 1
        data = request.inputs[0].data * np.float32(self._factor)
        return InferResponse(
            self.name, str(self.number), request.id, [Tensor("y", "FP32", data)]
        ), 1

    def described(self, inputs: bool) -> list[dict[str, Any]]:
        return [{"name": "x" if inputs else "y", "datatype": "FP32", "shape": [-1]}]

    def pending(self) -> int:
        return 0


class Stage:
    """A repository on disk and an engine over it."""

    def __init__(self, folder: Path) -> None:
        self.models = folder / "models"
        self.models.mkdir()
        self.folder = folder
        self.gates = Gates()

    def write(self, name: str, number: int | str = 1, text: str = "times 2") -> None:
        """A version; it appears as a whole."""
        made = self.folder / "made"
        made.mkdir()
        (made / "model.onnx").write_text(text)
        (made / "_SUCCESS").touch()
        (self.models / name).mkdir(exist_ok=True)
        shutil.rmtree(self.models / name / str(number), ignore_errors=True)
        made.rename(self.models / name / str(number))

    def configure(self, name: str, text: str = "", **config: Any) -> None:
        file = self.folder / "config.yaml"
        file.write_text(text or yaml.safe_dump(config))
        (self.models / name).mkdir(exist_ok=True)
        file.rename(self.models / name / "config.yaml")

    def chain(self, name: str, *models: str) -> None:
        """A pipeline of these models, one after the other."""
        port = {"datatype": "FP32", "shape": [-1]}
        steps = [
            {"model": model, "inputs": {"x": f"v{k}"}, "outputs": {"y": f"v{k + 1}"}}
            for k, model in enumerate(models)
        ]
        steps[0]["inputs"], steps[-1]["outputs"] = {"x": "x"}, {"y": "y"}
        config = {
            "inputs": [{"name": "x", **port}],
            "outputs": [{"name": "y", **port}],
            "steps": steps,
        }
        (self.models / name / "1").mkdir(parents=True)
        (self.models / name / "1" / "_SUCCESS").touch()
        self.configure(name, pipeline=config)

    def remove(self, *path: str) -> None:
        """A model, or a part of one; it disappears as a whole."""
        place = self.models.joinpath(*path)
        gone = self.folder / "gone"
        place.rename(gone)
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()

    def engine(self, **config: Any) -> Engine:
        plain = {
            "control": "poll",
            "poll_seconds": 0.02,
            "workers": {"mode": "inprocess"},
            **config,
        }
        places = {"repository": str(self.models), "cache": str(self.folder / "cache")}
        return Engine(convert(ServerConfig, {**places, **plain}, "test"))


async def ask(engine: Engine, model: str, version: int | str = "") -> tuple[str, float]:
    """The version that answered, and what it made of 1."""
    tensor = Tensor("x", "FP32", np.ones(1, np.float32))
    response = await engine.infer(InferRequest(model, version=str(version), inputs=[tensor]))
    return response.version, float(response.outputs[0].data[0])


async def until(holds: Callable[[], bool]) -> None:
    """Return when it holds; TimeoutError when it does not in a long while."""
    limit = time.monotonic() + 60
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError
        await asyncio.sleep(0.005)


def ready(engine: Engine, model: str, *versions: int | str) -> list[bool]:
    """Which of the versions answer."""
    return [is_ready(engine, model, str(version)) for version in versions or ("",)]


def is_ready(engine: Engine, model: str, version: str = "") -> bool:
    from infuse.errors import NotFoundError

    try:
        return engine.model_ready(model, version)
    except NotFoundError:
        return False


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(tmp_path)
    monkeypatch.setattr("infuse.serving.engine.loading.ServedVersion", TextVersion)
    monkeypatch.setattr(TextVersion, "gates", made.gates)
    return made
