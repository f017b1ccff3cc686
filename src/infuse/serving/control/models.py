"""One model of the repository: which of its versions are served, and how one set of them becomes
another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from infuse.errors import ConfigurationError, InfuseError, RepositoryError, UnavailableError
from infuse.serving.control.failures import Failure, Failures
from infuse.serving.control.model_config import ModelConfig, VersionPolicy
from infuse.serving.control.repository import ModelFiles
from infuse.serving.control.rollout import Traffic
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.version import Version
from infuse.serving.messages import InferRequest

_log = logging.getLogger("infuse.serving")

# Parts of a configuration that change where requests go, and not how a version runs.
_TRAFFIC: Final = (
    "name",
    "version_policy",
    "labels",
    "split",
    "sticky",
    "shadow",
    "canary",
    "load_order",
    "objectives",
)

Loader = Callable[["ServedModel", int], Awaitable[Version]]


class ServedModel:
    """A model by its name. `wanted`: whether it is to be loaded at all; `served`: whether it was,
    since it is wanted.

    `load` makes a version or raises; `ended` is told of versions that were unloaded.
    """

    def __init__(
        self, files: ModelFiles, load: Loader, ended: Callable[[Version], None], journal: Journal
    ) -> None:
        self.name = files.name
        self.files = files
        self.requested = False
        self.served = False
        self.problem = ""
        self.versions: dict[int, Version] = {}
        self.loading: dict[int, str] = {}  # keys by version
        self.leaving: dict[int, Version] = {}
        self.failures = Failures()
        self.override: ModelFiles | None = None
        self.lock = asyncio.Lock()
        self.traffic = Traffic(
            files.name,
            ModelConfig(),
            self.loaded,
            lambda: list(self.files.versions),
            version=self._loaded_version,
        )
        self._load = load
        self._ended = ended
        self._journal = journal
        self._keys: dict[int, str] = {}
        self._initial = True
        self.update(files)

    @property
    def config(self) -> ModelConfig:
        """Its configuration."""
        return self.files.config

    def _loaded_version(self, number: int) -> Version | None:
        return self.versions.get(number)

    @property
    def ready(self) -> bool:
        """Whether it answers requests: some version serves."""
        return any(version.serving for version in self.versions.values())

    @property
    def holds_out(self) -> bool:
        """Whether requests are taken by some version, if only once a lost worker is replaced."""
        return any(version.holds_out for version in self.versions.values())

    def version(self, version: str = "") -> Version:
        """The loaded version of a number or label; empty: the one that serves. NotFoundError,
        UnavailableError.
        """
        if not self.versions:
            raise self._unavailable()
        return self.versions[self.traffic.selection.resolve(version)]

    def choose(self, request: InferRequest) -> Version:
        """The version that answers a request."""
        if not self.versions:
            raise self._unavailable()
        return self.versions[self.traffic.selection.choose(request)]

    def update(self, files: ModelFiles) -> None:
        """Take what the repository says now. A broken configuration changes nothing of what
        serves.
        """
        problem = files.problem
        try:
            if not problem:
                self.traffic.configure(files.config)
        except ConfigurationError as error:
            problem = str(error)
        if not (problem and self.versions):
            self.files = files
        self._note_problem(problem)

    def _note_problem(self, problem: str) -> None:
        """Remember what is wrong with all of the model, and tell it once."""
        if problem and problem != self.problem:
            self._journal.emit("load_failed", model=self.name, reason=problem)
        self.problem = problem

    def targets(self, stable: Callable[[ModelFiles, int], bool]) -> dict[int, str]:
        """The versions that should serve, and their keys: what the policy says, and what the
        traffic needs.
        """
        if not self.requested:
            return {}
        if self.problem:
            return dict(self._keys)
        there = [
            number
            for number in self.files.versions
            if number in self.versions or (stable(self.files, number) and not self._failed(number))
        ]
        chosen = {
            *chosen_by(self.config.version_policy, there),
            *(self.traffic.pinned() & set(there)),
        }
        return {
            number: self._keys[number] if self._failed(number) else self._key(number)
            for number in chosen
        }

    async def reconcile(
        self, stable: Callable[[ModelFiles, int], bool], force: bool = False
    ) -> None:
        """Load what is missing or changed and unload what is no longer wanted, in the configured
        order.

        What cannot be loaded is noted in `failures`; what served before goes on.
        """
        async with self.lock:
            if force:
                self.failures.forget(tuple(self.failures))
            targets = self.targets(stable)
            missing = [
                number for number, key in sorted(targets.items()) if self._keys.get(number) != key
            ]
            surplus = [number for number in self.versions if number not in targets]
            if self.config.load_order == "unload_first":
                await self._unload(surplus + [n for n in missing if n in self.versions])
            await asyncio.gather(*(self._bring(number, targets[number]) for number in missing))
            targets = self.targets(stable)
            await self._unload([number for number in self.versions if number not in targets])
            self._initial = self._initial and not self.versions
            self.served = self.served and self.requested

    def states(self) -> Iterable[tuple[int, str, str]]:
        """(version, state, reason) of every version, loaded or not."""
        numbers = {
            *self.files.versions,
            *self.versions,
            *self.failures,
            *self.loading,
            *self.leaving,
        }
        for number in sorted(numbers):
            failure = self.failures.get(number)
            if number in self.loading and (failure is None or failure.key != self.loading[number]):
                yield number, "LOADING", ""
            elif number in self.versions:
                version = self.versions[number]
                yield (
                    number,
                    version.state,
                    f"a change of it failed: {failure.reason}" if failure else version.reason,
                )
            elif number in self.leaving:
                yield number, "UNLOADING", ""
            elif failure is not None:
                yield number, "UNAVAILABLE", failure.reason
            else:
                files = self.files.versions.get(number)
                problem = self.problem or (files.problem if files else "")
                waiting = (
                    f"{files.unfinished} is still being copied"
                    if files and files.unfinished
                    else ""
                )
                yield number, "UNAVAILABLE" if problem else "UNKNOWN", problem or waiting

    def loaded(self) -> list[int]:
        """The versions that answer requests."""
        return [number for number, version in self.versions.items() if version.state == "READY"]

    def _key(self, number: int) -> str:
        """What a loaded version depends on: its files, its labels, and the part of the
        configuration it runs by.
        """
        plain = {k: v for k, v in msgspec.to_builtins(self.config).items() if k not in _TRAFFIC}
        files = f"{self.files.versions[number].fingerprint} {self.files.labels.fingerprint}"
        return f"{files} {msgspec.json.encode(plain, order='sorted').decode()}"

    def _failed(self, number: int) -> bool:
        return (
            number in self.failures
            and number in self.files.versions
            and self.failures.is_final(number, self._key(number))
        )

    async def _bring(self, number: int, key: str) -> None:
        fingerprint = self.files.versions[number].fingerprint
        self.loading[number] = key
        try:
            version = await self._load(self, number)
        except InfuseError as error:
            transient = (
                error.transient
                if isinstance(error, RepositoryError)
                else isinstance(error, UnavailableError)
            )
            self._note_failure(number, Failure(key, str(error), transient))
            return
        except (
            Exception
        ) as error:  # a fault of ours, or of the system, must not keep other models from loading
            failure = Failure(key, f"internal error ({type(error).__name__}: {error})", True)
            if self.failures.is_news(number, failure):
                _log.exception("model %r, version %d cannot be loaded", self.name, number)
            self._note_failure(number, failure)
            return
        finally:
            self.loading.pop(number, None)
        self.failures.forget((number,))
        old = self.versions.get(number)
        self.versions[number] = version
        self.served = True
        self._keys[number] = key
        self.traffic.version_arrived(number, fingerprint, self._initial)
        seconds = round(version.load_seconds, 3)
        self._journal.emit("loaded", model=self.name, version=number, seconds=seconds)
        if old is not None:
            await old.unload("it was replaced")
            self._ended(old)

    def _note_failure(self, number: int, failure: Failure) -> None:
        is_news = self.failures.is_news(number, failure)
        self.failures.add(number, failure)
        self.traffic.rollouts.failed(number, failure.reason)
        if is_news:
            self._journal.emit(
                "load_failed", model=self.name, version=number, reason=failure.reason
            )

    async def _unload(self, numbers: Iterable[int]) -> None:
        leaving = []
        for number in numbers:
            version = self.versions.pop(number, None)
            self._keys.pop(number, None)
            if version is not None:
                self.leaving[number] = version
                leaving.append((number, version))
        for number, version in leaving:
            await version.unload()
            self._ended(version)
            del self.leaving[number]
            self._journal.emit("unloaded", model=self.name, version=number)

    def _unavailable(self) -> InfuseError:
        reasons = [self.problem, *(failure.reason for failure in self.failures.values())]
        reason = next(filter(None, reasons), "")
        what = "it is being loaded" if self.loading else "no version of it is loaded"
        return UnavailableError(
            f"{what}{': ' + reason if reason else ''}", where=f"model {self.name!r}"
        )


def chosen_by(policy: VersionPolicy, there: Iterable[int]) -> list[int]:
    """The versions that a policy chooses of those that are there."""
    numbers = sorted(there)
    if policy.all:
        return numbers
    if policy.specific:
        return [number for number in numbers if number in policy.specific]
    return numbers[-(policy.latest or 1) :]
