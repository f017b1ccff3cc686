"""What a server is started with, and how load is sent to one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from infuse.errors import OptionError
from infuse.options.fields import Checked, documented, numbers, option, refusal

TOKEN_VARIABLE: Final = "INFUSE_TOKEN"  # noqa: S105 (the name of a variable)
DEFAULT_CALLERS: Final = "1,2,4,8"
ADMIN_URL: Final = "http://127.0.0.1:8002"
MOST_CONNECTIONS: Final = 1024
"""At once, to one server."""
_LAST_PORT: Final = 65535


@documented
@dataclass(frozen=True)
class ServerChanges(Checked):
    """Fields of a server's configuration that its command sets."""

    host: str | None = option(
        None,
        "HTTP and gRPC listen there; otherwise, as changes always do, on 127.0.0.1.",
        metavar="ADDRESS",
    )
    http_port: int | None = option(None, "By default 8000.", metavar="N", least=0, most=_LAST_PORT)
    grpc_port: int | None = option(None, "By default 8001.", metavar="N", least=0, most=_LAST_PORT)
    admin_port: int | None = option(
        None,
        "Metrics, console, changes: by default 8002.",
        metavar="N",
        least=0,
        most=_LAST_PORT,
    )
    control: str | None = option(
        None,
        "poll (look for changes), explicit (load what is asked for) or none.",
        metavar="HOW",
    )
    models: Sequence[str] | None = option(
        None,
        "With explicit control, load this at the start.",
        flag="--model",
        metavar="NAME",
        form="texts",
    )
    workers: str | None = option(
        None, "process (each version in workers) or inprocess.", metavar="MODE"
    )
    settings: Sequence[str] | None = option(
        None,
        "A field of the configuration, as limits.request_bytes=1000.",
        flag="--set",
        metavar="FIELD=VALUE",
        form="texts",
    )
    insecure: bool = option(
        False, "Listen to other machines without tokens or client certificates."
    )

    def to_dict(self) -> dict[str, Any]:
        """What is set but for `settings`, by the path of the field: `http.port`."""
        every = {
            "control": self.control,
            "models": self.models,
            "workers.mode": self.workers,
            "http.port": self.http_port,
            "grpc.port": self.grpc_port,
            "admin.port": self.admin_port,
            "http.host": self.host,
            "grpc.host": self.host,
            "security.insecure": self.insecure or None,
        }
        return {path: value for path, value in every.items() if value is not None}


@documented
@dataclass(frozen=True)
class Certificates(Checked):
    """PEM files of a caller: authorities that are trusted (none: those of the system), and its own
    certificate with its key.
    """

    authorities: Path | None = option(
        None,
        "Authorities whose certificates are trusted (PEM); by default the system's.",
        flag="--ca",
        metavar="FILE",
    )
    certificate: Path | None = option(
        None, "The certificate that is shown to the server (PEM).", metavar="FILE"
    )
    key: Path | None = option(None, "The key of --certificate (PEM).", metavar="FILE")

    @property
    def are_named(self) -> bool:
        """Whether there is any."""
        return any(getattr(self, each.name) is not None for each in fields(self))


