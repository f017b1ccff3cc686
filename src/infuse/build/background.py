"""Native code for a model that answers already: another process compiles it, and the model changes
to it between two calls.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import filelock

from infuse.build.processes import Background
from infuse.build.toolchain import Toolchain
from infuse.errors import CompileError, InfuseError, ToolchainError
from infuse.ir.file import save
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.runtime.extensions import is_extended
from infuse.runtime.folder import STAGES
from infuse.runtime.hosted import HostedModel
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel
from infuse.runtime.places import cache_root
from infuse.runtime.swapping import SwappingModel
from infuse.targets import Target

GRAPH: Final = "graph.infuse"
OPTIONS: Final = "options"
MODEL: Final = "model"
ANSWER: Final = "answer.json"
"""Files of the folder that the two processes share."""
LOCK: Final = "background.lock"
"""Held by the one process of this user that has a model compiled in the background."""
_MODULE: Final = "infuse.build.background_process"
_MOST_SECONDS: Final = 3600.0
_WAIT_SECONDS: Final = 0.2
_FIRST_CALL_SECONDS: Final = 1.0
"""For so long, compiling lets the first call go first."""
_log = logging.getLogger("infuse")


@dataclass(frozen=True)
class Job:
    """What is to be compiled: the optimized graph, and the options. `compile` does that in this
    process, where the program extends Infuse and another process need not be able to.
    """

    optimized: Callable[[], Graph]
    options: CompileOptions
    compile: Callable[[Graph, CompileOptions], Model]

    @cached_property
    def graph(self) -> Graph:
        """The graph, once it is needed."""
        return self.optimized()


class BackgroundCompilation:
    """Compiles a job for a model, in a thread that waits for another process. Ends without a word
    when the model is closed, or used no more.
    """

    def __init__(self, model: SwappingModel, job: Job) -> None:
        self._job = replace(job, options=replace(job.options, compile="wait"))
        self._model, self._name = weakref.ref(model), model.name
        self._finalizer = weakref.finalize(model, self._stop)
        self._finalizer.atexit = False
        self._is_done = False
        _pending.add(self)
        self.start()

    def start(self) -> None:
        """Begin, also again: in a child after a fork, which has no threads of its parent."""
        self._is_stopped = threading.Event()
        self._process: Background | None = None
        if not self._is_done:
            threading.Thread(target=self._work, name="infuse-compile", daemon=True).start()

    def _stop(self) -> None:
        self._is_stopped.set()
        if self._process is not None:
            self._process.kill()

    @property
    def _goes_on(self) -> bool:
        model = self._model()
        return not self._is_stopped.is_set() and model is not None and not model.is_closed

    def _work(self) -> None:
        if model := self._model():
            model.sample(_FIRST_CALL_SECONDS)
        del model
        try:
            compiled = self._compiled() if self._is_possible() else None
        except (InfuseError, OSError, pickle.PicklingError) as error:
            self._warn(f"compiling in the background failed: {error}")
            self._stays(str(error))
        else:
            if compiled is not None:
                self._swap(compiled)
        self._is_done = True
        del self._job  # this lives as long as the model, which needs no graph with its weights

    def _is_possible(self) -> bool:
        """Whether the model is of use, and a compiler is installed. ToolchainError where the one
        that is asked for fails.
        """
        if not self._goes_on:
            return False
        try:
            Toolchain.find(Target.resolve(self._job.options.target))
        except ToolchainError as error:
            if os.environ.get("CXX"):
                raise
            self._stays(str(error))
            return False
        return True

    def _compiled(self) -> Model | None:
        """The model; None where it is of use no more."""
        with _turn(lambda: self._goes_on), tempfile.TemporaryDirectory(prefix="infuse-") as name:
            if not self._goes_on:
                return None
            if is_extended():
                return self._job.compile(self._job.graph, self._job.options)
            return self._from_process(Path(name))

    def _from_process(self, folder: Path) -> Model | None:
        """What a process of its own compiles; None where it is of use no more."""
        save(self._job.graph, folder / GRAPH)
        (folder / OPTIONS).write_bytes(pickle.dumps(self._job.options))
        command = (sys.executable, "-m", _MODULE, str(folder))
        self._process = Background(command, folder)
        timer = threading.Timer(_MOST_SECONDS, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            is_ended = self._process.succeeds()
        finally:
            timer.cancel()
        if not self._goes_on:
            return None
        try:
            answer = json.loads((folder / ANSWER).read_bytes())
        except (OSError, ValueError) as error:
            how = "ended without an answer" if is_ended else "crashed, or took an hour"
            raise CompileError(f"the process that compiles {how}") from error
        if "error" in answer:
            raise CompileError(answer["error"])
        return self._loaded(Path(answer["folder"]), folder)

    def _loaded(self, made: Path, folder: Path) -> Model:
        threads = self._job.options.threads
        if folder not in made.parents:
            return CompiledModel.load(made, threads)
        # It is in no cache: the model is the only one that has it.
        own = Path(tempfile.mkdtemp(prefix="infuse-"))
        shutil.move(made, own / MODEL)
        kind = HostedModel if (own / MODEL / STAGES).is_file() else CompiledModel
        model: Model = kind.load(own / MODEL, threads)
        weakref.finalize(model, shutil.rmtree, own, ignore_errors=True)
        return model

    def _swap(self, compiled: Model) -> None:
        while self._goes_on:
            model = self._model()
            sample = model.sample(_WAIT_SECONDS) if model is not None else None
            if model is None or sample is None:
                del model
                continue
            what = "" if model.is_random else sample.difference(compiled, self._job.options.bound)
            if not what:
                model.swap(compiled)
                _log.info("%s: compiled code answers from now on", model.name)
                return
            self._warn(
                f"compiled code gives another answer than prebuilt kernels, which stay: {what}"
            )
            self._stays(f"of compiled code {what}")
            break
        compiled.close()

    def _stays(self, why: str) -> None:
        model = self._model()
        if model is not None and self._goes_on:
            _log.info("%s: prebuilt kernels stay: %s", model.name, why)
            model.stays(why)

    def _warn(self, text: str) -> None:
        if self._goes_on:
            warnings.warn(f"{self._name}: {text}", RuntimeWarning, stacklevel=2)


def compiled_later(first: Model, job: Job) -> SwappingModel:
    """A model that is `first` until the job is done, which begins now."""
    model = SwappingModel(first)
    BackgroundCompilation(model, job)
    return model


_pending: weakref.WeakSet[BackgroundCompilation] = weakref.WeakSet()


def _after_fork() -> None:
    for compilation in list(_pending):
        compilation.start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def _turn(goes_on: Callable[[], bool]) -> Iterator[None]:
    """Held by one process at a time of those that share a cache, once it is this one's turn, or
    it does not go on. Where the cache cannot be written, there are no turns.
    """
    lock = filelock.FileLock(cache_root() / LOCK)
    try:
        while goes_on():
            try:
                lock.acquire(timeout=_WAIT_SECONDS)
                break
            except filelock.Timeout:
                continue
            except OSError:
                break
        yield
    finally:
        lock.release(force=True)
