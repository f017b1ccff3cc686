"""Compiled models under sanitizers. AddressSanitizer and UBSan: every buffer lies in memory of its
own, so that an access outside of a tensor is reported wherever it falls. ThreadSanitizer: memory is
that of the product, work is spread over the threads however little it is, and neighbouring pieces
of it are by different threads, so that one element that two threads touch is reported whoever was
first.

GCC is needed, and Linux. What runs is the C interface that everybody calls, in a process of its
own. Models that are built together are one source file, in which kernels that they share are
instrumented once.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from infuse.build.library import make_library
from infuse.build.processes import environment
from infuse.build.toolchain import Sanitizer, Toolchain
from infuse.errors import ToolchainError
from infuse.lowering.memory import isolated_plan, plan
from infuse.lowering.metadata import metadata
from infuse.lowering.program import Program
from infuse.lowering.weights import write_weights
from infuse.runtime.folder import LIBRARY, SOURCE
from infuse.targets import KERNELS, Target
from infuse.targets.cpu.emit.source import print_sources
from infuse.targets.text.interface import header

Feeds = Mapping[str, NDArray[Any]]
SECONDS = 20
"""How long one run may take; code that is watched is about ten times as slow."""
_OPTIONS = ":".join(
    (
        "halt_on_error=0",
        "detect_leaks=0",
        "allocator_may_return_null=1",
        "max_allocation_size_mb=512",
        "max_malloc_fill_size=1073741824",
    )
)
_RACES = "halt_on_error=0:exitcode=0:ignore_noninstrumented_modules=1:history_size=4"
_LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}


@dataclass(frozen=True)
class Outcome:
    """What a run did: it gave `outputs`, or failed with `error`; `report` is what the sanitizers
    had to say.
    """

    outputs: Sequence[NDArray[Any]] | None = None
    error: str = ""
    report: str = ""


@dataclass(frozen=True)
class Instrumented:
    """One of the models of a folder, by the prefix of its functions."""

    folder: Path
    prefix: str
    sanitizer: Sanitizer = "address"


@dataclass
class Job:
    """A compiled model and the inputs of its runs; afterwards with an outcome for each."""

    model: Instrumented
    feeds: Sequence[Feeds]
    outcomes: list[Outcome] = field(default_factory=list)


def compiler(sanitizer: Sanitizer = "address") -> Toolchain:
    """The compiler with a sanitizer on; ToolchainError where there is none."""
    path = shutil.which("g++")
    if path is None or not sys.platform.startswith("linux"):
        raise ToolchainError("sanitizers are used with GCC on Linux", hint="install g++")
    return replace(Toolchain.from_command((path,)), sanitizer=sanitizer)


def under(sanitizer: Sanitizer, command: Sequence[str]) -> list[str]:
    """The command line of a process under a sanitizer, with `variables` in its environment."""
    library = _LIBRARIES[sanitizer]
    question = [compiler(sanitizer).command[0], f"-print-file-name={library}"]
    path = subprocess.run(question, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise ToolchainError(f"the compiler comes without {library}", hint=f"install {library}")
    start = str(Path(__file__).with_name("sanitized_start.py"))
    return [sys.executable, start, path, *command]


def variables(sanitizer: Sanitizer, log: Path) -> dict[str, str]:
    """What the environment of a process under a sanitizer has beside the usual; reports go to files
    `log`.NUMBER.
    """
    options = {
        "ASAN_OPTIONS": f"{_OPTIONS}:log_path={log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={log}",
    }
    if sanitizer == "thread":
        options = {"TSAN_OPTIONS": f"{_RACES}:log_path={log}"}
    return options | {"PYTHONMALLOC": "malloc"}


def build_sanitized(
    programs: Sequence[Program],
    folder: Path,
    target: str = "native",
    sanitizer: Sanitizer = "address",
) -> list[Instrumented]:
    """The programs, lowered for `target`, as one library in an empty `folder`."""
    includes: dict[str, None] = {}
    texts = []
    for number, program in enumerate(programs):
        prefix, weights = f"model{number}", program.weights
        info = metadata(program, weights.fingerprint()) | {"prefix": prefix}
        (folder / f"{prefix}.h").write_text(header(info), "utf-8")
        write_weights(folder / f"{prefix}.bin", weights, weights.bytes)
        places = isolated_plan(program) if sanitizer == "address" else plan(program)
        text = print_sources(program, places, info)[SOURCE]
        lines = text.replace('#include "model.h"', f'#include "{prefix}.h"').splitlines()
        includes |= dict.fromkeys(line for line in lines if line.startswith("#include"))
        texts += [line for line in lines if not line.startswith("#include")]
    (folder / SOURCE).write_text("\n".join([*sorted(includes), *texts, ""]), "utf-8")
    include = [KERNELS, folder]
    made, resolved = folder / LIBRARY, Target.resolve(target)
    make_library(compiler(sanitizer), [folder / SOURCE], made, target=resolved, include=include)
    return [Instrumented(folder, f"model{number}", sanitizer) for number in range(len(programs))]


def run_sanitized(jobs: Sequence[Job], seconds: float = SECONDS, threads: int = 2) -> None:
    """Run all jobs, which have one sanitizer, in processes under it, with so many threads, and fill
    in their outcomes.

    A run that ends its process, or takes longer than `seconds`, is reported as such, and the next
    one goes on.
    """
    with tempfile.TemporaryDirectory(prefix="infuse-sanitized-") as name:
        folder = Path(name)
        pending = [(i, j) for i, job in enumerate(jobs) for j in range(len(job.feeds))]
        for job in jobs:
            job.outcomes = [Outcome()] * len(job.feeds)
        while pending:
            done, ending = _run_once(folder, jobs, pending, seconds, threads)
            for (i, j), outcome in zip(pending, done):
                jobs[i].outcomes[j] = outcome
            pending = pending[len(done) :]
            if ending and pending:
                i, j = pending.pop(0)
                jobs[i].outcomes[j] = Outcome(error="the process ended", report=ending)


def _run_once(
    folder: Path,
    jobs: Sequence[Job],
    pending: Sequence[tuple[int, int]],
    seconds: float,
    threads: int,
) -> tuple[list[Outcome], str]:
    """The outcomes of the first pending runs, and why the process ended at the next one, "" where
    it did not.
    """
    request, log = folder / "request", folder / "log"
    work = [
        (str(jobs[i].model.folder), jobs[i].model.prefix, dict(jobs[i].feeds[j]))
        for i, j in pending
    ]
    request.write_bytes(pickle.dumps(work))
    for old in folder.glob("log.*"):
        old.unlink()
    sanitizer = jobs[pending[0][0]].model.sanitizer
    worker = [sys.executable, str(Path(__file__).with_name("sanitized_worker.py"))]
    with subprocess.Popen(
        under(sanitizer, [*worker, str(request), str(log), str(threads)]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() | os.environ | variables(sanitizer, log),
    ) as process:
        outcomes = list(_outcomes(process, seconds))
        status = process.wait()
        said = b"" if process.stderr is None else process.stderr.read()
    if len(outcomes) == len(pending):
        return outcomes, ""
    words = "".join(path.read_text("utf-8", "replace") for path in folder.glob("log.*"))[-4000:]
    return (
        outcomes,
        f"ended with status {status}\n{said.decode('utf-8', 'replace')[-2000:]}\n{words}",
    )


def _outcomes(process: subprocess.Popen[bytes], seconds: float) -> Iterator[Outcome]:
    """What the process tells, until it ends or is too slow."""
    assert process.stdout is not None
    while True:
        timer = threading.Timer(seconds + 20, process.kill)
        timer.start()
        try:
            yield Outcome(*pickle.load(process.stdout))
        except EOFError:
            return
        finally:
            timer.cancel()


def reports(jobs: Sequence[Job]) -> list[tuple[Job, int, str]]:
    """The runs of which the sanitizers had something to say."""
    return [(job, i, o.report) for job in jobs for i, o in enumerate(job.outcomes) if o.report]


__all__ = [
    "Feeds",
    "Instrumented",
    "Job",
    "Outcome",
    "build_sanitized",
    "compiler",
    "reports",
    "run_sanitized",
    "under",
    "variables",
]