@documented
@dataclass(frozen=True)
class RolloutOptions(Checked):
    """How a rollout goes, or what is done to the one under way."""

    steps: str | Sequence[float] = option(
        "", "Shares of the traffic, as 0.05,0.25,1; by default the model's.", metavar="SHARES"
    )
    step_seconds: float | None = option(None, "How long each step is held.", metavar="S")
    promote: bool = option(False, "Give the new version all traffic now.")
    pause: bool = option(False, "Hold the rollout at its share.")
    resume: bool = option(False, "Let a paused rollout go on.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._shares()
        if self.promote + self.pause + self.resume > 1:
            raise OptionError("a version, --promote, --pause and --resume exclude each other")

    @property
    def verb(self) -> str:
        """What is done to the rollout under way; empty for nothing."""
        verbs = ("promote", "pause", "resume")
        return next((verb for verb in verbs if getattr(self, verb)), "")

    @property
    def canary(self) -> dict[str, float | list[float]]:
        """The fields of a canary that are set."""
        seconds = {} if self.step_seconds is None else {"step_seconds": self.step_seconds}
        return ({"steps": self._shares()} if self.steps else {}) | seconds

    def _shares(self) -> list[float]:
        """The shares. OptionError for a text that is no list of numbers."""
        parts = self.steps.split(",") if isinstance(self.steps, str) else self.steps
        try:
            return [float(part) for part in parts] if self.steps else []
        except ValueError:
            what = f"{self.steps!r} is not a list of shares"
            raise refusal("steps", what, "write it as 0.05,0.25,1") from None


@documented
@dataclass(frozen=True)
class CallOptions(Checked):
    """How a served model is called."""

    version: str = option("", "A version, in place of the server's choice.")
    json_tensors: bool = option(False, "HTTP: tensors as JSON, in place of binary.")
    token: str | None = option(
        None,
        f"The bearer token; by default that in ${TOKEN_VARIABLE}.",
        metavar="TOKEN",
    )
    timeout: float = option(60.0, "The longest that an answer may take.", metavar="S", least=0.001)

    @property
    def secret(self) -> str:
        """The token, that of the environment where none is set; empty for none."""
        return os.environ.get(TOKEN_VARIABLE, "") if self.token is None else self.token


@documented
@dataclass(frozen=True)
class RequestOptions(Checked):
    """The sizes of random inputs of a served model."""

    batch: int | None = option(None, "Examples in a request.", metavar="N", least=1)
    dims: Mapping[str, int] | None = option(
        None,
        "Size of a dynamic axis of random inputs, named INPUT.AXIS, as image.2=224; default: 1 for "
        "the first, else 32.",
        flag="--dim",
        metavar="NAME=SIZE",
        form="sizes",
    )

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of dynamic axes that are set."""
        return dict(self.dims or {})


@documented
@dataclass(frozen=True)
class LoadPlan(Checked):
    """Levels of load in their order: those of `callers`, closed loops, before those of `rates`,
    open ones.
    """

    callers: str | Sequence[int] | None = option(
        None,
        "So many callers, each of whom waits for an answer before the next request; by default "
        f"{DEFAULT_CALLERS}, one level after the other.",
        flag="--concurrency",
        metavar="COUNTS",
    )
    rates: str | Sequence[float] | None = option(
        None,
        "So many requests a second at random times, whether or not answers come, as 100,200; "
        "latencies count from the time at which a request was to be sent.",
        flag="--rate",
        metavar="RATES",
    )
    seconds: float = option(10.0, "Length of each level.", least=0.01)
    warm_up: float = option(1.0, "Seconds of the same load before each level.", least=0)
    processes: int = option(1, "Processes that send the load together.", metavar="N", least=1)
    seed: int = option(0, "Seed of random inputs.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._levels()

    @property
    def loads(self) -> list[tuple[int, float]]:
        """The callers and the rate of each level; 0 callers for a rate."""
        return self._levels()

    def _levels(self) -> list[tuple[int, float]]:
        """What `loads` gives. OptionError for texts that are no lists of numbers."""
        rates = () if self.rates is None else numbers("rates", self.rates)
        usual = () if rates else numbers("callers", DEFAULT_CALLERS)
        callers = usual if self.callers is None else numbers("callers", self.callers)
        if any(count % 1 or count > MOST_CONNECTIONS for count in callers):
            what = f"{self.callers!r} is not a list of counts up to {MOST_CONNECTIONS}"
            raise refusal("callers", what, f"write it as {DEFAULT_CALLERS}")
        return [*((int(count), 0.0) for count in callers), *((0, rate) for rate in rates)]

    @property
    def connections(self) -> int:
        """How many of them a client needs."""
        return max(callers or MOST_CONNECTIONS for callers, _ in self.loads)
